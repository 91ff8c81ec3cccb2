"""True words: no remedy of lint opens what its sentence does not say, and what was silent is told."""

import ast
import asyncio
import copy
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import toolcrib
from toolcrib import OWNER, Crib
from toolcrib.app.policies import list_changes
from toolcrib.config.load import load
from toolcrib.define.tool import Tool
from toolcrib.policy.lint import Finding
from toolcrib.policy.match import Inventory, list_meant
from toolcrib.registry.sources import Offer
from toolcrib.services.effective import Asked

Json = dict[str, Any]
SOURCE = Path(toolcrib.__file__).parent
# every file in which lint makes its findings about what a configuration says
MAKERS = ("policy/lint.py", "policy/lint_chats.py", "policy/lint_replaced.py", "config/advice.py", "config/foreign.py")
CALLS = ("Finding", "_warn", "_report_unknown", "_report_dropped", "GuestFinding", "_compare_denies", "_compare")
ALL = "everything that the sentence speaks of"


def chat(**own: Any) -> Json:
    return {"channels": {"telegram": {"groups": {"-1": own}}}}


def groups(own: Json) -> Json:
    return {"channels": {"telegram": {"groups": own}}}


def put(config: Json, path: str, value: Any) -> Json:
    """Return a configuration with another value at a path; None takes the key out."""
    changed = copy.deepcopy(config)
    *outer, last = path.split("..")
    place: Any = changed
    for key in outer:
        place = place.setdefault(key, {})
    if value is None:
        del place[last]
    else:
        place[last] = value
    return changed


TOKEN = "a-long-enough-token-0123456789"
TOOL = {"tool": "write", "when": {"path": "../x"}}
DENIED = {"tool": "read", "when": {"path": "secret/**"}}
NO_MESSAGE, NO_LS = {"deny": ["message"]}, {"deny": ["ls"]}
STAR = {"allow": ["read", "message"]}
G = "channels..telegram..groups..-1.."

# what is written; the kind of the finding and where it stands; and every way in which somebody does what it says: the
# path, what stands there then, and (where the sentence says so) what more somebody has by it
EXAMPLES: list[tuple[Json, str, str, list[tuple[Any, ...]]]] = [
    ({"tools": {"allow": ["reed", "ls"]}}, "unknown", "tools.allow", [("tools..allow", ["read", "ls"], "read")]),
    ({"tools": {"allow": ["zzzzz", "ls"]}}, "unknown", "tools.allow", [("tools..allow", ["ls"])]),
    ({"tools": {"deny": ["zz_*", "ls"]}}, "unknown", "tools.deny", [("tools..deny", ["ls"])]),
    ({"quotas": [{"tool": "zzzzz", "calls": 1, "per": "hour"}]}, "unknown", "quotas[0].tool", []),
    ({"tools": {"allow": ["group:fs", "read"]}}, "shadowed", "tools.allow", [("tools..allow", ["group:fs"])]),
    ({"tools": {"allow": []}}, "empty", "tools.allow", [("tools..allow", None, ALL)]),
    (
        {"tools": {"allow": ["weather"]}}, "plugin-only", "tools.allow",
        [("tools..allow", ["weather", "read"], "read")],
    ),
    (
        {"tools": {"allow": ["weather"], "pluginOnlyAllow": "additive"}}, "plugin-only", "tools.allow",
        [("tools..allow", ["weather", "read"])],
    ),
    ({"tools": {"deny": [TOOL]}}, "dead", "tools.deny", [("tools..deny", [])]),
    ({"tools": {"allow": [TOOL, "ls"]}}, "dead", "tools.allow", [("tools..allow", ["ls"])]),
    (
        {"tools": {"deny": [{"tool": "zzzzz", "when": {"path": "x"}}]}}, "unknown", "tools.deny",
        [("tools..deny", [])],
    ),
    ({"tools": {"deny": [DENIED]}}, "around", "tools.deny", [("tools..deny", [DENIED, "effect:read", "exec"])]),
    ({"tools": {"allow": ["exec", "ls"], "deny": ["exec"]}}, "dead", "tools.allow", [("tools..allow", ["ls"])]),
    (
        {"tools": {"alsoAllow": ["exec"], "deny": ["exec"], "profile": "coding"}}, "dead", "tools.alsoAllow",
        [("tools..alsoAllow", [])],
    ),
    (
        {"tools": {"deny": ["exec"]}, "agents": {"dev": {"tools": {"allow": ["exec", "ls"]}}}}, "dead",
        "agents.dev.tools.allow", [("agents..dev..tools..allow", ["ls"])],
    ),
    (
        {"tools": {"allow": ["weather"]}, "agents": {"dev": {"tools": {"pluginOnlyAllow": "additive"}}}}, "dead",
        "agents.dev.tools.pluginOnlyAllow", [("agents..dev..tools..pluginOnlyAllow", None)],
    ),
    (
        {"tools": {"byProvider": {"openai": {"allow": ["message"]}, "openai/gpt": {"allow": ["read", "ls"]}}}},
        "widening", "tools.byProvider.openai/gpt", [("tools..byProvider..openai/gpt..deny", ["read", "ls"])],
    ),
    (
        {"tools": {"byProvider": {"openai": {"deny": ["exec"]}, "openai/gpt": {"deny": ["ls"]}}}}, "dropped-deny",
        "tools.byProvider.openai/gpt", [("tools..byProvider..openai/gpt..deny", ["ls", "exec"])],
    ),
    (
        {"tools": {"byProvider": {"openai": {"profile": "minimal"}, "openai/gpt": {}}}}, "dropped-profile",
        "tools.byProvider.openai/gpt", [("tools..byProvider..openai/gpt..profile", "minimal")],
    ),
    (
        {"tools": {"profile": "minimal"}, "agents": {"dev": {"tools": {"profile": "messaging"}}}}, "widening",
        "agents.dev.tools.profile", [("agents..dev..tools..deny", ["message", "sessions_list", "sessions_send"])],
    ),
    (
        {"tools": {"sandbox": {"tools": {"allow": ["*"], "deny": ["cron"]}}}}, "dropped-deny",
        "tools.sandbox.tools.deny",
        [("tools..sandbox..tools..deny", ["browser", "canvas", "nodes", "cron", "gateway"])],
    ),
    (
        chat(tools={"deny": ["message"]}, toolsBySender={"id:5": {"deny": ["cron"]}}), "dropped-deny",
        "channels.telegram.groups.-1.toolsBySender.id:5", [(f"{G}toolsBySender..id:5..deny", ["cron", "message"])],
    ),
    (
        {"channels": {"telegram": {"groups": {"-1": {"tools": {"deny": ["exec"]}}, "*": {"tools": STAR}}}}},
        "widening", "channels.telegram.groups.-1.tools", [(f"{G}tools..deny", ["effect:network", "effect:send"])],
    ),
    (
        chat(tools={"deny": ["message"]}, toolsBySender={"*": {"deny": ["ls"]}}), "dropped-deny",
        "channels.telegram.groups.-1.toolsBySender.*", [(f"{G}toolsBySender..*..deny", ["ls", "message"])],
    ),
    (
        groups({"*": {"toolsBySender": {"id:5": NO_MESSAGE}}, "-1": {"tools": STAR}}), "dropped-deny",
        "channels.telegram.groups.-1.tools", [(f"{G}tools..deny", ["message"])],
    ),
    (
        groups({"*": {"tools": {"deny": [DENIED]}}, "-1": {"tools": {"deny": ["ls"]}}}), "dropped-deny",
        "channels.telegram.groups.-1.tools", [(f"{G}tools..deny", ["ls", DENIED])],
    ),
    ({"tools": {"alsoAllow": ["read"]}}, "dead", "tools.alsoAllow", [("tools..alsoAllow", None)]),
    (
        chat(tools={"alsoAllow": ["read"]}), "dead", "channels.telegram.groups.-1.tools.alsoAllow",
        [(f"{G}tools..alsoAllow", None)],
    ),
    (
        chat(toolsBySender={"username:bob": {"allow": ["read", "message"]}}), "worn",
        "channels.telegram.groups.-1.toolsBySender.username:bob",
        [(f"{G}toolsBySender", {"id:5": {"allow": ["read", "message"]}}, ALL)],
    ),
    (
        chat(toolsBySender={"username:bob": {"deny": ["message"]}}), "worn",
        "channels.telegram.groups.-1.toolsBySender.username:bob",
        [(f"{G}toolsBySender", {"id:5": {"deny": ["message"]}}, ALL)],
    ),
    (
        chat(toolsBySender={"@bob": {"deny": ["exec"]}, "BOB": {"allow": ["read"]}}), "shadowed",
        "channels.telegram.groups.-1.toolsBySender.BOB", [(f"{G}toolsBySender", {"@bob": {"deny": ["exec"]}})],
    ),
    (
        {"tools": {"askAfterOutside": ["zzzzz"]}}, "unknown", "tools.askAfterOutside[0]",
        [("tools..askAfterOutside", [])],
    ),
    (
        {"tools": {"askAfterOutside": [{"tool": "write", "taint": "wbe:*"}]}}, "unknown", "tools.askAfterOutside[0]",
        [("tools..askAfterOutside", [{"tool": "write", "taint": "web:*"}])],
    ),
    (
        {"tools": {"exec": {"security": "full"}, "askAfterOutside": ["write"]}}, "outside", "tools.askAfterOutside",
        [
            ("tools..askAfterOutside", ["write", "effect:send", "effect:execute"]),
            ("tools..denyAfterOutside", ["effect:send", "effect:execute"]),
        ],
    ),
    ({"expect": [{"has": ["zzzzz"]}]}, "expect", "expect[0]", [("expect", [{"has": ["read"]}])]),
    (
        {"tools": {"deny": ["exec"]}, "expect": [{"has": ["exec"]}]}, "expect", "expect[0]",
        [("tools..deny", [], "exec")],
    ),
    ({"expect": [{"lacks": ["exec"]}]}, "expect", "expect[0]", [("tools", {"deny": ["exec"]})]),
    (
        {"tools": {"guests": "full"}, "channels": {"telegram": {}}}, "guests", "tools.guests",
        [("tools..guests", "messaging")],
    ),
    (
        chat(tools={"deny": ["message"]}), "guests", "channels.telegram.groups.-1.tools",
        [(f"{G}tools..allow", ["group:messaging", "sessions_list", "sessions_send", "session_status", "web_search"],
          "web_search")],
    ),
    (
        chat(toolsBySender={"id:5": {"alsoAllow": ["read"]}}), "guests",
        "channels.telegram.groups.-1.toolsBySender.id:5",
        [(f"{G}toolsBySender..id:5", {"allow": ["group:messaging", "sessions_list", "sessions_send",
                                                "session_status", "read"]}, "read")],
    ),
    (
        chat(tools={"alsoAllow": ["group:runtime"]}), "guests", "channels.telegram.groups.-1.tools",
        [(f"{G}tools", {"allow": ["group:messaging", "sessions_list", "sessions_send", "session_status",
                                  "group:runtime"]}, "group:runtime", "apply_patch")],
    ),
    (
        chat(toolsBySender={"role:none": {"allow": ["read"]}}), "unknown",
        "channels.telegram.groups.-1.toolsBySender.role:none", [(f"{G}toolsBySender", {})],
    ),
    ({"roles": {"kin": []}}, "empty", "roles.kin", [("roles", {})]),
    (
        {"roles": {"kin": ["telegram:id:5"], "kith": ["telegram:id:5"]}}, "shadowed", "roles.kith",
        [("roles", {"kin": ["telegram:id:5"]})],
    ),
    (
        {"roles": {"kin": ["username:bob"]}, **chat(toolsBySender={"role:kin": {"allow": ["read"]}})}, "worn",
        "roles.kin", [("roles", {"kin": ["telegram:id:5"]}, ALL)],
    ),
    (
        {"people": {"ann": {"is": ["telegram:id:1"], "owner": True}}}, "unused", "people.ann.owner",
        [("people..ann..owner", False), ("owners", ["telegram:id:1"], ALL)],
    ),
    ({"quotas": [{"who": "agent:zzz", "calls": 1, "per": "hour"}]}, "unknown", "quotas[0].who", [("quotas", [])]),
    (
        {"channels": {"telegram": {"dmPolicy": "open"}}}, "widening", "channels.telegram.allowFrom",
        [("channels..telegram..dmPolicy", "allowlist")],
    ),
    (
        {"channels": {"telegram": {"allowFrom": ["*"]}}}, "widening", "channels.telegram.allowFrom",
        [("channels..telegram..allowFrom", ["telegram:id:5"]), ("channels..telegram..dmPolicy", "open")],
    ),
    (
        {"channels": {"telegram": {"dmPolicy": "allowlist"}}}, "empty", "channels.telegram.allowFrom",
        [("channels..telegram..dmPolicy", "disabled")],
    ),
    (
        {"channels": {"telegram": {"allowFrom": ["role:none"]}}}, "unknown", "channels.telegram.allowFrom",
        [("channels..telegram..allowFrom", [])],
    ),
    (
        {"channels": {"telegram": {"allowFrom": ["@bob"]}}}, "worn", "channels.telegram.allowFrom",
        [("channels..telegram..allowFrom", ["telegram:id:5"])],
    ),
    ({"owners": ["@bob"]}, "dead", "owners", [("owners", ["telegram:id:5"], ALL)]),
    (
        {"agents": {"main": {"subagents": {"allowAgents": ["dev", "zzzzz"]}}, "dev": {}}}, "unknown",
        "agents.main.subagents.allowAgents", [("agents..main..subagents..allowAgents", ["dev"])],
    ),
    ({"plugins": {"dice": {"config": {}}}}, "dead", "plugins.dice", [("plugins", {})]),
    (
        {"plugins": {"allow": ["dice"], "dice": {"enabled": False}}}, "dead", "plugins.dice",
        [("plugins..allow", [])],
    ),
    ({"tools": {"exec": {"host": "docker"}}}, "dead", "tools.exec.host", [("tools..exec..host", "sandbox")]),
    (
        {"sandbox": {"mode": "all", "docker": {"image": "debian"}}}, "dead", "sandbox.docker",
        [("sandbox..docker", None)],
    ),
    (
        {"tools": {"exec": {"security": "full", "ask": "off"}}}, "widening", "tools.exec",
        [("tools..exec..security", "allowlist"), ("tools..exec..ask", "on-miss")],
    ),
    (
        {"tools": {"exec": {"allow": [["bash"]]}}}, "widening", "tools.exec.allow",
        [("tools..exec", {"allow": [["bash", "x.sh"]]}), ("tools..exec", {"allowExact": [["bash", "x.sh"]]})],
    ),
    (
        {"tools": {"exec": {"readOnly": ["zzz"]}}}, "dead", "tools.exec.readOnly",
        [("tools..exec", {"allow": [["zzz", "-l"]]})],
    ),
    (
        {"tools": {"exec": {"trustedDirs": ["/root"]}}}, "dead", "tools.exec.trustedDirs",
        [("tools..exec..trustedDirs", ["/usr/local/bin"])],
    ),
    (
        {"gateway": {"auth": {"token": TOKEN}}, "hooks": {"token": TOKEN}}, "shared", "gateway.auth.token",
        [("hooks..token", TOKEN[::-1])],
    ),
    (
        {"web": {"ssrf": {"allowPrivate": ["169.254.0.0/16"]}}}, "widening", "web.ssrf.allowPrivate",
        [("web..ssrf..allowPrivate", ["169.254.1.1/32"])],
    ),
    (
        {"gateway": {"trustedProxies": ["10.0.0.0/8"]}}, "widening", "gateway.trustedProxies",
        [("gateway..trustedProxies", ["10.0.0.1/32"])],
    ),
]  # fmt: skip
THEIRS: list[tuple[Json, str, str, list[tuple[Any, ...]]]] = [
    # an empty list, and one of plugins alone, limit nothing there: an entry that keeps one a limit is left
    ({"tools": {"allow": ["exec"], "deny": ["exec"]}}, "dead", "tools.allow", []),
    ({"tools": {"allow": ["weather", "zzzzz"]}}, "unknown", "tools.allow", []),
    ({"tools": {"allow": ["weather", TOOL]}}, "dead", "tools.allow", []),
    (
        {"tools": {"byProvider": {"openai": {"deny": ["exec"]}, "OpenAI": {"deny": ["read"]}}}}, "dropped-deny",
        "tools.byProvider.openai", [("tools..byProvider", {"OpenAI": {"deny": ["read", "exec"]}})],
    ),
    ({"agents": {"defaults": {"tools": {"deny": ["exec"]}}}}, "ignored", "agents.defaults.tools",
     [("tools", {"deny": ["exec"]})]),
    ({"bindings": [{"agentId": "main", "match": {"channel": "x"}}]}, "ignored", "bindings", []),
    ({"gateway": {"auth": {"mode": "token"}}}, "ignored", "gateway.auth", []),
    ({"ui": {}, "meta": {}}, "ignored", "2 keys", [("ui", None)]),
]  # fmt: skip


WEATHER = Offer(source="plugin:weather", tools=(Tool.declared("forecast", "Tell the weather.", effects={"network"}),))


def crib_of(config: Json, *, foreign: bool) -> Crib:
    loaded = load(config, {}, openclaw=foreign, ignore=None)
    return toolcrib.open(loaded, env={}, plugins=[WEATHER], import_plugins=False)


def find(crib: Crib, kind: str, origin: str) -> Finding:
    found = [each for each in crib.lint() if (each.kind, each.origin) == (kind, origin)]
    assert found, [(each.kind, each.origin) for each in crib.lint()]
    return found[0]


def list_opened(before: Crib, after: Crib, *, counts_rules: bool) -> Iterator[str]:
    """Yield the tools that somebody has, or has unasked, by the second and not by the first."""
    ranks = {"allow": 0, "ask": 1, "deny": 2, None: 2}
    for change in list_changes(before.view(), after.view(), Counter()):
        rules = change.get("conditions", {"before": [], "after": []})
        takes = [each for each in rules["before"] if each["decision"] != "allow"]
        gives = [each for each in rules["after"] if each["decision"] == "allow"]
        same = ranks[change["before"]] == ranks[change["after"]] and counts_rules and (takes or gives)
        if same or ranks[change["after"]] < ranks[change["before"]]:
            yield change["tool"]


CASES = [(*each, False) for each in EXAMPLES] + [(*each, True) for each in THEIRS]
NAMED_BY_READER = ("that are meant", "or what you write")


@pytest.mark.parametrize(("config", "kind", "origin", "edits", "foreign"), CASES)
def test_a_remedy_opens_nothing_that_its_sentence_does_not_say(
    config: Json, kind: str, origin: str, edits: list[tuple[Any, ...]], foreign: bool
) -> None:
    before = crib_of(config, foreign=foreign)
    finding = find(before, kind, origin)
    sentence = f"{finding.message}; {finding.remedy}"
    inventory = Inventory(before.catalog.tools, before.catalog.groups)
    for path, value, *named in edits:
        after = crib_of(put(config, path, value), foreign=foreign)
        opened = set(list_opened(before, after, counts_rules=kind != "dead"))  # a rule that never holds takes nothing
        if named == [ALL]:
            assert any(word in sentence for word in ("no limit", "an owner", "not meant any more")), sentence
            continue
        assert all(each in sentence or any(word in sentence for word in NAMED_BY_READER) for each in named), sentence
        assert opened <= {tool for each in named for tool in list_meant(each, inventory)}, (sentence, opened)
        left = {(each.kind, each.origin, each.message) for each in after.lint()}
        assert kind == "ignored" or (kind, origin, finding.message) not in left, sentence


def list_places() -> dict[tuple[str, int], range]:
    """Return every place where lint makes a finding, with its lines."""
    found = dict[tuple[str, int], range]()
    for name in MAKERS:
        for node in ast.walk(ast.parse((SOURCE / name).read_text())):
            if isinstance(node, ast.Call):
                is_one = isinstance(node.func, ast.Name) and node.func.id in CALLS
            else:
                is_one = isinstance(node, ast.Yield) and isinstance(node.value, ast.Tuple) and len(node.value.elts) == 4
            if is_one and isinstance(node, ast.expr):
                found[name, node.lineno] = range(node.lineno, (node.end_lineno or node.lineno) + 1)
    return found


def test_every_finding_has_an_example_of_what_its_remedy_does(tmp_path: Path) -> None:
    names, seen = {str(SOURCE / name): name for name in MAKERS}, set[tuple[str, int]]()

    def follow(frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        name = names.get(frame.f_code.co_filename)
        if name and event == "line":
            seen.add((name, frame.f_lineno))
        return follow if name else None

    exposed = tmp_path / "crib.yaml"  # about the file and the environment: `chmod`, and what is set where
    exposed.write_text("{secrets: {KEY: '${NOWHERE}'}, web: {search: {apiKey: x}}}")
    exposed.chmod(0o644)
    cribs = [crib_of(config, foreign=foreign) for config, _, _, _, foreign in CASES]
    cribs.append(toolcrib.open(load(exposed, {}, fills=True), env={}, import_plugins=False))
    traced = sys.gettrace()
    sys.settrace(follow)
    try:
        for crib in cribs:
            crib.lint()
    finally:
        sys.settrace(traced)
    lacking = [place for place, lines in list_places().items() if not any((place[0], at) in seen for at in lines)]
    assert not lacking, f"{lacking}: write an example with what its remedy does, in EXAMPLES"


# what was silent


def list_told(config: Json) -> list[tuple[str, str]]:
    return [(each.kind, each.origin) for each in crib_of(config, foreign=False).lint() if each.level == "warning"]


RUNS_ANYTHING = [
    "bash", "sh", "/bin/bash", "bash -x -c", "env", "env A=1", "env A=1 sh", "python3", "python3.11 -m", "node -e",
    "perl", "ruby", "xargs", "find", "find .", "npx", "npx -y", "uv run", "sudo", "sudo -u bob python3", "timeout 5",
    "nice -n 5", "busybox", "awk", "watch", "uvx", "pipx run", "npm", "npm exec", "npm exec --", "pnpm dlx", "yarn dlx",
    "tsx", "ts-node -e", "ipython", "julia -e", "pwsh -c", "osascript -e", "source",
]  # fmt: skip
RUNS_SOMETHING = [
    "git status", "ls", "python3 -m pytest", "python3 build.py", "bash build.sh", "npx eslint", "env A=1 ls",
    "xargs rm", "timeout 5 make", "uv run pytest", "make test", "node server.js", "sudo apt list", "cat",
    "bash -c 'echo hi'", "uvx ruff", "pipx run black", "npm run", "npm test", "npm install", "npm exec eslint",
    "yarn build", "pnpm dlx cowsay", "tsx build.ts", "julia run.jl", "source env.sh",
]  # fmt: skip


@pytest.mark.parametrize("agent", [False, True])
def test_an_entry_for_commands_that_runs_whatever_follows_is_told(agent: bool) -> None:
    def told(lines: list[str]) -> list[str]:
        tools = {"tools": {"exec": {"allow": [shlex.split(line) for line in lines]}}}
        crib = crib_of({"agents": {"dev": tools}} if agent else tools, foreign=False)
        return [each.message.partition("' runs")[0][1:] for each in crib.lint() if each.kind == "widening"]

    assert told(RUNS_ANYTHING) == [" ".join(shlex.split(line)) for line in RUNS_ANYTHING]
    assert told(RUNS_SOMETHING) == []


GROUP = "channels.telegram.groups.-1"


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (
            chat(tools={"deny": ["exec"]}, toolsBySender={"id:5": {"alsoAllow": ["cron"]}}),
            [("dropped-deny", f"{GROUP}.toolsBySender.id:5"), ("dead", f"{GROUP}.toolsBySender.id:5.alsoAllow")],
        ),
        (
            {"roles": {"kin": ["telegram:id:5"]}}
            | chat(tools={"deny": ["exec"]}, toolsBySender={"role:kin": {"deny": ["ls"]}}),
            [("dropped-deny", f"{GROUP}.toolsBySender.role:kin")],
        ),
        (
            chat(toolsBySender={"id:5": {}, "*": {"deny": ["message"]}}),
            [("dropped-deny", f"{GROUP}.toolsBySender.id:5")],
        ),
        (
            groups({"-1": {"tools": NO_MESSAGE}, "-1:topic:5": {"tools": NO_LS}}),
            [("dropped-deny", f"{GROUP}:topic:5.tools")],
        ),
        (
            groups({"G/*": {"tools": NO_MESSAGE}, "g/room": {"tools": NO_LS}, "*": {"tools": NO_LS}}),
            [
                ("dropped-deny", "channels.telegram.groups.G/*.tools"),
                ("dropped-deny", "channels.telegram.groups.g/room.tools"),
            ],
        ),
        (
            groups({"*": {"toolsBySender": {"*": NO_MESSAGE}}, "-1": {"tools": NO_LS}}),
            [("dropped-deny", f"{GROUP}.tools")],
        ),
        (
            groups(
                {"*": {"toolsBySender": {"id:5": NO_MESSAGE}}, "-1": {"toolsBySender": {"id:5": NO_LS}, "tools": {}}}
            ),
            [("dropped-deny", f"{GROUP}.toolsBySender.id:5")],
        ),
        (
            {
                "channels": {
                    "telegram": {
                        "groups": {"-1": {"tools": NO_MESSAGE}},
                        "accounts": {"work": {"groups": {"-1": {"tools": NO_LS}}}},
                    }
                }
            },
            [("dropped-deny", "channels.telegram.accounts.work.groups.-1.tools")],
        ),
        (
            chat(tools={"deny": [DENIED, "exec"]}, toolsBySender={"id:5": {"deny": ["exec"]}}),
            [("around", f"{GROUP}.tools.deny"), ("dropped-deny", f"{GROUP}.toolsBySender.id:5")],
        ),
        (groups({"-1": {"tools": NO_MESSAGE}, "-2": {"tools": NO_LS}, "-2:topic:1": {"tools": NO_LS}}), []),
        (groups({"-1": {"tools": NO_LS}, "-1:topic:5": {"toolsBySender": {"id:5": {"allow": ["read"]}}}}), []),
        (chat(tools={"deny": ["exec"]}, toolsBySender={"id:5": {"allow": ["message", "read"]}}), []),
        (chat(tools={"deny": ["exec"]}, toolsBySender={"id:5": {"deny": ["group:runtime"]}}), []),
        ({"tools": {"alsoAllow": ["read"]}}, [("dead", "tools.alsoAllow")]),
        ({"agents": {"dev": {"tools": {"alsoAllow": ["read"]}}}}, [("dead", "agents.dev.tools.alsoAllow")]),
        (
            {"tools": {"byProvider": {"openai": {"alsoAllow": ["read"]}}}},
            [("dead", "tools.byProvider.openai.alsoAllow")],
        ),
        ({"tools": {"profile": "minimal"}, "agents": {"dev": {"tools": {"alsoAllow": ["read"]}}}}, []),
        ({"tools": {"alsoAllow": ["read"]}, "agents": {"dev": {"tools": {"profile": "minimal"}}}}, []),
        ({"tools": {"byProvider": {"openai": {"alsoAllow": ["read"], "profile": "minimal"}}}}, []),
        (chat(tools={"alsoAllow": ["read"], "profile": "messaging"}), []),
        ({"tools": {"exec": {"host": "docker"}}}, [("dead", "tools.exec.host")]),
        ({"sandbox": {"docker": {"network": "none"}}}, [("dead", "sandbox.docker")]),
        ({"sandbox": {"mode": "all"}, "tools": {"exec": {"host": "sandbox"}}}, []),
        (chat(tools={"allow": ["weather"]}), []),  # a list of plugins in a chat is what a list is for
    ],
)
def test_what_was_silent_is_told_and_its_twin_is_not(config: Json, told: list[tuple[str, str]]) -> None:
    assert list_told(config) == told


def test_a_program_that_the_sandbox_does_not_show_is_told(tmp_path: Path) -> None:
    script, root = tmp_path / "hooks" / "check.py", tmp_path / "work"
    for each in (script.parent, root):
        each.mkdir()
    for each in (script, root / "own.py"):
        each.write_text("")

    def told(hook: Json, **exec: Any) -> list[tuple[str, str]]:
        hooks = [{"on": "PreToolUse", "tools": ["write"], **hook}]
        return list_told({"workspace": {"root": str(root)}, "tools": {"hooks": hooks, "exec": exec}})

    unseen = {"run": ["python3", str(script)]}
    assert told(unseen) == [("dead", "tools.hooks[0].run")]
    assert told({**unseen, "host": "host"}) == told(unseen, host="host") == []
    assert told({"run": ["python3", "/usr/bin/env"]}) == told({"run": ["python3", str(root / "own.py")]}) == []
    seen = {"run": ["/usr/bin/true"]}
    assert told(seen, allow=[[str(script), "-l"]]) == [("dead", "tools.exec.allow")]
    assert told(seen, trustedDirs=[str(script.parent)]) == [("dead", "tools.exec.trustedDirs")]


@pytest.mark.parametrize("entry", ["write", {"tool": "write", "when": {"path": "docs/**"}}])
def test_a_comparison_tells_who_may_answer(entry: Any) -> None:
    def asks(**who: Any) -> Json:
        plain = entry if isinstance(entry, dict) else {"tool": entry}
        return {"people": {"ann": {"is": ["telegram:id:2"]}}, "tools": {"ask": [{**plain, **who}]}}

    def told(old: Json, new: Json) -> set[tuple[str, str]]:
        before, after = (crib_of(each, foreign=False).view() for each in (old, new))
        changes = list_changes(before, after, Counter())
        return {(each["tool"], each["reason"]) for each in changes}

    both = {"by": ["owner", "telegram:id:2"]}
    ((tool, reason),) = told(asks(), asks(**both))
    assert (tool, "by: [owner, telegram:id:2]" in reason, "no longer ask" in reason) == ("write", True, True)
    assert "count: 2" in next(iter(told(asks(**both), asks(**both, count=2))))[1]
    assert told(asks(**both), asks(**both, count=1)) == told(asks(), asks(by=["owner"])) == set()


def test_explain_names_no_grant_where_others_answer_or_words_from_outside_are_behind_the_question() -> None:
    always = {"approvals": {"always": [{"tool": "write", "when": {"path": "docs/**"}}]}}

    def explained(ask: Any, *sources: str, args: Json | None = None) -> str:
        crib = crib_of({**always, "tools": {"ask": ask}}, foreign=False)

        async def read() -> tuple[str, ...]:
            return sources

        asked = Asked(read, "write", args)
        told = asyncio.run(crib.standing.explain(crib.belt(OWNER), crib.policy, crib.way_out, asked))
        return str(told["tools"][0]["decision"])

    args, tainted = {"path": "docs/a", "content": "x"}, ["write", {"tool": "write", "taint": "web:*"}]
    theirs = [{"tool": "write", "by": ["telegram:id:2"]}]
    for called in (None, args):
        assert explained(["write"], args=called) == explained(tainted, args=called) == "allow"
        assert explained(tainted, "file:a", args=called) == "allow"
        assert explained(tainted, "web:evil.example", args=called) == "ask"
        assert explained(theirs, args=called) == "ask"
