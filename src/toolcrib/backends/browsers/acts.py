"""What can be done to a page, by kind: click, type, press, drag, select, fill, resize, wait, evaluate and so on."""

import asyncio
import base64
import binascii
import math
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import orjson

from toolcrib.define.errors import ToolError

from .chromium import load_errors
from .snapshot import parse_role_ref
from .tab import cut_url

if TYPE_CHECKING:
    from playwright.async_api import FileChooser, Locator, Page

_Json = Mapping[str, Any]
Act = Callable[["Page", _Json], Awaitable[Mapping[str, Any] | None]]

_DEFAULT_MS, _MIN_MS, _MAX_MS = 20_000, 100, 120_000
_MAX_NUMBER = 1_000_000_000
_MIN_SIDE, _MAX_SIDE = 50, 4_000  # of a window, in pixels
MAX_MOVED_BYTES = 50 << 20  # that Playwright hands to a page at once
_KEY_MS = 50  # between two keys of one who types slowly
_VALUE_CHARS, _BODY_CHARS = 1_000_000, 200_000  # of what a script returns; of a response, unless more is asked for
# the last step calls nothing that a page could have replaced
_WRITE = f"""async (...given) => {{
  let value = (
CODE
  );
  if (typeof value === "function") value = await value(...given);
  const above = [];
  const write = function (key, each) {{
    if (typeof each === "bigint" || typeof each === "symbol" || typeof each === "function") return String(each);
    if (each instanceof Error || each instanceof Node || each instanceof Window) return String(each);
    if (typeof each !== "object" || each === null) return each;
    while (above.length && above.at(-1) !== this) above.pop();
    if (above.includes(each)) return "(itself)";
    above.push(each);
    return each instanceof Map || each instanceof Set ? [...each] : each;
  }};
  const text = JSON.stringify(await value, write) ?? "null";
  if (typeof text !== "string" || text.length > {_VALUE_CHARS}) return 0;
  return "" + text;
}}"""


def milliseconds(args: _Json) -> float:
    """Return how long something may take."""
    asked = read_number(args, "timeoutMs")
    return _DEFAULT_MS if asked is None else min(max(asked, _MIN_MS), _MAX_MS)


def read_number(args: _Json, name: str) -> int | None:
    """Return a whole number that is not negative, None where there is none."""
    value = args.get(name)
    if value is None:
        return None
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ToolError(f"{name} is a number, not {str(value)[:64]!r}", code="bad_arguments")
    return int(min(max(value, 0), _MAX_NUMBER))


def _list(args: _Json, name: str) -> list[Any]:
    value = args.get(name)
    return list(value) if isinstance(value, (list, tuple)) else []


async def find_element(page: "Page", args: _Json, name: str = "ref") -> "Locator":
    """Return the element that a ref names, or a selector in `element`; ToolError when it is not there now."""
    value = args.get(name)
    if not value and name == "ref" and args.get("element"):
        return page.locator(str(args["element"])).first
    ref = parse_role_ref(str(value or ""), frames=True)
    if ref is None:
        what = f"{name} is missing" if not value else f"{str(value)[:64]!r} is no ref"
        raise ToolError(f"{what}; a snapshot gives every element one, like e12", code="bad_arguments")
    found = page.locator(f"aria-ref={ref}")
    if not await found.count():
        raise ToolError(f"there is no element {ref} on the page now; take a new snapshot", code="not_found")
    return found


async def _click(page: "Page", args: _Json) -> None:
    element, limit = await find_element(page, args), milliseconds(args)
    options: dict[str, Any] = {"button": args.get("button") or "left", "modifiers": _list(args, "modifiers") or None}
    await (element.dblclick if args.get("doubleClick") else element.click)(timeout=limit, **options)


async def _type(page: "Page", args: _Json) -> None:
    element, text, limit = await find_element(page, args), str(args.get("text", "")), milliseconds(args)
    if args.get("slowly"):
        await element.click(timeout=limit)
        await element.press_sequentially(text, delay=_KEY_MS, timeout=limit)
    else:
        await element.fill(text, timeout=limit)
    if args.get("submit"):
        await element.press("Enter", timeout=limit)


async def _press(page: "Page", args: _Json) -> None:
    if not (key := str(args.get("key") or "")):
        raise ToolError("press needs a key, like Enter or Control+A", code="bad_arguments")
    if args.get("ref"):
        await (await find_element(page, args)).press(key, timeout=milliseconds(args))
    else:
        await page.keyboard.press(key)


async def _hover(page: "Page", args: _Json) -> None:
    await (await find_element(page, args)).hover(timeout=milliseconds(args))


async def _drag(page: "Page", args: _Json) -> None:
    start, end = await find_element(page, args, "startRef"), await find_element(page, args, "endRef")
    await start.drag_to(end, timeout=milliseconds(args))


async def _select(page: "Page", args: _Json) -> dict[str, Any]:
    element = await find_element(page, args)
    values = [str(each) for each in _list(args, "values")]
    return {"selected": await element.select_option(values, timeout=milliseconds(args))}


async def _fill(page: "Page", args: _Json) -> dict[str, Any]:
    fields = [each for each in _list(args, "fields") if isinstance(each, Mapping)]
    if not fields:
        raise ToolError("fill needs fields, each with a ref and a value", code="bad_arguments")
    for each in fields:
        element, value, limit = await find_element(page, each), each.get("value", ""), milliseconds(args)
        if each.get("type") in ("checkbox", "radio"):
            await element.set_checked(value in (True, 1, "1", "true", "on"), timeout=limit)
        else:
            await element.fill(str(value), timeout=limit)
    return {"filled": len(fields)}


async def _resize(page: "Page", args: _Json) -> dict[str, Any]:
    sides = [side for side in (read_number(args, "width"), read_number(args, "height")) if side is not None]
    if len(sides) != 2:
        raise ToolError("resize needs width and height", code="bad_arguments")
    width, height = (min(max(side, _MIN_SIDE), _MAX_SIDE) for side in sides)
    await page.set_viewport_size({"width": width, "height": height})
    return {"width": width, "height": height}


async def _wait(page: "Page", args: _Json) -> None:
    """Wait for all that is named: some time, a text, its end, an element, an address, a state, an expression."""
    limit, waits = milliseconds(args), 0
    if (pause := read_number(args, "timeMs")) is not None:
        await asyncio.sleep(min(pause, limit) / 1000)
        waits += 1
    for name, state in (("text", "visible"), ("textGone", "hidden"), ("selector", "visible")):
        if value := args.get(name):
            locator = page.locator(str(value)) if name == "selector" else page.get_by_text(str(value))
            await locator.first.wait_for(state=state, timeout=limit)  # type: ignore[arg-type]  # one of the two above
            waits += 1
    if value := args.get("url"):
        await page.wait_for_url(str(value), timeout=limit, wait_until="commit")
        waits += 1
    if value := args.get("loadState"):
        await page.wait_for_load_state(value, timeout=limit)
        waits += 1
    if value := args.get("fn"):
        await page.wait_for_function(str(value), timeout=limit)
        waits += 1
    if not waits:
        what = "wait needs timeMs, text, textGone, selector, url, loadState or fn"
        raise ToolError(what, code="bad_arguments")


async def _evaluate(page: "Page", args: _Json) -> dict[str, Any]:
    """Return what a script gives; it is written down in the page, so that what is too long never leaves it."""
    if not (code := str(args.get("fn") or "").strip().rstrip(";")):
        raise ToolError("evaluate needs fn, like () => document.title", code="bad_arguments")
    written = _WRITE.replace("CODE", code)
    result = await ((await find_element(page, args)).evaluate(written) if args.get("ref") else page.evaluate(written))
    if not isinstance(result, str):
        what = f"the script returned more than {_VALUE_CHARS:,} characters of JSON; have it return less"
        raise ToolError(what, code="too_large")
    try:
        value = orjson.loads(result)
        orjson.dumps(value)
    except (ValueError, TypeError):  # nested too deep, or half a character: then it stays text
        value = result
    return {"result": value}


async def _scroll(page: "Page", args: _Json) -> None:
    await (await find_element(page, args)).scroll_into_view_if_needed(timeout=milliseconds(args))


async def highlight(page: "Page", args: _Json) -> None:
    """Draw a frame around an element, for who looks on."""
    await (await find_element(page, args)).highlight()


async def read_response(page: "Page", args: _Json) -> dict[str, Any]:
    """Return the body of the next response whose address is like this; * stands for anything."""
    if not (pattern := str(args.get("url") or "")):
        raise ToolError("url is missing; name an address like https://example.com/api/*", code="bad_arguments")
    found = await page.wait_for_event(
        "response", lambda each: fnmatchcase(each.url, pattern), timeout=milliseconds(args)
    )
    max_chars = min(read_number(args, "maxChars") or _BODY_CHARS, _VALUE_CHARS)
    length = found.headers.get("content-length", "")
    if length.isdecimal() and int(length) > MAX_MOVED_BYTES:
        raise ToolError(f"the body is larger than {MAX_MOVED_BYTES >> 20} MB", code="too_large")
    body = "" if length == "0" else (await found.body()).decode(errors="replace")  # of nothing, Chromium knows nothing
    head = {"url": cut_url(found.url), "status": found.status, "headers": dict(found.headers)}
    return {"response": {**head, "body": body[:max_chars], "truncated": len(body) > max_chars}}


def read_files(args: _Json) -> list[Any]:
    """Return files as Playwright takes them."""
    given = [each for each in _list(args, "files") if isinstance(each, Mapping)]
    try:
        found = [(str(each["name"]), base64.b64decode(each["base64"], validate=True)) for each in given]
    except (binascii.Error, KeyError, TypeError, ValueError):
        found = []
    if not found or sum(len(data) for _, data in found) > MAX_MOVED_BYTES:
        what = f"upload needs files, each with a name and base64, {MAX_MOVED_BYTES >> 20} MB together at most"
        raise ToolError(what, code="bad_arguments")
    return [{"name": name, "mimeType": "application/octet-stream", "buffer": data} for name, data in found]


async def give_files(chooser: "FileChooser", files: list[Any]) -> None:
    with suppress(load_errors()[0]):  # it may take one file only, or be gone
        await chooser.set_files(files)


ACTS: Mapping[str, Act] = {
    "click": _click, "type": _type, "press": _press, "hover": _hover, "drag": _drag, "select": _select, "fill": _fill,
    "resize": _resize, "wait": _wait, "evaluate": _evaluate, "scrollIntoView": _scroll,
}  # fmt: skip
