"""The MCP conformance suite, pinned: where it comes from, what it tests on our side, and what it said.

The tools that it calls are a plugin, and what else it asks for is brought by an MCP server of somebody else's
(`conformance_server.py`). It cannot send a header, so a proxy adds our token. Its client scenarios are answered by
`conformance_client.py`.
"""

import asyncio
import contextlib
import fcntl
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import platformdirs
from tests.doors.world import crib_file, plugin_folder
from tests.sockets import listening, relay

SUITE = ("@modelcontextprotocol/conformance@0.1.16", "node@22.23.3")  # the suite needs Node 22

TOOLS = '''\
import asyncio, base64
from toolcrib import Args, Ctx, Embed, Plugin, Result, Text, ToolError, tool

PICTURE = base64.b64decode("{picture}")


@tool(effects=set())
async def test_simple_text() -> str:
    """Say something."""
    return "This is a simple text response for testing."


@tool(effects=set())
async def test_image_content() -> Result:
    """Show a picture."""
    return Result.image(PICTURE)


@tool(effects=set())
async def test_audio_content() -> Result:
    """Give a sound."""
    return Result.embed(Embed("audio/wav", data=b"RIFF$\\0\\0\\0WAVEfmt "))


@tool(effects=set())
async def test_embedded_resource() -> Result:
    """Give a file."""
    return Result.embed(Embed("text/plain", "test://embedded-resource"), "This is an embedded resource content.")


@tool(effects=set())
async def test_multiple_content_types() -> Result:
    """Give a text, a picture and a file."""
    file = Result.embed(Embed("application/json", "test://mixed-content-resource"), '{{"test":"data","value":123}}')
    return Result((Text("Multiple content types test:"), *Result.image(PICTURE).content, *file.content))


@tool(effects=set())
async def test_tool_with_logging(ctx: Ctx) -> str:
    """Tell how it goes."""
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        ctx.progress(Result.text(words))
        await asyncio.sleep(0.05)
    return "done"


@tool(effects=set())
async def test_tool_with_progress(ctx: Ctx) -> str:
    """Tell how far it is."""
    for at in (0, 50, 100):
        ctx.progress(Result.text(f"Completed step {{at}} of 100", details={{"progress": at, "total": 100}}))
        await asyncio.sleep(0.05)
    return "done"


@tool(effects=set())
async def test_error_handling() -> str:
    """Fail."""
    raise ToolError("This tool intentionally returns an error for testing")


@tool(effects=set())
async def test_reconnection() -> str:
    """Take a moment."""
    await asyncio.sleep(0.2)
    return "Reconnection test completed successfully"


PLAIN = ["option1", "option2", "option3"]
ONE = [{{"const": f"value{{n}}", "title": f"Option {{n}}"}} for n in (1, 2, 3)]
WORD = {{"type": "string"}}
FORMS = {{
    "who": {{"username": WORD, "email": WORD}},
    "defaults": {{
        "name": WORD | {{"default": "John Doe"}},
        "age": {{"type": "integer", "default": 30}},
        "score": {{"type": "number", "default": 95.5}},
        "status": WORD | {{"enum": ["active", "inactive", "pending"], "default": "active"}},
        "verified": {{"type": "boolean", "default": True}},
    }},
    "enums": {{
        "untitledSingle": WORD | {{"enum": PLAIN}},
        "titledSingle": WORD | {{"oneOf": ONE}},
        "legacyEnum": WORD | {{"enum": ["opt1", "opt2", "opt3"], "enumNames": ["One", "Two", "Three"]}},
        "untitledMulti": {{"type": "array", "items": WORD | {{"enum": PLAIN}}}},
        "titledMulti": {{"type": "array", "items": {{"anyOf": ONE}}}},
    }},
}}


async def fill_in(ctx: Ctx, message: str, form: str) -> str:
    return f"User response: {{await ctx.ask(message, {{'type': 'object', 'properties': FORMS[form]}})}}"


@tool(effects=set())
async def test_elicitation(ctx: Ctx, message: str) -> str:
    """Ask who it is."""
    return await fill_in(ctx, message, "who")


@tool(effects=set())
async def test_elicitation_sep1034_defaults(ctx: Ctx) -> str:
    """Ask with defaults."""
    return await fill_in(ctx, "Is that so?", "defaults")


@tool(effects=set())
async def test_elicitation_sep1330_enums(ctx: Ctx) -> str:
    """Ask to choose."""
    return await fill_in(ctx, "Which?", "enums")


ADDRESS = {{"type": "object", "properties": {{"street": {{"type": "string"}}, "city": {{"type": "string"}}}}}}


@tool(
    effects=set(),
    parameters={{
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {{"address": ADDRESS}},
        "properties": {{"name": {{"type": "string"}}, "address": {{"$ref": "#/$defs/address"}}}},
        "additionalProperties": False,
    }},
)
async def json_schema_2020_12_tool(ctx: Ctx, args: Args) -> str:
    """Take an address."""
    return "taken"


plugin = Plugin(
    name="conformance",
    tools=(
        test_simple_text, test_image_content, test_audio_content, test_embedded_resource, test_multiple_content_types,
        test_tool_with_logging, test_tool_with_progress, test_error_handling, test_reconnection,
        json_schema_2020_12_tool, test_elicitation, test_elicitation_sep1034_defaults, test_elicitation_sep1330_enums,
    ),
)
'''


def crib_in(folder: Path, picture: str) -> Path:
    """Return the configuration of a crib that has what the suite asks for."""
    code = TOOLS.format(picture=picture)
    names = re.findall(r"^@tool.*?^async def (\w+)", code, re.MULTILINE | re.DOTALL)
    manifest = {"tools": [{"name": name, "description": name, "effects": []} for name in names]}
    plugins = plugin_folder(folder / "plugins", code, id="conformance", manifest=manifest)
    server, work = Path(__file__).with_name("conformance_server.py"), folder / "work"
    work.mkdir()
    return crib_file(
        folder,
        f"workspace: {{root: '{work}'}}\n"
        f"plugins: {{folders: ['{plugins}'], allow: [conformance]}}\n"
        f"mcpServers: {{suite: {{command: '{sys.executable}', args: ['{server}']}}}}\n",
    )


def suite() -> list[str]:
    """Return the words that start the suite, installed once for all runs; raise CalledProcessError without it."""
    folder = platformdirs.user_cache_path("toolcrib-tests") / "conformance" / "+".join(SUITE).replace("/", "-")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "installed").exists():
            words = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), *SUITE]
            subprocess.run(words, capture_output=True, text=True, timeout=300, check=True)
            (folder / "installed").touch()
    home = folder / "node_modules"
    return [str(home / "node/bin/node"), str(home / "@modelcontextprotocol/conformance/dist/index.js")]


def read_results(folder: Path) -> dict[str, list[str]]:
    """Return what the suite wrote: for every scenario the sentences about what failed, none when it passed."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("checks.json")):
        name = re.sub(r"-\d{4}-\d\d-\d\dT.*$", "", str(path.parent.relative_to(folder)))
        checks: list[Mapping[str, Any]] = json.loads(path.read_text())
        bad = (check for check in checks if check["status"] in ("FAILURE", "WARNING"))
        found[name.removeprefix("server-")] = [f"{check['id']}: {check.get('errorMessage')}" for check in bad]
    return found


@contextlib.asynccontextmanager
async def with_token(url: str, token: str) -> AsyncIterator[str]:
    """A proxy on this machine that adds our token to every request; one request a connection."""
    port = urlsplit(url).port or 80

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = re.sub(rb"(?i)\r\nconnection:[^\r]*", b"", (await reader.readuntil(b"\r\n\r\n"))[:-4])
        ours = f"\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n".encode()
        await relay((reader, writer), port, head + ours)

    async with listening(serve) as here:
        yield f"http://localhost:{here}{urlsplit(url).path}"
