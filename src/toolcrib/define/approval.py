"""Approvals: what a human is asked about a call, what was answered, and where both are kept.

    pending ──▶ allowed ──▶ spent
       ├──────▶ denied
       ├──────▶ expired        not answered in time, or the answer was not used in time
       └──────▶ withdrawn      the call was cancelled

A yes is bound to a digest of everything that was shown: who asks, the tool, its checked arguments, and whatever the
asker adds (directory, environment, contents of files). The same digest means the same call, any other is another one.
"""

import hashlib
import json
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, field, fields, is_dataclass, replace
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol, Self

from pydantic import BaseModel

from toolcrib.lazy import dataclass, regex

from . import session
from .args import write_plain
from .caller import Caller
from .display import escape, escape_controls, quote
from .errors import ToolError
from .message import Call
from .verdict import OWNERS_CONSENT, Consent

State = Literal["pending", "allowed", "denied", "spent", "withdrawn", "expired"]

PENDING: tuple[State, ...] = ("pending",)

WORDS = "argv"  # what a binding calls the words of a command line, as a JSON list
CHANGE = "change"  # and what a call would change, as a head line and a diff
SESSION_END = 253_402_300_799.0  # the last second of the year 9999: no grant for a session ends before the session
SKEW = 60.0  # seconds that a clock may have been turned back; a question from further ahead is not believed


@dataclass(frozen=True, slots=True)
class Lasting:
    """What a yes for some time would be for: exactly this call, or every call that begins with the same words."""

    shown: str
    digest: str


class AskTerms(NamedTuple):
    """What a human is asked about a call: why, what the yes is bound to, and who may answer for each rule that asks."""

    reason: str
    binding: Mapping[str, str]
    says: tuple[Consent, ...] = (OWNERS_CONSENT,)


class Yes(NamedTuple):
    """One yes: by whom, which person that is ("" for the owner where that is unknown), and for which rules.

    `caller` is who gave it, for counting it again; None in rows from before that was stored.
    """

    by: str
    person: str
    is_owner: bool
    rules: tuple[int, ...]
    caller: Caller | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question about one call. `shown` is the whole of it, fit for any surface.

    `person` is whom the call is made for ("" when unknown). `says` are who may answer, `yeses` who did, and `by`
    is who settled it. With nothing in `lasting`, `once` says
    why a yes cannot be for longer than this call. `asker` is who made the call, `key` the call's own and `process` the
    one it waits in. `always` is what the configuration would have to say for it never to be asked again: the path of a
    list and the entry in it, as JSON; "" where nothing can. `mark` is what tells its own buttons from any other.
    """

    id: str
    digest: str
    tool: str
    reason: str
    shown: str
    person: str
    asked_at: float
    expires_at: float
    lasting: tuple[Lasting, ...] = ()
    once: str = ""
    state: State = "pending"
    by: str = ""
    asker: Caller | None = None
    key: str = ""
    process: str = ""
    always: str = ""
    mark: str = field(default="", repr=False)
    says: tuple[Consent, ...] = (OWNERS_CONSENT,)
    yeses: tuple[Yes, ...] = ()

    def add(self, yes: Yes) -> "Question":
        """Return the question with one more yes, allowed when that is enough for every rule that asks."""
        yeses = (*self.yeses, yes)
        is_enough = all(_count_persons(yeses, index) >= say.count for index, say in enumerate(self.says))
        by = ", ".join(dict.fromkeys(each.by for each in yeses))
        return replace(self, yeses=yeses, state="allowed" if is_enough else "pending", by=by)

    def to_json(self) -> dict[str, Any]:
        """Return the question as a door shows it."""
        return {
            "id": self.id, "tool": self.tool, "reason": self.reason, "shown": self.shown, "state": self.state,
            "askedAt": self.asked_at, "expiresAt": self.expires_at, "by": self.by,
            "lasting": [each.shown for each in self.lasting], "once": self.once,
            "always": json.loads(self.always) if self.always else None,
            "answers": [{"by": each.by, "count": each.count} for each in self.says],
            "yes": [each.by for each in self.yeses],
        }  # fmt: skip

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Self:
        """Return a question that another process sent, without what only its crib knows.

        It is not trusted: no control character in it reaches a terminal.
        """
        names = ("id", "tool", "reason", "shown", "once", "by")
        words: dict[str, Any] = {name: escape_controls(str(row[name])) for name in names}
        return cls(
            **words, digest="", person="", asked_at=row["askedAt"], expires_at=row["expiresAt"], state=row["state"],
            lasting=tuple(Lasting(escape_controls(str(shown)), "") for shown in row["lasting"]),
        )  # fmt: skip


def _count_persons(yeses: Sequence[Yes], rule: int) -> int:
    """Return how many persons approved a rule; an owner without a person may be any of these."""
    counted = [each for each in yeses if rule in each.rules]
    named = {each.person: each.is_owner for each in counted if each.person}
    return len(named) + (len(counted) > 0 and "" in {each.person for each in counted} and True not in named.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A yes that lasts until a stated time, for the calls that have its digest, and for no more than `calls_left`.

    One with a `session` ends with that. `asker` is whose calls they are, `source` where their tool is from ("" for
    any): its name may be another's one day. One with `when`, a condition of rules as JSON, is for every call whose
    arguments meet that, as far as rules ask about it; its digest is its own.
    """

    id: str
    digest: str
    tool: str
    shown: str
    person: str
    by: str
    made_at: float
    until: float
    calls_left: int | None = None
    session: str = ""
    asker: Caller | None = None
    when: str = ""
    source: str = ""

    @property
    def term(self) -> str:
        """How long it holds, in words."""
        when = datetime.fromtimestamp(self.until).astimezone().strftime("%Y-%m-%d %H:%M:%S")
        often = "" if self.calls_left is None else f", {self.calls_left} more call{'s' * (self.calls_left != 1)}"
        whole = "as long as its session" if self.session else "for good"
        return f"{whole if self.until == SESSION_END else f'until {when}'}{often}"

    def is_for(self, caller: Caller) -> bool:
        """Tell whether it is about calls of this caller."""
        return self.asker is not None and _resolve_identity(self.asker) == _resolve_identity(caller)

    def to_json(self) -> dict[str, Any]:
        """Return the grant as a door shows it."""
        return {
            "id": self.id, "tool": self.tool, "shown": self.shown, "by": self.by, "madeAt": self.made_at,
            "until": None if self.until == SESSION_END else self.until, "callsLeft": self.calls_left,
            "session": self.session or None, "when": json.loads(self.when) if self.when else None,
        }  # fmt: skip


class AnswerDesk(Protocol):
    """Whom rules have asked, each as they say; and the grants with conditions that may answer for the owner."""

    async def ask(self, caller: Caller, call: Call, asked: AskTerms, /) -> bool:
        """Return whether those who are asked say yes, on record; ToolError when there is a better word than no."""

    async def list_conditional(self, caller: Caller, tool: str, source: str, /) -> Sequence[Grant]:
        """Return those that hold now for calls of this tool, from there, by this caller."""

    async def spend(self, grant: Grant, call: Call, /) -> bool:
        """Use one for a call that meets it, on record; tell whether something of it was left."""


class ApprovalStore(Protocol):
    """Where questions and grants are kept. A method is durable when it returns, and atomic."""

    async def add(self, question: Question, /, *, most: int) -> None:
        """Keep a new question; refuse with the code `busy` when `most` of the same person's are pending already."""

    async def find(self, id: str, /) -> Question | None:
        """Return the question with this whole id."""

    async def same(self, digest: str, /, now: float, key: str = "") -> Question | None:
        """Return the newest question with this digest that is pending or allowed, and in time.

        Before all others comes one that was denied to the very call with this `key`.
        """

    async def pending(self, now: float, /, states: Collection[State] = PENDING) -> tuple[Question, ...]:
        """Return the questions that wait for an answer, or are in another of these states, oldest first."""

    async def settle(
        self, id: str, to: State, /, *, of: Collection[State], now: float | None = None, by: str = ""
    ) -> bool:
        """Move a question on if its state is one `of` these, and it is in time when there is a `now`; tell whether.

        Of all who try, at once or later, in whatever process, one succeeds.
        """

    async def say_yes(self, id: str, yes: Yes, /, *, now: float, grant: Grant | None = None) -> Question | None:
        """Add a yes to a question that is pending and in time, in one step with a grant; return it as it is then."""

    async def use_grant(self, digests: Sequence[str], /, now: float) -> Grant | None:
        """Return a grant that has one of these digests, and is in time; one for so many calls has one less then."""

    async def grants(self, now: float, /) -> tuple[Grant, ...]:
        """Return the grants that are in time, oldest first."""

    async def revoke(self, id: str, /) -> bool:
        """Forget a grant; tell whether there was one."""


def is_in_time(start: float, end: float, now: float) -> bool:
    """Tell whether `now` is before the end; a clock that was turned back must not make anything last longer."""
    return start - SKEW <= now < end


def too_many(limit: int) -> ToolError:
    """Return the error for too many open questions of one person."""
    return ToolError(f"{limit} questions are waiting for an answer already; answer or deny some first", code="busy")


def name_of(caller: Caller) -> str:
    """Return what to call a caller in one line, escaped."""
    sender = caller.sender
    who = (sender.id and f"id:{sender.id}") or (sender.e164 and f"e164:{sender.e164}") if sender else None
    parts = [("agent", caller.agent), ("session", caller.session), ("channel", caller.channel), ("group", caller.group)]
    words = [f"{what} {text}" for what, text in parts if text]
    if who:
        words.append(who)
    if caller.parents:
        words.append(f"started by {'/'.join(caller.parents)}")
    return escape(", ".join(words) or ("nobody known" if caller.is_nobody else "the terminal"))


def has_exactly(wanted: Mapping[str, Any], args: Mapping[str, Any]) -> bool:
    """Tell whether checked arguments are exactly those that an entry names."""
    return _canonical(to_plain(args)) == _canonical(wanted)


def standing_entry(caller: Caller, agent: str, call: Call) -> dict[str, Any] | None:
    """Return the entry of `approvals.always` for this call and the person behind it; None without any."""
    own = caller.sender
    who = (own.id and f"id:{own.id}") or (own.e164 and f"e164:{own.e164}") if own else None
    if caller.parents or caller.is_nobody or (caller.channel and not who):
        return None
    place = {"channel": caller.channel, "account": caller.account, "group": caller.group, "sender": who}
    named = {name: value for name, value in {"agent": agent, **place}.items() if value is not None}
    return {"tool": call.name, "args": to_plain(call.args), **named}


def digest_of(
    caller: Caller, call: Call, binding: Mapping[str, str], says: tuple[Consent, ...] = (OWNERS_CONSENT,)
) -> str:
    """Return the digest of a call by this caller, with everything it was bound to, and who may answer."""
    whole = {"caller": _identity(caller), "tool": call.name, "args": to_plain(call.args), "binding": dict(binding)}
    return _digest(whole | ({} if all(each.is_owners for each in says) else {"says": list(map(str, says))}))


def lasting_digest(caller: Caller, call: Call, binding: Mapping[str, str], source: str) -> str:
    """Return the digest of what a yes for some time is for: the call of a tool from there, whatever it changes then."""
    kept = {name: value for name, value in binding.items() if name != CHANGE}
    return _digest([digest_of(caller, call, kept), source])


def prefix_digests(caller: Caller, call: Call, binding: Mapping[str, str], line: str) -> list[tuple[list[str], str]]:
    """Return each beginning of the call's words with its digest, shortest first; none when its words are not known.

    `line` is the argument that the words stand for. All else must be the same: caller, other arguments, bindings.
    """
    try:
        words = json.loads(binding.get(WORDS, "[]"))
    except ValueError:
        return []
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        return []
    args = {name: value for name, value in to_plain(call.args).items() if name != line}
    rest = {name: value for name, value in binding.items() if name != WORDS}
    frame = {"caller": _identity(caller), "tool": call.name, "args": args, "binding": rest}
    return [
        (words[:count], _digest({**frame, "words": words[:count]})) for count in range(1, len(words[:_MAX_WORDS]) + 1)
    ]


_MAX_WORDS = 8


def sheet(caller: Caller, call: Call, reason: str, binding: Mapping[str, str], says: Iterable[Consent] = ()) -> str:
    """Return a call as a human is shown it: all of it, a line for each argument and binding, nothing unescaped."""
    lines = [f"{escape(call.name)}, asked by {name_of(caller)}", f"because {escape(reason)}"]
    lines += [f"to be allowed by {escape(str(each))}" for each in says if not each.is_owners]
    lines += [f"  {escape(name)}: {_indent(quote(value))}" for name, value in to_plain(call.args).items()]
    bound = [(name, value) for name, value in binding.items() if not (name == WORDS and _is_spelled(value, call.args))]
    bound = [each for each in bound if each[0] != CHANGE]
    lines += ["bound to"] if bound else []
    lines += [f"  {escape(name)}: {_indent(_DIGEST.sub(_SHORT, quote(value)))}" for name, value in bound]
    head, *diff = binding.get(CHANGE, "").split("\n")
    lines += [f"changes {escape(head)}", *(f"  {escape(line)}" for line in diff)] if head else []
    return "\n".join(lines)


_DIGEST, _SHORT = regex(r"\b(sha256 [0-9a-f]{12})[0-9a-f]{52}\b"), r"\1…"  # people compare no more by eye


def _is_spelled(words: str, args: Mapping[str, Any]) -> bool:
    """Tell whether an argument is these words to the letter, so that showing them apart says nothing new."""
    try:
        line = shlex.join(json.loads(words))
    except (ValueError, TypeError):
        return False
    return line in args.values()


def _indent(text: str) -> str:
    return text.replace("\n", "\n    ")


def _identity(caller: Caller) -> dict[str, Any]:
    """Return what a caller is known by, however its agent is written. Its model, its names and its door may change."""
    own = asdict(caller)
    own["agent"] = session.to_agent(caller.agent) if caller.agent else session.agent_from_key(caller.session or "")
    sender = own.pop("sender") or {}
    for name in ("provider", "model", "parent_models", "made_through", "door"):
        del own[name]
    return {**own, "sender": {"id": sender.get("id"), "e164": sender.get("e164")}}


def _resolve_identity(caller: Caller) -> dict[str, Any]:
    """Return what a caller is known by, whether or not its rights were looked up."""
    return {**_identity(caller), "owner": bool(caller.owner), "sandboxed": None}


def to_plain(value: Any) -> Any:
    """Return a checked argument as JSON, every field of it: not as a model of its own would like to be written."""
    match value := write_plain(value):
        case None | bool() | int() | float() | str():
            return value
        case Mapping():
            return {name: to_plain(each) for name, each in value.items()}
        case list() | tuple():
            return [to_plain(each) for each in value]
        case BaseModel():
            return to_plain({**value.__dict__, **(value.__pydantic_extra__ or {})})
    if is_dataclass(value):
        return {each.name: to_plain(getattr(value, each.name)) for each in fields(value)}
    raise _not_showable(f"there is no way to write down {type(value).__name__}")


def _not_showable(why: str) -> ToolError:
    return ToolError(f"the arguments cannot be shown to a human ({why})", code="not_approved")


def _digest(value: Any) -> str:
    return hashlib.sha256(_canonical(value).encode("ascii")).hexdigest()


def _canonical(value: Any) -> str:
    """Return the one way to write a JSON value."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise _not_showable(str(error)) from None
