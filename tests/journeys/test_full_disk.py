"""A disk that is full in the middle of a turn: the turn says so, what could not be kept does not run, it goes on."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
BUBBLEWRAP = shutil.which("bwrap")
SECONDS = 120
BYTES = 3 << 20

pytestmark = pytest.mark.skipif(BUBBLEWRAP is None, reason="bubblewrap is not installed")


def crowded(folder: Path, when: str) -> list[str]:
    """Return what is told of turns on a small disk, which is full for a while."""
    assert BUBBLEWRAP is not None
    ran = subprocess.run(
        [BUBBLEWRAP, "--dev-bind", "/", "/", "--size", str(BYTES), "--tmpfs", str(folder),
         sys.executable, "-SB", "-m", "tests.journeys.crowded", str(folder), when],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(PROJECT), *filter(None, sys.path)])},
        capture_output=True, text=True, timeout=SECONDS, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


FULL = "the disk is full, so 'crib.db' could not be written"
ONE = ["turn done: fine 1", "kept: user assistant; 0 uncertain"]


def test_a_message_that_cannot_be_kept_is_refused(tmp_path: Path) -> None:
    assert crowded(tmp_path, "before the message") == [
        *ONE,
        f"refused: {FULL}",
        "kept: user assistant; 0 uncertain",
        "turn done: fine 3",
        "kept: user assistant user assistant; 0 uncertain",
        "record: 0 findings, 0 uncertain",
    ]


def test_what_could_not_be_kept_does_not_run(tmp_path: Path) -> None:
    assert crowded(tmp_path, "before the body") == [
        *ONE,
        f"tool error: it was not run: {FULL}",
        f"turn error: {FULL}",
        "kept: user assistant user; 0 uncertain",
        "turn done: fine 3",
        "kept: user assistant user user assistant; 0 uncertain",
        "record: 0 findings, 0 uncertain",
    ]


def test_what_ran_and_could_not_be_kept_is_in_doubt(tmp_path: Path) -> None:
    assert crowded(tmp_path, "in the body") == [
        *ONE,
        "ran: pay",
        f"tool error: what came of it could not be kept: {FULL}",
        f"turn error: {FULL}",
        "kept: user assistant user assistant tool; 1 uncertain",
        "told: what came of this call was never kept, so nobody knows whether it took effect",
        "turn done: fine 3",
        "kept: user assistant user assistant tool user assistant; 0 uncertain",
        "record: 0 findings, 1 uncertain",
    ]
