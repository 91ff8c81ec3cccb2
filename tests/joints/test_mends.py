"""The rest of the lists: small promises that a user meets, each said where it is broken."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from tests.backends.models.servers import Say, answering, serving
from tests.doors.world import ask
from toolcrib import OWNER, Caller, Ctx, Result, Tool, tool
from toolcrib.config import load
from toolcrib.define.errors import ArgumentError, ConfigError
from toolcrib.define.schema.check import check_of_schema
from toolcrib.define.schema.portable import Shape
from toolcrib.define.tool import tool_named
from toolcrib.registry.sources import Offer
from toolcrib.testing import ScriptedModel, text_reply

pytestmark = pytest.mark.anyio
ROOT, SOURCE = Path(__file__).parents[2], Path(toolcrib.__file__).parent

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c626001000000ffff03000006"
    "0005576b1f0c0000000049454e44ae426082"
)


@tool(effects={"read"})
async def look(path: str) -> Result:
    """Look at a picture."""
    return Result.image_from_file(path)


async def test_a_picture_is_named_by_a_text_as_by_a_path(tmp_path: Path) -> None:
    (tmp_path / "dot.png").write_bytes(PNG)
    crib = toolcrib.open({}, tools=[look])
    assert (await crib.belt(OWNER).call("look", {"path": str(tmp_path / "dot.png")})).status == "ok"
    for name in ("gone.png", "a\0b.png", "", "/dev/zero"):
        gone = await crib.belt(OWNER).call("look", {"path": str(tmp_path / name)})
        assert "cannot read the image" in gone.plain_text, name


@tool(effects=set())
async def fail(words: str, hand: bool = False) -> Result:
    """Fail in so many words."""
    return Result.error("half of it\nis here") if hand else Result.error(words)


@pytest.mark.parametrize("words", ["x" * 1_064, "one\ntwo\nthree", f"first {'y' * 900}\nsecond"])
async def test_a_sentence_that_is_returned_as_an_error_is_bounded_like_one_that_is_raised(words: str) -> None:
    told = (await toolcrib.open({}, tools=[fail]).belt(OWNER).call("fail", {"words": words})).plain_text
    assert (len(told) <= 400, len(told.splitlines())) == (True, 1)


@pytest.mark.parametrize("folder", ["agent", "define", "tools", "backends/files", "backends/web"])
def test_every_code_that_a_program_meets_stands_on_the_page(folder: str) -> None:
    page = (ROOT / "docs/write-a-tool.md").read_text().partition("## Errors")[2].partition("## Requirements")[0]
    sources = [each.read_text() for each in (SOURCE / folder).rglob("*.py")]
    codes = {code for each in sources for code in re.findall(r'code="(\w+)"', each)}
    assert codes - set(re.findall(r"`(\w+)`", page)) == set()
    assert len(codes) > 2


FORMS = {
    "present": {"html": {"type": "string", "pattern": "^<"}},
    "move": {"x": {"type": "integer"}},
    "hide": {},
}


def union(word: str, *, constant: bool) -> Mapping[str, Any]:
    def name(action: str) -> Mapping[str, Any]:
        return {"const": action} if constant else {"enum": [action, action.upper()]}

    forms = [
        {"type": "object", "properties": {"action": name(each), **own}, "required": ["action", *own]}
        for each, own in FORMS.items()
    ]
    return {"type": "object", word: forms}


@pytest.mark.parametrize("word", ["anyOf", "oneOf"])
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"action": "present", "html": "nohtml"}, "html must match ^<"),
        ({"action": "move"}, "x is required"),
        ({"action": "move", "x": "far"}, "x must be an integer"),
    ],
)
def test_of_a_union_the_form_is_told_whose_constant_was_given(
    word: str, constant: bool, given: dict[str, Any], words: str
) -> None:
    foreign = tool_named("foreign", "Foreign.", Shape(lambda: union(word, constant=constant), check_of_schema))
    with pytest.raises(ArgumentError, match=words.replace("^", r"\^")):
        foreign.check(given)


@pytest.mark.parametrize("agent", ["ghost", "!!!", "…", "../", "子"])
async def test_an_agent_that_does_not_exist_is_started_for_nobody(agent: str) -> None:
    async with toolcrib.open({"agents": {"helper": {}}}) as crib:
        told = await crib.belt(OWNER).call("sessions_spawn", {"task": "go", "agentId": agent})
        assert told.status == "error"
        listed = await crib.belt(OWNER).call("subagents", {"action": "list"})
        assert "subagent:" not in listed.plain_text


async def test_a_factory_is_called_once_for_all_the_tools_of_a_belt(tmp_path: Path) -> None:
    asked = list[str | None]()

    def factory(config: Mapping[str, Any], caller: Caller) -> list[Tool]:
        asked.append(caller.session)

        @tool(effects={"read"})
        async def one() -> str:
            """One."""
            return "1"

        @tool(effects={"read"})
        async def two(ctx: Ctx) -> str:
            """Two."""
            return "2"

        return [one, two]

    crib = toolcrib.open({}, plugins=[Offer(source="plugin:shop", tools=(factory,))], state=tmp_path)
    async with crib:
        asked.clear()
        turn = crib.turn(
            "hello", caller=Caller(owner=True, session="agent:main:x"), model=ScriptedModel([text_reply("hi")])
        )
        await turn.end()
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("tools:\n  deny:\n    - tool: write\n      where: {path: secret}\n", "where"),
        ("mcpServers:\n  a:\n    comand: x\n", "comand"),
    ],
)
def test_an_unknown_key_is_told_before_one_that_is_missing(text: str, named: str, tmp_path: Path) -> None:
    (tmp_path / "crib.yaml").write_text(text)
    with pytest.raises(ConfigError, match=rf"{named}: unknown key"):
        load(tmp_path / "crib.yaml")


@pytest.mark.parametrize(
    ("key", "header", "name"),
    [("sk-ant-oat01-abcdefgh", "authorization", "Read"), ("sk-ant-api03-abcdefgh", "x-api-key", "read")],
)
async def test_a_token_of_a_subscription_goes_as_one_and_its_model_knows_the_tools_by_its_own_names(
    key: str, header: str, name: str
) -> None:
    async with serving(answering("anthropic", Say(text="Yes."))) as server:
        config = {"models": {"default": "anthropic:m", "anthropic": {"apiKey": key, "baseUrl": server.base_url}}}
        async with toolcrib.open(config) as crib:
            await crib.turn("hi", caller=OWNER).end()
    (asked,) = server.asked
    carried = {each for each in ("authorization", "x-api-key") if key in asked.headers.get(each, "")}
    assert (carried, name in [each["name"] for each in asked.body["tools"]]) == ({header}, True)


def test_a_session_goes_on_with_any_model_of_a_provider_that_is_configured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "crib.yaml"
    config.write_text("models: {openai: {apiKey: k}}\n")
    of = ("--config", str(config))
    ask(capsys, "run", "hi", "--model", "offline:rules", "--session", "agent:main:main", *of)
    assert ask(capsys, "sessions", "switch", "agent:main:main", "openai:gpt-5", *of).code == 0
    refused = ask(capsys, "sessions", "switch", "agent:main:main", "groq:llama", *of)
    assert (refused.code, "names no model 'groq:llama'" in refused.err) == (2, True)
