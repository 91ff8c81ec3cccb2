"""A policy tried before it counts: what no caller may ever have, and what another policy would change. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product

from toolcrib.define import session
from toolcrib.define.caller import Caller
from toolcrib.define.tool import Tool
from toolcrib.define.verdict import ANY_CALL, ArgumentRule, Decision, Selection, Verdict
from toolcrib.lazy import dataclass, field, replace

from .callers import join_halves, list_speakers
from .chats import TOPIC, chat_layers
from .gate import Facts, gate
from .identities import NAMES, name_value, sender_key
from .match import Groups, Inventory, list_meant
from .resolve import GroupChat, ResolvedCaller, is_among, is_owner, resolve
from .settings import PolicySettings

ToolOutcome = tuple[Decision, frozenset[tuple[Decision, str, str]]]
"""The decision on a tool, and the entries by which a call of it gets another one, or who answers: what it leads to, the
entry, and for one that permits where it stands (each list is an AND)."""

_NO_CONDITIONS: ToolOutcome = ("deny", frozenset())
_RANKS: Mapping[Decision, int] = {"allow": 0, "ask": 1, "deny": 2}
rank = _RANKS.__getitem__


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """That no caller ever has what an entry means, `excepting` some: `owner`, or senders as rules write them.

    With a channel it is about all who speak there; with a group, in it, and without a channel in any that has rules.
    """

    entry: str
    excepting: tuple[str, ...] = ()
    channel: str | None = None
    group: str | None = None

    def covers(self, who: ResolvedCaller) -> bool:
        """Tell whether the claim is about this caller."""
        return self._is_there(who) and not any(_is_excepted(who, each, self.channel) for each in self.excepting)

    def _is_there(self, who: ResolvedCaller) -> bool:
        if who.caller.channel is not None:  # it speaks there, wherever its parents did
            who = replace(who, parents=(), caller=replace(who.caller, parents=()))
        channel = session.to_channel(self.channel or "")
        if self.group is None:
            return channel is None or channel in (*(chat.channel for chat in who.chats), *who.direct_channels)
        wanted = (channel,) if channel else who.settings.channels
        return any(chat.channel in wanted and self._is_group(chat) for chat in who.chats)

    def _is_group(self, chat: GroupChat) -> bool:
        own = (self.group or "").strip().lower()
        return chat.id == own or (TOPIC.fullmatch(chat.id) is not None and chat.id.partition(":")[0] == own)


def _is_excepted(who: ResolvedCaller, written: str, channel: str | None) -> bool:
    if written == "owner":  # an owner is the same person where a program says that they do not act as one
        return who.is_owner or is_owner(who.settings, replace(who.caller, owner=None))
    key, only = sender_key(written), [*who.settings.channels] if len(who.settings.channels) == 1 else [None]
    places = {None, session.to_channel(channel or "") or only[0]}
    return any(is_among(who.settings, who.caller, [written], at=each) for each in places) or (
        key.kind in NAMES and name_value(who.caller.sender, key.kind) == key.value
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One policy over the tools there are; `belt_for` is the gate as calls meet it."""

    settings: PolicySettings
    tools: Mapping[str, Tool]
    groups: Groups
    belt_for: Callable[[Caller], Selection] = field(repr=False)

    @property
    def needs(self) -> frozenset[str]:
        """What the tools require."""
        return frozenset(need for tool in self.tools.values() for need in tool.requires)

    def judge_speaker(self, caller: Caller) -> Selection:
        """Return the selection for a speaker, whatever the place and the owner."""
        return self.belt_for(replace(caller, owner=True))

    def judge_places(self, places: Sequence[Caller]) -> list[Selection]:
        """Return the selection for each place, for every speaker."""
        made: dict[object, Selection] = {}
        found, met, named = list[Selection](), self.needs, frozenset((*self.tools, "group:plugins"))
        for who in (resolve(self.settings, place) for place in places):
            layers, owner = tuple(chat_layers(who)), who.is_owner
            if (layers, owner) not in made:
                facts = Facts(owner=owner, host=met, mentions=named)
                made[layers, owner] = gate(self.tools, self.groups, layers, facts)
            found.append(made[layers, owner])
        return found


def decide(belt: Selection, name: str) -> Decision:
    """Return the decision on a tool; one that is not there is denied."""
    verdict: Verdict | None = belt.verdicts.get(name) if name in belt.tools else None
    return verdict.decision if verdict else "deny"


def say(belt: Selection, name: str) -> ToolOutcome:
    """Return what a belt says of a tool and of its calls."""
    tool = belt.tools.get(name)
    if tool is None:
        return _NO_CONDITIONS
    rules, decision = belt.rules_about(tool) if belt.rules_about else None, belt.verdicts[name].decision
    conditions = rules.conditions if rules else ()
    found = {(means, rule, origin if means == "allow" else "") for means, rule, origin in conditions}
    if decision == "ask":  # by rules that ask about every call: who may answer is what they say of it
        found |= {("ask", str(ArgumentRule("ask", name, ANY_CALL, each)), "") for each in belt.says_about(name)}
    return decision, frozenset(found)


def _join(one: ToolOutcome, other: ToolOutcome) -> ToolOutcome:
    decision = max(one[0], other[0], key=rank)
    return _NO_CONDITIONS if decision == "deny" else (decision, one[1] | other[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Whether a claim holds for all `classes` of callers, and a caller for whom it does not hold, if any."""

    classes: int
    counterexample: tuple[Caller, Verdict] | None = None


def prove(claim: Claim, trial: Trial, people: Sequence[Caller]) -> Proof:
    """Return whether no caller has what the claim says; `people` are all that the rules distinguish."""
    settings = trial.settings
    people = [each for each in people if claim.covers(resolve(settings, each))]
    speakers = list_speakers([settings], trial.needs)
    spoken, placed = [trial.judge_speaker(each) for each in speakers], trial.judge_places(people)
    found: tuple[Caller, Verdict] | None = None
    for name in sorted(list_meant(claim.entry, Inventory(trial.tools, trial.groups))):
        free = [(who, got) for who, belt in zip(speakers, spoken, strict=True) if (got := decide(belt, name)) != "deny"]
        there = [(who, got) for who, belt in zip(people, placed, strict=True) if (got := decide(belt, name)) != "deny"]
        for (place, one), (speaker, other) in product(there, free):
            if found and "ask" in (one, other):
                continue
            caller = join_halves([settings], speaker, place)
            verdict: Verdict = trial.belt_for(caller).verdicts[name]
            if verdict.decision == "deny" or not claim.covers(resolve(settings, caller)):
                continue  # nobody can be both
            found = (caller, verdict)
            if verdict.decision == "allow":
                return Proof(classes=len(speakers) * len(people), counterexample=found)
    return Proof(classes=len(speakers) * len(people), counterexample=found)


def find_masked_changes(before: Trial, after: Trial, people: Sequence[Caller]) -> Iterator[tuple[str, Caller]]:
    """Yield every tool on which two policies differ for some caller, with one such caller.

    One for each way in which it changes: what one caller loses does not hide what another gets.
    """
    both = (before.settings, after.settings)
    speakers = list_speakers(both, before.needs | after.needs, subagents=True)
    spoken = [(before.judge_speaker(each), after.judge_speaker(each)) for each in speakers]
    placed = list(zip(before.judge_places(people), after.judge_places(people), strict=True))
    for name in dict.fromkeys((*before.tools, *after.tools)):
        halves = []
        for callers, belts in ((speakers, spoken), (people, placed)):
            pairs = [(say(old, name), say(new, name)) for old, new in belts]
            halves.append(dict(zip(reversed(pairs), reversed(callers), strict=True)))  # of those alike, the first
        found = dict[tuple[Decision, Decision], Caller]()
        for speaker, place in product(*(half.items() for half in halves)):
            old, new = (_join(speaker[0][at], place[0][at]) for at in (0, 1))
            if old != new and (old[0], new[0]) not in found:
                found[old[0], new[0]] = join_halves(both, speaker[1], place[1])
        yield from ((name, each) for each in found.values())
