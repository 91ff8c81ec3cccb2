"""Who is asking: the typed identity that every decision is made about.

A caller has one form, whoever made it: what is absent is None, and "" is what was given and says nothing (blanks, signs
that cannot be shown, no text at all). Such a caller is nobody: no owner, and no person.
"""

from collections.abc import Mapping
from typing import Any

from toolcrib.lazy import dataclass

UNKNOWN_DOOR = "unknown"
_LISTS = ("parents", "parent_models", "made_through")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """The person behind a message. Only `id` and `e164` are identity; the other two anyone can set."""

    id: str | None = None
    e164: str | None = None
    username: str | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        _read_words(self, ("id", "e164", "username", "name"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who is asking, from where, through which model.

    `owner` True is the owner, whom nothing else makes one but being listed in the configuration as the sender; False is
    not, and None leaves it to that list. `parents` is the recorded chain of who started this
    caller, outermost first: agent ids or session keys. `parent_models` are the models that they spoke through, in the
    same order, `provider:model` each; one that is not there or "" is not known. `made_through` are the models of those
    who wanted this done later: rules about them bind whoever does it. `door` is the mark of a door of ours
    that let the caller in, a kind and what tells it from others (`device:ID`); "" for whom a program names.
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
    made_through: tuple[str, ...] = ()
    door: str = ""

    def __post_init__(self) -> None:
        _read_words(self, ("session", "agent", "provider", "model", "channel", "account", "group"))
        if self.sender is not None and not isinstance(self.sender, Sender):
            object.__setattr__(self, "sender", _NOBODY)
        if self.owner is not None and not isinstance(self.owner, bool):
            object.__setattr__(self, "owner", False)  # a word is no yes, whatever it says

    @property
    def is_nobody(self) -> bool:
        """Whether a field for who or where it is was given and is blank: such a caller is no known person."""
        return "" in (self.channel, self.account, self.group) or (
            self.sender is not None and not (self.sender.id or self.sender.e164)
        )

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> "Caller":
        """Read back what `asdict` made of a caller; of one that was kept before doors left a mark, that is unknown."""
        sender, lists = told.get("sender"), {name: tuple(told.get(name, ())) for name in _LISTS}
        door = UNKNOWN_DOOR if told.get("channel") else ""
        return cls(**{"door": door, **told, **lists, "sender": Sender(**sender) if sender else None})


def _read_words(made: Sender | Caller, names: tuple[str, ...]) -> None:
    """Give every word its one form: a whole number is text, and what cannot be read is there and says nothing."""
    for name in names:
        value = getattr(made, name)
        if value is None or (isinstance(value, str) and value.isalnum() and value.isascii()):
            continue
        if isinstance(value, int) and not isinstance(value, bool):
            object.__setattr__(made, name, str(value))
        elif not isinstance(value, str) or not _says_something(value):
            object.__setattr__(made, name, "")


def _says_something(text: str) -> bool:
    is_text = not any("\ud800" <= sign <= "\udfff" for sign in text)  # half a sign is in no text
    return is_text and any(sign.isprintable() and not sign.isspace() for sign in text)


_NOBODY = Sender(id="")

OWNER = Caller(owner=True)
"""The owner, as at the terminal: for a program that acts for no other person."""
