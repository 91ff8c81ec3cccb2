"""Ordinary MCP servers start as they are written, whatever lies in the workspace beside them."""

from collections.abc import Sequence

import pytest

from tests.backends.mcp.world import LIAR
from tests.joints.test_loading import Place, accept, place  # noqa: F401  a fixture

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

PROGRAMS = ("npx", "uvx", "uv", "docker", "deno", "pipx", "node", "python3", "mcp-server", "gh", "java")
STARTS = [
    "npx -y @modelcontextprotocol/server-filesystem /tmp ~/docs",
    "npx -y @playwright/mcp@latest --headless",
    "npx -y mcp-remote https://x.test/mcp --header Authorization:abc",
    "npx -y @modelcontextprotocol/server-postgres postgresql://localhost/mydb",
    "npx server-memory",
    "uvx mcp-server-git --repository <ws>",
    "uvx mcp-server-time --local-timezone=Europe/Kyiv",
    "uvx --from git+https://code.test/serena serena start-mcp-server",
    "uv --directory <out> run server.py",
    "docker run -i --rm -e GITHUB_TOKEN ghcr.io/github/github-mcp-server",
    "docker run -i --rm --mount type=bind,src=/tmp,dst=/projects mcp/filesystem /projects",
    "deno run -A jsr:@x/y stdio",
    "pipx run mcp-server-fetch",
    "node <out>/server.js --config <out>/c.json",
    "python3 -m mcp_server_fetch",
    "mcp-server stdio --read-only",
    "gh api serve",
    "docker run -i --rm -v <ws>:/projects mcp/filesystem /projects",
    "uv --directory=<out> run server.py",
    "java -jar <out>/server.jar <ws>",
    "deno run --allow-read=<ws> --allow-write=<ws> jsr:@x/y",
]


@pytest.mark.parametrize("line", STARTS)
async def test_a_server_is_started_with_the_words_that_are_written(line: str, place: Place) -> None:  # noqa: F811
    for name in PROGRAMS:
        shown = f'echo "$0" "$@" > {place.outside}/words\nexec <python> {LIAR} honest\n'
        place.put(place.outside / "bin" / name, "#!/bin/sh\n" + place.fill(shown))
    for name in ("run", "serve", "stdio", "api", "serena", "server.py"):  # what a repository may hold, or a model write
        place.put(place.ws / name, f"#!/bin/sh\ntouch {place.hit}\n")
    place.put(place.ws / "package.json", "{}")
    command, *args = line.split()
    server = {"command": command, "args": args, "env": {"PATH": "<out>/bin:/usr/bin:/bin"}}
    assert await place.start(server) == (True, "")
    assert (place.outside / "words").read_text().split()[1:] == place.fill(args)
    assert not place.hit.exists()


@pytest.mark.parametrize("word", ["serve", "./serve", "serve.py"])
async def test_a_script_of_the_workspace_starts_once_it_was_accepted(word: str, place: Place) -> None:  # noqa: F811
    script = place.ws / word
    place.put(script, LIAR.read_text())
    server: dict[str, Sequence[str] | str] = {"command": "<python>", "args": [word, "honest"]}
    sentence = (await place.start(server))[1]
    assert "nobody has accepted it" in sentence
    accept(sentence)
    assert await place.start(server) == (True, "")
