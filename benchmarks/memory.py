"""A memory of 100,000 chunks in 1,000 files: against one numpy product, and against FTS5 and that product.

Every figure is that of five questions. The vectors are random, of 384 numbers; words are as frequent as those of a
language. The floor returns numbers of rows, ours passages; a whole search looks at every file on disk first.
"""

import asyncio
import os
import random
import tempfile
import time
import zlib
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from toolcrib.backends.memory.chunks import list_terms
from toolcrib.backends.memory.disk import DiskMemory
from toolcrib.backends.memory.embedders import normalize_rows
from toolcrib.backends.memory.table import MemoryTable
from toolcrib.define.memory import MemoryPlaces

from . import Row, Work, interleaved

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

__all__ = ["RandomEmbedder", "grow", "measure", "rows_from"]

VECTOR_BAR, HYBRID_BAR, WHOLE_BAR, COLD_BAR, WALK_BAR = 1.5, 1.5, 2.0, 1.0, 4.0
FILES, SECTIONS, DIMS = 1_000, 100, 384
MANY_FILES = 10_000
QUESTIONS, COUNT = 5, 10


class RandomEmbedder:
    """A direction for every text, always the same."""

    provider, model = "random", "random-384"

    async def embed(self, texts: Sequence[str], /) -> "Vectors":
        import numpy as np  # noqa: PLC0415  the other measures do without it

        made = np.empty((len(texts), DIMS), np.float32)
        for at, text in enumerate(texts):
            made[at] = np.random.default_rng(zlib.crc32(text.encode())).standard_normal(DIMS, np.float32)
        return normalize_rows(made)


def measure(rounds: int) -> list[Row]:
    """Return the rows of searching in a memory, measured here and now."""
    with tempfile.TemporaryDirectory() as name:
        root, loop = Path(name), asyncio.new_event_loop()
        words = grow(root / "large", FILES, SECTIONS)
        grow(root / "wide", MANY_FILES, 1)
        large, wide = _open(root / "large", RandomEmbedder()), _open(root / "wide", None)
        try:
            for memory in (large, wide):
                loop.run_until_complete(memory.sync())
            works = _works(root / "large.index", large, words, loop)
            works["stat"] = lambda: _stat_all(root / "wide")
            works["walk"] = lambda: loop.run_until_complete(wide.sync())
            for work in works.values():
                work()
            return rows_from(interleaved(works, rounds, time.perf_counter))
        finally:
            for memory in (large, wide):
                loop.run_until_complete(memory.close())
            loop.close()


def rows_from(taken: Mapping[str, Sequence[float]]) -> list[Row]:
    """Return the promises about `taken`."""
    return [
        Row(what="by meaning", ours=taken["vector"], against="product", floor=taken["product"], bar=VECTOR_BAR),
        Row(what="by both", ours=taken["hybrid"], against="FTS5 and product", floor=taken["both"], bar=HYBRID_BAR),
        Row(what="a whole search", ours=taken["whole"], against="with stat", floor=taken["looked"], bar=WHOLE_BAR),
        Row(what="cold start", ours=taken["cold"], against="matrix read, product", floor=taken["load"], bar=COLD_BAR),
        Row(what="10,000 files unchanged", ours=taken["walk"], against="stat", floor=taken["stat"], bar=WALK_BAR),
    ]


def grow(root: Path, files: int, sections: int) -> list[str]:
    """Make a memory of so many files and sections; return its words, the most frequent first."""
    chance = random.Random(4)
    words = ["".join(chance.choices("kalomirentasvodelsunpra", k=chance.randint(3, 9))) for _ in range(20_000)]
    weights = list(accumulate(1 / (at + 10) for at in range(len(words))))
    for file in range(files):
        place = root / "memory" / str(file % 40)
        place.mkdir(parents=True, exist_ok=True)
        texts = (" ".join(chance.choices(words, cum_weights=weights, k=60)) for _ in range(sections))
        (place / f"{file}.md").write_text("".join(f"# {at}\n\n{text}\n\n" for at, text in enumerate(texts)))
    return words


def _works(index: Path, memory: DiskMemory, words: Sequence[str], loop: asyncio.AbstractEventLoop) -> dict[str, Work]:
    import numpy as np  # noqa: PLC0415  the other measures do without it

    chance = random.Random(9)
    asked = [" ".join(chance.choices(words[60:8_000], k=3)) for _ in range(QUESTIONS)]
    matches = [" OR ".join(list_terms(each)) for each in asked]
    vectors = loop.run_until_complete(RandomEmbedder().embed(asked))
    (path,) = index.parent.glob(f"{index.name}.*.vectors")
    loaded = np.fromfile(path, np.float32).reshape(-1, DIMS)
    db, table = apsw.Connection(os.fspath(index)), MemoryTable(index)
    found = f"SELECT rowid, rank FROM words WHERE words MATCH ? ORDER BY rank LIMIT {COUNT}"

    def product(matrix: "Vectors" = loaded) -> None:
        for vector in vectors:
            scores = matrix @ vector
            top = np.argpartition(scores, -COUNT)[-COUNT:]
            top[np.argsort(scores[top])[::-1]]

    def cold() -> None:
        opened = MemoryTable(index)
        for vector in vectors:
            opened.search("", vector, COUNT)
        opened.close()

    def both(*, looks: bool = False) -> None:
        for match, vector in zip(matches, vectors, strict=True):
            if looks:
                _stat_all(index.with_suffix(""))
            db.execute(found, (match,)).fetchall()
            scores = loaded @ vector
            top = np.argpartition(scores, -COUNT)[-COUNT:]
            top[np.argsort(scores[top])[::-1]]

    async def whole() -> None:
        for question in asked:
            await memory.search(question, count=COUNT)

    return {
        "product": product,
        "vector": lambda: [table.search("", vector, COUNT) for vector in vectors],
        "both": both,
        "hybrid": lambda: [table.search(*each, COUNT) for each in zip(asked, vectors, strict=True)],
        "looked": lambda: both(looks=True),
        "whole": lambda: loop.run_until_complete(whole()),
        "load": lambda: product(np.fromfile(path, np.float32).reshape(-1, DIMS)),
        "cold": cold,
    }


def _open(root: Path, embedder: RandomEmbedder | None) -> DiskMemory:
    return DiskMemory(MemoryPlaces(root, (), root.with_name(f"{root.name}.index")), lambda: embedder)


def _stat_all(root: Path) -> int:
    total, stack = 0, [str(root)]
    while stack:
        with os.scandir(stack.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    stack.append(entry.path)
                else:
                    total += entry.stat(follow_symlinks=False).st_size
    return total
