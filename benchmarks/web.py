"""Reading pages against a bare writer: the same parser, what a selector finds as noise cut off, a few marks.

The pages have the sizes of real ones: most are small, a few hold thousands of elements.
"""

import random
import time
from collections.abc import Mapping, Sequence

from selectolax.lexbor import LexborHTMLParser, LexborNode

from toolcrib.tools.web._documents import read_html

from . import Row, Work, interleaved

__all__ = ["bare_markdown", "made_pages", "measure", "rows_from"]

BAR = 5.0

_NOISE = "script,style,noscript,template,nav,header,footer,aside,form,iframe,svg,[class*=comment],[class*=sidebar]"
_OPENING = {
    "h1": "\n\n# ", "h2": "\n\n## ", "h3": "\n\n### ", "p": "\n\n", "li": "\n- ", "tr": "\n", "td": " | ", "th": " | ",
    "pre": "\n\n```\n", "em": "*", "strong": "**", "code": "`",
}  # fmt: skip
_CLOSING = {"pre": "\n```", "em": "*", "strong": "**", "code": "`"}


def made_pages(count: int = 60) -> list[str]:
    """Return pages with menus, scripts, paragraphs, lists, tables and code, the same each time."""
    chance = random.Random(13)
    words = ["".join(chance.choices("aeioulnrst", k=chance.randint(2, 9))) for _ in range(2_000)]

    def some(many: int) -> str:
        return " ".join(chance.choices(words, k=many))

    def block() -> str:
        items = range(chance.randint(3, 12))
        match chance.randint(0, 9):
            case 0:
                return f"<ul>{''.join(f'<li>{some(9)} <a href=/{at}>{some(2)}</a></li>' for at in items)}</ul>"
            case 1:
                rows = (f"<tr>{''.join(f'<td>{some(1)}</td>' for _ in range(5))}</tr>" for _ in items)
                return f"<table><tr>{'<th>x</th>' * 5}</tr>{''.join(rows)}</table>"
            case 2:
                return f"<h2>{some(4)}</h2><pre><code>{some(20)}</code></pre>"
            case _:
                return f"<p>{some(30)}, <em>{some(2)}</em> <a href=/{some(1)}>{some(3)}</a>. {some(25)}.</p>"

    def page() -> str:
        blocks = "".join(block() for _ in range(min(600, int(12 * chance.paretovariate(0.9)))))
        menu = "".join(f"<li><a href=/{at}>{some(2)}</a></li>" for at in range(60))
        return (
            f"<title>{some(4)}</title><script>{some(900)}</script><header><nav><ul>{menu}</ul></nav></header>"
            f"<div class=page><div class=column><h1>{some(5)}</h1>{blocks}</div></div>"
            f"<div class=sidebar><ul>{menu}</ul></div><footer><ul>{menu}</ul></footer>"
        )

    return [page() for _ in range(count)]


def bare_markdown(html: str) -> str:
    """Return a page as Markdown with the least that could be called so."""
    page = LexborHTMLParser(html)
    for node in page.css(_NOISE):
        node.decompose()
    out: list[str] = []
    if page.body is not None:
        _write(page.body, out)
    return "".join(out)


def _write(node: LexborNode, out: list[str]) -> None:
    for child in node.iter(include_text=True):
        tag = child.tag or ""
        if tag == "-text":
            out.append(child.text_content or "")
        elif tag == "a":
            out.append(f"[{child.text()}]({child.attributes.get('href')})")
        else:
            out.append(_OPENING.get(tag, ""))
            _write(child, out)
            out.append(_CLOSING.get(tag, ""))


def measure(rounds: int) -> list[Row]:
    """Return the row of pages, measured here and now."""
    pages = made_pages()
    works: dict[str, Work] = {
        "bare": lambda: [bare_markdown(page) for page in pages],
        "read": lambda: [read_html(page, "https://page.test/", "markdown") for page in pages],
    }
    # the time of this process alone: others want the processor too
    return rows_from(interleaved(works, rounds, time.process_time))


def rows_from(taken: Mapping[str, Sequence[float]]) -> list[Row]:
    """Return the promise about `taken`, the seconds of `bare` and `read` for all pages together."""
    return [Row(what="60 pages read", ours=taken["read"], against="bare writer", floor=taken["bare"], bar=BAR)]
