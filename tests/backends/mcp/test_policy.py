"""Rules about other people's tools: written as their server calls them, judged like any other."""

from dataclasses import replace
from typing import Any

import pytest

from toolcrib.agent.belt import Belts
from toolcrib.config.load import load
from toolcrib.define.caller import OWNER
from toolcrib.define.names import tool_name
from toolcrib.define.tool import Tool
from toolcrib.policy.lint import lint
from toolcrib.registry.catalog import Catalog
from toolcrib.registry.sources import Offer, collect_catalog

OWN = {"github": ("create_issue", "deleteRepo", "delete_file", "read"), "My Files": ("read", "write")}
ALL = {tool_name(server, tool) for server, tools in OWN.items() for tool in tools}
DELETE = tool_name("github", "deleteRepo")


def catalog() -> Catalog:
    offers = [
        Offer(source=f"mcp:{server}", tools=tuple(Tool.declared(tool_name(server, tool), "Theirs.") for tool in tools))
        for server, tools in OWN.items()
    ]
    return collect_catalog([Offer(source="core", tools=(Tool.declared("read", "Ours."),)), *offers])


def left(tools: dict[str, Any], **servers: Any) -> set[str]:
    config = {"tools": tools, "mcpServers": {name: {"command": "x", "tools": lists} for name, lists in servers.items()}}
    return set(Belts(catalog(), load(config, {}).policy).belt_for(OWNER).tools)


@pytest.mark.parametrize(
    ("deny", "gone"),
    [
        ("github__create_issue", {"github__create_issue"}),
        ("GitHub__Create_Issue", {"github__create_issue"}),
        ("github__deleteRepo", {DELETE}),
        (DELETE, {DELETE}),
        ("github__delete*", {DELETE, "github__delete_file"}),
        ("github__*Repo", {DELETE}),
        ("*__deleteRepo", {DELETE}),
        ("*__read", {"github__read", "my_files__read"}),
        ("github__*", {name for name in ALL if name.startswith("github__")}),
        ("my_files__*", {"my_files__read", "my_files__write"}),
        ("group:mcp", ALL),
        ("read", {"read"}),
        ("deleteRepo", set()),
    ],
)
def test_a_rule_names_a_tool_its_server_or_all_of_them(deny: str, gone: set[str]) -> None:
    assert left({"deny": [deny]}) == (ALL | {"read"}) - gone


LONG = "a_name_" + "that_is_longer_than_any_name_of_ours_" * 2
ODD = {"inner__echo": "srv__inner__echo", LONG: f"srv__{LONG}", "browser.click": "srv__browser_click"}


@pytest.mark.parametrize(
    ("own", "entry"), [*ODD.items(), ("inner__echo", "*__inner__echo"), ("inner__echo", "srv__inner__*")]
)
def test_a_rule_need_not_know_how_we_spell_what_a_server_calls_otherwise(own: str, entry: str) -> None:
    tools = tuple(Tool.declared(tool_name("srv", name), "Theirs.") for name in (*ODD, "plain"))
    known = collect_catalog([Offer(source="mcp:srv", tools=tools)])
    belt = Belts(known, load({"tools": {"deny": [entry]}}, {}).policy).belt_for(OWNER)
    assert set(belt.tools) == set(known.tools) - {tool_name("srv", own)}


@pytest.mark.parametrize("server", ["the-knowledge-base-of-the-company", "a__b", "_x", "y_"])
@pytest.mark.parametrize("own", ["delete", "deleteAll", "de__lete"])
def test_a_rule_may_call_a_server_as_the_configuration_does(server: str, own: str) -> None:
    known = collect_catalog(
        [
            Offer(
                source=f"mcp:{server}",
                tools=tuple(Tool.declared(tool_name(server, name), "T.") for name in (own, "get")),
            )
        ]
    )
    for entry in (f"{server}__{own}", f"{server}__de*", f"*{server[1:]}__{own}"):
        belt = Belts(known, load({"tools": {"deny": [entry]}}, {}).policy).belt_for(OWNER)
        assert set(belt.tools) == {tool_name(server, "get")}, entry


def test_a_name_that_looks_like_a_digest_is_none() -> None:
    tools = tuple(Tool.declared(tool_name("srv", own), "Theirs.") for own in ("facade", "_decade"))
    known = collect_catalog([Offer(source="mcp:srv", tools=tools)])
    assert not known.groups.keys() & {"srv", "srv_"}
    assert not Belts(known, load({"tools": {"allow": ["srv", "srv_"]}}, {}).policy).belt_for(OWNER).tools


def test_a_server_that_begins_the_names_of_its_tools_with_its_own_is_denied_them() -> None:
    tools = tuple(Tool.declared(tool_name("srv", own), "Theirs.") for own in ("srv__wipe", "wipe", "get"))
    config = {"mcpServers": {"srv": {"command": "x", "tools": {"deny": ["srv__wipe"]}}}}
    belt = Belts(collect_catalog([Offer(source="mcp:srv", tools=tools)]), load(config, {}).policy).belt_for(OWNER)
    assert set(belt.tools) == {"srv__get"}


def _prefixed(*own: str) -> Catalog:
    tools = (replace(Tool.declared(tool_name("git", each, own), "Theirs."), own_name=each) for each in own)
    return collect_catalog([Offer(source="mcp:git", tools=tuple(tools))])


@pytest.mark.parametrize("entry", ["git__log", "git__git_log", "*git_log", "git__git_*"])
def test_a_rule_may_say_the_prefix_that_the_name_leaves_out(entry: str) -> None:
    known = _prefixed("git_log", "status")
    for lists, kept in (({"deny": [entry]}, {"git__status"}), ({"allow": [entry]}, {"git__log"})):
        assert set(Belts(known, load({"tools": lists}, {}).policy).belt_for(OWNER).tools) == kept


@pytest.mark.parametrize(
    ("lists", "kept"),
    [
        ({"deny": ["git__log"]}, set()),
        ({"deny": ["git__git_log"]}, {"git__log"}),
        ({"allow": ["git__git_log"]}, {"git__git_log"}),
    ],
)
def test_what_was_denied_stays_so_when_its_name_goes_to_another_tool(lists: Any, kept: set[str]) -> None:
    belt = Belts(_prefixed("git_log", "log"), load({"tools": lists}, {}).policy).belt_for(OWNER)
    assert set(belt.tools) == kept


def test_allowing_a_tool_of_ours_allows_nothing_of_theirs() -> None:
    assert left({"allow": ["read"]}) == {"read"}
    assert left({"allow": ["github__read"]}) == {"github__read"}


@pytest.mark.parametrize(
    ("lists", "kept"),
    [
        ({"deny": ["deleteRepo"]}, {"github__create_issue", "github__delete_file", "github__read"}),
        ({"deny": ["delete*"]}, {"github__create_issue", "github__read"}),
        ({"deny": ["*Repo"]}, {"github__create_issue", "github__delete_file", "github__read"}),
        ({"deny": ["github__delete_file"]}, {"github__create_issue", DELETE, "github__read"}),
        ({"allow": ["read"]}, {"github__read"}),
        ({"allow": ["*"], "deny": ["create_issue"]}, {DELETE, "github__delete_file", "github__read"}),
        ({"allow": []}, set()),
        ({"deny": ["effect:write"]}, set()),
    ],
)
def test_a_servers_own_lists_call_its_tools_as_it_does(lists: dict[str, Any], kept: set[str]) -> None:
    assert left({}, github=lists) == kept | {"read", "my_files__read", "my_files__write"}


def test_a_verdict_quotes_the_entry_as_it_is_written() -> None:
    config = {"mcpServers": {"github": {"command": "x", "tools": {"deny": ["deleteRepo"]}}}}
    verdict = Belts(catalog(), load(config, {}).policy).belt_for(OWNER).verdicts[DELETE]
    assert (verdict.layer, verdict.reason) == ("source", "deny has 'deleteRepo' (mcpServers.github.tools)")
    assert verdict.remedy == "take 'deleteRepo' out of mcpServers.github.tools.deny"


def test_lint_knows_what_an_entry_of_a_server_means() -> None:
    lists = {"deny": ["deleteRepo", "no_such_tool"], "allow": ["read", "delete_file"]}
    policy = load({"mcpServers": {"github": {"command": "x", "tools": lists}}}, {}).policy
    known = catalog()
    found = [each.message for each in lint(policy, known.tools, known.groups)]
    assert found == ["'no_such_tool' names no tool, group or plugin that exists here"]
