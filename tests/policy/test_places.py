"""Places: every parameter that is a file or an address is judged as one, by whatever name a rule says it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from toolcrib import OWNER, Crib, Ctx, Result, tool
from toolcrib.define.files import Listing
from toolcrib.define.tool import Tool
from toolcrib.policy.reach import place_of, read_reached, resolve_wide

pytestmark = pytest.mark.anyio

SHUT = "memory/private/**"
# parameters whose text names a file here, or an address that we ask for; all others are words, or places elsewhere
PLACES = {
    "read": {"path"}, "write": {"path"}, "edit": {"path"}, "grep": {"path"}, "find": {"path"}, "ls": {"path"},
    "exec": {"workdir"}, "browser": {"paths", "targetUrl"}, "canvas": {"url"}, "nodes": {"outPath"},
    "message": {"path"}, "web_fetch": {"url"}, "memory_get": {"path"},
}  # fmt: skip
# read by the tool's own `read_places`, and words that only look alike: a pattern to wait for, a folder of a node
HIDDEN = {"image": {"image", "images"}, "canvas": {"target", "jsonlPath"}, "apply_patch": {"input"}}
WORDS = {
    "browser": {"profile", "request"},
    "nodes": {"cwd"},
    "message": {"filename"},
    "codebase_investigator": {"max_files"},
}


def list_suspects(each: Tool) -> set[str]:
    """Return the parameters of a tool that sound like a place."""
    sounds = ("path", "url", "file", "folder", "dir", "cwd", "image", "uri")
    return {name for name in each.parameters.get("properties", {}) if any(word in name.lower() for word in sounds)}


def test_every_parameter_that_sounds_like_a_place_is_declared_or_known_to_be_none() -> None:
    tools = toolcrib.open({}, env={}).belt(OWNER).catalog.tools
    declared = {name: set(each.paths) | set(each.urls) for name, each in tools.items()}
    for name, expected in PLACES.items():
        assert expected <= declared[name], name
    for name, each in tools.items():
        known = declared[name] | HIDDEN.get(name, set()) | WORDS.get(name, set())
        assert list_suspects(each) <= known, name


@tool(effects={"read"})
async def peek(ctx: Ctx, path: str) -> Result:
    """Open a file without saying that it is one."""
    return Result.text(path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("memory/private/p.md", "memory/a.md", "docs/x.png", "pics/x.png"):
        (tmp_path / "work" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "work" / name).write_text("SECRET apples" if "private" in name else "apples")
    (tmp_path / "work" / "link").symlink_to("memory/private")
    return tmp_path / "work"


def opened(root: Path, **tools: Any) -> Crib:
    config = {"workspace": {"root": str(root)}, "tools": tools, "channels": {"telegram": {"botToken": "1:x"}}}
    return toolcrib.open(config, tools=[peek], state=root.parent / "state")


async def test_memory_is_not_read_past_a_rule_by_path(root: Path) -> None:
    async with opened(root, deny=[{"tool": "group:memory", "when": {"path": SHUT}}]) as crib:
        belt = crib.belt(OWNER)
        spellings = [
            "memory/private/p.md", " memory/private/p.md", "./memory//private/p.md", "memory\\private\\p.md",
            "memory/Private/p.md", str(root / "memory/private/p.md"), "link/p.md", "memory/x/../private/p.md",
            " .\\memory/./private/p.md ",
        ]  # fmt: skip
        for path in spellings:
            told = await belt.call("memory_get", {"path": path})
            assert (told.status, "SECRET" in told.plain_text) == ("error", False), path
        assert (await belt.call("memory_get", {"path": "memory/a.md"})).status == "ok"
        found = await belt.call("memory_search", {"query": "apples"})
        assert ("memory/a.md" in found.plain_text, "SECRET" in str(found)) == (True, False)


async def test_a_file_that_is_sent_is_judged_where_it_lies(root: Path) -> None:
    async with opened(root, deny=[{"tool": "message", "when": {"path": SHUT}}]) as crib:
        belt = crib.belt(OWNER)
        for name in ("path", "media", "filePath"):
            for path in ("link/p.md", "MEDIA:memory/private/p.md", "FILE:link/p.md", "memory/private/../private/p.md"):
                args = {"action": "send", "target": "x", "message": "hi", name: path}
                assert (await belt.call("message", args)).details["code"] == "denied", path


async def test_what_a_node_records_is_not_written_past_a_rule(root: Path) -> None:
    async with opened(root, deny=[{"tool": "nodes", "when": {"outPath": SHUT}}]) as crib:
        args = {"action": "camera_snap", "node": "n", "outPath": "link/x.png"}
        assert (await crib.belt(OWNER).call("nodes", args)).details["code"] == "denied"


@pytest.mark.parametrize(
    "args", [{"image": "docs/x.png"}, {"image": " docs/x.png"}, {"image": "p", "images": ["docs/x.png"]}]
)
async def test_a_rule_by_a_name_that_holds_places_or_addresses_cannot_be_judged_and_says_what_to_write(
    root: Path, args: dict[str, Any]
) -> None:
    name = "images" if "images" in args else "image"
    for rule in ("deny", "ask"):
        async with opened(root, **{rule: [{"tool": "image", "when": {name: "pics/**"}}]}) as crib:
            told = await crib.belt(OWNER).call("image", {**args, "prompt": "?"})
            assert told.details["code"] == "denied"
            assert "is a place, about which rules say path or url" in told.plain_text.replace("'", "")


@pytest.mark.parametrize("path", ["/etc/docs/x", "~/docs/x", "docs/../y", " docs/x", "~root/docs/x", "\\docs\\x"])
async def test_a_path_that_its_tool_does_not_declare_is_denied_where_it_cannot_be_judged(root: Path, path: str) -> None:
    async with opened(root, deny=[{"tool": "peek", "when": {"path": "docs/**"}}]) as crib:
        belt = crib.belt(OWNER)
        assert (await belt.call("peek", {"path": path})).details["code"] == "denied"
        assert (await belt.call("peek", {"path": "notes/docs.md"})).status == "ok"


@pytest.mark.parametrize(
    ("entry", "url"),
    [
        ("m\u00fcnchen.de", "http://xn--mnchen-3ya.de/"),
        ("M\u00dcNCHEN.de", "http://m\u00fcnchen.de./"),
        ("*.m\u00fcnchen.de", "http://a.xn--mnchen-3ya.de/"),
        ("xn--mnchen-3ya.de", "http://m\uff55\u0308nchen.de/"),
        ("0x7f.1", "http://2130706433/"),
        ("[::1]", "http://[0:0::1]/"),
        ("::ffff:10.0.0.1", "http://10.0.0.1/"),
        ("::ffff:10.0.0.0/104", "http://0xa.1.2.3/"),
        # what is no host is none that could be permitted either
        ("*evil*", "http://good.test/"),
        ("evil.test/page", "http://evil.test/page"),
    ],
)
async def test_a_host_is_the_same_however_a_rule_or_a_call_spells_it(root: Path, entry: str, url: str) -> None:
    async with opened(root, deny=[{"tool": "web_fetch", "when": {"url": entry}}]) as crib:
        found = (await crib.belt(OWNER).judge_call("web_fetch", {"url": url}, crib.way_out)).found
        assert [(each.layer, each.decision) for each in found][:1] == [("argument", "deny")]


@tool(effects={"network"})
async def relay(ctx: Ctx, url: str) -> Result:
    """Go where no declaration says that it goes, as the tool of an MCP server does."""
    return Result.text(url)


def read_relayed(when: Any, url: str, *kinds: str) -> list[str]:
    """Return what lists of these kinds say of a call of `relay`."""
    found = list[str]()
    for kind in kinds:
        crib = toolcrib.open({"tools": {kind: [{"tool": "relay", "when": {"url": when}}]}}, tools=[relay], env={})
        rules = crib.belt(OWNER).selection.rules_about
        judge = rules and rules(relay)
        assert judge
        said = judge.judge(judge.read({"url": url}))
        found.append(said.decision if said else "pass")
    return found


@pytest.mark.parametrize(
    "url",
    [
        "http://evil.test/a b", "http://evil.test/\tx", "ht\ttp://ev\nil.test/", "http:/evil.test/", "http:evil.test",
        "https:\\\\evil.test\\x", "//evil.test/x", "\\\\evil.test\\x", "evil.test/x", "evil.test:80", "EVIL.test.",
        "user:pw@evil.test", "ws://evil.test/", "view-source:http://evil.test/", "\0http://evil.test/", "%65vil.test",
        "\ufeffhttp://evil.test/", "<http://evil.test/>", "ev\u00adil\u3002test", f"http:/{'a' * 9000}@evil.test/",
        f"http:/evil.test/{'a' * 9000}", "http://good.test\\@evil.test/", "http://evil.test:80/", "http://evil.test/a/b",
    ],
)  # fmt: skip
def test_an_address_is_seen_as_the_most_forgiving_client_reads_it(url: str) -> None:
    for when in ("evil.test", "*.test", {"in": ["evil.test", "other.test"]}, "http://evil.test/*", "http*://*.test*"):
        assert read_relayed(when, url, "deny", "ask")[0] == "deny", when
    assert read_relayed("*.good.test", f"{url}/ .good.test", "allow") == ["deny"]
    assert read_relayed("https://good.test/*", url, "allow") == ["deny"]


@pytest.mark.parametrize(
    ("when", "text"),
    [
        ("evil.test", "hello world"), ("evil.test", "https://good.test/?u=evil.test"),
        ("evil.test", "good.test/evil.test"),
        ("evil.test", "https://good.test/ and\nmore: a/b"), ("evil.test", "re: notevil.test/x"), ("evil.test", "1/2"),
        ("http://evil.test/*", "../see, /etc/x and ~/y"), ("http://evil.test/*", "http://good.test/"),
        ("*.md", "docs/a.txt"), ("v1.2", "v1.3: new"), ("localhost", "on localhost, or not"),
    ],
)  # fmt: skip
def test_words_and_other_addresses_are_no_host_that_is_denied(when: str, text: str) -> None:
    assert read_relayed(when, text, "deny", "ask") == ["pass", "pass"]


@pytest.mark.parametrize(
    ("when", "text"),
    [
        ("*.good.test", "https://a.good.test:8443/x"), ("*.good.test", "a.good.test"), ("*.md", "docs/a.md"),
        ("*.done", "task: all.done"), ("https://good.test/*", "https://good.test/a/b?c=d e"), ("*.md", "a b/c.md"),
    ],
)  # fmt: skip
def test_what_is_allowed_by_a_host_or_a_pattern_passes(when: str, text: str) -> None:
    assert read_relayed(when, text, "allow") == ["pass"]


@pytest.mark.parametrize(
    ("when", "url"),
    [("10.0.0.0/8", "0xa.1"), ("127.0.0.1", "2130706433/x"), ("fc00::/7", "http://[fd00::1]/"), ("::1", "[::1]:80"),
     ("localhost", "http://LOCALHOST:80/"), ("localhost", "//localhost")],
)  # fmt: skip
def test_an_address_by_number_is_seen_where_no_tool_declares_it(when: str, url: str) -> None:
    assert read_relayed(when, url, "deny") == ["deny"]


@pytest.mark.parametrize("url", ["nonsense", "ftp://good.test/", "/page"])
async def test_what_is_no_address_is_not_said_to_be_denied_by_a_rule(root: Path, url: str) -> None:
    async with opened(root, hosts={"deny": ["evil.test"]}) as crib:
        belt = crib.belt(OWNER)
        assert (await belt.judge_call("web_fetch", {"url": url}, crib.way_out)).found == []
        assert (await belt.call("web_fetch", {"url": url})).details["code"] != "denied"


def test_an_address_that_is_dialled_otherwise_is_refused_when_it_is_read() -> None:
    with pytest.raises(toolcrib.ConfigError, match="dialled otherwise"):
        toolcrib.open({"tools": {"deny": [{"tool": "web_fetch", "when": {"url": "http://m\u00fcnchen.de/*"}}]}})


@pytest.mark.parametrize(
    "spelled",
    [
        "ROOT/docs/**", "ROOT/docs/", "ROOT//./docs/*", "ABOVE/*/docs/**", "ABOVE/**", {"under": "ROOT/docs"},
        {"under": "ABOVE"}, {"in": ["x", "ROOT/docs/a.md"]}, "/docs/**",
    ],
    ids=str,
)  # fmt: skip
async def test_a_rule_by_a_whole_path_is_about_what_lies_there(root: Path, spelled: Any) -> None:
    (root / "docs" / "a.md").write_text("apples")
    (root.parent / "other").symlink_to(root)
    for place in (root, root.parent / "other"):  # the workspace by either name, and the rule by the true one
        when = json.loads(json.dumps(spelled).replace("ROOT", str(root)).replace("ABOVE", str(root.parent)))
        async with opened(place, deny=[{"tool": "read", "when": {"path": when}}]) as crib:
            assert (await crib.belt(OWNER).call("read", {"path": "docs/a.md"})).details["code"] == "denied", place
        async with opened(place, allow=[{"tool": "read", "when": {"path": when}}]) as crib:
            assert (await crib.belt(OWNER).call("read", {"path": "docs/a.md"})).status == "ok", place


async def test_a_whole_path_is_that_of_the_workspace_that_the_caller_works_in(root: Path) -> None:
    (root.parent / "dev" / "docs").mkdir(parents=True)
    (root.parent / "dev" / "docs" / "x.md").write_text("pears")
    agents = {"dev": {"workspace": str(root.parent / "dev")}}
    entry = {"tool": "read", "when": {"path": f"{root}/docs/**"}}
    for kind, code in (("deny", None), ("allow", "denied")):
        config = {"workspace": {"root": str(root)}, "agents": agents, "tools": {kind: [entry]}}
        async with toolcrib.open(config, env={}, state=root.parent / "state") as crib:
            told = await crib.belt(replace(OWNER, agent="dev")).call("read", {"path": "docs/x.md"})
            assert told.details.get("code") == code, kind


async def test_a_rule_from_home_is_about_a_workspace_there(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    monkeypatch.setenv("HOME", str(root.parent))
    async with opened(root, deny=[{"tool": "read", "when": {"path": "~/work/docs/**"}}]) as crib:
        assert (await crib.belt(OWNER).call("read", {"path": "docs/x.png"})).details["code"] == "denied"
        assert (await crib.belt(OWNER).call("read", {"path": "memory/a.md"})).status == "ok"


@pytest.mark.parametrize("blank", ["", " ", "\t", "\u00a0"])
async def test_a_decision_by_a_whole_path_is_derived_again_from_the_record(root: Path, blank: str) -> None:
    async with opened(root, deny=[{"tool": "read", "when": {"path": f"{blank}{root}/docs/**"}}]) as crib:
        assert (await crib.belt(OWNER).call("read", {"path": "docs/x.png"})).details["code"] == "denied"
        found = await crib.ask("audit.verify", {"replay": True}, caller=OWNER)
    assert (list(found["findings"]), found["derived"]) == ([], 2)


@pytest.mark.parametrize("source", ["mcp:shop", "core"])
async def test_a_path_of_a_tool_that_says_nothing_counts_also_beneath_a_root_of_its_own(source: str) -> None:
    @tool
    async def fetch_it(where: str) -> str:
        """Fetch it."""
        return where

    async def resolve(path: str) -> str:
        return path.removeprefix("/srv/work/")

    async def look(folder: str) -> Listing:
        return Listing(entries=(), total=0)

    asked = replace(fetch_it, source=source)
    found = await resolve_wide(asked, ["/srv/work/shop/secret/key"], {}, resolve, look)
    assert ("secret/key" in found) is (source == "mcp:shop")
    assert "shop/secret/key" in found


def test_a_rule_that_takes_away_knows_the_chat_of_a_call_by_all_of_its_names() -> None:
    send = toolcrib.open({}).catalog.tools["message"]
    here = ("-100", "@family")
    wide, narrow = (place_of(send, "to", takes=takes) for takes in (True, False))
    assert read_reached(send, wide, {"action": "send"}, here) == ["-100", "@family"]
    assert read_reached(send, narrow, {"action": "send"}, here) == ["-100"]
    assert read_reached(send, wide, {"action": "send", "target": "ann"}, here) == ["ann"]
