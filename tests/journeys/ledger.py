"""What must be true of a session whose crib was killed, checked against what was acknowledged and what was done."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from toolcrib.agent.session_log import recall
from toolcrib.app.stores import STATE_FILE, audit_in, state_in
from toolcrib.config.load import load
from toolcrib.define.log import Began, Ended, Line, Said, Shortened
from toolcrib.define.message import Call, Message, join_text
from toolcrib.define.result import Image

from .life import KEY, KINDS, long_text, picture

__all__ = ["Kept", "Ledger", "kept_in", "unanswered"]

_BLOB = re.compile(r"result_get with key '(\w+)'")
_NUMBER = re.compile(r"\d+\.\d+")


@dataclass(slots=True)
class Fate:
    """One call, and what the log says became of it."""

    call: Call
    begun: int = 0
    answers: list[Message] = field(default_factory=list)
    places: list[int] = field(default_factory=list)

    @property
    def number(self) -> str:
        """The number that no other call has."""
        found = _NUMBER.search(str(self.call.args.get("number") or self.call.args.get("command")))
        return found[0] if found else "?"

    @property
    def kind(self) -> str:
        """What its answer says: `open` without one, `uncertain`, `unrun`, or `result`."""
        if not self.answers:
            return "open"
        return next((kind for kind, sentence in KINDS.items() if sentence in join_text(self.answers[0])), "result")


@dataclass(frozen=True, slots=True)
class Kept:
    """What a store has after a kill: the lines, what the audit complains of, big values that an answer names."""

    lines: tuple[Line, ...]
    findings: tuple[str, ...]
    uncertain: frozenset[str]
    blobs: Mapping[str, str]


async def kept_in(folder: Path) -> Kept:
    """Return what the store in a folder has; whatever cannot be read is raised."""
    state = state_in(folder)
    try:
        lines = await state.sessions.lines(KEY)
        blobs = {key: (await state.blobs.get(key)).decode() for line in lines for key in _BLOB.findall(_told(line))}
        report = await audit_in(folder / STATE_FILE, load({}, {})).verify(replay=True)
    finally:
        await state.close()
    findings = tuple(f"row {each.row}: {each.sentence}" for each in report.findings)
    broken = tuple(f"{each.name} was set aside" for each in folder.glob("*broken*"))
    return Kept(lines, findings + broken, frozenset(each.call for each in report.uncertain), blobs)


class Ledger:
    """Remembers, over all lives of one session, what was acknowledged; says what is wrong with what is there."""

    def __init__(self) -> None:
        self.acknowledged: list[str] = []
        self.seen: Counter[str] = Counter()  # what was there to be checked, so that nothing is checked in vain
        self._before: tuple[Line, ...] = ()
        self._untold: dict[str, str] = {}  # calls without a result that no model has been told of yet
        self._is_summed_up = False  # or which may stand in a summary

    def wrong(self, said: Sequence[str], kept: Kept, effects: Sequence[str]) -> list[str]:
        """Return what is wrong after a life that said all that."""
        acknowledged = [words for words in said if words.split()[0] in ("turn", "heard", "shortened", "tool", "end")]
        self.acknowledged += acknowledged
        lines, before = kept.lines, self._before
        self._before = lines
        fates = {fate.call.key: fate for fate in _fates(lines)}
        found = [*kept.findings]
        if lines[: len(before)] != before:
            found.append("what was there before the last life is not what it was")
        if len({line.id for line in lines}) != len(lines) or len(recall(lines).path) != len(lines):
            found.append("the lines are no single chain")
        found += _lost(self.acknowledged, lines, fates)
        found += _misdone(effects, fates)
        for fate in fates.values():
            found += _misanswered(fate, kept)
        found += [f"{key} started, and is not in the log" for key in kept.uncertain - fates.keys()]
        found += _unrecalled(lines, fates)
        found += self._untold_by(said)
        self._untold = {
            **self._untold,
            **{key: "uncertain" if fate.begun else "unrun" for key, fate in fates.items() if fate.kind == "open"},
        }
        self.seen.update(words.split()[0] for words in said)
        self.seen.update(self._untold.values())
        return found

    def _untold_by(self, said: Sequence[str]) -> Iterable[str]:
        """Give the calls without a result that the model of the last life should have been told of, and was not."""
        is_asked = "asked" in said
        self._is_summed_up = self._is_summed_up or "summary" in said[: said.index("asked") if is_asked else None]
        if not is_asked:
            return
        told = {key: kind for word, key, kind in map(str.split, (each for each in said if each.startswith("told ")))}
        for key, kind in () if self._is_summed_up else self._untold.items():
            if told.get(key) != kind:
                yield f"the model was told that {key} is {told.get(key)}, and it is {kind}"
            self.seen[f"told {kind}"] += 1
        self._untold, self._is_summed_up = {}, False


def _fates(lines: Sequence[Line]) -> list[Fate]:
    """Return all calls with what became of them. Between two replies, every id belongs to one call."""
    found: list[Fate] = []
    asked: dict[str | None, Fate] = {}
    for place, line in enumerate(lines):
        match line.body:
            case Said(message=message) if message.role == "assistant":
                asked = {call.id: Fate(call) for call in message.calls}
                found += asked.values()
            case Said(message=message) if message.role == "tool":
                asked[message.call_id].answers.append(message)
                asked[message.call_id].places.append(place)
            case Began(call=call):
                asked[call.id].begun += 1
    return found


def _lost(acknowledged: Sequence[str], lines: Sequence[Line], fates: Mapping[str, Fate]) -> Iterable[str]:
    """Give what was acknowledged and is not there, not once or not in its order."""
    users: dict[str, list[int]] = {}
    ends: dict[str, list[int]] = {}
    shorter: list[int] = []
    has_ended = True
    for place, line in enumerate(lines):
        match line.body:
            case Said(message=message) if message.role == "user":
                users.setdefault(join_text(message), []).append(place)
                has_ended = has_ended and not join_text(message).startswith("message")
            case Ended(reason=reason):
                ends.setdefault(reason, []).append(place)
                if has_ended:
                    yield f"a turn ended twice, at line {place + 1}"
                has_ended = True
            case Shortened():
                shorter.append(place)
    last = -1
    for words in acknowledged:
        word, _, rest = words.partition(" ")
        places: Sequence[int] = ()
        match word:
            case "turn" | "heard":
                places = users.get(rest, ())
            case "tool":
                key, status = rest.split()
                if key in fates and [each.status for each in fates[key].answers] == [status]:
                    places = fates[key].places
            case "end":  # one of which nobody was told any more may stand before it
                places = [place for place in ends.get(rest, ()) if place > last][:1]
            case "shortened":
                places = [place for place in shorter if place > last][:1]
        if len(places) != 1:
            yield f"lost or doubled: {words!r} is there {len(places)} times"
        elif places[0] <= last:
            yield f"disordered: {words!r} stands before what was acknowledged before it"
        else:
            last = places[0]


def _misdone(effects: Sequence[str], fates: Mapping[str, Fate]) -> Iterable[str]:
    """Give what was done twice, or without it being kept first that it begins, or is said to be done and was not."""
    done = Counter(line.split()[1] for line in effects)
    yield from (f"{number} was done {times} times" for number, times in done.items() if times > 1)
    begun = {fate.number: fate for fate in fates.values() if fate.begun}
    yield from (f"{number} was done, and nothing says that it began" for number in done if number not in begun)
    for line in effects:
        key, number = line.split()
        if key != "-" and number in begun and begun[number].call.key != key:
            yield f"{number} was done under the key {key}, and began under {begun[number].call.key}"
    for fate in fates.values():
        if fate.kind == "result" and done[fate.number] != 1:
            yield f"{fate.number} has a result, and was done {done[fate.number]} times"


def _misanswered(fate: Fate, kept: Kept) -> Iterable[str]:
    """Give what an answer says that is not so."""
    if fate.begun > 1 or len(fate.answers) > 1:
        yield f"{fate.number} began {fate.begun} times and was answered {len(fate.answers)} times"
    wanted = {0: ("open", "unrun"), 1: ("open", "uncertain", "result")}
    if fate.kind not in wanted[min(fate.begun, 1)]:
        yield f"{fate.number} began {fate.begun} times, and its answer is {fate.kind}"
    if fate.kind == "result":
        answer = fate.answers[0]
        words = join_text(answer)
        if f"paid {fate.number}" not in words:
            yield f"{fate.number} was answered with {words[:80]!r}"
        match fate.call.args.get("how"):
            case "picture" if Image(picture(fate.number), "image/png") not in answer.content:
                yield f"the picture of {fate.number} is another one"
            case "long" if not any(long_text(fate.number).strip() in kept.blobs[key] for key in _BLOB.findall(words)):
                yield f"the whole text of {fate.number} is not kept"
    # the record may know a little more than the log: the outcome stands in it just before the answer does in the log
    if fate.call.key in kept.uncertain and fate.kind not in ("open", "uncertain"):
        yield f"{fate.number} is {fate.kind}, and the record says that nobody knows"


def _unrecalled(lines: Sequence[Line], fates: Mapping[str, Fate]) -> Iterable[str]:
    """Give what the next model would not be told as it is."""
    found = recall(lines)
    begun = {key for key, fate in fates.items() if fate.kind == "open" and fate.begun}
    if {call.key for call in found.uncertain} != begun:
        yield f"uncertain are {begun}, and {found.uncertain} is recalled"
    if len(found.mended) != sum(fate.kind == "open" for fate in fates.values()):
        yield f"{len(found.mended)} answers are mended"
    yield from unanswered(found.history)
    for call in found.uncertain:
        answers = [message for message in found.mended if message.call_id == call.id]
        if not any(KINDS["uncertain"] in join_text(message) for message in answers):
            yield f"nobody would be told that {call.key} is uncertain"


def unanswered(history: Iterable[Message]) -> Iterable[str]:
    """Give the places where a conversation is not whole: every call has one answer, right behind it, in its order."""
    waiting: list[Call] = []
    for message in history:
        if message.role == "tool":
            if not waiting or message.call_id != waiting.pop(0).id:
                yield f"an answer to {message.call_id} stands where none belongs"
            continue
        if waiting:
            yield f"{waiting} have no answer"
        waiting = list(message.calls)
    if waiting:
        yield f"{waiting} have no answer at the end"


def _told(line: Line) -> str:
    return join_text(line.body.message) if isinstance(line.body, Said) and line.body.message.role == "tool" else ""
