"""The landing-page builder at work, in a real Chromium: what its tools see in a page, and who may have them look."""

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import toolcrib
from toolcrib import OWNER, Caller, Image, Result
from toolcrib.testing import FunctionModel, text_reply

from .landing_world import BUILDER, EXAMPLE, crib_in

pytestmark = pytest.mark.anyio

ALL = ["accessibility", "performance", "responsive", "seo", "links"]
GOOD = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Nightjar, a clock</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="description" content="Nightjar is a quiet alarm clock that wakes you with light instead of noise.">
</head><body><main><h1>Nightjar</h1><p>A clock.</p></main></body></html>"""
BAD = """<!doctype html><html><head><script src="late.js"></script>
<link rel="stylesheet" href="https://cdn.test/tailwind.css"></head><body>
<div id="wide" style="width: 900px">wide</div><h1>One</h1><h1>Two</h1>
<p style="color: #ccc; font-size: 10px" class="pale">Pale</p><img src="nowhere.png">
<a href="#nothing">a</a> <a href="gone.html">There is more of it on another page</a><button></button><a href="#">x</a>
<a href="https://dead.test/">dead</a>
</body></html>"""
FAULTS = {
    "accessibility": {"button-name", "color-contrast", "html-has-lang", "image-alt"},
    "performance": {"blocking-script", "outside-resource", "image-size"},
    "responsive": {"horizontal-scroll", "viewport", "target-size", "small-text"},
    "seo": {"document-title", "meta-description", "one-h1", "html-lang"},
    "links": {"missing-anchor", "broken-link", "empty-link", "broken-image"},
}


def rules(result: Result, check: str) -> set[str]:
    return {each["rule"] for each in result.details["issues"] if each["check"] == check}


async def test_every_kind_of_fault_is_found_and_named(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(BAD)
    async with crib_in(tmp_path) as crib:
        result = await crib.belt(BUILDER).call("validate_page", {"checks": ALL})
    told = result.details
    assert {check: FAULTS[check] - rules(result, check) for check in ALL} == {check: set() for check in ALL}
    assert told["score"] < 60
    assert all(told["scores"][check] < 100 for check in ALL)
    wide = next(each for each in told["issues"] if each["rule"] == "horizontal-scroll" and each["viewport"] == "mobile")
    assert (wide["targets"], wide["impact"]) == (["#wide"], "serious")
    assert "900 px" not in wide["fix"]
    assert not any(each["rule"] == "horizontal-scroll" and each.get("viewport") == "desktop" for each in told["issues"])
    assert any("https://dead.test/ could not be checked" in each for each in told["suggestions"])
    assert "Source: preview:http://127.0.0.1:" in result.plain_text  # what stands in a page may be from anywhere


async def test_a_good_page_has_no_issue_and_only_what_was_asked_for_is_checked(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(GOOD)
    async with crib_in(tmp_path) as crib:
        belt = crib.belt(BUILDER)
        good = (await belt.call("validate_page", {"checks": [*ALL, "seo"]})).details
        assert (good["score"], good["issues"], good["measured"]["requests"]) == (100, [], good["measured"]["requests"])
        (tmp_path / "index.html").write_text(BAD)
        seo = await belt.call("validate_page", {"checks": ["seo"]})
        assert {each["check"] for each in seo.details["issues"]} == {"seo"}
        refused = await belt.call("validate_page", {"checks": []})
        assert (refused.status, refused.details["code"]) == ("error", "bad_arguments")


async def test_a_screenshot_has_the_size_of_its_viewport_and_says_what_is_seen(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(BAD)
    async with crib_in(tmp_path) as crib:
        belt = crib.belt(BUILDER)
        for args, name, sides in (
            ({}, "desktop", (1440, 900)),
            ({"viewport": "tablet"}, "tablet", (768, 1024)),
            ({"viewport": "mobile"}, "mobile", (375, 812)),
        ):
            result = await belt.call("preview_screenshot", args)
            (picture,) = [part for part in result.content if isinstance(part, Image)]
            assert (picture.mime, picture.sides) == ("image/png", sides)
            assert result.plain_text.startswith(f"MEDIA:screenshots/{name}.png\nScreenshot taken ({name} viewport)")
            assert (tmp_path / "screenshots" / f"{name}.png").read_bytes() == picture.data
            assert result.details["scrollsSideways"] is (name != "desktop")
            assert any("nowhere.png (404)" in each for each in result.details["notLoaded"])


async def test_the_list_of_the_document_works_as_it_is_written(tmp_path: Path) -> None:
    agents = {"landing-builder": {"tools": {"allow": ["write_html", "screenshot", "deploy"]}}}
    async with crib_in(tmp_path, agents=agents) as crib:
        belt = crib.belt(BUILDER)
        assert sorted(belt.tools) == ["deploy", "screenshot", "write_html"]
        assert (await belt.call("write_html", {"filename": "index.html", "content": GOOD})).status == "ok"
        assert (await belt.call("screenshot", {})).details["path"] == "screenshots/desktop.png"
        assert (await belt.call("deploy", {"projectDir": "."})).details["deployed"] is True


async def test_a_copy_of_the_folder_is_a_project_of_its_own(tmp_path: Path) -> None:
    copy = shutil.copytree(EXAMPLE, tmp_path / "my_builder", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "pages").mkdir()
    text = (copy / "crib.yaml").read_text()
    assert "workspace: ~/landing" in text
    (copy / "crib.yaml").write_text(text.replace("~/landing", str(tmp_path / "pages")))
    async with toolcrib.open(copy / "crib.yaml") as crib:
        belt = crib.belt(BUILDER)
        assert sorted(belt.tools) == ["deploy", "screenshot", "validate_page", "write_html"]
        assert (await belt.call("write_html", {"filename": "index.html", "content": GOOD})).status == "ok"
    assert (tmp_path / "pages" / "index.html").read_text() == GOOD


async def test_without_a_mention_there_are_four_tools_and_the_agent_alone_has_the_prompt(tmp_path: Path) -> None:
    async with crib_in(tmp_path) as crib:
        ours = [name for name, tool in crib.belt(BUILDER).tools.items() if tool.source == "plugin:landing-builder"]
        assert sorted(ours) == ["deploy_preview", "preview_screenshot", "validate_page", "write_html"]
        model = FunctionModel(lambda request: text_reply("done"))
        for caller in (BUILDER, replace(OWNER, agent="main", session="agent:main:test")):
            await crib.turn("hello", caller=caller, session=caller.session or "", model=model).end()
    systems = [each.system.startswith("You are a landing page builder.") for each in model.asked]
    assert systems == [True, False]


async def test_who_is_not_the_owner_is_told_that_the_browser_is_the_owners(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(GOOD)
    guest = Caller(agent="landing-builder", session="agent:landing-builder:guest", channel="telegram", owner=False)
    async with crib_in(tmp_path) as crib:
        result = await crib.belt(guest).call("preview_screenshot", {})
        assert (result.status, result.details["code"]) == ("error", "denied")
        for origin in (
            "http://10.0.0.1:80",
            "http://127.0.0.1",
            "http://127.0.0.1:80/x",
            "http://127.0.0.1:80@evil.test:1",
        ):
            with pytest.raises(Exception, match="is no preview; name an origin like"):
                await crib.ask("browser.permit", {"origin": origin}, caller=BUILDER)


async def test_a_page_reaches_no_other_port_of_this_machine(tmp_path: Path) -> None:
    reached: list[str] = []

    def note(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.append(str(writer.get_extra_info("peername")))
        writer.close()

    server = await asyncio.start_server(note, "127.0.0.1", 0)
    there = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    sneak = (
        f"<script>fetch('{there}', {{mode: 'no-cors'}}); new WebSocket('{there.replace('http', 'ws')}');"
        f"setTimeout(() => {{ location = '{there}' }}, 0)</script><img src='{there}'><iframe src='{there}'></iframe>"
    )
    (tmp_path / "index.html").write_text(GOOD.replace("<p>", f"{sneak}<p>"))
    async with server, crib_in(tmp_path) as crib:
        await crib.belt(BUILDER).call("preview_screenshot", {})
        await crib.belt(BUILDER).call("validate_page", {"checks": ALL})
    assert reached == []


async def test_a_page_that_never_answers_fails_in_words_and_the_next_call_works(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(GOOD.replace("<p>", "<script>onload = () => { for (;;); }</script><p>"))
    async with crib_in(tmp_path) as crib:
        result = await crib.belt(BUILDER).call("preview_screenshot", {})
        assert (result.status, result.details["code"]) == ("error", "timeout")
        (tmp_path / "index.html").write_text(GOOD)
        assert (await crib.belt(BUILDER).call("preview_screenshot", {})).status == "ok"
