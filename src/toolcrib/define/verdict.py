"""What policy says: rules, the layers they stand in, the verdict on each tool, and the selection that is left.

`Grounds` are what verdicts are made from, so that they can be made again.
"""

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, Protocol, get_args

from toolcrib.lazy import dataclass, field

from .names import canonical
from .tool import Tool


class Grounds:
    """The settings, the tools and the host, as JSON on request.

    Every decision can be derived from them again. `digest` identifies them: equal grounds have the same one.
    """

    def __init__(self, tell: Callable[[], Mapping[str, Any]]) -> None:
        self._tell = tell

    @cached_property
    def text(self) -> str:
        """The grounds as JSON, spelled in the one way that the digest is of."""
        return json.dumps(self._tell(), separators=(",", ":"))

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Basis:
    """What a word about a call rests on: a rule and its place; it follows again from `grounds` and what was `seen`."""

    rule: str = ""
    origin: str = ""
    grounds: Grounds | None = None
    seen: Mapping[str, Any] = field(default_factory=dict)


NO_BASIS = Basis()
FIND_TOOLS = "find_tools"  # of turns alone, which do not show a model all at once
Decision = Literal["allow", "ask", "deny"]

# In the order they are judged; `source` speaks only about tools that their own plugin or server narrows, `taint` only
# about conversations that hold something from outside.
LayerName = Literal[
    "source",
    "owner",
    "requires",
    "profile",
    "provider-profile",
    "global",
    "global-provider",
    "agent",
    "agent-provider",
    "group",
    "direct",
    "role",
    "guests",
    "sandbox",
    "subagent",
    "job",
    "ask",
    "taint",
    "grant",
    "quota",
    "argument",
    "hosts",
]
LAYERS: tuple[LayerName, ...] = get_args(LayerName)


@dataclass(frozen=True, slots=True)
class Consent:
    """Who may say yes where one rule asks: so many different persons of `by`.

    `outside`: it asks because of words from outside. `runs`: about what runs programs.
    """

    by: tuple[str, ...] = ("owner",)
    count: int = 1
    outside: bool = False
    runs: bool = False

    @property
    def is_owners(self) -> bool:
        """Whether the owner is asked, and no other person."""
        return self.by == ("owner",) and self.count == 1

    @property
    def may_last(self) -> bool:
        """Whether a yes may be for later calls, too: the owner's is enough, and no word from outside is behind it."""
        return "owner" in self.by and self.count == 1 and not self.outside

    def __str__(self) -> str:
        return " or ".join(self.by) + (f" ({self.count} of them)" if self.count > 1 else "")


OWNERS_CONSENT = Consent()
ANY_CALL = "{}"  # a condition without any


@dataclass(frozen=True, slots=True)
class ArgumentRule:
    """An entry that says more than a name: the list it stands in, the tools it names, and `when`, as JSON.

    One that asks says who may answer.
    """

    kind: Literal["allow", "also", "deny", "ask"]
    tool: str
    when: str
    consent: Consent = OWNERS_CONSENT

    @property
    def is_always(self) -> bool:
        """Whether it holds whatever the arguments are."""
        return self.when == ANY_CALL

    def __str__(self) -> str:
        when = "" if self.is_always else f", when: {self.when}"
        by = "" if self.consent.by == OWNERS_CONSENT.by else f", by: [{', '.join(self.consent.by)}]"
        return f"{{tool: {self.tool}{when}{by}{f', count: {self.consent.count}' if self.consent.count > 1 else ''}}}"


@dataclass(frozen=True, slots=True)
class Rule:
    """One scope's lists. `allow` None does not limit, `()` permits nothing; `also` adds to `allow` and never limits.

    `when` are the entries of all lists that are about arguments.
    """

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    when: tuple[ArgumentRule, ...] = ()

    def of(self, *kinds: str) -> "Rule":
        """Return those of the lists that are named, and nothing of the others."""
        return Rule(
            self.allow if "allow" in kinds else None,
            self.deny if "deny" in kinds else (),
            self.ask if "ask" in kinds else (),
            self.also if "also" in kinds else (),
            tuple(each for each in self.when if each.kind in kinds) if self.when else (),
        )


@dataclass(frozen=True, slots=True)
class Layer:
    """A rule and where it came from.

    `origin` is a path in the configuration (`agents.dev.tools`) or starts with `built-in`; `note` says in words
    what the path does not show; `source` restricts the layer to tools that come from there, `spares` to all others.
    """

    name: LayerName
    origin: str
    rule: Rule
    note: str = ""
    source: str | None = None
    spares: str = ""


@dataclass(frozen=True, slots=True)
class LayerStep:
    """The decision of one layer about one tool; `rule` is the entry that decided, as it is written."""

    layer: LayerName
    origin: str | None
    decision: Decision
    rule: str | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision on one tool: which layer made it, by which entry, found where, and what would change it."""

    tool: str
    decision: Decision
    layer: LayerName | None
    rule: str | None
    origin: str | None
    reason: str
    remedy: str | None

    def __repr__(self) -> str:
        where = f" at {self.layer}" if self.layer else ""
        return f"<Verdict {self.tool}: {self.decision}{where}, {self.reason}>"


class Verdicts(Mapping[str, Verdict]):
    """A verdict for every tool that exists, each made when it is first asked for."""

    __slots__ = ("_judge", "_made", "_names")

    def __init__(self, names: Mapping[str, Any], judge: Callable[[str], Verdict]) -> None:
        self._names, self._judge = names, judge
        self._made: dict[str, Verdict] = {}

    def __getitem__(self, name: str) -> Verdict:
        made = self._made.get(name)
        if made is None:
            if name not in self._names:
                raise KeyError(name)
            made = self._made[name] = self._judge(name)
        return made

    def get(self, name: str, default: Any = None) -> Any:
        """Return the verdict, `default` when there is no such tool; every call comes this way."""
        made = self._made.get(name)
        return made if made is not None else self[name] if name in self._names else default

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class ArgumentRules(Protocol):
    """What one caller's rules say about the arguments of one tool.

    `names` are the arguments that rules look at, `paths` and `urls` what they look at as such, as `read` calls it.
    """

    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def paths(self) -> tuple[str, ...]: ...
    @property
    def urls(self) -> tuple[str, ...]: ...
    @property
    def conditions(self) -> "tuple[tuple[Decision, str, str], ...]":
        """Each with what it leads to, as it is written, and the place it stands in."""

    def passes(self, args: Mapping[str, Any], sources: Callable[[], Collection[str]]) -> bool:
        """Tell fast that no rule denies or asks about a call without places."""

    def read(self, args: Mapping[str, Any], sources: Collection[str] = (), here: Sequence[str] = ()) -> dict[str, Any]:
        """Return what the rules look at; a parameter left out has its default, `here` is the chat of the call."""

    def judge(self, values: Mapping[str, Any]) -> Verdict | None:
        """Return the verdict that denies or asks about such a call, None when there is none."""

    def list_says(self, values: Mapping[str, Any]) -> tuple[Consent, ...]:
        """Return who may answer for each rule that asks about such a call."""

    def asks_after(self, sources: Collection[str]) -> bool:
        """Tell whether an entry asks because of one of these sources, whatever the other arguments are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The tools a caller has (allowed or to be asked about), and the verdict on every tool that exists.

    `grounds` is what the verdicts were made from. `rules_about` gives the rules about a tool's arguments, None for a
    tool that has none; where nobody has any, it is None itself; `rule_grounds` is what these were made from, where that
    is something newer. `aliases` are other names of tools, each with the tool's own. `says_about` tells who may answer
    for each rule that asks about every call of a tool. `is_guests` where the caller is not the owner.
    """

    tools: Mapping[str, Tool]
    verdicts: Mapping[str, Verdict]
    steps: Callable[[str], tuple[LayerStep, ...]] = field(repr=False)
    grounds: Grounds | None = field(default=None, repr=False)
    rules_about: "Callable[[Tool], ArgumentRules | None] | None" = field(default=None, repr=False)
    aliases: Mapping[str, str] = field(default_factory=dict, repr=False)
    rule_grounds: Grounds | None = field(default=None, repr=False)
    says_about: Callable[[str], tuple[Consent, ...]] = field(default=lambda _: (OWNERS_CONSENT,), repr=False)
    is_guests: bool = False

    def find(self, text: str) -> str | None:
        """Return the own name of the tool that is meant, whoever may use it: a name that is only near means none."""
        if text in self.verdicts:
            return text
        name = canonical(text) or ""
        return name if name in self.verdicts else self.aliases.get(name)

    @property
    def shown(self) -> "tuple[Tool, ...]":
        """Those that are shown to whoever is shown all at once: one that is only declared would be called in vain."""
        return tuple(tool for name, tool in self.tools.items() if tool.has_body and name != FIND_TOOLS)
