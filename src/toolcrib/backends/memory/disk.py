"""One memory on disk, searched: what has changed is taken in first, then words and vectors are asked together."""

import asyncio
import logging
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from toolcrib.define.errors import ToolError
from toolcrib.define.memory import MemoryDocument, MemoryPassage, MemoryPlaces, MemoryState, SyncProgress
from toolcrib.threads import in_thread, in_turn

from .chunks import chunk_markdown
from .embedders import Embedder
from .notes import NoteList, NoteVersion, list_notes, read_note
from .table import ChunkedFile, FileKey, MemoryTable

if TYPE_CHECKING:
    from .embedders import Vectors

log = logging.getLogger("toolcrib")

_FILE_BATCH, _CHUNK_BATCH, _TEXT_BATCH = 64, 2_000, 128  # others wait while a batch of files or chunks is written
_ROUNDS = 10
_QUESTION_CHARS = 2_000
_SEARCH_SECONDS = 20.0  # that a search waits for vectors of what is new
_PAUSE_SECONDS = 60.0  # after a failure, before a search asks for vectors again


class _Look(NamedTuple):
    """What is on disk, and what of it the index does not have; `version` is that of the tables then."""

    version: int
    listed: NoteList
    documents: Mapping[str, MemoryDocument]
    changed: Sequence[FileKey] = ()
    gone: Sequence[FileKey] = ()

    @property
    def is_same(self) -> bool:
        return not self.changed and not self.gone

    def list_all(self) -> tuple[Mapping[str, NoteVersion], Mapping[str, str]]:
        return self.listed.notes, {path: each.version for path, each in self.documents.items()}

    def read(self, key: FileKey) -> ChunkedFile:
        """Return a file as it is now."""
        if key.source == "memory":
            text, version = read_note(self.listed, key.path)
        else:
            text, version = self.documents[key.path].read(), self.documents[key.path].version
        return ChunkedFile(key, version, chunk_markdown(text))


class DiskMemory:
    """The index of one memory. `choose` gives the embedder, None for none, or raises ToolError that says why."""

    def __init__(
        self, places: MemoryPlaces, choose: Callable[[], Embedder | None], *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._places, self._choose, self._now = places, choose, now
        self._lock = asyncio.Lock()
        self._own: tempfile.TemporaryDirectory[str] | None = None
        self._opened: MemoryTable | None = None
        self._chosen: Embedder | None = None
        self.state = MemoryState(files=0, chunks=0, provider="none")  # what it held when it was last asked
        self._counted = 0  # the version of the tables that the state counts
        self._filled = 0  # the version in which nothing lacks a vector
        self._seen: _Look | None = None  # when disk and index were last the same
        self._left_out = self._problem = ""
        self._pause_until = 0.0

    async def sync(
        self, documents: Sequence[MemoryDocument] = (), *, anew: bool = False, progress: SyncProgress | None = None
    ) -> MemoryState:
        """Take in what has changed on disk, or everything when `anew`; vectors of the same text are kept."""
        async with self._lock:
            self._pause_until = 0.0
            look = await in_turn(self._look, documents, anew)
            version = await self._take_in(look, progress)
            return await self._tell_state(await self._fill(version, None))

    async def search(
        self, query: str, documents: Sequence[MemoryDocument] = (), *, count: int = 6, min_score: float = 0.0
    ) -> list[MemoryPassage]:
        vector = await self._embed_question(query)
        ask = partial(self._table.search, query, vector, max(1, count))
        async with self._lock:
            # mostly nothing has changed, and then one thread does it all
            look, (version, found) = await in_turn(lambda: (self._look(documents), ask()))
            if not look.is_same or look.version != version or version != self._filled:
                version = await self._fill(await self._take_in(look), _SEARCH_SECONDS)
                _, found = await in_turn(ask)
            await self._tell_state(version)
        return [passage for passage in found if passage.score >= min_score]

    async def close(self) -> None:
        async with self._lock:
            if self._opened is not None:
                await in_turn(self._opened.close)
            if self._own is not None:
                self._own.cleanup()
            self._opened = self._own = self._seen = None
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

    async def _take_in(self, look: _Look, progress: SyncProgress | None = None) -> int:
        """Bring the index up to date; return the version of the tables that then holds."""
        failed = 0
        if look.gone:
            await in_thread(self._table.write, (), look.gone)
        for index in range(0, len(look.changed), _FILE_BATCH):
            failed += await in_thread(self._read, look, look.changed[index : index + _FILE_BATCH])
            if progress is not None:
                progress(min(index + _FILE_BATCH, len(look.changed)), len(look.changed))
        parts = (look.listed.describe(), f"{failed} could not be read" if failed else "")
        self._left_out = "; ".join(filter(None, parts))
        if not look.is_same:
            return (await in_turn(self._table.state)).version
        self._seen = look
        return look.version

    def _look(self, documents: Sequence[MemoryDocument], anew: bool = False) -> _Look:
        """Return what is on disk now, compared with the index; `anew` is as if that had nothing."""
        version, known = self._table.list_versions()
        look = _Look(version, list_notes(self._places), {each.path: each for each in documents})
        if self._seen and not anew and version == self._seen.version and self._seen.list_all() == look.list_all():
            return look
        wanted = {FileKey("memory", path): str(look.listed.notes[path]) for path in sorted(look.listed.notes)}
        wanted.update((FileKey("sessions", path), each.version) for path, each in look.documents.items())
        changed = [key for key in wanted if anew or known.get(key) != wanted[key]]
        return look._replace(changed=changed, gone=[key for key in known if key not in wanted])

    def _read(self, look: _Look, keys: Sequence[FileKey]) -> int:
        """Put files into the index, whole; return how many could not be read, of which nothing stays there."""
        files: list[ChunkedFile] = []
        gone, known = [], self._table.list_versions()[1]
        for key in keys:
            try:
                files.append(look.read(key))
            except ToolError as error:
                log.info("the memory %s is not searched: %s", key.path, error)
                gone.append(key)
            if sum(len(file.chunks) for file in files) > _CHUNK_BATCH:
                self._table.write(files)
                files = []
        if files or any(key in known for key in gone):
            self._table.write(files, gone)
        return len(gone)

    async def _embedder(self) -> Embedder | None:
        """Return the embedder; why there is none is the `problem` of the state."""
        if self._chosen is None:
            try:
                self._chosen = await in_turn(self._choose)
                self._problem = ""
            except ToolError as error:
                self._problem = str(error)
        return self._chosen

    async def _fill(self, version: int, seconds: float | None) -> int:
        """Make the vectors that are missing, as far as there is time; what fails is reported, and tried again later."""
        embedder = await self._embedder()
        if embedder is None:
            self._filled = version
        if embedder is None or self._now() < self._pause_until:
            return version
        try:
            if version != self._filled:
                async with asyncio.timeout(seconds):
                    self._filled = version = await self._fill_all(embedder)
        except TimeoutError:
            self._fail(f"{embedder.provider} made not all vectors in {seconds:g} seconds")
        except ToolError as error:
            self._fail(str(error))
        else:
            self._problem = ""
        return version

    async def _fill_all(self, embedder: Embedder) -> int:
        table = self._table
        await in_turn(table.use_model, embedder.model)
        for _ in range(_ROUNDS):  # what others replaced meanwhile is missing again
            missing = await in_thread(table.missing)
            if not missing:
                return await in_thread(table.compact)
            for index in range(0, len(missing), _TEXT_BATCH):
                await self._fill_batch(embedder, missing[index : index + _TEXT_BATCH])
        raise ToolError("the memory changes faster than vectors are made")

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
            async with asyncio.timeout(_SEARCH_SECONDS):
                vectors = await embedder.embed([question[:_QUESTION_CHARS]])
        except (ToolError, TimeoutError) as error:
            self._fail(str(error) or f"{embedder.provider} made no vector in {_SEARCH_SECONDS:g} seconds")
            return None
        question_vector: Vectors = vectors[0]
        return question_vector

    def _fail(self, why: str) -> None:
        log.warning("a memory is searched by words alone: %s", why)
        self._problem = f"searched by words alone: {why}"
        self._pause_until = self._now() + _PAUSE_SECONDS

    async def _tell_state(self, version: int) -> MemoryState:
        counts = self.state.files, self.state.chunks
        if version != self._counted:
            counts, self._counted = await in_turn(self._table.count), version
        chosen = self._chosen
        self.state = MemoryState(
            files=counts[0],
            chunks=counts[1],
            provider=chosen.provider if chosen else "none",
            model=chosen.model if chosen else "",
            problem="; ".join(filter(None, (self._problem, self._left_out))),
        )
        return self.state
