"""The lines that the pages about clients show can be pasted: the JSON is JSON, and our words in them are understood."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from toolcrib.doors.cli.mcp import command

PAGES = sorted((Path(__file__).parents[3] / "docs" / "clients").glob("*.md"))
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def lines_of(text: str) -> Iterator[list[str]]:
    """Yield the words after `toolcrib mcp` of everything on a page that a person could paste."""
    for language, block in BLOCK.findall(text):
        if language == "json":
            known = json.loads(block)
            for server in (known.get("mcpServers") or known.get("servers") or {}).values():
                if "command" in server:
                    assert server["command"].endswith("toolcrib")
                    yield server["args"][1:]
        elif language == "sh":
            yield from filter(None, map(_words, block.splitlines()))
    yield from filter(None, map(_words, re.findall(r"`([^`\n]+)`", BLOCK.sub("", text))))


def _words(line: str) -> list[str]:
    words = shlex.split(line, comments=True)
    at = next((at for at in range(len(words)) if words[at : at + 2] == ["toolcrib", "mcp"]), None)
    return [] if at is None else words[at + 2 :]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_line_on_the_page_is_understood(page: Path) -> None:
    lines = [*lines_of(page.read_text())]
    assert len(lines) >= 3
    for name, *options in lines:
        asked = command.commands[name]
        made = asked.make_context(name, options, resilient_parsing=False)
        assert isinstance(made, click.Context)
