"""Where a crib keeps what it knows: sessions, the record of calls, big values, answers; in a folder, or in memory."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import platformdirs

from toolcrib.agent.replay import judge_from
from toolcrib.backends.files.origins import FileOrigins
from toolcrib.backends.stores.approvals import SqliteApprovals, SqlitePins, SqliteQuotas
from toolcrib.backends.stores.blobs import SqliteBlobs
from toolcrib.backends.stores.commits import Commits
from toolcrib.backends.stores.devices import SqliteDevices
from toolcrib.backends.stores.jobs import MemoryJobs, SqliteJobs
from toolcrib.backends.stores.memory import InMemoryBlobs, MemoryRecord, MemorySessions
from toolcrib.backends.stores.messages import SqliteMessages
from toolcrib.backends.stores.origins import SqliteOrigins
from toolcrib.backends.stores.pending import SqlitePending
from toolcrib.backends.stores.record import RecordFile, Redact, SqliteRecord, SqliteRows, rows_in
from toolcrib.backends.stores.sessions import SqliteSessions
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.config.load import Loaded
from toolcrib.define.errors import CribError, ToolError
from toolcrib.define.log import SessionStore
from toolcrib.define.ports import Blobs
from toolcrib.define.record import Record, RecordEntry
from toolcrib.lazy import dataclass, field
from toolcrib.policy.resolve import is_owner
from toolcrib.services.audit import Audit, Report, verify
from toolcrib.services.feature import Stores
from toolcrib.services.members import Members

from .secrets import RedactedBlobs

STATE_FILE = "crib.db"

OpenFile = Callable[[Path], SqliteFile]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFolder:
    """The stores of one crib, and who shares them. `commits` writes to their file, None when all of it is in memory."""

    sessions: SessionStore
    blobs: Blobs
    commits: Commits | None = None
    members: Members = field(default_factory=Members)
    origins: FileOrigins = field(default_factory=lambda: FileOrigins(SqliteOrigins()))

    async def close(self) -> None:
        """Write what is left to write, and let go of the file."""
        if self.commits is not None:
            await self.commits.flush()
            self.commits.close()
        self.members.release()


def state_in(folder: Path | None, open_file: OpenFile = SqliteFile) -> StateFolder:
    """Return the stores in a folder, which is touched when something is kept; without one, stores in memory."""
    if folder is None:
        return StateFolder(sessions=MemorySessions(), blobs=InMemoryBlobs())
    commits = Commits(open_file(folder / STATE_FILE))
    sessions, blobs, origins = (
        SqliteSessions(commits),
        SqliteBlobs(commits),
        FileOrigins(open_origins(folder, open_file)),
    )
    return StateFolder(sessions=sessions, blobs=blobs, commits=commits, members=Members(folder), origins=origins)


def open_origins(folder: Path, open_file: OpenFile = SqliteFile) -> SqliteOrigins:
    """Return what is known in a state folder of contents that go back to words from outside."""
    return SqliteOrigins(open_file(folder / STATE_FILE))


def user_folder(env: Mapping[str, str]) -> Path:
    """Return where this user's cribs keep what they know: $TOOLCRIB_STATE, else the folder the system has for that."""
    named = env.get("TOOLCRIB_STATE", "").strip()
    return Path(named) if named else platformdirs.user_state_path("toolcrib", appauthor=False)


def stores_for(
    loaded: Loaded,
    kept: StateFolder,
    folder: Path | None,
    env: Mapping[str, str],
    redactors: tuple[Redact | None, Redact | None] = (None, None),
    open_file: OpenFile = SqliteFile,
) -> Stores:
    """Return all stores of a crib, as features take them; `redactors` take secrets out of blobs and of the record.

    What people were asked, accepted and took is the user's, so it stands in a folder of the user's without one.
    """
    redact_blobs, redact_record = redactors
    path = (folder or user_folder(env)) / STATE_FILE
    file = loaded.config.audit.file
    if kept.commits is not None:
        to = None if file is None else RecordFile(Path(os.path.expanduser(file)))  # noqa: PTH111  Path's own raises for a user who is not there
        record: Record = SqliteRecord(kept.commits, redact=redact_record, file=to)
    else:
        record = MemoryRecord() if file is None else _NoRecord()
    return Stores(
        sessions=kept.sessions,
        blobs=kept.blobs if redact_blobs is None else RedactedBlobs(kept.blobs, redact_blobs),
        record=record,
        approvals=SqliteApprovals(open_file(path)),
        pins=SqlitePins(open_file(path)),
        jobs=MemoryJobs() if folder is None else SqliteJobs(open_file(path)),
        messages=SqliteMessages(open_file(path)),
        quotas=SqliteQuotas(open_file(path)),
        pending=SqlitePending(open_file(path)),
        members=kept.members,
        rows=None if folder is None else SqliteRows(open_file(path)),
        devices=None if folder is None else SqliteDevices(open_file(path)),
    )


class _NoRecord:
    """Stands where a record is wanted on disk and there is no place for it: such a crib explains, and runs nothing."""

    def write(self, entry: RecordEntry, /) -> None:
        raise ToolError(
            "audit.file is set, and this crib has no state folder that its record could be kept in; open it with one",
            code="unrecorded",
        )


def audit_in(path: Path, loaded: Loaded, *, only_looks: bool = False) -> Audit:
    """Return what looks at the record in this store; the store itself is not touched before it does, or not at all."""
    rows = SqliteRows(SqliteFile(path, only_looks=only_looks))
    return Audit(rows, is_owner=lambda caller: is_owner(loaded.policy, caller), rederive=judge_from)


def verify_file(path: Path, *, expect: str = "", replay: bool = False) -> Report:
    """Check a file of lines, as `audit.file` names one; raise CribError when it cannot be read."""
    try:
        return verify(rows_in(path), expect=expect, rederive=judge_from if replay else None)
    except OSError as error:
        raise CribError(f"{str(path)[:200]!r} cannot be read: {error.strerror}") from None
