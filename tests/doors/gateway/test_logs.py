"""The log: lines of JSON that nobody else reads, without secrets, begun anew in time; and how the owner looks at it."""

import asyncio
import json
import logging
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("websockets", reason="the extra gateway is not installed")

from toolcrib.doors.cli._log import keep_log

from .world import client_of, device, gateway_of

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

LOG = logging.getLogger("toolcrib")
SECRET = "sk-live-4Rk9Zq2LmX81"


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    handlers, level = list(LOG.handlers), LOG.level
    yield
    LOG.handlers, LOG.level = handlers, level


def rows(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_secrets_and_patterns_are_left_out_of_messages_and_tracebacks(tmp_path: Path) -> None:
    config = {"models": {"own": {"apiKey": SECRET}}, "logging": {"redactPatterns": ["PIN-[0-9]+"]}}
    async with gateway_of(config, state=tmp_path):
        keep_log("info", tmp_path / "deep" / "x.log")
        try:
            raise ValueError(f"no {SECRET} for you")
        except ValueError:
            LOG.exception("it failed with PIN-%d\nand %s", 123, SECRET)
        LOG.warning("half a character \udc80 is no reason to fail: %s", SECRET)
    text, (row, *_) = (tmp_path / "deep" / "x.log").read_text(), rows(tmp_path / "deep" / "x.log")
    assert (SECRET in text, "PIN-" in text, row["message"]) == (False, False, "it failed with …\nand …")
    assert (row["level"], "ValueError: no … for you" in row["error"]) == ("error", True)
    assert stat.S_IMODE((tmp_path / "deep" / "x.log").stat().st_mode) == 0o600


def test_a_long_one_is_begun_anew_and_lines_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(b"x" * 5_000_000)
    keep_log("info", path)
    LOG.debug("not told")
    LOG.info("y" * 1_000_000)
    assert (tmp_path / "x.log.1").stat().st_size == 5_000_000
    assert (len(rows(path)), path.stat().st_size < 20_000) == (1, True)


async def test_however_many_come_and_go_the_log_says_so_in_one_line(tmp_path: Path) -> None:
    async with gateway_of(state=tmp_path) as world:
        keep_log("info", tmp_path / "toolcrib.log")

        async def come_and_go() -> None:
            async with client_of(world):
                return

        await asyncio.gather(*(come_and_go() for _ in range(30)))
    assert [row["message"] for row in rows(tmp_path / "toolcrib.log")] == ["clients: 30 came, 30 went"]


async def test_only_the_owner_looks_at_it_from_where_the_last_look_ended(tmp_path: Path) -> None:
    config = {"models": {"own": {"apiKey": SECRET}}}
    async with gateway_of(config, state=tmp_path, devices=[device("d", "guest-token", "operator.read")]) as world:
        async with client_of(world, "guest-token") as guest:
            assert (await guest.refusal("logs.tail"))[0] == "INVALID_REQUEST"
        async with client_of(world) as client:
            assert (await client.get("logs.tail"))["lines"] == []
            log = tmp_path / "toolcrib.log"
            log.write_text(f"one\n{SECRET}\nthree\nhalf")
            first = await client.get("logs.tail")
            assert (first["lines"], first["file"]) == (["one", "…", "three"], str(log))
            log.write_text(log.read_text() + " of it\n")
            told = await client.get("logs.tail", {"cursor": first["cursor"]})
            assert (told["lines"], told["cursor"] == told["size"]) == (["half of it"], True)
            assert (await client.get("logs.tail", {"cursor": told["cursor"]}))["lines"] == []
            few = await client.get("logs.tail", {"limit": 1})
            assert (few["lines"], few["truncated"]) == (["half of it"], True)
            short = await client.get("logs.tail", {"maxBytes": 18})
            assert (short["lines"], short["truncated"]) == (["three", "half of it"], True)
            log.write_text("new\n")
            anew = await client.get("logs.tail", {"cursor": told["cursor"]})
            assert (anew["lines"], anew["reset"]) == (["new"], True)
