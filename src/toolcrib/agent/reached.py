"""The files that a guest's call reaches by a tool whose own work is another: judged as `read` or `write` of each.

Who may do neither reaches what came or was made in their own chats. What a body is to open is judged before it runs,
and whatever it comes to besides when it does; it may begin new files, which are this person's.
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from typing import Literal

from toolcrib.define.context import Ctx
from toolcrib.define.errors import ToolError
from toolcrib.define.plugin import Ask
from toolcrib.define.ports import Workspace
from toolcrib.define.record import Judged, Record
from toolcrib.define.tool import PROGRAM, Tool
from toolcrib.define.verdict import Consent, Selection, Verdict
from toolcrib.policy.reach import read_declared

from .argued import JudgedWorkspace, deny_call, judge_arguments
from .deadline import wait_to_end

Way = Literal["read", "write"]

# read and write files, or run what does, or keep each person's notes apart: judged as what they are
_OWN_WORK = frozenset({"fs", "runtime", "memory"})
_TOOLS: dict[Way, tuple[str, ...]] = {"read": ("read",), "write": ("write", "edit")}
_RANKS = {"allow": 0, "ask": 1, "deny": 2}


class ReachedFiles:
    """What one call of a guest may do with files; `asked_for` are those that it names and may reach, resolved."""

    def __init__(self, belt: Selection, tool: Tool, ctx: Ctx, sources: Callable[[], Collection[str]]) -> None:
        self._belt, self._tool, self._ctx, self._sources = belt, tool, ctx, sources
        self.asked_for: dict[Way, set[str]] = {"read": set(), "write": set()}
        self.asks = False

    @classmethod
    def of(
        cls, belt: Selection, tool: Tool, ctx: Ctx, sources: Callable[[], Collection[str]] = tuple
    ) -> "ReachedFiles | None":
        """Return what judges the files of a call, None where nobody does."""
        return cls(belt, tool, ctx, sources) if cls.are_judged(belt, tool) else None

    @staticmethod
    def are_judged(belt: Selection, tool: Tool) -> bool:
        """Tell whether files are judged that calls of a tool reach: not the owner's, and not of tools that need no such
        judge. What a program hands over is meant for its callers.
        """
        return belt.is_guests and tool.source != PROGRAM and tool.group not in _OWN_WORK

    async def list_verdicts(self) -> dict[str, Verdict]:
        """Return who asks about a file that the call names, or denies it, by the file."""
        args, workspace, found = self._ctx.call.args, self._ctx.ports.workspace, dict[str, Verdict]()
        written = {str(args[name]) for name in self._tool.written if args.get(name)}
        for text in read_declared(self._tool, "path", args):
            way: Way = "write" if text in written else "read"
            try:
                real = await workspace.resolve(text)
            except ToolError:
                continue  # the body says so
            if real not in self.asked_for[way] and not await self._ctx.ports.owns(real):
                verdict = self._judge(way, real)
                if verdict.decision != "allow":
                    found[real] = self._explain(verdict, way, real)
            self.asked_for[way].add(real)
        return found

    async def settle(self, questions: list[Ask], record: Record) -> None:
        """Write down who asks or denies; raise ToolError when somebody denies."""
        for path, verdict in (await self.list_verdicts()).items():
            if writing := record.write(Judged(self._ctx.call, "files", verdict.decision, verdict.reason)):
                await wait_to_end(writing)
            if verdict.decision == "deny":
                raise deny_call(verdict)
            self.asks = True
            questions.append(Ask(verdict.reason, says=self._list_says(verdict.rule or "", path)))

    def confine(self, ctx: Ctx) -> Ctx:
        """Return the context for the body: what it comes to by path is judged, too."""
        return ctx._replace(ports=replace(ctx.ports, workspace=_ReachedWorkspace(ctx.ports.workspace, self)))

    async def may_take(self, workspace: Workspace, way: Way, path: str) -> bool:
        """Tell whether a file is this person's, or is not there yet and about to be."""
        if (is_theirs := await self._ctx.ports.owns(path)) or way == "read":
            return is_theirs
        try:
            await workspace.stat(path)
        except ToolError as error:
            return error.code == "not_found"
        return False

    def check(self, way: Way, path: str) -> None:
        """Refuse what the caller may not do with a file; one that a human would be asked about was not shown."""
        if (verdict := self._judge(way, path)).decision != "allow":
            raise deny_call(self._explain(verdict, way, path))

    def _judge(self, way: Way, path: str) -> Verdict:
        """Return what the caller's rules say of a file, by the tool for it that they are mildest about."""
        return min((self._judge_as(name, path) for name in _TOOLS[way]), key=lambda each: _RANKS[each.decision])

    def _judge_as(self, name: str, path: str) -> Verdict:
        belt, tool = self._belt, self._belt.tools.get(name)
        if tool is None:
            return belt.verdicts.get(name) or Verdict(name, "deny", "owner", name, None, "there is none", None)
        rules = belt.rules_about and belt.rules_about(tool)
        verdict = rules and rules.judge(rules.read({"path": path}, self._sources()))
        return verdict or belt.verdicts[name]

    def _list_says(self, name: str, path: str) -> tuple[Consent, ...]:
        """Return who may answer for each rule that asks about a file, by a tool for it."""
        belt = self._belt
        every = belt.says_about(name) if belt.verdicts[name].decision == "ask" else ()
        rules = belt.rules_about and belt.rules_about(belt.tools[name])
        return (*every, *(rules.list_says(rules.read({"path": path}, self._sources())) if rules else ()))

    def _explain(self, verdict: Verdict, way: Way, path: str) -> Verdict:
        word = "asked about" if verdict.decision == "ask" else "denied"
        why = f"to {way} it is {word} at the {verdict.layer} layer: {verdict.tool} is {verdict.reason}"
        reason = f"{path!r} neither came nor was made in this person's own chats, and {why}"
        return replace(verdict, tool=self._tool.name, layer="argument", rule=verdict.tool, reason=reason)


class _Files(JudgedWorkspace):
    """A workspace, in one of both ways."""

    def __init__(self, inner: Workspace, files: ReachedFiles, way: Way) -> None:
        super().__init__(inner, partial(files.check, way), files.asked_for[way])
        self._files, self._way = files, way

    async def resolve(self, path: str, /) -> str:
        real = path if path in self._known else await self.inner.resolve(path)
        if real not in self._known and await self._files.may_take(self.inner, self._way, real):
            self._known.add(real)
        return await super().resolve(real)


class _ReachedWorkspace:
    """A workspace in which every path is judged by what is done there."""

    def __init__(self, inner: Workspace, files: ReachedFiles) -> None:
        read, written = _Files(inner, files, "read"), _Files(inner, files, "write")
        self.stat, self.read, self.lines, self.list = read.stat, read.read, read.lines, read.list
        self.search, self.find, self.is_shut = read.search, read.find, read.is_shut
        self.write, self.change, self.mkdir = written.write, written.change, written.mkdir
        self.delete, self.move = written.delete, written.move
        self.resolve, self.note, self.last_seen = inner.resolve, inner.note, inner.last_seen
        self.trace, self.mark = inner.trace, inner.mark
        self.without_links = lambda: _ReachedWorkspace(inner.without_links(), files)


async def open_judged(belt: Selection, ctx: Ctx) -> Workspace:
    """Return the caller's files as the body of this call comes to them; raise ToolError where it may not run."""
    tool, verdict = belt.tools.get(ctx.call.name), belt.verdicts[ctx.call.name]
    if tool is None:
        raise deny_call(verdict)
    found = list[Verdict]()
    if (rules := belt.rules_about and belt.rules_about(tool)) is not None:
        judged = await judge_arguments(rules, tool, ctx, ctx.call.args)
        found += [judged.verdict] if judged.verdict is not None else []
        ctx = judged.confine(ctx)
    if (files := ReachedFiles.of(belt, tool, ctx)) is not None:
        found += (await files.list_verdicts()).values()
        ctx = files.confine(ctx)
    if denied := next((each for each in found if each.decision == "deny"), None):
        raise deny_call(denied)
    return ctx.ports.workspace
