"""Belts: catalog, settings and caller to a belt, made once for each caller."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from toolcrib.agent.belt import Belts, policy_snapshot, settings_from
from toolcrib.define.caller import OWNER, Caller, Sender
from toolcrib.define.channel import Abilities
from toolcrib.define.errors import DeclarationError
from toolcrib.define.schema.annotations import Schema
from toolcrib.define.tool import Tool, tool
from toolcrib.policy.settings import Guests, PolicySettings, ToolsSettings
from toolcrib.registry.sources import Offer, collect_catalog


def only_text(schema: Schema, caller: Caller, channels: Mapping[str, Abilities]) -> Schema:
    shown = [caller.channel] if caller.channel else channels
    has_buttons = any(channels[name].buttons for name in shown if name in channels)
    kept = {name: inner for name, inner in schema["properties"].items() if name == "text" or has_buttons}
    return {**schema, "properties": kept}


@tool(group="messaging", effects={"send"}, narrow=only_text)
def message(text: str, buttons: list[str] | None = None) -> str:
    """Send a message."""
    return f"{text} {buttons}"


CATALOG = collect_catalog(
    [
        Offer(
            source="core",
            tools=(
                Tool.declared("read", "Read.", group="fs", effects={"read"}),
                Tool.declared("exec", "Run.", group="runtime"),
                Tool.declared("apply_patch", "Patch.", group="fs", effects={"write"}, requires=("model:openai",)),
                Tool.declared("browser", "Browse.", group="ui", requires=("setting:browser",)),
                Tool.declared("gateway", "Look after the gateway.", owner_only=True),
                message,
            ),
        )
    ]
)


def belts(
    channels: Sequence[str] = (), host: frozenset[str] = frozenset(), guests: Guests = "messaging", **tools: Any
) -> Belts:
    settings = PolicySettings(tools=ToolsSettings.model_validate(tools), guests=guests)
    can = {name: Abilities(buttons=name == "telegram") for name in channels}
    return Belts(CATALOG, settings, channels=can, host=host)


def names(belts: Belts, caller: Caller, *extra: Tool) -> list[str]:
    return list(belts.belt_for(caller, extra).tools)


def test_a_belt_holds_what_policy_leaves_and_a_verdict_on_everything() -> None:
    belt = belts(deny=["exec"]).belt_for(OWNER)
    assert list(belt.tools) == ["read", "gateway", "message"]
    assert {name: verdict.decision for name, verdict in belt.verdicts.items()} == {
        "read": "allow",
        "exec": "deny",
        "apply_patch": "deny",
        "browser": "deny",
        "gateway": "allow",
        "message": "allow",
    }


@pytest.mark.parametrize(
    ("caller", "host", "has", "lacks"),
    [
        (OWNER, frozenset(), "gateway", "browser"),
        (Caller(channel="irc", group="#shop", sender=Sender(id="7")), frozenset(), "read", "gateway"),
        (Caller(), frozenset({"setting:browser"}), "browser", "apply_patch"),
        (Caller(provider="openai"), frozenset(), "apply_patch", "browser"),
        (Caller(provider="azure-openai"), frozenset(), "apply_patch", "browser"),
        (Caller(provider="anthropic"), frozenset(), "read", "apply_patch"),
    ],
)
def test_the_caller_and_the_host_decide_what_is_met(caller: Caller, host: frozenset[str], has: str, lacks: str) -> None:
    found = names(belts(host=host, guests="full"), caller)
    assert has in found
    assert lacks not in found


@pytest.mark.parametrize(
    ("then", "direct", "group"),
    [
        ({}, "allow", "allow"),  # there was no default for guests
        ({"boundsGuests": False}, "allow", "allow"),
        ({"boundsGuests": True}, "deny", "allow"),  # it was for direct messages alone
        ({"boundsGuests": "everywhere", "guests": "messaging"}, "deny", "deny"),
        ({"boundsGuests": "everywhere", "guests": ["messaging", "read"]}, "allow", "allow"),
    ],
)
def test_what_is_on_record_follows_from_the_default_for_guests_that_held_then(
    then: dict[str, Any], direct: str, group: str
) -> None:
    told = policy_snapshot(CATALOG, PolicySettings(), frozenset())["settings"]
    kept = {name: value for name, value in told.items() if name not in ("boundsGuests", "guests")}
    again = Belts(CATALOG, settings_from({**kept, **then}))
    writes = Caller(channel="irc", sender=Sender(id="7"))
    found = [again.belt_for(each).verdicts["read"].decision for each in (writes, replace(writes, group="#shop"), OWNER)]
    assert found == [direct, group, "allow"]


@pytest.mark.parametrize(
    ("caller", "channels", "parameters"),
    [
        (Caller(channel="telegram"), ("telegram",), ["text", "buttons"]),
        (Caller(channel="telegram"), (), ["text"]),
        (Caller(channel="irc"), ("telegram",), ["text"]),
        (Caller(), ("irc", "telegram"), ["text", "buttons"]),
        (Caller(), ("irc",), ["text"]),
    ],
)
def test_a_tool_is_narrowed_to_the_channel_or_to_all_configured(
    caller: Caller, channels: Sequence[str], parameters: list[str]
) -> None:
    narrowed = belts(channels).belt_for(caller).tools["message"]
    assert list(narrowed.parameters["properties"]) == parameters


def test_a_belt_is_made_once_for_a_caller_and_its_tools() -> None:
    made = belts()
    extra = (Tool.declared("mine", "Mine."),)
    assert made.belt_for(Caller(agent="a")) is made.belt_for(Caller(agent="a"))
    assert made.belt_for(Caller(agent="a")) is not made.belt_for(Caller(agent="b"))
    assert made.belt_for(Caller(), extra) is made.belt_for(Caller(), extra)
    assert made.belt_for(Caller(), extra) is not made.belt_for(Caller())


def test_only_so_many_belts_are_remembered() -> None:
    made = belts()
    first = made.belt_for(Caller(agent="a0"))
    for number in range(1, 1025):
        made.belt_for(Caller(agent=f"a{number}"))
    assert made._belt_for.cache_info().currsize == 1024
    assert made.belt_for(Caller(agent="a0")) is not first


def test_only_so_many_widened_catalogs_are_remembered() -> None:
    made = belts()
    for _ in range(1100):
        made.catalog_with((Tool.declared("mine", "Mine."),))
    assert made._catalog_with.cache_info().currsize <= 1024
    assert made.catalog_with(()) is CATALOG


def test_a_belt_cannot_be_changed_by_who_holds_it() -> None:
    belt: Any = belts().belt_for(Caller())
    with pytest.raises(TypeError):
        belt.tools["exec"] = message


def test_the_programs_own_tools_are_judged_like_any_other() -> None:
    mine = Tool.declared("mine", "Mine.", effects={"network"})
    assert names(belts(), Caller(), mine)[-1] == "mine"
    assert "mine" not in names(belts(deny=["mine"]), Caller(), mine)
    assert "mine" not in names(belts(deny=["effect:network"]), Caller(), mine)
    assert "mine" not in names(belts(profile="minimal"), Caller(), mine)


def test_the_programs_own_tools_are_marked_as_such() -> None:
    made = belts()
    mine, theirs = Tool.declared("mine", "Mine."), replace(Tool.declared("theirs", "Theirs."), source="mcp:x")
    catalog = made.catalog_with((mine, theirs))
    assert (catalog["mine"].source, catalog["theirs"].source) == ("client:program", "mcp:x")


@pytest.mark.parametrize(
    ("extra", "complaint"),
    [
        ((Tool.declared("exec", "Mine."),), "there is a tool 'exec' from core already"),
        (
            (Tool.declared("mine", "Mine."), Tool.declared("mine", "Mine too.")),
            "there is a tool 'mine' from client:program already",
        ),
    ],
)
def test_a_name_that_is_taken_is_refused(extra: tuple[Tool, ...], complaint: str) -> None:
    with pytest.raises(DeclarationError, match=f"^{complaint}$"):
        belts().belt_for(Caller(), extra)
