"""The gate: tools and layers in, a Selection out, with a Verdict for every tool, made on request.

Judged in order: source, owner, requires, the layers, ask. Within a layer deny comes first, so an allow entry can
never widen a denial; over the layers every one is an AND, so their order changes who is named, never what is left.
"""

from collections.abc import Iterator, Mapping, Sequence

from toolcrib.define.names import beginning_of, fold_name
from toolcrib.define.tool import Tool
from toolcrib.define.verdict import (
    LAYERS,
    OWNERS_CONSENT,
    ArgumentRule,
    Consent,
    Decision,
    Layer,
    LayerName,
    LayerStep,
    Rule,
    Selection,
    Verdict,
    Verdicts,
)
from toolcrib.lazy import dataclass

from .arguments import BoundRule, CallerArgumentRules
from .conditions import Roots
from .explain import own_words, reason_for, remedy_for, value_at_origin
from .match import Groups, Inventory, RuleMatcher, matcher_for

# The layers whose plugin-only allow lists `additive` drops, as the documents do.
_ADDITIVE: frozenset[LayerName] = frozenset(
    {"profile", "provider-profile", "global", "global-provider", "agent", "agent-provider"}
)

# silent about whom they do not concern
_ELSEWHERE: frozenset[LayerName] = frozenset(
    {"source", "direct", "role", "guests", "job", "argument", "hosts", "taint", "grant", "quota"}
)


PASSES = "passes every layer"
_GIVES = frozenset({"allow", "also"})
_NO_ENTRIES: tuple[tuple[ArgumentRule, RuleMatcher], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is true about the caller and the host beyond the layers.

    `host` holds every requirement that is met (`browser`, `model:openai`); `mentions` what the caller's own scopes
    name outright, which brings out optional tools; `additive` is the documents' reading of plugin-only allow lists.
    `roots` are the names of the workspace's folder, which paths in rules may begin with. `above` is the same of every
    parent that bounds the caller: it has none of what one of them would be refused.
    """

    owner: bool = True
    host: frozenset[str] = frozenset()
    mentions: frozenset[str] = frozenset()
    additive: bool = False
    roots: tuple[str, ...] = ()
    above: "tuple[Facts, ...]" = ()


def gate(tools: Mapping[str, Tool], groups: Groups, layers: Sequence[Layer], facts: Facts = Facts()) -> Selection:  # noqa: B008  frozen
    """Return the selection for a caller about whom `layers` speak."""
    judge = _Judge(tools, groups, layers, facts)
    kept = judge.kept
    return Selection(
        tools={name: tool for name, tool in tools.items() if name in kept},
        verdicts=Verdicts(tools, judge.verdict),
        steps=judge.steps,
        rules_about=judge.rules_about if judge.argued else None,
        says_about=judge.says_about,
    )


class _CompiledLayer:
    """One layer, its lists ready to be asked."""

    __slots__ = (
        "allow", "always", "argued", "ask", "asks", "deny", "gives", "layer", "lends_exec",
        "reasons", "spared", "stated",
    )  # fmt: skip

    def __init__(self, layer: Layer, inventory: Inventory, *, additive: bool) -> None:
        rule = layer.rule
        self.layer = layer
        self.stated = value_at_origin(layer)
        self.reasons: dict[str | None, str] = {}
        of = layer.spares
        self.spared = frozenset(name for name, tool in inventory.tools.items() if tool.source == of if of)
        within = beginning_of(layer.source or "")
        self.deny = matcher_for(rule.deny, inventory, within=within) if rule.deny else None
        self.ask = self.asks = matcher_for(rule.ask, inventory) if rule.ask else None
        self.allow: RuleMatcher | None = None
        if rule.allow is not None and not (additive and layer.name in _ADDITIVE and is_plugin_only(rule, inventory)):
            self.allow = matcher_for((*rule.allow, *rule.also), inventory, permits=True, within=within)
        # each entry about arguments by itself: what two permit together none of them may permit
        self.argued = self.gives = self.always = _NO_ENTRIES
        if rule.when:
            entries = tuple(
                (each, matcher_for((each.tool,), inventory, permits=each.kind in _GIVES, within=within))
                for each in rule.when
            )
            self.argued = tuple(pair for pair in entries if not pair[0].is_always)
            self.always = tuple(pair for pair in entries if pair[0].is_always)
            if self.always:
                self.asks = matcher_for((*rule.ask, *(each.tool for each, _ in self.always)), inventory)
            self.gives = tuple(pair for pair in self.argued if pair[0].kind in _GIVES) if self.allow is not None else ()
        # where exec passes, apply_patch passes too, unless this very rule denies it
        self.lends_exec = self.allow is not None and self.passes("exec")

    def passes(self, name: str) -> bool:
        if self.deny is not None and self.deny.entry_for(name) is not None:
            return False
        return self.allow is None or self.allow.entry_for(name) is not None

    def refuse(self, names: frozenset[str]) -> frozenset[str]:
        """Return those of `names` that do not pass this layer; usually these are few."""
        denied = frozenset[str]() if self.deny is None else self.deny.select(names)
        if self.allow is None:
            return denied
        missing = self.allow.reject(names)
        for _, matcher in self.gives:
            missing -= matcher.select(missing)
        refused = denied | (missing - {"apply_patch"} if self.lends_exec else missing)
        return refused - self.spared

    def judge(self, name: str) -> tuple[Decision, str | None]:
        """Return the decision on one tool and the entry, as written, that made it."""
        if name in self.spared:
            return "allow", None
        if self.deny is not None:
            entry = self.deny.entry_for(name)
            if entry is not None:
                return "deny", self.stated or entry
        if self.allow is not None:
            entry = self.allow.entry_for(name)
            if entry is None and self.lends_exec and name == "apply_patch":
                entry = self.allow.entry_for("exec")
            if entry is None:
                entry = next((str(rule) for rule, matcher in self.gives if matcher.entry_for(name)), None)
            return ("deny", self.stated) if entry is None else ("allow", self.stated or entry)
        if self.asks is not None:
            entry = self.asks.entry_for(name)
            if entry is not None:
                return "ask", entry
        return "allow", None

    def list_says(self, name: str) -> Iterator[Consent]:
        """Yield who may answer for each entry that asks about every call of a tool."""
        if self.ask is not None and self.ask.entry_for(name) is not None:
            yield OWNERS_CONSENT
        yield from (rule.consent for rule, matcher in self.always if matcher.entry_for(name) is not None)

    def list_takers(self, tool: Tool, roots: Roots) -> Iterator[BoundRule]:
        """Yield the entries that take calls of a tool away, or ask about them."""
        for rule, matcher in self.argued:
            if rule.kind not in _GIVES and matcher.entry_for(tool.name) is not None:
                yield BoundRule.of(rule, self.layer, tool, roots)

    def list_givers(self, tool: Tool, roots: Roots) -> tuple[BoundRule, ...]:
        """Return the entries of which one must hold; none where the tool passes anyway, or is denied anyway."""
        name, allow = tool.name, self.allow
        if allow is None or name in self.spared or allow.entry_for(name) or (self.lends_exec and name == "apply_patch"):
            return ()
        given = (rule for rule, matcher in self.gives if matcher.entry_for(name))
        return tuple(BoundRule.of(rule, self.layer, tool, roots) for rule in given)

    def verdict(self, tool: Tool) -> Verdict:
        """Return this layer's verdict on a tool; the reason is the same for all that one entry decides."""
        decision, entry = self.judge(tool.name)
        layer = self.layer
        reason = self.reasons.get(entry)
        if reason is None:
            reason = self.reasons[entry] = reason_for(layer, decision, entry)
        remedy = remedy_for(tool, layer, decision, entry)
        return Verdict(tool.name, decision, layer.name, entry, layer.origin, reason, remedy)


class _Judge:
    """Decides for all tools at once which layer denies each; the words of a verdict are made one by one, on demand."""

    __slots__ = ("argued", "asked", "asks", "bound", "denied", "everywhere", "facts", "kept", "own", "sources", "tools")

    def __init__(self, tools: Mapping[str, Tool], groups: Groups, layers: Sequence[Layer], facts: Facts) -> None:
        inventory = Inventory(tools, groups)
        self.tools, self.facts = tools, facts
        self.sources: dict[str, list[_CompiledLayer]] = {}
        self.everywhere: list[_CompiledLayer] = []
        self.asks: list[_CompiledLayer] = []
        for layer in layers:
            each = _CompiledLayer(layer, inventory, additive=facts.additive)
            if layer.source is not None:
                self.sources.setdefault(layer.source, []).append(each)
            else:
                (self.asks if layer.name == "ask" else self.everywhere).append(each)
        self.argued = any(not each.is_always for layer in layers for each in layer.rule.when)
        self.bound: dict[str, CallerArgumentRules | None] = {}
        # name to what decided: the tool's own fields, the first layer that denies, the first that asks
        self.own = dict(self._find_own_denials())
        self.denied: dict[str, _CompiledLayer] = {}
        self.asked: dict[str, _CompiledLayer] = {}
        self.kept = self._keep()

    def _keep(self) -> frozenset[str]:
        """Return the names that no layer denies, and note for the others which one did."""
        names = frozenset(self.tools)
        if self.own:
            names = names.difference(self.own)
        for each in self.everywhere:
            refused = each.refuse(names)
            if refused:
                self.denied.update(dict.fromkeys(refused, each))
                names = names - refused
        for each in reversed(self.asks):
            if each.asks is not None:
                self.asked.update(dict.fromkeys(each.asks.select(names), each))
        return names

    def _find_own_denials(self) -> Iterator[tuple[str, tuple[LayerStep, Layer | None]]]:
        """Yield the tools that their own fields, and no layer of everybody's, keep from the caller."""
        tools, sources = self.tools.values(), self.sources
        special = [
            tool for tool in tools if tool.requires or tool.owner_only or tool.optional or tool.source in sources
        ]
        for tool in special:
            for step, layer in self._own_steps(tool):
                if step.decision == "deny":
                    yield tool.name, (step, layer)
                    break

    def _is_mentioned(self, tool: Tool) -> bool:
        kind, _, owner = tool.source.partition(":")
        named = {tool.name, owner} if owner else {tool.name}
        if kind == "plugin":
            named.add("group:plugins")
        facts = self.facts
        if facts.mentions.isdisjoint(named):
            return False
        return not facts.above or not any(each.mentions.isdisjoint(named) for each in facts.above)

    def verdict(self, name: str) -> Verdict:
        """Return the verdict on one tool, in words."""
        tool = self.tools[name]
        if name in self.own:
            step, layer = self.own[name]
            return _own_verdict(tool, step, layer)
        each = self.denied.get(name) or self.asked.get(name)
        if each is not None:
            return each.verdict(tool)
        lender = self._lender(name) if name == "apply_patch" else None
        reason = f"{PASSES}, with 'exec' ({lender.origin})" if lender else PASSES
        return Verdict(name, "allow", None, None, None, reason, None)

    def _lender(self, name: str) -> Layer | None:
        """Return the layer that lets apply_patch pass only because it lets exec pass."""
        lenders = (each for each in self.everywhere if each.lends_exec and each.allow)
        return next((each.layer for each in lenders if each.allow and each.allow.entry_for(name) is None), None)

    def rules_about(self, tool: Tool) -> CallerArgumentRules | None:
        """Return what the layers say about a tool's arguments, None when that is nothing."""
        name = tool.name
        if name in self.bound:
            return self.bound[name]
        layers = [*self.sources.get(tool.source, ()), *self.everywhere, *self.asks]
        takes = [rule for each in layers for rule in each.list_takers(tool, self.facts.roots)]
        gives = [found for each in layers if (found := each.list_givers(tool, self.facts.roots))]
        self.bound[name] = CallerArgumentRules(tool, takes, gives) if takes or gives else None
        return self.bound[name]

    def says_about(self, name: str) -> tuple[Consent, ...]:
        """Return who may answer for each rule that asks about every call of a tool."""
        return tuple(dict.fromkeys(say for each in self.asks for say in each.list_says(name))) or (OWNERS_CONSENT,)

    def steps(self, name: str) -> tuple[LayerStep, ...]:
        """Return what every layer says about one tool, in order; of several of one name, the one that decides."""
        tool = self.tools[name]
        strictest: dict[LayerName, LayerStep] = {}
        for step, _ in self._own_steps(tool):
            _keep_strictest(strictest, step)
        for each in (*self.everywhere, *self.asks):
            decision, entry = each.judge(name)
            _keep_strictest(strictest, LayerStep(each.layer.name, each.layer.origin, decision, entry))
        silent = (LayerStep(layer, None, "allow", None) for layer in LAYERS if layer not in _ELSEWHERE.union(strictest))
        return tuple(sorted((*strictest.values(), *silent), key=lambda step: LAYERS.index(step.layer)))

    def _own_steps(self, tool: Tool) -> Iterator[tuple[LayerStep, Layer | None]]:
        """Yield what is judged by the tool's own fields: its source's lists, optional, owner, requirements."""
        for each in self.sources.get(tool.source, ()):
            decision, entry = each.judge(tool.name)
            yield LayerStep("source", each.layer.origin, decision, entry), each.layer
        if tool.optional:
            yield LayerStep("source", None, "allow" if self._is_mentioned(tool) else "deny", "optional"), None
        if tool.owner_only:
            yield LayerStep("owner", None, "allow" if self.facts.owner else "deny", None), None
        if tool.requires:
            facts = self.facts
            lacking = [need for need in tool.requires if need not in facts.host]
            if facts.above and not lacking:
                lacking = [need for each in facts.above for need in tool.requires if need not in each.host]
            yield LayerStep("requires", None, "deny" if lacking else "allow", lacking[0] if lacking else None), None


def is_plugin_only(rule: Rule, inventory: Inventory) -> bool:
    """Tell whether every entry of the allow list names an installed plugin or one of its tools; a glob never does."""
    return (
        bool(rule.allow)
        and not rule.when
        and all(_names_plugin(fold_name(entry), inventory) for entry in rule.allow or ())
    )


def _names_plugin(entry: str, inventory: Inventory) -> bool:
    members = inventory.groups.get(entry, ()) if entry == "group:plugins" or ":" not in entry else ()
    tool = inventory.tools.get(entry)
    return bool(members) or (tool is not None and tool.source.startswith("plugin:"))


def _keep_strictest(strictest: dict[LayerName, LayerStep], step: LayerStep) -> None:
    known = strictest.get(step.layer)
    if known is None or (known.decision == "allow" and (step.decision != "allow" or known.rule is None)):
        strictest[step.layer] = step


def _own_verdict(tool: Tool, step: LayerStep, layer: Layer | None) -> Verdict:
    """Return what the tool's own fields, or the lists of its source, say about it."""
    if layer is None:
        reason, remedy = own_words(tool, step)
    else:
        reason = reason_for(layer, step.decision, step.rule)
        remedy = remedy_for(tool, layer, step.decision, step.rule)
    return Verdict(tool.name, step.decision, step.layer, step.rule, step.origin, reason, remedy)
