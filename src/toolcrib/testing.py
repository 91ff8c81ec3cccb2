"""Fakes for tests of tools: ports that live in memory, and a context to run a tool body with.

    async def test_web_fetch_tells_which_page_failed() -> None:
        ctx = fake_ctx(pages={"https://gone.test": FakePage("", status=410)})
        with pytest.raises(ToolError, match="https://gone.test answered 410"):
            await web_fetch.run(ctx, {"url": "https://gone.test"})

What a body did is kept: `ctx.workspace.files`, `ctx.http.asked`, `ctx.rpc.calls`, `ctx.shown`.
"""

import asyncio
import builtins
import fnmatch
import hashlib
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from .define.caller import Caller
from .define.context import Course, Ctx, Ports
from .define.errors import ToolError
from .define.files import NOWHERE, Change, Entry, Find, Found, Line, Listing, Names, Passage, Search, in_order
from .define.message import Call
from .define.paths import joined, outside, parts_of, plain
from .define.result import Result
from .define.rpc import Progress
from .define.shell import Command, Confinement, Ended, Limits, Whole

__all__ = [
    "FakeApprover", "FakeCtx", "FakeHttp", "FakePage", "FakeRpc", "FakeRun", "FakeRunning", "FakeShell", "MemoryBlobs",
    "MemoryWorkspace", "fake_ctx",
]  # fmt: skip


class MemoryWorkspace:
    """A workspace of nothing but `files`: normalised relative path to bytes. Folders are those that files lie in."""

    def __init__(self, files: Mapping[str, bytes | str] | None = None, *, access: Literal["rw", "ro"] = "rw") -> None:
        self.files = {_within(path): _bytes(data) for path, data in (files or {}).items()}
        self.folders: set[str] = set()
        self.access = access
        self._noted: dict[str, Entry] = {}

    async def stat(self, path: str, /) -> Entry:
        known = _within(path, folder=True)
        if known in self.files:
            data = self.files[known]
            return Entry(path=known, kind="file", size=len(data), version=hashlib.sha256(data).hexdigest())
        if known not in self._folders():
            raise ToolError(f"no file {path!r}; there are {_listed(self.files)}", code="not_found")
        return Entry(path=known, kind="folder")

    async def read(self, path: str, /, start: int = 0, length: int | None = None) -> bytes:
        entry = await self.stat(path)
        if entry.kind == "folder":
            raise ToolError(f"{path!r} is a folder; give a file in it", code="is_folder")
        return self.files[entry.path][start : None if length is None else start + length]

    async def lines(self, path: str, /, first: int, most: int, size: int) -> Passage:
        data, entry = await self.read(path), await self.stat(path)
        rows = re.findall(rb"[^\n]*\n|[^\n]+", data)
        wanted: list[bytes] = []
        for row in rows[first - 1 : first - 1 + most]:
            if len(b"".join([*wanted, row]).removesuffix(b"\n")) > size:
                break
            wanted.append(row)
        left = rows[first - 1 + len(wanted) :]
        return Passage(
            data=b"".join(wanted), first=first, count=len(wanted), more=bool(left), total=len(rows), entry=entry,
            long=len(left[0]) if left and most and not wanted else None,
        )  # fmt: skip

    async def list(self, path: str, /, most: int = 10_000) -> Listing:
        entry = await self.stat(path)
        if entry.kind != "folder":
            raise ToolError(f"{path!r} is a file, not a folder", code="not_folder")
        inside = {known for known in (*self.files, *self._folders()) if (posixpath.dirname(known) or ".") == entry.path}
        names = sorted(inside - {"."}, key=in_order)
        return Listing(entries=tuple([await self.stat(known) for known in names[:most]]), total=len(names))

    async def write(self, path: str, data: bytes, /) -> Entry:
        return (await self.change([Change(path=path, data=data)]))[0]

    async def change(self, changes: Sequence[Change], /) -> tuple[Entry, ...]:
        files = dict(self.files)
        for change in changes:
            known = self._writable(change.path)
            version = hashlib.sha256(self.files[known]).hexdigest() if known in self.files else NOWHERE
            if change.expect not in (None, version):
                raise ToolError(f"{change.path!r} is not as it was; read it again", code="changed")
            if known in self._folders():
                raise ToolError(f"{change.path!r} is a folder; give the name of a file", code="is_folder")
            if change.data is not None:
                files[known] = change.data
            elif files.pop(known, None) is None:
                raise ToolError(f"no file {change.path!r}; there are {_listed(self.files)}", code="not_found")
        self.files = files
        written = tuple([await self.stat(change.path) for change in changes if change.data is not None])
        self._noted |= {entry.path: entry for entry in written}
        return written

    async def delete(self, path: str, /, *, recursive: bool = False) -> None:
        known = self._writable(path)
        if (await self.stat(path)).kind == "file":
            del self.files[known]
            return
        if (await self.list(path)).total and not recursive:
            raise ToolError(f"{path!r} is a folder that is not empty", code="is_folder")
        self.files = {each: data for each, data in self.files.items() if not each.startswith(f"{known}/")}
        self.folders = {each for each in self.folders if f"{each}/".startswith(f"{known}/") is False}

    async def mkdir(self, path: str, /) -> None:
        known = self._writable(path)
        if known in self.files:
            raise ToolError(f"{path!r} is a file", code="exists")
        self.folders.add(known)

    async def move(self, path: str, to: str, /) -> None:
        old, new = self._writable(path), self._writable(to)
        await self.stat(path)
        if new in self.files or new in self._folders():
            raise ToolError(f"{to!r} exists already", code="exists")
        moved = {each: new + each.removeprefix(old) for each in self.files if each == old or each.startswith(f"{old}/")}
        self.files = {moved.get(each, each): data for each, data in self.files.items()}
        self.folders = {
            new + each.removeprefix(old) if f"{each}/".startswith(f"{old}/") else each for each in self.folders
        }

    async def search(self, query: Search, /) -> Found:
        pattern = re.compile(
            re.escape(query.pattern) if query.literal else query.pattern, re.IGNORECASE if query.ignore_case else 0
        )
        found: list[Line] = []
        for path in self._beneath(query.path, query.glob or "*"):
            rows = self.files[path].decode("utf-8", "replace").split("\n")
            hits = [at for at, row in enumerate(rows) if pattern.search(row)]
            near = {at for hit in hits for at in range(hit - query.context, hit + query.context + 1)}
            found += [
                Line(path=path, number=at + 1, text=rows[at], matched=at in hits)
                for at in sorted(near)
                if 0 <= at < len(rows)
            ]
        return Found(lines=tuple(found[: query.limit]), more=len(found) > query.limit)

    async def find(self, query: Find, /) -> Names:
        paths = self._beneath(query.path, query.pattern)
        return Names(paths=tuple(paths[: query.limit]), more=len(paths) > query.limit)

    def note(self, entry: Entry, /) -> None:
        self._noted[entry.path] = entry

    def noted(self, path: str, /) -> Entry | None:
        return self._noted.get(_within(path))

    def _beneath(self, path: str, glob: str) -> builtins.list[str]:
        folder = _within(path, folder=True)
        inside = [each for each in sorted(self.files) if folder in (".", each) or each.startswith(f"{folder}/")]
        return [each for each in inside if fnmatch.fnmatchcase(each if "/" in glob else posixpath.basename(each), glob)]

    def _folders(self) -> set[str]:
        above = {path[:at] for path in (*self.files, *self.folders) for at, char in enumerate(path) if char == "/"}
        return {".", *self.folders, *above}

    def _writable(self, path: str) -> str:
        if self.access != "rw":
            raise ToolError(f"the workspace is read-only; {path!r} cannot be changed", code="denied")
        return _within(path)


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
    """A gateway of nothing but `answers`: a value, an exception to raise, or a function of the parameters.

    `parts` are told to whoever listens to a method's progress, before its answer.
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
    """A human with prepared answers, given in order. Asked once too often, it fails.

    `asked` keeps what was shown, `bound` what each question was bound to.
    """

    def __init__(self, answers: Iterable[bool] = ()) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[Caller, Call, str]] = []
        self.bound: list[dict[str, str]] = []

    async def approve(
        self, caller: Caller, call: Call, reason: str, binding: Mapping[str, str] = MappingProxyType({}), /
    ) -> bool:
        self.asked.append((caller, call, reason))
        self.bound.append(dict(binding))
        if not self._answers:
            raise AssertionError(f"nobody expected to be asked about {call.name}: {reason}")
        return self._answers.pop(0)


@dataclass(frozen=True, slots=True)
class FakeRun:
    """What a fake command prints, and the code it ends with at once; None leaves it running."""

    output: bytes | str = ""
    code: int | None = 0


class FakeRunning:
    """A command that does what the test says: `prints`, `ends`. What it was sent is in `written` and `signals`."""

    def __init__(self, command: Command, limits: Limits, pid: int, started: float) -> None:
        self.command, self.limits, self.pid, self.started = command, limits, pid, started
        self.written, self.signals, self.is_closed = bytearray(), list[int](), command.stdin is not None
        self._printed = bytearray()
        self._watchers: dict[object, Callable[[bytes], None]] = {}
        self._over = asyncio.Event()
        self.ended: Ended | None = None

    def prints(self, data: bytes | str) -> None:
        """Print something now."""
        self._printed += _bytes(data)
        for told in tuple(self._watchers.values()):
            told(_bytes(data))

    def ends(self, code: int | None = 0, *, ended: Ended | None = None) -> None:
        """End now, with this code or in another way."""
        if self.ended is None:
            self.ended = ended or Ended(reason="exit", duration=1.0, code=code)
            self._over.set()

    @property
    def total(self) -> int:
        return len(self._printed)

    async def wait(self) -> Ended:
        await self._over.wait()
        assert self.ended is not None
        return self.ended

    def tail(self, most: int | None = None) -> bytes:
        count = min(self.limits.output, self.limits.output if most is None else most)
        return bytes(self._printed[-count:]) if count else b""

    def since(self, at: int) -> tuple[int, bytes]:
        begin = min(max(at, self.total - self.limits.output), self.total)
        return begin, bytes(self._printed[begin:])

    async def whole(self) -> Whole:
        data = bytes(self._printed[: self.limits.whole])
        return Whole(data=data, missing=self.total - len(data))

    def watch(self, told: Callable[[bytes], None]) -> Callable[[], None]:
        key = object()
        self._watchers[key] = told
        return lambda: self._watchers.pop(key, None) and None

    async def write(self, data: bytes) -> None:
        if self.is_closed and self.command.pty is None:
            raise ToolError("the command takes no more input", code="closed")
        self.written += data

    async def close_stdin(self) -> None:
        self.is_closed = True

    def resize(self, columns: int, rows: int) -> None:
        self.screen()

    def screen(self) -> str:
        if self.command.pty is None:
            raise ToolError("the command has no terminal; start it with pty", code="unavailable")
        return f"[a screen of {self.command.pty[0]} columns]"

    def signal(self, number: int) -> None:
        self.signals.append(number)

    async def stop(self, grace: float | None = None) -> Ended:
        self.ends(ended=Ended(reason="stop", duration=1.0))
        return await self.wait()


class FakeShell:
    """A shell that runs nothing: commands do what `runs` says about their line, or about their words joined by blanks.

    `started` lists every command in order.
    """

    def __init__(self, runs: Mapping[str, FakeRun | str | ToolError] | None = None, *, at: float = 0.0) -> None:
        self.runs, self.at = dict(runs or {}), at
        self.started: list[FakeRunning] = []

    async def start(self, command: Command, limits: Limits, /) -> FakeRunning:
        line = command.line if command.line is not None else " ".join(command.argv or ())
        run = self.runs.get(line)
        if run is None:
            raise ToolError(f"no program {line!r} here; there are {_listed(self.runs)}", code="not_found")
        if isinstance(run, ToolError):
            raise run
        run = FakeRun(run) if isinstance(run, str) else run
        running = FakeRunning(command, limits, 100 + len(self.started), self.at)
        self.started.append(running)
        running.prints(run.output)
        if run.code is not None:
            running.ends(run.code)
        return running

    async def describe(self) -> Confinement:
        return Confinement(kind="host", facts=("nothing is run",))

    async def close(self) -> None:
        for running in self.started:
            await running.stop()


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

    @property
    def workspace(self) -> MemoryWorkspace:
        return self.ports.workspace

    @property
    def http(self) -> FakeHttp:
        return self.ports.http

    @property
    def rpc(self) -> FakeRpc:
        return self.ports.rpc

    @property
    def blobs(self) -> MemoryBlobs:
        return self.ports.blobs

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
) -> FakeCtx:
    """Return a context for one call of the tool `name`, in a world of these pages, files, methods and secrets."""
    shown: list[Result] = []
    course = Course()
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
            shown=shown,
        ),
    )


def _secret_from(secrets: Mapping[str, str]) -> Callable[[str], str]:
    def secret(name: str) -> str:
        if name not in secrets:
            raise ToolError(f"this crib holds no secret {name!r}", code="unavailable")
        return secrets[name]

    return secret


def _within(path: str, *, folder: bool = False) -> str:
    """Return the path in one spelling; refuse one that leads out, as every workspace does."""
    parts = plain(parts_of(path))
    if parts is None:
        raise outside(path)
    if not parts and not folder:
        raise ToolError(f"{path!r} is the workspace itself, not a file in it", code="is_folder")
    return joined(parts)


def _bytes(data: bytes | str) -> bytes:
    return data.encode() if isinstance(data, str) else data


def _listed(known: Iterable[str]) -> str:
    return ", ".join(sorted(known)) or "none"
