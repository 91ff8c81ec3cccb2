"""The page around the views: signing in and out, ways between views, appearance, language, a gateway that goes."""

import asyncio
import contextlib
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("websockets", reason="the extra gateway is not installed")

from tests.doors.gateway.canvas_world import browsing
from tests.doors.gateway.world import TOKEN

import toolcrib
from toolcrib.doors.gateway.credentials import Credentials
from toolcrib.doors.gateway.server import GatewayServer
from toolcrib.doors.listener import listen_on

from .conftest import TakePicture
from .page_world import NARROW, NEEDS_CHROMIUM, WIDE, PageWorld, page_of
from .views_world import list_violations

pytestmark = NEEDS_CHROMIUM
VIEWS = {
    "chat": "Chat", "who": "Who may what", "now": "Now", "record": "Record", "usage": "Usage",
    "settings": "Settings", "canvas": "Canvas",
}  # fmt: skip
PATCH = "*** Begin Patch\n*** Update File: greet.py\n@@\n-    print('hi')\n+    print('hello', name)\n*** End Patch"
ANSWER = """`greet` takes a **name** now:

```python
def greet(name):
    print('hello', name)
```

| file | changed |
|---|--:|
| `greet.py` | 1 line |

- [x] the function
- [ ] its callers"""
SAID: list[dict[str, Any]] = [
    {"content": [{"text": "What is in there?"}]},
    {
        "role": "assistant",
        "content": [{"text": "Let me look."}],
        "calls": [{"id": "c", "name": "ls", "args": {"path": "."}, "key": "k"}],
        "finish": "calls",
    },
    {"role": "tool", "content": [{"text": "greet.py\ntests/"}], "call_id": "c"},
    {"role": "assistant", "content": [{"text": "A program, `greet.py`, and its tests."}]},
    {"content": [{"text": "Let it greet by name, please."}]},
    {
        "role": "assistant",
        "calls": [{"id": "d", "name": "apply_patch", "args": {"input": PATCH}, "key": "l"}],
        "finish": "calls",
    },
    {"role": "tool", "content": [{"text": "Changed these files:\nM greet.py"}], "call_id": "d"},
    {"role": "assistant", "content": [{"text": ANSWER}]},
]


async def test_every_view_opens_from_the_navigation_and_by_its_address() -> None:
    async with page_of() as world:
        page = await world.visit()
        for name, words in VIEWS.items():
            await page.get_by_role("link", name=words, exact=True).click()
            await page.locator(f"[data-view={name}].view").wait_for()
            assert f"#/{name}" in page.url
        await page.goto(world.url + "#/who")
        await page.locator("[data-view=who].view").wait_for()


async def test_the_first_view_is_light_and_the_policy_strict() -> None:
    async with page_of() as world:
        page = await world.open()
        sizes: list[int] = []
        policies: list[str] = []

        async def weigh(response: Any) -> None:
            policies.append(response.headers.get("content-security-policy", ""))
            sizes.append((await response.request.sizes())["responseBodySize"])

        page.on("response", weigh)
        await page.goto(world.url + world.server.crib.devices.new_page_code()["path"][1:])
        await page.get_by_role("textbox", name="Message").wait_for()
        await page.wait_for_load_state("networkidle")
        assert 0 < sum(sizes) < 150_000, sizes
        assert all("default-src 'none'" in each and "unsafe" not in each for each in policies), policies
        assert "code=" not in page.url
        # all of its modules are asked for at once, not one after the other as they name each other
        asked = await page.evaluate(
            "performance.getEntriesByType('resource').map((each) => new URL(each.name).pathname)"
        )
        named = await page.locator("link[rel=modulepreload]").evaluate_all("(all) => all.map((each) => each.href)")
        hrefs = {urlsplit(each).path for each in named}
        assert {each for each in asked if each.endswith(".js")} - {"/app.js"} == hrefs


async def test_a_browser_stays_signed_in_and_out() -> None:
    async with page_of() as world:
        page = await world.visit(await world.tell("agent:main:kept", SAID))
        await page.get_by_role("article").get_by_text("What is in there?").wait_for()
        await page.reload()
        await page.get_by_role("article").get_by_text("What is in there?").wait_for()
        await page.goto("about:blank")
        await page.goto(world.url + "#code=of-yesterday")
        await page.locator(".view.chat").wait_for()
        await page.goto(world.url + "#/chat/agent:main:kept")
        await page.get_by_role("article").get_by_text("What is in there?").wait_for()
        await page.get_by_label("Page menu").click()
        await page.get_by_role("button", name="Sign out").click()
        await page.get_by_label("Token").wait_for()
        assert "What is in there?" not in await page.content()
        await page.reload()
        await page.get_by_label("Token").fill(TOKEN)  # kept in memory alone
        await page.keyboard.press("Enter")
        await page.get_by_text("What is in there?").first.wait_for()
        world.complaints.clear()  # that the cookie of before no longer counts may be said


async def test_a_revoked_page_shows_nothing_more() -> None:
    async with page_of() as world:
        page = await world.visit(await world.tell("agent:main:kept", SAID))
        await page.get_by_role("article").get_by_text("What is in there?").wait_for()
        (device,) = (await world.ask("device.pair.list"))["paired"]
        await world.ask("device.token.revoke", deviceId=device["deviceId"])
        await page.get_by_label("Token").wait_for()
        assert "What is in there?" not in await page.content()
        await page.reload()
        await page.get_by_label("Token").wait_for()


async def test_a_lost_gateway_is_said_and_mended_by_itself(tmp_path: Path) -> None:
    with contextlib.closing(listen_on(0)) as at:
        port = at.getsockname()[1]

    @contextlib.asynccontextmanager
    async def serving(browser: Any) -> Any:
        crib = toolcrib.open({}, state=tmp_path / "state", env={})
        server = GatewayServer(crib, Credentials("token", TOKEN, {}))
        with contextlib.closing(listen_on(port)) as at:
            task = asyncio.ensure_future(server.serve(at))
            try:
                yield PageWorld(server, browser, port)
            finally:
                task.cancel()
                await asyncio.wait([task])

    async with browsing() as browser:
        async with serving(browser) as world:
            page = await world.visit("#/chat/main")
            await page.get_by_role("textbox", name="Message").fill("list .")
            await page.keyboard.press("Enter")
            await page.get_by_role("article", name="Assistant").wait_for()
        await page.get_by_text("The gateway is lost.").wait_for()
        await page.get_by_role("textbox", name="Message").fill("list .")
        await page.keyboard.press("Enter")  # waits until there is somebody to hear it
        async with serving(browser) as world:
            await page.get_by_text("The gateway is lost.").wait_for(state="hidden")
            await page.get_by_role("article", name="Assistant").nth(1).wait_for()
            assert await page.get_by_role("article", name="You").count() == 2
            told = await world.ask("chat.history", sessionKey="main")
            assert [each["role"] for each in told["messages"]].count("user") == 2
        await page.get_by_text("The gateway is lost.").wait_for()
        await page.get_by_role("link", name="Usage").click()  # nobody has loaded that view before
        await page.get_by_text("This view could not be shown").wait_for()
        async with serving(browser):
            await page.locator("[data-view=usage].view").wait_for()


async def test_appearance_and_language_are_chosen_and_stay() -> None:
    async with page_of() as world:
        page = await world.visit("#/chat/main", color_scheme="light")
        light = await page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        await page.get_by_label("Page menu").click()
        await page.get_by_label("Appearance").select_option("dark")
        dark = await page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        assert (light, dark) == ("rgb(255, 255, 255)", "rgb(20, 22, 26)")
        await page.get_by_label("Language").select_option("uk")
        await page.get_by_role("link", name="Чат").wait_for()
        await page.reload()
        await page.get_by_role("textbox", name="Повідомлення").wait_for()
        assert await page.evaluate("() => getComputedStyle(document.body).backgroundColor") == dark
        words = await page.evaluate(
            """async () => Promise.all(['en', 'uk'].map(async (each) => {
                const { default: table } = await import(`/words/${each}.js`);
                const values = (said) => [...new Set(said.match(/\\{\\w+\\}/g) ?? [])].sort().join();
                return Object.fromEntries(Object.entries(table).map(([key, said]) => [key, values(said)]));
            }))"""
        )
        assert words[0] == words[1]  # every sentence, with the same values in it


async def test_all_of_it_is_reached_by_the_keyboard() -> None:
    async with page_of() as world:
        page = await world.visit("#/chat/main")
        await page.keyboard.press("Tab")
        await page.locator("main").focus()
        for at, name in enumerate(VIEWS):
            await page.keyboard.press(str(at + 1))
            await page.locator(f"[data-view={name}].view").wait_for()
            await page.locator("main").focus()
        await page.keyboard.press("?")
        await page.get_by_role("dialog", name="Keyboard shortcuts").wait_for()
        await page.keyboard.press("Escape")
        await page.get_by_role("dialog").wait_for(state="detached")
        await page.keyboard.press("1")
        await page.get_by_role("textbox", name="Message").wait_for()
        await page.locator("main").focus()
        await page.keyboard.press("s")
        assert await page.evaluate("() => document.activeElement.type") == "search"
        await page.locator("main").focus()
        await page.keyboard.press("n")
        await page.wait_for_url(re.compile("#/chat/page-"))
        await page.get_by_label("Page menu").focus()
        await page.keyboard.press("Enter")
        await page.keyboard.press("Tab")
        assert await page.evaluate("() => document.activeElement.tagName") == "SELECT"
        await page.keyboard.press("Escape")
        assert await page.evaluate("() => document.activeElement.tagName") == "SUMMARY"


RULES = """\
# who may do what in this house
owners: [id:1]
roles:
  kids: [id:8, id:9]
tools:
  ask: [write, effect:execute]
  deny: [{ tool: group:fs, when: { path: "taxes/**" } }]
channels:
  telegram:
    groups:
      "-100":
        tools: { deny: [group:runtime] }
        toolsBySender: { role:kids: { deny: [group:runtime, group:web] } }
quotas:
  - { who: role:kids, per: day, calls: 50 }
expect:
  - caller: { channel: telegram, group: "-100", sender: id:8 }
    has: [message]
    lacks: [exec, web_fetch]
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_no_view_is_hard_to_use_for_anybody(scheme: Any, picture: TakePicture, tmp_path: Path) -> None:
    (tmp_path / "crib.yaml").write_text(RULES)
    async with page_of(tmp_path / "crib.yaml", state=tmp_path / "state") as world:
        job = {"schedule": {"kind": "cron", "expr": "0 8 * * 1-5"}, "sessionTarget": "main"}
        await world.ask("cron.add", name="read the news", payload={"kind": "systemEvent", "text": "news"}, **job)
        await world.ask("agent", message="list .", sessionKey="main", idempotencyKey="k1")
        await world.ask("agent.wait", runId="k1", timeoutMs=60_000)
        page = await world.visit(await world.tell("agent:main:kept", SAID), color_scheme=scheme)
        await page.get_by_role("article").first.wait_for()
        await page.evaluate("() => document.querySelectorAll('.item details').forEach((each) => (each.open = true))")
        for size in (WIDE, NARROW):
            await page.set_viewport_size(size)
            assert await list_violations(page) == []
            for name in VIEWS:
                await page.goto(f"{world.url}#/{name}" + ("/agent:main:kept" if name == "chat" else ""))
                await page.locator(f"[data-view={name}].view").wait_for()
                if name == "chat":
                    await page.get_by_role("article").first.wait_for()
                assert (name, await list_violations(page)) == (name, [])
                if (scheme, size) == ("light", WIDE) or (scheme, size, name) == ("dark", NARROW, "chat"):
                    await picture(page, f"{name}-{scheme}")
            assert await page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
        await page.goto(f"{world.url}#/chat/main")
        await page.get_by_role("textbox", name="Message").fill("write a to b.txt")
        await page.keyboard.press("Enter")
        await page.get_by_role("dialog").get_by_label("for some time").check()
        assert await list_violations(page) == []
        await page.set_viewport_size(WIDE)
        if scheme == "light":
            await picture(page, "question-light")
