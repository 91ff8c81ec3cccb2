"""Policies as they are looked at and tried: what anybody may and why, what a draft would change, what is expected.

A view is one configuration over the tools there are: the one in force, or a draft that somebody thinks about. Nothing
here changes what counts.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, TypeVar

from pydantic import Field, ValidationError

from toolcrib.agent.belt import Belts
from toolcrib.backends.exec.host import own_programs
from toolcrib.backends.exec.profile import is_seen
from toolcrib.config.advice import advice
from toolcrib.config.channels import explain_silence
from toolcrib.config.expect import ExpectedCaller
from toolcrib.config.load import Loaded, list_fixed, list_unjudged
from toolcrib.config.positions import KeyPath, format_path
from toolcrib.config.routing import Route, list_accounts, list_bound_groups, list_let_in, route_caller
from toolcrib.config.values import check_sender
from toolcrib.define.caller import Caller, Sender
from toolcrib.define.errors import ConfigError, CribError, ToolError
from toolcrib.define.names import fold_name
from toolcrib.define.ports import rpc
from toolcrib.define.schema.annotations import JsonObject
from toolcrib.define.session import to_channel
from toolcrib.define.tool import Tool
from toolcrib.define.verdict import Decision, LayerStep, Selection, Verdict
from toolcrib.lazy import asdict, dataclass, field, replace
from toolcrib.policy.callers import ChannelNames, list_declared, list_people, list_places
from toolcrib.policy.explain import caller_json, list_conditions, verdict_json, with_call
from toolcrib.policy.identities import is_role, to_sender
from toolcrib.policy.lint import LEVELS, Expect, Finding, check_named, judge_promises, lint
from toolcrib.policy.match import Inventory
from toolcrib.policy.resolve import agent_of, mark_terminal_owner, resolve
from toolcrib.policy.settings import PolicySettings
from toolcrib.policy.taint import taint_rules_for
from toolcrib.policy.trial import Claim, Proof, ToolOutcome, Trial, find_masked_changes, prove, say
from toolcrib.services.audit import Audit
from toolcrib.services.effective import EffectiveVerdicts
from toolcrib.services.feature import Feature, TurnCore
from toolcrib.services.hook_programs import THEIR_NAMES
from toolcrib.threads import in_thread

_MAX_CHANGES = 2_000  # that are shown at once
_SECONDS = 20.0  # that a comparison takes at most
_LISTS = {"deny": ("deny", "exclude", "ask"), "ask": ("ask",), "allow": ("allow", "alsoAllow", "include")}

T = TypeVar("T")
Recorded = Counter[tuple[Caller, str]]
DraftText = Annotated[str, Field(max_length=1_048_576, description="a file, or with `merges` a JSON merge patch of it")]


@dataclass(frozen=True, kw_only=True)
class PolicyView:
    """One configuration as it decides, or would; `assign` names the model that answers a caller, `shown_as` is what a
    draft's file is called, and `problem_of` says what lint says of a tool that was left out."""

    loaded: Loaded
    belts: Belts
    assign: Callable[[Caller], Caller] = field(repr=False)
    env_secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    shown_as: str = ""
    problem_of: Callable[[Any], Finding] | None = None

    @property
    def policy(self) -> PolicySettings:
        return self.belts.settings

    def route(self, caller: Caller) -> Route:
        """Return where the file sends a caller: one of OpenClaw's chooses agent and session, and whom it lets in."""
        route = route_caller(self.loaded.document, caller) if self.loaded.foreign else Route(caller)
        named = {to_channel(name): (name, each) for name, each in self.loaded.config.channels.items()}
        name, own = named.get(to_channel(caller.channel or ""), ("", None))
        why = explain_silence(own, self.policy, caller) if own and own.connects and not caller.parents else ""
        return replace(route, silence=f"{why} (channels.{name})") if why and route.refusal is None else route

    def judge(self, caller: Caller, tool: str) -> tuple[Caller, Verdict | None, ToolOutcome]:
        """Return where the file sends a caller, its verdict on one tool, and what its calls may do.

        None where there is no such tool.
        """
        route = self.route(caller)
        who = self.assign(route.caller)
        belt = self.belts.belt_for(who)
        verdict = belt.verdicts.get(tool)
        verdict = None if verdict is None else route.judge(verdict)
        return who, verdict, ("deny", frozenset()) if verdict is None or verdict.decision == "deny" else say(belt, tool)

    def list_named(self) -> dict[str, ChannelNames]:
        """Return whom the channels let in and which groups bindings name."""
        found = {}
        for name, channel in self.loaded.config.channels.items():
            slug = to_channel(name) or name
            found[slug] = ChannelNames(senders=channel.allow_from, accounts=tuple(channel.accounts))
            if self.loaded.foreign:
                found[slug] = ChannelNames(
                    senders=tuple(list_let_in(self.loaded.document, slug)),
                    groups=tuple(list_bound_groups(self.loaded.document, slug)),
                    accounts=tuple(list_accounts(self.loaded.document, slug)),
                )
        return found

    def prove(self, claim: Claim) -> Proof:
        """Return whether nobody has what the claim says, of all callers, let in or not; who is let in comes first."""
        named = self.list_named()
        for each in (claim.channel,) if claim.channel else self.policy.channels if claim.group is not None else ():
            known = named.get(slug := to_channel(each) or each, ChannelNames())
            named[slug] = replace(known, groups=(*known.groups, *((claim.group,) if claim.group is not None else ())))
        people = list_people([self.policy], list_places([self.policy], named))
        people.sort(key=lambda each: self.route(each).refusal is not None)
        proof = prove(claim, self.make_trial(), people)
        if not proof.classes:
            raise CribError("the claim is about nobody; look at --channel, --group and --except")
        return proof

    def explain_refusal(self, caller: Caller) -> str:
        """Say where and why a file lets somebody not in, "" where it does."""
        refusal = self.route(replace(caller, parents=())).refusal
        return f"{refusal[2]} ({refusal[1]})" if refusal else ""

    def list_unfollowed(self) -> list[str]:
        """Return the keys of an OpenClaw file that decide who may what there, and nothing here."""
        findings = advice(self.loaded, {}) if self.loaded.foreign else []
        return [each.origin for each in findings if each.kind == "ignored" and each.level == "warning"]

    def make_trial(self, check: Callable[[], None] = lambda: None) -> Trial:
        """Return the rules and the tools, for whoever tries all callers there are; `check` is called for each."""

        def belt_for(caller: Caller) -> Selection:
            check()
            return self.belts.belt_for(caller)

        catalog = self.belts.catalog
        return Trial(settings=self.policy, tools=catalog.tools, groups=catalog.groups, belt_for=belt_for)

    def list_expected(self, beside: Loaded | None = None) -> list[Expect]:
        """Return what the file expects of callers, and what a file of promises `beside` it does."""
        named = [(f"expect[{at}]", each) for at, each in enumerate(self.loaded.config.expect)]
        if beside is not None:
            named += [(f"{beside.place('expect', at)}", each) for at, each in enumerate(beside.config.expect)]
        found = list[Expect]()
        for origin, each in named:
            route = self.route(caller_from_expected(each.caller))
            caller = self.assign(route.caller)
            found.append(Expect(origin=origin, caller=caller, has=each.has, lacks=each.lacks, judge=route.judge))
        return found

    def judge_expected(self, beside: Loaded | None = None) -> list[dict[str, Any]]:
        """Return of every `expect` entry, tool by tool, whether it holds, and why."""
        catalog, entries = self.belts.catalog, list[dict[str, Any]]()
        inventory = Inventory(catalog.tools, catalog.groups)
        for each in self.list_expected(beside):
            promises = [
                {
                    "key": made.key,
                    "entry": made.entry,
                    "holds": made.is_kept,
                    **(asdict(made.verdict) if made.verdict else {}),
                }
                for made in judge_promises(each, self.belts.belt_for(each.caller), inventory)
            ]
            holds, caller = all(made["holds"] for made in promises), caller_json(resolve(self.policy, each.caller))
            entries.append({"expect": each.origin, "caller": caller, "holds": holds, "promises": promises})
        return entries

    def lint(self, extra: tuple[Tool, ...] = (), beside: Loaded | None = None) -> list[Finding]:
        """Return what is odd about the rules and the file; `extra` are tools that a program hands to belts."""
        catalog, config = self.belts.catalog_with(extra), self.loaded.config
        found = lint(
            self.loaded.policy,
            catalog.tools,
            catalog.groups,
            self.list_expected(beside),
            lambda caller: self.belts.belt_for(caller, extra),
        )
        named = [(f"quotas[{at}].tool", each.tool) for at, each in enumerate(config.quotas) if each.tool]
        named += [(f"approvals.always[{at}].tool", each.tool) for at, each in enumerate(config.approvals.always)]
        for at, hook in enumerate(config.tools.hooks):
            known = (each.removeprefix("mcp__") for each in hook.tools if fold_name(each) not in THEIR_NAMES)
            named += [(f"tools.hooks[{at}].tools", entry) for entry in known]
        for origin, entry in named:
            found += check_named(entry, origin, catalog.tools, catalog.groups)
        shown, roots = tuple(own_programs().values()), [name for names in self.policy.roots.values() for name in names]
        found += advice(self.loaded, self.env_secrets, lambda path: any(is_seen(path, root, shown) for root in roots))
        return found + [self.problem_of(each) for each in catalog.problems if self.problem_of]

    # where a rule stands

    @cached_property
    def _paths(self) -> Mapping[str, KeyPath]:
        return {format_path(path): path for path in self.loaded.document.places if path}

    def find_place(self, origin: str | None, decision: str = "", rule: str | None = None) -> dict[str, Any] | None:
        """Return file, line and key path of what stands at an origin: the very entry, where it is in a list.

        None where it stands in no file.
        """
        path = self._paths.get(origin or "")
        if path is None:
            return None
        value: Any = self.loaded.document.value
        for part in path:
            value = value[part]
        for key in _LISTS.get(decision, ()) if rule is not None and isinstance(value, Mapping) else ():
            entries = value.get(key)
            if isinstance(entries, list) and rule in entries:
                path = (*path, key, entries.index(rule))
                break
        else:
            if decision == "deny" and rule is None and isinstance(value, Mapping) and "allow" in value:
                path = (*path, "allow")
        at = self.loaded.document.places[path]
        files = self.loaded.document.files
        is_first = bool(self.shown_as and files) and at.file == str(files[0])
        return {"file": self.shown_as if is_first else at.file, "line": at.line, "path": format_path(path)}


def list_changes(
    before: PolicyView,
    after: PolicyView,
    recorded: Recorded,
    only: Sequence[Caller] | None = None,
    check: Callable[[], None] = lambda: None,
) -> Iterator[dict[str, Any]]:
    """Yield for whom two configurations decide otherwise, and about which tools; `only` some where they are named.

    `check` is called again and again, and may raise.
    """
    views, seen, changed = (before, after), set[tuple[object, ...]](), set[tuple[object, ...]]()
    tools = dict.fromkeys((*before.belts.catalog.tools, *after.belts.catalog.tools))
    policies = [each.policy for each in views]

    def compare(pairs: Iterable[tuple[Caller, str]], *, is_masked: bool = False) -> Iterator[dict[str, Any]]:
        for caller, tool in pairs:
            check()
            (_, old, was), (who, new, now) = (view.judge(caller, tool) for view in views)
            who = replace(who, agent=agent_of(who))
            if (who, tool) in seen or was == now or (is_masked and (tool, was[0], now[0]) in changed):
                continue
            seen.add((who, tool))
            changed.add((tool, was[0], now[0]))
            reason = new.reason if new else "there is no such tool"
            row: dict[str, Any] = {"caller": caller_json(resolve(after.policy, who)), "tool": tool}
            row |= {"before": old and old.decision, "after": new and new.decision, "reason": reason}
            row |= _describe_conditions(was, now)
            yield row | ({"calls": count} if (count := recorded[caller, tool]) else {})

    if only is not None:
        yield from compare((caller, tool) for caller in only for tool in tools)
        return
    declared = [each for view in views for each in list_declared(policies, view.list_named())]
    expected = [expect.caller for view in views for expect in view.list_expected()]
    yield from compare([(caller, tool) for caller in (*declared, *expected) for tool in tools])
    yield from compare(recorded)
    people = [
        each for each in list_people(policies, declared) if any(view.route(each).refusal is None for view in views)
    ]
    outermost = [replace(each, parents=(), sandboxed=False) for each in people]
    masked = find_masked_changes(before.make_trial(check), after.make_trial(check), outermost)
    yield from compare([(caller, tool) for tool, caller in masked], is_masked=True)


def _describe_conditions(was: ToolOutcome, now: ToolOutcome) -> dict[str, Any]:
    """Return which calls of a tool that somebody has before and after are decided otherwise."""
    if was[1] == now[1] or "deny" in (was[0], now[0]):
        return {}
    gone, new = ([*map(_show_condition, sorted(each))] for each in (was[1] - now[1], now[1] - was[1]))
    row: dict[str, Any] = {"conditions": {"before": gone, "after": new}}
    if was[0] == now[0]:
        words = [("now", each) for each in new] + [("no longer", each) for each in gone]
        begins = "by its arguments, " * any("when: " in each["rule"] for each in (*gone, *new))
        row["reason"] = begins + ", ".join(
            f"{word} {each['decision']} by {each['rule']}" + (f" ({each['origin']})" if "origin" in each else "")
            for word, each in words
        )
    return row


def _show_condition(condition: tuple[Decision, str, str]) -> dict[str, str]:
    decision, rule, origin = condition
    return {"decision": decision, "rule": rule} | ({"origin": origin} if origin else {})


def sender_from(text: str) -> Sender:
    """Return the sender meant by `id:7`, `e164:+380..`, `username:bob` or `name:Bob`; a bare word is an id."""
    try:
        check_sender(text)
    except ValueError as error:
        raise CribError(str(error)) from None
    if is_role(text):
        raise CribError(f"{text!r} is a role, not somebody; name one of its senders")
    return to_sender(text)


def caller_from_expected(expected: ExpectedCaller) -> Caller:
    """Return the caller that an `expect` entry is about."""
    sender = expected.sender
    if isinstance(sender, str):
        who: Sender | None = sender_from(sender)
    else:
        who = None if sender is None else Sender(**sender.model_dump())
    parents = expected.parents
    chain = tuple(parents.split("/")) if isinstance(parents, str) else tuple(parents)
    plain = expected.model_dump(exclude={"sender", "parents"})
    return mark_terminal_owner(Caller(**plain, sender=who, parents=chain))


def mount(core: TurnCore) -> Feature:
    """Mount the look at policies."""
    return Feature(services=(Policies(core),))


class Policies:
    """The policy in force, and drafts of others; for the owner alone."""

    def __init__(self, core: TurnCore) -> None:
        self._core, self._standing, self._working = core, core.find(EffectiveVerdicts), asyncio.Lock()

    @rpc("policy.callers", clients="admin")
    async def callers(self) -> dict[str, Any]:
        """List the callers that the configuration tells apart, and those of its `expect` entries."""
        view = self._core.view_of(None)
        found = [*list_declared([view.policy], view.list_named()), *(each.caller for each in view.list_expected())]
        return {"callers": [caller_json(resolve(view.policy, each)) for each in dict.fromkeys(found)][:_MAX_CHANGES]}

    @rpc("policy.explain", clients="admin")
    async def explain(
        self,
        who: Annotated[JsonObject | None, "as in `expect`: channel, group, sender, agent, parents .."] = None,
        tool: Annotated[str, "only this one"] = "",
        raw: DraftText | None = None,
        merges: bool = False,
    ) -> dict[str, Any]:
        """Say of every tool whether a caller has it, what each layer says, and where the rule that decides stands.

        Without `who` it is the owner at the terminal; with `raw` it is what a draft would say.
        """
        view, caller = self._view(raw, merges=merges), read_caller(who or {})
        route = view.route(caller)
        caller, catalog = view.assign(route.caller), view.belts.catalog
        belt, rules = view.belts.belt_for(caller), taint_rules_for(view.policy, caller, catalog.tools, catalog.groups)
        if tool and tool not in catalog.tools:
            raise ToolError(f"there is no tool {tool[:64]!r}", code="not_found")
        rows = []
        for name in [tool] if tool else catalog.tools:
            verdict, steps = rules.apply(route.judge(belt.verdicts[name]), {}), belt.steps(name)
            row = verdict_json(verdict, catalog.tools[name]) | list_conditions(belt, catalog.tools[name])
            place = view.find_place(verdict.origin, verdict.decision, verdict.rule)
            rows.append(row | {"place": place, "steps": [_show_step(view, each) for each in steps]})
        answer = {"caller": caller_json(resolve(view.policy, caller)), "tools": rows, **rules.to_json(tool, {})}
        if raw is None:
            answer = await self._standing.apply(caller, answer, catalog.tools)
        return answer | {"uncertain": list(route.list_doubts(tool))} | route.tell_silence()

    @rpc("policy.diff", clients="admin")
    async def diff(
        self,
        raw: DraftText,
        merges: bool = False,
        callers: Annotated[Sequence[JsonObject] | None, "only these; else all that one of the two tells apart"] = None,
    ) -> dict[str, Any]:
        """Say for whom a draft decides otherwise than what is in force, and about which tools; nothing is changed.

        `more` says that it is not all: there are too many, or it took too long. `toolcrib policy diff` takes its time.
        `beside` names what differs and is about calls, whoever makes them.
        """
        only = None if callers is None else [read_caller(each) for each in callers]
        return await self._alone(self._compare, raw, merges, only)

    @rpc("policy.test", clients="admin")
    async def test(self, raw: DraftText | None = None, merges: bool = False) -> dict[str, Any]:
        """Say of every `expect` entry, tool by tool, whether it holds, and why; of a draft's where one is given."""

        def judge() -> list[dict[str, Any]]:
            view = self._view(raw, merges=merges)
            return [{**each, "place": view.find_place(each["expect"])} for each in view.judge_expected()]

        entries = await self._alone(judge)
        return {"entries": entries, "failing": sum(not each["holds"] for each in entries)}

    @rpc("policy.lint", clients="admin")
    async def lint(self, raw: DraftText | None = None, merges: bool = False) -> dict[str, Any]:
        """Say what is odd about the configuration, or a draft; `valid` says whether it could count at all."""

        def look() -> list[dict[str, Any]]:
            view = self._read(raw, merges=merges)
            found = sorted(view.lint(), key=lambda each: LEVELS.index(each.level))
            return [{**asdict(each), "place": view.find_place(each.origin)} for each in found]

        try:
            found = await self._alone(look)
        except ConfigError as error:
            return {"valid": False, "issues": [{"message": error.message, **asdict(error.place)}], "findings": []}
        redact = self._core.redact_errors or str
        shown = [{**each, "message": redact(each["message"]), "remedy": redact(each["remedy"])} for each in found]
        return {"valid": True, "issues": [], "findings": shown}

    @rpc("audit.replay", clients="admin")
    async def replay(self, row: Annotated[int, Field(ge=1, description="of a call, as audit.search tells it")]) -> Any:
        """Judge a recorded call by the rules of now, and say what differs; nothing is called."""
        recorded = await self._core.find(Audit).find_call(row)
        if recorded is None:
            raise ToolError(f"row {row} of the record decides no call", code="not_found")
        caller, name, args = Caller.from_json(recorded["caller"]), recorded["tool"], recorded["args"]
        belt = self._core.belt_of(caller)
        name = belt.selection.find(name) or name
        if name not in belt.verdicts:
            return {"recorded": recorded, "now": None, "differs": ["tool"], "uncertain": ["there is no such tool now"]}
        doubts = [] if isinstance(args, Mapping) else ["its arguments were not recorded whole"]
        catalog, verdict, sources = belt.catalog, belt.verdicts[name], tuple(recorded["taint"])
        rules = taint_rules_for(self._core.policy, caller, catalog.tools, catalog.groups)
        tainted, asked = rules.apply(verdict, sources), [name] if rules.judge(name, sources) else []
        explained: dict[str, Any] = {"tools": [verdict_json(tainted, catalog.tools[name])], "steps": []}
        if isinstance(args, Mapping) and name in belt.tools:
            try:
                judged = await belt.judge_call(name, belt.tools[name].check(args), self._core.way_out, sources)
            except ToolError as error:  # which the record may have left out, as a secret
                doubts.append(f"its arguments cannot be judged: {error}")
            else:
                explained = with_call(explained, verdict, tainted, judged.found)
        (now,) = (await self._standing.apply(caller, explained, catalog.tools, tainted=asked))["tools"]
        place = self._core.view_of(None).find_place(now["origin"], now["decision"], now["rule"])
        differs = [key for key in ("decision", "layer", "rule", "origin") if now[key] != recorded[key]]
        return {"recorded": recorded, "now": {**now, "place": place}, "differs": differs, "uncertain": doubts}

    async def _alone(self, work: Callable[..., T], *args: Any) -> T:
        """Return what comes of long work: beside the loop, and one at a time."""
        async with self._working:
            return await in_thread(work, *args)

    def _compare(self, raw: str, merges: bool, only: Sequence[Caller] | None) -> dict[str, Any]:
        before, after, until = self._core.view_of(None), self._view(raw, merges=merges), time.monotonic() + _SECONDS

        def check() -> None:
            if time.monotonic() > until:
                raise TimeoutError

        changes, is_whole = list[dict[str, Any]](), False
        with contextlib.suppress(TimeoutError):
            for each in list_changes(before, after, Counter(), only, check):
                changes.append(each)
                if len(changes) == _MAX_CHANGES:
                    break
            else:
                is_whole = True
        both = (before.loaded.config, after.loaded.config)
        restart, beside = list_fixed(*both), list_unjudged(*both)
        return {"changes": changes, "more": not is_whole, "restart": restart, "beside": beside}

    def _view(self, raw: str | None, *, merges: bool) -> PolicyView:
        try:
            return self._read(raw, merges=merges)
        except ConfigError as error:
            raise ToolError(str(error), code="bad_arguments") from None

    def _read(self, raw: str | None, *, merges: bool) -> PolicyView:
        view: PolicyView = self._core.view_of(None if raw is None else self._core.editor.read_draft(raw, merges=merges))
        return view


def read_caller(described: Mapping[str, Any]) -> Caller:
    """Return the caller that is meant, as an `expect` entry writes one; raise ToolError when it is none."""
    try:
        return caller_from_expected(ExpectedCaller.model_validate(dict(described), by_alias=True, by_name=False))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the caller"
        raise ToolError(f"{where[:64]}: {first['msg']}", code="bad_arguments") from None
    except CribError as error:
        raise ToolError(str(error), code="bad_arguments") from None


def _show_step(view: PolicyView, step: LayerStep) -> dict[str, Any]:
    return {**asdict(step), "place": view.find_place(step.origin, step.decision, step.rule)}
