"""Fakes for tests of tools: ports that live in memory, and a context to run a tool body with.

    async def test_web_fetch_tells_which_page_failed() -> None:
        ctx = fake_ctx(pages={"https://gone.test": FakePage("", status=410)})
        with pytest.raises(ToolError, match="https://gone.test answered 410"):
            await web_fetch.run(ctx, {"url": "https://gone.test"})

What a body did is kept: `ctx.workspace.files`, `ctx.http.asked`, `ctx.rpc.calls`, `ctx.shown`.
"""

import hashlib
import posixpath
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .define.caller import Caller
from .define.context import Ctx
from .define.errors import ToolError
from .define.message import Call
from .define.result import Result

__all__ = ["FakeApprover", "FakeCtx", "FakeHttp", "FakePage", "FakeRpc", "MemoryBlobs", "MemoryWorkspace", "fake_ctx"]


class MemoryWorkspace:
    """A workspace of nothing but `files`: normalised relative path to bytes."""

    def __init__(self, files: Mapping[str, bytes | str] | None = None) -> None:
        self.files = {_within(path): _bytes(data) for path, data in (files or {}).items()}

    async def read(self, path: str, /) -> bytes:
        known = _within(path)
        if known not in self.files:
            raise ToolError(f"no file {path!r}; there are {_listed(self.files)}", code="not_found")
        return self.files[known]

    async def write(self, path: str, data: bytes, /) -> None:
        self.files[_within(path)] = data


@dataclass(frozen=True, slots=True)
class FakePage:
    """What an address answers."""

    text: str
    status: int = 200


class FakeHttp:
    """A web of nothing but `pages`; `asked` lists every address in order."""

    def __init__(self, pages: Mapping[str, FakePage | str] | None = None) -> None:
        self.pages = {url: FakePage(page) if isinstance(page, str) else page for url, page in (pages or {}).items()}
        self.asked: list[str] = []

    async def get(self, url: str, /) -> FakePage:
        self.asked.append(url)
        if url not in self.pages:
            raise ToolError(f"{url} does not answer; there are {_listed(self.pages)}", code="unreachable")
        return self.pages[url]


class FakeRpc:
    """A gateway of nothing but `answers`: a value, an exception to raise, or a function of the parameters."""

    def __init__(self, answers: Mapping[str, Any] | None = None) -> None:
        self.answers = dict(answers or {})
        self.calls: list[tuple[str, dict[str, Any]]] = []

    async def __call__(self, method: str, params: Mapping[str, Any], /) -> Any:
        self.calls.append((method, dict(params)))
        if method not in self.answers:
            raise ToolError(f"no method {method!r}; there are {_listed(self.answers)}", code="not_found")
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
    """A human with prepared answers, given in order; `asked` keeps what was shown. Asked once too often, it fails."""

    def __init__(self, answers: Iterable[bool] = ()) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[Caller, Call, str]] = []

    async def approve(self, caller: Caller, call: Call, reason: str) -> bool:
        self.asked.append((caller, call, reason))
        if not self._answers:
            raise AssertionError(f"nobody expected to be asked about {call.name}: {reason}")
        return self._answers.pop(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeCtx(Ctx):
    """A Ctx whose ports are all fakes; `shown` is the progress that the body reported."""

    workspace: MemoryWorkspace = field(default_factory=MemoryWorkspace)
    http: FakeHttp = field(default_factory=FakeHttp)
    rpc: FakeRpc = field(default_factory=FakeRpc)
    blobs: MemoryBlobs = field(default_factory=MemoryBlobs)
    shown: list[Result] = field(default_factory=list)


def fake_ctx(  # noqa: PLR0913  the world of a test, each part by name
    name: str = "tool",
    args: Mapping[str, Any] | None = None,
    *,
    caller: Caller | None = None,
    pages: Mapping[str, FakePage | str] | None = None,
    files: Mapping[str, bytes | str] | None = None,
    rpc: Mapping[str, Any] | None = None,
    secrets: Mapping[str, str] | None = None,
) -> FakeCtx:
    """Return a context for one call of the tool `name`, in a world of these pages, files, methods and secrets."""
    shown: list[Result] = []
    return FakeCtx(
        call=Call(id="call_1", name=name, args=args or {}, key="call_1"),
        caller=caller or Caller(),
        workspace=MemoryWorkspace(files),
        http=FakeHttp(pages),
        rpc=FakeRpc(rpc),
        secret=_secret_from(secrets or {}),
        progress=shown.append,
        shown=shown,
    )


def _secret_from(secrets: Mapping[str, str]) -> Callable[[str], str]:
    def secret(name: str) -> str:
        if name not in secrets:
            raise ToolError(f"this crib holds no secret {name!r}", code="unavailable")
        return secrets[name]

    return secret


def _within(path: str) -> str:
    """Return the path in one spelling; refuse one that leads out, as every workspace does."""
    plain = posixpath.normpath(path)
    if plain.startswith(("/", "../")) or plain in ("..", "."):
        raise ToolError(f"{path!r} is no file inside the workspace", code="denied")
    return plain


def _bytes(data: bytes | str) -> bytes:
    return data.encode() if isinstance(data, str) else data


def _listed(known: Iterable[str]) -> str:
    return ", ".join(sorted(known)) or "none"
