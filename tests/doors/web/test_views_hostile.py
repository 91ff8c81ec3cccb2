"""200 strings that want to be more than text, in every view: names, rules, arguments, jobs, models, addresses."""

import contextlib
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

pytest.importorskip("websockets", reason="the extra gateway is not installed")

from tests.doors.gateway.test_nodes import nodes_of
from tests.doors.gateway.world import client_of

from toolcrib import Caller, Sender, ToolError

from .hostile import FORBIDDEN, HOSTILE
from .page_world import NEEDS_CHROMIUM, PageWorld, page_of
from .views_world import socket_of

pytestmark = NEEDS_CHROMIUM
PLAIN = [
    each.replace("${", "$${") for each in HOSTILE if each.isprintable() and len(each) <= 200
]  # what a name in a file may be


def make_config() -> dict[str, Any]:
    """Return a configuration with hostile names wherever one may be written."""
    groups = {each: {"tools": {"deny": ["exec"]}} for each in PLAIN}
    callers = [{"channel": "telegram", "group": each, "sender": f"name:{each}"} for each in PLAIN]
    expect = [{"caller": each, "lacks": ["exec"], "has": ["gateway"]} for each in callers]
    return {"channels": {"telegram": {"enabled": False, "groups": groups}}, "expect": expect}


async def keep_usage(world: PageWorld) -> None:
    """Keep a session whose models and tools have hostile names."""
    now = time.time()
    lines: list[Mapping[str, Any]] = [
        {"type": "session", "version": 1, "key": "agent:main:h", "made_at": now, "changed_at": now}
    ]
    for at, text in enumerate(HOSTILE):
        call = {"id": f"c{at}", "name": text.replace("\0", ""), "args": {}, "key": f"k{at}"}
        message = {
            "role": "assistant",
            "content": [{"text": "x"}],
            "calls": [call],
            "finish": "calls",
            "by": call["name"],
        }
        took = {"usage": {"input": at, "output": 1}, "cost": 0.01}
        lines.append(
            {
                "type": "said",
                "id": f"m{at}",
                "parent": f"m{at - 1}" if at else None,
                "at": now,
                "message": message,
                **took,
            }
        )
    lines.append(
        {
            "type": "ended",
            "id": "e",
            "parent": f"m{len(HOSTILE) - 1}",
            "at": now,
            "reason": "done",
            "sentence": "",
            **took,
        }
    )
    await world.ask("sessions.import", texts=[json.dumps(line) for line in lines])


async def test_hostile_strings_in_every_view_run_nothing(tmp_path: Path) -> None:
    path = tmp_path / "crib.json"
    path.write_text(json.dumps(make_config()))
    path.chmod(0o600)
    about = {
        "client": {
            "id": "node-host",
            "version": HOSTILE[0],
            "platform": HOSTILE[1],
            "mode": "node",
            "displayName": HOSTILE[2],
        }
    }
    async with (
        page_of(path, state=tmp_path / "state", devices=nodes_of("p1")) as world,
        client_of(socket_of(world), "token-of-p1", role="node", caps=[], commands=["camera.snap"], **about),
    ):
        for at, text in enumerate(HOSTILE):
            belt = world.server.crib.belt(Caller(channel="telegram", group=text, sender=Sender(id="7", name=text)))
            await belt.call("read" if at % 2 else text, {"path": text, text: text})
            job = {
                "schedule": {"kind": "every", "everyMs": 86_400_000},
                "payload": {"kind": "agentTurn", "message": text},
            }
            with contextlib.suppress(ToolError):
                await world.ask("cron.add", name=text, **job)
        await keep_usage(world)
        page = await world.visit()
        one, two, three = (quote(each, safe="") for each in HOSTILE[1:4])
        group = quote(f"channel=telegram&group={quote(PLAIN[0])}", safe="")
        shown = {
            "now": ".calendar", "record": "tbody tr >> nth=99", "usage": ".bars li >> nth=19",
            "settings": "tbody tr >> nth=99", "who": ".findings li >> nth=50", f"who/{group}": ".ways",
            f"who/{three}": ".ways", f"settings/{one}/{two}": "textarea", f"canvas/{two}": "button",
        }  # fmt: skip
        for view, ready in shown.items():
            await page.goto(f"{world.url}#/{view}")
            await page.locator(f".view.{view.partition('/')[0]} >> {ready}").first.wait_for()
            await page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
            assert await page.locator(FORBIDDEN).count() == 0, view
            assert await page.evaluate("window.ran") is None, view
            if view in ("now", "record", "usage", "settings", "who"):
                assert "window.ran=1" in await page.locator(".view").inner_text(), view
        await page.goto(f"{world.url}#/record")
        await page.get_by_role("table").get_by_role("button").first.click()
        await page.get_by_role("button", name="Judge it again by today's rules").click()
        await page.get_by_text("decided the same").or_(page.get_by_text("decided differently")).first.wait_for()
        assert await page.locator(FORBIDDEN).count() == 0
        assert await page.evaluate("window.ran") is None
