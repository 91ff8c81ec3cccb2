"""The offline model: six verbs, a call that is written out, an agent that is named, and nothing else."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toolcrib
from toolcrib import Agent, Call, Caller, Result, Text, tool
from toolcrib.backends.models.offline import CONNECT, FOOTER, OfflineModel
from toolcrib.define.event import CallDelta, Replied, TextDelta
from toolcrib.define.message import Message, join_text
from toolcrib.define.model import History, Request
from toolcrib.registry.sources import Offer
from toolcrib.tools import SHELF

pytestmark = pytest.mark.anyio

TOOLS = tuple(each for each in SHELF if each.has_body)
MAIN = Caller(owner=True, session="agent:main:main")
INVESTIGATOR = "codebase_investigator"
TWO: dict[str, Any] = {"left": {"type": "string", "required": True}, "right": {"type": "string", "required": True}}
BLOCK = "\n".join(["    x"] * 40)
JUDGE = Agent(name="judge", description="Compares.", prompt="Compare.", inputs=TWO)


def user(text: str) -> Message:
    return Message(role="user", content=(Text(text),))


def answer(call: Call, result: Result) -> Message:
    return Message(role="tool", content=result.content, call_id=call.id, status=result.status)


async def reply(history: History, tools: Any = TOOLS, **options: Any) -> Message:
    """Ask the model once; what it streams comes to what it says in the end."""
    text, pieces, last = "", dict[int, str](), None
    async for event in OfflineModel().reply(Request(history=history, tools=tuple(tools), **options)):
        match event:
            case TextDelta(text=piece):
                text += piece
            case CallDelta(at=at, text=piece):
                pieces[at] = pieces.get(at, "") + piece
            case Replied():
                last = event
    assert last is not None
    assert (text, len(pieces)) == (join_text(last.message), len(last.message.calls))
    return last.message


async def called(text: str, tools: Any = TOOLS) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, dict(call.args)) for call in (await reply(History([user(text)]), tools)).calls]


async def shown(text: str, result: Result) -> str:
    """Return what is said about the result of the call that a text asks for, without the footer."""
    history = History([user(text)])
    history.append(asked := await reply(history))
    history.append(answer(asked.calls[0], result))
    last = await reply(history)
    assert not last.calls
    return join_text(last).removesuffix(f"\n\n{FOOTER}")


@pytest.mark.parametrize(
    ("text", "name", "args"),
    [
        ("list", "ls", {"path": "."}),
        ("list the files", "ls", {"path": "."}),
        ("List files in src/app", "ls", {"path": "src/app"}),
        ("list docs", "ls", {"path": "docs"}),
        ("read README.md", "read", {"path": "README.md"}),
        ("read `my notes.txt`", "read", {"path": "my notes.txt"}),
        ("find *.py", "find", {"pattern": "*.py"}),
        ("find *.py in src", "find", {"pattern": "*.py", "path": "src"}),
        ("search TODO", "grep", {"pattern": "TODO"}),
        ("search for TODO in *.py", "grep", {"pattern": "TODO", "glob": "*.py"}),
        ("search f(x) in src", "grep", {"pattern": "f(x)", "literal": True, "path": "src"}),
        ('search "made in Rome" in a.txt', "grep", {"pattern": "made in Rome", "path": "a.txt"}),
        ("run git log --oneline", "exec", {"command": "git log --oneline"}),
        ("run `ls | wc -l`", "exec", {"command": "ls | wc -l"}),
        ("write hello to a.txt", "write", {"path": "a.txt", "content": "hello\n"}),
        ("write 'go to bed' to notes/b.txt", "write", {"path": "notes/b.txt", "content": "go to bed\n"}),
        ('edit {"path": "a", "oldText": "1"}', "edit", {"path": "a", "oldText": "1"}),
        ('{"name": "ls", "arguments": {"path": "src"}}', "ls", {"path": "src"}),
        ('{"tool": "nobody", "args": {}}', "nobody", {}),
    ],
)
async def test_a_request_becomes_one_call(text: str, name: str, args: dict[str, Any]) -> None:
    assert await called(text) == [(name, args)]


@pytest.mark.parametrize(
    "text", ["hello", "read", "write hello", "summarise README.md", "list the headings of a.md", "edit {", "[]", "ask"]
)
async def test_what_is_not_understood_is_said_with_what_would_be(text: str) -> None:
    message = await reply(History([user(text)]))
    assert message.calls == ()
    assert f"I did not understand “{text}”" in join_text(message)
    assert "`search TODO in *.py`" in join_text(message)
    assert join_text(message).endswith(CONNECT)


@pytest.mark.parametrize(
    ("text", "result", "told"),
    [
        ("read a.txt", Result.text("one\n```\n\ntwo\n"), "    one\n    ```\n\n    two"),
        ("read a.txt", Result.text(""), "`read` printed nothing."),
        ("list", Result.text("x\n" * 42), f"{BLOCK}\n\n(2 more lines not shown here)"),
        ("write a to b", Result.text("wrote 2 bytes to b"), "wrote 2 bytes to b"),
        ("read a.txt", Result.error("'a.txt' does not exist"), "`read` did not work: 'a.txt' does not exist"),
    ],
)
async def test_a_result_is_shown_as_it_is_and_ends_the_request(text: str, result: Result, told: str) -> None:
    assert await shown(text, result) == told


async def test_how_to_connect_a_model_is_said_once_in_a_conversation() -> None:
    history = History([user("hello")])
    history.append(await reply(history))
    history.append(user("hello"))
    assert CONNECT not in join_text(await reply(history))


async def test_what_is_said_meanwhile_is_done_next_beside_what_came_of_the_first() -> None:
    history = History([user("read a.txt")])
    history.append(first := await reply(history))
    history.append(answer(first.calls[0], Result.text("one")))
    history.append(user("list"))
    second = await reply(history)
    assert (join_text(second), [call.name for call in second.calls]) == ("    one", ["ls"])


async def test_without_tools_nothing_is_called() -> None:
    message = await reply(History([user("list")]), choice="none")
    assert message.calls == ()
    assert join_text(message).startswith("No tool may be used now.")


@pytest.mark.parametrize(
    ("text", "agent", "asked"),
    [
        ("ask the codebase investigator to search helper", INVESTIGATOR, "search helper"),
        ("Ask codebase_investigator: search helper", INVESTIGATOR, "search helper"),
        ("ask generalist list src", "generalist", "list src"),
        ("ask judge: this or that", "", ""),  # it takes more than words
        ("codebase_investigator", "", ""),
        ("ask nobody to list src", "", ""),
    ],
)
async def test_an_agent_that_is_named_is_asked(text: str, agent: str, asked: str) -> None:
    crew = Offer(source="plugin:crew", tools=(), agents=(JUDGE,))
    async with toolcrib.open({}, plugins=[crew], env={}) as crib:
        calls = await called(text, crib.belt(MAIN).tools.values())
    assert [(name, next(iter(args.values()))) for name, args in calls] == ([(agent, asked)] if agent else [])


@pytest.mark.parametrize(
    ("objective", "places", "summary"),
    [
        ("search def helper in *.py", [("pkg/app.py", 2)], "Found 1 line, first `pkg/app.py:2`:"),
        ("search helper in pkg/app.py", [("pkg/app.py", 2)], "Found 1 line, first `pkg/app.py:2`:"),
        ("list pkg", [], "This is what `ls` gave:"),
        ("run date", [], "`exec` is not among my tools."),
        ("where is helper?", [], "I did not understand “where is helper?”."),
    ],
)
async def test_a_subagent_hands_in_what_it_found(
    objective: str, places: list[tuple[str, int]], summary: str, tmp_path: Path
) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "app.py").write_text("\ndef helper(): ...\n")
    async with toolcrib.open({"workspace": {"root": str(tmp_path)}}, env={}) as crib:
        result = await crib.belt(MAIN).call(INVESTIGATOR, {"objective": objective})
    report = result.details["output"]
    assert result.details["reason"] == "goal"
    assert [(each["path"], each["line"]) for each in report["locations"]] == places
    assert report["summary"].startswith(summary)


async def test_a_subagent_is_done_once_its_answer_was_taken() -> None:
    @tool(name="complete_task", effects=set())
    def complete(result: str, sure: bool, kind: str, count: int) -> str:
        """End."""
        return "taken"

    history = History([user("Task: hello")])
    history.append(first := await reply(history, [complete]))
    assert first.calls[0].args["sure"] is True
    history.append(answer(first.calls[0], Result.text("taken")))
    assert join_text(await reply(history, [complete])) == "Done."


SPOKEN = st.sampled_from(
    ["list", "read", "find", "search", "run", "write", "ask", "the", "in", "to", "*.py", '"q"', "`", "{", "}", ","]
)


@settings(max_examples=150)
@given(st.one_of(st.lists(SPOKEN, max_size=12).map(" ".join), st.text(max_size=80)))
def test_any_text_becomes_calls_that_can_be_made_or_words(text: str) -> None:
    async def ask() -> None:
        message = await reply(History([user(text)]))
        assert bool(message.calls) != bool(join_text(message))
        for call in message.calls:
            assert isinstance(call.args, dict)

    anyio.run(ask)


@pytest.mark.parametrize("text", ["list" + " " * 50_000 + "a b", "a " * 50_000, "{" * 50_000, "`" * 50_000 + " x"])
async def test_a_long_text_takes_no_long_time(text: str) -> None:
    with anyio.fail_after(60):
        assert (await reply(History([user(text)]))).role == "assistant"
