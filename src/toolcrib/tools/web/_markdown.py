"""From elements to Markdown, or to plain text, in one walk."""

import re
from collections.abc import Collection
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from toolcrib.lazy import regex

from ._article import UNREAD
from ._tree import INLINE, name_set

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_BREAK = "\v"  # a line that ends within a paragraph
_MAX_PREFIXES = 12  # lists and quotations within each other
_MARKS = {"b": "**", "strong": "**", "em": "*", "i": "*", "del": "~~", "s": "~~", "strike": "~~"}
_CODE = name_set("code kbd samp tt")
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_ROWS = name_set("thead tbody tfoot")
_TEXT = "-text"
_ANCHORS = name_set("¶ # § 🔗")  # what headings carry to be linked to
_SIMPLE_BLOCKS = name_set("p div center section")  # of which a cell may have one
_LANGUAGE = regex(r"(?:^|\s)(?:lang(?:uage)?|highlight|brush:)-?\s*(?!default)([\w+#-]+)")
_PLAIN_PATH = regex(r"/[\w-][\w/-]*(?:\.\w+)?", re.ASCII)  # which needs no look at its parts
_LEADS_SOMEWHERE = ("http:", "https:", "mailto:", "ftp:")
_QUOTED = str.maketrans({" ": "%20", "(": "%28", ")": "%29", "\n": "", "<": "%3C", ">": "%3E"})
_TICKS = regex("`+")


class Writer:
    """Writes elements, line by line; `marks` are left out for plain text."""

    def __init__(self, base: str, dropped: Collection[int] = (), *, marks: bool = True) -> None:
        self.base, self.dropped, self.marks = base, dropped, marks
        self.origin = urljoin(base, "/").rstrip("/")
        self.out: list[str] = []
        self.line: list[str] = []
        self.prefix = self.first = self.outer = ""  # of every line, of the next one, and of the blank one before it
        self.is_tight = False  # whether the next block stands right below
        self.depth = 0

    def write(self, node: "LexborNode") -> str:
        """Return an element as text."""
        self.write_children(node)
        self.end_line()
        return "".join(self.out).strip("\n")

    def write_children(self, node: "LexborNode") -> None:
        for child in node.iter(include_text=True):
            tag = child.tag or ""
            if tag == _TEXT:
                self.line.append(child.text_content or "")
            elif child.mem_id not in self.dropped:
                self.write_element(child, tag)

    def write_element(self, node: "LexborNode", tag: str) -> None:
        if tag in INLINE:
            self.write_inline(node, tag)
        elif tag not in UNREAD:
            self.end_line()
            self.write_block(node, tag)
            self.end_line()

    def write_block(self, node: "LexborNode", tag: str) -> None:
        if tag in _HEADINGS:
            self.write_children(node)
            self.end_line("#" * _HEADINGS[tag] + " ", is_flat=True)
        elif tag == "ul" or tag == "ol":
            self.write_list(node, tag)
        elif tag == "pre":
            self.write_code(node)
        elif tag == "blockquote":
            self.write_within(node, "> ", "> ")
        elif tag == "table":
            self.write_table(node)
        elif tag == "dd":
            self.is_tight = True
            self.write_within(node, ": ", "  ")
        elif tag == "li":  # outside of any list
            self.write_within(node, "- ", "  ")
        elif tag == "hr":
            self.line.append("---" if self.marks else "")
        else:
            self.write_children(node)

    def write_within(self, node: "LexborNode", first: str, rest: str) -> None:
        """Write what is inside with a mark before its first line, and as much before every other."""
        if not self.marks or self.depth >= _MAX_PREFIXES:
            self.write_children(node)
            return
        prefix, before = self.prefix, self.first or self.prefix
        self.outer = self.outer if self.first else prefix
        self.prefix, self.first, self.depth = prefix + rest, before + first, self.depth + 1
        self.write_children(node)
        self.end_line()
        self.prefix, self.first, self.depth = prefix, "", self.depth - 1

    def write_list(self, node: "LexborNode", tag: str) -> None:
        start = node.attributes.get("start") or ""
        number = int(start) if tag == "ol" and start.isdecimal() and len(start) < 10 else 1
        if self.prefix:
            self.is_tight = True  # a list within a list
        for item in node.iter(include_text=True):
            name = item.tag or ""
            if name != "li":
                if name == _TEXT:
                    self.line.append(item.text_content or "")
                elif item.mem_id not in self.dropped:
                    self.write_element(item, name)
                continue
            if item.mem_id in self.dropped:
                continue
            self.end_line()
            before = len(self.out)
            mark = f"{number}. " if tag == "ol" else "- "
            self.write_within(item, mark, " " * len(mark))
            self.end_line()
            self.is_tight = len(self.out) > before
            number += 1
        self.end_line()
        self.is_tight = False

    def write_code(self, node: "LexborNode") -> None:
        """Write code as it stands."""
        text = "".join(_raw_text(node)).strip("\n")
        if not text.strip():
            return
        if not self.marks:
            self.emit(text)
            return
        fence = max((run + "`" for run in _TICKS.findall(text)), key=len, default="```")
        fence = fence if len(fence) > 3 else "```"
        inner = node.css_first("code")
        around = (each.attributes.get("class") or "" for each in (node, inner, node.parent) if each is not None)
        language = next((found[1] for names in around if (found := _LANGUAGE.search(names))), "")
        self.emit(f"{fence}{language}\n{text}\n{fence}")

    def write_table(self, node: "LexborNode") -> None:
        """Write a table as one; a table that only puts blocks beside each other as these blocks."""
        rows = [row for part in node.iter() if part.mem_id not in self.dropped for row in _rows_of(part)]
        cells = [[cell for cell in row.iter() if cell.tag in ("td", "th")] for row in rows]
        width = max(map(len, cells), default=0)
        if width < 2 or any(_has_blocks(cell) for row in cells for cell in row):
            self.write_children(node)
            return
        if (caption := node.css_first("caption")) is not None:
            self.write_children(caption)
            self.end_line()
        lines = []
        for row in cells:
            texts = [self.to_line(cell) for cell in row]
            if any(texts):
                lines.append(self.join_cells(texts))  # a short row stays short
        if len(lines) > 1 and self.marks:
            lines.insert(1, "| " + " | ".join(["---"] * width) + " |")
        self.emit("\n".join(lines))

    def join_cells(self, texts: list[str]) -> str:
        if not self.marks:
            return "\t".join(texts).rstrip()
        return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"

    def to_line(self, node: "LexborNode") -> str:
        """Return what is in an element as one line."""
        return " ".join(self.to_inline(node).split())

    def to_inline(self, node: "LexborNode") -> str:
        """Return what is in an element, with inline marks only."""
        child = node.first_child
        if child is not None and child.next is None and child.tag == _TEXT:
            return child.text_content or ""
        line, self.line = self.line, []
        self.gather(node)
        text, self.line = "".join(self.line), line
        return text

    def gather(self, node: "LexborNode") -> None:
        for child in node.iter(include_text=True):
            tag = child.tag or ""
            if tag == _TEXT:
                self.line.append(child.text_content or "")
            elif child.mem_id in self.dropped or tag in UNREAD:
                continue
            elif tag in INLINE:
                self.write_inline(child, tag)
            else:
                self.line.append(" ")
                self.gather(child)
                self.line.append(" ")

    def write_inline(self, node: "LexborNode", tag: str) -> None:
        if tag == "br":
            self.line.append(_BREAK)
        elif tag == "img":
            self.write_image(node)
        elif tag == "a":
            self.write_link(node)
        elif tag == "math":
            self.line.append(node.attributes.get("alttext") or self.to_inline(node))
        elif tag == "q":
            self.line.append(f'"{self.to_inline(node)}"')
        elif not self.marks or (tag not in _MARKS and tag not in _CODE) or _has_blocks(node):
            self.write_children(node)  # which may hold blocks
        elif tag in _CODE:
            self.wrap("".join(_raw_text(node)), "`")
        else:
            self.wrap(self.to_inline(node), _MARKS[tag])

    def wrap(self, text: str, mark: str) -> None:
        """Write text between marks; spaces at its ends stay outside."""
        plain = text.strip()
        if not plain or mark in plain:  # marked already, by an element within
            self.line.append(f"`` {plain} ``" if mark == "`" and plain else text)
            return
        lead = " " if text[0].isspace() else ""
        self.line.append(f"{lead}{mark}{plain}{mark}{' ' if text[-1].isspace() else ''}")

    def write_link(self, node: "LexborNode") -> None:
        href = (node.attributes.get("href") or "").strip()
        address = "" if href.startswith("#") else self.resolve(href)
        if not address or not self.marks or _has_blocks(node):
            if node.text(strip=True) not in _ANCHORS:
                self.write_children(node)
            return
        text = self.to_inline(node)
        plain = " ".join(text.split())
        if plain and plain not in _ANCHORS:
            lead = " " if text[0].isspace() else ""
            self.line.append(f"{lead}[{plain}]({address}){' ' if text[-1].isspace() else ''}")

    def write_image(self, node: "LexborNode") -> None:
        attributes = node.attributes
        alt = " ".join((attributes.get("alt") or "").split())
        address = self.resolve(next((attributes[key] or "" for key in ("data-src", "src") if attributes.get(key)), ""))
        if not self.marks:
            self.line.append(alt)
        elif address and not {attributes.get("width"), attributes.get("height")} & {"0", "1"}:
            self.line.append(f"![{alt}]({address})")

    def resolve(self, href: str) -> str:
        """Return an address as a whole; empty when it leads nowhere that could be fetched."""
        if _PLAIN_PATH.fullmatch(href):
            return self.origin + href
        try:
            address = urljoin(self.base, href.strip()) if href else ""
        except ValueError:
            return ""
        if not address.lower().startswith(_LEADS_SOMEWHERE):
            return ""
        return address.translate(_QUOTED)

    def end_line(self, mark: str = "", *, is_flat: bool = False) -> None:
        """Write the line that was begun, if there is anything in it."""
        if not self.line:
            return
        text = "".join(self.line)
        self.line.clear()
        if _BREAK in text and not is_flat:
            lines = (" ".join(part.split()) for part in text.split(_BREAK))
            text = "\n".join(line for line in lines if line)
        else:
            text = " ".join(text.split())
        if text:
            self.emit(f"{mark}{text}" if self.marks else text)

    def emit(self, text: str) -> None:
        """Write a block: the first line of an item behind its mark, the others below."""
        gap = "\n" if self.is_tight else f"\n{(self.outer if self.first else self.prefix).rstrip()}\n"
        lead = self.first or self.prefix
        self.out.append(gap + lead + (text.replace("\n", f"\n{self.prefix}") if "\n" in text else text))
        self.first, self.is_tight = "", False


def _rows_of(part: "LexborNode") -> "list[LexborNode]":
    if part.tag == "tr":
        return [part]
    return [row for row in part.iter() if row.tag == "tr"] if part.tag in _ROWS else []


def _has_blocks(node: "LexborNode") -> bool:
    """Tell whether there are blocks right beneath that need lines of their own."""
    child = node.first_child
    if child is None or (child.next is None and child.tag == _TEXT):
        return False
    blocks = [each.tag for each in node.iter() if each.tag not in INLINE]
    return len(blocks) > 1 or (len(blocks) == 1 and blocks[0] not in _SIMPLE_BLOCKS)


def _raw_text(node: "LexborNode") -> "list[str]":
    """Return the texts beneath an element as they stand, lines ended where it says so."""
    return [
        "\n" if each.tag == "br" else each.text_content or ""
        for each in node.traverse(include_text=True)
        if each.tag in ("br", _TEXT)
    ]
