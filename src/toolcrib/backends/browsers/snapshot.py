"""What a page shows, in words: the outline that Playwright writes, narrowed to what was asked for. No input or output.

    - heading "Prices" [level=1] [ref=e2]
    - button "Order" [ref=e5]

Each element has a ref, by which it is named when something is done to it.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from toolcrib.lazy import dataclass, field, regex

_INTERACTIVE = frozenset((
    "button", "link", "textbox", "checkbox", "radio", "combobox", "listbox", "menuitem", "menuitemcheckbox",
    "menuitemradio", "option", "searchbox", "slider", "spinbutton", "switch", "tab", "treeitem",
))  # fmt: skip
_CONTENT = frozenset((  # which have a ref when they have a name
    "heading", "cell", "gridcell", "columnheader", "rowheader", "listitem", "article", "region", "main", "navigation",
))  # fmt: skip
_STRUCTURE = frozenset((
    "generic", "group", "list", "table", "row", "rowgroup", "grid", "treegrid", "menu", "menubar", "toolbar", "tablist",
    "tree", "directory", "document", "application", "presentation", "none",
))  # fmt: skip
_LINE = regex(r"""( *)- ('?)([a-z]+)(?: "((?:[^"\\]|\\.)*)")?(.*)""")
_REF = regex(r"\[ref=((?:f[0-9]+)?e[0-9]+)\]")
_ASKED_REF = regex(r"(?:@|ref=)?(f[0-9]+)?(e[0-9]+)")
_BOX = regex(r"\[box=(-?[0-9.]+),(-?[0-9.]+),([0-9.]+),([0-9.]+)\]")
_NO_DEPTH = 1 << 30
_CLICKABLE = "[cursor=pointer]"


def parse_role_ref(text: str, *, frames: bool = False) -> str | None:
    """Return the ref that `e12`, `@e12` or `ref=e12` names, None for anything else; `frames` takes `f1e12`, too.

    Frames are counted, and so are the documents that a tab had before.
    """
    found = _ASKED_REF.fullmatch(text.strip())
    return None if found is None or (found[1] and not frames) else f"{found[1] or ''}{found[2]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowing:
    """What of an outline is wanted: what can be used, without empty boxes, so many levels deep."""

    interactive: bool = False
    compact: bool = False
    depth: int | None = None


@dataclass(frozen=True, slots=True)
class RoleSnapshot:
    """An outline, and by its ref each element in it; elements of the same role and name are numbered."""

    text: str
    refs: dict[str, dict[str, Any]] = field(default_factory=dict)


class _Element(NamedTuple):
    """One line of an outline, `role` empty where it is no element; `rest` is what stands behind role and name."""

    line: str
    depth: int
    role: str = ""
    name: str = ""
    rest: str = ""

    @property
    def marks(self) -> str:
        """What Playwright says of it; behind the colon stand words of the page."""
        return self.rest.partition(":")[0]

    @property
    def ref(self) -> str:
        found = _REF.search(self.marks)
        return found[1] if found else ""

    @property
    def is_usable(self) -> bool:
        return self.role in _INTERACTIVE or _CLICKABLE in self.marks

    def render(self, ref: str, number: int) -> str:
        """Return it with its ref; that of an outline that has them stands where it is."""
        named = f'{self.role} "{self.name}"' if self.name else self.role
        mark = "" if self.ref or not ref else f" [ref={ref}]{f' [nth={number}]' if number else ''}"
        return f"{named}{mark}{self.rest}"


def _read(outline: str) -> Iterator[_Element]:
    for line in outline.split("\n"):
        depth = (len(line) - len(line.lstrip(" "))) // 2
        found = _LINE.fullmatch(line)
        if found is None:
            yield _Element(line, depth)
            continue
        rest = found[5]
        if found[2]:  # in quotes, as YAML needs it where a name holds a colon; ours is for reading only
            rest = rest.replace("'", "", 1)
        is_word = not rest or rest[0] in " :"
        yield _Element(line, depth, found[3] if is_word else "", found[4] or "", rest)


def build_role_snapshot(outline: str, wanted: Narrowing) -> RoleSnapshot:
    """Return what is wanted of an outline, with refs for all that can be used and for content that has a name.

    Where the outline has refs, those count, and what it gives none has none.
    """
    elements = [each for each in _read(outline) if each.line.strip()]
    kept = [each for each in elements if wanted.depth is None or each.depth <= wanted.depth]
    marked, is_marked = [each for each in kept if _has_ref(each, wanted)], any(each.ref for each in elements)
    many = Counter((each.role, each.name) for each in marked)
    seen, refs, lines = Counter[tuple[str, str]](), dict[str, dict[str, Any]](), list[tuple[str, _Element]]()
    for each in kept:
        if not _has_ref(each, wanted):
            if not wanted.interactive and not (wanted.compact and each.role in _STRUCTURE and not each.name):
                lines.append((each.line, each))
            continue
        same = each.role, each.name
        ref, number = each.ref or ("" if is_marked else f"e{len(refs) + 1}"), seen[same]
        seen[same] += 1
        if ref:
            nth = {"nth": number} if many[same] > 1 else {}
            refs[ref] = {"role": each.role, **({"name": each.name} if each.name else {}), **nth}
        entry = each.render(ref, number)
        lines.append((f"- {entry.removesuffix(':')}" if wanted.interactive else f"{'  ' * each.depth}- {entry}", each))
    if wanted.compact and not wanted.interactive:
        lines = _drop_empty(lines)
    text = "\n".join(line for line, _ in lines)
    return RoleSnapshot(text or ("(no interactive elements)" if wanted.interactive else "(empty)"), refs)


def _has_ref(element: _Element, wanted: Narrowing) -> bool:
    if wanted.interactive:
        return element.is_usable
    return element.is_usable or (element.role in _CONTENT and bool(element.name))


def _drop_empty(lines: list[tuple[str, _Element]]) -> list[tuple[str, _Element]]:
    """Leave out boxes in which nothing is left."""
    kept, depth_below = list[tuple[str, _Element]](), -1
    for line, element in reversed(lines):
        is_box = line.endswith(":") and "[ref=" not in line
        if not is_box or depth_below > element.depth:
            kept.append((line, element))
            depth_below = element.depth
    return kept[::-1]


def list_nodes(outline: str, limit: int) -> list[dict[str, Any]]:
    """Return the first elements of an outline one by one: ref, role, name and how deep they stand."""
    found = (each for each in _read(outline) if each.role)
    return [
        {"ref": each.ref, "role": each.role, "name": each.name, "depth": each.depth}
        for each, _ in zip(found, range(limit), strict=False)
    ]


def list_boxes(outline: str) -> list[tuple[str, float, float, float, float]]:
    """Return where on the page each thing is that can be used: ref, left, top, width, height; none in frames."""
    boxes, frame = list[tuple[str, float, float, float, float]](), _NO_DEPTH
    for each in _read(outline):
        if each.depth > frame:  # places in a frame are counted from its corner
            continue
        frame = each.depth if each.role == "iframe" else _NO_DEPTH
        box = _BOX.search(each.marks)
        if box and each.ref and each.is_usable:
            left, top, width, height = map(float, box.groups())
            boxes.append((each.ref, left, top, width, height))
    return boxes


def cut_lines(text: str, max_chars: int) -> tuple[str, bool]:
    """Return as many whole lines as so many characters hold, and whether some were left out."""
    if len(text) <= max_chars:
        return text, False
    return text[: text.rfind("\n", 0, max_chars) if "\n" in text[:max_chars] else max_chars], True
