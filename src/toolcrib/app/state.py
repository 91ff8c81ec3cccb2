"""Where a crib keeps what it knows: sessions, the record of calls, big values; in a folder, or in memory."""

from dataclasses import dataclass
from pathlib import Path

from toolcrib.backends.stores.blobs import SqliteBlobs
from toolcrib.backends.stores.commits import Commits
from toolcrib.backends.stores.memory import MemoryBlobs, MemorySessions
from toolcrib.backends.stores.sessions import SqliteSessions
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.define.log import SessionStore
from toolcrib.define.ports import Blobs

__all__ = ["FILE", "State", "state_in"]

FILE = "crib.db"


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The stores of one crib. `commits` writes to their file, None when all of it is in memory."""

    sessions: SessionStore
    blobs: Blobs
    commits: Commits | None = None

    async def close(self) -> None:
        """Write what is left to write, and let go of the file."""
        if self.commits is not None:
            await self.commits.flush()
            self.commits.close()


def state_in(folder: Path | None) -> State:
    """Return the stores in a folder, which is touched when something is kept; without one, stores in memory."""
    if folder is None:
        return State(sessions=MemorySessions(), blobs=MemoryBlobs())
    commits = Commits(SqliteFile(folder / FILE))
    return State(sessions=SqliteSessions(commits), blobs=SqliteBlobs(commits), commits=commits)
