"""The record on disk: one chain, whoever writes; no change to it stays unseen; secrets and sizes are held back."""

import asyncio
import json
import random
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from toolcrib.backends.stores.commits import Commits
from toolcrib.backends.stores.record import RecordFile, SqliteRecord, body_of, rows_in
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.define.caller import Caller
from toolcrib.define.errors import ToolError
from toolcrib.define.message import Call
from toolcrib.define.record import Decided, Finished, RecordEntry, Started
from toolcrib.define.verdict import Grounds
from toolcrib.services.audit import Report, verify

from .record_world import HISTORIES, history, keep, lines_of, meddled, verified

EVERY_DAY = settings(max_examples=100, deadline=None, derandomize=True, database=None)
SLOW = settings(EVERY_DAY, max_examples=40, suppress_health_check=list(HealthCheck))
CAMPAIGN = settings(SLOW, max_examples=3000, derandomize=False)

LAST = 26  # row of the original record


# Benign


@SLOW
@given(HISTORIES)
def test_whatever_calls_do_their_record_is_whole(entries: list[RecordEntry]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, lines = Path(folder) / "crib.db", Path(folder) / "record.jsonl"
        keep(path, entries, file=RecordFile(lines))
        opened = {entry.grounds.digest for entry in entries if isinstance(entry, Decided) and entry.grounds}
        report, copied = verified(path), verify(rows_in(lines))
        assert report.findings == copied.findings == ()
        assert report.count == copied.count == len(entries) + len(opened)
        assert report.hash == copied.hash == lines_of(path)[-1][4]
        left = {each.call.key for each in entries if isinstance(each, Started)}
        left -= {each.call.key for each in entries if isinstance(each, Finished)}
        assert {each.call for each in report.uncertain} == left


def test_entries_keep_the_order_in_which_they_were_handed_in(tmp_path: Path) -> None:
    call = Call(id="c", name="exec", key="k")
    keep(tmp_path / "crib.db", [Finished(call, f"t{at}", "ok", "", True) for at in range(300)])
    told = [json.loads(body)["tool"] for _, _, _, body, _ in lines_of(tmp_path / "crib.db")]
    assert told == [f"t{at}" for at in range(300)]


def test_what_decisions_are_made_from_is_written_once_before_the_first(tmp_path: Path) -> None:
    first, second = Grounds(lambda: {"n": 1}), Grounds(lambda: {"n": 2})
    same = Grounds(lambda: {"n": 1})
    call = Call(id="c", name="exec", key="k")
    entries = [Decided(call, Caller(), None, "", each) for each in (first, second, same, first)]
    keep(tmp_path / "crib.db", entries)
    keep(tmp_path / "crib.db", entries)  # and not again at the next start
    rows = [(kind, json.loads(body)) for _, _, kind, body, _ in lines_of(tmp_path / "crib.db")]
    kinds = ["opened", "decided", "opened", "decided", "decided", "decided", *["decided"] * 4]
    assert [kind for kind, _ in rows] == kinds
    assert rows[0][1] == {"digest": first.digest, "grounds": {"n": 1}}
    assert [body["under"] for kind, body in rows if kind == "decided"][:3] == [
        first.digest, second.digest, first.digest,
    ]  # fmt: skip


def test_nothing_recorded_is_no_finding_and_makes_no_file(tmp_path: Path) -> None:
    report = verified(tmp_path / "crib.db")
    assert (report.count, report.findings, report.uncertain) == (0, (), ())
    assert list(tmp_path.iterdir()) == []


# Tampering


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A record of some rows, in a file that nobody holds."""
    path = tmp_path_factory.mktemp("record") / "crib.db"
    keep(path, history(random.Random(7), [["ls"], "ü" * 30, 5, None, {"x": 1.5}, [], "", "z", 7, 8, 9]))
    meddled(path, ("PRAGMA journal_mode=DELETE", ()))
    assert verified(path).findings == ()
    meddled(path, ("PRAGMA journal_mode=DELETE", ()))
    return path


def flipped(chance: random.Random, value: Any) -> Any:
    """Return the value with one bit turned; text stays text."""
    if isinstance(value, int):
        return value ^ (1 << chance.randrange(20))
    if isinstance(value, float):
        return value + chance.choice([1e-6, 1.0, -1.0, 1e9])
    data = bytearray(value.encode())
    if not data:
        return "x"
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(7)
    return bytes(data)


def tampering(chance: random.Random, rows: list[tuple[Any, ...]]) -> list[tuple[str, tuple[Any, ...]]]:
    """Return one change that somebody might make to the tables."""
    seq, at, kind, body, hash = chance.choice(rows)
    match chance.randrange(9):
        case 0:
            column, value = chance.choice([("at", at), ("kind", kind), ("body", body), ("hash", hash)])
            changed = flipped(chance, value)
            how = "CAST(? AS TEXT)" if isinstance(changed, bytes) else "?"
            return [(f"UPDATE record SET {column} = {how} WHERE seq = ?", (changed, seq))]
        case 1:
            free = chance.choice([0, -3, len(rows) + 1, len(rows) + 5, 1 << 40])
            return [("UPDATE record SET seq = ? WHERE seq = ?", (free, seq))]
        case 2:
            return [("DELETE FROM record WHERE seq = ?", (seq,))]
        case 3:  # dropped, and the rest moved up
            moved = "UPDATE record SET seq = seq - 1 WHERE seq = ?"
            return [("DELETE FROM record WHERE seq = ?", (seq,))] + [
                (moved, (later,)) for later in range(seq + 1, len(rows) + 1)
            ]
        case 4:  # swapped with another, whole
            other = chance.choice([row for row in rows if row[0] != seq])
            change = "UPDATE record SET at = ?, kind = ?, body = ?, hash = ? WHERE seq = ?"
            return [(change, (*other[1:], seq)), (change, (at, kind, body, hash, other[0]))]
        case 5:  # a copy put in behind all
            return [("INSERT INTO record VALUES (?, ?, ?, ?, ?)", (len(rows) + 1, at, kind, body, hash))]
        case 6:
            return [("DELETE FROM record WHERE seq >= ?", (seq,))]
        case 7:
            return chance.choice(
                [
                    [("DELETE FROM record_head", ())],
                    [("UPDATE record_head SET count = count - ?", (chance.randrange(1, 9),))],
                    [("UPDATE record_head SET hash = ?", (chance.choice(rows[:-1])[4],))],
                ]
            )
    parts = [name for name in ("at", "kind", "body", "hash") if chance.random() < 0.6] or ["body"]
    other = chance.choice([row for row in rows if row[3] != body])
    taken = dict(zip(("seq", "at", "kind", "body", "hash"), other, strict=True))
    own = {"at": at, "kind": kind, "body": body, "hash": hash}
    if all(taken[part] == own[part] for part in parts):
        parts = ["body"]
    return [(f"UPDATE record SET {part} = ? WHERE seq = ?", (taken[part], seq)) for part in parts]


def detects(original: Path, chance: random.Random) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "crib.db"
        shutil.copy(original, path)
        steps = tampering(chance, lines_of(path))
        meddled(path, *steps)
        assert verified(path).findings != (), steps


@SLOW
@given(st.randoms(use_true_random=False))
def test_no_change_to_the_tables_stays_unseen(original: Path, chance: random.Random) -> None:
    detects(original, chance)


@pytest.mark.full
@pytest.mark.timeout(3600)
@CAMPAIGN
@given(st.randoms(use_true_random=False))
def test_none_of_three_thousand_changes_does(original: Path, chance: random.Random) -> None:
    detects(original, chance)


def named(report: Report) -> list[tuple[int, str]]:
    return [(finding.row, finding.wrong) for finding in report.findings]


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("UPDATE record SET body = replace(body, ':', ': ') WHERE seq = :last", [(LAST, "altered")]),
        ("UPDATE record SET hash = substr(hash, 2) || 'x' WHERE seq = 2", [(2, "altered")]),
        ("UPDATE record SET at = at - 60 WHERE seq = 3", [(3, "altered")]),
        ("DELETE FROM record WHERE seq BETWEEN 4 AND 6", [(4, "dropped")]),
        ("DELETE FROM record WHERE seq = :last", [(LAST, "dropped")]),
        ("INSERT INTO record SELECT :last + 1, 1.0, 'decided', '{}', hash FROM record_head",
         [(LAST + 1, "altered"), (LAST + 1, "inserted")]),
        ("DELETE FROM record_head", [(0, "dropped")]),
        ("UPDATE record_head SET hash = 'x'", [(0, "altered")]),
    ],
)  # fmt: skip
def test_what_was_done_is_named_with_its_row(
    original: Path, tmp_path: Path, sql: str, found: list[tuple[int, str]]
) -> None:
    path = tmp_path / "crib.db"
    shutil.copy(original, path)
    assert len(lines_of(path)) == LAST
    meddled(path, (sql, {"last": LAST} if ":last" in sql else ()))
    assert named(verified(path)) == found


def test_a_record_written_anew_is_told_from_the_one_whose_hash_was_kept(tmp_path: Path) -> None:
    call = Call(id="c", name="exec", key="k")
    honest = [Finished(call, f"t{at}", "ok", "", True) for at in range(5)]
    keep(tmp_path / "a.db", honest)
    hash = verified(tmp_path / "a.db").hash
    keep(tmp_path / "a.db", honest[:2])
    assert verified(tmp_path / "a.db", expect=hash).findings == (), "it went on, and that is no change"
    keep(tmp_path / "b.db", honest[:4])
    assert verified(tmp_path / "b.db").findings == (), "a whole new chain looks good in itself"
    assert named(verified(tmp_path / "b.db", expect=hash)) == [(0, "dropped")]


def test_without_its_head_nothing_is_added_to_a_record(original: Path, tmp_path: Path) -> None:
    path = tmp_path / "crib.db"
    shutil.copy(original, path)
    meddled(path, ("DELETE FROM record_head", ()))
    with pytest.raises(ToolError, match="the head of the record is gone"):
        keep(path, [Finished(Call(id="c", name="x"), "x", "ok", "", True)])


# The file of lines


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("lines")
    entries = history(random.Random(3), ["a", ["b"], {"c": 1}, 4, 5])
    keep(folder / "crib.db", entries, file=RecordFile(folder / "record.jsonl"))
    return (folder / "record.jsonl").read_bytes()


def rows_of(data: bytes) -> Report:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "record.jsonl"
        path.write_bytes(data)
        return verify(rows_in(path))


@EVERY_DAY
@given(st.data())
def test_no_change_to_a_file_of_lines_stays_unseen(lines: bytes, data: st.DataObject) -> None:
    listed = lines.splitlines(keepends=True)
    at = data.draw(st.integers(1, len(listed) - 2))
    match data.draw(st.sampled_from(["flip", "drop", "swap", "twice", "cut", "put in"])):
        case "flip":
            where = data.draw(st.integers(0, len(lines) - 1))
            changed = bytearray(lines)
            changed[where] ^= 1 << data.draw(st.integers(0, 7))
            broken = bytes(changed)
        case "drop":
            broken = b"".join(listed[:at] + listed[at + 1 :])
        case "swap":
            broken = b"".join([*listed[:at], listed[at + 1], listed[at], *listed[at + 2 :]])
        case "twice":
            broken = b"".join([*listed[: at + 1], listed[data.draw(st.integers(0, at))], *listed[at + 1 :]])
        case "cut":
            keep = data.draw(st.integers(1, len(lines) - 1).filter(lambda size: lines[size - 1 : size] != b"\n"))
            broken = lines[:keep]
        case _:
            broken = b"".join([*listed[:at], b"{}\n", *listed[at:]])
    assert rows_of(broken).findings != ()


def test_lines_that_were_moved_or_repeated_are_named(lines: bytes) -> None:
    listed = lines.splitlines(keepends=True)
    swapped = [*listed[:2], listed[3], listed[2], *listed[4:]]
    assert named(rows_of(b"".join(swapped))) == [(3, "reordered")]
    assert named(rows_of(b"".join([*listed[:4], listed[3], *listed[4:]]))) == [(4, "inserted")]
    assert named(rows_of(b"".join(listed[:2] + listed[5:]))) == [(3, "dropped")]
    assert rows_of(b"".join(listed[4:])).first == 5, "a file that was begun later is good, and says so"
    assert rows_of(b"".join(listed[4:])).findings == ()


def test_lines_that_a_crash_left_out_are_made_up_for(tmp_path: Path) -> None:
    path, file = tmp_path / "crib.db", tmp_path / "record.jsonl"
    call = Call(id="c", name="exec", key="k")
    entries: list[RecordEntry] = [Finished(call, f"t{at}", "ok", "", True) for at in range(5)]
    keep(path, entries, file=RecordFile(file))
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) * 2 // 5])  # half a line stands at its end
    keep(path, entries[:1], file=RecordFile(file))
    assert file.read_bytes().startswith(whole)
    report = verify(rows_in(file))
    assert (report.count, report.findings, report.hash) == (6, (), verified(path).hash)


def test_a_file_that_is_taken_away_is_gone_on_with(tmp_path: Path) -> None:
    file = tmp_path / "logs" / "record.jsonl"
    call = Call(id="c", name="exec", key="k")

    async def main() -> None:
        commits = Commits(SqliteFile(tmp_path / "crib.db", sync=False))
        record = SqliteRecord(commits, file=RecordFile(file))
        await record.write(Finished(call, "a", "ok", "", True))
        await asyncio.gather(*[record.write(Finished(call, "b", "ok", "", True)) for _ in range(300)])
        file.rename(file.with_suffix(".1"))
        await record.write(Finished(call, "c", "ok", "", True))
        commits.close()

    asyncio.run(main())
    old, new = verify(rows_in(file.with_suffix(".1"))), verify(rows_in(file))
    assert (old.first, old.count, new.first, new.count) == (1, 301, 302, 1)
    assert (old.findings, new.findings, new.hash) == ((), (), verified(tmp_path / "crib.db").hash)


def test_a_file_that_holds_something_else_is_left_alone_and_told(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("milk\neggs\n")
    with pytest.raises(ToolError, match="does not end with a row of a record"):
        keep(tmp_path / "crib.db", [Finished(Call(id="c", name="x"), "x", "ok", "", True)], file=RecordFile(file))
    assert file.read_text() == "milk\neggs\n"


def test_a_file_that_cannot_be_written_stops_the_call(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    with pytest.raises(ToolError, match="the record cannot be copied to 'x'"):
        keep(tmp_path / "crib.db", [Started(Call(id="c", name="x"), "x")], file=RecordFile(tmp_path / "a" / "x"))


# What is kept of a call


class Wish(BaseModel):
    size: int = 3


@dataclass
class Point:
    x: float = 1.0


def args_of(args: Mapping[str, Any], **options: Any) -> Any:
    kind, body = body_of(Started(Call(id="c", name="t", args=args, key="k"), "t"), **options)
    assert kind == "started"
    return json.loads(body)["call"]["args"]


def test_odd_arguments_are_written_as_well_as_they_can_be() -> None:
    deep: Any = "end"
    for _ in range(500):
        deep = [deep]
    ring: list[Any] = []
    ring += [ring, ring]
    assert args_of({"a": MappingProxyType({"b": {1, 2}}), "m": Wish(), "p": Point(), "n": float("nan")}) == {
        "a": {"b": [1, 2]}, "m": {"size": 3}, "p": {"x": 1.0}, "n": None,
    }  # fmt: skip
    assert args_of({"b": b"abc", "o": object(), "at": datetime(2026, 1, 1, tzinfo=UTC), "path": Path("/a")}) == {
        "b": "<3 bytes>", "o": "<object>", "at": "2026-01-01T00:00:00+00:00", "path": "/a",
    }  # fmt: skip
    odd: dict[Any, Any] = {"big": 1 << 80, "half": "a\ud800b", 5: "five"}
    assert args_of(odd) == {"big": str(1 << 80), "half": "a?b", "5": "five"}
    assert "<more>" in json.dumps(args_of({"deep": deep}))
    assert len(json.dumps(args_of({"ring": ring}))) < 10_000


def test_long_arguments_are_cut_and_their_digest_tells_them_apart() -> None:
    one, other = args_of({"text": "x" * 100_000}), args_of({"text": "x" * 99_999 + "y"})
    assert one["length"] == other["length"] == 100_011
    assert len(one["cut"]) == 4096
    assert one["cut"] == other["cut"]
    assert one["sha256"] != other["sha256"]


SECRETS = ("hunter22", 'a"b\\c\n9', "пароль1", "123456")


def redact(text: str) -> str:
    for secret in SECRETS:
        text = text.replace(secret, "…").replace(json.dumps(secret, ensure_ascii=False)[1:-1], "…")
    return text


@EVERY_DAY
@given(
    st.recursive(
        st.sampled_from(SECRETS) | st.just(123456) | st.text(max_size=5).map(lambda text: f"{text}hunter22{text}"),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", *SECRETS]), inner, max_size=3)
        ),
    ),
    st.integers(10, 200),
)
def test_no_secret_is_kept_in_any_spelling(value: Any, longest: int) -> None:
    call = Call(id="c", name="t", args={"v": value}, key="k", parse_error="hunter22")
    for entry in (Started(call, "t"), Decided(call, Caller(session="hunter22"), None, "no 'hunter22'")):
        _, body = body_of(entry, redact, longest)
        json.loads(body)
        for secret in SECRETS:
            assert secret not in body
            assert json.dumps(secret)[1:-1] not in body
            assert json.dumps(secret, ensure_ascii=False)[1:-1] not in body
