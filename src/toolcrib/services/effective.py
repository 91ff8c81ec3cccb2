"""What stands beside the rules now, for explain: grants that answer for a human, and quotas with what is left."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from toolcrib.define.approval import Grant, lasting_digest
from toolcrib.define.caller import Caller
from toolcrib.define.context import Ports
from toolcrib.define.errors import ToolError
from toolcrib.define.message import Call
from toolcrib.define.result import Result
from toolcrib.define.tool import Tool
from toolcrib.define.verdict import Consent, LayerName, Selection, Verdict
from toolcrib.define.web import WayOut
from toolcrib.lazy import asdict, dataclass, field
from toolcrib.policy.arguments import bind_grant, resolve_places
from toolcrib.policy.explain import JudgedCall, caller_json, explain_json, with_call
from toolcrib.policy.resolve import resolve
from toolcrib.policy.settings import PolicySettings
from toolcrib.policy.taint import taint_rules_for

from .approvals import Approvals
from .feature import Core, Feature
from .grants import CONFIGURATION
from .quotas import Quotas

_Row = dict[str, Any]


def mount(core: Core) -> Feature:
    """Mount what explain asks besides the rules."""
    return Feature(services=(EffectiveVerdicts(core.find(Approvals), core.find(Quotas)),))


class ToolCatalog(Protocol):
    """Every tool that exists, and what is wrong with those that were left out."""

    @property
    def tools(self) -> Mapping[str, Tool]: ...
    @property
    def groups(self) -> Mapping[str, frozenset[str]]: ...
    @property
    def problems(self) -> Sequence[Any]: ...


class CallerBelt(Protocol):
    """The tools of one caller, as far as they are listed and called here."""

    @property
    def tools(self) -> Mapping[str, Tool]: ...
    @property
    def caller(self) -> Caller: ...
    @property
    def catalog(self) -> "ToolCatalog": ...
    @property
    def verdicts(self) -> Mapping[str, Verdict]: ...
    @property
    def selection(self) -> Selection: ...
    def steps(self, name: str, /) -> Sequence[Any]: ...
    def judge_call(
        self, name: str, args: Mapping[str, Any], way_out: WayOut, sources: Collection[str], /
    ) -> Awaitable[JudgedCall]: ...
    @property
    def ports(self) -> Ports: ...
    def call(
        self, name: str, args: Mapping[str, Any], /, *, progress: Callable[[Result], None] | None
    ) -> Awaitable[Result]: ...
    def call_instead(
        self, name: str, args: Mapping[str, Any], run: Callable[[], Awaitable[Any]], /
    ) -> Awaitable[Any]: ...


class Asked(NamedTuple):
    """What explain is asked: how to read what the conversation holds from outside, perhaps of one tool, or one call.

    `judge` gives the verdict that counts where the file sends its callers elsewhere.
    """

    read_sources: Callable[[], Awaitable[Collection[str]]]
    tool: str = ""
    args: Mapping[str, Any] | None = None
    judge: Callable[[Verdict], Verdict] = lambda verdict: verdict


class EffectiveVerdicts:
    """Says what becomes of verdicts by what was granted and counted; a denial stays one."""

    def __init__(self, approvals: Approvals, quotas: Quotas) -> None:
        self._approvals, self._quotas = approvals, quotas

    async def explain(self, belt: CallerBelt, policy: PolicySettings, way_out: WayOut, asked: Asked) -> dict[str, Any]:
        """Return the whole answer of explain, as it counts now."""
        tools, only, called, says = belt.catalog.tools, asked.tool, None, tuple[Consent, ...]()
        rules = taint_rules_for(policy, belt.caller, tools, belt.catalog.groups)
        sources = tuple(await asked.read_sources()) if only or rules else ()

        def judge(verdict: Verdict) -> Verdict:
            return rules.apply(asked.judge(verdict), sources)

        answer = explain_json(caller_json(resolve(policy, belt.caller)), belt.selection, tools, only, judge)
        if only:
            answer["steps"] += map(asdict, rules.step(only, sources))
        answer |= rules.to_json(only, sources)
        if asked.args is not None:
            judgement, verdict = await belt.judge_call(only, asked.args, way_out, sources), belt.verdicts[only]
            answer = with_call(answer, asked.judge(verdict), judge(verdict), judgement.found)
            called, says = CalledWith(judgement.args, sources, belt.ports), judgement.says
        tainted = [name for name in rules.tools if rules.judge(name, sources)]
        for name in (row["tool"] for row in answer["tools"] if row["decision"] == "ask"):
            about = belt.selection.rules_about and belt.selection.rules_about(tools[name])
            is_lendable = all(each.may_last for each in (*belt.selection.says_about(name), *says))
            tainted += [] if is_lendable and not (about and about.asks_after(sources)) else [name]
        return await self.apply(belt.caller, answer, tools, called, tainted)

    async def apply(
        self,
        caller: Caller,
        report: Mapping[str, Any],
        tools: Mapping[str, Tool],
        called: "CalledWith | None" = None,
        tainted: Collection[str] = (),
    ) -> dict[str, Any]:
        """Return an answer of explain as it counts now, with what is left; nothing else in it changes.

        Of a call, with what it is `called`, only the grants count that answer for a human about it: none by the words
        of a command, which its judge reads. Of the `tainted` tools none counts: every call is asked about.
        """
        about = [_Explained(row, []) for row in report["tools"]]
        held = await self._approvals.grants_of(caller) if any(each.row["decision"] == "ask" for each in about) else []
        for each in about:
            tool = tools[each.row["tool"]]
            about_it = [grant for grant in held if grant.tool == tool.name and grant.source in ("", tool.source)]
            if tool.name in tainted:
                about_it = []
            elif called is not None:
                is_line = self._approvals.grants_prefix(tool.name)
                about_it = [] if is_line else [each for each in about_it if await _is_answered(each, tool, called)]
            _apply_grants(each, about_it, is_one_call=called is not None)
            await self._judge_quotas(caller, each, tool)
        answer = {**report, "tools": [each.row for each in about]}
        if "steps" in report:  # it is about one tool
            answer |= {"steps": [*report["steps"], *about[0].steps], **about[0].more}
        return answer

    async def _judge_quotas(self, caller: Caller, about: "_Explained", tool: Tool) -> None:
        word, quotas = await self._quotas.show(caller, tool)
        if quotas:
            about.more["quota"] = quotas
            about.steps.append(
                _step("quota", word.origin or quotas[0]["origin"], word.rule, "deny" if word.full else "allow")
            )
        if not word.full or about.row["decision"] == "deny":
            return
        remedy = f"wait until it is free again, or raise {word.origin}.{word.full}"
        decision = {"decision": "deny", "layer": "quota", "rule": word.rule, "origin": word.origin}
        about.row = {**about.row, **decision, "reason": word.reason, "remedy": remedy}


class CalledWith(NamedTuple):
    """A call that nobody makes: its arguments as it would be made, what is in the conversation, and whose they are."""

    args: Mapping[str, Any]
    sources: Collection[str]
    ports: Ports


async def _is_answered(grant: Grant, tool: Tool, called: CalledWith) -> bool:
    if not grant.when:
        call = Call("", tool.name, called.args)
        return grant.asker is not None and grant.digest == lasting_digest(grant.asker, call, {}, grant.source)
    rules = bind_grant(tool, grant.when, grant.id)
    try:
        _, values = await resolve_places(rules, tool, called.args, called.ports, called.sources)
    except ToolError:
        return False  # a path that cannot be resolved meets no condition
    return rules.judge(values) is None


def _apply_grants(about: "_Explained", grants: Sequence[Grant], *, is_one_call: bool) -> None:
    """Let grants answer for what is asked about: the verdict is the mildest that some arguments get."""
    if not grants or about.row["decision"] != "ask":
        return
    first, *_ = grants
    about.more["grants"] = [grant.to_json() for grant in grants]
    about.steps += [_step("grant", "approvals", grant.id, "allow") for grant in grants]
    passed = "would be asked about, and" if is_one_call else "is asked about but for what"
    words = f"{passed} grant {first.id} by {first.by} lets {'it ' * is_one_call}pass, {first.term}"
    decision = {"decision": "allow", "layer": "grant", "rule": first.id, "origin": "approvals", "reason": words}
    remedy = f"`toolcrib approvals revoke {first.id}` takes it back"
    about.row = {**about.row, **decision, "remedy": f"take {first.id} out" if first.by == CONFIGURATION else remedy}


@dataclass(slots=True)
class _Explained:
    """The verdict on one tool as JSON, further steps about it, and further fields."""

    row: _Row
    steps: list[_Row]
    more: _Row = field(default_factory=dict)


def _step(layer: LayerName, origin: str, rule: str, decision: str) -> _Row:
    return {"layer": layer, "origin": origin, "decision": decision, "rule": rule or None}
