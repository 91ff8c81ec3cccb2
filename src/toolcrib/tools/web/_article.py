"""Which part of a page is the article: where its paragraphs are, and not its links, menus, adverts and banners.

Text in paragraphs counts for every element around it. From the body down we go into the one child that holds nearly all
of it, until the text is spread over several. What is named or built like a menu or a banner is left out before, and
lists of nothing but links after.
"""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from toolcrib.lazy import dataclass, regex

from ._tree import INLINE, name_set

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

UNREAD = name_set(
    "script style noscript template iframe noembed noframes xmp svg object applet canvas audio video map select "
    "textarea button dialog datalist head title input"
)
_NEVER_TEXT = ["script", "style", "noscript", "template", "svg", "select", "button", "nav", "footer", "menu"]
_MIN_PARAGRAPH = 25  # characters; less is a label
_BLOCK_TAGS = name_set(
    "address article aside blockquote body caption center dd details div dl dt fieldset figcaption figure footer form "
    "h1 h2 h3 h4 h5 h6 header hgroup li main ol p pre section summary table tbody td tfoot th thead tr ul"
)
_PLAIN_BLOCKS = ",".join(_BLOCK_TAGS - {"body", "td", "th"})
_BLOCKS = f"{_PLAIN_BLOCKS},td:has(a,{_PLAIN_BLOCKS}),th:has(a,{_PLAIN_BLOCKS})"  # of other cells the row will do
_SHORT_IS_TEXT = name_set("li tr td th dd dt pre caption h1 h2 h3 h4 h5 h6")  # except here
_WRAPPERS = name_set("div section main article td tr tbody table center form span body font")
_LISTS = name_set("div section ul ol dl table form header aside center details")
_TEXTS = name_set("p pre blockquote dl ul ol table h2 h3 h4")
_MIN_TEXT = 80  # characters of paragraphs that are not left behind
_MOST_BESIDE = 0.04  # of the text may be left behind on the way down, in each step
_MOST_LINKS, _LISTED_LINKS = 0.4, 0.7  # of the characters of a text, and of what is no list of links
_MIN_LEFT = 0.2  # of the text, when what is named like a menu is left out

_HIDDEN = regex(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_WORDS = regex(r"[A-Z]?[a-z]+|[A-Z]+")
_LAYOUT = regex(r"(?:has|with|without|no|is)[-_A-Z]")  # a class that says what stands beside
# words in names: never the article; beside the article, unless most of the text is there; talk about the article
_NEVER = name_set(
    "ad ads adv advert adverts advertisement advertising adsense adslot sponsor sponsored cookie cookies consent gdpr "
    "breadcrumb breadcrumbs pagination pager editsection linenos lineno gutter outbrain taboola noprint"
)
_TALK = name_set("comment comments disqus respond review reviews")
_BESIDE = name_set(
    "nav navbar navigation menu menubar sidebar footer masthead banner related recommended recommendation promo "
    "recommendations promotion newsletter subscribe subscription signup login widget widgets toolbar teaser teasers "
    "tags toc byline author share sharing social skip search modal popup overlay rating ratings upsell"
)
_NOISY_TAGS = {"nav": 3, "footer": 3, "menu": 3, "aside": 1, "header": 1}
_NOISY_ROLES = {"navigation": 3, "contentinfo": 3, "banner": 3, "search": 3, "dialog": 3, "alertdialog": 3}
_NAMED = "nav,footer,menu,aside,header,[class],[id],[role],[hidden],[aria-hidden],[style]"


@dataclass(slots=True)
class Figures:
    """Characters beneath an element: all, those in links, those in paragraphs; and those of its own last line."""

    chars: int = 0
    links: int = 0
    prose: int = 0
    own: int = 0


@dataclass(frozen=True, slots=True)
class Article:
    """What to read: `node` without what is `dropped` (by `mem_id`), how much it is, and how much is on the page."""

    node: "LexborNode"
    dropped: frozenset[int] = frozenset()
    chars: int = 0
    page_chars: int = 0
    page_links: int = 0


def find_article(page: "LexborHTMLParser") -> Article | None:
    """Return the article of a page; None when it has no body."""
    if page.body is None:
        return None
    page.body.strip_tags(_NEVER_TEXT, recursive=True)
    return _Search(page.body).find()


class _Search:
    """The figures of a page and the noise in it: 3 is never the article, 2 is talk about it, 1 is named like that."""

    def __init__(self, body: "LexborNode") -> None:
        self.body = body
        self.named = {node.mem_id: (node, noise) for node, noise in _find_noise(body)}
        self.dropped = {each for each, (_, noise) in self.named.items() if noise == 3}
        self.figures = self.count()

    def count(self) -> dict[int, Figures]:
        """Return the figures of every block, without those that are never the article."""
        figures: dict[int, Figures] = {}
        for node in self.body.css("a[href]:not(pre a)"):
            size = len(node.text(strip=True))
            around = _around(node, figures)
            around.links += size
            around.own -= size
        for node in reversed(self.body.css(_BLOCKS)):  # inner before outer
            key, tag = node.mem_id, node.tag
            mine = figures.get(key)
            if mine is None:
                mine = figures[key] = Figures()
            is_text = tag in _SHORT_IS_TEXT or tag == "p"
            # where blocks are beneath, what stands between them is all that is its own
            size = len(node.text(strip=True)) if is_text or not mine.chars else len(node.text(deep=False, strip=True))
            if is_text or not mine.chars:
                mine.own += size - mine.chars
                mine.chars = size
            else:
                mine.own = size
                mine.chars += size
            if mine.own >= _MIN_PARAGRAPH or tag in _SHORT_IS_TEXT:
                mine.prose += mine.own
            if mine.chars and key not in self.dropped and (above := node.parent) is not None:
                around = figures.get(above.mem_id) or _around(node, figures)
                around.chars += mine.chars
                around.links += mine.links
                around.prose += mine.prose
        return figures

    def find(self) -> Article:
        """Return the article, and say how much of the page it is."""
        whole = self.figures.setdefault(self.body.mem_id, Figures())
        whole.own = len(self.body.text(deep=False, strip=True))
        whole.prose += whole.own
        whole.chars += whole.own
        chars, links = whole.chars, whole.links
        for kinds in ((1, 2), (1,)):  # where most of a page is what readers say, that is what it is for
            beside = self.find_beside(kinds, whole.prose / 2)
            if sum(self.figures[node.mem_id].prose for node in beside) <= whole.prose * (1 - _MIN_LEFT):
                self.drop(beside)
                break
        node = self.descend()
        self.drop(self.find_link_lists(node))
        return Article(node, frozenset(self.dropped), self.figures[node.mem_id].chars, chars, links)

    def find_beside(self, kinds: tuple[int, ...], max_prose: float) -> "list[LexborNode]":
        """Return the outermost elements named like something beside the article that do not hold most of the text."""
        found: list[LexborNode] = []
        chosen: set[int] = set()
        for key, (node, noise) in self.named.items():
            mine = self.figures.get(key)
            if noise not in kinds or mine is None or (noise == 1 and mine.prose > max_prose) or _is_heading(node):
                continue
            above = node.parent
            while above is not None and above.mem_id not in chosen and above.mem_id not in self.dropped:
                above = above.parent
            if above is None:
                chosen.add(key)
                found.append(node)
        return found

    def drop(self, nodes: "list[LexborNode]") -> None:
        for node in nodes:
            self.dropped.add(node.mem_id)
            mine, above = self.figures[node.mem_id], node.parent
            while above is not None and (around := self.figures.get(above.mem_id)) is not None:
                around.chars, around.links = around.chars - mine.chars, around.links - mine.links
                around.prose -= mine.prose
                above = above.parent

    def descend(self) -> "LexborNode":
        """Return the innermost element that holds nearly all of the text."""
        node = self.body
        while node.tag != "article":
            inner = [
                (mine, child)
                for child in node.iter()
                if (mine := self.figures.get(child.mem_id)) is not None and child.mem_id not in self.dropped
            ]
            if not inner:
                break
            best, child = max(inner, key=lambda each: each[0].prose)
            beside = [
                (mine.prose, each.tag)
                for mine, each in inner
                if mine is not best and mine.links < _MOST_LINKS * mine.chars
            ]
            plain = self.figures[node.mem_id].own + sum(prose for prose, tag in beside if tag in _TEXTS)
            if (
                child.tag not in _WRAPPERS
                or best.prose < _MIN_TEXT
                or plain > _MIN_TEXT
                or sum(prose for prose, _ in beside) > max(_MIN_TEXT, _MOST_BESIDE * best.prose)
            ):
                break
            node = child
        while node.tag in ("tr", "tbody", "thead") and node.parent is not None:
            node = node.parent  # rows are read as a table
        return node if node.tag != "table" or node.parent is None else node.parent

    def find_link_lists(self, node: "LexborNode") -> "list[LexborNode]":
        """Return the outermost lists beneath an element that hold next to nothing but links."""
        found: list[LexborNode] = []
        waiting = [node]
        while waiting:
            for child in waiting.pop().iter():
                mine = self.figures.get(child.mem_id)
                if mine is None or child.tag in INLINE or child.mem_id in self.dropped:
                    continue
                if child.tag in _LISTS and mine.links > _LISTED_LINKS * mine.chars and child.css_first("pre") is None:
                    found.append(child)
                elif mine.links > _MIN_PARAGRAPH:
                    waiting.append(child)
        return found


def _around(node: "LexborNode", figures: dict[int, Figures]) -> Figures:
    """Return the figures of the block that an element stands in."""
    above = node.parent
    while above is not None and above.tag not in _BLOCK_TAGS:
        above = above.parent
    key = 0 if above is None else above.mem_id
    found = figures.get(key)
    if found is None:
        found = figures[key] = Figures()
    return found


def _find_noise(body: "LexborNode") -> "Iterator[tuple[LexborNode, int]]":
    known: dict[tuple[str | None, ...], int] = {}
    for node in body.css(_NAMED):
        attrs = node.attributes
        key = (node.tag, *map(attrs.get, ("class", "id", "role", "style", "aria-hidden")), str("hidden" in attrs))
        noise = known.get(key)
        if noise is None:
            noise = known[key] = _judge(node.tag or "", attrs)
        if noise:
            yield node, noise


def find_hidden(page: "LexborHTMLParser") -> frozenset[int]:
    """Return what nobody sees of a page, by `mem_id`."""
    nodes = page.css("[hidden],[aria-hidden],[style]")
    return frozenset(node.mem_id for node in nodes if _is_hidden(node.attributes))


def _is_hidden(attrs: Mapping[str, str | None]) -> bool:
    if attrs.get("aria-hidden") == "true" or attrs.get("hidden", "until-found") != "until-found":
        return True
    return _HIDDEN.search(attrs.get("style") or "") is not None


def _judge(tag: str, attrs: Mapping[str, str | None]) -> int:
    """Return how sure it is that an element so named is not the article."""
    if tag in ("article", "main", "body"):
        return 0
    if _is_hidden(attrs):
        return 3
    names = attrs.get("class") or ""
    if tag in ("div", "ul", "table", "form", "aside") and "section" not in names:
        names += f" {attrs.get('id') or ''}"  # a heading may have given it to another
    plain = (name for name in names.split() if not _LAYOUT.match(name))
    words = {word.lower() for name in plain for word in _WORDS.findall(name)}
    by_name = 3 if words & _NEVER else 2 if words & _TALK else 1 if words & _BESIDE else 0
    return max(by_name, _NOISY_TAGS.get(tag, 0), _NOISY_ROLES.get(attrs.get("role") or "", 0))


def _is_heading(node: "LexborNode") -> bool:
    """Tell whether it is the header of an article, which is part of it."""
    if node.tag != "header":
        return False
    above = node.parent
    while above is not None and above.tag not in ("article", "main"):
        above = above.parent
    return above is not None
