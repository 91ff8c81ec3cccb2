"""The MCP conformance suite passes, both ways, but for the scenarios that `docs/mcp.md` gives a reason for."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="the package mcp is not installed")

from tests.doors.mcp.conformance import crib_in, read_results, suite, with_token
from tests.doors.mcp.conformance_server import PICTURE
from tests.doors.mcp.test_processes import TOKEN, over_http

pytestmark = [pytest.mark.anyio, pytest.mark.full, pytest.mark.timeout(900)]

PAGE = Path(__file__).parents[3] / "docs" / "mcp.md"
SERVER_SCENARIOS, CLIENT_SCENARIOS = 32, ("initialize", "tools_call", "sse-retry")
# nobody here fills in a form or answers for a model on behalf of a server
REFUSED = {
    "tools-call-sampling",
    "tools-call-elicitation",
    "elicitation-sep1034-defaults",
    "elicitation-sep1330-enums",
}


@pytest.fixture(scope="module")
def words() -> list[str]:
    try:
        return suite()
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"impossible here: npm cannot get the suite: {error}")


async def run(*words: str) -> None:
    process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.DEVNULL)
    await process.wait()


async def test_every_server_scenario_passes_but_those_that_a_client_would_have_to_answer(
    words: list[str], tmp_path: Path
) -> None:
    crib = crib_in(tmp_path, PICTURE)
    with over_http(crib, tmp_path) as (url, _):
        async with with_token(url, TOKEN) as at:
            await run(*words, "server", "--url", at, "--suite", "all", "-o", str(tmp_path / "results"))
    found = read_results(tmp_path / "results")
    assert len(found) == SERVER_SCENARIOS
    assert {name for name, bad in found.items() if bad} == REFUSED, found
    assert f"{SERVER_SCENARIOS - len(REFUSED)} of {SERVER_SCENARIOS}" in PAGE.read_text()
    assert all(f"`{name}`" in PAGE.read_text() for name in REFUSED)


@pytest.mark.parametrize("scenario", CLIENT_SCENARIOS)
async def test_our_client_passes(scenario: str, words: list[str], tmp_path: Path) -> None:
    program = f"{sys.executable} {Path(__file__).with_name('conformance_client.py')}"
    options = ("--command", program, "--scenario", scenario, "--timeout", "120000", "-o", str(tmp_path))
    await run(*words, "client", *options)
    (bad,) = read_results(tmp_path).values()
    # a machine that is busy comes back a little late, which the suite takes for a warning
    assert [each for each in bad if "slightly late" not in each] == []
