"""A record on disk for tests: histories of calls, written by the real store, read back and tampered with."""

import asyncio
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import apsw
from hypothesis import strategies as st

from toolcrib.agent.replay import judge_from
from toolcrib.backends.stores.commits import Commits
from toolcrib.backends.stores.record import SqliteRecord, SqliteRows
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.define.caller import Caller, Sender
from toolcrib.define.message import Call
from toolcrib.define.record import Answered, Decided, Finished, Granted, RecordEntry, Revoked, Started
from toolcrib.define.verdict import Grounds, Verdict
from toolcrib.services.audit import Audit, Report

__all__ = ["HISTORIES", "audit_of", "history", "keep", "lines_of", "meddled", "verified"]

GROUNDS = [Grounds(lambda at=at: {"host": [], "number": at}) for at in range(2)]  # type: ignore[misc]  # each its own
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def history(chance: random.Random, args: Sequence[Any]) -> list[RecordEntry]:
    """Return what a crib would write down about some calls, side by side."""
    lives = [_life(chance, f"k{at}", {"a": each}) for at, each in enumerate(args)]
    written: list[RecordEntry] = []
    while lives := [life for life in lives if life]:
        written.append(chance.choice(lives).pop(0))
    return written


def _life(chance: random.Random, key: str, args: dict[str, Any]) -> list[RecordEntry]:
    call = Call(
        id=chance.choice(["c", key, "ä" * 300]), name=chance.choice(["exec", "EXEC", "\x00"]), args=args, key=key
    )
    who = chance.choice(
        [Caller(), Caller(channel="irc", sender=Sender(id="7", name="Z\u200bed"), parents=("main",), owner=False)]
    )
    grounds = chance.choice(GROUNDS)
    allow = Verdict("exec", "allow", None, None, None, "passes all 9 layers", None)
    deny = Verdict("exec", "deny", "global", "exec", "tools", "deny has 'exec' (tools)", "take it out")
    match chance.randrange(5):
        case 0:
            return [
                Decided(call, who, deny, deny.reason, grounds), Finished(call, "exec", "error", "denied", False),
            ]  # fmt: skip
        case 1:
            return [Decided(call, who, None, "no such tool", grounds), Finished(call, "x", "error", "not_found", False)]
        case 2:
            return [
                Granted("g", "q", "exec", "the terminal", 9.5, "d", "ls"),
                Decided(call, who, allow, allow.reason, grounds),
                Answered(call, "the terminal", True, grant="g", until=9.5),
                Started(call, "exec"),
                Finished(call, "exec", "ok", "", True),
                Revoked("g", "exec", "the terminal"),
            ]
        case 3:
            return [
                Decided(call, who, allow, allow.reason, grounds), Started(call, "exec"),
                Finished(call, "exec", "cancelled", "", True),
            ]  # fmt: skip
    return [Decided(call, who, allow, allow.reason, grounds), Started(call, "exec")]  # cut off


HISTORIES = st.builds(history, st.randoms(use_true_random=False), st.lists(JSON, min_size=1, max_size=8))


async def kept(path: Path, entries: Iterable[RecordEntry], **options: Any) -> None:
    commits = Commits(SqliteFile(path, sync=False))
    try:
        record = SqliteRecord(commits, **options)
        await asyncio.gather(*[record.write(entry) for entry in entries])
    finally:
        commits.close()


def keep(path: Path, entries: Iterable[RecordEntry], **options: Any) -> None:
    """Write entries, and let go of the file."""
    asyncio.run(kept(path, entries, **options))


def audit_of(file: SqliteFile) -> Audit:
    return Audit(SqliteRows(file), is_owner=lambda caller: True, rederive=judge_from)


def verified(path: Path, **options: Any) -> Report:
    """Return what is found about the record in this store."""
    file = SqliteFile(path, sync=False)
    try:
        return asyncio.run(audit_of(file).verify(**options))
    finally:
        file.close()


def lines_of(path: Path) -> list[tuple[Any, ...]]:
    db = apsw.Connection(str(path))
    try:
        return db.execute("SELECT seq, at, kind, body, hash FROM record ORDER BY seq").fetchall()
    finally:
        db.close()


def meddled(path: Path, *steps: tuple[str, Any]) -> None:
    """Change the store behind our back."""
    db = apsw.Connection(str(path))
    try:
        for sql, values in steps:
            db.execute(sql, values)
    finally:
        db.close()
