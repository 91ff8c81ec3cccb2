"""canvas: pages and forms that a session shows to people, on a device or in their browser."""

from collections.abc import Mapping
from typing import Any

from toolcrib import Args, Ctx, Result, Text, ToolError, tool
from toolcrib.tools._media import decode_sent, keep_picture
from toolcrib.tools._parameters import describe_number as _number
from toolcrib.tools._parameters import describe_text as _text
from toolcrib.tools._parameters import pick_given, require_argument

_COMMANDS = {
    "present": "canvas.present", "hide": "canvas.hide", "navigate": "canvas.navigate", "eval": "canvas.eval",
    "snapshot": "canvas.snapshot", "a2ui_push": "canvas.a2ui.pushJSONL", "a2ui_reset": "canvas.a2ui.reset",
}  # fmt: skip
_MAX_CHARS = 100_000


_PARAMETERS = {
    "type": "object",
    "properties": {
        "action": _text("what to do", *_COMMANDS),
        "node": _text("device that shows it; else the one that has a canvas, or a page for the user's browser"),
        "html": _text("the page itself (present)"),
        "target": _text("https URL, or an HTML file of the workspace, shown anew when it is written (present)"),
        "x": _number("of the window (present)"),
        "y": _number("of the window (present)"),
        "width": _number("of the window (present)"),
        "height": _number("of the window (present)"),
        "url": _text("(navigate)"),
        "javaScript": _text("an expression (eval)"),
        "outputFormat": _text("(snapshot)", "png", "jpg", "jpeg"),
        "maxWidth": _number("of a picture, in pixels (snapshot)"),
        "quality": _number("of a picture, 0 to 1 (snapshot)"),
        "delayMs": _number("changes nothing"),
        "jsonl": _text("A2UI, one JSON object a line (a2ui_push)"),
        "jsonlPath": _text("the same in a file of the workspace"),
    },
    "required": ["action"],
    "additionalProperties": False,
}


def _read_places(args: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the files and addresses that arguments name: `target` may be either."""
    named = [str(args[name]).strip() for name in ("target", "url", "jsonlPath") if args.get(name)]
    goes = [str(args["url"]).strip()] if args["action"] == "navigate" and args.get("url") else []  # whatever it is
    return {
        "path": [each for each in named if "://" not in each and each not in goes],
        "url": [each for each in named if "://" in each or each in goes],
    }


@tool(
    group="ui",
    effects={"read", "write", "send"},
    timeout=120.0,
    parameters=_PARAMETERS,
    paths=("path",),
    urls=("url",),
    read_places=_read_places,
)
async def canvas(ctx: Ctx, args: Args) -> Result:
    """Show the user a page or a form (A2UI), change it, look at it; what they do there comes back as a message."""
    answer = await _ask(ctx, args, await _read_params(ctx, args))
    payload = answer.get("payload")
    if args["action"] == "eval":
        result = payload.get("result") if isinstance(payload, Mapping) else None
        text = result if isinstance(result, str) else "" if result is None else str(result)
        return Result((Text(text[:_MAX_CHARS] or "(nothing)", answer["source"]),))
    if args["action"] == "snapshot":
        taken = await keep_picture(ctx, decode_sent(payload), "canvas", "snapshot", answer["source"])
        is_fresh = isinstance(payload, Mapping) and payload.get("isFresh") is True
        more = ", of the page as it opens now, not as somebody has it open" if is_fresh else ""
        details = {**taken.details, "format": _to_format(args)}
        return taken._replace(content=(Text(f"Screenshot captured{more}\n"), *taken.content), details=details)
    where = {"node": answer["node"]} if answer.get("node") else {"url": answer["url"]}
    return Result.json({"ok": True, **where})


async def _read_params(ctx: Ctx, args: Args) -> dict[str, Any]:
    """Return what the command takes."""
    match args["action"]:
        case "present":
            return await _read_target(ctx, args)
        case "navigate":
            return {"url": require_argument(args, "url")}
        case "eval":
            return {"javaScript": require_argument(args, "javaScript")}
        case "snapshot":
            return {"format": _to_format(args), **pick_given(args, "maxWidth", "quality")}
        case "a2ui_push":
            return {"jsonl": await _read_jsonl(ctx, args)}
    return {}


async def _read_target(ctx: Ctx, args: Args) -> dict[str, Any]:
    target = str(args.get("target") or args.get("url") or "").strip()
    if target and args.get("html"):
        raise ToolError("present shows html or target, not both", code="bad_arguments")
    placement = pick_given(args, "x", "y", "width", "height")
    shown = pick_given(args, "html")
    if "://" in target:
        shown = {"url": target}
    elif target:
        shown = {"path": (await ctx.workspace.stat(target)).path}
    return shown | ({"placement": placement} if placement else {})


async def _read_jsonl(ctx: Ctx, args: Args) -> str:
    if args.get("jsonl"):
        return str(args["jsonl"])
    path = require_argument(args, "jsonlPath", "jsonl or jsonlPath")
    try:
        return (await ctx.workspace.read(path)).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ToolError(f"{path!r} is no UTF-8 text", code="bad_arguments") from None


async def _ask(ctx: Ctx, args: Args, params: Mapping[str, Any]) -> Mapping[str, Any]:
    asked = {"call": ctx.call.key, "command": _COMMANDS[args["action"]], "params": dict(params)}
    answer: Mapping[str, Any] = await ctx.rpc("canvas.perform", asked | pick_given(args, "node"))
    return answer


def _to_format(args: Args) -> str:
    return "png" if args.get("outputFormat") in (None, "png") else "jpeg"
