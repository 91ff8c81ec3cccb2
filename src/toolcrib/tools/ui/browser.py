"""browser: pages of the web, seen and used. What they show is from outside; files go to and come from the workspace."""

import base64
import binascii
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from toolcrib import Args, Ctx, Result, Text, ToolError, tool, vouch_for
from toolcrib.tools._media import keep_picture, name_file
from toolcrib.tools._parameters import describe_number as _number
from toolcrib.tools._parameters import describe_text as _text
from toolcrib.tools._parameters import require_argument

_ROUTES = {
    "status": ("GET", "/"), "start": ("POST", "/start"), "stop": ("POST", "/stop"), "profiles": ("GET", "/profiles"),
    "tabs": ("GET", "/tabs"), "open": ("POST", "/tabs/open"), "focus": ("POST", "/tabs/focus"),
    "close": ("POST", "/act"), "snapshot": ("GET", "/snapshot"), "screenshot": ("POST", "/screenshot"),
    "navigate": ("POST", "/navigate"), "console": ("GET", "/console"), "pdf": ("POST", "/pdf"),
    "upload": ("POST", "/hooks/file-chooser"), "dialog": ("POST", "/hooks/dialog"), "act": ("POST", "/act"),
    "download": ("POST", "/download"),
}  # fmt: skip
_KINDS = (
    "click", "type", "press", "hover", "drag", "select", "fill", "resize", "wait", "evaluate", "close",
    "scrollIntoView",
)  # fmt: skip
_FOLDER, _DOWNLOADS, _MAX_SECONDS = "media", "downloads", 150.0
_OURS = ("action", "target", "node", "profile", "request", "paths")  # not for the page


def _flag(about: str) -> dict[str, Any]:
    return {"type": "boolean", "description": about}


def _list(items: Mapping[str, Any], about: str) -> dict[str, Any]:
    return {"type": "array", "items": items, "description": about}


_FIELD = {
    "type": "object",
    "properties": {
        "ref": _text("of the field"),
        "type": _text("text, checkbox or radio"),
        "value": _text("what it gets"),
    },
    "required": ["ref"],
}
_REQUEST = {
    "type": "object",
    "description": "what is done (act)",
    "properties": {
        "kind": _text("what is done", *_KINDS),
        "targetId": _text("which tab; else the one in front"),
        "ref": _text("which element, as a snapshot names it, like e12"),
        "doubleClick": _flag("(click)"),
        "button": _text("(click)", "left", "right", "middle"),
        "modifiers": _list({"type": "string"}, "keys that are held, like Shift (click)"),
        "text": _text("what is typed (type), or waited for (wait)"),
        "submit": _flag("press Enter afterwards (type)"),
        "slowly": _flag("key by key (type)"),
        "key": _text("like Enter or Control+A (press)"),
        "startRef": _text("from where (drag)"),
        "endRef": _text("to where (drag)"),
        "values": _list({"type": "string"}, "which options (select)"),
        "fields": _list(_FIELD, "what is filled in (fill)"),
        "width": _number("of the window (resize)"),
        "height": _number("of the window (resize)"),
        "timeMs": _number("how long (wait)"),
        "textGone": _text("until it is no longer there (wait)"),
        "selector": _text("until this element is there (wait)"),
        "url": _text("until the page is there; * stands for anything (wait)"),
        "loadState": _text("(wait)", "load", "domcontentloaded", "networkidle"),
        "fn": _text("a JavaScript function, like () => document.title (evaluate), or what has to be true (wait)"),
        "timeoutMs": _number("at most"),
    },
    "required": ["kind"],
}
_PARAMETERS = {
    "type": "object",
    "properties": {
        "action": _text("what to do", *_ROUTES),
        "target": _text("where the browser runs: here (host), or on a node", "sandbox", "host", "node"),
        "node": _text("which node; else the only one that has a browser (target node)"),
        "profile": _text("the agent's own"),
        "targetUrl": _text("an http or https address (open, navigate)"),
        "targetId": _text("which tab; else the one in front"),
        "limit": _number("of elements (snapshot, aria)"),
        "maxChars": _number("(snapshot)"),
        "mode": _text("a short snapshot of what can be used", "efficient"),
        "snapshotFormat": _text("(snapshot)", "aria", "ai"),
        "refs": _text("(snapshot)", "role", "aria"),
        "interactive": _flag("only what can be used (snapshot)"),
        "compact": _flag("without empty boxes (snapshot)"),
        "depth": _number("levels (snapshot)"),
        "selector": _text("only this part (snapshot)"),
        "frame": _text("only this frame, by a selector (snapshot)"),
        "labels": _flag("with a picture that shows the refs (snapshot, screenshot)"),
        "fullPage": _flag("all of the page (screenshot)"),
        "ref": _text("only this element (screenshot); what is clicked (upload, download)"),
        "element": _text("the same by a selector (screenshot, upload)"),
        "type": _text("(screenshot)", "png", "jpeg"),
        "level": _text("like error (console)"),
        "paths": _list({"type": "string"}, "files of the workspace (upload)"),
        "inputRef": _text("a file input (upload)"),
        "timeoutMs": _number("at most"),
        "accept": _flag("whether the next dialog is accepted (dialog)"),
        "promptText": _text("what is written into it (dialog)"),
        "request": _REQUEST,
    },
    "required": ["action"],
}


@tool(
    group="ui",
    effects={"read", "network", "send"},
    requires=("setting:browser",),
    timeout=_MAX_SECONDS,
    notice=True,
    parameters=_PARAMETERS,
    paths=("paths",),
    urls=("targetUrl",),
)
async def browser(ctx: Ctx, args: Args) -> Result:
    """Use a web browser: open pages, read them by snapshot, act on their elements by ref, take pictures, move files.

    Take a snapshot first: it names every element by a ref, like e12, which act takes. After the page has changed, take
    another. A dialog is dismissed unless the action dialog said before what to answer.
    """
    action = args["action"]
    target = args.get("target", "node" if args.get("node") else "host")
    if target == "sandbox" or (target == "host" and args.get("node")):
        raise ToolError("the browser runs on host, or with target node on a node", code="bad_arguments")
    given = {key: value for key, value in args.items() if key not in _OURS and value is not None}
    if action == "act":
        given |= require_argument(args, "request")
    elif action == "close":
        given["kind"] = "close"
    elif action == "upload":
        given["files"] = [await _read_file(ctx, path) for path in require_argument(args, "paths")]
    method, path = _ROUTES[action]
    asked = {"call": ctx.call.key, "method": method, "path": path, "args": given, "profile": args.get("profile")}
    asked["node"] = args.get("node", "") if target == "node" else None
    answer = await ctx.rpc("browser.perform", {key: value for key, value in asked.items() if value is not None})
    return await _show(ctx, action, answer)


async def _show(ctx: Ctx, action: str, answer: dict[str, Any]) -> Result:
    """Return what came of it: pictures and files written to the workspace, words between marks."""
    node, url, _ = answer.pop("source", ""), answer.get("url"), answer.pop("sources", ())
    source = f"web:{url}" if url else node or "browser"
    try:
        data = base64.b64decode(answer.pop("base64", ""), validate=True)
    except binascii.Error:
        raise ToolError("the node sent a file that is no base64", code="failed") from None
    if action in ("status", "profiles", "start", "stop") and not node:
        return Result.json(answer)
    if action == "pdf":
        return await _keep_file(ctx, name_file(_FOLDER, "page", "pdf"), data, answer, source)
    if action == "download":
        name = PurePosixPath(answer.get("name") or "file")
        return await _keep_file(ctx, name_file(_DOWNLOADS, name.stem, name.suffix[1:]), data, answer, source)
    details = {key: value for key, value in answer.items() if key != "snapshot"}
    words = () if action == "screenshot" else (_render(answer, source),)
    if not data:
        return Result(words, details=details)
    shown = await keep_picture(ctx, data, _FOLDER, "page", source)
    return shown._replace(content=(*words, *shown.content), details={**details, **shown.details})


def _render(answer: Mapping[str, Any], source: str) -> Text:
    """Return a snapshot as it is, with what happened meanwhile; anything else as JSON."""
    if "snapshot" not in answer:
        plain = Result.json(answer).plain_text
        return Text(plain, source)
    asked = [f"[a dialog said {each['message']!r}]" for each in answer.get("dialogs", ())]
    asked += [f"[the page wanted to go elsewhere, and stays: {each}]" for each in answer.get("refused", ())]
    cut = ["[cut here: ask for less by interactive, depth or selector, or for more by maxChars]"]
    return Text("\n".join([*asked, answer["snapshot"], *(cut if answer.get("truncated") else ())]), source)


async def _keep_file(ctx: Ctx, path: str, data: bytes, answer: Mapping[str, Any], source: str) -> Result:
    await ctx.workspace.write(path, data)
    own = vouch_for(f"FILE:{path}\n{len(data):,} bytes", "the path is made here, and the size is counted here")
    words = (own, *((Text(answer["name"], source),) if answer.get("name") else ()))
    return Result(words, details={**answer, "path": path, "bytes": len(data)})


async def _read_file(ctx: Ctx, path: str) -> dict[str, str]:
    data = await ctx.workspace.read(path)
    return {"name": PurePosixPath(path).name, "base64": base64.b64encode(data).decode()}
