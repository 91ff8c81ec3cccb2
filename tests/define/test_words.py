"""The small words of the first floor: errors, places, callers, the context, agents, plugins, verdicts."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from toolcrib.define.agent import Agent
from toolcrib.define.caller import Caller, Sender
from toolcrib.define.context import CallState, Ctx
from toolcrib.define.errors import (
    ArgumentError,
    ConfigError,
    ConfigLocation,
    CribError,
    DeclarationError,
    PluginError,
    ToolError,
)
from toolcrib.define.message import Call, Message
from toolcrib.define.plugin import Plugin
from toolcrib.define.result import Image, Result, Text
from toolcrib.define.verdict import Layer, LayerStep, Rule, Selection, Verdict, Verdicts

pytestmark = pytest.mark.anyio


def test_every_error_raised_on_purpose_is_a_crib_error() -> None:
    for error in (ToolError, DeclarationError, ConfigError, PluginError, ArgumentError):
        with pytest.raises(CribError, match="no"):
            raise error("no")
    assert ToolError("no").code == "failed"
    assert ToolError("no", code="denied").code == "denied"
    assert ArgumentError("no").code == "bad_arguments"


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        (ConfigLocation("crib.yaml", 3, "tools.allow"), "crib.yaml:3: tools.allow: is empty"),
        (ConfigLocation("crib.yaml", 3), "crib.yaml:3: is empty"),
        (ConfigLocation("crib.yaml"), "crib.yaml: is empty"),
        (ConfigLocation(path="tools.allow"), "tools.allow: is empty"),
        (ConfigLocation(line=3), "is empty"),
        (None, "is empty"),
    ],
)
def test_a_configuration_error_says_where(place: ConfigLocation | None, sentence: str) -> None:
    error = ConfigError("is empty", place)
    assert (str(error), error.message, error.place) == (sentence, "is empty", place or ConfigLocation())


@pytest.mark.parametrize(
    "value",
    [
        Agent(name="a", description="A.", prompt="Be.", inputs=type("M", (BaseModel,), {})),
        Selection(tools={}, verdicts={}, steps=lambda name: ()),
        Call(id="1", name="read"),
        Caller(),
        Ctx(Call(id="1", name="read"), Caller(), CallState()),
        Image(b"", "image/png"),
        Layer("global", "tools", Rule()),
        Message(role="user"),
        ConfigLocation(),
        Plugin(name="p"),
        Result(),
        Rule(),
        Sender(),
        LayerStep("global", None, "allow", None),
        Text(""),
        Verdict("read", "allow", None, None, None, "", None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_passed_between_rooms_is_frozen_and_slotted(value: Any) -> None:
    first = value._fields[0] if hasattr(value, "_fields") else dataclasses.fields(value)[0].name
    with pytest.raises(AttributeError):
        setattr(value, first, None)
    assert not hasattr(value, "__dict__")


async def test_a_port_that_is_not_wired_says_so_in_one_sentence() -> None:
    ctx = Ctx(Call(id="1", name="read"), Caller(), CallState())
    for awaited, sentence in (
        (ctx.workspace.read("a"), "this crib has no workspace"),
        (ctx.workspace.write("a", b""), "this crib has no workspace"),
        (ctx.http.get("https://a.test"), "this crib has no way out to the web"),
        (ctx.rpc("cron.list", {}), "this crib has no gateway"),
        (ctx.blobs.put(b""), "this crib has no blob store"),
        (ctx.blobs.get("a"), "this crib has no blob store"),
    ):
        with pytest.raises(ToolError) as raised:
            await awaited
        assert (str(raised.value), raised.value.code) == (sentence, "unavailable")
    with pytest.raises(ToolError, match=r"^this crib holds no secret 'KEY'$"):
        ctx.secret("KEY")
    ctx.progress(Result.text("nobody watches"))
    assert ctx.cancelled() is False


@dataclass(frozen=True)
class Brief:
    objective: str
    max_files: int = 20


@dataclass(frozen=True)
class OddBrief:
    anything: object


def test_an_agent_is_data_with_the_limits_of_the_design() -> None:
    agent = Agent(name="reader", description="Reads.", prompt="Read.", inputs=Brief, tools=("read", "grep"))
    assert (agent.max_turns, agent.timeout, agent.max_tokens, agent.model, agent.output) == (
        30,
        600.0,
        None,
        None,
        None,
    )


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"name": "Reader"}, "agent 'Reader': a name is 1 to 64 of a-z, 0-9, _ and -"),
        ({"inputs": OddBrief}, "agent reader: OddBrief: parameter 'anything' is object"),
        ({"inputs": int}, "agent reader: <class 'int'> is no dataclass, TypedDict or pydantic model"),
        ({"output": OddBrief}, "agent reader: OddBrief: parameter 'anything' is object"),
    ],
)
def test_an_agent_that_cannot_work_is_refused(changes: dict[str, Any], complaint: str) -> None:
    plain = {"name": "reader", "description": "Reads.", "prompt": "Read.", "inputs": Brief}
    with pytest.raises(DeclarationError) as raised:
        Agent(**{**plain, **changes})
    assert str(raised.value).startswith(complaint)


def test_a_verdict_is_made_when_it_is_first_asked_for_and_only_once() -> None:
    judged: list[str] = []

    def judge(name: str) -> Verdict:
        judged.append(name)
        return Verdict(name, "allow", None, None, None, "passes", None)

    verdicts = Verdicts({"read": 1, "exec": 2}, judge)
    assert (list(verdicts), len(verdicts), "read" in verdicts, "rm" in verdicts) == (["read", "exec"], 2, True, False)
    assert verdicts["exec"] is verdicts["exec"]
    with pytest.raises(KeyError, match="rm"):
        verdicts["rm"]
    assert verdicts.get("rm") is None
    assert judged == ["exec"]
