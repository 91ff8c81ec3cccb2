"""Deploying a landing page: how long its address lives, its key at a gateway, and the program that is run with it."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("websockets", reason="the extra gateway is not installed")

import yaml
from tests.doors.gateway.canvas_world import fetch
from tests.doors.gateway.world import client_of, gateway_of

import toolcrib
from toolcrib import Crib
from toolcrib.testing import FunctionModel, text_reply

from .landing_world import BUILDER, EXAMPLE, crib_in

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

DOCS = Path(__file__).parents[2] / "docs" / "landing.md"
PLUGINS = {"folders": [str(EXAMPLE)], "landing-builder": {"enabled": True}}


def make_site(folder: Path) -> Path:
    for name in ("site", "other"):
        (folder / name).mkdir(parents=True)
        (folder / name / "index.html").write_text(f"<h1>{name}</h1>")
    return folder


async def deploy(crib: Crib, folder: str = "site", **more: Any) -> Any:
    result = await crib.belt(replace(BUILDER, **more)).call("deploy_preview", {"projectDir": folder})
    assert result.status == "ok", result.plain_text
    return result


async def test_a_gateway_serves_it_under_a_key_of_that_preview_alone(tmp_path: Path) -> None:
    root = make_site(tmp_path / "work")
    (root / "site" / ".env").write_text("SECRET")
    (root / "secret.html").write_text("SECRET")
    config = {"plugins": PLUGINS, "workspace": {"root": str(root)}}
    async with gateway_of(config) as world, client_of(world):
        crib = world.server.crib
        told = (await deploy(crib)).details
        url, key = told["previewUrl"], told["previewUrl"].rstrip("/").rpartition("/")[2]
        assert told == {"previewUrl": url, "deployed": True, "until": "this session ends or the gateway stops"}
        assert len(key) >= 32  # 24 random bytes
        assert ((await fetch(url))[0], (await fetch(url))[2]) == (200, "<h1>site</h1>")
        assert (await deploy(crib)).details["previewUrl"] == url  # deployed again, it stands where it stood
        other = (await deploy(crib, "other")).details["previewUrl"]
        assert (other != url, (await fetch(other))[2]) == (True, "<h1>other</h1>")
        path = f"/p/{key}/"
        for odd in (".env", "../secret.html", "..%2fsecret.html", "../other/index.html", "missing.html"):
            status, _, body = await fetch(url, path + odd)
            assert (status in (400, 404), "SECRET" in body) == (True, False), odd
        for odd in ("/p/", f"/p/{key[:-1]}/", f"/c/{key}/", "/"):
            assert (await fetch(url, odd))[0] == 404, odd
        policy = (await fetch(url))[1]["content-security-policy"]
        assert policy.startswith("sandbox allow-scripts allow-forms; default-src 'none'")


async def test_it_is_gone_when_its_session_ends_and_others_stay(tmp_path: Path) -> None:
    root = make_site(tmp_path / "work")
    config = {"plugins": PLUGINS, "workspace": {"root": str(root)}}
    async with gateway_of(config) as world, client_of(world):
        crib, there = world.server.crib, "agent:landing-builder:there"
        gone = (await deploy(crib)).details["previewUrl"]
        stays = (await deploy(crib, session=there)).details["previewUrl"]
        model = FunctionModel(lambda request: text_reply("done"))
        await crib.turn("hello", caller=BUILDER, session=BUILDER.session or "", model=model).end()
        await crib.ask("sessions.delete", {"key": BUILDER.session}, caller=BUILDER)
        assert ((await fetch(gone))[0], (await fetch(stays))[0]) == (404, 200)


async def test_without_a_gateway_it_says_that_it_ends_with_the_program(tmp_path: Path) -> None:
    async with crib_in(make_site(tmp_path)) as crib:
        told = (await deploy(crib)).details
    assert "`toolcrib run` ends with its answer" in told["until"]


def read_example() -> dict[str, Any]:
    """Return the configuration that the page of the landing builder shows."""
    found = re.search(r"```yaml\n(deploy:\n.*?)```", DOCS.read_text(), re.DOTALL)
    assert found is not None
    return dict(yaml.safe_load(found[1]))


class Person:
    """Somebody who says yes or no to what is asked, and keeps it."""

    def __init__(self, *, says: bool) -> None:
        self.says, self.asked = says, list[Any]()

    async def approve(self, caller: Any, call: Any, reason: str, binding: Any) -> bool:
        self.asked.append((call.name, dict(call.args)))
        return self.says


async def test_the_example_of_the_page_copies_the_folder_and_is_asked_about_as_exec(tmp_path: Path) -> None:
    root = make_site(tmp_path / "work")
    (root / "public").mkdir()
    person = Person(says=True)
    config = {"plugins": PLUGINS, "workspace": {"root": str(root)}, **read_example()}
    async with toolcrib.open(config, approver=person, state=tmp_path / "state") as crib:
        result = await crib.belt(BUILDER).call("deploy_preview", {"projectDir": "site"})
        rows = await crib.ask("audit.tail", {"most": 50}, caller=BUILDER)
    assert result.status == "ok", result.plain_text
    assert [(name, args["command"]) for name, args in person.asked] == [("exec", "cp -r -t public site")]
    assert "cp -r -t public site" in json.dumps(rows)
    assert (root / "public" / "site" / "index.html").read_text() == "<h1>site</h1>"


async def test_a_program_to_which_a_person_says_no_is_not_run(tmp_path: Path) -> None:
    root, person = make_site(tmp_path), Person(says=False)
    (root / "public").mkdir()
    config = {"plugins": PLUGINS, "workspace": {"root": str(root)}, **read_example()}
    async with toolcrib.open(config, approver=person) as crib:
        result = await crib.belt(BUILDER).call("deploy_preview", {"projectDir": "site"})
    assert (result.status, len(person.asked), (root / "public" / "site").exists()) == ("error", 1, False)


async def test_a_program_that_is_denied_is_not_run(tmp_path: Path) -> None:
    root = make_site(tmp_path)
    (root / "public").mkdir()
    async with crib_in(root, **read_example(), tools={"deny": ["exec"]}) as crib:
        result = await crib.belt(BUILDER).call("deploy_preview", {"projectDir": "site"})
    assert result.status == "error"
    assert "deploying it failed" in result.plain_text
    assert not (root / "public" / "site").exists()


async def test_the_folder_is_one_word_whatever_it_is_called(tmp_path: Path) -> None:
    name = "-a b; touch owned"
    (tmp_path / name).mkdir()
    (tmp_path / name / "index.html").write_text("<h1>odd</h1>")
    more = {"deploy": {"run": ["ls"]}, "tools": {"exec": {"security": "full", "ask": "off"}}}
    async with crib_in(tmp_path, **more) as crib:
        result = await crib.belt(BUILDER).call("deploy_preview", {"projectDir": name})
    assert "index.html" in result.plain_text
    assert not (tmp_path / "owned").exists()
