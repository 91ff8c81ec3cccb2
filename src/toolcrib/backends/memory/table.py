"""The index itself: files, chunks and words in SQLite, and the vectors of chunks as one matrix that is mapped.

The matrix only grows: a vector is on the disk before the row that speaks of it, and a reader looks no further than the
rows that its own transaction knows. So a kill leaves at most some bytes behind the end, which are overwritten. When
too many rows are dead, the others are written to a new file, and the state of the tables says which one counts.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import apsw
import orjson

from toolcrib.backends.files.stage import write_synced
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.define.errors import ToolError
from toolcrib.define.memory import MemoryPassage
from toolcrib.lazy import dataclass

from .chunks import Chunk, cut_text, list_terms, space_words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

T = TypeVar("T")

SNIPPET_CHARS = 700
_CANDIDATES = 50  # of each kind, for a question that wants few
_RANK_SHIFT = 60  # how little the first places count more than those behind them
_COMMON = 1_000  # chunks that a word may stand in, however many there are
_TEXTS = "SELECT hash, above, text FROM chunks WHERE id IN (SELECT value FROM json_each(?))"
_PLACES = """
    SELECT chunks.id, source, path, start_line, end_line, text FROM chunks JOIN files ON files.id = file
    WHERE chunks.id IN (SELECT value FROM json_each(?))
"""
_NEAR = "SELECT chunks.id, row FROM vectors JOIN chunks USING (hash) WHERE row IN (SELECT value FROM json_each(?))"
_MAX_DEAD = 1_000  # dead rows of the matrix

_ADD_CHUNK = "INSERT INTO chunks (file, start_line, end_line, hash, above, text) VALUES (?, ?, ?, ?, ?, ?)"
_NOTE_DEAD = "UPDATE vectors SET is_dead = NOT EXISTS (SELECT 1 FROM chunks WHERE hash = ?1) WHERE hash = ?1"
_NOTE_MISSING = "INSERT OR IGNORE INTO missing SELECT ?1 WHERE ?1 NOT IN (SELECT hash FROM vectors)"

_TABLES = (
    """
    CREATE TABLE state (
        one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER NOT NULL, model TEXT NOT NULL, dims INTEGER NOT NULL,
        rows INTEGER NOT NULL, generation INTEGER NOT NULL
    ) STRICT;
    INSERT INTO state VALUES (1, 1, '', 0, 0, 1);
    CREATE TABLE files (
        id INTEGER PRIMARY KEY, source TEXT NOT NULL, path TEXT NOT NULL, version TEXT NOT NULL, UNIQUE (source, path)
    ) STRICT;
    CREATE TABLE chunks (
        id INTEGER PRIMARY KEY, file INTEGER NOT NULL, start_line INTEGER NOT NULL, end_line INTEGER NOT NULL,
        hash BLOB NOT NULL, above TEXT NOT NULL, text TEXT NOT NULL
    ) STRICT;
    CREATE INDEX chunks_by_file ON chunks (file);
    CREATE INDEX chunks_by_hash ON chunks (hash);
    CREATE TABLE vectors (
        hash BLOB PRIMARY KEY, row INTEGER NOT NULL UNIQUE, is_dead INTEGER NOT NULL DEFAULT 0
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX dead_vectors ON vectors (row) WHERE is_dead;
    CREATE TABLE missing (hash BLOB PRIMARY KEY) STRICT, WITHOUT ROWID;
    CREATE VIRTUAL TABLE words USING fts5 (
        text, content = '', contentless_delete = 1, tokenize = "porter unicode61 categories 'L* N* M* Co'"
    );
    """,
)


class FileKey(NamedTuple):
    """Which file: of what source, "memory" or "sessions", and its path."""

    source: str
    path: str


class ChunkedFile(NamedTuple):
    """A file that was read, and what it was cut into."""

    key: FileKey
    version: str
    chunks: Sequence[Chunk]


class IndexState(NamedTuple):
    """What the tables say of themselves; `version` changes with every change."""

    version: int
    model: str
    dims: int
    rows: int
    generation: int


@dataclass(frozen=True, slots=True)
class _View:
    """The matrix as one version of the tables knows it: its rows, and which of them belong to no chunk."""

    version: int
    matrix: "Vectors"
    dead: "NDArray[np.int64]"


class MemoryTable:
    """One index on disk. Any number of processes may use it; a broken one is thrown away, for it can be rebuilt."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = SqliteFile(path, _TABLES)
        self._view: _View | None = None
        self._known: tuple[int, dict[FileKey, str]] = (0, {})

    def close(self) -> None:
        self._view = None
        self._file.close()

    def _transact(self, step: Callable[[apsw.Connection], T], *, writes: bool = False) -> T:
        try:
            return self._file.transact(step, writes=writes)
        except ToolError as error:
            if error.code != "unavailable":
                raise
        self._discard_broken()
        return self._file.transact(step, writes=writes)

    def _discard_broken(self) -> None:
        """Throw away what was found broken and set aside, by us or by another thread, and the vectors with it."""
        broken = list(self.path.parent.glob(f"{self.path.name}.broken-*"))
        for each in (*broken, *(self._matrices() if broken else ())):
            each.unlink(missing_ok=True)

    # Files and their chunks.

    def list_versions(self) -> tuple[int, Mapping[FileKey, str]]:
        """Return the version of the tables, and the files that are in them, each with its own."""

        def step(db: apsw.Connection) -> tuple[int, dict[FileKey, str]]:
            version = _state(db).version
            if version == self._known[0]:
                return self._known
            rows = db.execute("SELECT source, path, version FROM files")
            return version, {FileKey(source, path): mark for source, path, mark in rows}

        self._known = self._transact(step)
        return self._known

    def write(self, files: Iterable[ChunkedFile], gone: Iterable[FileKey] = ()) -> None:
        """Take in files, each whole, and forget those that are gone, in one transaction."""

        def step(db: apsw.Connection) -> None:
            touched: set[bytes] = set()
            for key in gone:
                touched |= _forget(db, key)
            for file in files:
                touched |= _forget(db, file.key)
                db.execute("INSERT INTO files (source, path, version) VALUES (?, ?, ?)", (*file.key, file.version))
                id = db.last_insert_rowid()
                for chunk in file.chunks:
                    hash = chunk.hash
                    touched.add(hash)
                    db.execute(_ADD_CHUNK, (id, chunk.start_line, chunk.end_line, hash, chunk.above, chunk.text))
                    row = (db.last_insert_rowid(), space_words(chunk.whole))
                    db.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", row)
            db.executemany(_NOTE_DEAD, ((hash,) for hash in touched))
            db.executemany(_NOTE_MISSING, ((hash,) for hash in touched))
            db.execute("UPDATE state SET version = version + 1")

        self._transact(step, writes=True)

    def count(self) -> tuple[int, int]:
        """Return how many files and chunks it holds."""
        asked = "SELECT (SELECT count(*) FROM files), (SELECT count(*) FROM chunks)"
        counts: tuple[int, int] = self._transact(lambda db: next(db.execute(asked)))
        return counts

    # Vectors.

    def state(self) -> IndexState:
        return self._transact(_state)

    def missing(self) -> list[int]:
        """Return a chunk for every text that has no vector."""
        wanted = "SELECT min(id) FROM missing JOIN chunks USING (hash) GROUP BY hash ORDER BY 1"
        return self._transact(lambda db: [id for (id,) in db.execute(wanted)])

    def texts(self, ids: Sequence[int]) -> list[tuple[bytes, str]]:
        """Return the hashes and the texts of chunks; of those that are gone by now, none."""

        def step(db: apsw.Connection) -> list[tuple[bytes, str]]:
            rows = db.execute(_TEXTS, (_pack(ids),))
            return [(hash, Chunk(0, 0, text, above).whole) for hash, above, text in rows]

        return self._transact(step)

    def use_model(self, model: str) -> None:
        """Forget the vectors of another model, and a matrix that is no longer whole."""

        def step(db: apsw.Connection) -> None:
            state = _state(db)
            if state.model == model and self._is_whole(state):
                return
            _forget_vectors(db, model)

        state = self.state()
        if state.model != model or not self._is_whole(state):
            self._transact(step, writes=True)

    def add_vectors(self, model: str, hashes: Sequence[bytes], vectors: "Vectors") -> None:
        """Keep vectors of length 1, one for each hash; those of a model that is not in use are dropped."""

        def step(db: apsw.Connection) -> None:
            state = _state(db)
            if state.model != model or not self._is_whole(state):
                return
            if state.rows and vectors.shape[1] != state.dims:
                _forget_vectors(db, model)  # another model under the same name
                return
            fresh = {
                hash: index
                for index, hash in enumerate(hashes)
                if not db.execute("SELECT 1 FROM vectors WHERE hash = ?", (hash,)).fetchall()
            }
            fd = os.open(self._matrix(state.generation), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                data = vectors[list(fresh.values())].tobytes()
                offset = state.rows * vectors.shape[1] * 4
                while data:
                    written = os.pwrite(fd, data, offset)
                    data, offset = data[written:], offset + written
                os.fsync(fd)
            finally:
                os.close(fd)
            db.executemany(
                "INSERT INTO vectors (hash, row) VALUES (?, ?)", zip(fresh, range(state.rows, 1 << 62), strict=False)
            )
            db.executemany(_NOTE_DEAD, ((hash,) for hash in fresh))
            db.executemany("DELETE FROM missing WHERE hash = ?", ((hash,) for hash in hashes))
            counts = (vectors.shape[1], state.rows + len(fresh))
            db.execute("UPDATE state SET version = version + 1, dims = ?, rows = ?", counts)

        self._transact(step, writes=True)

    def compact(self) -> int:
        """Rewrite the matrix when many of its rows are dead, and remove the old one.

        Return the version of the tables that then holds.
        """

        def step(db: apsw.Connection) -> None:
            state = _state(db)
            (dead,) = next(db.execute("SELECT count(*) FROM vectors WHERE is_dead"))
            if dead <= max(_MAX_DEAD, state.rows // 4) or not self._is_whole(state):
                return
            db.execute("DELETE FROM vectors WHERE is_dead")
            rows: list[Any] = db.execute("SELECT hash, row FROM vectors ORDER BY row").fetchall()
            whole = self._map(state)[[row for _, row in rows]].tobytes()
            renumbered = ((index, hash) for index, (hash, _) in enumerate(rows))
            db.executemany("UPDATE vectors SET row = ? WHERE hash = ?", renumbered)
            fresh = self._matrix(state.generation + 1)
            fresh.unlink(missing_ok=True)  # of one who was killed at this
            write_synced(fresh, whole)
            _begin_matrix(db, state.model, state.dims, len(rows))

        def sweep(db: apsw.Connection) -> None:
            used = self._matrix(_state(db).generation)
            for each in self._matrices():
                if each != used:
                    each.unlink(missing_ok=True)

        self._transact(step, writes=True)
        if len(self._matrices()) > 1:  # only now, as what is in use is on the disk
            self._transact(sweep, writes=True)
        return self.state().version

    def _matrix(self, generation: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{generation}.vectors")

    def _matrices(self) -> list[Path]:
        return list(self.path.parent.glob(f"{self.path.name}.*.vectors"))

    def _is_whole(self, state: IndexState) -> bool:
        with suppress(FileNotFoundError):
            return self._matrix(state.generation).stat().st_size >= state.rows * state.dims * 4
        return not state.rows

    def _map(self, state: IndexState) -> "Vectors":
        import numpy as np  # noqa: PLC0415  loaded by those who have vectors

        path, shape = self._matrix(state.generation), (state.rows, state.dims)
        return np.asarray(np.memmap(path, np.float32, "r", shape=shape))

    # Searches.

    def search(self, question: str, vector: "Vectors | None", count: int) -> tuple[int, list[MemoryPassage]]:
        """Return the passages that are best by words and, with a vector of length 1, by meaning.

        Before them, in which version of the tables they are.
        """
        limit = max(_CANDIDATES, 4 * count)
        terms = list_terms(question)

        def step(db: apsw.Connection) -> tuple[int, list[MemoryPassage]]:
            lists = [_rank_by_words(db, terms, limit)]
            if vector is not None:
                lists.append(self._rank_by_vector(db, vector, limit))
            ids = _pack({id for ranked in lists for id in ranked})
            places = {id: ChunkPlace(*rest) for id, *rest in db.execute(_PLACES, (ids,))}
            return _state(db).version, fuse(lists, places, count)

        return self._transact(step)

    def _rank_by_vector(self, db: apsw.Connection, vector: "Vectors", limit: int) -> dict[int, float]:
        """Return the chunks whose vectors are nearest, each with its product."""
        import numpy as np  # noqa: PLC0415  loaded by those who have vectors

        state = _state(db)
        if not state.rows or state.dims != len(vector) or not self._is_whole(state):
            return {}
        view = self._view
        if view is None or view.version != state.version:
            dead = db.execute("SELECT row FROM vectors WHERE is_dead")
            view = _View(state.version, self._map(state), np.array([row for (row,) in dead], np.int64))
            self._view = view
        scores = view.matrix @ vector
        scores[view.dead] = -1.0
        top = np.argpartition(scores, -limit)[-limit:] if limit < len(scores) else np.arange(len(scores))
        by_row = {int(row): float(scores[row]) for row in top if scores[row] > 0}
        return {id: by_row[row] for id, row in db.execute(_NEAR, (_pack(by_row),))}


class ChunkPlace(NamedTuple):
    """Where a chunk is, in the order that decides between equals, and what it says."""

    source: str
    path: str
    start_line: int
    end_line: int
    text: str


def fuse(lists: Sequence[Mapping[int, float]], places: Mapping[int, ChunkPlace], count: int) -> list[MemoryPassage]:
    """Return the best of several lists by reciprocal rank; 1 is what is first in all of them.

    Each list says how good a chunk is; how much better one is than the next does not count, only that it is.
    """
    scores: dict[int, float] = {}
    for ranked in lists:
        ordered = sorted(ranked, key=lambda each: (-ranked[each], places[each]))
        for rank, id in enumerate(ordered, 1):
            scores[id] = scores.get(id, 0.0) + (1 + _RANK_SHIFT) / (rank + _RANK_SHIFT) / len(lists)
    best = sorted(scores, key=lambda each: (-scores[each], places[each]))[:count]
    return [_passage(places[id], round(scores[id], 6)) for id in best]


def _passage(place: ChunkPlace, score: float) -> MemoryPassage:
    snippet = cut_text(place.text.strip(), SNIPPET_CHARS)
    source, path, start, end, _ = place
    return MemoryPassage(path=path, start_line=start, end_line=end, score=score, snippet=snippet, source=source)


def _rank_by_words(db: apsw.Connection, terms: Sequence[str], limit: int) -> dict[int, float]:
    """Return the chunks that hold some of the terms, each with how much that says."""
    terms = _leave_common(db, terms)
    if not terms:
        return {}
    found = "SELECT rowid, -rank FROM words WHERE words MATCH ? ORDER BY rank, rowid LIMIT ?"
    return dict(db.execute(found, (" OR ".join(terms), limit)))


def _leave_common(db: apsw.Connection, terms: Sequence[str]) -> Sequence[str]:
    """Return the terms without those that stand in very many chunks: they say little, and take most of the time."""
    (chunks,) = next(db.execute("SELECT ifnull(max(id), 0) FROM chunks"))
    limit = max(_COMMON, chunks // 8)
    if chunks <= limit:
        return terms
    counted = "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)"
    return [term for term in terms if next(db.execute(counted, (term, limit + 1)))[0] <= limit] or terms


def _state(db: apsw.Connection) -> IndexState:
    return IndexState(*next(db.execute("SELECT version, model, dims, rows, generation FROM state")))


def _begin_matrix(db: apsw.Connection, model: str, dims: int, rows: int) -> None:
    changed = "version = version + 1, generation = generation + 1, model = ?, dims = ?, rows = ?"
    db.execute(f"UPDATE state SET {changed}", (model, dims, rows))  # noqa: S608  no value of others


def _forget_vectors(db: apsw.Connection, model: str) -> None:
    """Start again with the vectors of a model."""
    db.execute("DELETE FROM vectors")
    db.execute("INSERT OR IGNORE INTO missing SELECT hash FROM chunks")
    _begin_matrix(db, model, 0, 0)


def _forget(db: apsw.Connection, key: FileKey) -> set[bytes]:
    """Take a file out; return the hashes of its chunks."""
    hashes: set[bytes] = set()
    for (id,) in db.execute("DELETE FROM files WHERE source = ? AND path = ? RETURNING id", key).fetchall():
        db.execute("DELETE FROM words WHERE rowid IN (SELECT id FROM chunks WHERE file = ?)", (id,))
        hashes.update(hash for (hash,) in db.execute("DELETE FROM chunks WHERE file = ? RETURNING hash", (id,)))
    return hashes


def _pack(numbers: Iterable[int]) -> str:
    """Return numbers as one value, which SQL unpacks."""
    return orjson.dumps(list(numbers)).decode()
