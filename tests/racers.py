"""Processes that are let go at once: each says `ready`, waits for a line, and prints how it came out."""

import subprocess
from collections.abc import Mapping, Sequence

from . import prestarted

SECONDS = 240  # for what takes a few: other tests run beside it


def race(commands: Sequence[tuple[Sequence[str], Mapping[str, str]]]) -> list[str]:
    """Start every command with its environment, let all go once all are ready, and return what each printed."""
    racers = [
        prestarted.Popen(words, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for words, env in commands
    ]
    try:
        for racer in racers:
            assert racer.stdout is not None
            assert racer.stdout.readline() == "ready\n"
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write("go\n")
            racer.stdin.flush()
        return [racer.communicate(timeout=SECONDS)[0] for racer in racers]
    finally:
        for racer in racers:
            racer.kill()
            racer.wait()
