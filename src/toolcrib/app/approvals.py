"""The approvals of a crib: kept in the user's state folder, lent to nothing that could run something else."""

from collections.abc import Mapping
from pathlib import Path

import platformdirs

from toolcrib.backends.stores.approvals import SqliteApprovals
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.config.load import Loaded
from toolcrib.define.message import Call
from toolcrib.define.record import Record
from toolcrib.policy.resolve import is_owner
from toolcrib.registry.catalog import Catalog
from toolcrib.services.approvals import Approvals, ApprovalTerms, Lend

__all__ = ["approvals_for"]

_LINES = {"exec": "command"}  # tools that take a command line, and the argument it stands in


def approvals_for(
    loaded: Loaded,
    catalog: Catalog,
    *,
    state: Path | None = None,
    can_lend: Lend | None = None,
    record: Record | None = None,
) -> Approvals:
    """Return the approvals of a crib. Nothing on disk is touched before a question is asked.

    `can_lend` says of a command line why a yes to it must not last; of other tools their effects say it.
    """
    folder = state or platformdirs.user_state_path("toolcrib", appauthor=False)

    def lend(call: Call, binding: Mapping[str, str]) -> str | None:
        if can_lend is not None and call.name in _LINES:
            return can_lend(call, binding)
        tool = catalog.tools.get(call.name)
        runs = tool is None or "execute" in tool.effects
        return f"{call.name} can run something else, so every call is asked about" if runs else None

    return Approvals(
        SqliteApprovals(SqliteFile(folder / "crib.db")),
        is_owner=lambda caller: is_owner(loaded.policy, caller),
        can_lend=lend,
        terms=ApprovalTerms(lines=_LINES),
        record=record,
    )
