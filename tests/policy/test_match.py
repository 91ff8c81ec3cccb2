"""Entries of a rule against tools."""

import pytest

from toolcrib.define.tool import Effect, Tool
from toolcrib.policy.match import Inventory, complaint_about, matcher_for
from toolcrib.registry.catalog import groups_of


def inventory(**effects: set[Effect] | None) -> Inventory:
    tools = {name: Tool.declared(name, name, effects=effect, group="g") for name, effect in effects.items()}
    return Inventory(tools, groups_of(tools.values()))


SHOP = inventory(read={"read"}, write={"write"}, web_fetch={"network"}, web_search={"network"}, exec=None, think=set())


@pytest.mark.parametrize(
    ("entry", "meant"),
    [
        ("read", {"read"}),
        (" READ ", {"read"}),
        ("ｒｅａｄ", {"read"}),
        ("bash", {"exec"}),
        ("web_*", {"web_fetch", "web_search"}),
        ("*_fetch", {"web_fetch"}),
        ("w*e", {"write"}),
        ("*", {"read", "write", "web_fetch", "web_search", "exec", "think"}),
        ("group:g", {"read", "write", "web_fetch", "web_search", "exec", "think"}),
        ("group:nothing", set()),
        ("effect:write", {"write", "exec"}),
        ("effect:network", {"web_fetch", "web_search", "exec"}),
        ("rea", set()),
        ("read\u200b", set()),
    ],
)
def test_an_entry_means_these_tools_in_a_deny_list(entry: str, meant: set[str]) -> None:
    assert matcher_for((entry,), SHOP).select(frozenset(SHOP.tools)) == meant


@pytest.mark.parametrize(
    ("entries", "permitted"),
    [
        (["effect:read"], {"read", "think"}),
        (["effect:read", "effect:write"], {"read", "write", "think"}),
        (["effect:execute"], {"think"}),
        (["effect:network", "exec"], {"web_fetch", "web_search", "exec", "think"}),
        (["effect:read", "effect:write", "effect:execute", "effect:network", "effect:send"], set(SHOP.tools)),
    ],
)
def test_an_effect_in_an_allow_list_permits_only_tools_it_covers_whole(entries: list[str], permitted: set[str]) -> None:
    assert matcher_for(tuple(entries), SHOP, permits=True).select(frozenset(SHOP.tools)) == permitted


def test_the_entry_that_matched_is_told_as_it_was_written() -> None:
    matcher = matcher_for(("Web_*", " Bash "), SHOP)
    assert matcher.entry_for("web_fetch") == "Web_*"
    assert matcher.entry_for("exec") == " Bash "
    assert matcher.entry_for("read") is None


def test_denying_exec_by_effect_denies_apply_patch_with_it() -> None:
    shop = inventory(exec={"execute"}, apply_patch={"write"}, write={"write"})
    assert matcher_for(("effect:execute",), shop).select(frozenset(shop.tools)) == {"exec", "apply_patch"}


def test_a_glob_of_many_stars_is_matched_in_no_time() -> None:
    shop = inventory(**{"a" * 64: {"read"}})  # type: ignore[arg-type]
    assert matcher_for(("*a" * 40 + "*b",), shop).select(frozenset(shop.tools)) == set()


@pytest.mark.parametrize(
    ("entry", "word"),
    [
        ("", "blank"),
        ("  ", "blank"),
        ("ex?c", "wildcard"),
        ("a.b", "names are made of"),
        ("group:*", "names no group"),
        ("group:", "names no group"),
        ("effect:wrte", "effect:write"),
        ("effect:", "there are"),
        ("x" * 257, "256"),
        ("exec\u200b", "names are made of"),
        ("exec;read", "names are made of"),
    ],
)
def test_an_entry_that_can_mean_nothing_is_refused_with_a_hint(entry: str, word: str) -> None:
    assert word in (complaint_about(entry) or "")


@pytest.mark.parametrize(
    "entry", ["exec", "EXEC", "apply-patch", "sessions_*", "*", "group:fs", "effect:send", "my-plug"]
)
def test_ordinary_entries_are_fine(entry: str) -> None:
    assert complaint_about(entry) is None
