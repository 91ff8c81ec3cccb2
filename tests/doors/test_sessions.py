"""toolcrib sessions: what is kept of conversations, looked at, taken along, brought back and forgotten."""

import json
import os
import re
from pathlib import Path

import pytest

from .talking import Say, call, crib_with, talking
from .world import Answer, ask, refused

ANN, BOB = "agent:main:ann", "agent:main:bob"


@pytest.fixture(autouse=True)
def no_state_of_yours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.endswith("_API_KEY") or name.startswith("TOOLCRIB_"):
            monkeypatch.delenv(name)


@pytest.fixture
def ann(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The key of a session with two turns and one call."""
    with talking(call("ls", text="I look."), Say(text="It is empty."), Say(text="Any time.")) as server:
        crib = crib_with(server, tmp_path)
        assert ask(capsys, "run", "what is here\nright now", "--config", crib, "--session", ANN).code == 0
        assert ask(capsys, "run", "thanks", "--config", crib, "--session", ANN).code == 0
    return ANN


def test_with_nothing_kept_the_list_says_how_to_begin(capsys: pytest.CaptureFixture[str]) -> None:
    begin = 'nothing is kept yet; `toolcrib run "list the files"` begins a session\n'
    assert ask(capsys, "sessions", "list") == Answer(0, begin, "")
    assert ask(capsys, "sessions", "list", "--json").json == {"sessions": []}


def test_the_list_says_how_each_began(ann: str, capsys: pytest.CaptureFixture[str]) -> None:
    ask(capsys, "run", f"list the files {'and folders ' * 10}", "--session", BOB)
    answer = ask(capsys, "sessions", "list")
    head, bob, own = answer.out.splitlines()
    assert head.split() == ["session", "lines", "changed", "title"]
    assert bob.split()[0] == BOB
    assert bob.endswith("…")
    assert len(bob) <= 100
    assert re.fullmatch(rf"{ann}  9      \d{{4}}-\d\d-\d\d \d\d:\d\d  what is here right now", own)
    assert [each["key"] for each in ask(capsys, "sessions", "list", "--most", "1", "--json").json["sessions"]] == [BOB]


def test_those_of_subagents_stand_below_whoever_started_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ask(capsys, "run", "hello", "--session", BOB)
    ask(capsys, "run", "hello", "--session", ANN)
    asked = call("codebase_investigator", '{"objective": "Where is the oak?"}')
    hand_in = call("complete_task", '{"report": {"summary": "in the garden"}}')
    with talking(asked, hand_in, Say(text="In the garden.")) as server:
        ask(capsys, "run", "find the oak", "--config", crib_with(server, tmp_path), "--session", BOB)
    rows = [line.split("  ")[0] for line in ask(capsys, "sessions", "list").out.splitlines()]
    assert (rows[1], rows[3]) == (BOB, ANN)
    assert re.fullmatch(r"└ agent:codebase_investigator:subagent:call-[0-9a-f]{16}", rows[2])
    (child,) = [each for each in ask(capsys, "sessions", "list", "--json").json["sessions"] if each["parents"]]
    assert (child["parents"], child["title"]) == ([BOB], "Where is the oak?")
    shown = ask(capsys, "sessions", "show", child["key"]).out
    assert "→ complete_task" in shown
    gone = ask(capsys, "sessions", "delete", BOB)
    assert gone.err == f"{BOB} is gone, and 1 log of agents that it called\n"
    assert [each["key"] for each in ask(capsys, "sessions", "list", "--json").json["sessions"]] == [ANN]


def test_show_tells_a_session_as_its_model_is_told(ann: str, capsys: pytest.CaptureFixture[str]) -> None:
    answer = ask(capsys, "sessions", "show", ann)
    assert (answer.code, answer.err) == (0, "")
    *lines, blank, foot = answer.out.splitlines()
    assert lines == [
        "     user  what is here right now",
        "assistant  I look.  → ls",
        "     tool  [the folder is empty]",
        "assistant  It is empty.",
        "     user  thanks",
        "assistant  Any time.",
    ]
    assert (blank, foot.partition(", changed")[0]) == ("", f"{ann}: 9 lines, 81 tokens")


def test_show_as_json(ann: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = ask(capsys, "sessions", "show", ann, "--json").json
    assert (shown["key"], shown["lines"], shown["title"]) == (ann, 9, "what is here right now")
    assert (shown["usage"], shown["uncertain"]) == ({"input": 60, "output": 21, "cost": 0.0}, [])
    assert [each["role"] for each in shown["messages"]] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
        "assistant",
    ]
    assert shown["messages"][1] == {
        "role": "assistant",
        "text": "I look.",
        "calls": [{"id": "call_1", "tool": "ls", "args": {}}],
    }


def test_what_was_exported_can_be_brought_back_whole(ann: str, capsys: pytest.CaptureFixture[str]) -> None:
    exported = ask(capsys, "sessions", "export", ann)
    assert exported.code == 0
    assert [json.loads(line)["type"] for line in exported.out.splitlines()][:2] == ["session", "said"]
    assert ask(capsys, "sessions", "export", ann, "ann.jsonl") == Answer(0, "", "9 lines are in ann.jsonl\n")
    assert Path("ann.jsonl").read_text() == exported.out
    back = ask(capsys, "sessions", "import", "ann.jsonl", "--as", BOB)
    assert back == Answer(0, "", f"9 lines are in {BOB}; go on with `toolcrib run ... --session {BOB}`\n")
    assert ask(capsys, "sessions", "export", BOB).out == exported.out.replace(ann, BOB)


def test_what_is_deleted_is_gone_and_its_record_stays(ann: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(capsys, "sessions", "delete", ann) == Answer(0, "", f"{ann} is gone\n")
    assert ask(capsys, "sessions", "list", "--json").json == {"sessions": []}
    assert [each["session"] for each in ask(capsys, "audit", "show", "--json").json["calls"]] == [ann]


@pytest.mark.parametrize("command", ["show", "export", "delete"])
@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("agent:main:anne", f"did you mean {ANN!r}?"),
        ("main:ann", f"did you mean {ANN!r}?"),
        ("agent:other:thing", "`toolcrib sessions list` shows what there is"),
    ],
)
def test_an_unknown_session_is_refused_with_the_nearest(
    ann: str, command: str, key: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(ask(capsys, "sessions", command, key)) == f"there is no session {key!r}; {hint}"


def test_a_key_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "'../x'" in refused(ask(capsys, "sessions", "show", "../x"))


def test_a_file_or_session_that_exists_is_left_alone(ann: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("there.jsonl").write_text("mine")
    said = refused(ask(capsys, "sessions", "export", ann, "there.jsonl"))
    assert said == "there is a file 'there.jsonl' already; name another, or take it away first"
    assert Path("there.jsonl").read_text() == "mine"
    ask(capsys, "sessions", "export", ann, "ann.jsonl")
    said = refused(ask(capsys, "sessions", "import", "ann.jsonl"))
    assert said == f"there is a session {ann!r} already; choose another key"


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "'bad.jsonl', there is no session in it: it is empty"),
        (b"caf\xe9\n", "'bad.jsonl' is no text (invalid continuation byte); it should be what `export` wrote"),
        (b"hello\n", "'bad.jsonl', line 1: it is not JSON"),
        (
            b'{"type": "session", "version": 1, "key": "k", "made_at": 1, "changed_at": 1}\n{"a"\n',
            "'bad.jsonl', line 2: ",
        ),
    ],
)
def test_a_file_that_is_no_session_is_refused_with_its_line(
    data: bytes, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("bad.jsonl").write_bytes(data)
    assert refused(ask(capsys, "sessions", "import", "bad.jsonl")).startswith(sentence)
    assert ask(capsys, "sessions", "list", "--json").json == {"sessions": []}


def test_files_that_cannot_be_read_or_written_are_refused(ann: str, capsys: pytest.CaptureFixture[str]) -> None:
    for args in (("import", "gone.jsonl"), ("import", "."), ("export", ann, "no/such/folder.jsonl")):
        assert refused(ask(capsys, "sessions", *args)).startswith("could not finish (")
