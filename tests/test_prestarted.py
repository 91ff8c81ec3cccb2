"""A process that is forked off a loaded toolcrib is as one that Python starts."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from . import prestarted

SHOWN = """
import os, sys, time
print(sys.argv, sys.path[0], __name__, os.getcwd(), sorted(os.environ.items()), sys.stdin.read(), time.tzname)
print(sys.stdout.encoding, sys.stdout.errors, sys.dont_write_bytecode, os.getppid(), file=sys.stderr)
"""


@pytest.mark.parametrize(
    "words",
    [
        ("-c", SHOWN, "x"),
        ("shown.py", "x", "y"),
        ("-c", "raise SystemExit(3)"),
        ("-c", "import os; os.kill(os.getpid(), 9)"),
        ("-c", "import atexit; atexit.register(print, 'last'); print('first', end=' ')"),
        ("-m", "toolcrib", "explain", "read", "--json"),
        ("-m", "toolcrib", "--nothing"),
    ],
)
def test_it_sees_and_says_what_a_process_does_that_was_started(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "shown.py").write_text(SHOWN)
    state = {"TOOLCRIB_STATE": str(tmp_path / "state"), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(tmp_path)}
    env = {**os.environ, **state, "LANG": "C.UTF-8", "TZ": "Asia/Kolkata"}
    ways = [
        run([sys.executable, *words], cwd=tmp_path, env=env, input="heard\n", text=True, capture_output=True)
        for run in (subprocess.run, prestarted.run)
    ]
    first, second = ((ran.returncode, ran.stdout, ran.stderr) for ran in ways)
    assert second == first


def test_it_is_a_child_of_ours_in_a_session_of_its_own_and_hears_signals() -> None:
    code = "import os, signal; print(os.getppid(), os.getsid(0) == os.getpid(), flush=True); signal.pause()"
    with prestarted.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as it:
        assert it.stdout is not None
        assert it.stdout.readline() == f"{os.getpid()} True\n"
        assert it.poll() is None
        os.killpg(it.pid, signal.SIGTERM)
        assert it.wait(60) == -signal.SIGTERM
