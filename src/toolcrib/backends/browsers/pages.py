"""The pages of one session: tabs, what they show, and what is done to them. Answers are plain JSON, bytes in base64.

Pages of the internet share one context. A private origin that the session may open has a context of its own, which
reaches that origin and nothing else: no redirect and no script of another page leads there.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolcrib.define.egress import judge_port, read_url
from toolcrib.define.errors import ToolError
from toolcrib.lazy import regex
from toolcrib.threads import in_thread

from .acts import (
    ACTS,
    MAX_MOVED_BYTES,
    Act,
    find_element,
    give_files,
    highlight,
    milliseconds,
    read_files,
    read_response,
)
from .chromium import Chromium, Dialer, GuardedContext, Profiles, load_errors
from .tab import NOTE_CHARS, Tab, cut_url
from .views import View, print_pdf, take_scaled, take_screenshot, take_snapshot, to_base64

if TYPE_CHECKING:
    from playwright.async_api import Page

_Json = Mapping[str, Any]

_MAX_TABS, _POLL_SECONDS = 20, 0.02
_LOAD_SECONDS, _TITLE_SECONDS, _FAILURE_SECONDS, _GRACE_SECONDS = 5.0, 1.0, 1.0, 3.0
_CALL = regex(r"[A-Za-z]+\.[a-z_]+: (?:Error: )?")  # of Playwright's, where it failed


class PageSet:
    """The pages of one session, over Chromium. One thing is done at a time."""

    def __init__(self, chromium: Chromium, profiles: Profiles, profile: str, *, keeps: bool) -> None:
        self._chromium, self._profiles, self._profile, self._keeps = chromium, profiles, profile, keeps
        self._places, self._tabs = dict[str, GuardedContext](), dict[str, Tab]()
        self._permitted, self._count, self._turn = set[str](), 0, asyncio.Lock()
        self._current: Tab | None = None
        self._verbs: Mapping[str, Callable[[_Json], Any]] = {
            "tabs": self._list_tabs, "open": self._open, "focus": self._focus, "close": self._close_tab,
            "navigate": self._navigate, "snapshot": partial(self._look, take_snapshot),
            "screenshot": partial(self._look, take_screenshot), "pdf": partial(self._look, print_pdf),
            "console": self._console, "errors": self._errors, "requests": self._requests, "upload": self._upload,
            "dialog": self._dialog, "download": self._download, "act": self._act, "start": self._begin,
            "highlight": partial(self._do, highlight), "response": partial(self._do, read_response),
        }  # fmt: skip

    def permit(self, origin: str) -> None:
        """Let this session open one origin of this machine or of a private network, like `http://127.0.0.1:8123`."""
        self._permitted.add(_origin_of(origin))

    async def perform(self, verb: str, args: _Json) -> dict[str, Any]:
        """Do one thing; ToolError in one sentence where that does not work."""
        seconds = milliseconds(args) / 1000
        async with self._turn, self._in_words(args, seconds):
            before = self._current
            result: dict[str, Any] = await self._verbs[verb](args)
            tab = self._tabs.get(str(result.get("targetId"))) or (before if before in self._tabs.values() else None)
            return {"ok": True, **result, **(tab.take_news() if tab and verb != "download" else {})}

    async def capture(self, url: str, size: _Json) -> bytes:
        """Return a picture of what an address shows, in a window of this size; no tab is left of it."""
        args = {"targetUrl": url}
        async with self._turn, self._in_words(args, milliseconds(args) / 1000):
            tab = await self._new_tab(url)
            try:
                await tab.page.set_viewport_size({"width": size["width"], "height": size["height"]})
                await self._go(tab, url, args)
                return await take_scaled(tab, size)
            finally:
                await self._drop(tab)

    async def close(self) -> None:
        """Close every page; where the profile is kept, what they have stored is."""
        async with self._turn:
            public = self._places.get("")
            if self._keeps and public and self._chromium.is_running:
                await public.close_pages()  # one that is busy with itself would not say what it has stored
                if state := await public.read_state():
                    await in_thread(self._profiles.keep, self._profile, state)
            await self._forget_all()

    async def _forget_all(self) -> None:
        places, self._places, self._current = list(self._places.values()), {}, None
        self._tabs.clear()
        for place in places:
            await place.close()

    @asynccontextmanager
    async def _in_words(self, args: _Json, seconds: float) -> AsyncIterator[None]:
        """Say what went wrong in one sentence; what the browser says of a page is from outside."""
        Error, TooLate = load_errors()  # noqa: N806  classes
        if self._places and not self._chromium.is_running:
            await self._forget_all()
        try:
            async with asyncio.timeout(seconds + _GRACE_SECONDS):
                yield
        except TimeoutError:
            tab = self._tabs.get(str(args.get("targetId") or "")) or self._current
            if tab is not None:
                await self._drop(tab)
            raise ToolError(f"the page did not answer in {seconds:g} seconds, and was closed", code="timeout") from None
        except TooLate:
            what = (
                f"it could not be done in {seconds:g} seconds: the page is slow, or what is meant is hidden or covered"
            )
            raise ToolError(f"{what}; look again", code="timeout") from None
        except ToolError:
            raise
        except Exception as error:  # Playwright has no class for a driver that is gone
            if not await self._chromium.is_answering():
                await self._forget_all()
                what = "Chromium has ended, and its pages with it; the next call starts it anew"
                raise ToolError(what, code="unavailable") from None
            if not isinstance(error, Error):
                raise
            raise _explain(error, self._current) from None

    # tabs

    async def _begin(self, args: _Json) -> dict[str, Any]:
        await self._place("")
        return {"running": True}

    async def _list_tabs(self, args: _Json) -> dict[str, Any]:
        return {
            "running": self._chromium.is_running,
            "tabs": [await self._describe(tab) for tab in tuple(self._tabs.values())],  # a page may open more meanwhile
        }

    async def _describe(self, tab: Tab) -> dict[str, Any]:
        try:
            async with asyncio.timeout(_TITLE_SECONDS):
                title = (await tab.page.title())[:NOTE_CHARS]
        except TimeoutError:  # it is busy with itself
            title = ""
        return {"targetId": tab.id, "title": title, "url": tab.url, "focused": tab is self._current}

    async def _open(self, args: _Json) -> dict[str, Any]:
        return await self._go_anew(self._read_target(args), args)

    async def _navigate(self, args: _Json) -> dict[str, Any]:
        """Go elsewhere in a tab; where that is another origin's place, in one that takes its id."""
        url = self._read_target(args)
        old = self._find(args) if self._tabs else None
        if old is None or old.origin != self._private_origin(url):
            return await self._go_anew(url, args, old)
        result = await self._go(old, url, args)
        self._current = old
        return result

    async def _go_anew(self, url: str, args: _Json, old: Tab | None = None) -> dict[str, Any]:
        """Go to an address in a new tab, which takes the place of another once it is there."""
        tab = await self._new_tab(url, is_one_more=old is None)
        try:
            result = await self._go(tab, url, args)
        except BaseException:
            await self._drop(tab)
            raise
        if old is not None:
            del self._tabs[tab.id]
            tab.id = result["targetId"] = old.id
            self._tabs[tab.id] = tab
            await old.page.close()
        self._current = tab
        return result

    async def _focus(self, args: _Json) -> dict[str, Any]:
        self._current = tab = self._find(args)
        await tab.page.bring_to_front()
        return {"targetId": tab.id, "url": tab.url}

    async def _close_tab(self, args: _Json) -> dict[str, Any]:
        tab = self._find(args)
        await self._drop(tab)
        return {"targetId": tab.id}

    def _find(self, args: _Json) -> Tab:
        asked = str(args.get("targetId") or "")
        if not self._tabs:
            raise ToolError("no page is open; open one", code="not_found")
        tab = self._tabs.get(asked) if asked else self._current or next(reversed(self._tabs.values()))
        if tab is None:
            raise ToolError(f"there is no tab {asked[:64]!r}; there are {', '.join(self._tabs)}", code="not_found")
        _check_preview(args, tab.origin)
        return tab

    def _read_target(self, args: _Json) -> str:
        url = _need(args, "targetUrl", "url")
        _check_preview(args, self._private_origin(url))
        return url

    def _private_origin(self, url: str) -> str:
        """Return the origin of a URL where it is one that this session may open beyond the internet, else ""."""
        origin = "" if _is_blank(url) else _origin_of(url)
        return origin if origin in self._permitted else ""

    async def _place(self, origin: str) -> GuardedContext:
        if (place := self._places.get(origin)) is None:
            if origin:
                from toolcrib.backends.web.guard import guard_for  # noqa: PLC0415  HTTP takes longer to load than we do

                guard = guard_for(origin)
                place = await self._chromium.open_context(guard.dial, lambda url: guard.check(*_place_of(url)))
            else:
                state = await in_thread(self._profiles.load, self._profile) if self._keeps else None
                out = self._chromium.way_out
                place = await self._chromium.open_context(out.dial, out.explain, state)
            self._places[origin] = place
            place.context.on("page", lambda page: self._take_popup(page, origin))
        return place

    async def _new_tab(self, url: str, *, is_one_more: bool = True) -> Tab:
        if len(self._tabs) >= _MAX_TABS and is_one_more:
            raise ToolError(f"{_MAX_TABS} tabs are open; close some first", code="too_many")
        origin = self._private_origin(url)
        place = await self._place(origin)
        page = await place.context.new_page()
        return self._adopt(page, origin)

    def _adopt(self, page: "Page", origin: str) -> Tab:
        """Take in a page, also one that another has opened."""
        for known in self._tabs.values():
            if known.page is page:
                return known
        self._count += 1
        tab = Tab(f"t{self._count}", page, self._places[origin], origin)
        self._tabs[tab.id] = tab
        tab.listen()
        page.on("close", lambda _: self._forget(tab))
        page.on("crash", lambda _: self._drop(tab))
        return tab

    async def _take_popup(self, page: "Page", origin: str) -> None:
        self._adopt(page, origin)
        if len(self._tabs) > _MAX_TABS:  # pages can open as many as they like
            with suppress(load_errors()[0]):
                await page.close()

    def _forget(self, tab: Tab) -> None:
        if self._tabs.get(tab.id) is tab:
            del self._tabs[tab.id]
        if self._current is tab:
            self._current = next(reversed(self._tabs.values()), None)

    async def _drop(self, tab: Tab) -> None:
        self._forget(tab)
        with suppress(load_errors()[0]):  # it is closed already, or Chromium is gone
            await tab.page.close()

    async def _go(self, tab: Tab, url: str, args: _Json) -> dict[str, Any]:
        """Go to an address; a refusal of the guard is reported as such."""
        Error, TooLate = load_errors()  # noqa: N806  classes
        page, refused, stopped, found = tab.page, tab.place.refused, tab.place.stopped, None
        refused.clear()
        stopped.clear()
        try:
            found = await page.goto(_check_url(url), wait_until="commit", timeout=milliseconds(args))
        except Error as error:
            text = str(error)
            if "net::ERR_ABORTED" in text and stopped:
                raise stopped.pop() from None
            if "net::ERR_" in text:
                with suppress(Error):  # the page that says so comes behind it, and would be in the way of the next
                    await page.wait_for_url(_is_failure, wait_until="commit", timeout=_FAILURE_SECONDS * 1000)
                known = refused.get(_place_of(url)) or next(reversed(refused.values()), None)
                raise known if known and "ERR_TUNNEL" in text else error from None
            if "Download is starting" not in text and "interrupted by another navigation" not in text:
                raise
        if no := refused.get(_place_of(found.url if found else page.url)):
            await page.goto("about:blank")
            raise no
        if not await _wait_for_state(page, ("interactive", "complete"), milliseconds(args) / 1000):
            raise TooLate("")
        await _wait_for_state(page, ("complete",), _LOAD_SECONDS)  # else what there is can be looked at
        status = {"status": found.status} if found else {}
        return {"targetId": tab.id, "url": tab.url, "title": (await self._describe(tab))["title"], **status}

    # what a page shows

    async def _look(self, view: View, args: _Json) -> dict[str, Any]:
        return await view(self._find(args), args)

    async def _console(self, args: _Json) -> dict[str, Any]:
        tab, level = self._find(args), args.get("level")
        messages = [each for each in tab.read_notes("console") if not level or each["level"] == level]
        return {"targetId": tab.id, "url": tab.url, "messages": messages, "errors": tab.read_notes("errors")}

    async def _errors(self, args: _Json) -> dict[str, Any]:
        tab = self._find(args)
        return {"targetId": tab.id, "url": tab.url, "errors": tab.read_notes("errors")}

    async def _requests(self, args: _Json) -> dict[str, Any]:
        tab = self._find(args)
        return {"targetId": tab.id, "url": tab.url, "requests": tab.read_notes("requests")}

    # what is done to a page

    async def _act(self, args: _Json) -> dict[str, Any]:
        kind = str(args.get("kind"))
        if kind == "close":
            return await self._close_tab(args)
        if kind not in ACTS:
            raise ToolError(
                f"there is no act {kind[:64]!r}; there are {', '.join((*ACTS, 'close'))}", code="bad_arguments"
            )
        if args.get("selector") and kind != "wait":
            raise ToolError(
                "an act names its element by ref; take a snapshot and use a ref of it", code="bad_arguments"
            )
        return await self._do(ACTS[kind], args)

    async def _do(self, act: Act, args: _Json) -> dict[str, Any]:
        tab = self._find(args)
        result = await act(tab.page, args)
        return {"targetId": tab.id, "url": tab.url, **(result or {})}

    async def _dialog(self, args: _Json) -> dict[str, Any]:
        tab = self._find(args)
        tab.answer = bool(args.get("accept")), str(args.get("promptText") or "")
        return {"targetId": tab.id, "url": tab.url, "armed": True}

    async def _upload(self, args: _Json) -> dict[str, Any]:
        """Give files to an input, to the chooser that a click opens, or to the next one that opens."""
        tab, files = self._find(args), read_files(args)
        report = {"targetId": tab.id, "url": tab.url, "files": [each["name"] for each in files]}
        if named := args.get("inputRef") or args.get("element"):
            element = await find_element(tab.page, {"ref": args.get("inputRef"), "element": args.get("element")})
            await element.set_input_files(files)
            return report | {"input": str(named)[:64]}
        if args.get("ref"):
            element = await find_element(tab.page, args)
            async with tab.page.expect_file_chooser(timeout=milliseconds(args)) as chooser:
                await element.click(timeout=milliseconds(args))
            await (await chooser.value).set_files(files)
            return report
        tab.page.once("filechooser", lambda chooser: give_files(chooser, files))
        return report | {"armed": True}

    async def _download(self, args: _Json) -> dict[str, Any]:
        """Return the file that a click brings, that was begun already, or that comes next."""
        tab, limit = self._find(args), milliseconds(args)
        if args.get("ref"):
            element = await find_element(tab.page, args)
            async with tab.page.expect_download(timeout=limit) as coming:
                await element.click(timeout=limit)
            found = await coming.value
        elif tab.download is not None:
            found = tab.download
        else:
            found = await tab.page.wait_for_event("download", timeout=limit)
        try:
            path = Path(await found.path())
            if path.stat().st_size > MAX_MOVED_BYTES:
                raise ToolError(
                    f"the file is larger than {MAX_MOVED_BYTES >> 20} MB, and was not kept", code="too_large"
                )
            data = await in_thread(path.read_bytes)
        finally:
            tab.download = None
            await found.cancel()
            await found.delete()
        report = {"targetId": tab.id, "url": cut_url(found.url), "name": found.suggested_filename[:255]}
        return report | {"base64": to_base64(data)}


class ChromiumPages:
    """Where the page sets of a crib come from: one Chromium, and the profiles of its agents."""

    def __init__(
        self,
        way_out: Dialer,
        launch: Callable[[], tuple[str | None, bool]],
        folder: Path | None,
        find: Callable[[str], str | None] = shutil.which,
    ) -> None:
        self._chromium, self._profiles = Chromium(way_out, launch, find), Profiles(folder)

    def describe(self) -> dict[str, Any]:
        """Tell which Chromium it is, and whether it runs; or why there is none."""
        named, headless = self._chromium.launch()
        status: dict[str, Any] = {"running": self._chromium.is_running, "headless": headless}
        try:
            status |= {"executablePath": self._chromium.find_executable(named), "version": self._chromium.version}
        except ToolError as error:
            status["detectError"] = str(error)
        return status

    def open(self, profile: str, *, keeps: bool) -> PageSet:
        """Return a new page set with what is kept of a profile; Chromium starts when it is first used."""
        return PageSet(self._chromium, self._profiles, profile, keeps=keeps)

    def forget(self, profile: str) -> None:
        """Reset a profile."""
        self._profiles.forget(profile)

    async def close(self) -> None:
        """End Chromium."""
        await self._chromium.close()


async def _wait_for_state(page: "Page", states: tuple[str, ...], seconds: float) -> bool:
    """Wait for a state of a document. One that was kept from going elsewhere as it loaded never says so by an event."""
    Error, _ = load_errors()  # noqa: N806  a class
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while not page.is_closed():
                with suppress(Error):  # it goes elsewhere just now
                    if await page.evaluate("document.readyState") in states:
                        return True
                await asyncio.sleep(_POLL_SECONDS)
    return False


def _is_blank(url: str) -> bool:
    return url.strip().lower() == "about:blank"


def _check_url(url: str) -> str:
    """Return an address as it is gone to; ToolError for one that is no page of the web."""
    if _is_blank(url):
        return "about:blank"
    there = read_url(url)
    if refused := judge_port(there.host, there.port):
        raise refused
    return there.url + "".join(url.strip().partition("#")[1:])


def _origin_of(url: str) -> str:
    return read_url(url)._replace(target="", credentials="").url


def _is_failure(url: str) -> bool:
    return url.startswith("chrome-error:")


def _place_of(url: str) -> tuple[str, int]:
    try:
        there = read_url(url)
    except ToolError:  # about:blank, or what a page made itself
        return "", 0
    return there.host, there.port


def _need(args: _Json, *names: str) -> str:
    value = next((args[name] for name in names if args.get(name)), None)
    if not isinstance(value, str):
        raise ToolError(f"{names[0]} is missing; name an address like https://example.com", code="bad_arguments")
    return value


def _check_preview(args: _Json, origin: str) -> None:
    if args.get("isPreview") and not origin:
        raise ToolError("that is no page of a preview; open one at an origin that was permitted", code="denied")


def _explain(error: Exception, tab: Tab | None) -> ToolError:
    """Return what the browser says, in its first line: it may quote the page."""
    words = _CALL.sub("", str(error).partition("\n")[0])[:500]
    return ToolError(words, source=f"web:{tab.url}" if tab else "browser")
