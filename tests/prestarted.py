"""Programs in Python in processes of their own, without the second that every start of Python and toolcrib takes.

`Popen` and `run` are those of `subprocess`. What begins with `sys.executable` is forked off a process that has loaded
toolcrib and done nothing: its pid, files, signals, session and exit code are its own, and it is a child of ours.
Everything else is started as ever. Tests of the start itself, and of what it loads, use `subprocess`.
"""

import contextlib
import ctypes
import fcntl
import functools
import gc
import inspect
import json
import os
import pkgutil
import runpy
import socket
import subprocess
import sys
import termios
import threading
import time
import types
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import toolcrib.app  # noqa: F401
from toolcrib.doors import cli, gateway

__all__ = ["Popen", "run"]

_APPLIED = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")  # when a process is forked
_FILES = ("p2cread", "c2pwrite", "errwrite")
_PR_SET_CHILD_SUBREAPER = 36


class Popen(subprocess.Popen[Any]):
    """A process that is forked off a loaded toolcrib, where Python is what is to be started."""

    def _execute_child(self, *values: Any) -> None:
        start = super()._execute_child  # type: ignore[misc]  # there is no public place to start a process differently
        asked = inspect.signature(start).bind(*values).arguments
        words, env = [str(each) for each in asked["args"]], os.environ if asked["env"] is None else asked["env"]
        if sys.platform != "linux" or words[0] != sys.executable or asked["preexec_fn"] or asked["pass_fds"]:
            start(*values)
            return
        if words[1] in ("-S", "-B", "-SB"):  # which only make a start quicker
            del words[1]
        sys.audit("subprocess.Popen", words[0], words, asked["cwd"], env)
        # a language, an encoding and what Python is told by its environment hold from the start of an interpreter
        words_of_start = [name for name in env if name.startswith(("PYTHON", "LC_", "LANG")) and name not in _APPLIED]
        key = tuple(sorted((name, env[name]) for name in words_of_start))
        request = {
            "words": words, "env": dict(env), "session": asked["start_new_session"],
            "cwd": str(asked["cwd"] or Path.cwd()),
        }  # fmt: skip
        self.pid = _starter(key).start(
            request, [asked[name] if asked[name] >= 0 else at for at, name in enumerate(_FILES)]
        )
        self._child_created = True
        pipes = [asked[name] for name in ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")]
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]  # as `start` does


def run(
    words: Sequence[str], *, input: str | None = None, capture_output: bool = False, timeout: float | None = None,
    check: bool = False, **options: Any,
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """Run a command to its end, as `subprocess.run` does; `options` say that it speaks text."""
    if input is not None:
        options["stdin"] = subprocess.PIPE
    if capture_output:
        options.update(stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with Popen(words, **options) as process:
        try:
            out, err = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(words, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


class _Starter:
    """A loaded process; it forks when it is asked to, and ends with us."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()], cwd="/", env=env,
                stdin=subprocess.DEVNULL,
            ).returncode = 0  # nobody asks: it ends when our end of the socket is closed  # fmt: skip

    def start(self, request: Mapping[str, Any], files: Sequence[int]) -> int:
        with self._lock:
            socket.send_fds(self._socket, [b"start"], files)
            self._socket.sendall(json.dumps(request).encode())
            _become_parent(True)
            try:
                return int(self._socket.recv(32))
            finally:
                _become_parent(False)


def _become_parent(yes: bool) -> None:
    """Have what is left by its parent below this process become a child of it, or of whoever it was before."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, int(yes), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


@functools.cache
def _starter(key: tuple[tuple[str, str], ...]) -> _Starter:
    return _Starter({**{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}, **dict(key)})


def _serve(asked: socket.socket) -> list[str]:
    """Fork for each request; return its words in the process that is to run them."""
    while True:
        _, files, _, _ = socket.recv_fds(asked, 16, 3)
        if not files:
            sys.exit()
        request = json.loads(asked.recv(4_000_000))
        made, (ready, go) = os.pipe(), os.pipe()
        if between := os.fork():
            os.waitpid(between, 0)
            asked.sendall(os.read(made[0], 32))
            for each in (*files, *made, ready, go):  # closing `go` lets it go on
                os.close(each)
            continue
        if pid := os.fork():
            os.write(made[1], str(pid).encode())
            os._exit(0)  # and our parent becomes the parent of that process
        for each in made:
            os.close(each)
        os.close(go)
        os.read(ready, 1)
        os.close(ready)
        asked.close()
        _settle(request, files)
        return list(request["words"])


def _settle(request: Mapping[str, Any], files: Sequence[int]) -> None:
    for to, file in enumerate(files):
        os.dup2(file, to)
        if file > 2:
            os.close(file)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    paths = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:0] = [each for each in paths if each not in sys.path]
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    if request["session"]:
        os.setsid()
        if os.isatty(0):
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for at, name in enumerate(("stdin", "stdout", "stderr")):
        old, lines = getattr(sys, f"__{name}__"), name == "stderr" or os.isatty(at)
        new = open(at, "r" if at == 0 else "w", 1 if lines else -1, old.encoding, old.errors, closefd=False)  # noqa: SIM115
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)


if __name__ == "__main__":
    # not by -P: what is forked would think that it had been started so, and start itself anew without
    del sys.path[0]
    for package in (cli, gateway):
        for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            with contextlib.suppress(ImportError):  # which whoever needs it will say
                import_module(each.name)
    gc.freeze()  # no process goes through what all of them share
    words = sys.orig_argv[:] = _serve(socket.socket(fileno=int(sys.argv[1])))
    if words[1] == "-m":
        sys.argv[:] = words[2:]
        sys.modules.pop(words[2], None)
        runpy.run_module(words[2], run_name="__main__", alter_sys=True)
    elif words[1] == "-c":
        sys.argv[:], sys.path[:0] = ["-c", *words[3:]], [""]
        program = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(words[2], "<string>", "exec"), vars(program))
    else:
        sys.argv[:], sys.path[:0] = words[1:], [str(Path(words[1]).resolve().parent)]
        runpy.run_path(words[1], run_name="__main__")
