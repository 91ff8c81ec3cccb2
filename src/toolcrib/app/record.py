"""The record of a crib: in its store and, where the configuration says so, in a file of lines; and its check."""

import os
from collections.abc import Callable
from pathlib import Path

from toolcrib.agent.replay import judge_from
from toolcrib.backends.stores.commits import Commits
from toolcrib.backends.stores.memory import MemoryRecord
from toolcrib.backends.stores.record import RecordFile, SqliteRecord, SqliteRows, rows_in
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.config.complain import conceal
from toolcrib.config.load import Loaded
from toolcrib.define.errors import CribError, ToolError
from toolcrib.define.record import Entry, Record
from toolcrib.policy.resolve import is_owner
from toolcrib.services.audit import Audit, Report, verify

__all__ = ["audit_in", "record_for", "redact_for", "verify_file"]


def record_for(loaded: Loaded, commits: Commits | None) -> Record:
    """Return the record of a crib: in the file that `commits` writes to, or in memory when there is none."""
    file = loaded.config.audit.file
    if commits is None:
        return MemoryRecord() if file is None else _Unkept()
    return SqliteRecord(commits, redact=redact_for(loaded), file=None if file is None else RecordFile(_path(file)))


class _Unkept:
    """Stands where a record is wanted on disk and there is no place for it: such a crib explains, and runs nothing."""

    def write(self, entry: Entry, /) -> None:
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


def redact_for(loaded: Loaded) -> Callable[[str], str] | None:
    """Return what takes out of a text whatever the environment gave to the configuration, None when it gave nothing."""
    document = loaded.document
    return (lambda text: conceal(text, document)) if document.referenced else None


def _path(text: str) -> Path:
    return Path(os.path.expanduser(text))  # noqa: PTH111  Path's own raises for a user who is not there
