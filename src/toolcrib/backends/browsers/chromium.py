"""Chromium, as Debian brings it, under Playwright: started on demand, and never let past our proxy.

Each context has a proxy of its own, which dials what a guard lets it dial. Chromium resolves no names, speaks no QUIC,
and has no other way out: what is not in a context is sent to a proxy that does not exist. A navigation is judged before
it begins, and at each redirect: one that is refused leaves the page, and where it was before, as they are.
"""

import asyncio
import contextlib
import json
import logging
import os
import secrets
import signal
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from toolcrib.backends.web.proxy import Dial, GuardedProxy
from toolcrib.define.egress import read_url
from toolcrib.define.errors import ToolError
from toolcrib.lazy import dataclass, field

if TYPE_CHECKING:
    from playwright.async_api import Browser as PlaywrightBrowser
    from playwright.async_api import BrowserContext, CDPSession, Playwright

log = logging.getLogger("toolcrib")

Explain = Callable[[str], Awaitable[object]]
"""Says whether a URL may be gone to: raises ToolError, or OSError for an unknown host. No connection is made."""


class Dialer(Protocol):
    """The way of pages to the internet."""

    async def dial(self, host: str, port: int, /) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to a host and a port, as `Dial` does."""

    async def explain(self, url: str, /) -> object:
        """Judge a URL, as `Explain` does."""


_NAVIGATIONS = [{"urlPattern": f"{scheme}://*", "resourceType": "Document"} for scheme in ("http", "https")]
_MAX_STOPPED = 10
_PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# What Playwright switches off, since a second list replaces its own; and multicast, by which a page's WebRTC would ask
# the local network for names.
_OFF = (
    "WebRtcHideLocalIpsWithMdns", "AimEnabled", "AvoidCorsURLLoaderRestartOnRedirect", "DestroyProfileOnBrowserClose",
    "AvoidUnnecessaryBeforeUnloadCheckSync", "HttpsFirstBalancedModeAutoEnable", "HttpsUpgrades", "LensOverlay",
    "MediaRouter", "NetworkTimeServiceQuerying", "OptimizationHints", "PaintHolding", "PreconnectToSearch",
    "ThirdPartyStoragePartitioning",
)  # fmt: skip
_FLAGS = (
    "--disable-gpu", "--no-first-run", "--disable-sync", "--disable-component-update", "--no-pings",
    "--disable-background-networking", "--disable-quic", "--dns-prefetch-disable",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1", "--proxy-server=http://nowhere.invalid:1",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp", "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    f"--disable-features={','.join(_OFF)}",
)  # fmt: skip
_LENT = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "DISPLAY",
    "XAUTHORITY",
    "WAYLAND_DISPLAY",
    "XDG_RUNTIME_DIR",
)
# Chromium tells it about every form that it sees, and no switch keeps it from that
_NEVER = frozenset({"content-autofill.googleapis.com"})
_START_SECONDS, _CLOSE_SECONDS, _STATE_SECONDS, _ANSWER_SECONDS = 30.0, 10.0, 10.0, 5.0
_ACT_SECONDS = 20.0


def load_errors() -> tuple[type[Exception], type[Exception]]:
    """Return what Playwright raises, and what it raises when time is over; ToolError when it is not installed."""
    try:
        from playwright.async_api import Error, TimeoutError  # noqa: PLC0415  an extra, and slow to load
    except ImportError:
        raise ToolError("the browser needs Playwright; install toolcrib[browser]", code="unavailable") from None
    return Error, TimeoutError


@dataclass(slots=True)
class GuardedContext:
    """A context of Chromium's, its proxy, and what was refused there: by host and port, and as navigations."""

    context: "BrowserContext"
    refused: dict[tuple[str, int], ToolError]
    _explain: Explain
    _serving: "asyncio.Task[None]"
    _listener: socket.socket
    stopped: deque[ToolError] = field(default_factory=lambda: deque(maxlen=_MAX_STOPPED))

    async def judge(self, url: str) -> ToolError | None:
        """Return why a page may not go to an address; None when it may."""
        there = read_url(url)
        try:
            await self._explain(url)
        except ToolError as error:
            self.refused[there.host, there.port] = error
            return error
        except OSError as error:
            return ToolError(f"{there.host} cannot be reached: {error}", code="unavailable")
        return None

    async def close(self) -> None:
        """Close its pages, and its way out with them."""
        try:
            if not self._serving.done():  # else its loop has ended, and Chromium with it
                with contextlib.suppress(Exception):  # of a Chromium that is gone, nothing is left to close
                    async with asyncio.timeout(_CLOSE_SECONDS):
                        await self.context.close()
        finally:
            await _stop_serving(self._serving, self._listener)

    async def close_pages(self) -> None:
        """Close its pages, as far as they can be closed in time; the context stays."""
        closing = [asyncio.ensure_future(page.close()) for page in self.context.pages]
        if closing:
            _, late = await asyncio.wait(closing, timeout=_CLOSE_SECONDS)
            for each in late:
                each.cancel()
            await asyncio.gather(*closing, return_exceptions=True)

    async def read_state(self) -> Mapping[str, Any] | None:
        """Return its cookies and what its pages have stored; None when that is not to be had any more."""
        try:
            async with asyncio.timeout(_STATE_SECONDS):
                return dict(await self.context.storage_state(indexed_db=True))
        except Exception as error:  # noqa: BLE001  after any error of Playwright it is lost
            log.warning("what the pages of a session have stored could not be kept (%s)", type(error).__name__)
            return None


@dataclass(slots=True)
class _Running:
    """A Chromium that runs, on the loop that it was started on."""

    loop: asyncio.AbstractEventLoop
    driver: "Playwright"
    browser: "PlaywrightBrowser"
    driver_id: int | None
    session: "CDPSession"
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    places: dict[str, GuardedContext] = field(default_factory=dict)  # by the names that Chromium gives them

    async def take_in(self, place: GuardedContext) -> None:
        """Learn what Chromium calls the context that was made last, and which it has no more."""
        ids = (await self.session.send("Target.getBrowserContexts"))["browserContextIds"]
        self.places = {id: self.places.get(id, place) for id in ids}

    async def hold(self, paused: Mapping[str, Any]) -> None:
        """Let a navigation go on, or end where it began."""
        places = await self._places_of(paused["frameId"])
        found = [(each, await each.judge(paused["request"]["url"])) for each in places]
        refused = [(each, error) for each, error in found if error is not None]
        asked: dict[str, Any] = {"requestId": paused["requestId"]}
        if stops := bool(refused) and len(refused) == len(found):
            asked["responseCode"] = 204  # no content: a browser stays where it is
            refused[0][0].stopped.append(refused[0][1])
        with contextlib.suppress(load_errors()[0]):  # it is over already
            await self.session.send("Fetch.fulfillRequest" if stops else "Fetch.continueRequest", asked)

    async def _places_of(self, frame: str) -> list[GuardedContext]:
        """Return whose page a frame is; of one within a page any may be, and the proxy has the last word."""
        try:
            about = await self.session.send("Target.getTargetInfo", {"targetId": frame})
        except load_errors()[0]:
            return list(self.places.values())
        return [each for id, each in self.places.items() if id == about["targetInfo"].get("browserContextId")]


@dataclass(slots=True)
class Chromium:
    """One Chromium, which starts when a context is wanted, and starts again when it is gone.

    `launch` says which program, and whether it shows itself; `find` says where a program is.
    """

    way_out: Dialer
    launch: Callable[[], tuple[str | None, bool]]
    find: Callable[[str], str | None]
    _running: _Running | None = None
    _launching: "asyncio.Future[_Running] | None" = None
    _starting: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def is_running(self) -> bool:
        """Whether there is one now."""
        found = self._running
        return bool(found and found.loop is asyncio.get_running_loop() and found.browser.is_connected())

    async def is_answering(self) -> bool:
        """Tell whether it still answers; one that does not is ended."""
        if self.is_running and self._running is not None:
            with contextlib.suppress(Exception):  # an error is no answer here
                async with asyncio.timeout(_ANSWER_SECONDS):
                    await (await self._running.browser.new_browser_cdp_session()).detach()
                return True
        await self.close()
        return False

    @property
    def version(self) -> str:
        return self._running.browser.version if self._running else ""

    def find_executable(self, named: str | None) -> str:
        """Return the Chromium that is used: the one that is named, else the first that is installed."""
        for each in (named,) if named else _PROGRAMS:
            if found := self.find(each):
                return found
        if named:
            why = f"browser.executable {named!r} is no program; name one, or leave it out"
            raise ToolError(why, code="unavailable")
        raise ToolError("the browser needs Chromium; install the Debian package `chromium`", code="unavailable")

    async def open_context(
        self, dial: Dial, explain: Explain, state: Mapping[str, Any] | None = None
    ) -> GuardedContext:
        """Return a new context whose every connection is made by `dial`, and whose navigations `explain` judges."""
        running = await self._start()
        refused = dict[tuple[str, int], ToolError]()

        async def dial_or_note(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            if host in _NEVER:
                raise ToolError(f"nothing is sent to {host}", code="denied")
            try:
                return await dial(host, port)
            except ToolError as error:
                refused[host, port] = error
                raise

        credentials = secrets.token_urlsafe(18), secrets.token_urlsafe(24)
        listener = socket.create_server(("127.0.0.1", 0))
        proxy = GuardedProxy(dial_or_note, most_of_all=1024, credentials=":".join(credentials))
        serving = asyncio.create_task(proxy.serve(listener))
        try:
            async with running.opening:
                context = await running.browser.new_context(
                    proxy={
                        "server": f"http://127.0.0.1:{listener.getsockname()[1]}",
                        "bypass": "<-loopback>",
                        "username": credentials[0],
                        "password": credentials[1],
                    },
                    storage_state=dict(state) if state else None,  # type: ignore[arg-type]  # as it was written by it
                )
                place = GuardedContext(context, refused, explain, serving, listener)
                await running.take_in(place)
        except BaseException:
            await _stop_serving(serving, listener)
            raise
        context.set_default_timeout(_ACT_SECONDS * 1000)
        return place

    async def _start(self) -> _Running:
        async with self._starting:
            if self._running and not self.is_running:
                await self.close()
            if self._running is None:
                if self._launching is None or self._launching.done():
                    self._launching = asyncio.ensure_future(self._launch())
                # who asked first may leave: half a start would leave a process behind
                self._running = await asyncio.shield(self._launching)
            return self._running

    async def _launch(self) -> _Running:
        Error, _ = load_errors()  # noqa: N806  a class
        from playwright.async_api import async_playwright  # noqa: PLC0415  an extra, and slow to load

        named, headless = self.launch()
        program = self.find_executable(named)
        manager = async_playwright()
        driver = await manager.start()
        try:
            browser = await driver.chromium.launch(
                executable_path=program,
                headless=headless,
                chromium_sandbox=os.geteuid() != 0,  # its own, which refuses to start as root
                args=_FLAGS,
                env={name: os.environ[name] for name in _LENT if name in os.environ},
                handle_sigint=False,
                handle_sigterm=False,
                handle_sighup=False,
                timeout=_START_SECONDS * 1000,
            )
            session = await browser.new_browser_cdp_session()
            running = _Running(asyncio.get_running_loop(), driver, browser, _find_driver_id(manager), session)
            session.on("Fetch.requestPaused", partial(running.hold))  # it keeps its own notes on a bare method
            await session.send("Fetch.enable", {"patterns": _NAVIGATIONS})
        except Error as error:
            await driver.stop()
            log.warning("Chromium did not start: %s", error)
            why = "it is set to show itself, and there may be no screen" if not headless else "the log says why"
            raise ToolError(f"{program} did not start; {why}", code="unavailable") from None
        except BaseException:
            await driver.stop()
            raise
        return running

    async def close(self) -> None:
        """End Chromium and its driver."""
        (running, launching), self._running, self._launching = (self._running, self._launching), None, None
        if running is None and launching is not None and not launching.cancelled():
            with contextlib.suppress(Exception):  # one that did not start has left nothing
                running = await launching
        if running is None:
            return
        if running.loop is not asyncio.get_running_loop():
            _end_driver(running.driver_id)
            return
        for end in (running.browser.close, running.driver.stop):
            with contextlib.suppress(Exception):  # it may be gone
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await end()


def _find_driver_id(manager: Any) -> int | None:
    """Return the number of the driver's process, for which Playwright has no public name."""
    for name in ("_client", "_transport", "_proc", "pid"):
        manager = getattr(manager, name, None)
    return manager if isinstance(manager, int) else None


def _end_driver(id: int | None) -> None:
    """End a driver whose loop is gone and which no message reaches. Chromium ends with it."""
    with contextlib.suppress(ChildProcessError):  # it has ended, and the number may be another's
        if id is not None and os.waitid(os.P_PID, id, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            os.kill(id, signal.SIGKILL)


async def _stop_serving(serving: "asyncio.Task[None]", listener: socket.socket) -> None:
    if not serving.done():
        serving.cancel()
        await asyncio.wait((serving,))
    listener.close()


class Profiles:
    """What the pages of an agent have stored, kept from one session to the next; in `folder`, or as long as we run."""

    def __init__(self, folder: Path | None) -> None:
        self._folder, self._held = folder, dict[str, Mapping[str, Any]]()

    def load(self, profile: str) -> Mapping[str, Any] | None:
        """Return what was kept."""
        if self._folder is None:
            return self._held.get(profile)
        file = self._file(profile)
        try:
            found = json.loads(file.read_bytes())
        except FileNotFoundError:
            return None
        except ValueError:
            aside = file.with_suffix(".broken")
            file.rename(aside)
            log.warning("%s could not be read; it is %s now, and the profile is empty", file, aside.name)
            return None
        return found if isinstance(found, dict) else None

    def keep(self, profile: str, state: Mapping[str, Any]) -> None:
        """Keep it in place of what was kept before; it holds logins, so that only this user reads it."""
        if self._folder is None:
            self._held[profile] = state
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = self._file(profile)
        new = file.with_suffix(f".{secrets.token_hex(4)}")
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            json.dump(state, out)
            out.flush()
            os.fsync(out.fileno())
        new.rename(file)

    def forget(self, profile: str) -> None:
        """Begin with an empty one."""
        self._held.pop(profile, None)
        if self._folder is not None:
            self._file(profile).unlink(missing_ok=True)

    def _file(self, profile: str) -> Path:
        assert self._folder is not None
        return self._folder / f"{profile}.json"
