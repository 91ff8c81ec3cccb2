"""Opens configuration files: regular files only, never waiting, never more than one mebibyte in all."""

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from toolcrib.config.places import printable
from toolcrib.define.errors import ConfigError, Place

__all__ = ["LIMIT", "Room", "load"]

LIMIT = 1 << 20

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC  # opening a pipe must not wait for its writer
_BOM = b"\xef\xbb\xbf"
_PROBLEMS = {
    errno.ENOENT: "no such file; create it or name another",
    errno.EACCES: "this user may not read it; change its permissions",
    errno.ENXIO: "not a regular file; name one",
    errno.ELOOP: "its symbolic links lead in a circle; name the file itself",
}


@dataclass(slots=True)
class Room:
    """What may still be read, in bytes, characters or files."""

    left: int = LIMIT

    def take(self, amount: int) -> bool:
        """Uses up `amount`; false if there was not enough left."""
        self.left -= amount
        return self.left >= 0


def load(path: Path, room: Room, asked: Place) -> str:
    """The text of a regular file in UTF-8, its size taken from `room`.

    `asked` is where the file was asked for: what keeps it from being opened is told there.
    """
    name = printable(str(path))
    prefix = "" if asked.file == name else f"{name}: "
    try:
        data = _bytes(path, room.left + 1)
    except OSError as error:
        problem = _PROBLEMS.get(error.errno or 0) or f"it cannot be read ({error.strerror})"
        raise ConfigError(f"{prefix}{problem}", asked) from None
    except ValueError:
        raise ConfigError(f"{prefix}a file's name cannot hold a NUL character", asked) from None
    if isinstance(data, str):
        raise ConfigError(f"{prefix}{data}", asked)
    if not room.take(len(data)):
        raise ConfigError(f"{prefix}more than 1 MiB with all included files; make it smaller", asked)
    return _decoded(data, name)


def _bytes(path: Path, limit: int) -> bytes | str:
    """Up to `limit` bytes of a regular file, or a sentence on why it is not one."""
    handle = os.open(path, _FLAGS)
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            return "a directory; name a file in it"
        if not stat.S_ISREG(mode):
            return "not a regular file; name one"
        data = b""
        while len(data) < limit and (chunk := os.read(handle, limit - len(data))):
            data += chunk
        return data
    finally:
        os.close(handle)


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.removeprefix(_BOM).decode()
    except UnicodeDecodeError as error:
        offset = error.start + (len(_BOM) if data.startswith(_BOM) else 0)
        line = data.count(b"\n", 0, offset) + 1
        raise ConfigError(f"not UTF-8 at byte {offset}; save the file as UTF-8", Place(name, line)) from None
