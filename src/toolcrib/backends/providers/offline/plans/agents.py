"""Plans for agents: one is asked, and what it found is told."""

from toolcrib.backends.providers.offline.answers import Answer
from toolcrib.backends.providers.offline.tasks import Delegate

from .desk import Desk, Plan, call, failure

__all__ = ["delegate"]


def delegate(task: Delegate, desk: Desk) -> Plan:
    outcome = yield from call(task.agent, **{task.takes: task.words})
    if not outcome.ok:
        return failure(f"get an answer from `{task.agent}`", outcome)
    return Answer(outcome.text)
