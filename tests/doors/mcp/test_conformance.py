"""The MCP conformance suite passes, both ways, but for the scenarios that `docs/mcp.md` gives a reason for."""

import asyncio
import re
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
SERVER_SCENARIOS, CLIENT_SCENARIOS = 32, 26
# defaults that nobody chose; metadata that names another issuer than it was asked for; somebody else's identity token
CLIENT_REFUSES = {
    "elicitation-sep1034-client-defaults",
    "auth/2025-03-26-oauth-metadata-backcompat",
    "auth/cross-app-access-complete-flow",
}
REFUSED = {"tools-call-sampling"}  # no tool here asks for a model of the client's


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


async def test_our_client_passes_every_scenario_but_those_that_it_refuses(words: list[str], tmp_path: Path) -> None:
    listed = subprocess.run([*words, "list", "--client"], capture_output=True, text=True, check=True).stdout
    scenarios = re.findall(r"^  - (\S+)", listed, re.MULTILINE)
    program = f"{sys.executable} {Path(__file__).with_name('conformance_client.py')}"
    for scenario in {*scenarios} - CLIENT_REFUSES:
        options = ("--command", program, "--scenario", scenario, "--timeout", "120000", "-o", str(tmp_path))
        await run(*words, "client", *options)
    found = read_results(tmp_path)
    assert (len(scenarios), {*found}) == (CLIENT_SCENARIOS, {*scenarios} - CLIENT_REFUSES)
    # a machine that is busy comes back a little late, which the suite takes for a warning
    bad = {name: [each for each in said if "slightly late" not in each] for name, said in found.items()}
    assert {name: said for name, said in bad.items() if said} == {}
    assert f"{CLIENT_SCENARIOS - len(CLIENT_REFUSES)} of {CLIENT_SCENARIOS}" in PAGE.read_text()
    assert all(f"`{name}`" in PAGE.read_text() for name in CLIENT_REFUSES)
