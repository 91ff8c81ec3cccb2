"""openclaw-cron on our schedules, on what models write of jobs, and on a crib whose jobs go by a clock that stands.

Of a shape that is checked, what is compared is the verdict, and that our sentence names each part that is wrong.
"""

import asyncio
import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tests.services.cron_world import START_MS, ManualClock
from toolcrib import OWNER, ToolError
from toolcrib.app import Given, build
from toolcrib.app.features import FEATURES, TURN_FEATURES
from toolcrib.config.load import load
from toolcrib.define.gateway import GatewayEvent
from toolcrib.define.job import check_spelling, normalize_job
from toolcrib.define.message import Message
from toolcrib.define.schedule import Schedule, first_slot, parse_time
from toolcrib.define.turn import TurnRequest
from toolcrib.services import cron
from toolcrib.services.cron.slots import RunEnd
from toolcrib.services.cron.work import JobRunner

from .gateway import ADAPTERS as GATEWAY
from .load import Case
from .outcome import Refused, SaidError, Same

Json = dict[str, Any]

_SCHEDULES: TypeAdapter[Schedule] = TypeAdapter(Schedule)
_JOB = re.compile(r"[0-9a-f]{12}")


def _next(args: Json) -> int | None:
    try:
        schedule = _SCHEDULES.validate_python(args["schedule"])
    except ValidationError as error:
        raise SaidError(f"{error.errors()[0]['loc'][-1]}: {error.errors()[0]['msg']}") from None
    return first_slot(schedule, args["nowMs"])


def _same_time(case: Case, ours: Any) -> str:
    """Compare the time, or that both refuse."""
    if not case.expected["ok"]:
        return "" if isinstance(ours, Refused) else "recorded: it cannot be read"
    return "" if ours == case.expected["result"] else f"recorded: {case.expected['result']}"


def _validate(args: Json) -> Any:
    if args["schema"] != "CronAddParams":
        return GATEWAY["validateProtocol"](args)
    try:
        check_spelling(args["value"])
    except ToolError as error:
        return {"ok": False, "errors": str(error)}
    return {"ok": True}


def _same_verdict(case: Case, ours: Any) -> str:
    recorded = case.expected["result"]
    if not isinstance(ours, dict) or ours["ok"] != recorded["ok"]:
        return f"recorded: {recorded}"
    parts = (each.strip() for each in recorded.get("errors", "").split(";"))
    named = {found[1] or found[2] for each in parts if (found := re.match(r"(?:at /(\w+)|.*property '(\w+)')", each))}
    missing = sorted(word for word in named if word not in ours.get("errors", ""))
    return f"our sentence does not name {', '.join(missing)}: {ours['errors']}" if missing else ""


_PROVIDER = "openai:"


def _serve(args: Json) -> Json:
    return asyncio.run(asyncio.wait_for(_run_steps(args), 30))


async def _run_steps(args: Json) -> Json:
    told: list[Json] = []
    outcome = args.get("isolated") or {}

    async def take_turn(request: TurnRequest, run: str, seconds: int | None) -> RunEnd:
        if (request.caller.session or "").endswith(":main"):
            told.append({"text": request.message.plain_text})
            beat = args.get("heartbeat") or {}
            return RunEnd("skipped" if beat.get("status") == "skipped" else "ok", error=beat.get("reason", ""))
        summary = outcome.get("summary", f"ran {request.message.plain_text}")
        return RunEnd(outcome.get("status", "ok"), "" if outcome.get("error") else summary, outcome.get("error", ""))

    async def tell(session: str, message: Message) -> None:
        told.append({"text": message.plain_text})

    clock = ManualClock()
    mounts = [each for each in TURN_FEATURES if each is not cron.mount]
    wakes: list[str] = []
    work = JobRunner(take_turn, tell, lambda word: word, wake=wakes.append)
    jobs = partial(cron.mount, now=clock.now, pause=clock.pause, works=lambda core: work)
    # a job's model is one that can be made: those of the recordings are of a provider here
    args = json.loads(json.dumps(args).replace('"model": "', f'"model": "{_PROVIDER}'))
    config = {"cron": {"enabled": args.get("cronEnabled", True)}, "models": {"openai": {"apiKey": "k"}}}
    crib = build(load(config, {}), Given(env={}), FEATURES, (*mounts, jobs))
    events: list[GatewayEvent] = []
    crib.gateway.bus.listen(events.append)
    steps, made = list[Json](), list[str]()
    try:
        for step in args["steps"]:
            steps.append(await _take(crib, step, made))
            await crib.cron.clock.settle()
    finally:
        await crib.close()
    payloads = [event.payload for event in events if event.event == "cron"]
    whole = {"steps": steps, "events": payloads, "systemEvents": told, "wakes": wakes}
    whole = json.loads(json.dumps(whole).replace(_PROVIDER, ""))
    return _rename(whole, {id: f"<job{at}>" for at, id in enumerate(made)})  # type: ignore[no-any-return]


async def _take(crib: Any, step: Json, made: list[str]) -> Json:
    op, id = step["op"], step.get("id")
    params: Json = {}
    if op == "add":
        params = step["job"]
    elif op == "list":
        params = {"includeDisabled": bool(step.get("includeDisabled"))}
    elif op in ("update", "run", "remove"):
        more = {"update": {"patch": step.get("patch")}, "run": {"mode": step.get("mode") or "due"}, "remove": {}}
        params = {"id": made[id] if isinstance(id, int) else id, **more[op]}
    try:
        value = await crib.ask(f"cron.{op}", params, caller=OWNER)
    except ToolError as error:
        return {"ok": False, "error": {"name": "Error", "message": str(error)}}
    if op == "add":
        made.append(value["id"])
    if op == "status":
        del value["storePath"]
    return {"ok": True, "value": value["jobs"] if op == "list" else value}


def _rename(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _rename(each, names) for key, each in value.items()}
    if isinstance(value, list):
        return [_rename(each, names) for each in value]
    return _JOB.sub(lambda found: names.get(found[0], found[0]), value) if isinstance(value, str) else value


assert START_MS == 1_700_000_000_000  # as the recordings have it

ADAPTERS: dict[str, Callable[[Json], Any]] = {
    "computeNextRunAtMs": _next,
    "cronService": _serve,
    "normalizeCronJobCreate": lambda args: normalize_job(args["raw"]),
    "normalizeCronJobPatch": lambda args: normalize_job(args["raw"], fills=False),
    "parseAbsoluteTimeMs": lambda args: parse_time(args["input"]),
    "validateProtocol": _validate,
}
SAME: dict[str, Same] = {"computeNextRunAtMs": _same_time, "validateProtocol": _same_verdict}
