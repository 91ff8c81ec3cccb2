"""toolcrib run, in process: what a person sees, what a program reads, and what is refused."""

import json
import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.tools.media.pictures import draw, save

from toolcrib.doors.cli.run import command

from .talking import Say, Talk, call, crib_with, talking
from .world import Answer, ask, crib_file, plugin_folder, refused

HELLO = Say(text="Hello there.")


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may have keys; these turns are answered here."""
    for name in list(os.environ):
        if name.endswith("_API_KEY") or name.startswith("TOOLCRIB_"):
            monkeypatch.delenv(name)


def events_of(answer: Answer) -> list[dict[str, object]]:
    """Return the lines of `--json`, each of which must be an object."""
    found = [json.loads(line) for line in answer.out.splitlines()]
    assert all(isinstance(event, dict) for event in found)
    return found


def sessions_of(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [each["key"] for each in ask(capsys, "sessions", "list", "--json").json["sessions"]]


# for people


def test_words_go_to_stdout_and_calls_to_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.txt").write_text("one\ntwo\nthree\n")
    with talking(call("read", '{"path": "a.txt"}', text="I look."), Say(text="Three lines.")) as server:
        answer = ask(capsys, "run", "how long is a.txt", "--config", crib_with(server, tmp_path))
    assert answer == Answer(0, "I look.\nThree lines.\n", "● read a.txt  [allow]\n  ✓ one … (3 lines)\n")


def test_the_offline_model_answers_without_a_key_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    Path("notes.txt").write_text("hello\n")
    answer = ask(capsys, "run", "list the files")
    assert answer.code == 0
    assert "notes.txt" in answer.out
    assert answer.out.lower().count("not a language model") == 1
    assert answer.err == "● ls .  [allow]\n  ✓ notes.txt\n"


def test_several_arguments_are_named_and_several_calls_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in "ab":
        Path(f"{name}.txt").write_text(f"{name} it is\n")
    both = Say(
        calls=(
            ("1", "read", '{"path": "a.txt"}'),
            ("2", "grep", '{"pattern": "b it", "glob": "*.txt"}'),
        )
    )
    with talking(both, HELLO) as server:
        answer = ask(capsys, "run", "both", "--config", crib_with(server, tmp_path))
    assert (answer.code, answer.out) == (0, "Hello there.\n")
    lines = answer.err.splitlines()
    assert lines[:2] == ["● read a.txt  [allow]", '● grep pattern="b it" glob=*.txt  [allow]']
    assert sorted(lines[2:]) == [
        '  ✓ grep pattern="b it" glob=*.txt: b.txt:1: b it is',
        "  ✓ read a.txt: a it is",
    ]


def test_a_picture_goes_with_the_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("wide.tiff").write_bytes(save(draw("Nuts", size=(3_000, 300)), "TIFF"))
    with talking(HELLO) as server:
        config = crib_with(server, tmp_path, "agents: {main: {imageModel: 'local:small'}}")
        assert ask(capsys, "run", "what is it", "--image", "wide.tiff", "--config", config).code == 0
    words, shown = server.asked[0].body["messages"][-1]["content"]
    assert (words["text"], shown["image_url"]["url"][:22]) == ("what is it", "data:image/png;base64,")


def test_a_picture_that_is_none_is_told_before_anybody_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    Path("note.txt").write_text("words")
    for name, why in (
        ("note.txt", "cannot be shown: it is text"),
        ("gone.png", "No such file"),
        (".", "director"),
    ):
        answer = ask(capsys, "run", "look", "--image", name)
        assert (answer.code, why in answer.err, answer.out) == (2, True, ""), answer


def test_what_is_denied_or_fails_is_told_with_its_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replies = [
        call("write", '{"path": "x", "content": "y"}'),
        call("read", '{"path": "gone.txt"}'),
        call("flyy"),
        Say(text="No."),
    ]
    with talking(*replies) as server:
        crib = crib_with(server, tmp_path, "tools: {deny: [write]}")
        answer = ask(capsys, "run", "try", "--config", crib)
    assert (answer.code, answer.out) == (1, "No.\n")
    lines = answer.err.splitlines()
    assert lines[0] == "● write path=x content=y  [deny at the global layer]"
    assert lines[1].startswith("  ✗ write is denied at the global layer: deny has 'write' (tools)")
    assert "● read gone.txt  [allow]" in lines
    assert any(line.startswith("  ✗ ") and "gone.txt" in line for line in lines)
    assert "● flyy  [unknown]" in lines


def test_a_failure_is_asked_again_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def overloaded(talk: Talk) -> None:
        await talk.whole(503, {"error": {"message": "too busy"}}, retry_after="0")

    with talking(overloaded, HELLO) as server:
        answer = ask(capsys, "run", "hi", "--config", crib_with(server, tmp_path))
    assert (answer.code, answer.out) == (0, "Hello there.\n")
    assert answer.err.startswith("… ")
    assert "asking again in" in answer.err
    assert "(try 2)" in answer.err


def test_a_turn_that_failed_leaves_with_1_and_says_how_to_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def unpaid(talk: Talk) -> None:
        await talk.whole(401, {"error": {"message": "bad \x1b[31m key"}})

    with talking(unpaid) as server:
        answer = ask(capsys, "run", "hi", "--config", crib_with(server, tmp_path), "--session", "agent:main:x")
    assert (answer.code, answer.out) == (1, "")
    new, sentence, go_on = answer.err.splitlines()
    assert new == "toolcrib: there was no session 'agent:main:x', so it begins here"
    assert sentence.startswith("toolcrib: local ")
    assert "\x1b" not in sentence
    assert go_on == "go on with --session agent:main:x"


def test_a_limit_leaves_with_1_and_says_which(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with talking(call("ls")) as server:
        answer = ask(
            capsys, "run", "go", "--config", crib_with(server, tmp_path, "limits: {turns: 2}"), "--session", "s"
        )
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.splitlines()[-2:] == [
        "toolcrib: stopped after 2 replies, the limit of a turn (limits.turns)",
        "go on with --session s",
    ]


def test_what_a_tool_or_a_model_writes_never_commands_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("evil.txt").write_text("\x1b]0;owned\x07\u202etxt\n")
    replies = call("read", '{"path": "evil.txt", "x\\u001b[2J": "\\u009b1A"}'), call("\x1b[2Jrm"), HELLO
    with talking(*replies) as server:
        answer = ask(capsys, "run", "look", "--config", crib_with(server, tmp_path), "-v")
    assert answer.code == 1
    assert not set(answer.err) & set("\x1b\x07\x9b\u202e")


def test_verbose_shows_thoughts_and_whole_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.txt").write_text("one\ntwo\n")
    with talking(Say(thinking="Hm.", calls=(("1", "read", '{"path": "a.txt"}'),)), HELLO) as server:
        answer = ask(capsys, "run", "hi", "--config", crib_with(server, tmp_path), "-v")
    assert answer == Answer(0, "Hello there.\n", "Hm.\n● read a.txt  [allow]\n  one\n  two\n")


def test_a_question_with_nobody_to_ask_is_refused_and_the_model_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with talking(call("write", '{"path": "x.txt", "content": "y"}'), Say(text="I may not.")) as server:
        answer = ask(capsys, "run", "write", "--config", crib_with(server, tmp_path, "tools: {ask: [write]}"))
    told = [each["content"] for each in server.asked[1].body["messages"] if each["role"] == "tool"]
    assert answer == Answer(
        1,
        "I may not.\n",
        "● write path=x.txt content=y  [ask]\n  ✗ a human is asked for write (tools.ask), and there is nobody to ask\n",
    )
    assert told[0] == (
        "error: Refused: this call of write needs a person's yes, and nobody is there to ask. "
        "Do not try again; tell the user."
    )
    assert not Path("x.txt").exists()


# for programs


def test_json_is_one_object_a_line_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with talking(call("ls"), HELLO) as server:
        answer = ask(capsys, "run", "hi", "--config", crib_with(server, tmp_path), "--json")
    assert (answer.code, answer.err) == (0, "")
    events = events_of(answer)
    kinds = [event["type"] for event in events]
    assert (kinds[0], kinds[-1]) == ("turn_started", "turn_finished")
    assert [kind for kind in kinds if str(kind).startswith("tool_")] == ["tool_started", "tool_finished"]
    assert events[0] == {
        "type": "turn_started",
        "session": sessions_of(capsys)[0],
        "model": "local:small",
        "message": "hi",
    }
    assert events[-1] == {
        "type": "turn_finished",
        "reason": "done",
        "text": "Hello there.",
        "sentence": "",
        "steps": 2,
        "usage": {"input": 40, "output": 14, "cached": 32, "written": 0},
        "cost": 0.0,
    }


def test_the_last_words_of_a_turn_that_was_stopped_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with talking(call("ls"), Say(text="I saw nothing yet.")) as server:
        answer = ask(capsys, "run", "hi", "--config", crib_with(server, tmp_path, "limits: {turns: 1}"))
    assert (answer.code, answer.out) == (1, "I saw nothing yet.\n")
    assert "toolcrib: stopped after 1 reply, the limit of a turn (limits.turns)" in answer.err
    first, last = (asked.body for asked in server.asked)
    assert (first["tools"], last["tool_choice"]) == (last["tools"], "none")


def test_json_of_a_failed_turn_has_its_reason_and_leaves_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with talking(call("ls")) as server:
        crib = crib_with(server, tmp_path, "limits: {turns: 1}")
        answer = ask(capsys, "run", "hi", "--config", crib, "--json")
    assert (answer.code, answer.err, events_of(answer)[-1]["reason"]) == (1, "", "turns")


def test_json_says_ask_where_the_terminal_does_and_a_refused_call_leaves_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with talking(call("exec", '{"command": "rm x"}'), Say(text="I may not.")) as server:
        answer = ask(capsys, "run", "rm x", "--config", crib_with(server, tmp_path), "--json")
    started = next(event for event in events_of(answer) if event["type"] == "tool_started")
    verdict = started["verdict"]
    assert isinstance(verdict, dict)
    assert (verdict["decision"], verdict["layer"]) == ("ask", "ask")
    assert "'rm' is on no list" in verdict["reason"]
    assert (answer.code, events_of(answer)[-1]["reason"]) == (1, "done")


def test_a_result_that_is_cut_for_watchers_says_so_and_claims_no_number_of_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("log.txt").write_text("".join(f"{at} is a line of this log and long enough\n" for at in range(600)))
    reply = call("read", '{"path": "log.txt"}')
    with talking(reply, HELLO) as server:
        told = ask(capsys, "run", "read", "--config", crib_with(server, tmp_path))
    with talking(reply, HELLO) as server:
        events = events_of(ask(capsys, "run", "read", "--config", crib_with(server, tmp_path), "--json"))
    finished = next(event for event in events if event["type"] == "tool_finished")
    assert "[cut: " in json.dumps(finished["result"])
    assert re.search(r"\(more than \d+ lines\)", told.err), told.err


def test_what_a_tool_prints_is_no_line_of_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = (
        "from toolcrib import Plugin, tool\n\n\n@tool(effects=set())\nasync def dice() -> str:\n"
        '    """Roll."""\n    print("rolling")\n    return "6"\n\n\nplugin = Plugin(name="dice", tools=(dice,))\n'
    )
    folder = plugin_folder(tmp_path / "plugins", code)
    with talking(call("dice"), HELLO) as server:
        crib = crib_with(server, tmp_path, f"plugins: {{folders: ['{folder}'], allow: [dice]}}")
        answer = ask(capsys, "run", "roll", "--config", crib, "--json")
    assert (answer.code, answer.err) == (0, "rolling\n")
    assert events_of(answer)[-1]["reason"] == "done"


# sessions


def test_a_session_is_gone_on_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with talking(HELLO) as server:
        crib = crib_with(server, tmp_path)
        first = ask(capsys, "run", "I am Ann", "--config", crib, "--json")
        key = str(events_of(first)[0]["session"])
        again = ask(capsys, "run", "who am I", "--config", crib, "--session", key)
        last = ask(capsys, "run", "still there?", "--config", crib, "--continue")
    assert (again, last) == (Answer(0, "Hello there.\n", ""),) * 2
    heard = [each["content"] for each in server.asked[2].body["messages"] if each["role"] == "user"]
    assert heard == ["I am Ann", "who am I", "still there?"]
    assert sessions_of(capsys) == [key]


def test_a_named_session_that_is_new_is_told_with_the_nearest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with talking(HELLO) as server:
        crib = crib_with(server, tmp_path)
        ask(capsys, "run", "hi", "--config", crib, "--session", "agent:main:mine")
        answer = ask(capsys, "run", "hi", "--config", crib, "--session", "agent:main:mien")
    assert answer == Answer(
        0,
        "Hello there.\n",
        "toolcrib: there was no session 'agent:main:mien', so it begins here; did you mean 'agent:main:mine'?\n",
    )


def test_a_model_is_chosen_for_one_turn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with talking(HELLO) as server:
        crib = crib_with(server, tmp_path)
        named = ask(capsys, "run", "hi", "--config", crib, "--model", "local/big", "--json")
        offline = ask(capsys, "run", "list the files", "--config", crib, "--model", "offline:rules", "--json")
    assert (events_of(named)[0]["model"], events_of(offline)[0]["model"]) == ("local:big", "offline:rules")
    assert [asked.body["model"] for asked in server.asked] == ["big"]


def test_a_message_needs_no_quotes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with talking(HELLO) as server:
        ask(capsys, "run", "list", "the", "files", "--config", crib_with(server, tmp_path))
    assert server.asked[0].body["messages"][-1]["content"] == "list the files"


# stdin


def test_a_dash_reads_the_message_from_stdin(tmp_path: Path) -> None:
    with talking(HELLO) as server:
        ran = CliRunner().invoke(command, ["-", "--config", str(crib_with(server, tmp_path))], input="from a pipe\n")
    assert (ran.return_value, ran.stdout, ran.exception) == (None, "Hello there.\n", None)
    assert server.asked[0].body["messages"][-1]["content"] == "from a pipe\n"


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "the message is blank; say what is to be done"),
        (b"caf\xe9", "the message is not UTF-8 (character 4); write it as such"),
        (b"x" * (2**20 + 1), "the message on stdin is longer than 1,048,576 bytes; put it into a file and name that"),
    ],
)
def test_stdin_that_holds_no_message_is_refused(data: bytes, sentence: str) -> None:
    ran = CliRunner().invoke(command, ["-"], input=data, standalone_mode=False)
    assert (str(ran.exception), ran.stdout) == (sentence, "")


# bad input


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ((" ",), "the message is blank; say what is to be done"),
        (("hi\udcff",), "the message is not UTF-8 (character 3); write it as such"),
        ((), "missing argument 'MESSAGE'; `toolcrib run --help` shows what it takes"),
        (("hi", "--modle", "x"), "there is no option '--modle'; did you mean '--model'?"),
        (("hi", "--model", "opnai:gpt-5"), "no model provider is called 'opnai'; did you mean 'openai'?"),
        (("hi", "--model", "openai"), "'openai' names no model; write provider:model, like openai:gpt-5"),
        (("hi", "--model", "openai:gpt-5"), "openai needs an API key; set OPENAI_API_KEY or models.openai.apiKey"),
        (("hi", "-c"), "the agent 'main' has no session to go on with; leave --continue out to begin one"),
        (
            ("hi", "-c", "--session", "agent:main:main"),
            "--continue and --session both say which session it is; leave one of them out",
        ),
        (
            ("hi", "--session", "../../etc"),
            (
                "the session key '../../etc' holds what no key may; "
                "write letters, digits and signs like : - _ @ + # between them"
            ),
        ),
    ],
)
def test_bad_input_is_refused_in_one_sentence(
    args: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(ask(capsys, "run", *args)) == sentence
    assert sessions_of(capsys) == []


@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_a_state_folder_that_cannot_be_used_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], as_json: tuple[str, ...]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TOOLCRIB_STATE", str(tmp_path / "file"))
    assert "crib.db" in refused(ask(capsys, "run", "list the files", *as_json))


def test_a_state_that_is_no_database_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "crib.db").write_bytes(b"x" * 5000)
    monkeypatch.setenv("TOOLCRIB_STATE", str(tmp_path))
    assert "crib.db" in refused(ask(capsys, "run", "list the files"))


def test_a_bad_configuration_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    crib = crib_file(tmp_path, "limits: {turns: many}")
    assert "limits.turns" in refused(ask(capsys, "run", "hi", "--config", crib))


def test_a_call_by_hand_is_recorded_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(capsys, "tools", "call", "ls").code == 0
    (found,) = ask(capsys, "audit", "show", "--json").json["calls"]
    assert (found["tool"], found["decision"], found["outcome"]) == ("ls", "allow", "ok")
