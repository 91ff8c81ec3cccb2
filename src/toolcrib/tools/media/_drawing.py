"""SVG drawings in words: how large they are, what they are made of, what is written in them. Nothing is drawn."""

from collections import Counter
from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import count
from typing import NamedTuple
from xml.parsers import expat

from toolcrib import ToolError

_MAX_ELEMENTS, _MAX_DEPTH, _TEXT_CHARS = 100_000, 256, 20_000
_WRITTEN = ("title", "desc", "text", "tspan", "textPath")
_LISTED = 8


class Drawing(NamedTuple):
    """What a drawing is, and the words in it."""

    about: str
    words: str


def is_drawing(data: bytes) -> bool:
    """Tell whether a file begins like an SVG drawing."""
    head = data[:1_024].lstrip(b"\xef\xbb\xbf \t\r\n")
    is_markup = head.startswith((b"<?xml", b"<!")) and b"<html" not in head.lower()
    return head.startswith(b"<svg") or (is_markup and b"<svg" in data[:65_536])


def read_drawing(data: bytes) -> Drawing:
    """Return what an SVG drawing says of itself; raise ToolError when it is none, or made to be endless."""
    elements, words, opened = Counter[str](), list[str](), list[str]()
    size, numbers = dict[str, str](), count(1)
    drawn = dict[str, list[str]]({"": []})  # by the id of each part that has one: the parts in it, and drawn again
    within = [""]

    def begin(name: str, given: dict[str, str]) -> None:
        name = name.rpartition(":")[2]
        if not opened:
            size.update(given)
        opened.append(name)
        elements[name] += 1
        part = given.get("id", within[-1])
        if part not in drawn:
            drawn[part] = []
            drawn[within[-1]].append(part)
        within.append(part)
        if len(opened) > _MAX_DEPTH or next(numbers) > _MAX_ELEMENTS:
            raise ToolError("it has too many elements, or too many within each other", code="too_large")
        if name == "use":
            drawn[part].append(given.get("href", given.get("xlink:href", "")).removeprefix("#"))

    def end(name: str) -> None:
        opened.pop()
        within.pop()

    def add(text: str) -> None:
        if opened and opened[-1] in _WRITTEN and text.strip():
            words.append(" ".join(text.split()))

    def refuse(*declared: object) -> None:
        raise ToolError("it declares entities of its own, which no drawing needs; it was not read", code="denied")

    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = begin, end, add
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise ToolError(f"it begins like an SVG drawing but cannot be read: {error}", code="damaged") from None
    _refuse_endless(drawn)
    sides = "x".join(size[side][:16] for side in ("width", "height") if side in size) or size.get("viewBox", "")[:64]
    parts = ", ".join(f"{many} {name[:32]}" for name, many in elements.most_common(_LISTED))
    return Drawing(f"{sides or 'of no stated size'}; {parts}", "\n".join(words)[:_TEXT_CHARS])


def _refuse_endless(drawn: Mapping[str, Sequence[str]]) -> None:
    """Refuse a drawing whose parts draw each other again and again."""
    counts = dict[str, int]()
    try:
        for part in TopologicalSorter(drawn).static_order():
            counts[part] = min(_MAX_ELEMENTS + 1, 1 + sum(counts[each] for each in drawn.get(part, ())))
    except CycleError:
        counts[""] = _MAX_ELEMENTS + 1
    if max(counts.values()) > _MAX_ELEMENTS:
        raise ToolError("its parts draw each other again and again", code="too_large")
