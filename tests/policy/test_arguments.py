"""Rules about arguments: what a condition means, what is refused, and how explain and lint say it."""

import json
from dataclasses import replace
from typing import Any

import pytest

from toolcrib import OWNER
from toolcrib.define.errors import ConfigError
from toolcrib.define.schema.check import check_of_schema
from toolcrib.define.schema.portable import Shape
from toolcrib.define.tool import tool_named
from toolcrib.define.verdict import ArgumentRule, Layer, Rule
from toolcrib.policy.arguments import BoundRule, bind_grant
from toolcrib.policy.conditions import UnjudgedError, dump_when
from toolcrib.policy.explain import explain_json
from toolcrib.tools import SHELF

from .conftest import crib_of

TOOLS = {tool.name: tool for tool in SHELF}
Kind = Any


def is_met(kind: Kind, tool: str, when: dict[str, Any], values: dict[str, Any]) -> bool | None:
    """Return whether an entry holds, None when that cannot be judged."""
    rule = BoundRule.of(ArgumentRule(kind, tool, dump_when(when)), Layer("global", "tools", Rule()), TOOLS[tool])
    try:
        return rule.is_met({**dict.fromkeys(when), **values})
    except UnjudgedError:
        return None


@pytest.mark.parametrize(
    ("pattern", "path", "holds"),
    [
        ("docs/**", "docs/a/b.md", True),
        ("docs/**", "docs", True),
        ("docs/**", "docs2/a", False),
        ("docs/*", "docs/a", True),
        ("docs/*", "docs/a/b", False),
        ("/docs/**", "docs/a", True),
        ("./docs/**", "docs/a", True),
        ("././docs//./**", "docs/a", True),
        ("docs/", "a/docs/b/c", True),
        ("docs/", "docs2/a", False),
        ("a/docs/", "a/docs/b", True),
        ("a/docs/", "docs/b", False),
        ("*.md", "a/b.md", True),
        ("*.md", "a/b.mdx", False),
        ("notes.txt", "a/notes.txt", True),
        ("a/**/z", "a/z", True),
        ("a/**/z", "a/b/c/z", True),
        ("**", ".", True),
        ({"under": "docs"}, "docs/a", True),
        ({"under": "docs/"}, "src/docs/a", False),
        ({"under": "."}, "anything", True),
        ({"in": ["a/**", "b/**"]}, "b/x", True),
        ({"in": ["a/**", "b/**"]}, "c/x", False),
    ],
)
def test_a_glob_of_paths_is_read_as_in_ignore_files(pattern: Any, path: str, holds: bool) -> None:
    assert is_met("deny", "write", {"path": pattern}, {"path": path}) is holds
    assert is_met("allow", "write", {"path": pattern}, {"path": path}) is holds


@pytest.mark.parametrize("path", ["DOCS/a", "docs./a", "do\u00adcs/a", "docs /a"])
def test_what_takes_away_reads_a_path_as_the_most_forgiving_disk_and_what_gives_as_it_is(path: str) -> None:
    assert is_met("deny", "write", {"path": "docs/**"}, {"path": path}) is True
    assert is_met("allow", "write", {"path": "docs/**"}, {"path": path}) is False


@pytest.mark.parametrize(
    ("when", "values", "holds"),
    [
        ({"limit": 5}, {"limit": 5}, True),
        ({"limit": 5}, {"limit": 5.0}, True),
        ({"limit": 1}, {"limit": True}, None),
        ({"limit": 5}, {"limit": "5"}, None),
        ({"limit": 5}, {"limit": None}, False),
        ({"limit": {"min": 2, "max": 4}}, {"limit": 4}, True),
        ({"limit": {"min": 2, "max": 4}}, {"limit": 5}, False),
        ({"limit": {"max": 4}}, {"limit": float("nan")}, None),
        ({"limit": {"in": [1, "many"]}}, {"limit": "MANY"}, True),
        ({"limit": {"in": [1, 2]}}, {"limit": "x"}, None),
        ({"x": "a*c"}, {"x": "ABBC"}, True),
        ({"x": "ann"}, {"x": "a\u00adn\ufe0fn\0\ud800"}, True),
        ({"x": {"in": ["bob", "ann"]}}, {"x": "\u200bＡnn\x7f"}, True),
        ({"x": "a*n"}, {"x": "\u034fann"}, True),
        ({"x": "a*c"}, {"x": "abcd"}, False),
        ({"x": {"matches": "^a.b$"}}, {"x": "a\nb"}, True),
        ({"x": {"matches": "^ab$"}}, {"x": "ab\n"}, False),
        ({"x": {"matches": "b"}}, {"x": "half \ud800 b"}, True),
        ({"x": "a"}, {"x": ["b", "a"]}, True),
        ({"x": "a"}, {"x": []}, False),
        ({"x": "a", "limit": {"max": 1}}, {"x": "b", "limit": "?"}, False),
        ({"x": "a", "limit": {"max": 1}}, {"x": "a", "limit": "?"}, None),
        ({"taint": "web:*"}, {"taint": ["file:a", "web:b/../c"]}, True),
        ({"taint": "web:*"}, {"taint": []}, False),
        ({"taint": "web"}, {"taint": ["web:b"]}, True),
        ({"taint": "web:*"}, {"taint": ["agent:clerk after web:b and mcp:shop"]}, True),
        ({"taint": {"in": ["mcp", "cron"]}}, {"taint": ["agent:clerk after web:b and mcp:shop"]}, True),
        ({"taint": "web"}, {"taint": ["web_search:brave"]}, False),
    ],
)
def test_conditions_on_values_know_what_they_cannot_judge(
    when: dict[str, Any], values: dict[str, Any], holds: bool | None
) -> None:
    assert is_met("deny", "read", when, values) is holds


@pytest.mark.parametrize(
    ("wanted", "url", "holds"),
    [
        ("example.com", "https://EXAMPLE.com./a", True),
        ("example.com", "https://a.example.com/", False),
        ("*.example.com", "https://a.example.com/", True),
        ("10.0.0.0/8", "http://0xa.1.2.3/", True),
        ("10.0.0.0/8", "http://ten.example/", False),
        ({"host": ["a.test", "fc00::/7"]}, "http://[fd00::1]/", True),
        ("https://example.com/docs/*", "https://example.com/docs/a", True),
        ("https://example.com/docs/*", "http://example.com/docs/a", False),
        ("https://example.com/docs/*", "https://example.com/a/../docs//./%61", True),
        ("https://example.com/docs*", "https://example.com/%64ocs?a", True),
        ("https://example.com/docs/", "https://example.com//docs/", True),
        ("https://example.com/a%20b", "https://example.com/a%20b", True),
        ("https://example.com", "https://example.com/", True),
        ("https://example.com", "https://example.com/a", False),
        ("HTTPS://Example.com.:443/a*", "https://example.com/a", True),
        ("https://*.example.com", "https://a.example.com/", True),
        ("http://0x7f.1/*", "http://127.0.0.1/a", True),
        ("example.com", "no address", None),
    ],
)
def test_an_address_is_judge_with_where_it_leads(wanted: Any, url: str, holds: bool | None) -> None:
    assert is_met("deny", "web_fetch", {"url": wanted}, {"url": url}) is holds


@pytest.mark.parametrize(
    ("wanted", "value", "denies", "allows"),
    [
        ("*.example.com", "https://a.EXAMPLE.com./b", True, True),
        ("*.example.com", "https://evil.test/a.example.com", True, False),
        ("example.com", "http://example.com", True, True),
        ("10.0.0.0/8", "http://0xa.1.2.3/", True, True),
        ({"in": ["a.test", "b.test"]}, "https://b.test/x", True, True),
        ("example.com", "see http://other.test or ask", False, False),
        ("plan.md", "plan.md", True, True),
    ],
)
def test_an_address_is_one_though_its_tool_does_not_say_so(wanted: Any, value: str, denies: bool, allows: bool) -> None:
    assert is_met("deny", "read", {"x": wanted}, {"x": value}) is denies
    assert is_met("allow", "read", {"x": wanted}, {"x": value}) is allows


@pytest.mark.parametrize("path", ["docs/../admin", "docs/%2e%2e/admin", "docs/..%5cadmin"])
def test_what_is_allowed_beneath_an_address_does_not_lead_up_again(path: str) -> None:
    assert is_met("allow", "web_fetch", {"url": "https://a.test/docs/*"}, {"url": f"https://a.test/{path}"}) is False
    assert is_met("allow", "web_fetch", {"url": "https://a.test/docs/*"}, {"url": "https://a.test/docs/a..b"}) is True


@pytest.mark.parametrize("path", ["file:///work/docs/a", "FILE:docs/a"])
def test_an_address_of_a_file_cannot_be_judged_where_its_tool_declares_no_path(path: str) -> None:
    assert is_met("deny", "read", {"x": "docs/**"}, {"x": path}) is None


def test_a_default_is_found_where_the_schema_refers_to_it() -> None:
    schema = {
        "type": "object",
        "properties": {"kind": {"$ref": "#/$defs/Kind"}, "round": {"$ref": "#/$defs/Round"}},
        "$defs": {"Kind": {"$ref": "#/$defs/Word"}, "Word": {"default": "open"}, "Round": {"$ref": "#/$defs/Round"}},
    }
    shown = tool_named("shown", "Show.", Shape(lambda: schema, check_of_schema))
    rules = bind_grant(shown, dump_when({"kind": "open", "round": "x"}), "")
    assert rules.read({}) == {"kind": "open", "round": None}


def test_in_a_list_that_gives_every_value_must_fit() -> None:
    assert is_met("allow", "read", {"x": "a"}, {"x": ["a", "b"]}) is False
    assert is_met("allow", "read", {"x": "a"}, {"x": ["a", "a"]}) is True


@pytest.mark.parametrize(
    ("when", "said"),
    [
        ({}, "when: names no argument"),
        ({"path": []}, "write {in: [..]}"),
        ({"path": {}}, "an empty condition"),
        ({"path": {"beneath": "x"}}, "no condition 'beneath'"),
        ({"path": {"in": "x"}}, "should be a list"),
        ({"path": ""}, "1 to 256 characters"),
        ({"path": "x" * 300}, "1 to 256 characters"),
        ({"limit": {"min": "3"}}, "should be a number"),
        ({"limit": {"min": True}}, "should be a number"),
        ({"x": {"matches": "(?=a)"}}, "linear time"),
        ({"url": {"host": "a b"}}, "no host"),
        ({"x": {"under": 3}}, "should be text"),
    ],
)
def test_a_condition_that_means_nothing_is_refused_when_it_is_read(when: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as error:
        crib_of({"tools": {"deny": [{"tool": "write", "when": when}]}})
    assert said in str(error.value)


@pytest.mark.parametrize(
    "entry", [{"tool": "write"}, {"when": {"path": "x"}}, {"tool": "write", "if": {}}, 3, ["write"]]
)
def test_an_entry_is_a_name_or_a_tool_with_a_condition(entry: Any) -> None:
    with pytest.raises(ConfigError):
        crib_of({"tools": {"deny": [entry]}})


def test_without_arguments_the_verdict_is_the_mildest_with_its_conditions_beside_it() -> None:
    rule = {"tool": "write", "when": {"path": "docs/**"}}
    for tools, decision in (
        ({"deny": [rule]}, "deny"),
        ({"ask": [rule]}, "ask"),
        ({"allow": [rule]}, "allow"),
        ({"profile": "minimal", "alsoAllow": [rule]}, "allow"),
    ):
        belt = crib_of({"tools": tools}).belt(OWNER)
        told = explain_json({}, belt.selection, belt.catalog.tools, "write")["tools"][0]
        origin = {"ask": "tools.ask"}.get(decision, "tools.profile" if "profile" in tools else "tools")
        text = f"{{tool: write, when: {json.dumps(rule['when'])}}}"
        assert told["decision"] == "allow"
        assert told["conditions"] == [{"decision": decision, "rule": text, "origin": origin}]


def test_an_allow_list_of_conditions_alone_shuts_out_every_other_tool() -> None:
    belt = crib_of({"tools": {"allow": [{"tool": "exec", "when": {"command": "ls"}}]}}).belt(OWNER)
    assert set(belt.tools) == {"exec"}  # apply_patch goes with an exec that is allowed outright, and with no other


def test_two_entries_do_not_permit_together_what_neither_does() -> None:
    when = {"path": "docs/**"}
    entries = [{"tool": "effect:read", "when": when}, {"tool": "effect:write", "when": when}]
    assert "edit" not in crib_of({"tools": {"allow": entries}}).belt(OWNER).tools


def test_a_plain_entry_beside_it_permits_all_arguments() -> None:
    tools = {"allow": ["write", {"tool": "write", "when": {"path": "docs/**"}}]}
    assert crib_of({"tools": tools}).belt(OWNER).selection.rules_about is not None
    belt = crib_of({"tools": tools}).belt(OWNER)
    assert belt.selection.rules_about is not None
    assert belt.selection.rules_about(belt.tools["write"]) is None


@pytest.mark.parametrize(
    ("entry", "kind", "said"),
    [
        ({"tool": "write", "when": {"path": "docs/**"}}, "around", "edit, apply_patch, exec"),
        ({"tool": "write", "when": {"paht": "docs/**"}}, "dead", "did you mean 'path'?"),
        ({"tool": "write", "when": {"path": "../x"}}, "dead", "whole and without links"),
        ({"tool": "write", "when": {"path": "docs\\**"}}, "dead", "from the root of the workspace"),
        ({"tool": "write", "when": {"path": "~/.ssh/**"}}, "dead", "from the root of the workspace"),
        ({"tool": "write", "when": {"path": "/srv/other/docs/**"}}, "dead", "from the root of the workspace"),
        ({"tool": "write", "when": {"path": {"under": "/srv/other"}}}, "dead", "from the root of the workspace"),
        ({"tool": "write", "when": {"path": "/srv/ws/docs/**"}}, "around", "edit, apply_patch, exec"),
        ({"tool": "write", "when": {"path": {"under": "/srv"}}}, "around", "edit, apply_patch, exec"),
        ({"tool": "write", "when": {"path": "/docs/**"}}, "around", "edit, apply_patch, exec"),
        ({"tool": "read", "when": {"limit": {"min": 5, "max": 2}}}, "dead", "at least 5 and at most 2"),
        ({"tool": "read", "when": {"limit": "five"}}, "dead", "a value of the type integer"),
        ({"tool": "web_fetch", "when": {"extractMode": "pdf"}}, "dead", "is one of"),
        ({"tool": "web_fetch", "when": {"url": 5}}, "dead", "a value of the type string"),
        ({"tool": "browser", "when": {"paths": {"min": 5}}}, "dead", "a value of the type string"),
        ({"tool": "read", "when": {"taint": {"max": 5}}}, "dead", "a value of the type string"),
        ({"tool": "ls", "when": {"limit": {"min": 20_000}}}, "dead", "at least 1 and at most 10000"),
        ({"tool": "ls", "when": {"limit": {"in": [0, 10_001]}}}, "dead", "at least 1 and at most 10000"),
        ({"tool": "wirte", "when": {"path": "x"}}, "unknown", "'wirte' names no tool"),
    ],
)
def test_lint_finds_what_can_never_hold_and_what_is_got_around(entry: dict[str, Any], kind: str, said: str) -> None:
    config = {"tools": {"deny": [entry]}, "workspace": {"root": "/srv/ws"}}
    found = [each for each in crib_of(config).lint() if each.kind == kind]
    assert [said in each.message for each in found] == [True]


def test_lint_takes_no_entry_for_dead_that_means_a_value_in_another_spelling() -> None:
    entry = {"tool": "web_fetch", "when": {"extractMode": "T*XT"}}
    assert [each for each in crib_of({"tools": {"deny": [entry]}}).lint() if each.kind == "dead"] == []


def test_lint_is_content_when_nothing_else_reaches_the_files() -> None:
    rule = {"tool": "group:fs", "when": {"path": "docs/**"}}
    shut = ["effect:execute", "group:ui", "image", "message", "group:memory"]
    tools = {"profile": "coding", "deny": [rule, *shut]}
    assert [each for each in crib_of({"tools": tools}).lint() if each.kind == "around"] == []


def test_what_gives_after_a_source_means_that_source_and_none_that_only_goes_back_to_it() -> None:
    when = {"taint": "web"}
    assert is_met("allow", "write", when, {"taint": ["web:b", "web:c"]}) is True
    assert is_met("allow", "write", when, {"taint": ["web:b", "agent:clerk after web:b"]}) is False
    assert is_met("allow", "write", when, {"taint": ["others"]}) is False


def test_of_every_list_that_gives_an_entry_must_hold() -> None:
    lists = [{"allow": [{"tool": "write", "when": {"path": glob}}]} for glob in ("docs/**", "*.md")]
    crib = crib_of({"tools": lists[0], "agents": {"dev": {"tools": lists[1]}}})
    belt = crib.belt(replace(OWNER, agent="dev"))
    rules = belt.selection.rules_about and belt.selection.rules_about(belt.tools["write"])
    assert rules
    assert [path for path in ("docs/a.md", "docs/a.txt", "b.md") if not rules.judge({"path": path})] == ["docs/a.md"]


def test_what_the_lists_of_a_plugin_say_of_calls_counts() -> None:
    crib = crib_of({"plugins": {"weather": {"tools": {"deny": [{"tool": "forecast", "when": {"taint": "web"}}]}}}})
    belt = crib.belt(OWNER)
    rules = belt.selection.rules_about and belt.selection.rules_about(belt.tools["forecast"])
    assert rules
    assert [rules.judge({"taint": taint}) is None for taint in (["web:a"], [])] == [False, True]


def test_a_list_with_an_entry_about_arguments_is_none_of_plugins_alone() -> None:
    allow = ["weather", {"tool": "read", "when": {"path": "docs/**"}}]
    belt = crib_of({"tools": {"pluginOnlyAllow": "additive", "allow": allow}}).belt(OWNER)
    assert set(belt.tools) == {"forecast", "radar", "read"}
