"""Tasks to steps: a plan asks for calls one after another and ends with what there is to say.

A plan is a generator. It depends on nothing but its task, the tools and what its calls came to, so that it can be
played again from the beginning whenever the model is asked anew.
"""

from typing import assert_never

from toolcrib.backends.providers.offline.tasks import (
    Compare,
    Delegate,
    List,
    Names,
    Read,
    Refuse,
    Replace,
    Run,
    Search,
    Talk,
    Task,
    Write,
)

from .agents import delegate
from .changes import refuse, replace, write
from .commands import run
from .desk import Desk, Plan
from .folders import list_folder, names
from .reading import compare, read
from .search import search
from .talk import CONNECT, FOOTER, talk

__all__ = ["CONNECT", "FOOTER", "Desk", "Plan", "plan_of"]


def plan_of(task: Task, desk: Desk) -> Plan:
    """Return how a task is done with the tools on the desk."""
    match task:
        case List():
            return list_folder(task, desk)
        case Names():
            return names(task, desk)
        case Search():
            return search(task, desk)
        case Read():
            return read(task, desk)
        case Compare():
            return compare(task, desk)
        case Write():
            return write(task, desk)
        case Replace():
            return replace(task, desk)
        case Refuse():
            return refuse(task, desk)
        case Run():
            return run(task, desk)
        case Talk():
            return talk(task, desk)
        case Delegate():
            return delegate(task, desk)
    assert_never(task)
