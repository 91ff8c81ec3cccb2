"""A tab: a page, its messages between two looks, and the answers to its dialogs."""

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from toolcrib.lazy import dataclass, field

from .chromium import GuardedContext, load_errors

if TYPE_CHECKING:
    from playwright.async_api import ConsoleMessage, Dialog, Download, Page, Request, Response

NOTE_CHARS = 2_000
_MAX_NOTES, _MAX_DIALOGS, _URL_CHARS, _NAME_CHARS = 200, 10, 2_000, 255
_MAX_HEARD = 2_000  # of a page's messages between two looks: more would keep the driver from all else


def cut_url(url: str) -> str:
    """Return an address as long as one is shown: a page can have one of any length."""
    return url[:_URL_CHARS]


@dataclass(eq=False)
class Tab:
    """A page, and its console messages and dialogs since the last look."""

    id: str
    page: "Page"
    place: GuardedContext
    origin: str = ""  # the private one that it was opened for
    console: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=_MAX_NOTES))
    errors: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=_MAX_NOTES))
    requests: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=_MAX_NOTES))
    dialogs: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=_MAX_DIALOGS))
    answer: tuple[bool, str] | None = None  # to the next dialog
    download: "Download | None" = None
    _heard: int = 0

    @property
    def url(self) -> str:
        return cut_url(self.page.url)

    def listen(self) -> None:
        """Take note of what the page says, and answer what it asks."""
        page = self.page
        page.on("dialog", self._answer_dialog)
        page.on("pageerror", lambda error: self.errors.append({"message": str(error)[:NOTE_CHARS]}))
        page.on("download", self._hold_download)
        self._listen_to_talk()

    def read_notes(self, name: Literal["console", "errors", "requests"]) -> list[dict[str, Any]]:
        """Return the last notes; when their limit was reached, begin to listen again."""
        if self._heard >= _MAX_HEARD:
            self._listen_to_talk()
        self._heard = 0
        return list(getattr(self, name))

    def _listen_to_talk(self) -> None:
        self.page.on("console", self._note_console)
        self.page.on("response", self._note_response)
        self.page.on("requestfailed", self._note_failure)

    def _count(self) -> None:
        self._heard += 1
        if self._heard == _MAX_HEARD:
            self.page.remove_listener("console", self._note_console)
            self.page.remove_listener("response", self._note_response)
            self.page.remove_listener("requestfailed", self._note_failure)

    def _note_console(self, message: "ConsoleMessage") -> None:
        self.console.append({"level": message.type, "text": message.text[:NOTE_CHARS]})
        self._count()

    def _note_response(self, found: "Response") -> None:
        self._note_request(found.request.method, found.url, found.status)

    def _note_failure(self, failed: "Request") -> None:
        self._note_request(failed.method, failed.url, 0)

    def _note_request(self, method: str, url: str, status: int) -> None:
        self.requests.append({"method": method, "url": cut_url(url), "status": status})
        self._count()

    async def _answer_dialog(self, dialog: "Dialog") -> None:
        (accepts, text), self.answer = self.answer or (dialog.type == "beforeunload", ""), None
        row = {"type": dialog.type, "message": dialog.message[:NOTE_CHARS], "accepted": accepts}
        self.dialogs.append(row)
        with suppress(load_errors()[0]):  # the page may be gone; what is raised here, another call would hear
            await (dialog.accept(text) if accepts else dialog.dismiss())

    async def _hold_download(self, download: "Download") -> None:
        before, self.download = self.download, download
        if before is not None:  # it was not taken
            with suppress(load_errors()[0]):
                await before.cancel()

    def take_news(self) -> dict[str, Any]:
        """Return what happened unasked: dialogs, navigations that were refused, a download."""
        news: dict[str, Any] = {"dialogs": list(self.dialogs)} if self.dialogs else {}
        if self.place.stopped:
            news["refused"] = [each.for_model or str(each) for each in self.place.stopped]
        self.dialogs.clear()
        self.place.stopped.clear()
        return news | ({"download": self.download.suggested_filename[:_NAME_CHARS]} if self.download else {})
