"""Plugins: found without being imported, judged by their manifest, reported in one sentence when they are broken."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from toolcrib.backends.plugins import MANIFEST, FoundPlugin, find_plugins, pick, read_manifest
from toolcrib.define.errors import PluginError
from toolcrib.define.tool import EFFECTS, Tool
from toolcrib.registry import Offer, collect_catalog

DICE = {"name": "dice", "description": "Roll.", "effects": []}
SHOP = {"id": "shop", "configSchema": {}, "tools": [DICE]}
SOURCE = """
    from toolcrib import Plugin, tool

    @tool(effects=frozenset())
    def dice(sides: int = 6) -> int:
        "Roll."
        return sides

    plugin = Plugin(name="shop", tools=(dice,))
"""


def make(folder: Path, manifest: Any = SHOP, source: str = SOURCE, main: str = "plugin.py") -> Path:
    """Write a plugin folder and return it."""
    folder.mkdir(parents=True)
    text = manifest if isinstance(manifest, str) else json.dumps(manifest)
    (folder / MANIFEST).write_text(text, encoding="utf-8")
    (folder / main).write_text(dedent(source), encoding="utf-8")
    return folder


def found_in(*folders: Path) -> dict[str, FoundPlugin]:
    found, broken = find_plugins(folders)
    assert broken == []
    return found


def made(plugin: FoundPlugin, config: dict[str, Any] | None = None) -> list[Tool]:
    """Return the tools of a loaded plugin, factories called."""
    catalog = collect_catalog([Offer(source="plugin:shop", tools=plugin.load().tools, config=config or {})])
    for problem in catalog.problems:
        raise PluginError(problem.sentence)
    return list(catalog.values())


def complaint(act: Callable[[], object]) -> str:
    with pytest.raises(PluginError) as raised:
        act()
    assert len(str(raised.value).splitlines()) == 1
    return str(raised.value)


def test_a_folder_is_a_plugin_or_holds_plugins(tmp_path: Path) -> None:
    make(tmp_path / "many" / "shop")
    make(tmp_path / "many" / "mall", {**SHOP, "id": "mall"})
    (tmp_path / "many" / "notes").mkdir()
    (tmp_path / "many" / "readme.txt").touch()
    make(tmp_path / "single", {**SHOP, "id": "kiosk"})
    assert list(found_in(tmp_path / "many", tmp_path / "single")) == ["mall", "shop", "kiosk"]


def test_finding_and_judging_import_nothing(tmp_path: Path) -> None:
    plugin = found_in(make(tmp_path / "shop", source="raise RuntimeError('imported')"))["shop"]
    (dice,) = plugin.declare_tools()
    assert isinstance(dice, Tool)
    assert (dice.name, dice.effects, dice.has_body) == ("dice", frozenset(), False)


@pytest.mark.parametrize(
    ("declared", "fields"),
    [
        ({"name": "t"}, ("t", "", None, EFFECTS, False, False, ())),
        (
            {"name": "t", "description": "T.", "group": "fun", "effects": ["read"], "optional": True, "ownerOnly": True,
             "requires": ["browser"]},
            ("t", "T.", "fun", frozenset({"read"}), True, True, ("browser",)),
        ),
    ],
)  # fmt: skip
def test_a_declared_tool_says_all_that_policy_needs(tmp_path: Path, declared: Any, fields: tuple[Any, ...]) -> None:
    plugin = found_in(make(tmp_path / "shop", {**SHOP, "tools": [declared]}))["shop"]
    (t,) = plugin.declare_tools()
    assert isinstance(t, Tool)
    assert (t.name, t.description, t.group, t.effects, t.optional, t.owner_only, t.requires) == fields


def test_a_plugin_that_declares_no_tools_is_loaded_to_learn_them(tmp_path: Path) -> None:
    plugin = found_in(make(tmp_path / "shop", {"id": "shop", "configSchema": {}}))["shop"]
    (dice,) = plugin.declare_tools()
    assert isinstance(dice, Tool)
    assert dice.has_body


def test_a_manifest_may_spell_a_name_otherwise(tmp_path: Path) -> None:
    plugin = found_in(make(tmp_path / "shop", {**SHOP, "tools": [{**DICE, "name": " Dice"}]}))["shop"]
    assert [tool.name for tool in made(plugin)] == ["dice"]


def test_a_loaded_plugin_brings_its_tools(tmp_path: Path) -> None:
    plugin = found_in(make(tmp_path / "shop"))["shop"]
    assert [(tool.name, tool.has_body) for tool in made(plugin)] == [("dice", True)]


def test_main_may_be_called_otherwise_and_have_neighbours(tmp_path: Path) -> None:
    folder = make(tmp_path / "shop", {**SHOP, "main": "start.py"}, "from .inner import plugin", "start.py")
    (folder / "inner.py").write_text(dedent(SOURCE), encoding="utf-8")
    assert [tool.name for tool in made(found_in(folder)["shop"])] == ["dice"]


FOREIGN = "openclaw.plugin.json"


def foreign(folder: Path, **manifest: Any) -> Path:
    """Write the folder of a plugin as OpenClaw has it."""
    folder.mkdir(parents=True)
    (folder / FOREIGN).write_text(json.dumps({"id": folder.name, "configSchema": {}, **manifest}), encoding="utf-8")
    (folder / "index.ts").write_text("export default function register(api) {}", encoding="utf-8")
    return folder


def test_a_manifest_of_openclaw_is_read_and_its_code_is_not_run(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"port": {"type": "integer"}}, "required": ["port"]}
    folder = foreign(
        tmp_path / "voice",
        configSchema=schema,
        name=7,
        kind="memory",
        channels=["irc"],
        providers=[],
        skills=["./skills"],
    )
    plugin = found_in(tmp_path)["voice"]
    assert plugin.manifest is not None
    assert (plugin.where, plugin.manifest.name) == (str(folder / FOREIGN), "")
    plugin.check_config({"port": 1})
    assert "plugins.voice.config" in complaint(lambda: plugin.check_config({}))
    sentence = (
        f"plugin 'voice' ({folder}/{FOREIGN}) is OpenClaw's, and toolcrib runs no JavaScript; turn it off, or put a "
        "plugin.py of its own beside the manifest"
    )
    assert complaint(plugin.load) == complaint(plugin.declare_tools) == sentence


def test_a_plugin_of_ours_may_come_with_the_manifest_of_openclaw(tmp_path: Path) -> None:
    folder = foreign(tmp_path / "shop", tools=[DICE], version=2)
    (folder / "plugin.py").write_text(dedent(SOURCE), encoding="utf-8")
    assert [tool.name for tool in made(found_in(tmp_path)["shop"])] == ["dice"]


def test_where_there_are_two_manifests_ours_counts(tmp_path: Path) -> None:
    make(tmp_path / "shop")
    (tmp_path / "shop" / FOREIGN).write_text('{"id": "theirs", "configSchema": {}}', encoding="utf-8")
    assert list(found_in(tmp_path)) == list(found_in(tmp_path / "shop")) == ["shop"]


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"id": " ", "configSchema": {}}', '{"id": "x", "configSchema": []}']
)
def test_a_broken_manifest_of_openclaw_is_told_in_one_sentence(tmp_path: Path, text: str) -> None:
    folder = foreign(tmp_path / "bad")
    (folder / FOREIGN).write_text(text, encoding="utf-8")
    found, (broken,) = find_plugins([tmp_path])
    assert (found, f"plugin manifest {folder}/{FOREIGN}" in str(broken)) == ({}, True)


FACTORIES = """
    from toolcrib import Plugin, Tool

    def maybe(config):
        return [Tool.declared(name, "Made.", effects=set()) for name in config.get("names", ())] or None

    plugin = Plugin(name="shop", tools=(maybe,))
"""


def test_a_factory_may_bring_what_the_manifest_declares_and_nothing_else(tmp_path: Path) -> None:
    plugin = found_in(make(tmp_path / "shop", source=FACTORIES))["shop"]
    assert made(plugin) == []
    assert [tool.name for tool in made(plugin, {"names": ["dice"]})] == ["dice"]
    said = complaint(lambda: made(plugin, {"names": ["dice", "coin"]}))
    assert said.startswith(
        "plugin:shop: maybe raised PluginError: plugin 'shop' brings a tool 'coin' that its manifest does not declare"
    )


def test_policy_reads_the_same_from_the_manifest_and_from_the_loaded_plugin(tmp_path: Path) -> None:
    declared = {**DICE, "effects": ["read", "network"], "group": "fun", "optional": True, "ownerOnly": True}
    plugin = found_in(make(tmp_path / "shop", {**SHOP, "tools": [{**declared, "requires": ["browser"]}]}))["shop"]

    def judged(tool: Any) -> tuple[Any, ...]:
        return (tool.effects, tool.group, tool.optional, tool.owner_only, tool.requires)

    assert [judged(tool) for tool in made(plugin)] == [judged(tool) for tool in plugin.declare_tools()]


@pytest.mark.parametrize(
    ("options", "unsaid"),
    [
        ("", "effect 'execute'"),
        ("effects={'read'}", "effect 'read'"),
        ("effects=set(), owner_only=True", "ownerOnly"),
        ("effects=set(), optional=True", "optional"),
        ("effects=set(), group='fs'", "group 'fs'"),
        ("effects=set(), requires=('browser',)", "requirement 'browser'"),
    ],
)
def test_a_tool_may_not_have_what_its_manifest_keeps_silent_about(tmp_path: Path, options: str, unsaid: str) -> None:
    folder = make(tmp_path / "shop", source=SOURCE.replace("effects=frozenset()", options))
    assert complaint(found_in(folder)["shop"].load) == (
        f"plugin 'shop': the tool 'dice' has {unsaid}, and its manifest does not say so; add it in {folder / MANIFEST}"
    )


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("raise ValueError('no\\nluck')", "plugin 'shop' raised ValueError while it was loaded: no"),
        ("raise ValueError", "plugin 'shop' raised ValueError while it was loaded: it did not say why"),
        ("import sys; sys.exit(3)", "plugin 'shop' raised SystemExit while it was loaded: 3"),
        ("import nowhere_at_all", "plugin 'shop' raised ModuleNotFoundError while it was loaded: No module named"),
        ("def (", "plugin 'shop' raised SyntaxError while it was loaded: invalid syntax"),
        ("", "plugin 'shop' must have a `plugin = Plugin(...)`; what is there is NoneType"),
        ("plugin = 5", "plugin 'shop' must have a `plugin = Plugin(...)`; what is there is int"),
        ("from toolcrib import Plugin; plugin = Plugin(name='mall')", "plugin 'shop' ({path}) calls itself 'mall'"),
        (SOURCE.replace("dice", "coin"), "plugin 'shop' brings a tool 'coin' that its manifest does not declare; add"),
        ("from toolcrib import tool\n@tool\ndef x(a: int | str): 'X.'", "plugin 'shop' raised DeclarationError while"),
    ],
)
def test_a_plugin_that_cannot_be_loaded_says_why_in_one_sentence(tmp_path: Path, source: str, sentence: str) -> None:
    folder = make(tmp_path / "shop", source=source)
    said = complaint(found_in(folder)["shop"].load)
    assert said.startswith(sentence.format(path=folder / MANIFEST))


def test_a_plugin_that_raised_leaves_no_half_made_module(tmp_path: Path) -> None:
    folder = make(tmp_path / "half", {**SHOP, "id": "half-made"}, "raise ValueError")
    complaint(found_in(folder)["half-made"].load)
    assert "toolcrib_plugin_half_made" not in sys.modules


def test_a_plugin_without_its_main_file_is_told(tmp_path: Path) -> None:
    folder = make(tmp_path / "shop")
    (folder / "plugin.py").unlink()
    said = complaint(found_in(folder)["shop"].load)
    assert said == f"plugin 'shop': {folder / 'plugin.py'} is no Python file; `main` in its manifest names it"


@pytest.mark.parametrize(
    ("manifest", "sentence"),
    [
        ("{", "plugin manifest {path}:1 is no JSON: "),
        ("[]", "plugin manifest {path} must be an object"),
        ({"configSchema": {}}, "plugin manifest {path} requires id"),
        ({"id": " ", "configSchema": {}}, "plugin manifest {path} requires id"),
        ({"id": 5, "configSchema": {}}, "plugin manifest {path} requires id"),
        ({"id": "shop"}, "plugin manifest {path} requires configSchema"),
        ({"id": "shop", "configSchema": []}, "plugin manifest {path} requires configSchema"),
        ({**SHOP, "tools": "dice"}, "plugin manifest {path}: tools: Input should be a valid tuple"),
        ({**SHOP, "tools": [{}]}, "plugin manifest {path}: tools.0.name: Field required"),
        ({**SHOP, "tools": [{"name": "di ce"}]}, "plugin manifest {path}: tool 'di ce': a name is 1 to 64 of"),
        ({**SHOP, "tools": [{**DICE, "effects": ["luck"]}]}, "plugin manifest {path}: tools.0.effects.0: Input"),
        ({**SHOP, "tools": [{**DICE, "group": "A B"}]}, "plugin manifest {path}: tool dice: group 'A B' is not"),
        ({**SHOP, "main": "../x.py"}, "plugin 'shop': main leads out of its folder (../x.py)"),
        ({**SHOP, "main": "/etc/passwd"}, "plugin 'shop': main leads out of its folder (/etc/passwd)"),
        (" " * (1 << 20) + "{}", "plugin manifest {path} is larger than 1 MiB"),
    ],
)  # fmt: skip
def test_a_bad_manifest_is_reported_and_the_others_are_found(tmp_path: Path, manifest: Any, sentence: str) -> None:
    bad = make(tmp_path / "bad", manifest)
    make(tmp_path / "good", {**SHOP, "id": "good"})
    found, broken = find_plugins([tmp_path])
    assert list(found) == ["good"]
    (error,) = broken
    assert str(error).startswith(sentence.format(path=bad / MANIFEST))
    assert len(str(error).splitlines()) == 1


def test_a_manifest_that_is_not_there_is_told(tmp_path: Path) -> None:
    said = complaint(lambda: read_manifest(tmp_path / MANIFEST))
    assert said == f"plugin manifest not found: {tmp_path / MANIFEST} (No such file or directory)"


def test_a_folder_that_is_not_there_is_reported(tmp_path: Path) -> None:
    found, broken = find_plugins([tmp_path / "nowhere"])
    assert (found, [str(error) for error in broken]) == ({}, [f"plugins.folders: {tmp_path / 'nowhere'} is no folder"])


def test_of_two_plugins_with_one_id_the_first_counts(tmp_path: Path) -> None:
    first, second = make(tmp_path / "a"), make(tmp_path / "b")
    found, broken = find_plugins([first, second])
    assert found["shop"].where == str(first / MANIFEST)
    assert [str(error) for error in broken] == [
        f"there are two plugins 'shop': {first / MANIFEST} counts, {second / MANIFEST} does not"
    ]


def test_only_wanted_plugins_are_picked_and_a_missing_one_is_named(tmp_path: Path) -> None:
    make(tmp_path / "shop")
    make(tmp_path / "mall", {**SHOP, "id": "mall"})
    found = found_in(tmp_path)
    assert [plugin.id for plugin in pick(found, ["shop"])] == ["shop"]
    assert complaint(lambda: pick(found, ["shopp"])) == (
        "plugins.shopp: no plugin of that name is here; did you mean 'shop'?"
    )
    assert complaint(lambda: pick({}, ["zzz"])) == (
        "plugins.zzz: no plugin of that name is here; install it, or add its folder to plugins.folders"
    )


KEY = {"type": "object", "properties": {"apiKey": {"type": "string", "maxLength": 3}}, "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "config", "sentence"),
    [
        (KEY, {"apiKey": 5}, 'plugins.shop.config.apiKey: the value is not of type "string"; its manifest ({path})'),
        (KEY, {"key": 1}, "plugins.shop.config: Additional properties are not allowed ('key' was unexpected); its"),
        ({"type": "nonsense"}, {}, "plugin manifest {path}: configSchema is no JSON Schema: "),
        ({"$ref": "https://a.test/x"}, {}, "plugin manifest {path}: configSchema is no JSON Schema: Resource 'https://a"),
        ({"$ref": "file:///etc/passwd"}, {}, "plugin manifest {path}: configSchema is no JSON Schema: Resource 'file:"),
    ],
)  # fmt: skip
def test_a_plugins_own_config_is_checked_against_its_manifest(
    tmp_path: Path, schema: Any, config: dict[str, Any], sentence: str
) -> None:
    folder = make(tmp_path / "shop", {**SHOP, "configSchema": schema})
    said = complaint(lambda: found_in(folder)["shop"].check_config(config))
    assert said.startswith(sentence.format(path=folder / MANIFEST))


def test_a_secret_in_a_plugins_config_is_not_repeated(tmp_path: Path) -> None:
    folder = make(tmp_path / "shop", {**SHOP, "configSchema": KEY})
    assert "sk-12345" not in complaint(lambda: found_in(folder)["shop"].check_config({"apiKey": "sk-12345"}))


@pytest.mark.parametrize(("schema", "config"), [({}, {"any": "thing"}), (KEY, {"apiKey": "abc"}), (KEY, {})])
def test_a_config_that_fits_is_taken(tmp_path: Path, schema: Any, config: dict[str, Any]) -> None:
    found_in(make(tmp_path / "shop", {**SHOP, "configSchema": schema}))["shop"].check_config(config)


PROBE = """
    import json, sys
    from toolcrib.backends.plugins import find_plugins
    from toolcrib.define.errors import PluginError

    found, broken = find_plugins([])
    untouched = not any(name.startswith("crib_") for name in sys.modules)
    said = {}
    for id, plugin in found.items():
        try:
            said[id] = [tool.name for tool in plugin.load().tools]
        except PluginError as error:
            said[id] = str(error)
    print(json.dumps({"untouched": untouched, "found": said, "broken": [str(error) for error in broken]}))
"""


def install(site: Path, name: str, points: dict[str, str], files: dict[str, str]) -> None:
    """Put a distribution into `site` as an installer would: its files, its metadata, its record."""
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    lines = "\n".join(f"{point} = {value}" for point, value in points.items())
    files = {
        **files,
        f"{info.name}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info.name}/entry_points.txt": f"[toolcrib.plugins]\n{lines}\n",
    }
    for path, text in files.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(dedent(text), encoding="utf-8")
    (info / "RECORD").write_text("".join(f"{path},,\n" for path in files), encoding="utf-8")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what a fresh Python with five installed plugins says about them."""
    site = tmp_path_factory.mktemp("site")
    coin = SOURCE.replace("dice", "coin")
    install(
        site,
        "crib_shop",
        {"shop": "crib_shop:plugin"},
        {"crib_shop/__init__.py": SOURCE, f"crib_shop/{MANIFEST}": json.dumps(SHOP)},
    )
    install(
        site, "crib_bare", {"bare": "crib_bare:plugin"}, {"crib_bare.py": coin.replace('name="shop"', 'name="bare"')}
    )
    install(
        site,
        "crib_two",
        {"left": "crib_two.left:plugin", "right": "crib_two.right:plugin"},
        {
            "crib_two/__init__.py": "",
            "crib_two/left/__init__.py": SOURCE.replace("shop", "left"),
            "crib_two/right/__init__.py": coin.replace("shop", "right"),
            f"crib_two/left/{MANIFEST}": json.dumps({**SHOP, "id": "left"}),
            f"crib_two/right/{MANIFEST}": json.dumps({**SHOP, "id": "right", "tools": [{**DICE, "name": "coin"}]}),
        },
    )
    install(site, "crib_gone", {"gone": "crib_gone:plugin"}, {})
    install(
        site,
        "crib_misnamed",
        {"misnamed": "crib_misnamed:plugin"},
        {"crib_misnamed/__init__.py": SOURCE, f"crib_misnamed/{MANIFEST}": json.dumps(SHOP)},
    )
    ran = subprocess.run(
        [sys.executable, "-c", dedent(PROBE)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(site), *sys.path])},
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )  # fmt: skip
    said: dict[str, Any] = json.loads(ran.stdout)
    return said


def test_installed_plugins_are_found_by_their_entry_points_without_being_imported(installed: dict[str, Any]) -> None:
    assert installed["untouched"] is True
    assert installed["found"] == {
        "shop": ["dice"],
        "bare": ["coin"],
        "left": ["dice"],
        "right": ["coin"],
        "gone": "plugin 'gone' raised ModuleNotFoundError while it was loaded: No module named 'crib_gone'",
    }


def test_an_installed_plugin_and_its_manifest_have_one_name(installed: dict[str, Any]) -> None:
    (said,) = installed["broken"]
    assert said.startswith("plugin 'misnamed': its manifest ")
    assert said.endswith("calls it 'shop'; give both one name")
