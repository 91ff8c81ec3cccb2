"""Who is asking: the typed identity that every decision is made about."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """The person behind a message. Only `id` and `e164` are identity; the other two anyone can set."""

    id: str | None = None
    e164: str | None = None
    username: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who is asking, from where, through which model.

    `owner` True is the owner, whom nothing else makes one but being listed in the configuration as the sender; False is
    not, and None leaves it to that list. `parents` is the recorded chain of who started this
    caller, outermost first: agent ids or session keys. `parent_models` are the models that they spoke through, in the
    same order, `provider:model` each; one that is not there or "" is not known.
    """

    session: str | None = None
    agent: str | None = None
    provider: str | None = None
    model: str | None = None
    channel: str | None = None
    account: str | None = None
    group: str | None = None
    sender: Sender | None = None
    owner: bool | None = None
    sandboxed: bool = False
    parents: tuple[str, ...] = ()
    parent_models: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> "Caller":
        """Read back what `asdict` made of a caller."""
        sender, lists = told.get("sender"), {name: tuple(told.get(name, ())) for name in ("parents", "parent_models")}
        return cls(**{**told, **lists, "sender": Sender(**sender) if sender else None})


OWNER = Caller(owner=True)
"""The owner, as at the terminal: for a program that acts for nobody else."""
