"""The system's settings as a sandbox sees them: a copy of a few, made once. One folder is shown quicker than forty."""

import os
import shutil
import stat
import tempfile
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress

__all__ = ["LARGE", "NOTHING", "Settings"]

LARGE = ("alternatives", "ssl/certs")
"""Folders of many names, empty in the copy: the real ones are shown in their place."""

NOTHING = ".nothing"
"""An empty file among the copies, shown in place of what is not to be seen."""

# What programs read; none holds a secret.
_NAMES = (
    "ca-certificates", "ssl/openssl.cnf", "pki/tls/certs", "pki/ca-trust/extracted",
    "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "passwd", "group", "nsswitch.conf", "hosts", "host.conf", "gai.conf",
    "protocols", "services", "localtime", "timezone", "locale.alias", "locale.conf", "default/locale", "os-release",
    "debian_version", "lsb-release", "mime.types", "magic", "fonts", "terminfo", "inputrc", "perl", "ghostscript",
    "papersize", "dpkg/origins", "ImageMagick-6", "ImageMagick-7",
)  # fmt: skip
_BEGINNINGS = ("python3", "java-")
_NETWORK = ("resolv.conf",)
_MOST_FILES, _MOST_BYTES = 5_000, 4 << 20


class Settings:
    """Copies of /etc, without and with what host names are looked up by; gone when nobody holds us."""

    def __init__(self) -> None:
        self._made: dict[bool, str] = {}
        self._remove: Callable[[], object] | None = None
        self._folder = ""

    def close(self) -> None:
        """Remove the copies."""
        if self._remove is not None:
            self._remove()
            self._remove = None
            self._made.clear()

    def folder(self, parent: str | None, *, network: bool) -> str:
        """Return the folder to show as /etc; a new one is made beneath `parent`."""
        if self._remove is None:
            self._folder = tempfile.mkdtemp(prefix=f"settings-{os.getpid()}-", dir=parent)
            self._remove = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        if network not in self._made:
            folder = f"{self._folder}/{'network' if network else 'plain'}"
            os.mkdir(folder, 0o755)  # noqa: PTH102
            found = sorted(name for name in os.listdir("/etc") if name.startswith(_BEGINNINGS))  # noqa: PTH208
            os.close(os.open(f"{folder}/{NOTHING}", os.O_CREAT | os.O_WRONLY, 0o444))
            for name in LARGE:
                os.makedirs(f"{folder}/{name}")  # noqa: PTH103
            _copy((*_NAMES, *found, *(_NETWORK if network else ())), folder)
            self._made[network] = folder
        return self._made[network]


def _copy(names: Iterable[str], folder: str) -> None:
    left = _MOST_FILES
    ahead = list(names)
    while ahead and left:
        name = ahead.pop()
        left -= 1
        source, target = f"/etc/{name}", f"{folder}/{name}"
        with suppress(OSError):  # what cannot be read here is not to be seen there
            os.makedirs(os.path.dirname(target), exist_ok=True)  # noqa: PTH103, PTH120
            found = os.lstat(source)
            if stat.S_ISLNK(found.st_mode) and name not in _NETWORK:
                os.symlink(os.readlink(source), target)  # noqa: PTH115, PTH211
            elif stat.S_ISDIR(found.st_mode):
                os.makedirs(target, exist_ok=True)  # noqa: PTH103
                ahead += (f"{name}/{entry}" for entry in os.listdir(source))  # noqa: PTH208
            elif os.stat(source).st_size <= _MOST_BYTES:  # noqa: PTH116
                shutil.copyfile(source, target)
