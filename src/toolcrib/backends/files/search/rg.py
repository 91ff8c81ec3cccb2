"""Run ripgrep, our one engine for contents: it names files worth opening, and gives the lines of files that we opened.

As a sieve it walks a folder by itself, from all cores, and tells only which files hold a match; none of its words is
shown. Lines come from descriptors that we opened beneath the root and handed over, so neither a link nor a race
(TOCTOU) changes what is read. ripgrep gets no configuration, an environment of our own, patterns and paths that cannot
be options, and memory and time within limits. Every pattern takes linear time.
"""

import asyncio
import os
import re
import resource
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import IO, NamedTuple, TypeVar

from toolcrib.backends.files.stage import STAGE
from toolcrib.define.errors import ArgumentError, ToolError
from toolcrib.lazy import regex
from toolcrib.threads import in_thread

T = TypeVar("T")

_MEMORY_BYTES = 4 << 30  # of address space; a line of hundreds of megabytes is held whole
_SEARCH_SECONDS = 60.0
_PATTERN_CHARS = 4_000
_ROW_BYTES, _TEXT_BYTES = 64 << 10, 4_000  # of a line: what is read, and what is kept of it; what is shown is cut again

_PLAIN_NAME = (
    r"(?:[\w.? -]|\*(?!\*)|\[!?(?:[a-z]-[a-z]|[A-Z]-[A-Z]|[0-9]-[0-9]|[A-Za-z0-9_])+\]"
    r"|\{[\w.*-]+(?:,[\w.*-]+)*\})+"
)
_PLAIN_GLOB = regex(rf"!?(?:\./|/)?(?:(?:\*\*|{_PLAIN_NAME})/)*(?:\*\*|{_PLAIN_NAME})/?")
_BRACES = regex(r"\\[pPxuUb]\{[^{}]*\}|\\.|\{\d+(?:,\d*)?\}|\{,\d+\}|\{", re.DOTALL)
_SPELLED = {"{": r"\{", r"\Z": r"\z"}  # a brace that repeats nothing stands for itself: people search for `f() {`
_ROW = regex(rb"/proc/self/fd/(\d+)(?:\0(\d+)([:-])|(: binary file matches))")
_LINE_END = "a line end, and lines are searched one by one; search for one line of it"

_COMMON = ("--no-config", "--no-messages", "--null", "--color=never", "--crlf")
_WALKING = (
    "--files-with-matches", "--no-follow", "--hidden", "--no-require-git", "--no-ignore-parent", "--no-ignore-global",
    "--no-ignore-exclude",
)  # fmt: skip
_READING = (
    "--line-number", "--with-filename", "--no-heading", "--no-context-separator", "--no-mmap", "--threads=1",
    f"--max-columns={_TEXT_BYTES}", "--max-columns-preview",
)  # fmt: skip


class StopSignal:
    """Read by the thread that works, set by its caller; it also kills the program that the thread runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._set = False
        self._process: subprocess.Popen[bytes] | None = None

    def set(self) -> None:
        """Let the work end."""
        with self._lock:
            self._set = True
            if self._process is not None:
                self._process.kill()

    def kill_when_set(self, process: "subprocess.Popen[bytes] | None") -> None:
        """Kill this program when the work has to end; None when it is done."""
        with self._lock:
            self._process = process
            if process is not None and self._set:
                process.kill()

    def check(self) -> None:
        """Raise ToolError when the work has to end, since its caller is gone."""
        if self._set:
            raise ToolError("the search was stopped", code="cancelled")


async def run_until_stopped(work: Callable[[StopSignal], T], seconds: float = _SEARCH_SECONDS) -> T:
    """Run the work in a thread; cancelled or out of time it ends, and so does the program it started."""
    stop = StopSignal()
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await in_thread(work, stop)
    except TimeoutError:
        if not limit.expired():
            raise
        raise ToolError(
            f"the search took longer than {seconds:.0f} s; search a smaller folder, or for something rarer",
            code="timeout",
        ) from None
    finally:
        stop.set()


@cache
def find_ripgrep() -> str | None:
    """Return where `rg` is: beside this interpreter, where its wheel puts it, or on the system."""
    beside = (sysconfig.get_path("scripts"), str(Path(sys.executable).parent))
    others = [part for part in os.environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(part)]  # noqa: PTH117
    return shutil.which("rg", path=os.pathsep.join((*beside, *others)))


def pattern_options(text: str, *, literal: bool, ignore_case: bool) -> tuple[str, ...]:
    """Return the pattern as options; raise ArgumentError when ripgrep need not even be asked about it."""
    if len(text) > _PATTERN_CHARS:
        raise ArgumentError(f"the pattern has {len(text)} characters; {_PATTERN_CHARS} is the most")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ArgumentError("the pattern holds half a character, which no text has") from None
    if literal and ("\n" in text or "\r" in text):
        raise ArgumentError(f"the pattern holds {_LINE_END}")
    expression = re.escape(text) if literal else _BRACES.sub(lambda found: _SPELLED.get(found[0], found[0]), text)
    expression = expression.replace("\0", r"\x00")  # no argument of a program holds a NUL
    return (f"--regexp={expression}", *(("--ignore-case",) if ignore_case else ()))


def accepts_glob(glob: str | None) -> bool:
    """Tell whether the sieve is certain to name every file that a glob is about; a file named so is never ignored."""
    return glob is None or glob.startswith("!") or _PLAIN_GLOB.fullmatch(glob) is not None


class Sieve:
    """One run of ripgrep over an open folder, started at once. `ignored` are further lines of ignore files."""

    def __init__(
        self, rg: str, folder: int, pattern: Sequence[str], glob: str | None, ignored: Sequence[str], stop: StopSignal
    ) -> None:
        self._stop = stop
        self._held = ExitStack()
        options = [*_COMMON, *_WALKING, *_glob_options(glob), *pattern]
        try:
            self._out = self._held.enter_context(tempfile.TemporaryFile())  # noqa: SIM115  held until close
            rules = self._held.enter_context(tempfile.TemporaryFile()) if ignored else None  # noqa: SIM115
            if rules is not None:
                rules.write("\n".join(ignored).encode("utf-8", "surrogateescape"))
                rules.flush()
                options.append(f"--ignore-file=/proc/self/fd/{rules.fileno()}")
            self._process = _start(
                [rg, *options, "--", "./"], stop, (rules.fileno(),) if rules else (), folder, self._out
            )
        except BaseException:
            self._held.close()
            raise

    def wait(self) -> tuple[frozenset[str], bool] | None:
        """Return the files named, relative to the folder, and whether all could be read; None when it failed."""
        code = self._process.wait()
        if code not in (0, 1, 2):
            return None
        self._out.seek(0)
        names = self._out.read().split(b"\0")
        return frozenset(os.fsdecode(name.removeprefix(b"./")) for name in names if name), code != 2

    def close(self) -> None:
        """End it, whatever it does."""
        try:
            _end(self._process, self._stop)
        finally:
            self._held.close()


class MatchRow(NamedTuple):
    """A line of one of the files that were handed over, `fd` says which; `number` 0 tells that this one is binary."""

    fd: int
    number: int
    matched: bool
    text: str


def read_rows(
    rg: str, fds: Sequence[int], pattern: Sequence[str], *, context: int, max_count: int, stop: StopSignal
) -> Generator[MatchRow, None, None]:
    """Give the matching lines of open files and those around them, in order, at most `max_count` matches a file.

    OSError when some file could not be read to its end, or was more than ripgrep could bear; ArgumentError when the
    pattern is none. UTF-16 is read where its byte-order mark says so, everything else as UTF-8.
    """
    options = [*_COMMON, *_READING, *pattern, f"--context={context}", f"--max-count={max_count}"]
    files = [f"/proc/self/fd/{fd}" for fd in fds] or [os.devnull]  # the pattern is read in any case
    process = _start([rg, *options, "--", *files], stop, fds, None, subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stdout as out, process.stderr as errors:
        try:
            while line := out.readline(_ROW_BYTES):
                cut = line
                while not cut.endswith(b"\n") and (cut := out.readline(_ROW_BYTES)):
                    pass  # the rest of a line that is far too long
                if row := _ROW.match(line):
                    text = line[row.end() : row.end() + _TEXT_BYTES].removesuffix(b"\n").removesuffix(b"\r")
                    yield MatchRow(int(row[1]), int(row[2] or 0), row[3] == b":", text.decode("utf-8", "replace"))
            words = errors.read(_ROW_BYTES).decode("utf-8", "replace")
            code = process.wait()
        finally:
            _end(process, stop)
    stop.check()
    if code == 2 and words:
        raise _explain_pattern(words)
    if code not in (0, 1):
        raise OSError(f"ripgrep ended with {code}")


def _start(
    command: Sequence[str], stop: StopSignal, fds: Sequence[int], folder: int | None, out: IO[bytes] | int
) -> "subprocess.Popen[bytes]":
    try:
        process = subprocess.Popen(  # noqa: S603  our own program and options
            command,
            cwd="/" if folder is None else f"/proc/self/fd/{folder}",
            env={"LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.PIPE if out == subprocess.PIPE else subprocess.DEVNULL,
            pass_fds=fds,
            start_new_session=True,
        )
    except OSError as error:
        raise ToolError(f"ripgrep, which searches in files, cannot be started: {error.strerror}") from None
    with suppress(OSError, ValueError):  # it may be done already
        resource.prlimit(process.pid, resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    stop.kill_when_set(process)
    return process


def _end(process: "subprocess.Popen[bytes]", stop: StopSignal) -> None:
    stop.kill_when_set(None)
    if process.poll() is None:
        process.kill()
    process.wait()


def _explain_pattern(words: str) -> ArgumentError:
    """Return what ripgrep says about a pattern as one sentence."""
    if r'literal "\n"' in words:
        return ArgumentError(f"the pattern holds {_LINE_END}")
    lines = [line.removeprefix("rg: ") for line in words.splitlines()]
    problem = next((line[7:] for line in lines if line.startswith("error: ")), lines[0])
    return ArgumentError(
        f"the pattern cannot be searched for ({problem[:200]}); "
        "make it simpler, or set literal to search for the text as it is"
    )


def _glob_options(glob: str | None) -> list[str]:
    options = []
    if glob is not None and _PLAIN_GLOB.fullmatch(glob):
        sign, body = ("!", glob[1:]) if glob.startswith("!") else ("", glob)
        body = body.removeprefix("./") + ("**" if body.endswith("/") else "")
        options.append(f"--glob={sign}{body if body.startswith('/') or '/' not in body else f'**/{body}'}")
    # the last one wins, and none of them brings these back
    return [*options, "--glob=!.git/", f"--glob=!{STAGE}*"]
