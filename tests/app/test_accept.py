"""What lies in a workspace is code only as its owner accepted it: programs, plugins and scripts of MCP servers."""

import hashlib
import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.app.test_commands import Asked, run
from tests.backends.mcp.world import LIAR
from tests.commands import printed, said
from tests.doors.world import DICE, plugin_folder

import toolcrib
from toolcrib import OWNER
from toolcrib.app.sources import list_loaded_code
from toolcrib.doors.cli.main import run as toolcrib_cli

pytestmark = pytest.mark.anyio

GRADLEW = "#!/bin/sh\necho building $1 in $(basename $(pwd))\n"
EVIL = "#!/bin/sh\ntouch PWNED\necho evil\n"
ALLOW: dict[str, Any] = {"allow": [["./gradlew", "test"], ["scripts/build.sh"]], "readOnly": []}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "ws"
    for name in ("gradlew", "scripts/build.sh", "sub/gradlew"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        write(root / name, GRADLEW)
    monkeypatch.chdir(root)
    monkeypatch.setenv("TOOLCRIB_STATE", str(tmp_path / "state"))
    return root


def write(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def accept(*paths: str | Path) -> None:
    assert toolcrib_cli(["accept", *map(str, paths)]) == 0


# ---- programs


@pytest.mark.parametrize("shell", ["host", "sandbox"])
async def test_a_program_of_the_workspace_that_a_list_names_runs_once_it_is_accepted(root: Path, shell: str) -> None:
    refused = await run(root, "./gradlew test", {**ALLOW, "host": shell})
    assert refused.details["code"] == "not_approved"
    words = (
        "./gradlew: nobody has accepted it, so it does not run unasked; look at it, then `toolcrib accept ./gradlew`"
    )
    assert words in said(refused)
    accept("./gradlew")
    result = await run(root, "./gradlew test", {**ALLOW, "host": shell})
    words = printed(result) if shell == "host" else said(result)
    assert (result.status, words) == ("ok", "building test in ws")
    write(root / "gradlew", EVIL)
    changed = await run(root, "./gradlew test", {**ALLOW, "host": shell})
    assert "it changed since it was accepted" in said(changed)
    assert "`toolcrib accept ./gradlew`" in said(changed)
    assert not (root / "PWNED").exists()


async def test_nobody_is_asked_where_asking_is_off(root: Path) -> None:
    assert "`toolcrib accept" in said(await run(root, "./gradlew test", {**ALLOW, "ask": "off"}))
    accept("gradlew")
    assert said(await run(root, "./gradlew test", {**ALLOW, "ask": "off"})) == "building test in ws"


@pytest.mark.parametrize(
    ("command", "workdir", "words"),
    [
        ("././gradlew test", ".", "building test in ws"),
        ("sub/../gradlew test", ".", "building test in ws"),
        ("./gradlew test --info", ".", "building test in ws"),
        ("./gradlew test", "sub", "building test in sub"),
        ("./scripts/build.sh x", ".", "building x in ws"),
        ("./gradlew test && ./gradlew test", ".", "building test in ws\nbuilding test in ws"),
        ("./gradlew test | tr a-z A-Z", ".", "BUILDING TEST IN WS"),
    ],
)
async def test_other_spellings_of_what_is_listed_run_as_well(
    root: Path, command: str, workdir: str, words: str
) -> None:
    accept("gradlew")
    result = await run(root, command, {"allow": [*ALLOW["allow"], ["tr"]], "readOnly": []}, workdir=workdir)
    assert (result.status, said(result)) == ("ok", words)


@pytest.mark.parametrize(
    "command",
    [
        "./gradlew publish",
        "./gradlew",
        "gradlew test",
        "./other test",
        "./link test",
        "./cat test",
        "./make test",
        "sh ./gradlew test",
        "./gradlew test; ./other",
        "./gradlew test > ../out",
        "PATH=. ./gradlew test",
        "./out test",
        "./pipe test",
        "./folder test",
    ],
)
async def test_what_no_list_names_or_what_is_no_accepted_file_is_asked_about(root: Path, command: str) -> None:
    accept("gradlew")
    shutil.copy(root / "gradlew", root / "make")
    write(root / "other", EVIL)
    write(root / "cat", EVIL)
    (root / "link").symlink_to("other")
    write(root.parent / "outside", GRADLEW)
    (root / "out").symlink_to("../outside")
    os.mkfifo(root / "pipe", 0o755)
    (root / "folder").mkdir()
    listed = [
        *ALLOW["allow"],
        ["make"],
        ["./make", "all"],
        *([f"./{name}"] for name in ("link", "cat", "out", "pipe", "folder")),
    ]
    result = await run(root, command, {"allow": listed, "readOnly": ["cat"]})
    assert (result.status, result.details["code"]) == ("error", "not_approved"), said(result)
    assert not (root / "PWNED").exists()


async def test_what_runs_is_what_was_accepted_whatever_takes_its_place_before_the_start(root: Path) -> None:
    accept("gradlew", "scripts/build.sh")
    (root / "go").symlink_to("gradlew")
    write(root / "evil", EVIL)

    def turn() -> None:
        (root / "go").unlink()
        (root / "go").symlink_to("evil")

    # `ask: always`: a person looks, and meanwhile the link is turned
    settings = {"allow": [["./go"]], "ask": "always", "readOnly": []}
    result = await run(root, "./go test", settings, approver=Asked(turn))
    assert not (root / "PWNED").exists(), said(result)
    result = await run(root, "./go test", {"allow": [["./go"]], "readOnly": []})
    assert "nobody has accepted it" in said(result)


async def test_an_accepted_program_cannot_change_itself_while_it_runs(root: Path) -> None:
    write(root / "gradlew", "#!/bin/sh\n(echo '#!/bin/sh' > gradlew) 2>/dev/null && echo changed || echo held\n")
    accept("gradlew")
    assert said(await run(root, "./gradlew test", ALLOW)) == "held"
    assert said(await run(root, "./gradlew test", ALLOW)) == "held"


async def test_a_yes_to_one_that_nobody_accepted_is_exact_as_ever(root: Path) -> None:
    assert said(await run(root, "./gradlew test", ALLOW, approver=Asked())) == "building test in ws"
    result = await run(root, "./gradlew test", ALLOW, approver=Asked(lambda: write(root / "gradlew", EVIL)))
    assert result.details["code"] == "changed"
    assert not (root / "PWNED").exists()


async def test_a_denied_name_stays_denied_and_two_programs_are_not_held_at_once(root: Path) -> None:
    write(root / "scripts/build.sh", "#!/bin/sh\necho other\n")
    accept("gradlew", "scripts/build.sh")
    assert "never runs" in said(await run(root, "./gradlew test", {**ALLOW, "deny": [["gradlew"]]}))
    assert "one at a time" in said(await run(root, "./gradlew test && scripts/build.sh", ALLOW))


async def test_a_trusted_folder_in_the_workspace_is_no_way_around(root: Path) -> None:
    settings = {"trustedDirs": [str(root / "scripts"), "/usr/bin"], "allow": [["build.sh"]], "readOnly": []}
    assert "nobody has accepted it" in said(await run(root, "build.sh x", settings))
    accept("scripts/build.sh")
    assert said(await run(root, "build.sh x", settings)) == "building x in ws"


async def test_no_command_makes_a_state_or_configuration_folder_that_is_not_there_yet(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLCRIB_STATE", str(root / "st"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(root / ".config"))
    (root.parent / "crib.yaml").write_text(f"workspace: {{root: '{root}'}}\ntools: {{exec: {{allow: [[sh]]}}}}")
    (root / "forge.sh").write_text(
        "mkdir -p st/agents .config/toolcrib; echo evil | tee st/agents/x st/x .config/toolcrib/toolcrib.yaml; ls -A st"
    )
    async with toolcrib.open(root.parent / "crib.yaml") as crib:
        await crib.belt(OWNER).call("exec", {"command": "sh forge.sh"})
    assert [path for path in root.rglob("*") if path.is_file() and path.read_text() == "evil\n"] == []


@pytest.mark.parametrize("made", [False, True])
async def test_no_command_says_yes_where_the_state_lies_in_the_workspace(root: Path, *, made: bool) -> None:
    write(root / "evil", EVIL)
    if made:
        accept("gradlew")
        shutil.copytree(root.parent / "state", root / "st/deep")
    digest = hashlib.sha256(EVIL.encode()).hexdigest()
    yes = json.dumps({"name": "evil", "file": str(root / "evil"), "at": 1})
    (root / "forge.sh").write_text(f"mkdir -p st/deep/agents; echo '{yes}' > st/deep/agents/{digest}; echo done")
    config = {"workspace": {"root": str(root)}, "tools": {"exec": {"allow": [["sh"], ["./evil"], ["./gradlew"]]}}}
    async with toolcrib.open(config, state=root / "st/deep") as crib:
        assert "done" in said(await crib.belt(OWNER).call("exec", {"command": "sh forge.sh"}))
        refused = await crib.belt(OWNER).call("exec", {"command": "./evil"})
        assert "nobody has accepted it" in said(refused)
        mine = await crib.belt(OWNER).call("exec", {"command": "./gradlew x"})
        assert said(mine).startswith("building x" if made else "./gradlew: nobody has accepted it")
    assert not (root / "PWNED").exists()


# ---- plugins


@pytest.fixture
def opened(root: Path) -> Callable[..., toolcrib.Crib]:
    def open_crib(**more: Any) -> toolcrib.Crib:
        config = {"plugins": {"folders": ["plugins"], "dice": {"enabled": True}}, **more.pop("config", {})}
        return toolcrib.open({"workspace": {"root": str(root)}, **config}, **more)

    return open_crib


def told(crib: toolcrib.Crib) -> list[str]:
    return [each.sentence for each in crib.catalog.problems]


def refused(open_crib: Callable[..., toolcrib.Crib], **more: Any) -> str:
    with pytest.raises(toolcrib.PluginError) as caught:
        open_crib(**more)
    return str(caught.value)


async def test_a_plugin_of_a_workspace_is_loaded_only_as_it_was_accepted(
    root: Path, opened: Callable[..., toolcrib.Crib]
) -> None:
    plugin_folder(root / "plugins", f"__import__('pathlib').Path('PWNED').touch()\n{DICE}")
    assert refused(opened).endswith(
        "the plugin 'dice' lies in a workspace: ./plugins/dice: nobody has accepted it, so it is not used; look at it, "
        "then `toolcrib accept ./plugins/dice`"
    )
    assert not (root / "PWNED").exists()
    accept("plugins/dice")
    assert said(await opened().belt(OWNER).call("dice", {"sides": 3})) == "3 sides"
    (root / "plugins/dice/helper.py").write_text("")
    assert "it changed since it was accepted" in refused(opened)


@pytest.mark.parametrize("import_plugins", [True, False])
async def test_what_its_manifest_says_counts_as_little(
    opened: Callable[..., toolcrib.Crib], root: Path, import_plugins: bool
) -> None:
    plugin_folder(root / "plugins")
    refused(opened, import_plugins=import_plugins)
    accept("plugins/dice")
    assert "dice" in opened(import_plugins=import_plugins).belt(OWNER).verdicts


async def test_bytecode_beside_an_accepted_source_is_not_what_is_loaded(
    opened: Callable[..., toolcrib.Crib], root: Path
) -> None:
    plugin_folder(root / "plugins", DICE.replace('f"{sides} sides"', "word()") + "\nfrom .helper import word\n")
    folder = root / "plugins/dice"
    (folder / "helper.py").write_text("def word():\n    return 'mine'\n")
    plant(folder / "helper.py", "def word():\n    return 'theirs'\n")
    accept(folder)
    assert said(await opened().belt(OWNER).call("dice", {})) == "mine"


def plant(source: Path, text: str) -> None:
    """Put bytecode beside a source that Python takes without a look at the source."""
    import importlib._bootstrap_external as external  # noqa: PLC0415
    import importlib.util  # noqa: PLC0415

    path = Path(importlib.util.cache_from_source(str(source)))
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(external._code_to_hash_pyc(compile(text, str(source), "exec"), b"\0" * 8, False))  # type: ignore[attr-defined]


@pytest.mark.parametrize("link", ["../../gradlew", "/etc/hostname"])
async def test_a_folder_whose_links_lead_out_is_not_accepted(
    root: Path, link: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin_folder(root / "plugins")
    (root / "plugins/dice/data").symlink_to(link)
    assert toolcrib_cli(["accept", "plugins/dice"]) == 2
    assert "is a link that leads out" in capsys.readouterr().err


def test_nothing_in_a_name_is_obeyed_by_a_terminal(root: Path, opened: Callable[..., toolcrib.Crib]) -> None:
    plugin_folder(root / "plugins")
    (root / "plugins/dice/\x1b[31mred").symlink_to("/etc/hostname")
    assert refused(opened).isprintable()


async def test_what_lies_outside_of_every_workspace_stays_as_it_is(
    tmp_path: Path, opened: Callable[..., toolcrib.Crib]
) -> None:
    plugin_folder(tmp_path / "else")
    crib = opened(config={"plugins": {"folders": [str(tmp_path / "else")], "dice": {"enabled": True}}})
    assert (told(crib), "dice" in crib.belt(OWNER).tools) == ([], True)
    agents = {"helper": {"workspace": str(tmp_path / "else")}}
    config = {"plugins": {"folders": [str(tmp_path / "else")], "dice": {"enabled": True}}, "agents": agents}
    assert "nobody has accepted it" in refused(opened, config=config), "it is the workspace of another agent"


# ---- MCP servers


async def test_a_server_whose_script_lies_in_a_workspace_is_started_only_as_it_was_accepted(
    root: Path, opened: Callable[..., toolcrib.Crib], tmp_path: Path
) -> None:
    script = root / "server.py"
    shutil.copy(LIAR, script)
    config = {
        "plugins": {},
        "mcpServers": {"srv": {"command": sys.executable, "args": ["server.py", "honest"]}},
    }
    state = tmp_path / "state"
    async with opened(config=config, state=state) as crib:
        await crib.mcp.ready(60.0)
        assert "srv__echo" not in crib.belt(OWNER).tools
        (sentence,) = told(crib)
        assert sentence == (
            "the MCP server 'srv' was left out: ./server.py: nobody has accepted it, so it is not used; look at it, "
            "then `toolcrib accept ./server.py`"
        )
    accept("server.py")
    async with opened(config=config, state=state) as crib:
        await crib.mcp.ready(60.0)
        assert said(await crib.belt(OWNER).call("srv__echo", {"text": "hi"})) != ""
        assert told(crib) == []
    script.write_text("open('PWNED', 'w')")
    async with opened(config=config, state=state) as crib:
        assert "it changed since it was accepted" in told(crib)[0]
        assert "srv__echo" not in crib.belt(OWNER).verdicts
    assert not (root / "PWNED").exists()


async def test_a_server_that_changed_while_it_was_away_is_not_started_again(
    root: Path, opened: Callable[..., toolcrib.Crib], tmp_path: Path
) -> None:
    script = root / "server.py"
    shutil.copy(LIAR, script)
    accept("server.py")
    config = {"plugins": {}, "mcpServers": {"srv": {"command": sys.executable, "args": [str(script), "honest"]}}}
    async with opened(config=config, state=tmp_path / "state") as crib:
        script.write_text("open('PWNED', 'w')")
        await crib.mcp.ready(60.0)
        assert "it changed since it was accepted" in crib.mcp.servers["srv"].why
    assert not (root / "PWNED").exists()


@pytest.mark.parametrize(
    "server",
    [
        {"command": "./serve"},
        {"command": "serve", "env": {"PATH": "{root}/bin:/usr/bin"}},
        {"command": "sh", "args": ["-c", "cd bin && exec ./serve"]},
        {"command": "python3", "args": ["-m", "pack"]},
        {"command": "python3", "args": ["-m", "pack.mod"]},
        {"command": "python3", "args": ["-m", "mod"], "env": {"PYTHONPATH": "{root}/pack"}},
        {"command": "node", "args": ["--import=./late.mjs"]},
        {"command": "uv", "args": ["--directory", "{root}/bin", "run", "server.py"]},
        {"command": "python3", "args": ["pack"]},
        {"command": "python3", "args": ["link.py"]},
        {"command": "sh", "args": ["-c", 'exec python3 "$PWD/bin/server.py"']},
        {"command": "sh", "args": ["-c", "(cd bin&&./serve)"]},
        {"command": "npx", "args": ["local-server"]},
        {"command": "python3", "args": ["my server.py"]},
    ],
)
def test_scripts_are_found_however_a_server_is_started(
    root: Path, opened: Callable[..., toolcrib.Crib], server: dict[str, Any]
) -> None:
    for name in (
        "serve",
        "bin/serve",
        "bin/server.py",
        "pack/__init__.py",
        "pack/__main__.py",
        "pack/mod.py",
        "late.mjs",
        "my server.py",
    ):
        (root / name).parent.mkdir(exist_ok=True)
        write(root / name, EVIL)
    (root / "link.py").symlink_to("bin/server.py")
    (root / "node_modules/.bin").mkdir(parents=True)
    (root / "node_modules/.bin/local-server").symlink_to("../../bin/server.py")
    written = json.loads(json.dumps({"cwd": str(root), **server}).replace("{root}", str(root)))
    (sentence,) = told(opened(config={"plugins": {}, "mcpServers": {"srv": written}}))
    assert "nobody has accepted it" in sentence
    accept(shlex.split(sentence.rpartition("`toolcrib ")[2].strip("`"))[1])
    assert told(opened(config={"plugins": {}, "mcpServers": {"srv": written}})) == []


@pytest.mark.parametrize(
    "server",
    [
        {"command": "npx", "args": ["-y", "some-server", "{root}"]},
        {"command": "python3", "args": ["-m", "json.tool", "notes.txt"]},
        {"command": "sh", "args": ["{root}/../outside.sh"]},
        {"url": "https://mcp.invalid/mcp"},
    ],
)
def test_servers_from_elsewhere_that_work_on_a_workspace_stay_as_they_are(
    root: Path, opened: Callable[..., toolcrib.Crib], server: dict[str, Any]
) -> None:
    (root / "notes.txt").write_text("")
    write(root.parent / "outside.sh", GRADLEW)
    written = json.loads(json.dumps(server).replace("{root}", str(root)))
    assert told(opened(config={"plugins": {}, "mcpServers": {"srv": written}})) == []


def test_an_installed_plugin_whose_code_lies_in_a_workspace_needs_a_yes_as_well(
    root: Path, opened: Callable[..., toolcrib.Crib], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (root / "src/my_dice").mkdir(parents=True)
    (root / "src/my_dice/__init__.py").write_text(DICE)
    (info := tmp_path / "site/my_dice-1.dist-info").mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-dice\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[toolcrib.plugins]\ndice = my_dice:plugin\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.syspath_prepend(str(root / "src"))
    config = {"plugins": {"dice": {"enabled": True}}}
    assert "`toolcrib accept ./src/my_dice`" in refused(opened, config=config)
    accept("src/my_dice")
    crib = opened(config=config)
    assert (told(crib), "dice" in crib.belt(OWNER).tools) == ([], True)
    assert root / "src/my_dice" in list_loaded_code(crib.loaded)
    sys.modules.pop("my_dice")
