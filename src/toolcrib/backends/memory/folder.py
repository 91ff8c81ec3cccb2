"""The files of one memory: read beneath a pinned root and by no link, written like those of a workspace."""

import weakref

from toolcrib.backends.files.disk import Disk, Terms, read_passage
from toolcrib.backends.files.local import LocalWorkspace
from toolcrib.define.display import quote_short
from toolcrib.define.errors import ToolError
from toolcrib.define.files import Passage
from toolcrib.threads import in_turn


class MemoryFolder:
    """One folder that holds memory; nothing on disk is touched before it is used."""

    def __init__(self, terms: Terms) -> None:
        self._terms, self._disk = terms, Disk(terms)
        self.workspace = LocalWorkspace(self._disk)
        weakref.finalize(self.workspace, self._disk.close)  # whoever writes has no more of us than this

    async def make(self) -> None:
        """Make the folder, where it is one that we keep."""
        await in_turn(lambda: self._terms.root.mkdir(mode=0o700, parents=True, exist_ok=True))

    async def lines(self, path: str, first: int, most: int, size: int) -> Passage:
        """Return whole lines of a file that is reached by its own name."""
        return await in_turn(self._lines, path, (first, most, size))

    def close(self) -> None:
        """Let go of the root; it is opened again when it is used."""
        self._disk.close()

    def _lines(self, path: str, asked: tuple[int, int, int]) -> Passage:
        with self._disk.open(path) as (fd, found), self._disk.beneath.place(path, follow=False) as place:
            there = place.stat()
            is_same = there is not None and (there.st_dev, there.st_ino) == (found.st_dev, found.st_ino)
            if place.real != self._disk.spell(path) or not is_same:
                what = f"{quote_short(path, 200)} is reached by a link; memory is read by the names of its own files"
                raise ToolError(what, code="denied")
            return read_passage(fd, self._disk.entry(path, found), asked)[0]
