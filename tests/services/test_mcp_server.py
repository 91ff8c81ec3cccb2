"""What is said of an MCP server can be read, and pasted, without harm: names of tools are its own words."""

import shlex

import pytest

from toolcrib.define.mcp import Offered
from toolcrib.services.mcp.servers import KnownServer


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ("echo", ["echo"]),
        ("read file", ["read file"]),
        ("a'$(touch /tmp/x)", ["a'$(touch /tmp/x)"]),
        ("`id`", ["`id`"]),
        ("--yes", ["--", "--yes"]),
        ("two\nlines", ["two\\nlines"]),
    ],
)
def test_the_command_that_accepts_a_tool_does_nothing_else(tool: str, words: list[str]) -> None:
    known = KnownServer("srv")
    known.offered = Offered(({"name": tool},))
    (sentence,) = known.sentences()
    command = sentence.partition("withheld until `")[2].removesuffix("`")
    assert shlex.split(command) == ["toolcrib", "mcp", "accept", "srv", *words]
    assert "\n" not in sentence
