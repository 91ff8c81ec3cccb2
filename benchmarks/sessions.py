"""A thousand sessions at once in one gateway, kept on the disk: how late its loop is, and how much it holds.

Each session reads a file of its own, with a word in it that no other has; one that saw another's ends the measure. The
floors are fixed: 50 milliseconds, and 400 MB (shown as a time: a MB is a millisecond).
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import toolcrib

from . import Row
from .gateway_servers import TOKEN

__all__ = ["SESSIONS", "measure", "talk_in", "write_canaries"]

SESSIONS, CLIENTS = 1_000, 10
MAX_LAG_SECONDS, MAX_BYTES = 0.050, 400e6


async def talk_in(port: int, sessions: int, clients: int = CLIENTS, token: str = TOKEN) -> int:
    """Let every session read its own file, all at once; return how many heard of it, and of no other's."""
    heard = (_talk(port, token, range(first, sessions, clients)) for first in range(clients))
    return sum(await asyncio.gather(*heard))


async def _talk(port: int, token: str, numbers: range) -> int:
    async with toolcrib.connect(f"ws://127.0.0.1:{port}", token) as crib:
        answers = await asyncio.gather(*(crib.say(f"read {at}.txt", session=f"agent:main:many:{at}") for at in numbers))
        good = 0
        for at, answer in zip(numbers, answers, strict=True):
            told = json.dumps(await crib.ask("chat.history", {"sessionKey": f"agent:main:many:{at}"}))
            good += f"canary-{at}-" in answer + told and told.count("canary-") == told.count(f"canary-{at}-")
        return good


def write_canaries(folder: Path, sessions: int) -> None:
    """Write a file for each session."""
    for at in range(sessions):
        (folder / f"{at}.txt").write_text(f"canary-{at}-\n")


def run_once(sessions: int) -> tuple[float, float]:
    """Return how late the loop of a gateway was at its worst hundredth, in seconds, and what it held, in bytes."""
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder, "workspace")
        workspace.mkdir()
        write_canaries(workspace, sessions)
        command = [sys.executable, "-m", "benchmarks.gateway_servers", "sessions"]
        env = {**os.environ, "BENCH_FOLDER": folder}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(command, text=True, cwd=Path(__file__).parents[1], env=env, **pipes) as server:  # type: ignore[call-overload]
            try:
                if asyncio.run(talk_in(int(server.stdout.readline()), sessions)) != sessions:
                    raise AssertionError("a session heard nothing, or of another")
                server.stdin.write("how was it?\n")
                server.stdin.flush()
                told = json.loads(server.stdout.readline())
            finally:
                server.kill()
    return statistics.quantiles(told["lags"], n=100)[98], told["bytes"]


def measure(rounds: int) -> list[Row]:
    """Return the rows, measured here and now."""
    lags, held = zip(*(run_once(SESSIONS) for _ in range(rounds)), strict=True)
    what = f"{SESSIONS:,} sessions at once"
    return [
        Row(what=what, ours=lags, against="loop lag, fixed", floor=[MAX_LAG_SECONDS] * rounds, bar=1),
        Row(what=what, ours=[each / 1e9 for each in held], against="memory, fixed", floor=[MAX_BYTES / 1e9] * rounds,
            bar=1),
    ]  # fmt: skip
