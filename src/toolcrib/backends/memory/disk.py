"""One memory on disk, searched: what has changed is taken in first, then words and vectors are asked together."""

import asyncio
import logging
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from toolcrib.define.errors import ToolError
from toolcrib.define.memory import MemoryDocument, MemoryPassage, MemoryPlaces, MemoryState, SyncProgress
from toolcrib.threads import in_thread, in_turn

from .chunks import chunk_markdown
from .embedders import Embedder
from .notes import Note, list_notes, read_note
from .table import ChunkedFile, FileKey, MemoryTable

if TYPE_CHECKING:
    from .embedders import Vectors

log = logging.getLogger("toolcrib")

_FILE_BATCH, _TEXT_BATCH = 64, 128
_QUESTION_CHARS = 2_000
_SEARCH_SECONDS = 20.0  # that a search waits for vectors of what is new
_PAUSE_SECONDS = 60.0  # after a failure, before a search asks for vectors again


class _Changes(NamedTuple):
    """What differs between disk and index: what to read, what to forget, and what cannot be searched."""

    changed: list[tuple[FileKey, Note | MemoryDocument]]
    gone: list[FileKey]
    left_out: str


class DiskMemory:
    """The index of one memory. `choose` gives who makes vectors, None for nobody, or raises ToolError that says why."""

    def __init__(
        self,
        places: MemoryPlaces,
        choose: Callable[[], Embedder | None],
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._places, self._choose, self._now = places, choose, now
        self._lock = asyncio.Lock()
        self._own: tempfile.TemporaryDirectory[str] | None = None
        self._opened: MemoryTable | None = None
        self._chosen: Embedder | None = None
        self._state = MemoryState(files=0, chunks=0, provider="none")
        self._counted = 0  # the version of the tables that the state counts
        self._filled = 0  # the version in which nothing lacks a vector
        self._left_out = self._problem = ""
        self._pause_until = 0.0

    @property
    def state(self) -> MemoryState:
        """What it held when it was last asked."""
        return self._state

    async def sync(
        self, documents: Sequence[MemoryDocument] = (), *, anew: bool = False, progress: SyncProgress | None = None
    ) -> MemoryState:
        """Take in what has changed on disk, or everything when `anew`; vectors of the same text are kept."""
        async with self._lock:
            await self._take_in(documents, anew=anew, progress=progress)
            self._pause_until = 0.0
            await self._fill(None)
        return await self._tell_state()

    async def search(
        self, query: str, documents: Sequence[MemoryDocument] = (), *, count: int = 6, min_score: float = 0.0
    ) -> list[MemoryPassage]:
        """Return the best passages of what is on disk now, best first."""
        async with self._lock:
            await self._take_in(documents)
            await self._fill(self._now() + _SEARCH_SECONDS)
        vector = await self._embed_question(query)
        found = await in_turn(self._table.search, query, vector, max(1, count))
        await self._tell_state()
        return [passage for passage in found if passage.score >= min_score]

    async def close(self) -> None:
        """Let go of files; it may be used again."""
        async with self._lock:
            if self._opened is not None:
                await in_turn(self._opened.close)
            if self._own is not None:
                self._own.cleanup()
            self._opened = self._own = None
            self._counted = self._filled = 0

    @property
    def _table(self) -> MemoryTable:
        if self._opened is None:
            path = self._places.index
            if path is None:
                self._own = tempfile.TemporaryDirectory(prefix="toolcrib-memory-")
                path = Path(self._own.name) / "memory.db"
            self._opened = MemoryTable(path)
        return self._opened

    async def _take_in(
        self, documents: Sequence[MemoryDocument], *, anew: bool = False, progress: SyncProgress | None = None
    ) -> None:
        changes = await in_turn(self._look, documents, anew)
        failed, done = 0, 0
        if changes.gone:
            await in_thread(self._table.write, (), changes.gone)
        for at in range(0, len(changes.changed), _FILE_BATCH):
            batch = changes.changed[at : at + _FILE_BATCH]
            failed += await in_thread(self._read, batch)
            done += len(batch)
            if progress is not None:
                progress(done, len(changes.changed))
        self._left_out = "; ".join(filter(None, (changes.left_out, f"{failed} could not be read" if failed else "")))

    def _look(self, documents: Sequence[MemoryDocument], anew: bool) -> _Changes:
        listed = list_notes(self._places)
        known = self._table.list_versions()
        wanted: dict[FileKey, Note | MemoryDocument] = {
            FileKey("memory", path): note for path, note in sorted(listed.notes.items())
        }
        wanted.update((FileKey("sessions", document.path), document) for document in documents)
        changed = [(key, each) for key, each in wanted.items() if anew or known.get(key) != each.version]
        return _Changes(changed, [key for key in known if key not in wanted], listed.describe())

    def _read(self, batch: Sequence[tuple[FileKey, Note | MemoryDocument]]) -> int:
        """Put files into the index, whole; return how many could not be read, of which nothing stays there."""
        files, gone = [], []
        for key, each in batch:
            try:
                text, version = read_note(each) if isinstance(each, Note) else (each.read(), each.version)
            except ToolError as error:
                log.info("the memory %s is not searched: %s", key.path, error)
                gone.append(key)
                continue
            files.append(ChunkedFile(key, version, chunk_markdown(text)))
        self._table.write(files, gone)
        return len(gone)

    async def _embedder(self) -> Embedder | None:
        """Return who makes vectors; why nobody does is the problem that the state tells."""
        if self._chosen is None:
            try:
                self._chosen = await in_turn(self._choose)
                self._problem = ""
            except ToolError as error:
                self._problem = str(error)
        return self._chosen

    async def _fill(self, until: float | None) -> None:
        """Make the vectors that are missing, as far as there is time; what fails is told, and tried again later."""
        embedder, table = await self._embedder(), self._table
        if embedder is None or self._now() < self._pause_until:
            return
        if (await in_turn(table.state)).version == self._filled:
            return
        try:
            await in_turn(table.use_model, embedder.model)
            version, missing = await in_thread(table.missing)
            while missing:  # chunks that others replaced meanwhile are missing again
                for at in range(0, len(missing), _TEXT_BATCH):
                    if until is not None and self._now() > until:
                        self._problem = f"{len(missing) - at} chunks without vectors yet were searched by words alone"
                        return
                    await self._fill_batch(embedder, missing[at : at + _TEXT_BATCH])
                version, missing = await in_thread(table.missing)
            await in_thread(table.compact)
        except ToolError as error:
            self._fail(error)
            return
        self._problem, self._filled = "", version

    async def _fill_batch(self, embedder: Embedder, ids: Sequence[int]) -> None:
        texts = await in_turn(self._table.texts, ids)
        if texts:
            vectors = await embedder.embed([text for _, text in texts])
            await in_turn(self._table.add_vectors, embedder.model, [hash for hash, _ in texts], vectors)

    async def _embed_question(self, question: str) -> "Vectors | None":
        embedder = await self._embedder()
        if embedder is None or self._now() < self._pause_until:
            return None
        try:
            vectors = await embedder.embed([question[:_QUESTION_CHARS]])
        except ToolError as error:
            self._fail(error)
            return None
        question_vector: Vectors = vectors[0]
        return question_vector

    def _fail(self, error: ToolError) -> None:
        log.warning("a memory is searched by words alone: %s", error)
        self._problem = f"searched by words alone: {error}"
        self._pause_until = self._now() + _PAUSE_SECONDS

    async def _tell_state(self) -> MemoryState:
        state = await in_turn(self._table.state)
        files, chunks = self._state.files, self._state.chunks
        if state.version != self._counted:
            files, chunks = await in_turn(self._table.count)
            self._counted = state.version
        chosen = self._chosen
        self._state = MemoryState(
            files=files,
            chunks=chunks,
            provider=chosen.provider if chosen else "none",
            model=chosen.model if chosen else "",
            problem="; ".join(filter(None, (self._problem, self._left_out))),
        )
        return self._state
