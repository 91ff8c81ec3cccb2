"""Files of agents that the owner accepted: one small file for each content hash, so that no yes overwrites another."""

import contextlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

import orjson

from toolcrib.backends.files.stage import sync_folder, write_synced
from toolcrib.define.errors import ToolError

_DIGEST = re.compile(r"[0-9a-f]{64}")
_MAX_RECORD_BYTES = 16 * 1024  # bytes of what is kept about one


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """One yes: to this content, which had this name and lay there at the time."""

    digest: str
    name: str
    file: str
    at: float


class AcceptedAgents:
    """What was accepted, in a folder of the state that no tool can write to: whoever could, could say yes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def accept(self, accepted: Accepted) -> None:
        """Keep a yes; it is on the disk when this returns."""
        _check(accepted.digest)
        body = orjson.dumps({"name": accepted.name, "file": accepted.file, "at": accepted.at})
        fresh = self.folder / f".{token_hex(8)}"
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_synced(fresh, body)
            fresh.replace(self.folder / accepted.digest)
            sync_folder(self.folder)
        except OSError as error:
            with contextlib.suppress(OSError):  # there may never have been one
                fresh.unlink()
            raise ToolError(f"the yes could not be kept in {self.folder} ({error.strerror})") from None

    def find(self, digest: str) -> Accepted | None:
        """Return the yes to this content; one that cannot be read is none."""
        _check(digest)
        try:
            with (self.folder / digest).open("rb") as file:
                body = orjson.loads(file.read(_MAX_RECORD_BYTES))
            return Accepted(digest=digest, name=str(body["name"]), file=str(body["file"]), at=float(body["at"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def forget(self, digests: Iterable[str]) -> list[Accepted]:
        """Take back what was said to these contents; return what that was. It is gone from the disk then."""
        gone: list[Accepted] = []
        for digest in dict.fromkeys(digests):
            if (found := self.find(digest)) is None:
                continue
            try:
                (self.folder / digest).unlink(missing_ok=True)
                sync_folder(self.folder)
            except OSError as error:
                words = f"the yes to {found.file} could not be taken out of {self.folder} ({error.strerror})"
                raise ToolError(words) from None
            gone.append(found)
        return gone

    def all_of_file(self, file: str) -> list[Accepted]:
        """Return every yes to what has lain there."""
        return [each for name in self._names() if (each := self.find(name)) is not None and each.file == file]

    def of_file(self, file: str) -> Accepted | None:
        """Return the latest yes to what lay there, if there ever was one: the file may have changed since."""
        return max(self.all_of_file(file), key=lambda each: each.at, default=None)

    def _names(self) -> list[str]:
        try:
            return [path.name for path in self.folder.iterdir() if _DIGEST.fullmatch(path.name)]
        except OSError:
            return []


def _check(digest: str) -> None:
    if not _DIGEST.fullmatch(digest):
        raise ValueError(f"{digest[:80]!r} is no SHA-256")
