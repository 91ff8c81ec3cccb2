"""nodes: what paired devices can do. What they send is from outside, and their files go to the workspace."""

from collections.abc import Mapping
from typing import Any

from toolcrib import Args, Ctx, Result, Text, ToolError, tool, vouch_for
from toolcrib.lazy import regex
from toolcrib.tools._media import decode_sent, keep_picture, name_file
from toolcrib.tools._parameters import describe_number as _number
from toolcrib.tools._parameters import describe_text as _text
from toolcrib.tools._parameters import pick_given, require_argument

_ACTIONS = (
    "status", "describe", "pending", "approve", "reject", "notify", "camera_snap", "camera_list", "camera_clip",
    "screen_record", "location_get", "run",
)  # fmt: skip
_UNITS = {"ms": 1.0, "s": 1e3, "m": 60e3, "h": 3_600e3, "d": 86_400e3}
_LENGTH = regex(r"([0-9]+(?:\.[0-9]+)?)(ms|[smhd])?")
_CLIP_MS, _RECORD_MS, _ANSWER_MS, _MAX_MS = 3_000, 10_000, 30_000, 21_600_000
_RUN_MS, _MAX_CHARS = 120_000, 100_000


_PARAMETERS = {
    "type": "object",
    "properties": {
        "action": _text("what to do", *_ACTIONS),
        "node": _text("its name, id or address (all but status, pending, approve and reject)"),
        "requestId": _text("of a device that wants to be paired (approve, reject)"),
        "title": _text("(notify)"),
        "body": _text("(notify)"),
        "sound": _text("(notify)"),
        "priority": _text("(notify)", "passive", "active", "timeSensitive"),
        "delivery": _text("(notify)", "system", "overlay", "auto"),
        "facing": _text("which camera (camera_snap, camera_clip)", "front", "back", "both"),
        "deviceId": _text("which camera, as camera_list says"),
        "maxWidth": _number("of a picture, in pixels"),
        "quality": _number("of a picture, 0 to 1"),
        "delayMs": _number("before a picture is taken"),
        "duration": _text("like 10s (camera_clip, screen_record)"),
        "durationMs": _number("the same in ms"),
        "includeAudio": {"type": "boolean", "description": "with sound"},
        "fps": _number("(screen_record)"),
        "screenIndex": _number("(screen_record)"),
        "outPath": _text("file in the workspace for what is recorded"),
        "maxAgeMs": _number("(location_get)"),
        "locationTimeoutMs": _number("(location_get)"),
        "desiredAccuracy": _text("(location_get)", "coarse", "balanced", "precise"),
        "command": {"type": "array", "items": {"type": "string"}, "description": 'words like ["ls", "-l"] (run)'},
        "cwd": _text("folder on the node (run)"),
        "env": {"type": "array", "items": {"type": "string"}, "description": "NAME=value (run)"},
        "commandTimeoutMs": _number("until the command is ended (run)"),
        "invokeTimeoutMs": _number("to wait for the node (run)"),
        "needsScreenRecording": {"type": "boolean", "description": "(run)"},
    },
    "required": ["action"],
    "additionalProperties": False,
}


@tool(
    group="nodes", timeout=_MAX_MS / 1000, parameters=_PARAMETERS,
    paths=("outPath",), written=("outPath",), commands=("command",),
)  # fmt: skip
async def nodes(ctx: Ctx, args: Args) -> Result:
    """Use paired devices: see which there are, notify, take pictures, record, locate, run commands on them."""
    match args["action"]:
        case "status":
            return Result.json(await ctx.rpc("node.list", {}), source="nodes")
        case "describe":
            return Result.json(
                await ctx.rpc("node.describe", {"nodeId": require_argument(args, "node")}), source="nodes"
            )
        case "pending":
            result = await ctx.rpc("nodes.perform", {"call": ctx.call.key, "command": "pending"})
            return Result.json(result, source="nodes")
        case "approve" | "reject":
            return Result.json(await ctx.rpc("nodes.perform", {"call": ctx.call.key, "command": args["action"]}))
        case "notify":
            return await _notify(ctx, args)
        case "camera_snap":
            return await _snap(ctx, args)
        case "camera_clip":
            more = {"durationMs": _duration(args, _CLIP_MS), "format": "mp4", **pick_given(args, "facing", "deviceId")}
            return await _record(ctx, args, "camera.clip", more | {"includeAudio": args.get("includeAudio", True)})
        case "screen_record":
            more = pick_given(args, "fps", "screenIndex", "includeAudio") | {"durationMs": _duration(args, _RECORD_MS)}
            return await _record(ctx, args, "screen.record", {"fps": 10, "screenIndex": 0, "format": "mp4", **more})
        case "run":
            return await _run(ctx, args)
    command = "camera.list" if args["action"] == "camera_list" else "location.get"
    params = pick_given(args, "maxAgeMs", "desiredAccuracy") | {"timeoutMs": args.get("locationTimeoutMs")}
    node, payload = await _ask(ctx, args, command, {key: value for key, value in params.items() if value is not None})
    result = Result.json(payload, source=node)
    if len(result.plain_text) > _MAX_CHARS:
        raise ToolError(f"the node answered {command} with {len(result.plain_text):,} characters", code="too_large")
    return result


async def _notify(ctx: Ctx, args: Args) -> Result:
    if not (args.get("title") or args.get("body")):
        raise ToolError("notify needs a title or a body", code="bad_arguments")
    await _ask(ctx, args, "system.notify", pick_given(args, "title", "body", "sound", "priority", "delivery"))
    return Result.json({"ok": True})


async def _snap(ctx: Ctx, args: Args) -> Result:
    """Take a picture by each camera that is meant; of two that nobody asked for by name, one may be missing."""
    facing = args.get("facing") or "both"
    content, taken, failure = list[Any](), list[Mapping[str, Any]](), None
    for each in ("front", "back") if facing == "both" and not args.get("deviceId") else (facing,):
        params = pick_given(args, "maxWidth", "quality", "delayMs", "deviceId") | {"facing": each, "format": "jpg"}
        try:
            node, payload = await _ask(ctx, args, "camera.snap", params)
        except ToolError as error:
            if facing != "both" or error.code in ("denied", "unavailable", "timeout"):
                raise
            failure = error
            continue
        made = await keep_picture(ctx, decode_sent(payload), "nodes", f"{_name(node)}-{each}", node)
        content += made.content
        taken.append({"facing": each, **made.details})
    if not taken and failure is not None:
        raise failure
    return Result(tuple(content), details={"snaps": taken})


async def _record(ctx: Ctx, args: Args, command: str, params: Mapping[str, Any]) -> Result:
    """Have something recorded, and write it to the workspace."""
    node, payload = await _ask(ctx, args, command, params, params["durationMs"] + _ANSWER_MS)
    data, kind = decode_sent(payload), str(payload.get("format") or "mp4")
    path = args.get("outPath") or name_file("nodes", f"{_name(node)}-{command.partition('.')[2]}", kind)
    await ctx.workspace.write(path, data)
    about = {key: payload[key] for key in ("durationMs", "fps", "screenIndex", "hasAudio") if key in payload}
    text = vouch_for(f"FILE:{path}\n{len(data):,} bytes", "the call or we name the path, and the size is counted here")
    return Result((text,), details={"path": path, "bytes": len(data), **about})


async def _run(ctx: Ctx, args: Args) -> Result:
    """Run what the guard has permitted under this call: the words themselves are not passed on."""
    wait = args.get("invokeTimeoutMs") or (args.get("commandTimeoutMs") or _RUN_MS) + _ANSWER_MS
    answer = await ctx.rpc("nodes.perform", {"call": ctx.call.key, "timeoutMs": _clamp(wait)})
    payload = answer["payload"]
    if not isinstance(payload, Mapping):
        raise ToolError(f"{answer['node']} answered no result of a command", code="failed")
    output = "\n".join(str(payload[key]).rstrip("\n") for key in ("stdout", "stderr") if payload.get(key))
    ended = "was ended when its time was over" if payload.get("timedOut") else f"exited with {payload.get('exitCode')}"
    if payload.get("error"):
        ended += f" ({str(payload['error'])[:500]})"
    text = Text(output or "(no output)", answer["source"])
    details = {key: payload.get(key) for key in ("exitCode", "timedOut", "success")}
    if payload.get("success"):
        return Result((text,), details=details)
    return Result((text, Text(f"\nThe command on {answer['node']} {ended}.")), details=details, status="error")


async def _ask(
    ctx: Ctx, args: Args, command: str, params: Mapping[str, Any], wait: float = _ANSWER_MS
) -> tuple[str, Any]:
    """Return the source of what a node says, and what it says."""
    asked = {"call": ctx.call.key, "node": require_argument(args, "node"), "command": command, "params": dict(params)}
    answer = await ctx.rpc("nodes.perform", asked | {"timeoutMs": _clamp(wait)})
    return answer["source"], answer["payload"]


def read_duration_ms(text: str) -> float:
    """Return the milliseconds meant by `500`, `10s`, `1.5m`, `2h` or `1d`."""
    found = _LENGTH.fullmatch(text.strip().lower())
    if found is None:
        raise ToolError(f"{text[:64]!r} is no duration; write one like 10s or 2m", code="bad_arguments")
    return float(found[1]) * _UNITS[found[2] or "ms"]


def _duration(args: Args, usual: int) -> int:
    duration_ms = args.get("durationMs") or (read_duration_ms(args["duration"]) if args.get("duration") else usual)
    return _clamp(duration_ms)


def _clamp(milliseconds: float) -> int:
    return int(min(max(milliseconds, 1), _MAX_MS))


def _name(source: str) -> str:
    return source.partition(":")[2]
