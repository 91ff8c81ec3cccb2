"""The network of commands in a whole crib: the rules of the way out hold for them, as the configuration says them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.backends.exec.shells import give_up
from tests.backends.web.proxies import SayHttp
from tests.sockets import listening

import toolcrib
from toolcrib.define.errors import ToolError

pytestmark = pytest.mark.anyio

EXEC = {"security": "full", "ask": "off", "network": True}


@asynccontextmanager
async def host() -> AsyncIterator[tuple[int, SayHttp]]:
    """Give the port of a server on this machine's loopback, and what it was asked."""
    said = SayHttp()
    async with listening(said) as port:
        yield port, said


async def run(root: Path, line: str, **config: Any) -> str:
    """Run a line in a crib with this configuration, and return what a model is told."""
    root.mkdir(exist_ok=True)
    crib = toolcrib.open({"workspace": {"root": str(root)}, "tools": {"exec": EXEC}, **config})
    try:
        result = await crib.belt(toolcrib.OWNER).call("exec", {"command": line})
        if "sandbox" in result.plain_text and "bubblewrap" in result.plain_text:
            give_up(ToolError(result.plain_text))
        return result.plain_text
    finally:
        await crib.close()


@pytest.mark.parametrize("way", ["--noproxy ''", "--noproxy '' --proxytunnel", "--noproxy '*'", ""])
async def test_a_server_of_this_machine_is_not_reached(tmp_path: Path, way: str) -> None:
    async with host() as (port, served):
        told = await run(tmp_path / "ws", f"curl -sS {way} http://127.0.0.1:{port}/")
        assert ("hello" in told, served.asked) == (False, [])
        assert any(words in told for words in ("127.0.0.1 is refused: its address is this machine", "403", "connect"))


@pytest.mark.parametrize(
    "place", ["169.254.169.254", "10.1.2.3", "[fd00:ec2::254]", "[::ffff:192.168.0.1]", "127.0.0.1.shop.localhost"]
)
async def test_private_and_metadata_addresses_are_refused_by_the_sentence_of_the_guard(
    tmp_path: Path, place: str
) -> None:
    told = await run(tmp_path / "ws", f"curl -sS --noproxy '' http://{place}/latest/meta-data/")
    assert "is refused: its address is" in told


async def test_what_the_operator_opened_is_reached_and_nothing_beside_it(tmp_path: Path) -> None:
    async with host() as (port, served), host() as (other, alone):
        opened = {"web": {"ssrf": {"allowPrivate": [f"127.0.0.1:{port}"]}}}
        line = f"curl -sS --noproxy '' http://127.0.0.1:{port}/ http://127.0.0.1:{other}/"
        told = await run(tmp_path / "ws", line, **opened)
        assert ("hello" in told, "127.0.0.1 is refused" in told) == (True, True)
        assert (len(served.asked), alone.asked) == (1, [])


async def test_a_host_that_the_rules_do_not_name_is_refused(tmp_path: Path) -> None:
    tools = {"exec": EXEC, "hosts": {"allow": ["shop.test"]}}
    told = await run(tmp_path / "ws", "curl -sS http://elsewhere.test/", tools=tools)
    assert "elsewhere.test is refused: the rules of this crib do not let out to it" in told


async def test_a_sandboxed_session_has_the_network_of_the_sandbox_alone(tmp_path: Path) -> None:
    line = "env | grep -c _proxy"
    for network, count in ((True, "4"), (False, "0")):
        told = await run(tmp_path / "ws", line, sandbox={"mode": "all", "network": network})
        assert count in told.split()
