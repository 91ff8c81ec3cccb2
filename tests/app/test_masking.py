"""The configuration as a page shows and saves it: its own text, never a secret."""

import os
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from toolcrib.define.errors import ToolError

pytestmark = pytest.mark.anyio
SECRET = "sk-live-83hf92kd02"
TEXT = f"""# the models
models:
  default: offline:offline
  openai: {{ apiKey: "{SECRET}" }}   # mine
  anthropic: {{ apiKey: "${{ANTHROPIC_KEY}}" }}
tools:
  deny: [exec]
"""
ENV = {"ANTHROPIC_KEY": "ak-00112233445566"}


def open_with(folder: Path, text: str = TEXT, name: str = "crib.yaml") -> tuple[toolcrib.Crib, Path]:
    path = folder / name
    path.write_text(text)
    path.chmod(0o600)
    return toolcrib.open(path, env=ENV, state=folder / "state"), path


async def show(crib: toolcrib.Crib) -> dict[str, Any]:
    told: dict[str, Any] = await crib.ask("config.get", {"text": True}, caller=toolcrib.OWNER)
    return told


async def test_the_text_is_the_files_own_with_marks_for_its_secrets_and_where_keys_stand(tmp_path: Path) -> None:
    crib, path = open_with(tmp_path)
    told = await show(crib)
    assert told["raw"] == TEXT.replace(SECRET, "…1…")  # comments and references stay
    assert told["places"]["tools.deny"] == f"{path}:7"
    assert SECRET not in str(told)
    assert ENV["ANTHROPIC_KEY"] not in str(told)


async def test_what_is_saved_has_the_secrets_again(tmp_path: Path) -> None:
    crib, path = open_with(tmp_path)
    told = await show(crib)
    raw = told["raw"].replace("[exec]", "[exec, write]")
    await crib.ask("config.apply", {"raw": raw, "baseHash": told["hash"]}, caller=toolcrib.OWNER)
    assert path.read_text() == TEXT.replace("[exec]", "[exec, write]")


@pytest.mark.parametrize(
    "change",
    [
        lambda raw: raw + "agents: { main: { name: '…1…' } }\n",  # it would be shown there
        lambda raw: raw.replace("# mine", "# …1…"),  # and would be once the key is another
        lambda raw: raw.replace("…1…", "…2…"),  # which stands for nothing
        lambda raw: raw.replace('openai: { apiKey: "…1…" }', 'openai: { baseUrl: "https://a.test/…1…" }'),
    ],
)
async def test_a_mark_counts_nowhere_else(tmp_path: Path, change: Any) -> None:
    crib, path = open_with(tmp_path)
    told = await show(crib)
    with pytest.raises(ToolError, match="stands for a secret"):
        await crib.ask("config.apply", {"raw": change(told["raw"]), "baseHash": told["hash"]}, caller=toolcrib.OWNER)
    assert path.read_text() == TEXT


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("escaped.json", '{"models": {"openai": {"apiKey": "sk-l\\u0069ve-83hf92kd02"}}}'),
        ("short.yaml", "models: { openai: { apiKey: abc } }"),
        ("folded.yaml", 'secrets: { PEM: "first98part76\n    second54part32" }'),  # the half would be found alone
        ("marked.yaml", f"models: {{ openai: {{ apiKey: {SECRET} }} }}\nagents: {{ main: {{ name: '…1…' }} }}"),
    ],
)
async def test_a_text_that_would_show_a_secret_is_not_shown(tmp_path: Path, name: str, text: str) -> None:
    crib, _ = open_with(tmp_path, text, name)
    told = await show(crib)
    assert told["raw"] is None
    assert "the file is not shown" in told["rawProblem"]


@pytest.mark.parametrize(
    "text",
    [
        "secrets:\n  PEM: |\n    -----BEGIN KEY-----\n    {}\n    k3jd92k3jd92k3jd92\n    -----END KEY-----\n",
        "models:\n  openai: {{ apiKey: '${{ANTHROPIC_KEY}}' }}\n  # apiKey: {}\n",
        "# curl https://bob:{}@a.test/\ntools: {{ deny: [exec] }}\n",
        "models: {{ openai: {{ baseUrl: 'https://a.test/v1?api_key={}' }} }}\n",
        "models: {{ openai: {{ baseUrl: 'https://bob:{}@a.test/v1' }} }}\n",
        "tools: {{ exec: {{ allow: [[curl, -H, 'Authorization: Bearer {}']] }} }}\n",
        "tools: {{ hooks: [{{ on: before_tool_call, run: [/bin/true, --token, {}] }}] }}\n",
        "models: {{ openai: {{ apiKey: {0} }} }}\nagents: {{ a-{0}: {{ name: x }} }}\n",
    ],
)
async def test_a_secret_is_left_out_wherever_it_is_written_and_comes_back(tmp_path: Path, text: str) -> None:
    crib, path = open_with(tmp_path, text.format(SECRET))
    told = await show(crib)
    assert SECRET not in str(told)
    assert "k3jd92" not in str(told)
    assert "…1…" in told["raw"]
    raw = told["raw"] + "approvals: {}\n"
    await crib.ask("config.apply", {"raw": raw, "baseHash": told["hash"]}, caller=toolcrib.OWNER)
    assert path.read_text() == text.format(SECRET) + "approvals: {}\n"


async def test_what_an_mcp_server_is_started_with_stays_but_for_what_looks_like_a_secret(tmp_path: Path) -> None:
    text = """mcpServers:
  notes: { command: "true", args: [-y, server-notes, --port, "80", --pin, hunter22, kd8d92kd02], env: { DEBUG: "1" } }
  other: { url: "http://127.0.0.1:1/", headers: { X-Version: "2" } }
plugins: { folders: [], notes: { enabled: false, config: { retries: 3, mode: on } } }
"""
    crib, _ = open_with(tmp_path, text)
    async with crib:
        raw = (await show(crib))["raw"]
    assert '[-y, server-notes, --port, "80", --pin, …3…, …2…], env: { DEBUG: "1" }' in raw
    assert 'X-Version: "2"' in raw
    assert "retries: 3, mode: on" in raw


async def test_comments_and_rules_that_hold_no_secret_stay(tmp_path: Path) -> None:
    text = """# token: see the safe; tokens: 1000000; https://a.test/?page=2&key=name
tools: { exec: { allow: [[make, --key, value, KEY=name]] }, deny: [{ tool: read, when: { key: "src/x_1/**" } }] }
"""
    crib, _ = open_with(tmp_path, text)
    assert (await show(crib))["raw"] == text


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("crib.yaml", b"# one\r\ntools:\r\n  deny: [exec]\r\n"),
        ("crib.yaml", b"\xef\xbb\xbftools: { deny: [exec] }\n"),
        ("crib.toml", b"\xef\xbb\xbf[tools]\r\ndeny = ['exec']\r\n"),
        ("crib.json", b'\xef\xbb\xbf{"tools": {"deny": ["exec"]}}'),
    ],
)
async def test_a_save_changes_nothing_but_what_was_changed(tmp_path: Path, name: str, data: bytes) -> None:
    crib, path = open_with(tmp_path, data.decode(), name)
    told = await show(crib)
    raw = told["raw"].replace("exec", "write")
    await crib.ask("config.apply", {"raw": raw, "baseHash": told["hash"]}, caller=toolcrib.OWNER)
    assert path.read_bytes() == data.replace(b"exec", b"write")


async def test_a_file_that_was_broken_meanwhile_is_told_of_and_not_shown(tmp_path: Path) -> None:
    crib, path = open_with(tmp_path)
    path.write_text("tools: [\n")
    told = await show(crib)
    assert told["raw"] is None
    assert told["rawProblem"]


@pytest.mark.parametrize("become", [lambda path: os.mkfifo(path), lambda path: path.write_bytes(b"# caf\xe9\n")])
async def test_a_file_that_is_no_text_any_more_is_told_of(tmp_path: Path, become: Any) -> None:
    crib, path = open_with(tmp_path)
    path.unlink()
    become(path)
    told = await show(crib)
    assert told["raw"] is None
    assert "cannot be read" in told["rawProblem"]


async def test_a_secret_that_is_an_ordinary_word_elsewhere_comes_back_whole(tmp_path: Path) -> None:
    text = "tools: { deny: [exec] }\nmodels: { openai: { apiKey: tools } }\n"
    crib, path = open_with(tmp_path, text)
    told = await show(crib)
    raw = told["raw"].replace("[exec]", "[exec, write]")
    await crib.ask("config.apply", {"raw": raw, "baseHash": told["hash"]}, caller=toolcrib.OWNER)
    assert path.read_text() == text.replace("[exec]", "[exec, write]")


async def test_models_are_not_told_the_text(tmp_path: Path) -> None:
    crib, _ = open_with(tmp_path)
    assert "raw" not in await crib.ask("config.get", caller=toolcrib.OWNER)
