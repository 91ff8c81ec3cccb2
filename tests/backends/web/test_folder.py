"""The provider `local` finds what is in the files of a folder, as they are now."""

import asyncio
import os
from pathlib import Path

import pytest

from toolcrib.backends.web.search import make_provider
from toolcrib.define.errors import ToolError
from toolcrib.define.web import Http, SearchProvider, WebQuery

from .search_world import Terms

pytestmark = pytest.mark.anyio

FILES = {
    "nuts.md": "Some words first.\n\n# About nuts\n\nWalnuts and hazelnuts grow on trees.",
    "deep/er/page.html": "<title>Bolts &amp; screws</title><script>nuts()</script><p>A bolt needs a <b>nut</b>.</p>",
    "plain.TXT": "rivets hold planes together",
    "latin.txt": "caf\u00e9 au lait",
    "code.py": "nuts = 1",
    ".hidden/secret.txt": "nuts are hidden here",
    ".env.txt": "nuts=secret",
}


def put(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="cp1252" if name == "latin.txt" else "utf-8")


def no_way(base: str) -> Http:
    raise AssertionError("a folder needs no way out")


def local(folder: Path) -> SearchProvider:
    return make_provider(Terms(provider="local", folder=str(folder)), {}, http_for=no_way)


async def titles(provider: SearchProvider, words: str, count: int = 5) -> list[str]:
    found = await provider.search(WebQuery(words=words, count=count))
    return [row["title"] for row in found["results"]]


async def test_files_are_found_by_their_words_best_first(tmp_path: Path) -> None:
    put(tmp_path, FILES)
    provider = local(tmp_path)
    found = await provider.search(WebQuery(words="hazelnuts on a TREE", count=1))
    assert found == {
        "results": [
            {
                "title": "About nuts",
                "url": (tmp_path / "nuts.md").as_uri(),
                "description": "Some words first. # About nuts Walnuts and hazelnuts grow on trees.",
            }
        ]
    }
    assert await titles(provider, "nut") == ["About nuts", "Bolts & screws"]
    assert await titles(provider, "cafe") == ["latin.txt"]
    assert await titles(provider, "rivets, welded") == ["plain.TXT"]
    assert await titles(provider, "planet") == []


@pytest.mark.parametrize(
    "words", ['"', "*", "nuts OR", "NEAR(", "title:nuts", "nuts AND NOT", "'; DROP TABLE page", "^", "-"]
)
async def test_no_words_are_a_language_of_queries(tmp_path: Path, words: str) -> None:
    put(tmp_path, FILES)
    assert set(await titles(local(tmp_path), words)) <= {"About nuts", "Bolts & screws"}


async def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    put(tmp_path, FILES)
    provider = local(tmp_path)
    assert await titles(provider, "zebra") == []
    put(tmp_path, {"new.txt": "a zebra", "plain.TXT": "two zebra stripes"})
    assert sorted(await titles(provider, "zebra")) == ["new.txt", "plain.TXT"]
    (tmp_path / "new.txt").unlink()
    assert await titles(provider, "zebra") == ["plain.TXT"]


async def test_a_page_that_is_made_to_take_long_does_not(tmp_path: Path) -> None:
    pages = (
        "<div>" * 200_000,
        "<" * 900_000,
        "<script>" * 100_000 + "</script>",
        "<a " + "x=1 " * 200_000,
        "&" * 900_000,
    )
    put(tmp_path, {f"{at}.html": f"{page}\n<p>zebra" for at, page in enumerate(pages)})
    async with asyncio.timeout(20):
        assert "0.html" in await titles(local(tmp_path), "zebra")


async def test_links_and_special_files_lead_nowhere(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    put(outside, {"secret.txt": "the zebra is outside"})
    inside = tmp_path / "inside"
    put(inside, {"here.txt": "no such animal"})
    (inside / "link.txt").symlink_to(outside / "secret.txt")
    (inside / "linked").symlink_to(outside)
    os.mkfifo(inside / "pipe.txt")
    assert await titles(local(inside), "zebra") == []


async def test_a_large_file_and_one_with_a_broken_name_are_left_out(tmp_path: Path) -> None:
    put(tmp_path, {"large.txt": "zebra " * 200_000, "small.txt": "zebra", "empty.html": "", "nul.txt": "a\0b zebra"})
    (tmp_path / os.fsdecode(b"\xff.txt")).write_text("zebra")
    assert sorted(await titles(local(tmp_path), "zebra")) == ["nul.txt", "small.txt"]


async def test_more_files_than_are_searched_are_told_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(tmp_path, {f"{number:04}.txt": "zebra" for number in range(2_001)})
    assert await titles(local(tmp_path), "zebra", 1) == ["0000.txt"]
    assert "2000 of its files are" in caplog.text


async def test_what_cannot_be_had_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"web\.search\.folder is no folder: .*; name one"):
        await titles(local(tmp_path / "nowhere"), "zebra")
    with pytest.raises(ToolError, match="local cannot be asked for what is new") as caught:
        await local(tmp_path).search(WebQuery(words="zebra", freshness="pd"))
    assert caught.value.code == "unsupported_freshness"
