"""Fakes for tests of tools: ports in memory, a context to run a body with, models that say what a test wants.

    def test_web_fetch_tells_which_page_failed() -> None:
        ctx = fake_ctx(pages={"https://gone.test": FakePage("", status=410)})
        result = run_sync(call(web_fetch, {"url": "https://gone.test"}, ctx))
        assert (result.status, result.plain_text) == ("error", "https://gone.test answered 410")

What a body did is kept: `ctx.workspace.files`, `ctx.http.asked`, `ctx.rpc.calls`, `ctx.shown`. An `async def test_...`
needs a plugin of pytest's, such as the one that comes with anyio, and its mark.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from itertools import repeat
from types import MappingProxyType
from typing import Any

from toolcrib.define.caller import Caller
from toolcrib.define.context import CallState, Ctx, Ports
from toolcrib.define.errors import ToolError
from toolcrib.define.message import Call
from toolcrib.define.ports import AskPerson, Progress
from toolcrib.define.result import Result
from toolcrib.define.sourced import attribute
from toolcrib.define.tool import Tool, as_tool
from toolcrib.define.web import Page
from toolcrib.lazy import dataclass, field

from .files import MemoryWorkspace, list_names
from .models import FunctionModel, ScriptedModel, call_reply, text_reply
from .shell import FakeRun, FakeRunning, FakeShell
from .tape import cassette

__all__ = [
    "FakeApprover", "FakeCtx", "FakeHttp", "FakePage", "FakeRpc", "FakeRun", "FakeRunning", "FakeShell",
    "FunctionModel", "MemoryBlobs", "MemoryWorkspace", "ScriptedModel", "call", "call_reply", "cassette", "fake_ctx",
    "text_reply",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class FakePage:
    """What an address answers; `headers` with names in lower case."""

    text: str | bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


class FakeHttp:
    """A web of nothing but `pages`; `asked` lists every address in order, `sent` what came with each."""

    def __init__(self, pages: Mapping[str, FakePage | str] | None = None) -> None:
        self.pages = {url: FakePage(page) if isinstance(page, str) else page for url, page in (pages or {}).items()}
        self.asked: list[str] = []
        self.sent: list[tuple[str, Mapping[str, str], bytes]] = []
        self.judges: list[Callable[[str], None]] = []

    def judge_with(self, judge: Callable[[str], None], /) -> "FakeHttp":
        """Return the same web, on which `judge` hears every address."""
        judged = copy(self)
        judged.judges = [*self.judges, judge]
        return judged

    async def get(self, url: str, /, *, headers: Mapping[str, str] = MappingProxyType({}), **terms: Any) -> Page:
        """Answer with the page; how long and how large it may be is all one."""
        return await self.send("GET", url, headers=headers, **terms)

    async def send(
        self,
        method: str,
        url: str,
        /,
        *,
        headers: Mapping[str, str] = MappingProxyType({}),
        body: bytes = b"",
        **terms: Any,
    ) -> Page:
        """Answer any method with the page."""
        for judge in self.judges:
            judge(url)
        self.asked.append(url)
        self.sent.append((method, headers, body))
        if url not in self.pages:
            raise ToolError(f"{url} does not answer; there are {list_names(self.pages)}", code="unavailable")
        page = self.pages[url]
        text = page.text.encode() if isinstance(page.text, str) else page.text
        return Page(url=url, status=page.status, headers=page.headers, body=text)


class FakeRpc:
    """A gateway of nothing but `answers`: a value, an exception to raise, or a function of the parameters.

    `parts` go to the listener of a method's progress, before its answer.
    """

    def __init__(
        self, answers: Mapping[str, Any] | None = None, parts: Mapping[str, Iterable[Any]] | None = None
    ) -> None:
        self.answers, self.parts = dict(answers or {}), dict(parts or {})
        self.calls: list[tuple[str, dict[str, Any]]] = []

    async def __call__(self, method: str, params: Mapping[str, Any], /, progress: Progress | None = None) -> Any:
        self.calls.append((method, dict(params)))
        for part in self.parts.get(method, ()):
            if progress is not None:
                progress(part)
        if method not in self.answers:
            raise ToolError(f"no method {method!r}; there are {list_names(self.answers)}", code="not_found")
        answer = self.answers[method]
        if isinstance(answer, BaseException):
            raise answer
        return answer(params) if callable(answer) else answer


class MemoryBlobs:
    """Values by their SHA-256, in memory."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    async def put(self, data: bytes, /) -> str:
        key = hashlib.sha256(data).hexdigest()
        self.values[key] = data
        return key

    async def get(self, key: str, /) -> bytes:
        if key not in self.values:
            raise ToolError(f"no blob {key!r}", code="not_found")
        return self.values[key]


class FakeApprover:
    """A human with prepared answers, given in order: asked once too often, it fails. `True` or `False` answers all.

    `asked` keeps what was shown, `bound` what each question was bound to.
    """

    def __init__(self, answers: Iterable[bool] | bool = ()) -> None:
        self._answers: Iterator[bool] = repeat(answers) if isinstance(answers, bool) else iter(list(answers))
        self.asked: list[tuple[Caller, Call, str]] = []
        self.bound: list[dict[str, str]] = []

    async def approve(
        self, caller: Caller, call: Call, reason: str, binding: Mapping[str, str] = MappingProxyType({}), /
    ) -> bool:
        self.asked.append((caller, call, reason))
        self.bound.append(dict(binding))
        answer = next(self._answers, None)
        if answer is None:
            raise AssertionError(f"nobody expected to be asked about {call.name}: {reason}")
        return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class FakePorts(Ports):
    """Ports that are all fakes; `shown` is the progress that the body reported."""

    workspace: MemoryWorkspace
    http: FakeHttp
    rpc: FakeRpc
    blobs: MemoryBlobs
    shown: list[Result]


class FakeCtx(Ctx):
    """A Ctx whose ports are all fakes."""

    __slots__ = ()
    ports: FakePorts
    blobs: MemoryBlobs

    @property
    def rpc(self) -> FakeRpc:
        return self.ports.rpc

    @property  # what a body sees through `call` is this, its sources gathered
    def workspace(self) -> MemoryWorkspace:
        return self.ports.workspace

    @property
    def http(self) -> FakeHttp:
        return self.ports.http

    @property
    def shown(self) -> list[Result]:
        """The progress that the body reported."""
        return self.ports.shown


def fake_ctx(  # noqa: PLR0913  the world of a test, each part by name
    name: str = "tool",
    args: Mapping[str, Any] | None = None,
    *,
    caller: Caller | None = None,
    pages: Mapping[str, FakePage | str] | None = None,
    files: Mapping[str, bytes | str] | None = None,
    rpc: Mapping[str, Any] | None = None,
    secrets: Mapping[str, str] | None = None,
    answers: Iterable[Mapping[str, Any] | None] | None = None,
) -> FakeCtx:
    """Return a context for one call of the tool `name`, in a world of these pages, files, methods and secrets.

    `answers` are those of a person to `ctx.ask`, one after the other; without them there is no one to ask.
    """
    shown: list[Result] = []
    course = CallState()
    course.watch = shown.append
    return FakeCtx(
        call=Call(id="call_1", name=name, args=args or {}, key="call_1"),
        caller=caller or Caller(),
        course=course,
        ports=FakePorts(
            workspace=MemoryWorkspace(files),
            http=FakeHttp(pages),
            rpc=FakeRpc(rpc),
            blobs=MemoryBlobs(),
            secret=_secret_from(secrets or {}),
            ask=Ports().ask if answers is None else _person_with(answers),
            later=_keep_nothing,
            shown=shown,
        ),
    )


async def call(
    tool: Tool | Callable[..., Any], args: Mapping[str, Any] | None = None, ctx: Ctx | None = None
) -> Result:
    """Check the arguments as a real call does, run the body, and return what came of it.

    What is raised on purpose comes back as a Result that failed; a bug leaves as it is, for the test to show.
    """
    this = as_tool(tool)
    seen = ctx or fake_ctx(this.name)
    try:
        checked = this.check(args or {})
        seen = ctx or fake_ctx(this.name, checked)
        result = await this.run(Ctx(*seen), checked)
    except ToolError as error:
        result = Result.error(str(error), code=error.code, source=error.source)
    return attribute(result, seen.course.sources) if seen.course.sources else result


def _person_with(answers: Iterable[Mapping[str, Any] | None]) -> AskPerson:
    left = iter(list(answers))

    async def ask(message: str, schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
        try:
            return next(left)
        except StopIteration:
            raise AssertionError(f"nobody expected to be asked: {message}") from None

    return ask


async def _keep_nothing(ctx: Ctx, handle: str, seconds: float) -> str:
    return handle


def _secret_from(secrets: Mapping[str, str]) -> Callable[[str], str]:
    def secret(name: str) -> str:
        if name not in secrets:
            raise ToolError(f"this crib holds no secret {name!r}", code="unavailable")
        return secrets[name]

    return secret
