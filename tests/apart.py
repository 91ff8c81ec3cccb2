"""Programs of others that tests talk to, each in a folder of its own, once for all runs; nothing is installed."""

import fcntl
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import platformdirs
import pytest

__all__ = ["install_apart", "unpack_apart"]

_SECONDS = 900


def install_apart(requirement: str) -> Path:
    """Return the Python that a package is installed beside; where it cannot be, the test is skipped."""

    def install(folder: Path) -> None:
        _run([sys.executable, "-m", "venv", "--clear", str(folder / "venv")])
        _run([str(folder / "venv/bin/python"), "-m", "pip", "install", "-q", requirement])

    return _once(requirement, install) / "venv" / "bin" / "python"


def unpack_apart(*packages: str) -> Path:
    """Return the folder in which Debian packages are unpacked, not installed: no daemon of theirs is started."""

    def unpack(folder: Path) -> None:
        _run(["apt-get", "download", "-q", *packages], folder)
        for each in folder.glob("*.deb"):
            _run(["dpkg", "-x", each.name, "."], folder)

    return _once("+".join(packages), unpack)


def _once(name: str, make: Callable[[Path], None]) -> Path:
    folder = platformdirs.user_cache_path("toolcrib-tests") / name
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "installed").exists():
            try:
                make(folder)
            except subprocess.CalledProcessError as error:
                pytest.skip(f"impossible here: {name} cannot be fetched: {error.stderr.strip()[-200:]}")
            (folder / "installed").touch()
    return folder


def _run(words: Sequence[str], folder: Path | None = None) -> None:
    subprocess.run(words, capture_output=True, check=True, text=True, timeout=_SECONDS, cwd=folder)
