"""A secret is told to nobody: what the configuration and the environment know is redacted by value, in one way."""

import asyncio
import gc
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from toolcrib import Call, Caller, Result, tool
from toolcrib.adapter.events import event_json
from toolcrib.app.secrets import find_values, redact_for
from toolcrib.config.load import load
from toolcrib.testing.models import ScriptedModel, call_reply, text_reply

pytestmark = pytest.mark.anyio

CONFIG: dict[str, Any] = {
    "models": {
        "house": {"baseUrl": "http://127.0.0.1:9", "apiKey": "sk-plain-0001", "headers": {"X-Team": "Bearer th-0002-x"}}
    },
    "mcpServers": {"srv": {"command": "true", "env": {"DB_PASSWORD": "mcp-0003-pw", "LANG": "de_DE.UTF-8"}}},
    "web": {"search": {"apiKey": "brave-0004"}},
    "secrets": {"SHOP": "${SHOP}"},
    "tools": {"exec": {"env": ["LENT_TOKEN", "EDITOR", "HOME"]}, "ask": ["save"]},
    "workspace": {"root": "${WORKROOT}"},
}  # fmt: skip
ENV = {
    "SHOP": "shop-0005-value",
    "LENT_TOKEN": "lent-0006",
    "OPENAI_API_KEY": "sk-own-0007",
    "EDITOR": "vim",
    "HOME": "/home/ann",
    "SHORT_TOKEN": "abc",
    "SSH_AUTH_SOCK": "/run/ssh.sock",
    "MULTI_KEY": "-----BEGIN-----\nQUJDREVGR0hJSktM0008\n-----END-----",
}
HIDDEN = ("sk-plain-0001", "th-0002-x", "mcp-0003-pw", "brave-0004", "shop-0005-value", "lent-0006", "sk-own-0007",
          "QUJDREVGR0hJSktM0008")  # fmt: skip
ORDINARY = "vim abc /home/ann /run/ssh.sock de_DE.UTF-8 house true"


def surroundings(root: Path) -> dict[str, str]:
    return {**ENV, "WORKROOT": str(root)}


@tool(effects={"read"})
async def leak() -> Result:
    """Say everything."""
    words = "\n".join((*HIDDEN, ORDINARY))
    return Result.text(words, details={"output": [words], HIDDEN[0]: 1})


@tool(effects={"read"})
async def crash() -> Result:
    """Fail with everything."""
    raise toolcrib.ToolError(" ".join((*HIDDEN, ORDINARY)))


@tool(effects={"write"})
async def save(text: str) -> str:
    """Save it."""
    return text


def test_what_is_known_to_be_secret_is_redacted_and_ordinary_words_are_not(tmp_path: Path) -> None:
    env = surroundings(tmp_path)
    redact = redact_for(find_values(load(CONFIG, env), env))
    assert redact is not None
    told = redact(f"{' '.join(HIDDEN)} {ORDINARY} {tmp_path}")
    assert told == f"{' '.join('…' for _ in HIDDEN)} {ORDINARY} {tmp_path}"


def test_where_nothing_is_secret_nothing_is_looked_for() -> None:
    assert redact_for(find_values(load({}, {}), {"HOME": "/root", "EDITOR": "vim"})) is None


async def test_the_whole_of_a_long_result_is_kept_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in surroundings(tmp_path).items():
        monkeypatch.setenv(name, value)

    @tool(effects={"read"})
    async def much() -> str:
        """Say much."""
        return f"{HIDDEN[6]} and more\n" * 1_000

    async with toolcrib.open({}, state=tmp_path / "state") as crib:
        told = await crib.belt(toolcrib.OWNER, extra=[much]).call("much")
        assert "result_get with key" in told.plain_text
    kept = b"".join(path.read_bytes() for path in (tmp_path / "state").iterdir())
    assert b"and more" in kept
    assert HIDDEN[6].encode() not in kept


async def test_no_secret_comes_back_in_a_turn_or_stays_in_the_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "work"
    root.mkdir()
    (root / ".env").write_text("\n".join(HIDDEN) + f"\n{ORDINARY}\n", encoding="utf-8")
    for name, value in surroundings(root).items():
        monkeypatch.setenv(name, value)
    asked = list[str]()

    class Person:
        async def approve(self, caller: Caller, call: Call, reason: str, binding: Mapping[str, str], /) -> bool:
            asked.append(call.name)
            return True

    calls = [
        Call(id="a", name="read", args={"path": ".env"}),
        Call(id="b", name="leak"),
        Call(id="c", name="crash"),
        Call(id="d", name="save", args={"text": HIDDEN[0]}),
        Call(id="e", name="grep", args={"pattern": "000", "path": "."}),
    ]
    model = ScriptedModel([*map(call_reply, calls), text_reply("done")])
    state = tmp_path / "state"
    async with toolcrib.open(CONFIG, state=state, approver=Person()) as crib:
        turn = crib.turn(
            f"use {HIDDEN[1]}", caller=toolcrib.OWNER, session="agent:main:main", model=model, extra=[leak, crash, save]
        )
        told = [str(event_json(event)) async for event in turn if type(event).__name__ not in ("CallDelta", "Replied")]
        exported = await crib.ask("sessions.export", {"key": "agent:main:main"}, caller=toolcrib.OWNER)
    prompts = [str(message) for request in model.asked for message in request.messages if message.role != "assistant"]
    answers = [each for each in model.asked[-1].messages if each.role == "tool"]
    assert [each.status for each in answers] == ["ok", "ok", "error", "ok", "ok"]
    assert asked == ["save"]
    assert ORDINARY in str(answers[0])
    kept = b"".join(path.read_bytes() for path in state.rglob("*") if path.is_file()).decode(errors="replace")
    for secret in HIDDEN:
        assert secret not in "\n".join(prompts)
        if secret != HIDDEN[0]:  # what a model itself says in a call is its own word
            assert secret not in "\n".join(told)
            assert secret not in "\n".join(exported)
            assert secret not in kept


async def test_no_secret_is_in_a_question_to_a_human_or_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name, value in surroundings(tmp_path).items():
        monkeypatch.setenv(name, value)

    @tool(effects={"read"})
    async def bug() -> str:
        """Break."""
        raise ValueError(f"cannot use {HIDDEN[6]}")

    shown = asyncio.Queue[str]()
    other = {"models": {"openai": {"apiKey": "another-secret-0123456789"}}}
    async with (
        toolcrib.open(other, env={}),  # its redactor knows other secrets and comes first
        toolcrib.open({"tools": {"ask": ["save"]}}, state=tmp_path / "state") as crib,
        asyncio.timeout(60),
    ):
        belt = crib.belt(toolcrib.OWNER, extra=[save, bug])
        await belt.call("bug")
        crib.approvals.on_question(lambda question: shown.put_nowait(question.shown))
        waiting = asyncio.create_task(belt.call("save", {"text": f"{HIDDEN[6]} here"}))
        assert "… here" in await shown.get()
        waiting.cancel()
    assert "cannot use …" in caplog.text
    assert HIDDEN[6] not in caplog.text
    kept = b"".join(path.read_bytes() for path in (tmp_path / "state").iterdir())
    assert HIDDEN[6].encode() not in kept


async def test_a_plain_word_from_the_environment_is_hidden_in_errors_record_and_log_and_stays_in_results(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    @tool(effects={"read"})
    async def tell(how: str) -> str:
        """Say the word, or fail with it."""
        if how == "bug":
            raise ValueError("the tide is high")
        if how == "error":
            raise toolcrib.ToolError("the tide is high")
        return "the tide is high"

    config = {"secrets": {"word": "${WORD}"}}
    async with toolcrib.open(config, env={"WORD": "tide"}, state=tmp_path) as crib:
        belt = crib.belt(toolcrib.OWNER, extra=[tell])
        told = {how: str(await belt.call("tell", {"how": how})) for how in ("error", "bug", "tide")}
    assert "the … is high" in told["error"]
    assert "the tide is high" in told["tide"]
    assert "ValueError: the … is high" in caplog.text
    assert "tide" not in told["error"] + told["bug"] + caplog.text
    assert b"tide" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


def test_a_crib_that_is_dropped_unclosed_leaves_nothing_in_the_log() -> None:
    log = logging.getLogger("toolcrib")
    before = set(log.filters)
    crib = toolcrib.open({}, env={"OPENAI_API_KEY": "sk-live-83hf92kd02"})
    (hides,) = set(log.filters) - before
    belt = crib.belt(toolcrib.OWNER)
    del crib
    gc.collect()
    assert hides in log.filters  # what can still be called can still fail
    del belt
    gc.collect()
    assert hides not in log.filters
