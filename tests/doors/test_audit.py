"""`toolcrib audit`: a record of real calls, checked and shown; tampering is found and told with an exit code."""

import asyncio
import json
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.doors.world import ask, crib_file, refused

import toolcrib
from toolcrib.backends.stores.anchor import Anchor
from toolcrib.define.caller import Caller, Sender
from toolcrib.define.tool import tool
from toolcrib.registry.sources import Offer


@tool(name="own", effects=set())
def own(text: str = "") -> str:
    """A tool of the program."""
    return "done"


CONFIG = {"tools": {"deny": ["ls"], "guests": "full"}}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The user's state folder, after three calls."""
    return called(tmp_path / "home" / "state" / "toolcrib", CONFIG)


def called(folder: Path, config: dict[str, Any]) -> Path:
    async def main() -> None:
        offer = Offer(source="plugin:p", tools=(own,))
        async with toolcrib.open(config, state=folder, env={}, plugins=[offer]) as crib:
            await crib.belt(Caller(session="agent:main:main")).call("own", {"text": "a"})
            await crib.belt(toolcrib.OWNER).call("ls")
            await crib.belt(toolcrib.OWNER).call("lss\x1b[31m")

    asyncio.run(main())
    return folder


def meddle(state: Path, sql: str) -> None:
    db = apsw.Connection(str(state / "crib.db"))
    db.execute(sql)
    db.close()


def test_where_nothing_was_recorded_it_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for args in (["verify"], ["verify", "--replay"], ["show"]):
        answer = ask(capsys, "audit", *args)
        assert (answer.code, answer.out, answer.err) == (0, "nothing was recorded yet\n", "")
    assert ask(capsys, "audit", "verify", "--json").json["rows"] == 0
    assert ask(capsys, "audit", "show", "--json").json == {"calls": []}
    assert not (tmp_path / "home" / "state").exists(), "to look makes nothing"


def test_a_good_record_is_called_good_with_its_hash(capsys: pytest.CaptureFixture[str], state: Path) -> None:
    answer = ask(capsys, "audit", "verify", "--replay")
    told = ask(capsys, "audit", "verify", "--replay", "--json").json
    assert answer.code == 0
    assert answer.out == (
        "3 of 3 decisions derived again\n"
        f"8 rows; 0 findings\nhash of the last row: {told['hash']}\n"
    )  # fmt: skip
    assert (told["rows"], told["decisions"], told["derived"], told["findings"], told["uncertain"]) == (8, 3, 3, [], [])
    assert ask(capsys, "audit", "verify", "--expect", told["hash"].upper()).code == 0


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("UPDATE record SET body = replace(body, 'deny', 'allow') WHERE seq = 5", "altered: row 5 does not follow"),
        ("DELETE FROM record WHERE seq = 4", "dropped: row 4 is missing"),
        ("DELETE FROM record WHERE seq > 5", "dropped: rows 6 to 8 are missing"),
        ("DELETE FROM record_head", "dropped: the head of the record is gone"),
    ],
)
def test_tampering_is_found_and_named(capsys: pytest.CaptureFixture[str], state: Path, sql: str, said: str) -> None:
    meddle(state, sql)
    answer = ask(capsys, "audit", "verify")
    assert answer.code == 1
    assert said in answer.out
    told = ask(capsys, "audit", "verify", "--json")
    assert (told.code, len(told.json["findings"])) == (1, 1)


def test_a_call_that_was_cut_off_is_listed_and_is_no_finding(capsys: pytest.CaptureFixture[str], state: Path) -> None:
    meddle(state, "DELETE FROM record WHERE seq > 3")
    meddle(state, "UPDATE record_head SET count = 3, hash = (SELECT hash FROM record WHERE seq = 3)")
    (anchor := Anchor(state / "crib.db")).path.unlink()  # what a crash leaves was never acknowledged
    anchor.open()
    anchor.close()
    answer = ask(capsys, "audit", "verify")
    assert answer.code == 0
    assert "uncertain: own in call " in answer.out
    assert "started in row 3 and has no outcome" in answer.out
    shown = ask(capsys, "audit", "show", "--json").json["calls"]
    assert [(call["outcome"], call["ran"]) for call in shown] == [("uncertain", True)]


def test_calls_are_shown_as_a_table_and_as_json(capsys: pytest.CaptureFixture[str], state: Path) -> None:
    lines = ask(capsys, "audit", "show").out.splitlines()
    assert [line.split()[0] for line in lines] == ["row", "2", "5", "7"]
    assert lines[0].split() == ["row", "time", "who", "tool", "arguments", "verdict", "because", "outcome"]
    assert "agent:main:main  own" in lines[1]
    assert "  a          allow" in lines[1]
    assert "deny has 'ls' (tools)" in lines[2]
    assert lines[2].endswith("denied")
    assert "\x1b[31m" not in lines[3]
    calls = ask(capsys, "audit", "show", "--json", "--last", "1", "--tool", "own").json["calls"]
    assert [(call["tool"], call["decision"], call["outcome"], call["args"]) for call in calls] == [
        ("own", "allow", "ok", {"text": "a"})
    ]
    assert ask(capsys, "audit", "show", "--session", "agent:dev:main").out == "no such call was recorded\n"


def test_calls_are_chosen_by_time_verdict_and_sender(capsys: pytest.CaptureFixture[str], state: Path) -> None:
    async def main() -> None:
        async with toolcrib.open(CONFIG, state=state, env={}) as crib:
            caller = Caller(channel="telegram", group="-100", sender=Sender(id="7", username="Bob"))
            await crib.belt(caller).call("read", {"path": "x" * 99})

    def tools(*options: str) -> list[str]:
        return [each["tool"] for each in ask(capsys, "audit", "show", "--json", *options).json["calls"]]

    asyncio.run(main())
    assert tools("--verdict", "deny") == ["ls"]
    assert tools("--sender", "id:7") == tools("--sender", "username:bob") == tools("--sender", "bob") == ["read"]
    assert tools("--sender", "id:8") == tools("--since", "2999-01-01") == []
    assert len(tools("--since", "1h")) == len(tools("--since", "2020-01-01T00:00")) == 4
    line = ask(capsys, "audit", "show", "--last", "1").out.splitlines()[1]
    assert "id:7 telegram -100  read  xxxx" in line
    assert "…" in line
    assert "is no time" in refused(ask(capsys, "audit", "show", "--since", "soon"))


def test_a_file_of_lines_is_checked(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "record.jsonl"
    called(tmp_path / "elsewhere", {**CONFIG, "audit": {"file": str(file)}})
    assert ask(capsys, "audit", "verify", "--file", file, "--replay").out.startswith("3 of 3 decisions derived again\n")
    lines = file.read_bytes().splitlines(keepends=True)
    assert [json.loads(line)["kind"] for line in lines][:4] == ["opened", "decided", "started", "finished"]
    file.write_bytes(b"".join(lines[:3] + lines[4:]))
    answer = ask(capsys, "audit", "verify", "--file", file)
    assert (answer.code, answer.out.splitlines()[0]) == (1, "dropped: row 4 is missing")
    hash = json.loads(lines[-1])["hash"]
    file.write_bytes(b"".join(lines[:-1]))
    assert ask(capsys, "audit", "verify", "--file", file).code == 0, "a file alone does not know that it ended later"
    answer = ask(capsys, "audit", "verify", "--file", file, "--expect", hash)
    assert (answer.code, answer.out.splitlines()[0]) == (
        1,
        f"dropped: no row has the hash {hash}: the record is not the one it was of",
    )


def test_bad_input_is_refused_in_one_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "is no hash" in refused(ask(capsys, "audit", "verify", "--expect", "abc"))
    assert "cannot be read" in refused(ask(capsys, "audit", "verify", "--file", tmp_path / "nothing"))
    assert "cannot be read" in refused(ask(capsys, "audit", "verify", "--file", tmp_path))
    assert refused(ask(capsys, "audit", "show", "--last", "0"))
    crib = crib_file(tmp_path, "tols: {}")
    assert "tols" in refused(ask(capsys, "audit", "verify", "--config", crib))
    answer = ask(capsys, "audit", "verify", "--file", __file__)
    assert (answer.code, answer.out.splitlines()[0]) == (
        1,
        "unreadable: what stands behind row 0 is no row of a record",
    )


def test_a_broken_store_is_told_in_one_sentence(capsys: pytest.CaptureFixture[str], state: Path) -> None:
    (state / "crib.db").write_bytes(b"x" * 10_000)
    assert "set aside" in refused(ask(capsys, "audit", "verify"))
