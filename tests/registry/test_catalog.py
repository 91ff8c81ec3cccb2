"""One catalog from six sources: order, collisions, groups, and snapshots that never change."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from toolcrib.define.errors import DeclarationError
from toolcrib.define.tool import Tool
from toolcrib.registry import Catalog, Offer, Problem, collect_catalog, groups_of
from toolcrib.tools import CHANNEL_TOOLS, SHELF


def declared(*names: str, group: str | None = None, **options: Any) -> tuple[Tool, ...]:
    return tuple(Tool.declared(name, f"{name}.", group=group, **options) for name in names)


CORE = Offer(source="core", tools=(*declared("read", "write", group="fs"), *declared("cron", group="automation")))


def sources(catalog: Catalog) -> dict[str, str]:
    return {name: tool.source for name, tool in catalog.items()}


def test_six_sources_become_one_catalog_whatever_order_they_come_in() -> None:
    offers = [
        Offer(source="agent", tools=declared("reader")),
        Offer(source="mcp:github", tools=declared("issue_get")),
        Offer(source="client:phone", tools=declared("camera")),
        Offer(source="channel:whatsapp", tools=declared("whatsapp_login")),
        Offer(source="plugin:shop", tools=declared("dice")),
        CORE,
    ]
    catalog = collect_catalog(offers)
    assert sources(catalog) == {
        "read": "core",
        "write": "core",
        "cron": "core",
        "dice": "plugin:shop",
        "whatsapp_login": "channel:whatsapp",
        "camera": "client:phone",
        "issue_get": "mcp:github",
        "reader": "agent",
    }
    assert list(catalog) == list(sources(collect_catalog(reversed(offers))))
    assert catalog.problems == ()


@pytest.mark.parametrize("source", ["", "core:x", "agent:x", "plugin", "plugin:", "robot:x", "mcp"])
def test_a_source_that_does_not_exist_is_refused(source: str) -> None:
    with pytest.raises(DeclarationError, match=f"no source is called {source!r}; write core, plugin:NAME"):
        Offer(source=source, tools=())


def test_whoever_comes_first_keeps_a_name_and_the_other_is_named() -> None:
    catalog = collect_catalog(
        [
            CORE,
            Offer(source="mcp:files", tools=declared("read", "dice")),
            Offer(source="plugin:shop", tools=declared("dice", "read")),
            Offer(source="plugin:mall", tools=declared("dice")),
        ],
        [Problem("plugins", "found earlier")],
    )
    assert sources(catalog) == {"read": "core", "write": "core", "cron": "core", "dice": "plugin:shop"}
    assert catalog.problems == (
        Problem("plugins", "found earlier"),
        Problem("plugin:shop", "plugin:shop offers a tool 'read', which core has; it was left out"),
        Problem("plugin:mall", "plugin:mall offers a tool 'dice', which plugin:shop has; it was left out"),
        Problem("mcp:files", "mcp:files offers a tool 'read', which core has; it was left out"),
        Problem("mcp:files", "mcp:files offers a tool 'dice', which plugin:shop has; it was left out"),
    )


@pytest.mark.parametrize(
    ("id", "sentence"),
    [
        ("read", "plugin 'read' is called like a core tool; it was left out"),
        ("bash", "plugin 'bash' is called like a core tool; it was left out"),
        ("fs", "plugin 'fs' is called like a group of core tools; it was left out"),
        ("plugins", "plugin 'plugins' is called like a group of core tools; it was left out"),
        ("Shop", "plugin 'Shop': an id is 1 to 64 of a-z, 0-9, _ and -; write 'shop'; it was left out"),
        ("my shop", "plugin 'my shop': an id is 1 to 64 of a-z, 0-9, _ and -; it was left out"),
        ("shоp", "plugin 'shоp': an id is 1 to 64 of a-z, 0-9, _ and -; it was left out"),  # a Cyrillic o
    ],
)
def test_a_plugin_whose_id_could_mean_something_else_in_a_rule_is_left_out(id: str, sentence: str) -> None:
    catalog = collect_catalog([Offer(source=f"plugin:{id}", tools=declared("dice")), CORE])
    assert "dice" not in catalog
    assert catalog.problems == (Problem(f"plugin:{id}", sentence),)


def test_a_plugin_may_be_called_like_its_own_tool() -> None:
    catalog = collect_catalog([Offer(source="plugin:dice", tools=declared("dice"))])
    assert (sources(catalog), catalog.problems) == ({"dice": "plugin:dice"}, ())


def nothing(config: Mapping[str, Any]) -> None:
    return None


def one(config: Mapping[str, Any]) -> Tool:
    return declared(f"d{config['sides']}")[0]


def several(config: Mapping[str, Any]) -> list[Tool]:
    return list(declared("coin", "card"))


def lazily(config: Mapping[str, Any]) -> Iterable[Tool]:
    yield from declared("wheel")


def raising(config: Mapping[str, Any]) -> Tool:
    raise ValueError("no luck\nand a second line")


def leaving(config: Mapping[str, Any]) -> Tool:
    raise SystemExit("bye")


def raising_late(config: Mapping[str, Any]) -> Iterable[Tool]:
    yield from declared("top")
    raise ValueError("too late")


def stray(config: Mapping[str, Any]) -> Any:
    return ["coin"]


def number(config: Mapping[str, Any]) -> Any:
    return 5


@pytest.mark.parametrize(
    ("factory", "tools", "sentences"),
    [
        (nothing, [], []),
        (one, ["d6"], []),
        (several, ["coin", "card"], []),
        (lazily, ["wheel"], []),
        (raising, [], ["plugin:shop: raising raised ValueError: no luck; it was left out"]),
        (leaving, [], ["plugin:shop: leaving raised SystemExit: bye; it was left out"]),
        (raising_late, [], ["plugin:shop: raising_late raised ValueError: too late; it was left out"]),
        (stray, [], ["plugin:shop: stray made a str, which is no Tool; it was left out"]),
        (number, [], ["plugin:shop: number raised TypeError: 'int' object is not iterable; it was left out"]),
    ],
)
def test_a_factory_makes_what_it_makes_and_takes_nobody_down(
    factory: Any, tools: list[str], sentences: list[str]
) -> None:
    offer = Offer(source="plugin:shop", tools=(factory, *declared("hat")), config={"sides": 6})
    catalog = collect_catalog([offer])
    assert sources(catalog) == dict.fromkeys([*tools, "hat"], "plugin:shop")
    assert catalog.problems == tuple(Problem("plugin:shop", sentence) for sentence in sentences)


def test_groups_come_from_what_the_tools_say_about_themselves() -> None:
    catalog = collect_catalog(
        [
            CORE,
            Offer(source="core", tools=(*declared("agents_list"), *declared("exec", group="runtime"))),
            Offer(source="plugin:shop", tools=(*declared("dice"), *declared("shelf", group="goods"))),
            Offer(source="channel:irc", tools=declared("irc_op")),
            Offer(source="agent", tools=declared("reader")),
        ]
    )
    assert catalog.groups == {
        "group:plugins": {"dice", "shelf"},
        "group:fs": {"read", "write"},
        "group:goods": {"shelf"},
        "group:automation": {"cron"},
        "group:openclaw": {"cron", "agents_list"},
        "group:runtime": {"exec"},
        "shop": {"dice", "shelf"},
        "group:agents": {"reader"},
    }


@pytest.mark.parametrize("group", ["fs", "automation", "plugins", "openclaw", "mcp", "agents"])
def test_a_plugin_cannot_put_its_tool_into_a_core_group(group: str) -> None:
    tools = (*declared("dice"), *declared("shelf", group=group))
    made = Offer(source="plugin:mall", tools=(lambda config: declared("card", group=group),))
    catalog = collect_catalog([CORE, Offer(source="plugin:shop", tools=tools), made])
    assert sorted(catalog) == ["cron", "dice", "read", "write"]
    sentence = f"names the core group {group!r} as its own; it was left out"
    assert catalog.problems == (
        Problem("plugin:shop", f"plugin:shop: 'shelf' {sentence}"),
        Problem("plugin:mall", f"plugin:mall: 'card' {sentence}"),
    )


@pytest.mark.parametrize("source", ["plugin:shop", "channel:irc", "client:phone", "mcp:wiki", "agent"])
@pytest.mark.parametrize("group", ["openclaw", "plugins", "mcp", "agents"])
def test_nobody_joins_a_group_that_is_made_of_where_tools_come_from_by_naming_it(source: str, group: str) -> None:
    catalog = collect_catalog([CORE, Offer(source=source, tools=declared("stray", group=group))])
    assert "stray" not in catalog
    (problem,) = catalog.problems
    assert f"'stray' names the core group {group!r} as its own; it was left out" in problem.sentence


def test_the_group_of_the_platform_holds_no_tool_of_a_channel() -> None:
    channels = [Offer(source=f"channel:{name}", tools=tools) for name, tools in CHANNEL_TOOLS.items()]
    catalog = collect_catalog([Offer(source="core", tools=SHELF), *channels])
    theirs = {tool.name for offer in channels for tool in offer.tools if isinstance(tool, Tool)}
    assert theirs <= set(catalog)
    assert not theirs & catalog.groups["group:openclaw"]


def test_the_group_of_plugins_exists_without_plugins() -> None:
    assert groups_of(()) == {"group:plugins": frozenset()}


def test_the_groups_of_the_shelf_are_those_of_the_documents() -> None:
    groups = collect_catalog([Offer(source="core", tools=SHELF)]).groups
    assert {name: members for name, members in groups.items() if members} == {
        "group:fs": {"read", "write", "edit", "apply_patch", "grep", "find", "ls"},
        "group:runtime": {"exec", "process"},
        "group:web": {"web_search", "web_fetch"},
        "group:memory": {"memory_search", "memory_get"},
        "group:sessions": {
            "sessions_list", "sessions_history", "sessions_send", "sessions_spawn", "session_status", "subagents",
            "result_get",
        },
        "group:messaging": {"message"},
        "group:ui": {"browser", "canvas"},
        "group:automation": {"cron", "gateway"},
        "group:nodes": {"nodes"},
        "group:media": {"image", "tts"},
        "group:openclaw": {
            "web_search", "web_fetch", "memory_search", "memory_get", "sessions_list", "sessions_history",
            "sessions_send", "sessions_spawn", "session_status", "subagents", "result_get", "message", "browser",
            "canvas", "cron", "gateway", "nodes", "image", "tts", "agents_list",
        },
    }  # fmt: skip


def test_what_only_the_owner_sees_is_what_the_documents_say() -> None:
    every = [*SHELF, *(tool for tools in CHANNEL_TOOLS.values() for tool in tools)]
    assert sorted(tool.name for tool in every if tool.owner_only) == ["gateway", "whatsapp_login"]


def test_a_snapshot_never_changes() -> None:
    tools = {tool.name: tool for tool in declared("read")}
    catalog: Any = Catalog(tools)
    tools["exec"] = declared("exec")[0]
    assert list(catalog) == ["read"]
    for change in (
        lambda: catalog.tools.__setitem__("exec", tools["exec"]),
        lambda: catalog.groups.__setitem__("group:fs", ("exec",)),
        lambda: setattr(catalog, "tools", tools),
        lambda: setattr(catalog, "groups", {}),
        lambda: setattr(catalog, "problems", ()),
        lambda: setattr(catalog, "new", 1),
    ):
        with pytest.raises((AttributeError, TypeError)):
            change()


def test_a_catalog_is_a_mapping_that_equals_only_itself() -> None:
    first, second = collect_catalog([CORE]), collect_catalog([CORE])
    assert (len(first), "read" in first, "exec" in first, first["read"].group) == (3, True, False, "fs")
    assert first == first
    assert first != second
    assert len({first, second}) == 2
