"""Rules about arguments, applied to one call: to what it is called with, and to whatever its body reaches for.

A path is resolved once, and the body opens what was judged. A body may look for another spelling of a name, follow a
redirect, or search a folder: each place that it comes to is judged like the argument that led there.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

from pydantic_core import to_jsonable_python

from toolcrib.define.approval import AnswerDesk
from toolcrib.define.context import Ctx
from toolcrib.define.errors import ToolError
from toolcrib.define.files import Change, Entry, Find, Found, Listing, Names, Passage, Search
from toolcrib.define.plugin import Ask
from toolcrib.define.ports import Workspace
from toolcrib.define.record import Judged, Record
from toolcrib.define.tool import Tool
from toolcrib.define.verdict import ArgumentRules, Basis, Grounds, Verdict
from toolcrib.lazy import asdict, dataclass, replace
from toolcrib.policy.arguments import bind_grant, resolve_places
from toolcrib.policy.explain import explain_sentence
from toolcrib.policy.reach import ANY

from .deadline import wait_to_end


class CallBound(Protocol):
    """What holds the body of a call to what was judged."""

    def confine(self, ctx: Ctx) -> Ctx: ...


@dataclass(frozen=True, slots=True)
class ArgumentJudgement:
    """What the rules about its arguments say of one call: the arguments, paths resolved, and what was looked at."""

    rules: ArgumentRules
    args: Mapping[str, Any]
    values: Mapping[str, Any]
    verdict: Verdict | None

    async def settle(self, ctx: Ctx, questions: list[Ask], record: Record, grounds: Grounds | None) -> None:
        """Write down who asks or denies, with what that follows from again; raise ToolError when somebody denies."""
        verdict = self.verdict
        if verdict is None:
            return
        basis = Basis(verdict.rule or "", verdict.origin or "", grounds, self.describe(ctx))
        if writing := record.write(Judged(ctx.call, "argument", verdict.decision, verdict.reason, basis)):
            await wait_to_end(writing)
        if verdict.decision == "deny":
            raise deny_call(verdict)
        says = self.rules.list_says(self.values)
        if all((each.reason, each.says) != (verdict.reason, says) for each in questions):
            questions.append(Ask(verdict.reason, basis=basis, says=says))

    def describe(self, ctx: Ctx) -> Mapping[str, Any]:
        """Return what was looked at, as JSON: with the rules, the verdict follows from it again."""
        declared = {"paths": self.rules.paths, "urls": self.rules.urls}
        places = {name: [key for key in keys if not key.startswith(ANY)] for name, keys in declared.items()}
        tool = self.verdict.tool if self.verdict else ctx.call.name
        seen_values = {"tool": tool, "caller": asdict(ctx.caller), "values": self.values, **places}
        seen: Mapping[str, Any] = to_jsonable_python(seen_values, fallback=str)
        return seen

    def confine(self, ctx: Ctx) -> Ctx:
        """Return the context for the body: what it comes to by path or address is judged, too."""
        ports, rules = ctx.ports, self.rules
        if rules.paths:
            known = {each for name in rules.paths for each in _texts(self.values[name])}
            ports = replace(ports, workspace=JudgedWorkspace(ports.workspace, self._check_path, known))
        if rules.urls:
            ports = replace(ports, http=ports.http.judge_with(self._check_url))
        return ctx if ports is ctx.ports else ctx._replace(ports=ports)

    def _check_path(self, path: str) -> None:
        self._check(self.rules.paths, path)

    def _check_url(self, url: str) -> None:
        self._check(self.rules.urls, url)

    def _check(self, names: Iterable[str], place: str) -> None:
        """Refuse a place that the call could not have named; one that a human would be asked about was not shown."""
        verdict = self.rules.judge({**self.values, **dict.fromkeys(names, place)})
        if verdict is not None and (
            verdict.decision == "deny" or self.verdict is None or verdict.rule != self.verdict.rule
        ):
            raise deny_call(replace(verdict, decision="deny", reason=f"{place!r}: {verdict.reason}"))


def _texts(value: Any) -> list[str]:
    return [each for each in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(each, str)]


def deny_call(verdict: Verdict) -> ToolError:
    """Return why a call is refused with its arguments; a model reads no rule."""
    refusal = f"Refused: {verdict.tool} is not permitted with these arguments. Use others, or tell the user."
    return ToolError(explain_sentence(verdict), code="denied", for_model=refusal)


async def judge_arguments(
    rules: ArgumentRules, tool: Tool, ctx: Ctx, args: Mapping[str, Any], sources: Iterable[str] = ()
) -> ArgumentJudgement:
    """Return what the rules say of a call with these arguments."""
    args, values = await resolve_places(rules, tool, args, ctx.ports, tuple(sources))
    return ArgumentJudgement(rules, args, values, rules.judge(values))


async def use_grant(
    desk: AnswerDesk, tool: Tool, ctx: Ctx, args: Mapping[str, Any], sources: Collection[str]
) -> ArgumentJudgement | None:
    """Spend the first grant that the call meets, and return what holds the body to it; None when a human is asked.

    Only rules ask what such a grant answers: a question of a guard is about this call, which whoever gave the grant has
    not seen.
    """
    for grant in await desk.list_conditional(ctx.caller, tool.name, tool.source):
        try:
            judged = await judge_arguments(bind_grant(tool, grant.when, grant.id), tool, ctx, args, sources)
        except ToolError:
            continue  # a path that cannot be resolved meets no condition; whoever is asked sees it
        if judged.verdict is None and await desk.spend(grant, ctx.call):
            return judged
    return None


class JudgedWorkspace:
    """A workspace in which every path that is reached for is judged; searches leave out what may not be reached.

    What was judged is opened without following a link: one that took its place meanwhile leads nowhere. `by_rules` is
    false where no rule of the configuration judges, so that there is none to show.
    """

    def __init__(
        self, inner: Workspace, check: Callable[[str], None], known: set[str], *, by_rules: bool = True
    ) -> None:
        self.inner, self._check, self._known, self._by_rules = inner, check, known, by_rules
        self.note, self.last_seen, self.trace, self.mark = inner.note, inner.last_seen, inner.trace, inner.mark

    @cached_property
    def _strict(self) -> Workspace:
        return self.inner.without_links()

    def without_links(self) -> Workspace:
        return JudgedWorkspace(self._strict, self._check, self._known, by_rules=self._by_rules)

    async def resolve(self, path: str, /) -> str:
        if path in self._known:
            return path
        real = await self.inner.resolve(path)
        if real not in self._known:
            self._check(real)
            self._known.add(real)
        return real

    async def _name(self, path: str) -> str:
        """Return the path of what has this name, be it a link; the name and where it leads are judged."""
        folder, mark, name = path.rstrip("/").rpartition("/")
        await self.resolve(path)
        real = f"{await self.inner.resolve(folder or '/') if mark else ''}/{name}".removeprefix("./").lstrip("/")
        self._check(real)
        return real

    async def stat(self, path: str, /) -> Entry:
        return await self._strict.stat(await self.resolve(path))

    async def read(self, path: str, /, start: int = 0, length: int | None = None) -> bytes:
        return await self._strict.read(await self.resolve(path), start, length)

    async def lines(self, path: str, /, first: int, most: int, size: int) -> Passage:
        return await self._strict.lines(await self.resolve(path), first, most, size)

    async def list(self, path: str, /, most: int = 10_000) -> Listing:
        return await self._strict.list(await self.resolve(path), most)

    async def write(self, path: str, data: bytes, /) -> Entry:
        return await self._strict.write(await self.resolve(path), data)

    async def change(self, changes: Sequence[Change], /) -> tuple[Entry, ...]:
        return await self._strict.change([await self._resolve_change(each) for each in changes])

    async def _resolve_change(self, change: Change) -> Change:
        like = change.like if change.like is None else await self.resolve(change.like)
        return replace(change, path=await self.resolve(change.path), like=like)

    async def delete(self, path: str, /, *, recursive: bool = False) -> None:
        await self._strict.delete(await self._name(path), recursive=recursive)

    async def mkdir(self, path: str, /) -> None:
        await self._strict.mkdir(await self.resolve(path))

    async def move(self, path: str, to: str, /) -> None:
        await self._strict.move(await self._name(path), await self.resolve(to))

    async def search(self, query: Search, /) -> Found:
        asked = replace(query, path=await self.resolve(query.path), is_shut=self._join_shut(query.is_shut))
        found = await self._strict.search(asked)
        return replace(found, judged=True) if self._by_rules else found

    async def find(self, query: Find, /) -> Names:
        asked = replace(query, path=await self.resolve(query.path), is_shut=self._join_shut(query.is_shut))
        found = await self._strict.find(asked)
        return replace(found, judged=True) if self._by_rules else found

    def _join_shut(self, is_shut: Callable[[str], bool] | None) -> Callable[[str], bool]:
        return self.is_shut if is_shut is None else lambda path: self.is_shut(path) or is_shut(path)

    def is_shut(self, path: str, /) -> bool:
        try:
            if path not in self._known:
                self._check(path.rstrip("/"))
        except ToolError:
            return True
        return False
