"""Audit: whether the record is whole and true, and what it says.

Rows that were altered, dropped, moved or put in are named by their numbers, calls that started and never finished are
listed, and on request every decision is derived again from what it was made from.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Annotated, Any, Literal

import orjson
from pydantic import Field

from toolcrib.define.caller import Caller
from toolcrib.define.errors import ToolError
from toolcrib.define.ports import rpc
from toolcrib.define.record import NOTHING, Head, Row, Rows, hash_after
from toolcrib.define.session import to_channel
from toolcrib.lazy import asdict, dataclass, field
from toolcrib.policy.identities import sender_key

from .feature import Core, Feature

Wrong = Literal["altered", "dropped", "reordered", "inserted", "unreadable", "unpermitted", "differs"]

Judge = Callable[[Mapping[str, Any]], str]
"""Says how a recorded decision differs from the one that is derived again; "" when it does not."""

Rederive = Callable[[Mapping[str, Any]], Judge]
"""Makes a judge from recorded grounds; ValueError when they cannot be read."""

_KINDS = (
    "opened",
    "decided",
    "shadowed",
    "judged",
    "answered",
    "granted",
    "revoked",
    "enrolled",
    "started",
    "finished",
    "completed",
)
_PAGE = 1000  # rows that are read at once
_MAX_CALLS = 100_000
_BEHIND, _SEARCHED_PAGES = 10_000, 50  # rows behind a call that tell of it; pages that one search reads
_START = -(1 << 63)
_END = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class RecordFault:
    """What is wrong with one row, or with several that are missing; `row` is 0 for the record as a whole."""

    row: int
    wrong: Wrong
    sentence: str


@dataclass(frozen=True, slots=True)
class Open:
    """A call that started and has no outcome: it runs still, or nobody knows what became of it."""

    row: int
    call: str
    tool: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was found. `hash` is that of the last row: kept elsewhere, it proves that nothing before it was changed."""

    count: int
    first: int
    hash: str
    findings: tuple[RecordFault, ...]
    uncertain: tuple[Open, ...]
    decisions: int
    derived: int

    def to_json(self) -> dict[str, Any]:
        """Return the report as a door shows it."""
        report = asdict(self)
        return {"rows": report.pop("count"), **report}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditQuery:
    """Which calls are searched for; "" is any."""

    text: Annotated[str, Field(max_length=256, description="words in its arguments, reason, caller or error")] = ""
    tool: str = ""
    session: str = ""
    decision: Annotated[str, "allow, ask, deny or unknown"] = ""
    outcome: Annotated[str, "ok, error, none or uncertain"] = ""
    sender: Annotated[str, "like id:7"] = ""
    since: Annotated[float, "in seconds since 1970"] = 0.0
    before: Annotated[int, Field(ge=1, description="the `next` of the answer before")] | None = None
    limit: Annotated[int, Field(ge=1, le=500)] = 50

    def select(self) -> dict[str, str]:
        """Return what has to be the same."""
        return {name: getattr(self, name) for name in ("tool", "session", "decision", "outcome")}


def verify(
    rows: Iterable[Row], head: Head | None = None, *, expect: str = "", rederive: Rederive | None = None
) -> Report:
    """Check rows as they stand there. Without a head they are part of a record: they may begin anywhere and end early.

    `expect` is a hash that one of them has to have; with `rederive`, every decision is derived again.
    """
    check = _Check(expect, rederive, is_file=head is None, anchor=head.anchor if head else None)
    for row in rows:
        check.take(row)
    return check.finish(head)


def mount(core: Core, rederive: Rederive) -> Feature:
    """Mount the look at the record, where there is one that can be read back."""
    rows = core.stores.rows
    return Feature() if rows is None else Feature(services=(Audit(rows, is_owner=core.is_owner, rederive=rederive),))


class Audit:
    """The record, looked at. Only the owner may ask for it over a wire."""

    def __init__(self, rows: Rows, *, is_owner: Callable[[Caller], bool], rederive: Rederive | None = None) -> None:
        self._rows, self._is_owner, self._rederive = rows, is_owner, rederive

    async def verify(self, *, expect: str = "", replay: bool = False) -> Report:
        """Check the whole record as it stands now."""
        head = await self._rows.head()
        check = _Check(expect, self._rederive if replay else None, False, head.anchor if head else None)
        last, at = head.last if head else _END, _START
        while rows := await self._rows.after(at, _PAGE):
            for row in rows:
                if row.seq <= last:  # those behind it came while we looked
                    check.take(row)
            at = rows[-1].seq
            if at >= last:
                break
        return check.finish(head or Head(-1, "", 0))

    async def calls(
        self, *, most: int = 20, since: float = 0.0, sender: str = "", **wanted: str
    ) -> list[dict[str, Any]]:
        """Return the last calls that were decided, newest last, each with its verdict and what came of it.

        Only those since a time, of a sender (`id:7`), and with this `session`, `tool` and `decision`.
        """
        found: list[dict[str, Any]] = []
        async for call, _ in self._walk(_END):
            if call is None:
                continue
            if len(found) >= most or call["at"] < since:
                break
            if _matches(call, sender, wanted):
                found.append(call)
        return found[::-1]

    async def find_call(self, row: int) -> dict[str, Any] | None:
        """Return the call that a row decides, None where it decides none."""
        async for call, number in self._walk(row + 1):
            return call if call is not None and number == row else None
        return None

    async def _walk(self, before: int) -> AsyncIterator[tuple[dict[str, Any] | None, int]]:
        """Yield the calls that were decided before a row, the latest first, each with its row; None ends each page.

        What came of a call stands behind its decision, so some rows behind are looked at first.
        """
        later: dict[str, dict[str, Any]] = {}
        at, behind = before, list[Row]()
        while before < _END and len(behind) < _BEHIND:
            if not (rows := await self._rows.after(behind[-1].seq if behind else at - 1, _PAGE)):
                break
            behind += rows
        for row in reversed(behind):
            _note_later(later, *_read(row))
        while rows := await self._rows.before(at, _PAGE):
            for row in rows:
                kind, body = _read(row)
                if kind == "decided":
                    yield _render_call(row, body, later.pop(_call_key(body), {})), row.seq
                else:
                    _note_later(later, kind, body)
            at = rows[-1].seq
            yield None, at

    @rpc("audit.tail", clients="read", tools="admin", why="own")
    async def tail(  # noqa: PLR0913  each by name, and all have a default
        self,
        caller: Caller,
        most: Annotated[int, "how many calls"] = 20,
        session: Annotated[str, "only those of this session"] = "",
        tool: Annotated[str, "only those of this tool"] = "",
        decision: Annotated[str, "only those that were decided so: allow, ask, deny or unknown"] = "",
        sender: Annotated[str, "only those of this sender, like id:7"] = "",
        since: Annotated[float, "only those since then, in seconds since 1970"] = 0.0,
    ) -> list[dict[str, Any]]:
        """List the last calls with their verdicts and outcomes; for the owner only."""
        if caller.parents or not self._is_owner(caller):
            raise ToolError("the record is for the owner only", code="denied")
        wanted = {"session": session, "tool": tool, "decision": decision}
        return await self.calls(most=max(1, min(most, _MAX_CALLS)), since=since, sender=sender, **wanted)

    @rpc("audit.search", clients="admin")
    async def search(self, query: AuditQuery) -> dict[str, Any]:
        """Search the record: the latest calls first, and `next` where more may follow; ask for it as `before`."""
        found, wanted, words = list[dict[str, Any]](), query.select(), query.text.lower()
        scanned = 0
        async for call, row in self._walk(query.before or _END):
            if call is None:
                scanned += 1
                if scanned >= _SEARCHED_PAGES:
                    return {"calls": found, "next": row}
                continue
            if call["at"] < query.since:
                break
            text = orjson.dumps(call).decode().lower() if words else ""
            if _matches(call, query.sender, wanted) and words in text:
                found.append(call)
                if len(found) == query.limit:
                    return {"calls": found, "next": row}
        return {"calls": found, "next": None}

    @rpc("audit.verify", clients="admin")
    async def report(
        self,
        expect: Annotated[str, "a hash of earlier that some row must still have"] = "",
        replay: Annotated[bool, "derive every decision again"] = False,
    ) -> dict[str, Any]:
        """Find rows that were altered, dropped, moved or put in, and calls whose outcome nobody knows."""
        return (await self.verify(expect=expect, replay=replay)).to_json()


@dataclass(slots=True)
class _Check:
    """The rows that were seen so far."""

    expect: str
    rederive: Rederive | None
    is_file: bool
    anchor: tuple[int, str] | None
    is_part: bool = False  # rows before the last one were not seen
    findings: list[RecordFault] = field(default_factory=list)
    count: int = 0
    first: int = 0
    last: int = 0
    hashes: tuple[str, ...] = (NOTHING,)  # of the last row: its own and, if that is wrong, the one it should have
    hash: str = NOTHING
    gaps: list[tuple[int, int]] = field(default_factory=list)
    is_expected: bool = False
    permitted: dict[str, str] = field(default_factory=dict)  # what is known of a call: allow, ask, deny
    silent: set[str] = field(default_factory=set)  # grounds of before answers were written down
    running: dict[str, Open] = field(default_factory=dict)
    judges: dict[str, Judge] = field(default_factory=dict)
    decisions: int = 0
    derived: int = 0

    def take(self, row: Row) -> None:
        """Look at the next row."""
        if row.seq < 0 and self.is_file:
            self._flag(self.last, "unreadable", f"what stands behind row {self.last} is no row of a record")
            return
        self.count += 1
        if self.count == 1:
            self.first, self.is_part = row.seq, self.is_file and row.seq > 1
            if self.is_part:
                self.last, self.hashes = row.seq - 1, ()
        if row.seq <= self.last:
            self._check_moved(row)
            return
        if row.seq > self.last + 1:
            self.gaps.append((self.last + 1, row.seq - 1))
            self.hashes, self.is_part = (), True  # what came before it is not known
        made = [hash_after(before, row.text) for before in self.hashes]
        if is_altered := bool(made) and row.hash not in made:
            words = "does not follow from the one before it: it was altered, or that one was"
            self._flag(row.seq, "altered", f"row {row.seq} {words}")
        self.last, self.hash = row.seq, row.hash
        self.hashes = (row.hash, *(each for each in made if each != row.hash))
        self.is_expected = self.is_expected or row.hash == self.expect
        if self.anchor is not None and row.seq == self.anchor[0] and row.hash != self.anchor[1] and not is_altered:
            self._flag(row.seq, "altered", f"row {row.seq} is not the one that was acknowledged: it was written anew")
        if not self._understand(row) and not is_altered:
            self._flag(row.seq, "unreadable", f"row {row.seq} is of no kind that is known here")

    def _check_moved(self, row: Row) -> None:
        gap = next((gap for gap in self.gaps if gap[0] <= row.seq <= gap[1]), None)
        if gap is None:
            self._flag(row.seq, "inserted", f"a row {row.seq} stands behind row {self.last} and does not belong there")
            return
        self.gaps.remove(gap)
        self.gaps += [(a, b) for a, b in ((gap[0], row.seq - 1), (row.seq + 1, gap[1])) if a <= b]
        self._flag(row.seq, "reordered", f"row {row.seq} stands behind row {self.last}")

    def _understand(self, row: Row) -> bool:
        """Take in what a row says; tell whether it could be read."""
        kind, body = _read(row)
        key = _call_key(body)
        match kind:
            case "opened":
                self._open(row, body)
            case "decided":
                self.decisions += 1
                decision = str(_mapping(body.get("verdict")).get("decision"))
                is_silent = decision == "ask" and body.get("under") in self.silent
                self.permitted[key] = "allow" if is_silent else decision
                self._derive(row, body)
            case "judged" | "shadowed":
                # of the second kind nothing follows
                if body.get("decision") in ("ask", "deny") and self.permitted.get(key) != "deny":
                    self.permitted[key] = str(body["decision"])
                if "under" in body:
                    self.decisions += 1
                if "seen" in body or (kind == "shadowed" and _mapping(body.get("verdict")).get("layer") != "argument"):
                    self._derive(row, body)
            case "answered":
                if self.permitted.get(key) == "ask":
                    self.permitted[key] = "allow" if body.get("yes") is True else "deny"
            case "started":
                if self.permitted.get(key) != "allow" and not self.is_part:
                    self._flag(row.seq, "unpermitted", f"row {row.seq} starts a call that no row before it permits")
                self.running[key] = Open(row.seq, key, str(body.get("tool", "")))
            case "finished":
                self.permitted.pop(key, None)
                self.running.pop(key, None)
        return kind in _KINDS

    def _open(self, row: Row, body: Mapping[str, Any]) -> None:
        if "answers" not in _mapping(body.get("grounds")):
            self.silent.add(str(body.get("digest")))
        if self.rederive is None:
            return
        try:
            self.judges[str(body.get("digest"))] = self.rederive(body.get("grounds") or {})
        except ValueError as error:
            self._flag(row.seq, "unreadable", f"row {row.seq}: no decision can be derived from it ({error})")

    def _derive(self, row: Row, body: Mapping[str, Any]) -> None:
        if self.rederive is None:
            return
        judge = self.judges.get(str(body.get("under")))
        if judge is None:
            if not self.is_part:
                self._flag(row.seq, "differs", f"row {row.seq} names nothing before it that it was decided from")
            return
        self.derived += 1
        if how := judge(body):
            self._flag(row.seq, "differs", f"row {row.seq} says otherwise than what it was decided from: {how}")

    def finish(self, head: Head | None) -> Report:
        """Return what was found, now that all rows were seen."""
        if head is not None:
            self._compare(head)
        for first, last in self.gaps:
            self._flag(first, "dropped", f"{_rows(first, last)} missing")
        if self.expect and not self.is_expected:
            self._flag(0, "dropped", f"no row has the hash {self.expect[:64]}: the record is not the one it was of")
        return Report(
            count=self.count,
            first=self.first,
            hash=self.hash,
            findings=tuple(sorted(self.findings, key=lambda finding: finding.row)),
            uncertain=tuple(self.running.values()),
            decisions=self.decisions,
            derived=self.derived,
        )

    def _compare(self, head: Head) -> None:
        if head.count < 0:
            self._flag(0, "dropped", "the head of the record is gone, so nobody can tell whether rows are missing")
        elif self.last < head.count:
            self.gaps.append((self.last + 1, head.count))
        elif self.last > head.count:
            self._flag(head.count + 1, "inserted", f"{_rows(head.count + 1, self.last)} more than the head knows of")
        elif head.hash not in self.hashes:
            self._flag(0, "altered", "the head of the record is not that of its last row")
        if head.count >= 0 and self.anchor is None:
            self._flag(0, "dropped", "the store's anchor is gone: nobody can tell whether its end is still there")
        elif self.anchor is not None and (known := max(self.last, head.count)) < self.anchor[0]:
            self.gaps.append((known + 1, self.anchor[0]))

    def _flag(self, row: int, wrong: Wrong, sentence: str) -> None:
        self.findings.append(RecordFault(row, wrong, sentence))


def _rows(first: int, last: int) -> str:
    return f"row {first} is" if first == last else f"rows {first} to {last} are"


def _read(row: Row) -> tuple[str, Mapping[str, Any]]:
    """Return the kind and the body of a row; what cannot be read has no kind."""
    try:
        entry = orjson.loads(row.text)
    except ValueError:
        return "", {}
    body = entry.get("body") if isinstance(entry, dict) else None
    return (str(entry.get("kind")), body) if isinstance(body, dict) else ("", {})


def _call_key(body: Mapping[str, Any]) -> str:
    call = body.get("call")
    return str(call.get("key", "")) if isinstance(call, Mapping) else ""


def _render_call(row: Row, body: Mapping[str, Any], later: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    verdict, call, caller = (_mapping(body.get(name)) for name in ("verdict", "call", "caller"))
    finished, answered, judged = (later.get(kind) for kind in ("finished", "answered", "judged"))
    more = {"shadow": later["shadowed"].get("verdict")} if "shadowed" in later else {}
    if completed := later.get("completed"):
        more["completed"] = {"handle": completed.get("handle"), "by": completed.get("by")}
    if judged is not None and _rank(judged) >= _rank(verdict):
        verdict = {**verdict, **judged, "layer": judged.get("by")}  # a guard had the last word
    return {
        "row": row.seq,
        "at": orjson.loads(row.text)["at"],
        "call": _call_key(body),
        "session": caller.get("session") or "",
        "caller": caller,
        "tool": verdict.get("tool") or _text(call.get("name")),
        "args": call.get("args"),
        "decision": verdict.get("decision") or "unknown",
        "layer": verdict.get("layer"),
        "rule": verdict.get("rule"),
        "origin": verdict.get("origin"),
        "reason": verdict.get("reason") or body.get("reason") or "",
        "taint": list(body.get("taint") or ()),
        "answered": None if answered is None else {"yes": answered.get("yes"), "by": answered.get("by")},
        "grant": str(answered.get("grant") or "") if answered else "",
        "outcome": str(finished.get("status")) if finished else "uncertain" if "started" in later else "none",
        "code": str(finished.get("code")) if finished else "",
        "error": str(finished.get("error", "")) if finished else "",
        "ran": bool(finished.get("ran")) if finished else "started" in later,
        **more,
    }


def _note_later(later: dict[str, dict[str, Any]], kind: str, body: Mapping[str, Any]) -> None:
    """Keep what a row says of a call, going back from the last row."""
    key = _call_key(body)
    if kind == "judged" and key:
        seen = later.setdefault(key, {})
        if _rank(body) >= _rank(seen.get(kind, {})):
            seen[kind] = body  # the one that decided; of equals the first
    elif kind in ("finished", "completed") and key:
        later.setdefault(key, {}).setdefault(kind, body)  # the last: one that was pending ends twice
    elif kind in ("started", "answered", "shadowed") and key:
        later.setdefault(key, {})[kind] = body


def _matches(call: Mapping[str, Any], sender: str, wanted: Mapping[str, str]) -> bool:
    return all(value in ("", call[key]) for key, value in wanted.items()) and _is_by(call["caller"], sender)


def _is_by(caller: Mapping[str, Any], sender: str) -> bool:
    """Tell whether a recorded caller is the sender meant by `id:7`, or by a bare word of any kind; "" is everybody."""
    key, channel = sender_key(sender), to_channel(str(caller.get("channel") or ""))
    own = {each: str(name).lower() for each, name in _mapping(caller.get("sender")).items() if name}
    value, is_there = key.value.lower(), key.channel in ("", channel)
    return not sender or (is_there and (own.get(key.kind) == value if key.kind else value in own.values()))


def _rank(decision: Mapping[str, Any]) -> int:
    """Return how strict a word is; one that only rewrites decides nothing."""
    return {"allow": 1, "ask": 2, "deny": 3}.get(str(decision.get("decision")), 0)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    """Return a text that may have been cut."""
    return str(value.get("cut", "")) if isinstance(value, Mapping) else str(value)
