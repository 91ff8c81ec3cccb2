"""openclaw-memory, as far as it is about the index: on backends/memory."""

import tempfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from toolcrib.backends.memory.chunks import Chunk, chunk_markdown, list_terms
from toolcrib.backends.memory.embedders import normalize_rows
from toolcrib.backends.memory.notes import list_notes
from toolcrib.backends.memory.table import ChunkedFile, ChunkPlace, FileKey, MemoryTable, fuse
from toolcrib.define.memory import MemoryPlaces

from .files import content_of, folder_of
from .load import Case

Json = dict[str, Any]


def _chunk(args: Json) -> list[Json]:
    size, overlap = (4 * args["chunking"][name] for name in ("tokens", "overlap"))
    return [
        {
            "startLine": each.start_line,
            "endLine": each.end_line,
            "text": each.text,
            "hash": sha256(each.text.encode()).hexdigest(),
        }
        for each in chunk_markdown(content_of(args["content"]).decode(), size, overlap)
    ]


def _search(args: Json) -> list[Json]:
    with tempfile.TemporaryDirectory() as name:
        table = MemoryTable(Path(name) / "index")
        docs = enumerate(args["docs"])
        table.write(ChunkedFile(FileKey("memory", f"d{at}"), "1", [Chunk(1, 1, text)]) for at, text in docs)
        _, found = table.search(args["query"], None, 200)
        table.close()
    return [{"id": each.path, "textScore": each.score} for each in found]


def _score(args: Json) -> float:
    """Return the score of a chunk that FTS5 gave this rank, and that was found alone."""
    place = ChunkPlace("memory", "a.md", 1, 1, "")
    return fuse([{0: -(args["rank"] or 0)}], {0: place}, 1)[0].score


def _merge(args: Json) -> list[Json]:
    """Return both lists as one; where they show a chunk differently, the words count."""
    shown = {each["id"]: each for each in (*args["vector"], *args["keyword"])}
    ids = list(shown)
    places = {
        ids.index(id): ChunkPlace(each["source"], each["path"], each["startLine"], each["endLine"], each["snippet"])
        for id, each in shown.items()
    }
    lists = [
        {ids.index(each["id"]): each[score] for each in args[name]}
        for name, score in (("vector", "vectorScore"), ("keyword", "textScore"))
    ]
    return [each.to_json() for each in fuse(lists, places, len(ids))]


def _compare(args: Json) -> float:
    """Return the product of two vectors as the matrix has it; those of another length are never in one matrix."""
    if len(args["a"]) != len(args["b"]):
        return 0.0
    left, right = normalize_rows(np.array([args["a"], args["b"]], np.float32))
    return float(left @ right)


def _list(args: Json) -> list[str]:
    with folder_of(args["files"]) as root:
        for path in root.rglob("*"):
            if path.is_symlink() and "{ROOT}" in str(target := path.readlink()):
                path.unlink()
                path.symlink_to(str(target).replace("{ROOT}", str(root)))
        extra = tuple(Path(each.strip()) for each in args.get("extraPaths", ()))
        return sorted(f"{{ROOT}}/{path}" for path in list_notes(MemoryPlaces(root, extra)).notes)


def _same_product(case: Case, ours: Any) -> str:
    """Say how a product in single precision is not the one that was recorded, "" when it is."""
    recorded = case.expected["result"]
    return "" if isinstance(ours, float) and abs(ours - recorded) < 1e-6 else f"recorded: {recorded}"


ADAPTERS: dict[str, Callable[[Json], Any]] = {
    "bm25RankToScore": _score,
    "buildFtsQuery": lambda args: " OR ".join(list_terms(args["raw"])) or None,
    "chunkMarkdown": _chunk,
    "cosineSimilarity": _compare,
    "ftsSearch": _search,
    "listMemoryFiles": _list,
    "mergeHybridResults": _merge,
}
SAME: dict[str, Callable[[Case, Any], str]] = {"cosineSimilarity": _same_product}
