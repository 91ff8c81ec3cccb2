"""What the judge let through, call by call: this and nothing else is started, and only once."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from toolcrib.define.errors import ToolError

__all__ = ["Permit", "Permits"]

_MOST = 4_096


async def _nothing_to_check() -> None:
    return


@dataclass(frozen=True, slots=True, kw_only=True)
class Permit:
    """What the judge let through for one call: this and nothing else is started, once.

    `argv` runs as it is; without one, bash reads `script`. `line` is what the model wrote. `unchanged` raises
    ToolError when something that a human was shown is not the same any more.
    """

    line: str
    argv: tuple[str, ...] | None = None
    script: str | None = None
    cwd: str = "."
    env: Mapping[str, str] = field(default_factory=dict)
    unchanged: Callable[[], Awaitable[None]] = _nothing_to_check


class Permits:
    """The permits of calls that have not started their command yet, and the ids of those that have."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], Permit] = {}
        self._spent: dict[tuple[str, str], str] = {}

    def add(self, scope: str, call: str, permit: Permit) -> None:
        """Let a call of this scope start a command; of too many permits the oldest is forgotten."""
        self._open.pop((scope, call), None)
        self._open[scope, call] = permit
        _shorten(self._open)

    def take(self, scope: str, call: str) -> Permit:
        """Return what a call may start, for the only time. The same call, tried again, gets nothing."""
        if (scope, call) in self._spent:
            raise ToolError(
                f"this call has started its command already, as {self._spent[scope, call]}, and does not do so twice",
                code="repeated",
            )
        permit = self._open.pop((scope, call), None)
        if permit is None:
            raise ToolError("nothing was permitted for this call; use the tool exec to run a command", code="denied")
        return permit

    def spent(self, scope: str, call: str, id: str) -> None:
        """Remember what a call has started."""
        self._spent[scope, call] = id
        _shorten(self._spent)


def _shorten(table: dict[tuple[str, str], Permit] | dict[tuple[str, str], str]) -> None:
    while len(table) > _MOST:
        del table[next(iter(table))]
