"""Files to send: copied to the state folder when the post is queued, and removed once it is sent or given up.

A post that waits names the file by its path. Nothing else is ever sent: not a file that was changed meanwhile, nor one
that lies elsewhere.
"""

import asyncio
import hashlib
import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

from toolcrib.define.display import quote_short
from toolcrib.define.errors import ToolError
from toolcrib.lazy import regex

FILE_BYTES = 20 << 20
_ALL_BYTES = 500 << 20  # of what waits
_SUFFIX = regex(r"\.[A-Za-z0-9]{1,8}")


class Outbox:
    """The files that wait to be sent; `state` is None where nothing is kept."""

    def __init__(self, state: Path | None) -> None:
        self._folder = None if state is None else state / "channels" / "outbox"

    async def put(self, key: str, filename: str, data: bytes) -> str:
        """Keep a file, and return its path; under the same key it is the same file."""
        if self._folder is None:
            raise ToolError("no files are sent here: there is no state folder to keep them in", code="unavailable")
        if not data or len(data) > FILE_BYTES:
            why = f"has {len(data):,} bytes, and {FILE_BYTES:,} is the most" if data else "is empty"
            raise ToolError(f"the file {why}", code="too_large" if data else "bad_arguments")
        found = _SUFFIX.fullmatch(Path(filename).suffix)
        path = self._folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}{found[0] if found else ''}"
        try:
            await asyncio.to_thread(_write_whole, path, data)
        except OSError as error:
            raise ToolError(f"the file could not be kept for sending: {error.strerror}", code="failed") from None
        return str(path)

    def check(self, path: str) -> str:
        """Return the path of a file that lies ready; ToolError for any other."""
        file = Path(path)
        if self._folder is None or file.parent != self._folder or file.is_symlink() or not file.is_file():
            raise ToolError(f"{quote_short(path)} is no file of the outbox ({self._folder})", code="denied")
        return str(file)

    async def drop(self, path: str) -> None:
        """Remove a file that was sent, or will not be."""
        if path and self._folder is not None and Path(path).parent == self._folder:
            await asyncio.to_thread(Path(path).unlink, missing_ok=True)

    async def sweep(self, waiting: Collection[str]) -> None:
        """Remove what a process left behind that ended: every file but those that wait."""
        if self._folder is not None and self._folder.is_dir():
            for path in self._folder.iterdir():
                if str(path) not in waiting:
                    await self.drop(str(path))


def _write_whole(path: Path, data: bytes) -> None:
    """Write a file that nobody else reads, at once; OSError when too much waits."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    waiting = 0
    for each in path.parent.iterdir():
        with suppress(FileNotFoundError):  # it was sent just now
            waiting += each.lstat().st_size
    if waiting + len(data) > _ALL_BYTES:
        raise OSError(0, "too many files wait to be sent")
    new = path.with_name(f"{token_hex(8)}.new")
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
