"""A state folder that an older toolcrib wrote is opened, read, exported, verified and gone on with as it was."""

import gzip
import json
import os
import shutil
from pathlib import Path

import apsw
import pytest

from toolcrib.backends.stores.accepted import AcceptedContents
from toolcrib.backends.stores.approvals import SqlitePins
from toolcrib.backends.stores.sqlite import SqliteFile

from .world import ask

WRITTEN = Path(__file__).parent.parent / "fixtures" / "state"
EXPORTS = sorted((WRITTEN / "exports").iterdir())
HASH = "55bc3eb3896d7d4f68770c9ea511591896a588c34852398a18db5221242b5462"
LINES = "SELECT body FROM lines JOIN sessions ON sessions.id = lines.session ORDER BY key, number"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's state folder, as the older toolcrib left it."""
    for name in list(os.environ):
        if name.endswith("_API_KEY") or name.startswith("TOOLCRIB_"):
            monkeypatch.delenv(name)
    folder = tmp_path / "home" / "state" / "toolcrib"
    shutil.copytree(WRITTEN / "agents", folder / "agents")
    (folder / "crib.db").write_bytes(gzip.decompress((WRITTEN / "crib.db.gz").read_bytes()))
    return folder


def key_of(export: Path) -> str:
    key: str = json.loads(export.read_bytes().splitlines()[0])["key"]
    return key


def bodies_in(state: Path) -> list[str]:
    db = apsw.Connection(str(state / "crib.db"))
    try:
        return [str(body).partition("\n")[0] for (body,) in db.execute(LINES)]  # without the sums of later lines
    finally:
        db.close()


def test_every_session_is_listed_with_its_lines(capsys: pytest.CaptureFixture[str]) -> None:
    listed = ask(capsys, "sessions", "list", "--json").json["sessions"]
    counts = {key_of(export): export.read_bytes().count(b"\n") - 1 for export in EXPORTS}
    assert {each["key"]: each["lines"] for each in listed} == counts


@pytest.mark.parametrize("export", EXPORTS, ids=lambda export: export.stem)
def test_a_session_opens_and_its_export_is_the_same(export: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(capsys, "sessions", "show", key_of(export), "--json").json["messages"]
    ask(capsys, "sessions", "export", key_of(export), "out.jsonl")
    assert Path("out.jsonl").read_bytes() == export.read_bytes()


def test_what_is_brought_back_is_kept_as_it_was_kept(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = bodies_in(state)
    (state / "crib.db").rename(state / "old.db")
    for export in EXPORTS:
        assert ask(capsys, "sessions", "import", export).code == 0
    assert bodies_in(state) == before


def test_the_record_is_whole_and_every_decision_follows_again(capsys: pytest.CaptureFixture[str]) -> None:
    answer = ask(capsys, "audit", "verify", "--replay", "--expect", HASH)
    assert answer.out == f"24 of 24 decisions derived again\n76 rows; 0 findings\nhash of the last row: {HASH}\n"
    assert answer.code == 0


def test_the_record_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    shown = ask(capsys, "audit", "show", "--last", "100", "--json")
    then = json.loads((WRITTEN / "calls.json").read_text("utf-8"))["calls"]
    now = shown.json["calls"]
    assert [{key: call[key] for key in old} for call, old in zip(now, then, strict=True)] == then
    assert {key for call in now for key in call.keys() - then[0].keys()} == {
        "error",
        "grant",
        "origin",
        "rule",
        "taint",
    }, "said since then"


def test_questions_and_grants_still_stand(capsys: pytest.CaptureFixture[str]) -> None:
    (waiting,) = ask(capsys, "approvals", "list", "--json").json["questions"]
    assert (waiting["id"], waiting["tool"], waiting["shown"]) == ("00112233aabbccdd", "exec", "exec\n  x")
    grants = ask(capsys, "approvals", "grants", "--json").json["grants"]
    assert [each["shown"] for each in grants if each["id"] == "0a0b0c0d0e0f0a0b"] == ["exactly this call"]


def test_pins_and_accepted_agents_still_stand(state: Path) -> None:
    pins = SqlitePins(SqliteFile(state / "crib.db")).list_all()
    assert [(pin.server, pin.tool, pin.pinned_at) for pin in pins] == [("web", "", 1.5), ("web", "search", 2.5)]
    (accepted,) = AcceptedContents(state / "agents").list_all()
    assert (accepted.name, accepted.file, accepted.at) == ("gardener", "gardener.md", 3.5)


def test_a_session_goes_on(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = bodies_in(state)
    assert ask(capsys, "run", "list the files", "--session", "agent:main:main").code == 0
    after = bodies_in(state)
    assert [body for body in after if body in before] == before
    assert ask(capsys, "audit", "verify", "--replay", "--expect", HASH).code == 0
