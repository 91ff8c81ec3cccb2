"""Markdown as it streams in, cut into blocks that can be set as soon as they are whole."""

import re

__all__ = ["Blocks"]

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


class Blocks:
    """Takes pieces of a text, gives whole blocks: up to a blank line, or to the end of fenced code.

    `rest` is what is not whole yet.
    """

    def __init__(self) -> None:
        self.rest = ""
        self._done = 0  # characters of the rest whose lines were looked at
        self._fence = ""

    def feed(self, piece: str) -> list[str]:
        """Take a piece; return the blocks that are whole with it."""
        self.rest += piece
        blocks = list[str]()
        while (end := self.rest.find("\n", self._done)) >= 0:
            line = self.rest[self._done : end]
            self._done = end + 1
            if self._is_end(line):
                blocks.append(self.rest[: self._done])
                self.rest, self._done = self.rest[self._done :], 0
        return [block for block in blocks if block.strip()]

    def finish(self) -> list[str]:
        """Return what is left, as it is."""
        left, self.rest, self._done, self._fence = self.rest, "", 0, ""
        return [left] if left.strip() else []

    def _is_end(self, line: str) -> bool:
        found = _FENCE.match(line)
        if self._fence:
            if found is None or not found[1].startswith(self._fence) or line.strip(" `~"):
                return False
            self._fence = ""
            return True
        if found is not None:
            self._fence = found[1]
            return False
        return not line.strip()
