"""Chat in a real browser: answers and cards, what is said while a turn runs, sessions, attachments, many messages."""

import asyncio
import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("websockets", reason="the extra gateway is not installed")

from toolcrib import Ctx, Result, tool

from .hostile import FORBIDDEN, HOSTILE
from .page_world import NARROW, NEEDS_CHROMIUM, PageWorld, page_of

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = NEEDS_CHROMIUM
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@tool
async def show(ctx: Ctx, text: str) -> Result:
    """Show people something in Markdown."""
    return Result.text("shown", display=text)


@tool
async def paint(ctx: Ctx) -> Result:
    """Paint a point."""
    return Result.image(PIXEL, label="a point")


class Gate:
    """A tool that waits until the test lets it go on, and tells how far it is."""

    def __init__(self) -> None:
        self.entered, self.go = asyncio.Event(), asyncio.Event()

    def make(self) -> Any:
        @tool
        async def wait(ctx: Ctx) -> Result:
            """Wait for the test."""
            ctx.progress(Result.text("half way there"))
            self.entered.set()
            await self.go.wait()
            return Result.text("through the gate")

        return wait


async def say(page: "Page", text: str) -> None:
    """Write something and send it."""
    await page.get_by_role("textbox", name="Message").fill(text)
    await page.keyboard.press("Enter")


async def call(page: "Page", name: str, **args: Any) -> None:
    """Have the model that needs no key call a tool."""
    await say(page, f"{name} {json.dumps(args)}")


ROWS = """() => [...document.querySelectorAll('.item')]
    .sort((a, b) => a.ariaPosInSet - b.ariaPosInSet)
    .map((row) => row.querySelector('.plain, .markdown, summary strong, .note')?.textContent ?? '')
    .map((words) => words.replace(/\\(Offline rules.*/, ''))"""


async def read_rows(page: "Page") -> list[str]:
    """Return what the rows that are shown say, in the order in which they stand, without times."""
    rows: list[str] = await page.evaluate(ROWS)
    return rows


async def wait_for_rows(page: "Page", *wanted: str) -> None:
    """Wait until these rows are shown, and no others."""
    same = f"(wanted) => JSON.stringify(({ROWS})()) === JSON.stringify(wanted)"
    await page.wait_for_function(same, arg=list(wanted))


async def test_each_call_is_a_card_with_what_was_asked_why_it_ran_and_what_came_of_it() -> None:
    Path("a.txt").write_text("one\ntwo\n")
    gate = Gate()
    async with page_of(tools=[show, paint, gate.make()]) as world:
        page = await world.visit("#/chat/main")
        await call(page, "edit", path="a.txt", oldText="two", newText="three")
        card = page.get_by_role("article", name="Call of edit")
        assert "passes every layer" in await card.locator(".verdict").inner_text()
        assert await card.locator("dd").all_inner_texts() == ["a.txt", "two", "three"]
        assert (await card.locator(".added").inner_text()).strip() == "+three"
        assert (await card.locator(".removed").inner_text()).strip() == "-two"
        await card.get_by_text(" s", exact=False).first.wait_for()

        await call(page, "show", text="| a |\n|---|\n| *b* |\n\n<b>no</b>")
        card = page.get_by_role("article", name="Call of show")
        assert await card.locator("td em").inner_text() == "b"
        assert "<b>no</b>" in await card.locator(".markdown").inner_text()

        await call(page, "paint")
        picture = page.get_by_role("article", name="Call of paint").get_by_role("img", name="Picture")
        await picture.wait_for()
        assert await picture.evaluate("(each) => each.decode().then(() => each.naturalWidth)") == 1

        await call(page, "wait")
        card = page.get_by_role("article", name="Call of wait")
        await card.get_by_text("half way there").wait_for()
        gate.go.set()
        await card.get_by_text("through the gate").wait_for()

        # whoever comes later sees the same calls, and may ask why
        await page.reload()
        card = page.get_by_role("article", name="Call of edit")
        await card.wait_for()


async def test_a_turn_that_runs_is_steered_added_to_and_stopped() -> None:
    gate = Gate()
    async with page_of(tools=[gate.make(), show]) as world:
        page = await world.visit("#/chat/main")
        await call(page, "wait")
        await page.get_by_role("button", name="Stop").wait_for()
        await call(page, "show", text="steered")
        await gate.entered.wait()
        steered = page.get_by_role("article", name="You").filter(has_text="steered")
        await steered.get_by_text("waiting").wait_for()
        await page.get_by_role("textbox", name="Message").fill('show {"text": "then"}')
        await page.get_by_role("button", name="Then").click()
        gate.go.set()
        await page.get_by_role("article", name="Call of show").nth(1).wait_for()
        assert [row for row in await read_rows(page) if "{" in row or row in ("wait", "show")] == [
            "wait {}", "wait", 'show {"text": "steered"}', "show", 'show {"text": "then"}', "show",
        ]  # fmt: skip
        await page.get_by_role("button", name="Stop").wait_for(state="hidden")
        assert await page.get_by_text("waiting").count() == 0

        gate.go.clear()
        gate.entered.clear()
        await call(page, "wait")
        await gate.entered.wait()
        await page.get_by_role("button", name="Stop").click()
        await page.get_by_role("button", name="Stop").wait_for(state="hidden")
        await page.locator(".note").last.wait_for()


async def test_a_turn_that_runs_fits_a_narrow_screen_in_the_longest_words() -> None:
    gate = Gate()
    async with page_of(tools=[gate.make()]) as world:
        page = await world.visit("#/chat/main", viewport=NARROW, locale="uk-UA")
        await page.locator("textarea").fill("wait {}")
        await page.keyboard.press("Enter")
        await gate.entered.wait()
        await page.get_by_role("button", name="Скерувати").wait_for()
        right = "(each) => each.getBoundingClientRect().right"
        assert await page.locator(".composer").evaluate(right) <= NARROW["width"]
        gate.go.set()


async def test_sessions_are_found_named_branched_and_deleted() -> None:
    async with page_of() as world:
        await world.tell("agent:main:one", [{"content": [{"text": "about apples"}]}], "Apples")
        pears = ["about pears", "about plums"]
        await world.tell("agent:main:two", [{"content": [{"text": each}]} for each in pears], "Pears")
        page = await world.visit()
        sessions = page.get_by_role("complementary", name="Sessions")
        await sessions.get_by_role("searchbox").fill("appl")
        await sessions.get_by_role("link", name="Pears").wait_for(state="detached")
        await sessions.get_by_role("link", name="Apples").click()
        await page.get_by_text("about apples").wait_for()
        await page.get_by_role("heading", name="Apples", exact=True).wait_for()

        await sessions.get_by_label("Actions for Apples").click()
        await sessions.get_by_role("button", name="Branch").click()
        branch = sessions.get_by_role("link", name="Branch of Apples")
        await branch.wait_for()
        await page.get_by_text("about apples").wait_for()
        assert "branch" in page.url

        await sessions.get_by_label("Actions for Branch of Apples").click()
        await sessions.get_by_role("button", name="Rename").click()
        await page.get_by_role("dialog").get_by_role("textbox").fill("Green apples")
        await page.keyboard.press("Enter")
        await sessions.get_by_role("link", name="Green apples").wait_for()

        await sessions.get_by_label("Actions for Green apples").click()
        await sessions.get_by_role("button", name="Delete").click()
        await page.keyboard.press("Escape")
        await sessions.get_by_role("button", name="Delete").click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await sessions.get_by_role("link", name="Green apples").wait_for(state="detached")
        await page.goto(world.url + "#/chat/agent:main:two")
        await page.get_by_role("article").filter(has_text="about plums").get_by_role("button", name="Branch").click()
        await page.get_by_role("article").filter(has_text="about plums").wait_for(state="detached")
        await wait_for_rows(page, "about pears")
        assert "branch" in page.url
        await world.ask("sessions.delete", key=(await world.ask("sessions.list"))["sessions"][0]["key"])
        left = await world.ask("sessions.list")
        assert sorted(each["title"] for each in left["sessions"]) == ["Apples", "Pears"]


async def test_sessions_of_long_ago_are_reached_and_a_new_one_is_called_so() -> None:
    async with page_of() as world:
        for at in range(70):
            await world.tell(f"agent:main:s{at}", [{"content": [{"text": f"words {at}"}]}])
        page = await world.visit()
        sessions = page.get_by_role("complementary", name="Sessions")
        await sessions.get_by_role("link").nth(59).wait_for()
        await sessions.get_by_role("button", name="Older").click()
        await sessions.get_by_role("link").nth(69).wait_for()
        assert await sessions.get_by_role("button", name="Older").count() == 0
        await sessions.get_by_role("searchbox").fill("words 69")  # nobody gave it a name
        await sessions.get_by_role("link", name="words 69").click()
        await page.get_by_role("heading", name="words 69").wait_for()
        await sessions.get_by_role("button", name="New session").click()
        await page.get_by_role("heading", name="New session").wait_for()


async def test_who_names_a_session_by_the_keyboard_stays_at_it() -> None:
    async with page_of() as world:
        await world.tell("agent:main:one", [{"content": [{"text": "about apples"}]}], "Apples")
        page, listed = await world.open(), asyncio.Queue[str]()
        page.on("websocket", lambda each: each.on("framereceived", lambda frame: listed.put_nowait(str(frame))))
        await page.goto(world.url + world.server.crib.devices.new_page_code()["path"][1:])
        sessions = page.get_by_role("complementary", name="Sessions")
        await sessions.get_by_label("Actions for Apples").press("Enter")
        await page.keyboard.press("Tab")
        # a session that comes meanwhile takes away no menu that somebody uses
        await world.ask("chat.send", sessionKey="two", message="pears", idempotencyKey="two")
        while "agent:main:two" not in (frame := await listed.get()) or '"sessions"' not in frame:
            pass
        await page.evaluate("() => new Promise(requestAnimationFrame)")
        assert await sessions.get_by_role("button", name="Rename").evaluate("(it) => it === document.activeElement")
        await page.keyboard.press("Enter")
        await page.get_by_role("dialog").get_by_role("textbox").fill("Green")
        await page.keyboard.press("Enter")
        await sessions.get_by_role("link", name="pears").wait_for()
        await sessions.get_by_role("link", name="Green").and_(page.locator(":focus")).wait_for()


async def test_what_is_written_and_not_sent_is_kept_and_comes_back_beside_what_was_refused() -> None:
    async with page_of() as world:
        page, held = await world.open(), list[tuple[Any, str]]()

        def takes(route: Any, message: str) -> bool:
            asked = json.loads(message)
            if is_send := bool(asked["method"] == "chat.send"):
                held.append((route, asked["id"]))
            return is_send

        await enter_over(world, page, takes)
        field = page.get_by_role("textbox", name="Message")
        await field.fill("half a thought")
        await page.get_by_role("link", name="Usage").click()
        await page.get_by_role("link", name="Chat").click()
        await page.wait_for_function("() => document.querySelector('textarea')?.value === 'half a thought'")
        await field.press("Enter")
        await page.get_by_text("waiting").wait_for()
        assert await field.input_value() == ""
        await field.fill("the next one")
        ((route, asked),) = held
        route.send(json.dumps({"type": "res", "id": asked, "ok": False, "error": {"code": "X", "message": "not now"}}))
        await page.get_by_role("alert").filter(has_text="not now").wait_for()
        await page.wait_for_function("() => document.querySelector('textarea').value !== 'the next one'")
        assert await field.input_value() == "half a thought\n\nthe next one"


async def test_what_was_just_said_is_branched_from_without_a_reload() -> None:
    async with page_of() as world:
        page = await world.visit("#/chat/main")
        for count, text in enumerate(("one", "two", "three")):
            await say(page, text)
            await page.get_by_role("article", name="Assistant").nth(count).wait_for()
        branches = page.get_by_role("article", name="You").get_by_role("button", name="Branch")
        assert await branches.count() == 2  # there is nothing before the first
        await page.get_by_role("article", name="You").filter(has_text="three").get_by_role("button").click()
        await page.wait_for_url("**branch**")
        await page.get_by_role("article", name="Assistant").nth(1).wait_for()
        assert [row for row in await read_rows(page) if row in ("one", "two", "three")] == ["one", "two"]


DROP = """([field, files, how]) => {
    const data = new DataTransfer();
    for (const [name, type, bytes] of files) {
        data.items.add(new File([Uint8Array.from(atob(bytes), (each) => each.charCodeAt(0))], name, { type }));
    }
    const event = how === 'drop' ? new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true })
        : new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true });
    field.dispatchEvent(event);
}"""


async def test_pictures_and_texts_are_dropped_or_pasted_and_sent() -> None:
    async with page_of() as world:
        page = await world.visit("#/chat/main")
        field = await page.get_by_role("textbox", name="Message").element_handle()
        picture = ["<img onerror=ran=1>.png", "image/png", base64.b64encode(PIXEL).decode()]
        where = await page.locator(".conversation").element_handle()
        await page.evaluate(DROP, [where, [picture], "drop"])  # anywhere beside the sessions
        await page.get_by_text("<img onerror=ran=1>.png").wait_for()
        await page.evaluate(DROP, [field, [["b.bin", "application/x", base64.b64encode(b"\0\1").decode()]], "paste"])
        await page.get_by_text("b.bin is neither a picture").wait_for()
        await page.evaluate(DROP, [field, [["c.txt", "text/plain", base64.b64encode(b"words").decode()]], "paste"])
        await page.wait_for_function("(field) => field.value.includes('words')", arg=field)
        await page.keyboard.press("Enter")
        await page.get_by_role("article", name="You").get_by_role("img", name="Picture").wait_for()
        await page.get_by_role("article", name="Assistant").wait_for()
        await page.reload()
        await page.get_by_role("article", name="You").get_by_role("img", name="Picture").wait_for()
        told = await world.ask("chat.history", sessionKey="main", pictures=True)
        assert [part["type"] for part in told["messages"][0]["content"]] == ["text", "image"]
        assert "words" in told["messages"][0]["content"][0]["text"]


async def test_two_browsers_see_the_same_in_order_and_a_reconnect_loses_and_doubles_nothing() -> None:
    gate = Gate()
    async with page_of(tools=[gate.make(), show]) as world:
        one = await world.visit("#/chat/main")
        await call(one, "show", text="first")
        await one.get_by_role("article", name="Assistant").wait_for()
        await call(one, "wait")
        await gate.entered.wait()
        two = await world.visit("#/chat/main")
        begin = ['show {"text": "first"}', "show", "shown", "wait {}", "wait"]
        for page in (one, two):
            await wait_for_rows(page, *begin)
        await cut_off(world)
        for page in (one, two):
            await wait_for_rows(page, *begin)
        gate.go.set()
        for page in (one, two):
            await wait_for_rows(page, *begin, "through the gate")
        for at in range(3):
            await call((one, two)[at % 2], "show", text=str(at))
            begin_length = 6 + 3 * at
            for page in (one, two):
                await page.wait_for_function(f"() => document.querySelectorAll('.item').length === {begin_length + 3}")
        assert await read_rows(one) == await read_rows(two)
        await cut_off(world)
        await call(one, "show", text="after")
        for page in (one, two):
            await page.wait_for_function("() => document.querySelectorAll('.item').length === 18")
        assert await read_rows(one) == await read_rows(two)
        assert (await read_rows(one))[-3:] == ['show {"text": "after"}', "show", "shown"]


async def test_who_comes_while_one_turn_runs_and_another_waits_sees_both_in_order() -> None:
    gate = Gate()
    async with page_of(tools=[gate.make(), show]) as world:
        one = asyncio.ensure_future(world.ask("chat.send", message="wait {}", idempotencyKey="k1", queue="wait"))
        await gate.entered.wait()
        two = asyncio.ensure_future(world.ask("chat.send", message="list .", idempotencyKey="k2", queue="wait"))
        page = await world.visit("#/chat/main")
        await page.get_by_role("article", name="Call of wait").get_by_text("half way there").wait_for()
        gate.go.set()
        await page.get_by_role("article", name="Call of ls").wait_for()
        assert [row for row in await read_rows(page) if len(row) < 8] == ["wait {}", "wait", "list .", "ls"]
        await asyncio.gather(one, two)


FOLLOW = """async ([session, pages]) => {
    const { followSession } = await import('/chat/follow.js');
    const run = [{ type: 'turn_started', message: 'go' }, { type: 'tool_started', id: 'c1', tool: 'ls', args: {} }];
    const ask = async (method, { before, after }) => {
        if (method === 'chat.history') return { sessionKey: session, ...pages[before ?? 'last'] };
        if (after) return new Promise(() => {});
        return { runId: 'r1', events: run, after: 2, done: false };
    };
    const rows = [];
    followSession({ ask, on: () => () => {}, state: 'open' }, session, ({ reset, item, isNew }) => {
        if (reset) rows.push(...reset.map(({ text, tool }) => tool ?? text));
        if (item && isNew) rows.push(item.tool ?? item.text);
    });
    while (!rows.includes('ls')) await new Promise((done) => setTimeout(done, 10));
    return rows;
}"""


def told_by(role: str, text: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}], **more}


async def test_a_turn_that_outgrew_a_page_or_was_shortened_is_shown_once() -> None:
    tail = [told_by("assistant", "of the turn"), told_by("toolResult", "x", toolCallId="c0")]
    async with page_of() as world:
        page = await world.visit()
        older = [told_by("user", "before", runId="r0"), told_by("user", "go", runId="r1")]
        long = {"last": {"messages": tail, "first": 2}, "2": {"messages": older, "first": 0}}
        assert await page.evaluate(FOLLOW, ["agent:main:long", long]) == ["before", "go", "ls"]
        short = {"last": {"messages": [told_by("user", "a summary"), *tail], "first": 0}}
        assert await page.evaluate(FOLLOW, ["agent:main:short", short]) == ["a summary", "go", "ls"]
        unmarked = {"last": {"messages": [*older[:1], *tail], "first": 0}}  # of a turn that a terminal began
        assert (await page.evaluate(FOLLOW, ["agent:main:other", unmarked]))[:2] == ["before", "of the turn"]


async def test_a_turn_that_a_restart_ended_says_so() -> None:
    sentence = "the gateway stopped while this was being answered"
    script = """async ([messages, sentence]) => {
        const { followSession } = await import('/chat/follow.js');
        const ask = async (method, { runId }) => {
            if (method === 'chat.history') return { sessionKey: 'agent:main:cut', messages, first: 0 };
            if (!runId) throw Object.assign(new Error('there is no run'), { code: 'not_found' });
            return { runId, events: [{ type: 'turn_finished', reason: 'error', sentence }], after: 1, done: true };
        };
        const rows = [];
        await new Promise((done) => followSession({ ask, on: () => () => {}, state: 'open' }, 'agent:main:cut',
            ({ reset, item, running }) => {
                if (reset) rows.push(...reset.map(({ text }) => text));
                if (item) rows.push(item.text);
                if (running === '') done();
            }));
        return rows;
    }"""
    async with page_of() as world:
        page = await world.visit()
        cut = [told_by("user", "before", runId="r0"), told_by("assistant", "yes"), told_by("user", "go", runId="r1")]
        assert await page.evaluate(script, [cut, sentence]) == ["before", "yes", "go", sentence]
        from_a_terminal = [*cut[:2], told_by("user", "go")]
        assert await page.evaluate(script, [from_a_terminal, sentence]) == ["before", "yes", "go"]


async def test_what_is_read_later_stands_at_the_time_at_which_it_happened() -> None:
    run = [
        ({"type": "turn_started", "message": "go"}, 60_000),
        ({"type": "tool_started", "id": "c", "tool": "ls", "args": {}}, 61_000),
        ({"type": "tool_finished", "id": "c", "result": {"status": "ok", "content": []}}, 68_000),
        ({"type": "text", "text": "done"}, 69_000),
    ]
    async with page_of() as world:
        page = await world.visit()
        told = await page.evaluate(
            """async (run) => {
                const { makeReader } = await import('/transcript.js');
                const items = [], take = makeReader((item, isNew) => isNew && items.push(item));
                for (const [event, at] of run) take(event, at);
                return items.map(({ at, startedAt, endedAt }) => at ?? [startedAt, endedAt]);
            }""",
            run,
        )
        assert told == [60_000, [61_000, 68_000], 69_000]


async def test_half_a_character_is_said_as_none_and_what_ends_each_connection_is_given_back() -> None:
    async with page_of() as world:
        page = await world.open()
        tried = list[asyncio.Future[None]]()

        def takes(route: Any, message: str) -> bool:
            if is_poison := "poison" in message:
                tried.append(asyncio.ensure_future(route.close(code=1012)))
            return is_poison

        await enter_over(world, page, takes)
        field = page.get_by_role("textbox", name="Message")
        await field.evaluate("(field) => { field.value = 'half \\ud83d of it'; field.form.requestSubmit(); }")
        await page.get_by_role("article", name="Assistant").wait_for()
        await page.get_by_role("article", name="You").get_by_text("half \ufffd of it").wait_for()
        await say(page, "poison")
        await page.get_by_text("the gateway was lost while it did chat.send").wait_for()
        assert (len(tried), await field.input_value()) == (5, "poison")
        # it is said still when the page has read all again
        await world.ask("chat.send", sessionKey="main", message="from elsewhere", idempotencyKey="elsewhere")
        await page.get_by_role("article", name="You").get_by_text("from elsewhere").wait_for()
        assert await page.get_by_role("alert").filter(has_text="nobody knows whether").is_visible()


async def enter_over(world: PageWorld, page: "Page", takes: Callable[[Any, str], bool]) -> None:
    """Sign in over a connection on which nothing goes to the gateway that somebody `takes`."""

    def pass_on(route: Any) -> None:
        server = route.connect_to_server()
        route.on_message(lambda message: None if takes(route, message) else server.send(message))

    await page.route_web_socket("**/*", pass_on)
    await page.goto(world.url + world.server.crib.devices.new_page_code()["path"][1:])


async def cut_off(world: PageWorld) -> None:
    """Close every connection, as a network that fails."""
    known = tuple(world.server._known.values())  # nobody else can
    for each in known:
        each.close(1012, "")
    await asyncio.gather(*(each.ended.wait() for each in known))


async def test_five_thousand_messages_scroll_with_what_is_seen_in_the_document() -> None:
    def make(at: int) -> dict[str, Any]:
        role = "assistant" if at % 2 else "user"
        return {"role": role, "content": [{"text": f"message {at}\n\n" + "words " * (at % 60)}]}

    async with page_of() as world:
        page = await world.visit(await world.tell("agent:main:long", [make(at) for at in range(5000)]))
        await page.get_by_text("message 4999", exact=False).wait_for()
        feed = page.get_by_role("feed")
        await page.wait_for_function(
            """() => {
                document.querySelector('[role=feed]').scrollTop = 0;
                const rows = [...document.querySelectorAll('.item')];
                window.most = Math.max(window.most ?? 0, rows.length);
                return rows.some((row) => row.querySelector('.plain')?.textContent.trim() === 'message 0');
            }"""
        )
        assert await page.evaluate("window.most") < 80
        shown = await page.locator(".item").first.get_attribute("aria-setsize")
        assert shown == "5000"
        # what is seen stays where it is while more is measured, and the end is one key away
        await feed.focus()
        await page.keyboard.press("End")
        await page.locator(".item").get_by_text("message 4999").wait_for()
        assert await page.locator(".item").count() < 80


async def test_fifty_events_a_second_leave_the_page_responsive() -> None:
    done = asyncio.Event()

    @tool
    async def chatter(ctx: Ctx) -> Result:
        """Tell fifty things a second."""
        for at in range(150):
            ctx.progress(Result.text(f"line {at}\n" * (at + 1)))
            await asyncio.sleep(0.02)
        done.set()
        return Result.text("said all of it")

    async with page_of(tools=[chatter]) as world:
        page = await world.visit("#/chat/main")
        await page.evaluate(
            """() => {
                window.longest = 0;
                new PerformanceObserver((list) => {
                    for (const each of list.getEntries()) window.longest = Math.max(window.longest, each.duration);
                }).observe({ entryTypes: ['longtask'] });
            }"""
        )
        await call(page, "chatter")
        await page.get_by_role("article", name="Call of chatter").wait_for()
        await page.get_by_role("textbox", name="Message").press_sequentially("still writing here")
        assert await page.get_by_role("textbox", name="Message").input_value() == "still writing here"
        await done.wait()
        await page.get_by_text("said all of it").first.wait_for()
        assert await page.evaluate("window.longest") < 2_000  # a busy machine; one frame as a rule


SEE_ALL = """async (forbidden) => {
    const feed = document.querySelector('[role=feed]');
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    for (let isFirst = false; !isFirst; ) {
        document.querySelectorAll('.item details').forEach((each) => (each.open = true));
        await frame();
        const found = [...document.querySelectorAll(forbidden)].map((each) => each.outerHTML);
        if (found.length) return found;
        isFirst = feed.scrollTop === 0 && document.querySelector('.item[aria-posinset="1"]') !== null;
        feed.scrollTop -= feed.clientHeight;
        await frame();
    }
    return [];
}"""


async def test_hostile_names_messages_arguments_and_results_run_nothing() -> None:
    messages: list[dict[str, Any]] = []
    for at, text in enumerate(HOSTILE):
        spoken = text.replace("\0", "")
        request = {"id": f"c{at}", "name": "show", "args": {spoken[:60]: spoken}, "key": f"k{at}"}
        messages += [
            {"content": [{"text": spoken}]},
            {"role": "assistant", "content": [{"text": spoken}], "calls": [request], "finish": "calls"},
            {"role": "tool", "content": [{"text": spoken}], "call_id": f"c{at}"},
        ]
    async with page_of(tools=[show], config={"tools": {"ask": ["show"]}}) as world:
        for at, text in enumerate(HOSTILE[::8]):
            await world.tell(f"agent:main:s{at}", [{"content": [{"text": text.replace("\0", "")}]}], text[:64])
        tall = {"width": 1440, "height": 4000}  # fewer steps
        page = await world.visit(await world.tell("agent:main:hostile", messages), viewport=tall)
        await page.locator(".sessions li").nth(20).wait_for()
        assert await page.evaluate(SEE_ALL, FORBIDDEN) == []
        await page.set_viewport_size({"width": 1440, "height": 900})
        for text in HOSTILE[::29]:
            await call(page, "show", text=text)
            dialog = page.get_by_role("dialog")
            await dialog.wait_for()
            assert await page.locator(FORBIDDEN.replace("main", "dialog")).count() == 0
            await dialog.get_by_role("button", name="Yes").click()
            await dialog.wait_for(state="detached")
            await page.get_by_role("button", name="Stop").wait_for(state="hidden")
            assert await page.locator(FORBIDDEN).count() == 0
        assert await page.evaluate("window.ran") is None
