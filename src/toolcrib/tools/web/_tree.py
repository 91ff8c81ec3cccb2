"""A page as `selectolax` reads it, in a time that grows with its length and no faster.

The parser reads as browsers do, and shares their weak spot: deep nesting and many attributes take the square of their
number, and open formatting is made anew in every paragraph, so that a few kilobytes become gigabytes. A page that could
do so, and one that is very large, is written anew before: balanced, flat enough, with the attributes we read.
"""

import re
from collections.abc import Collection
from html import escape, unescape
from typing import TYPE_CHECKING

from toolcrib.lazy import regex

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser

_MAX_DEPTH = 100  # of what is written anew; and of what is not, so that walks may call themselves:
_TOO_DEEP = " > ".join(["*"] * 150)
_MAX_ELEMENTS = 300_000
_MAX_TAGS = 13_000  # what the parser reads in about a second, nested as it may be
_MAX_COPIES = 200_000  # tags, times the kinds of formatting that each of them may bring back
_MAX_ATTRIBUTES = 300


def name_set(text: str) -> frozenset[str]:
    """Return the words of a text as a set: how tables of names are written here."""
    return frozenset(text.split())


INLINE = name_set(
    "a abbr acronym b bdi bdo big br cite code data del dfn em font i img ins kbd label mark math nobr q rp rt ruby s "
    "samp small span strike strong sub sup time tt u var wbr"
)
_VOID = name_set("area base br col hr img input link meta param source track wbr")
_CELLS = {"td", "th", "p"}
_ENDS: dict[str, Collection[str]] = {  # what an opening tag ends, where it was left open
    "li": {"li", "p"}, "dt": {"dt", "dd", "p"}, "dd": {"dt", "dd", "p"}, "td": _CELLS, "th": _CELLS,
    "tr": {*_CELLS, "tr"}, "tbody": {*_CELLS, "tr", "thead", "tbody"}, "option": {"option"},
}  # fmt: skip
_READ = name_set("href src alt class id role hidden aria-hidden style start name content property")

_SPACE, _NO_SPACE = r"[ \t\n\f\r]", r"[^ \t\n\f\r/>]"
_ATTRIBUTE = rf"""(?:{_SPACE}|/)*+{_NO_SPACE}[^ \t\n\f\r/>=]*+
    (?:{_SPACE}*+={_SPACE}*+(?:"[^"]*+"?+|'[^']*+'?+|[^ \t\n\f\r>]*+))?+"""
_CROWDED = regex(rf"</?[a-zA-Z]{_NO_SPACE}*+(?:{_ATTRIBUTE}){{{_MAX_ATTRIBUTES}}}", re.VERBOSE)
# with attributes: without any there are never more than three of each
_FORMATTING = regex(
    rf"<(?=[a-zA-Z]{{1,6}}(?:{_SPACE}|/))"
    rf"(?=((?i:b|big|code|em|font|i|s|small|strike|strong|tt|u)(?!{_NO_SPACE})(?:{_ATTRIBUTE})*+))",
    re.VERBOSE,
)
_TAG = regex(  # a tag or the like, and the text behind it
    r"""<(?:(/?)([a-zA-Z][^\s/>]*+)((?:[^=>]++|=\s*+(?:"[^"]*+"|'[^']*+')?+)*+)(?:>|\Z)|[!?/][^>]*+>?+)?+([^<]*+)""",
    re.VERBOSE,
)
_ATTRIBUTES = regex(r"""([^\s=/"'>]+)\s*(?:=\s*(?:"([^"]*)"|'([^']*)'|([^\s>]+)))?""")
_MAY_HIDE = regex(r"hidden|style", re.IGNORECASE)
_NO_TEXT = name_set("script style noscript template iframe noembed noframes xmp svg textarea select")
_OPENING = regex(rf"<!--|<({'|'.join(_NO_TEXT)})(?=[\s/>])", re.IGNORECASE)
_CLOSING = {name: regex(rf"</{name}[^>]*>", re.IGNORECASE) for name in _NO_TEXT} | {"": regex("-->")}


def parse_page(html: str) -> "LexborHTMLParser":
    """Return a page as browsers would read it, whatever it holds."""
    from selectolax.lexbor import LexborHTMLParser  # noqa: PLC0415  only pages need it

    if _is_harmless(html):
        page = LexborHTMLParser(html)
        if page.css_first(_TOO_DEEP) is None:
            return page
    return LexborHTMLParser(_balance(_leave_out_unread(html)))


def _is_harmless(html: str) -> bool:
    tags = html.count("<") - html.count("</")
    if tags > _MAX_TAGS or _CROWDED.search(html):
        return False
    return tags * tags <= _MAX_COPIES or len(set(_FORMATTING.findall(html))) * tags <= _MAX_COPIES


def _leave_out_unread(html: str) -> str:
    """Return the page without comments and what holds no text, in which a `<` begins nothing."""
    kept, at = [], 0
    for opening in _OPENING.finditer(html):
        if opening.start() >= at:
            kept.append(html[at : opening.start()])
            end = _CLOSING[(opening[1] or "").lower()].search(html, opening.end())
            at = len(html) if end is None else end.end()
    return "".join([*kept, html[at:]])


def _balance(html: str) -> str:
    """Return the page with every element closed in its order, none deeper than `_MAX_DEPTH`, and not too many."""
    out: list[str] = []
    opened: list[str] = []
    deeper: dict[str, int] = {}  # what is open beyond that depth
    left = _MAX_ELEMENTS

    def close_to(depth: int) -> None:
        out.extend(f"</{name}>" for name in reversed(opened[depth:]))
        del opened[depth:]

    for match in _TAG.finditer(f"<!>{html}"):
        closing, tag, attrs, text = match.groups()
        if not tag:
            out.append(text if len(match[0]) > len(text) + 1 else f"&lt;{text}")
            continue
        tag = tag.lower()
        if closing:
            if deeper.get(tag):
                deeper[tag] -= 1
            elif tag in opened:
                close_to(len(opened) - 1 - opened[::-1].index(tag))
        elif tag in _VOID:
            out.append(f"<{tag}{_rewrite_attributes(attrs)}>")
        else:
            left -= 1
            if tag not in INLINE:
                close_to(_depth_ended_by(tag, opened))
            # what is hidden stays so, deeper by one than all the rest
            if len(opened) < _MAX_DEPTH or (len(opened) == _MAX_DEPTH and _MAY_HIDE.search(attrs)):
                opened.append(tag)
                out.append(f"<{tag}{_rewrite_attributes(attrs)}>")
            else:
                deeper[tag] = deeper.get(tag, 0) + 1
        out.append(text)
        if not left:
            break
    close_to(0)
    return "".join(out)


def _depth_ended_by(tag: str, opened: list[str]) -> int:
    """Return how deep the page still is when a block begins that ends others."""
    ends, depth = _ENDS.get(tag, ("p",)), len(opened)
    for at in range(len(opened) - 1, -1, -1):
        if opened[at] in ends:
            depth = at
        elif opened[at] not in INLINE:
            break
    return depth


def _rewrite_attributes(attrs: str) -> str:
    if not attrs or attrs.isspace():
        return ""
    found: dict[str, str] = {}
    for name, quoted, single, bare in _ATTRIBUTES.findall(attrs):
        if (name := name.lower()) in _READ:
            found.setdefault(name, f' {name}="{escape(unescape(quoted or single or bare))}"')
    return "".join(found.values())
