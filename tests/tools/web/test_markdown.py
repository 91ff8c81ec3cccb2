"""From elements to Markdown, and to plain text."""

import pytest

from toolcrib.tools.web._documents import read_html


def write(html: str, base: str = "https://page.test/a/b.html") -> str:
    return read_html(html, base, "markdown").text


@pytest.mark.parametrize(
    ("html", "markdown"),
    [
        ("<h1>T</h1><p>a <b>b</b></p><ul><li>x</li><li>y</li></ul>", "# T\n\na **b**\n\n- x\n- y"),
        ("<h3>  spaced   <i>x</i></h3>", "### spaced *x*"),
        ("<ul><li>a<ul><li>b<ol start=3><li>c<li>d</ol></ul><li>e</ul>", "- a\n  - b\n    3. c\n    4. d\n- e"),
        ("<ul><li><p>one<p>two</ul>", "- one\n\n  two"),
        ("<pre>  keep\n    indent</pre>", "```\n  keep\n    indent\n```"),
        ("<pre><code class='language-py'>a &lt; b\n```\n</code></pre>", "````py\na < b\n```\n````"),
        ("<p>run <code>a  b</code> or <code>`x`</code></p>", "run `a b` or `` `x` ``"),
        ("<p>one<br>two<br><br>three</p>", "one\ntwo\nthree"),
        ("<blockquote><p>a<blockquote>b</blockquote></blockquote>c", "> a\n>\n> > b\n\nc"),
        ("<dl><dt>term<dd>meaning<dd>another</dl>", "term\n: meaning\n: another"),
        ("<table><tr><th>A<th>B<tr><td>1|2<td><b>3</b></table>", "| A | B |\n| --- | --- |\n| 1\\|2 | **3** |"),
        ("<table><tr><td><p>left<p>more<td><ul><li>right</ul></table>", "left\n\nmore\n\n- right"),
        ("<p><b>a <strong>b</strong></b><i> c </i>d</p>", "a **b** *c* d"),
        ("<p>x<s>gone</s> <q>said</q></p>", 'x~~gone~~ "said"'),
        ("<div>loose text<p>paragraph</p>tail</div>", "loose text\n\nparagraph\n\ntail"),
    ],
)
def test_each_element_has_its_form(html: str, markdown: str) -> None:
    assert write(html) == markdown


@pytest.mark.parametrize(
    ("href", "address"),
    [
        ("c.html", "https://page.test/a/c.html"),
        ("/x/../y?q=1&amp;r=2", "https://page.test/y?q=1&r=2"),
        ("//other.test/p", "https://other.test/p"),
        ("https://other.test/a b(c)", "https://other.test/a%20b%28c%29"),
        ("mailto:me@page.test", "mailto:me@page.test"),
    ],
)
def test_links_and_pictures_are_absolute(href: str, address: str) -> None:
    assert write(f'<p>see <a href="{href}">it</a> and') == f"see [it]({address}) and"
    if not href.startswith("mailto"):
        assert write(f'<p>see <img src="{href}" alt="a  b"> and') == f"see ![a b]({address}) and"


@pytest.mark.parametrize("href", ["javascript:alert(1)", "data:text/html,x", "#below", "", "http://[bad"])
def test_a_link_that_leads_nowhere_is_its_words(href: str) -> None:
    assert write(f'<p>see <a href="{href}">it</a>') == "see it"


def test_the_base_of_a_page_holds_for_its_links() -> None:
    assert write('<base href="/docs/"><p>see <a href=x>it</a>') == "see [it](https://page.test/docs/x)"


def test_plain_text_has_no_marks() -> None:
    html = "<h2>T</h2><p>a <b>b</b> <a href=/x>c</a> <code>d</code><ul><li>e</ul><table><tr><td>1<td>2</table>"
    assert read_html(html, "https://page.test/", "text").text == "T\n\na b c d\n\ne\n\n1\t2"
