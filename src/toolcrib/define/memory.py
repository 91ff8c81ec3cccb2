"""What an agent remembers: Markdown files, searched by words and by meaning; the port `MemoryIndex`.

A memory is a folder: `MEMORY.md`, `memory.md` and what lies under `memory/`, of one agent and one person. The files are
the memory, and an index of them can be rebuilt at any time.
"""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from toolcrib.lazy import dataclass

from .caller import Caller
from .ports import Workspace

MEMORY_ROOTS = ("MEMORY.md", "memory.md")


def is_memory_file(parts: Sequence[str]) -> bool:
    """Tell whether a path of these names is one of a memory's own files."""
    if ".." in parts or not parts or not parts[-1].lower().endswith(".md"):
        return False
    return parts[0] in MEMORY_ROOTS if len(parts) == 1 else parts[0] == "memory"


@dataclass(frozen=True, slots=True)
class MemoryPlaces:
    """Where one memory lies: the folder with its files, further files and folders, and where its index is kept.

    `index` is None where nothing outlives the process.
    """

    folder: Path
    extra: tuple[Path, ...] = ()
    index: Path | None = None


class MemoryDocument(NamedTuple):
    """A text that is no file of the memory, like a session: its name, what changes when it does, how to read it."""

    path: str
    version: str
    read: Callable[[], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPassage:
    """One place that was found; lines count from 1. `source` is "memory" or "sessions"."""

    path: str
    start_line: int
    end_line: int
    score: float
    snippet: str
    source: str = "memory"

    def to_json(self) -> dict[str, Any]:
        """Return it as programs read it."""
        return {
            "path": self.path,
            "startLine": self.start_line,
            "endLine": self.end_line,
            "score": self.score,
            "snippet": self.snippet,
            "source": self.source,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryState:
    """What an index holds. `provider` made its vectors, "none" where it goes by words alone; `problem` says why."""

    files: int
    chunks: int
    provider: str
    model: str = ""
    problem: str = ""


SyncProgress = Callable[[int, int], None]  # so many of so many files are read


class MemoryIndex(Protocol):
    """Finds passages of one memory. Every method raises ToolError in one sentence when it cannot do its work."""

    @property
    def state(self) -> MemoryState:
        """What it held when it was last asked; its `problem` says why a search went by words alone."""

    async def sync(
        self, documents: Sequence[MemoryDocument] = (), *, anew: bool = False, progress: SyncProgress | None = None
    ) -> MemoryState:
        """Take in what has changed on disk, or everything when `anew`."""

    async def search(
        self, query: str, documents: Sequence[MemoryDocument] = (), *, count: int = 6, min_score: float = 0.0
    ) -> list[MemoryPassage]:
        """Return the best passages of what is on disk now, best first."""

    async def close(self) -> None:
        """Let go of files; it may be used again."""


class MemoryInTurn(NamedTuple):
    """What a turn gets of the speaker's memory: words for its prompt, and where they are from.

    `source` is None where nothing in them is from outside. `notes` is where what must last is written, None: nowhere.
    """

    prompt: str = ""
    source: str | None = None
    notes: Workspace | None = None


class TurnMemory(Protocol):
    """Gives turns what is remembered."""

    async def open_for(self, caller: Caller, tools: Collection[str], /) -> MemoryInTurn:
        """Return what a caller with these tools has in its turn; nothing where that cannot be read."""
