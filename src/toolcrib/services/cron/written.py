"""What is written of a job where it is made, changed or asked about."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolcrib.define.display import escape
from toolcrib.define.errors import ToolError
from toolcrib.define.job import JobSpec
from toolcrib.define.schedule import find_zone
from toolcrib.define.schema.annotations import JsonObject, JsonValue
from toolcrib.lazy import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQuery:
    """A job as it is written here: its own fields, or all of it as `job`."""

    job: JsonObject | None = None
    data: JsonObject | None = None
    name: str | None = None
    description: str | None = None
    agentId: str | None = None  # noqa: N815  as the protocol spells it
    enabled: JsonValue | None = None
    deleteAfterRun: bool | None = None  # noqa: N815
    schedule: JsonObject | None = None
    sessionTarget: str | None = None  # noqa: N815
    wakeMode: str | None = None  # noqa: N815
    payload: JsonObject | None = None
    isolation: JsonObject | None = None
    tools: JsonObject | None = None
    catchUp: bool | None = None  # noqa: N815

    def to_json(self) -> dict[str, Any]:
        """Return what was written."""
        every = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: value for name, value in every.items() if value is not None}


def merge(spec: JobSpec, change: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job with some of it written anew; of work of the same kind, what is not named stays."""
    before = spec.to_json()
    merged = {key: value for key, value in {**before, **change}.items() if value is not None}
    payload = change.get("payload")
    if isinstance(payload, Mapping) and payload.get("kind", before["payload"]["kind"]) == before["payload"]["kind"]:
        merged["payload"] = {key: each for key, each in {**before["payload"], **payload}.items() if each is not None}
    return merged


def pick_id(id: str, job_id: str) -> str:
    """Return the id that is meant; raise ToolError for two that differ."""
    if id.strip() and job_id.strip() and id.strip() != job_id.strip():
        raise ToolError("id and jobId name two jobs; give one of them", code="bad_arguments")
    return (id or job_id).strip()


def no_job(id: str) -> ToolError:
    return ToolError(f"unknown cron job id: {escape(id[:64])}", code="not_found")


def find_local_zone(env: Mapping[str, str]) -> str | None:
    """Return the name of this machine's time zone, None when it is UTC or nobody knows."""
    named = env.get("TZ", "").removeprefix(":")
    try:
        name = named or str(Path("/etc/localtime").resolve()).rpartition("zoneinfo/")[2]
        find_zone(name)
    except (OSError, ToolError):
        return None
    return None if name in ("UTC", "Etc/UTC", "") or name.startswith("/") else name
