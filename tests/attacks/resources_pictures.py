"""attacks/resources, the rows about pictures: files that want more memory or time than they look, shown to `image`."""

import asyncio
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from PIL import Image as Pillow

import toolcrib
from tests.tools.media.pictures import claim_jpeg, claim_png, claim_tiff, claim_webp, draw, moving, save
from toolcrib import OWNER, Result

from . import Outcome, broken, kept, resources
from .lateness import Lateness, Stopwatch

Json = Mapping[str, Any]

_OPENED = 40_000_000  # pixels that are drawn for real; of more, the head alone is made


def judge(case: Json) -> Outcome:
    """Make the picture, have it looked at, and measure."""
    must = case["must"]
    with tempfile.TemporaryDirectory() as name:
        Path(name, "picture").write_bytes(_make(case["input"]["gen"]))
        before, watch = resources.measure_held(begins=True), Stopwatch()
        result, late = asyncio.run(_look(name))
        took, after = watch.took, resources.measure_held()
    complaints = [late] if must.get("alive_during") and late else []
    if must["verdict"] == "allow" and result.status != "ok":
        complaints.append(f"refused: {result.plain_text}")
    if must["verdict"] == "reject" and result.status == "ok":
        complaints.append("it was let through")
    complaints += resources.measure({**must, "alive_during": False}, took, before, after)
    seen = {"status": result.status, "text": result.plain_text[:200]}
    return broken("; ".join(complaints), seen) if complaints else kept(seen)


async def _look(folder: str) -> tuple[Result, str]:
    watch = Lateness()
    async with toolcrib.open({"workspace": {"root": folder}}, env={}) as crib, watch:
        return await crib.belt(OWNER).call("image", {"image": "picture"}), watch.complaint


def _make(gen: Json) -> bytes:
    """Return the file that a case describes."""
    (kind,) = (key for key in gen if key in _MADE)
    return _MADE[kind](gen, (int(gen.get("w", 640)), int(gen.get("h", 480))))


def _draw_or(kind: str, claim: Callable[[int, int], bytes]) -> Callable[[Json, tuple[int, int]], bytes]:
    """Return what draws a picture of its sides, and where these are too many claims to have done so."""

    def make(gen: Json, sides: tuple[int, int]) -> bytes:
        if gen.get("png") == "idat_bomb":
            return claim_png(*sides, rows=min(sides[1], 2_000))
        return save(Pillow.new("L", sides), kind) if sides[0] * sides[1] <= _OPENED else claim(*sides)

    return make


def _make_drawing(gen: Json, sides: tuple[int, int]) -> bytes:
    levels, fan = int(gen.get("levels") or gen.get("depth") or 9), int(gen.get("fan") or 10)
    head = b'<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d">' % sides
    if gen["svg"] == "use":
        parts = (b'<g id="a%d">%s</g>' % (at, b'<use href="#a%d"/>' % (at - 1) * fan) for at in range(1, levels))
        return head + b'<g id="a0"><rect/></g>' + b"".join(parts) + b"</svg>"
    if gen["svg"] == "nested":
        return head + b"<g>" * levels + b"</g>" * levels + b"</svg>"
    if gen["svg"] in ("plain", "text"):
        return head + b"<rect/>" * int(gen.get("count") or 3) + b"<text>nuts</text></svg>"
    declared = b"".join(b'<!ENTITY a%d "%s">' % (at, b"&a%d;" % (at - 1) * fan) for at in range(1, levels))
    return b'<!DOCTYPE svg [<!ENTITY a0 "ha">' + declared + b"]>" + head + b"<text>&a%d;</text></svg>" % (levels - 1)


def _make_icon(gen: Json, sides: tuple[int, int]) -> bytes:
    count = int(gen.get("count") or 1)
    entry = bytes((0, 0, 0, 0, 1, 0, 32, 0)) + (60).to_bytes(4, "little") + (6 + 16 * count).to_bytes(4, "little")
    return b"\0\0\1\0" + count.to_bytes(2, "little") + entry * count + claim_png(*sides)


_MADE: Mapping[str, Callable[[Json, tuple[int, int]], bytes]] = {
    "png": _draw_or("PNG", claim_png),
    "gif": lambda gen, sides: moving(int(gen.get("count") or 20)) if gen["gif"] == "frames" else save(draw(), "GIF"),
    "webp": _draw_or("WEBP", claim_webp),
    "jpeg": _draw_or("JPEG", claim_jpeg),
    "tiff": _draw_or("TIFF", claim_tiff),
    "svg": _make_drawing,
    "ico": _make_icon,
}
