"""SVG drawings in words: how large they are, what they are made of, what is written in them. Nothing is drawn."""

from collections import Counter
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
    return head.startswith(b"<svg") or (head.startswith((b"<?xml", b"<!")) and b"<svg" in data[:65_536])


def read_drawing(data: bytes) -> Drawing:
    """Return what an SVG drawing says of itself; raise ToolError when it is none, or made to be endless."""
    elements, words, opened = Counter[str](), list[str](), list[str]()
    size = dict[str, str]()
    named = dict[str, list[str]]()  # what each element with an id draws again
    within = list[str]()  # the ids that are open

    def begin(name: str, given: dict[str, str]) -> None:
        name = name.rpartition(":")[2]
        if not opened:
            size.update(given)
        opened.append(name)
        elements[name] += 1
        within.append(given.get("id", ""))
        if len(opened) > _MAX_DEPTH or elements.total() > _MAX_ELEMENTS:
            raise ToolError("it has too many elements, or too many within each other", code="too_large")
        if name == "use":
            target = given.get("href", given.get("xlink:href", "")).removeprefix("#")
            for id in filter(None, within):
                named.setdefault(id, []).append(target)

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
    _refuse_endless(named)
    sides = "x".join(size[side][:16] for side in ("width", "height") if side in size) or size.get("viewBox", "")[:64]
    parts = ", ".join(f"{count} {name[:32]}" for name, count in elements.most_common(_LISTED))
    return Drawing(f"{sides or 'of no stated size'}; {parts}", "\n".join(words)[:_TEXT_CHARS])


def _refuse_endless(named: dict[str, list[str]]) -> None:
    """Refuse a drawing whose parts draw each other again and again."""
    drawn = dict[str, int]()
    waiting = [*named]
    rounds = 0
    while waiting and rounds <= _MAX_DEPTH:  # each round settles what draws nothing that is not settled
        settled = [id for id in waiting if all(each not in named or each in drawn for each in named[id])]
        for id in settled:
            drawn[id] = sum(drawn.get(each, 1) for each in named[id])
        waiting = [id for id in waiting if id not in drawn]
        rounds += 1
        if not settled:
            break
    if waiting or any(count > _MAX_ELEMENTS for count in drawn.values()):
        raise ToolError("its parts draw each other again and again", code="too_large")
