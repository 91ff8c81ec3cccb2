"""A crib whose commands run here, for tests and adapters: opened in a folder, everything of it ended afterwards."""

import os
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import toolcrib
from toolcrib.agent.hooks import bind_guards
from toolcrib.app import Belt
from toolcrib.app.sources import folders_for
from toolcrib.backends.exec.shells import LocalShells
from toolcrib.backends.files.disk import Terms
from toolcrib.backends.stores.memory import InMemoryBlobs
from toolcrib.define.caller import Caller
from toolcrib.define.context import Ports
from toolcrib.define.ports import Approver
from toolcrib.define.result import Result
from toolcrib.services.exec.judge import CommandRunner
from toolcrib.services.router import Router

OPEN: Mapping[str, Any] = {"host": "host", "security": "full", "ask": "off"}


@asynccontextmanager
async def belt_in(
    root: Path, exec: Mapping[str, Any] = OPEN, *, approver: Approver | None = None, **config: Any
) -> AsyncIterator[Belt]:
    """Give the owner's belt over a folder, with `tools.exec` as stated."""
    async with cribbed(root, exec, approver=approver, **config) as (belt, _):
        yield belt


@asynccontextmanager
async def cribbed(
    root: Path,
    exec: Mapping[str, Any] = OPEN,
    *,
    approver: Approver | None = None,
    caller: Caller | None = None,
    environ: Mapping[str, str] | None = None,
    **config: Any,
) -> AsyncIterator[tuple[Belt, CommandRunner]]:
    """Give a belt over a folder, and what runs its commands."""
    tools = {**config.pop("tools", {}), "exec": dict(exec)}
    crib = toolcrib.open({"workspace": {"root": str(root)}, **config, "tools": tools})
    terms = Terms(root=root, state=root.parent / "state")
    blobs = InMemoryBlobs()
    commands = CommandRunner(
        settings=crib.settings,
        terms_of=lambda _: terms,
        shells=LocalShells(),
        blobs=blobs,
        environ=os.environ if environ is None else environ,
        explain_unaccepted=folders_for(crib.loaded, {}, root.parent / "state", own=False).explain_program,
    )
    belt = crib.belt(caller or toolcrib.OWNER, approver=approver)
    ports = Ports(
        workspace=belt.ports.workspace, blobs=blobs, rpc=Router([commands.processes]).rpc_for(caller or toolcrib.OWNER)
    )
    pipeline = replace(belt.pipeline, guards=bind_guards([commands.guard]), blobs=blobs)
    try:
        yield replace(belt, pipeline=pipeline, ports=ports), commands
    finally:
        await commands.close()


def said(result: Result) -> str:
    """Return the words of a result."""
    return result.plain_text


def unfenced(text: str) -> str:
    """Return words without the lines of the fence around what a command on the host printed."""
    begin, end = r"<<<EXTERNAL_UNTRUSTED_CONTENT [^\n]*\nSource: exec:host\n---\n", r"\n<<<END_EXTERNAL_[^\n]*"
    text = re.sub(f"{begin}|{end}", "", text)
    head = "The command exited with code 0; it printed:\n"
    return text.removeprefix(head).removesuffix("\nThat is all it printed.") if text.startswith(head) else text


def printed(result: Result) -> str:
    """Return what a command printed that nobody can see through: between its fence and the words about it."""
    fence, source, line, head, *lines, end, last = said(result).splitlines()
    assert (fence[:12], source, line, last[:16]) == ("<<<EXTERNAL_", "Source: exec:host", "---", "<<<END_EXTERNAL_")
    assert (head, end) == ("The command exited with code 0; it printed:", "That is all it printed.")
    return "\n".join(lines)
