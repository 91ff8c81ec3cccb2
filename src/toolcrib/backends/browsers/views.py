"""What a page shows: an outline in words, a picture, with labels or without, a PDF."""

import base64
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from .acts import find_element, milliseconds, read_number
from .snapshot import Narrowing, build_role_snapshot, cut_lines, list_boxes, list_nodes
from .tab import Tab

_Json = Mapping[str, Any]
View = Callable[[Tab, _Json], Awaitable[dict[str, Any]]]

_SNAPSHOT_CHARS, _EFFICIENT_CHARS, _EFFICIENT_DEPTH = 80_000, 10_000, 6
_NODES, _MAX_NODES, _MAX_LABELS = 500, 2_000, 150
_LABEL = """boxes => {
  const root = document.createElement("div");
  root.style.cssText = "all:initial;position:absolute;left:0;top:0;z-index:2147483647;pointer-events:none";
  for (const [ref, x, y, width, height] of boxes) {
    const box = document.createElement("div"), mark = document.createElement("span");
    box.style.cssText = `all:initial;position:absolute;left:${x + scrollX}px;top:${y + scrollY}px;width:${width}px;`
      + `height:${height}px;outline:2px solid #d00`;
    mark.style.cssText = "all:initial;background:#d00;color:#fff;font:bold 11px monospace;padding:0 2px";
    mark.textContent = ref;
    box.append(mark);
    root.append(box);
  }
  document.documentElement.append(root);
  return root;
}"""


def to_base64(data: bytes) -> str:
    """Return bytes as JSON carries them."""
    return base64.b64encode(data).decode()


async def take_snapshot(tab: Tab, args: _Json) -> dict[str, Any]:
    """Return the page as an outline, whole or narrowed, with a picture of its labels where that is asked for."""
    is_efficient = args.get("mode") == "efficient"
    wanted = Narrowing(
        interactive=bool(args.get("interactive", is_efficient)),
        compact=bool(args.get("compact", is_efficient)),
        depth=_EFFICIENT_DEPTH if is_efficient and args.get("depth") is None else read_number(args, "depth"),
    )
    outline = await _read_outline(tab, args)
    view: dict[str, Any] = {"targetId": tab.id, "url": tab.url}
    if args.get("format", args.get("snapshotFormat")) == "aria":
        max_nodes = min(read_number(args, "limit") or _NODES, _MAX_NODES)
        return view | {"format": "aria", "nodes": list_nodes(outline, max_nodes)}
    max_chars = read_number(args, "maxChars") or (_EFFICIENT_CHARS if is_efficient else _SNAPSHOT_CHARS)
    is_whole = wanted == Narrowing() and args.get("refs") != "role"
    text, is_cut = cut_lines(outline if is_whole else build_role_snapshot(outline, wanted).text, max_chars)
    view |= {"format": "ai", "snapshot": text, "truncated": is_cut, "refs": text.count("[ref=")}
    return view | (await take_screenshot(tab, args) if args.get("labels") else {})


async def _read_outline(tab: Tab, args: _Json, *, boxes: bool = False) -> str:
    page, frame, selector = tab.page, args.get("frame"), args.get("selector")
    limit = milliseconds(args)
    if frame:
        inner = page.frame_locator(str(frame)).locator(str(selector or "body"))
        return await inner.aria_snapshot(mode="ai", boxes=boxes, timeout=limit)
    if selector:
        return await page.locator(str(selector)).first.aria_snapshot(mode="ai", boxes=boxes, timeout=limit)
    return await page.aria_snapshot(mode="ai", boxes=boxes, timeout=limit)


async def take_screenshot(tab: Tab, args: _Json) -> dict[str, Any]:
    """Return a picture of the window, the whole page or one element."""
    limit = milliseconds(args)
    kind: Any = "jpeg" if args.get("type") == "jpeg" else "png"
    element = await find_element(tab.page, args) if args.get("ref") or args.get("element") else None
    labels = await _show_labels(tab, args) if args.get("labels") else None
    try:
        if element is not None:
            data = await element.screenshot(type=kind, timeout=limit)
        else:
            data = await tab.page.screenshot(type=kind, full_page=bool(args.get("fullPage")), timeout=limit)
    finally:
        if labels is not None:
            await labels.evaluate("root => root.remove()")
    return {"targetId": tab.id, "url": tab.url, "type": kind, "base64": to_base64(data)}


async def take_scaled(tab: Tab, size: _Json) -> bytes:
    """Return a picture of a window that is scrolled down to `top`, scaled down to `maxWidth`."""
    width, height, quality = size["width"], size["height"], size.get("quality")
    top = await tab.page.evaluate("top => { scrollTo(0, top); return scrollY; }", size.get("top") or 0)
    scale = min((size.get("maxWidth") or width) / width, 1)
    asked: dict[str, Any] = {"format": size.get("type") or "png"}
    asked["clip"] = {"x": 0, "y": top, "width": width, "height": height, "scale": scale}
    if isinstance(quality, (int, float)) and asked["format"] == "jpeg":
        asked["quality"] = round(min(max(quality, 0), 1) * 100)
    session = await tab.page.context.new_cdp_session(tab.page)
    return base64.b64decode((await session.send("Page.captureScreenshot", asked))["data"])


async def _show_labels(tab: Tab, args: _Json) -> Any:
    """Write its ref onto everything that can be used."""
    outline = await _read_outline(tab, args, boxes=True)
    return await tab.page.evaluate_handle(_LABEL, list_boxes(outline)[:_MAX_LABELS])


async def print_pdf(tab: Tab, args: _Json) -> dict[str, Any]:
    """Return the page as it would be printed."""
    data = await tab.page.pdf(print_background=True)
    return {"targetId": tab.id, "url": tab.url, "base64": to_base64(data)}
