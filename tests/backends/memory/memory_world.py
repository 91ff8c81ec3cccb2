"""Memories for tests: files from a mapping, and an embedder whose vectors can be read off the words."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from toolcrib.backends.memory.disk import DiskMemory
from toolcrib.backends.memory.embedders import Embedder, normalize_rows
from toolcrib.define.errors import ToolError
from toolcrib.define.memory import MemoryPlaces

__all__ = ["WordEmbedder", "fill", "open_memory"]


@dataclass
class WordEmbedder:
    """Every word is a direction of its own, and words of one meaning share it; `texts` is what it was asked for."""

    meanings: Mapping[str, str] = field(default_factory=dict)
    provider: str = "test"
    model: str = "words"
    dims: int = 1_024
    failure: str = ""
    texts: list[str] = field(default_factory=list)

    async def embed(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        if self.failure:
            raise ToolError(self.failure)
        self.texts += texts
        return normalize_rows(np.array([self._one(text) for text in texts], np.float32))

    def _one(self, text: str) -> NDArray[np.float32]:
        made = np.zeros(self.dims, np.float32)
        for word in text.lower().replace("#", " ").split():
            meant = self.meanings.get(word, word)
            made[int.from_bytes(hashlib.sha256(meant.encode()).digest()[:4], "big") % self.dims] += 1
        return made


def fill(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def open_memory(folder: Path, embedder: Embedder | None = None, *extra: str, index: bool = True) -> DiskMemory:
    kept = folder.with_name(f"{folder.name}-index") / "memory" if index else None
    return DiskMemory(MemoryPlaces(folder, tuple(map(Path, extra)), kept), lambda: embedder)
