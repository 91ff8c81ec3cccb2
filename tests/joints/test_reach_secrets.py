"""What it reaches: a command that would show a secret of the crib is asked about, however it cuts it in pieces."""

import json
from pathlib import Path

import pytest

import toolcrib
from tests.doors.world import ask, crib_file
from toolcrib import OWNER
from toolcrib.define.message import Call
from toolcrib.testing import FakeApprover, ScriptedModel, call_reply, text_reply

pytestmark = pytest.mark.anyio

SECRET = "sk-4f9aQ77xTzkLw02mVbN8"


async def is_asked(tmp_path: Path, line: str) -> bool:
    """Tell whether a person is asked about a command; they say no."""
    (work := tmp_path / "work" / "deep").mkdir(parents=True)
    for folder in (work, work.parent):
        (folder / ".env").write_text(f"# mine\nOPENAI_API_KEY={SECRET}\n")
        (folder / "own.md").write_text("my own words\n")
    people = FakeApprover(False)
    model = ScriptedModel([call_reply(Call("1", "exec", {"command": line})), text_reply("done")])
    env = {"PATH": "/usr/bin:/bin", "OPENAI_API_KEY": SECRET}
    async with toolcrib.open({"workspace": {"root": str(work.parent)}}, state=tmp_path / "state", env=env) as crib:
        await crib.turn("go", caller=OWNER, session="agent:main:main", model=model, approver=people).end()
    return bool(people.asked)


@pytest.mark.parametrize(
    "line",
    [
        "cut -c1-20 .env",
        "head -c 30 .env",
        "grep -o . .env",
        "tail -n 1 deep/.env | cut -c 18-",
        "cd deep && cut -c1-20 .env",
        "cut -c1-20 .e*",
        "cut -c1-20 ./deep/../.en?",
        "base64 < .env",
        "cat own.md .env | tr a-z b-za",
        "cut -c1-20 ../work/.env",
        "cd deep && cut -c1-20 ../../work/.env",
    ],
)
async def test_a_command_that_would_show_a_known_secret_in_pieces_is_asked_about(tmp_path: Path, line: str) -> None:
    assert await is_asked(tmp_path, line)


@pytest.mark.parametrize(
    "line",
    [
        "cat own.md",
        "ls -la .env",
        "head -c 30 deep/own.md",
        "wc -l own.md",
        "grep -rn own .",
        "head -c 9 ../work/own.md",
    ],
)
async def test_what_shows_no_secret_by_its_name_runs_unasked(tmp_path: Path, line: str) -> None:
    assert not await is_asked(tmp_path, line)


@pytest.mark.parametrize(("line", "decision"), [("head -c 9 .env", "ask"), ("head -c 9 own.md", "run")])
def test_what_is_said_of_a_command_beforehand_is_what_becomes_of_it(
    line: str, decision: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (work := tmp_path / "work").mkdir()
    (work / ".env").write_text(SECRET)
    (work / "own.md").write_text("my own words")
    config = {"workspace": {"root": str(work)}, "secrets": {"KEY": SECRET}}
    path = crib_file(tmp_path, json.dumps(config))
    assert ask(capsys, "exec", "explain", line, "--config", path, "--json").json["decision"] == decision
