"""ripgrep as a sieve: it names the files in which something matches, quickly and from all cores.

What it says is never shown. Every file it names is looked up in our own walk and opened again beneath the root, so a
link, a race or a file that it read and should not have changes nothing but the time. It gets no configuration, an
environment of our own, patterns and paths that cannot be options, and memory and time within limits. When it fails in
any way the search is done without it.
"""

import os
import re
import resource
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path

from toolcrib.backends.sandboxes.files.stage import STAGE

from .stop import Stop

__all__ = ["Sieve", "ripgrep", "takes"]

_MEMORY = 4 << 30  # bytes of address space; a line of hundreds of megabytes is held whole
_NAME = (
    r"(?:[\w.? -]|\*(?!\*)|\[!?(?:[a-z]-[a-z]|[A-Z]-[A-Z]|[0-9]-[0-9]|[A-Za-z0-9_])+\]"
    r"|\{[\w.*-]+(?:,[\w.*-]+)*\})+"
)
_PLAIN_GLOB = re.compile(rf"!?(?:\./|/)?(?:(?:\*\*|{_NAME})/)*(?:\*\*|{_NAME})/?")


@cache
def ripgrep() -> str | None:
    """Return where `rg` is: beside this interpreter, where its wheel puts it, or on the system."""
    beside = (sysconfig.get_path("scripts"), str(Path(sys.executable).parent))
    others = [part for part in os.environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(part)]  # noqa: PTH117
    return shutil.which("rg", path=os.pathsep.join((*beside, *others)))


def takes(glob: str | None) -> bool:
    """Tell whether ripgrep is certain to name every file that a glob is about; a file named so is never ignored."""
    return glob is None or glob.startswith("!") or _PLAIN_GLOB.fullmatch(glob) is not None


class Sieve:
    """One run of ripgrep over an open folder, started at once. `ignored` are further lines of ignore files."""

    def __init__(
        self, rg: str, folder: int, pattern: str, glob: str | None, ignored: Sequence[str], stop: Stop
    ) -> None:
        self._stop = stop
        self._held = ExitStack()
        self._process: subprocess.Popen[bytes] | None = None
        options = _options(glob)
        try:
            self._out = self._held.enter_context(tempfile.TemporaryFile())  # noqa: SIM115  held until close
            rules = self._held.enter_context(tempfile.TemporaryFile()) if ignored else None  # noqa: SIM115
            if rules is not None:
                rules.write("\n".join(ignored).encode("utf-8", "surrogateescape"))
                rules.flush()
                options.append(f"--ignore-file=/proc/self/fd/{rules.fileno()}")
            self._process = subprocess.Popen(  # noqa: S603  our own program and options
                [rg, *options, "--regexp", pattern, "--", "./"],
                cwd=f"/proc/self/fd/{folder}",
                env={"LC_ALL": "C.UTF-8"},
                stdin=subprocess.DEVNULL,
                stdout=self._out,
                stderr=subprocess.DEVNULL,
                pass_fds=(rules.fileno(),) if rules is not None else (),
                start_new_session=True,
            )
        except OSError:  # no such program after all, no /proc, no room on the disk: then without it
            return
        with suppress(OSError, ValueError):  # it may be done already
            resource.prlimit(self._process.pid, resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        stop.kills(self._process)

    def files(self) -> tuple[frozenset[str], bool] | None:
        """Wait; return the files named, relative to the folder, and whether all could be read. None when it failed."""
        if self._process is None:
            return None
        try:
            code = self._process.wait(self._stop.left())
        except subprocess.TimeoutExpired:
            return None
        if code not in (0, 1, 2):
            return None
        self._out.seek(0)
        names = self._out.read().split(b"\0")
        return frozenset(os.fsdecode(name.removeprefix(b"./")) for name in names if name), code != 2

    def close(self) -> None:
        """End it, whatever it does."""
        try:
            if self._process is not None:
                self._stop.kills(None)
                if self._process.poll() is None:
                    self._process.kill()
                self._process.wait()
        finally:
            self._held.close()


def _options(glob: str | None) -> list[str]:
    options = [
        "--no-config", "--files-with-matches", "--null", "--color=never", "--no-messages", "--no-follow",
        "--hidden", "--no-require-git", "--no-ignore-parent", "--no-ignore-global", "--no-ignore-exclude",
    ]  # fmt: skip
    if glob is not None and _PLAIN_GLOB.fullmatch(glob):
        sign, body = ("!", glob[1:]) if glob.startswith("!") else ("", glob)
        body = body.removeprefix("./") + ("**" if body.endswith("/") else "")
        options.append(f"--glob={sign}{body if body.startswith('/') or '/' not in body else f'**/{body}'}")
    # the last one wins, and none of them brings these back
    return [*options, "--glob=!.git/", f"--glob=!{STAGE}*"]
