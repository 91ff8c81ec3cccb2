"""Pages made to hurt: whatever they hold, they are read in a time that grows with their length, or told why not."""

import time

import pytest

from toolcrib.tools.web._documents import read_html

FORMATTING = ["b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"]
PAGES = {
    "5 MB of div": "<div>x" * 830_000,
    "divs with ends in their attributes": '<div title="</div>">x' * 50_000,
    "nested b": "<b>" * 100_000 + "x",
    "nested lists": "<ul><li>x" * 50_000,
    "nested quotations": "<blockquote>x" * 12_000,
    "nested tables": "<table><tr><td>x" * 30_000,
    "a table of 2 MB": "<table>" + "<tr><td>abc<td>def" * 110_000,
    "a million paragraphs": "<p>x" * 1_000_000,
    "200,000 attributes": "<p " + " ".join(f"a{at}=1" for at in range(200_000)) + ">x",
    "attributes with ends in quotes": "<p " + " ".join(f'a{at}=">"' for at in range(100_000)) + ">x",
    "formatting that comes back": "<p>" + "".join(f"<b id={at}>" for at in range(3_000)) + "</p>" + "<p>x" * 9_000,
    "the same without names": "<p>" + "".join(f"<{tag}>" * 3 for tag in FORMATTING) + "</p>" + "<p>x" * 12_000,
    "ends of nothing": "<x></y>" * 100_000 + "x",
    "scripts left open": "<script>" * 200_000,
    "comments left open": "<!--" * 500_000,
    "names of menus": "<div class=nav>" * 6_000 + "<p class=menu>x" * 6_000,
    "links in links": "<a href=x>x" * 100_000,
    "quotes left open": "<a b=\"c' d='" * 100_000,
    "options": "<select>" + "<option>x" * 100_000,
    "nothing but <": "<" * 1_000_000,
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_made_to_hurt_is_read_in_bounded_time(name: str) -> None:
    began = time.process_time()
    read_html(PAGES[name], "https://page.test/", "markdown")
    assert time.process_time() - began < 30  # seconds of this process; unguarded, minutes to days


def test_what_is_nested_too_deep_keeps_its_words() -> None:
    told = read_html("<div>" * 5_000 + "<p>the words at the bottom of it all", "https://page.test/", "text")
    assert told.text == "the words at the bottom of it all"


def test_a_large_table_with_cells_left_open_stays_a_table() -> None:
    html = "<title>Rows</title><table><tr><th>A<th>B" + "".join(f"<tr><td>{at}<td>x{at}" for at in range(20_000))
    told = read_html(html, "https://page.test/", "markdown").text
    assert "| A | B |\n| --- | --- |\n| 0 | x0 |" in told
    assert "| 19999 | x19999 |" in told


def test_what_is_hidden_stays_hidden_however_deep_it_is() -> None:
    html = "<div>" * 20_000 + f"<p>seen</p><div hidden><p>{'unseen ' * 200}</p></div>"
    assert read_html(html, "https://page.test/", "text").text == "seen"


def test_a_row_longer_than_all_others_does_not_widen_them() -> None:
    html = "<table><tr>" + "<td>x" * 5_000 + "<tr><td>y" * 5_000
    assert len(read_html(html, "https://page.test/", "markdown").text) < 100_000


def test_an_address_that_is_none_leaves_links_to_the_page_itself() -> None:
    told = read_html('<base href="http://[x"><p>see <a href=y>it</a>', "https://page.test/", "markdown")
    assert told.text == "see [it](https://page.test/y)"
