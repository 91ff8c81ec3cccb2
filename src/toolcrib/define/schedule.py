"""When a job is due: the slots of a schedule, in milliseconds. Pure: the clock is the caller's.

A slot is a moment at which a job runs once. One that a change of the clocks leaves out comes as much later as the
clocks went forward; one that it repeats comes the first time.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from toolcrib.lazy import regex

from .args import trim
from .errors import ToolError

_LAST_MS = 253_000_000_000_000  # in the year 9987: what comes later never does
_MAX_EVERY_MS = 100 * 366 * 86_400_000
_EXPR_CHARS, _ZONE_CHARS = 256, 64
_ANY_DAY = datetime(2000, 1, 1, tzinfo=UTC)
_MAX_SHIFT = timedelta(hours=3)  # by which clocks go forward
_SECONDS_BELOW = 100_000_000_000  # a number of so few is seconds: as milliseconds it would be before March 1973
_MACROS = {
    "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}  # fmt: skip
_BARE_STEP = regex(r"(?:^|,)[0-9]+/")
_DIGITS = regex(r"[0-9]+")
# how far back to look for the latest slot, the near ones first: there are few slots in the first that has one
_SPANS_MS = (60_000, 3_600_000, 86_400_000, 31 * 86_400_000, 366 * 86_400_000, 9 * 366 * 86_400_000)


class JobPart(BaseModel):
    """A part of a job, spelled as the protocol does; nothing in it is guessed."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, strict=True, defer_build=True)

    def to_json(self) -> dict[str, Any]:
        """Return it as it was written."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class AtSchedule(JobPart):
    """Once."""

    kind: Literal["at"]
    at_ms: Annotated[int, Field(ge=_SECONDS_BELOW, le=_LAST_MS)]


class EverySchedule(JobPart):
    """Again and again, counted from an anchor."""

    kind: Literal["every"]
    every_ms: Annotated[int, Field(ge=1, le=_MAX_EVERY_MS)]
    anchor_ms: Annotated[int, Field(le=_LAST_MS)] | None = None


class CronSchedule(JobPart):
    """As a crontab says it, in a time zone; without one in UTC."""

    kind: Literal["cron"]
    expr: Annotated[str, Field(min_length=1, max_length=_EXPR_CHARS)]
    tz: Annotated[str, Field(max_length=_ZONE_CHARS)] | None = None


Schedule = Annotated[AtSchedule | EverySchedule | CronSchedule, Field(discriminator="kind")]


def with_anchor(schedule: Schedule, anchor_ms: int) -> Schedule:
    """Return the schedule with this anchor, where it counts from one and names none."""
    if isinstance(schedule, EverySchedule) and schedule.anchor_ms is None:
        return schedule.model_copy(update={"anchor_ms": anchor_ms})
    return schedule


def first_slot(schedule: Schedule, now_ms: int) -> int | None:
    """Return when a job that is made now runs first; an interval without an anchor begins now, None is never."""
    if isinstance(schedule, EverySchedule) and schedule.anchor_ms not in (None, now_ms):
        return next_slot(schedule, now_ms - 1)  # on the dot is in time
    return next_slot(with_anchor(schedule, now_ms), now_ms)


def next_slot(schedule: Schedule, after_ms: int) -> int | None:
    """Return the first slot behind a moment, None when there is none; raise ToolError when it cannot be read."""
    if isinstance(schedule, AtSchedule):
        return schedule.at_ms if schedule.at_ms > after_ms else None
    if isinstance(schedule, EverySchedule):
        anchor = max(schedule.anchor_ms or 0, 0)
        slot = anchor + max((after_ms - anchor) // schedule.every_ms + 1, 0) * schedule.every_ms
        return slot if slot < _LAST_MS else None
    fields, zone = _read_fields(schedule.expr), find_zone(schedule.tz)
    if fields is None or after_ms >= _LAST_MS:
        return None
    return _next_cron(fields, zone, after_ms)


def last_slot(schedule: Schedule, after_ms: int, until_ms: int) -> int | None:
    """Return the latest slot behind one moment and not behind another, None when there is none between them."""
    if isinstance(schedule, EverySchedule):
        anchor = max(schedule.anchor_ms or 0, 0)
        latest = until_ms - (until_ms - anchor) % schedule.every_ms
        return latest if max(after_ms, anchor - 1) < latest else None
    for span in (*_SPANS_MS, until_ms - after_ms):
        begin, found = max(after_ms, until_ms - span), None
        while (slot := next_slot(schedule, begin if found is None else found)) is not None and slot <= until_ms:
            found = slot
        if found is not None or begin == after_ms:
            return found
    return None


def find_zone(name: str | None) -> tzinfo:
    """Return a time zone by its name; raise ToolError when there is none."""
    if name is None or name.upper() in ("UTC", "Z"):
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ToolError(
            f"there is no time zone {name[:_ZONE_CHARS]!r}; write one like Europe/Kyiv", code="bad_arguments"
        ) from None


def parse_time(text: str) -> int | None:
    """Return the moment that a text names, in milliseconds; without a zone it is UTC, and digits are a timestamp.

    None is one that names none, or not one alone: who reads 02/03/2026 as February does another thing than was meant.
    """
    plain = trim(text)
    if _DIGITS.fullmatch(plain):
        number = int(plain) if len(plain) < 18 else _LAST_MS + 1
        return number * 1000 if 0 < number < _SECONDS_BELOW else number or None
    try:
        found = datetime.fromisoformat(plain)
    except ValueError:
        try:
            found = parsedate_to_datetime(plain)
        except (ValueError, TypeError, IndexError):
            return None
    try:
        return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)
    except OverflowError:
        return None


@lru_cache(maxsize=512)
def _read_fields(expr: str) -> tuple[str, ...] | None:
    """Return the fields of an expression, None when no day ever fits it; raise ToolError when it is none."""
    fields = tuple((_MACROS.get(expr.strip().lower()) or expr).split())
    if len(fields) == 7 and fields[6] == "*":  # of every year
        fields = fields[:6]
    if len(fields) not in (5, 6):
        raise _bad_expr(expr, f"has {len(fields)} fields; it needs five, or six with seconds in front")
    if any(_BARE_STEP.search(field) for field in fields):
        raise _bad_expr(expr, "steps from a number; write */20 or 1-59/20")
    try:
        CronSim(" ".join(fields), _ANY_DAY)
    except (CronSimError, ValueError) as error:
        try:
            CronSim(" ".join((*fields[:-2], "*", fields[-1])), _ANY_DAY)
        except (CronSimError, ValueError):
            raise _bad_expr(expr, f"cannot be read ({error})") from None
        if "month" in str(error) and "day" not in str(error):
            raise _bad_expr(expr, f"cannot be read ({error})") from None
        return None
    return fields


def _bad_expr(expr: str, why: str) -> ToolError:
    return ToolError(f"the cron expression {expr[:_EXPR_CHARS]!r} {why}", code="bad_arguments")


def _next_cron(fields: tuple[str, ...], zone: tzinfo, after_ms: int) -> int | None:
    """Return the first slot behind a moment."""
    here, text = datetime.fromtimestamp(after_ms / 1000, zone), " ".join(fields)
    # an hour of the day is looked up on a clock without changes of summer time, and put into the zone afterwards
    is_fixed = len(fields) == 5 and not fields[0].startswith("*") and not fields[1].startswith("*") and zone is not UTC
    best: tuple[int, datetime] | None = None
    for found in _walk(text, here.replace(tzinfo=None) - _MAX_SHIFT if is_fixed else here):
        slot = int(found.replace(tzinfo=zone, fold=0 if is_fixed else found.fold).timestamp() * 1000)
        if best is not None and found - best[1] > _MAX_SHIFT:
            break
        if slot > after_ms and (best is None or slot < best[0]):
            best = slot, found
        if best is not None and not is_fixed:
            break
    return best and best[0]


def _walk(expr: str, begin: datetime) -> Iterator[datetime]:
    try:
        yield from CronSim(expr, begin)
    except OverflowError:  # behind the last year there is
        return
