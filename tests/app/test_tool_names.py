"""What tools are called: other names that mean the same tool, renamed plugins, titles, names of Claude Code."""

import json
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from toolcrib import ConfigError, Ctx, PluginError, Result, tool
from toolcrib.adapter import mcp
from toolcrib.adapter.cards import target_for
from toolcrib.app import Crib
from toolcrib.define.names import ALIASES
from toolcrib.define.plugin import Hook, Plugin
from toolcrib.events import ToolStarted
from toolcrib.hooks import Block
from toolcrib.registry.sources import Offer, rename_tools

pytestmark = pytest.mark.anyio


@tool(effects={"send"}, label="Order from the shop")
async def order(ctx: Ctx, item: str) -> str:
    """Order one item."""
    return f"{ctx.call.name}: {item}"


@tool(effects={"read"})
async def orders() -> str:
    """List what was ordered."""
    return "none"


def crib_of(aliases: dict[str, str], **tools: Any) -> Crib:
    return toolcrib.open({"tools": {"aliases": aliases, **tools}}, tools=[order, orders], env={})


@pytest.mark.parametrize("name", ["buy", "BUY", " buy ", "ｂｕｙ"])
async def test_a_call_by_another_name_is_the_tools_own_call(name: str) -> None:
    crib = crib_of({"buy": "order"})
    seen: list[Any] = []
    result = await crib.belt(toolcrib.OWNER).watched_by(seen.append).call(name, {"item": "nut"})
    assert result.plain_text == "order: nut"
    assert seen[0].verdict.tool == "order"


@pytest.mark.parametrize(
    ("rules", "status"),
    [
        ({"deny": ["order"]}, "error"),
        ({"deny": ["buy"]}, "error"),
        ({"deny": ["effect:send"]}, "error"),
        ({"ask": ["order"]}, "error"),
        ({"allow": ["orders"]}, "error"),
        ({"allow": ["order"]}, "ok"),
        ({"allow": ["buy"]}, "ok"),
        ({"deny": ["orders"]}, "ok"),
    ],
)
async def test_a_rule_about_either_name_is_about_the_tool(rules: dict[str, Any], status: str) -> None:
    belt = crib_of({"buy": "order"}, **rules).belt(toolcrib.OWNER)
    assert (await belt.call("buy", {"item": "nut"})).status == status
    assert (await belt.call("order", {"item": "nut"})).status == status


async def test_guards_and_the_record_know_the_own_name_alone() -> None:
    heard: list[str] = []

    async def guard(ctx: Ctx, args: Any) -> Block | None:
        heard.append(ctx.call.name)
        return Block("not today") if args["item"] == "bolt" else None

    hook = Hook(run=guard, tools=frozenset({"order"}))
    crib = toolcrib.open(
        {"tools": {"aliases": {"buy": "order"}}}, tools=[order], plugins=[Plugin(name="shop", before=(hook,))], env={}
    )
    belt = crib.belt(toolcrib.OWNER)
    assert (await belt.call("buy", {"item": "bolt"})).details["tool"] == "order"
    assert (await belt.call("buy", {"item": "nut"})).status == "ok"
    assert heard == ["order", "order"]


@pytest.mark.parametrize(
    ("aliases", "complaint"),
    [
        ({"read": "order"}, "'read' is a name of its own"),
        ({"buy": "oder"}, "'buy' stands for 'oder', which is no tool; did you mean 'order'?"),
        ({"buy": "order", "get": "buy"}, "'get' stands for 'buy', which is no tool"),
    ],
)
async def test_another_name_that_means_something_else_is_left_out_and_told(
    aliases: dict[str, str], complaint: str
) -> None:
    crib = crib_of(aliases)
    assert complaint in " ".join(each.message for each in crib.lint() if each.kind == "collision")
    unknown = next(reversed(aliases))
    assert (await crib.belt(toolcrib.OWNER).call(unknown, {"item": "nut"})).status == "error"


def test_a_plugins_id_is_no_other_name_so_that_its_list_stays_its_own() -> None:
    crib = toolcrib.open(
        {"tools": {"aliases": {"shop": "exec"}, "allow": ["shop"]}},
        plugins=[Plugin(name="shop", tools=(order,))],
        env={},
    )
    assert "exec" not in crib.belt(toolcrib.OWNER).tools


@pytest.mark.parametrize("alias", ["Buy", "b y", "bash", "a" * 65, "group:fs"])
def test_what_cannot_be_a_name_is_refused_in_the_configuration(alias: str) -> None:
    with pytest.raises(ConfigError, match="is no name of a tool"):
        crib_of({alias: "order"})


@pytest.mark.parametrize("name", ["ordr", "order_", "0rder", "orders_", "order-s", "exe", "reed", "wirte", "bahs"])
async def test_a_near_name_is_never_taken_for_a_tool(name: str) -> None:
    belt = crib_of({"buy": "order"}).belt(toolcrib.OWNER)
    result = await belt.call(name, {"item": "nut"})
    assert (result.status, result.details["code"]) == ("error", "not_found")


def test_our_own_other_spellings_lead_to_one_tool_each() -> None:
    verdicts = toolcrib.open({}, env={}).belt(toolcrib.OWNER).selection
    assert {other: verdicts.find(other) for other in ALIASES} == dict(ALIASES)


async def test_a_recorded_call_by_another_name_can_be_judged_again(tmp_path: Path) -> None:
    settings = {"tools": {"aliases": {"buy": "order"}, "deny": ["buy"]}}
    async with toolcrib.open(settings, tools=[order], state=tmp_path, env={}) as crib:
        await crib.belt(toolcrib.OWNER).call("buy", {"item": "nut"})
        report = await crib.ask("audit.verify", {"replay": True}, caller=toolcrib.OWNER)
    assert (report["findings"], report["derived"]) == ((), 1)


# plugins


PLUGIN = """
from toolcrib import Plugin, tool
from toolcrib.hooks import Block, Hook

@tool(effects={"read"})
async def stock(item: str) -> str:
    "Say how many are left."
    return f"12 of {item}"

@tool(effects={"send"})
async def refund(order: str) -> str:
    "Pay money back."
    return f"{order} refunded"

async def never(ctx, args):
    return Block("never")

plugin = Plugin(name="store", tools=(stock, refund), before=(Hook(run=never, tools=frozenset({"refund"})),))
"""
MANIFEST = {
    "id": "store",
    "configSchema": {},
    "tools": [{"name": "stock", "effects": ["read"]}, {"name": "refund", "effects": ["send"]}],
}


def store(folder: Path, tools: dict[str, Any] | None = None, **settings: Any) -> Crib:
    (folder / "store").mkdir(exist_ok=True)
    (folder / "store" / "plugin.py").write_text(PLUGIN)
    (folder / "store" / "toolcrib.plugin.json").write_text(json.dumps(MANIFEST))
    plugins = {"folders": [str(folder)], "store": {"enabled": True, **settings}}
    root = folder / "work"
    root.mkdir(exist_ok=True)
    return toolcrib.open({"plugins": plugins, "tools": tools or {}, "workspace": {"root": str(root)}}, env={})


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"rename": {"stock": "inventory"}}, {"inventory", "refund"}),
        ({"prefix": "shop_"}, {"shop_stock", "shop_refund"}),
        ({"prefix": "shop_", "rename": {"stock": "inventory"}}, {"inventory", "shop_refund"}),
    ],
)
async def test_a_plugins_tools_are_called_as_the_configuration_says(
    tmp_path: Path, settings: dict[str, Any], names: set[str]
) -> None:
    crib = store(tmp_path, **settings)
    belt = crib.belt(toolcrib.OWNER)
    assert {name for name, each in belt.catalog.tools.items() if each.source == "plugin:store"} == names
    new = next(iter(names - {"refund", "shop_refund"}))
    assert (await belt.call(new, {"item": "nut"})).plain_text == "12 of nut"
    assert (await belt.call("stock", {"item": "nut"})).details["code"] == "not_found"


async def test_rules_and_the_plugins_own_guards_are_about_the_new_name(tmp_path: Path) -> None:
    crib = store(tmp_path, {"deny": ["inventory"]}, rename={"stock": "inventory", "refund": "payback"})
    belt = crib.belt(toolcrib.OWNER)
    assert belt.verdicts["inventory"].reason == "deny has 'inventory' (tools)"
    assert "never" in (await belt.call("payback", {"order": "7"})).plain_text


async def test_a_new_name_that_is_taken_is_left_out_and_told(tmp_path: Path) -> None:
    crib = store(tmp_path, rename={"stock": "read", "refund": "payback"})
    assert crib.belt(toolcrib.OWNER).catalog.tools["read"].source == "core"
    assert any("offers a tool 'read'" in each.message for each in crib.lint() if each.kind == "collision")


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"rename": {"stok": "inventory"}}, "it has no tool 'stok'; did you mean 'stock'?"),
        ({"prefix": "p" * 60}, "a name is 1 to 64 of"),
    ],
)
def test_a_new_name_that_cannot_be_is_an_error(tmp_path: Path, settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(PluginError, match=r"plugins\.store") as caught:
        store(tmp_path, **settings)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    "settings", [{"rename": {"stock": "Inventory"}}, {"prefix": "shop."}, {"rename": {"stock": "bash"}}]
)
def test_a_new_name_that_is_none_is_refused_in_the_configuration(tmp_path: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="is no name of a tool"):
        store(tmp_path, **settings)


def test_what_factories_make_is_renamed_too() -> None:
    def make(config: Any, caller: Any) -> Any:
        return order

    offer = rename_tools(Offer(source="plugin:shop", tools=(make, lambda _: [orders])), {"order": "buy"}, "x_")
    names = set(toolcrib.open({}, plugins=[offer], env={}).belt(toolcrib.OWNER).catalog.tools)
    assert {"buy", "x_orders"} <= names
    assert not {"order", "orders"} & names


# titles, and the names that a model knows


async def test_a_title_is_shown_and_is_the_name_where_there_is_none() -> None:
    crib = crib_of({"buy": "order"})
    told = {each["name"]: each for each in (await crib.ask("tools.registered", {}, caller=toolcrib.OWNER))["tools"]}
    assert (told["order"]["label"], told["order"]["aliases"]) == ("Order from the shop", ["buy"])
    assert told["orders"]["label"] == "orders"
    assert [mcp.declare(each)["title"] for each in (order, orders)] == ["Order from the shop", "orders"]
    seen: list[Any] = []
    belt = crib.belt(toolcrib.OWNER).watched_by(seen.append)
    await belt.call("order", {"item": "nut"})
    await belt.call("orders")
    assert [each.label for each in seen if isinstance(each, ToolStarted)] == ["Order from the shop", ""]


@pytest.mark.parametrize(
    ("names", "is_theirs"), [({}, False), ({"names": "own"}, False), ({"names": "claude-code"}, True)]
)
def test_a_model_is_shown_the_names_of_claude_code_where_the_configuration_says_so(
    names: dict[str, str], is_theirs: bool
) -> None:
    card = toolcrib.open({"tools": names}, env={}).models.card("anthropic", "claude-sonnet-4-5")
    assert target_for("anthropic", card.model, card, api="anthropic").claude_code is is_theirs


@pytest.mark.parametrize(
    ("secrets", "has_it"), [({"SHOP_KEY": "s3cret"}, True), ({"OTHER": "s3cret"}, False), ({}, False)]
)
async def test_a_tool_that_needs_a_secret_is_there_when_it_is_set(secrets: dict[str, str], has_it: bool) -> None:
    @tool(effects={"network"}, requires=("secret:SHOP_KEY",))
    async def ship() -> Result:
        """Ship."""
        return Result.text("shipped")

    belt = toolcrib.open({"secrets": secrets}, tools=[ship], env={}).belt(toolcrib.OWNER)
    assert ("ship" in belt.tools) is has_it
    assert (await belt.call("ship")).status == ("ok" if has_it else "error")
