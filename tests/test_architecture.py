"""The tree explains the system: floors, rings, shelf, sizes, names. Nothing happens on import."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.architecture import (
    FACES,
    Tree,
    dynamic_imports,
    face_faults,
    forbidden_imports,
    rings,
    shelf_faults,
    size_faults,
    word_faults,
)

PROJECT = Path(__file__).parents[1]
SOURCE = PROJECT / "src"
REAL = Tree(SOURCE)

CHECKS = (forbidden_imports, face_faults, rings, dynamic_imports, shelf_faults, size_faults, word_faults)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_source_keeps_the_rules(check: Callable[[Tree], list[str]]) -> None:
    assert check(REAL) == []


def test_every_room_is_on_a_floor() -> None:
    assert len(REAL.paths) > 50
    assert len(REAL.imports) > 100
    assert REAL.paths.keys() >= FACES
    rooms = {name.split(".")[1] for name in REAL.paths.keys() - FACES}
    assert rooms <= {
        "define", "registry", "policy", "adapter", "tools", "agent", "services", "backends", "config", "client",
        "testing", "app", "doors", "lazy", "threads", "__main__",
    }  # fmt: skip


def test_architecture_md_lists_every_folder() -> None:
    text = (PROJECT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    folders = sorted({path.parent.relative_to(SOURCE / "toolcrib") for path in REAL.paths.values()} - {Path()})
    assert [folder.as_posix() for folder in folders if f"{folder.name}/" not in text] == []


def made_up(folder: Path, files: dict[str, str]) -> Tree:
    """Return a tree of these files beneath `toolcrib/`, every folder a package."""
    package = folder / "toolcrib"
    for name, text in {"__init__.py": "", **files}.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
    for path in [path for path in package.rglob("*") if path.is_dir()]:
        (path / "__init__.py").touch()
    return Tree(folder)


TABLE = {
    "__init__.py": '_HOMES = {"define.tool": "Tool", "app": "open"}\n',
    "files.py": '_HOMES = {"define.files": "Entry", "app": "Belt"}\n',
    "define/tool.py": "",
    "define/files.py": "",
    "app.py": "",
}


@pytest.mark.parametrize(
    ("files", "faults"),
    [
        ({"define/tool.py": "", "policy/gate.py": "from toolcrib.define.tool import Tool"}, []),
        ({"define/tool.py": "", "policy/gate.py": "from ..define import tool"}, []),
        ({"define/a.py": "from . import b", "define/b.py": ""}, []),
        (
            {"define/a.py": "from toolcrib.policy import gate", "policy/gate.py": ""},
            ["toolcrib.define.a:1 imports toolcrib.policy.gate; define may not"],
        ),
        (
            {"define/a.py": "import toolcrib.policy.gate as g", "policy/gate.py": ""},
            ["toolcrib.define.a:1 imports toolcrib.policy.gate; define may not"],
        ),
        (
            {"policy/a.py": "\ndef f():\n    from ..registry.catalog import Catalog", "registry/catalog.py": ""},
            ["toolcrib.policy.a:3 imports toolcrib.registry.catalog; policy may not"],
        ),
        (
            {
                "agent/a.py": "import typing\nif typing.TYPE_CHECKING:\n    from toolcrib.services.s import S",
                "services/s.py": "",
            },
            ["toolcrib.agent.a:3 imports toolcrib.services.s; agent may not"],
        ),
        (
            {"agent/a.py": "from toolcrib.app import open", "app.py": ""},
            ["toolcrib.agent.a:1 imports toolcrib.app; agent may not"],
        ),
        (
            {"app.py": "from .doors import cli", "doors/cli/main.py": ""},
            ["toolcrib.app:1 imports toolcrib.doors.cli; app may not"],
        ),
        (
            {"config/a.py": "from toolcrib.registry import x", "registry/x.py": ""},
            ["toolcrib.config.a:1 imports toolcrib.registry.x; config may not"],
        ),
        ({"config/a.py": "from toolcrib.policy import x", "policy/x.py": ""}, []),
        (
            {"testing.py": "from .policy import x", "policy/x.py": ""},
            ["toolcrib.testing:1 imports toolcrib.policy.x; testing may not"],
        ),
        ({"client.py": "from .backends.gateway import G", "backends/gateway.py": ""}, []),
        (
            {"client.py": "from .backends.plugins import P", "backends/plugins.py": ""},
            ["toolcrib.client:1 imports toolcrib.backends.plugins; client may not"],
        ),
        ({"backends/models/openai.py": "from toolcrib.adapter import x", "adapter/x.py": ""}, []),
        (
            {"backends/plugins.py": "from toolcrib.adapter import x", "adapter/x.py": ""},
            ["toolcrib.backends.plugins:1 imports toolcrib.adapter.x; backends may not"],
        ),
        (
            {"attic/a.py": "from toolcrib.define import x", "define/x.py": ""},
            ["toolcrib.attic.a:1 imports toolcrib.define.x; attic may not"],
        ),
        ({"__init__.py": "if TYPE_CHECKING:\n    from .policy import x", "policy/x.py": ""}, []),
        ({**TABLE, "tools/fs/read.py": "from toolcrib.files import Entry"}, []),
        (
            {**TABLE, "tools/fs/read.py": "import toolcrib.files as f\nf.Belt"},
            ["toolcrib.tools.fs.read:2 imports toolcrib.app through toolcrib.files; tools may not"],
        ),
        (
            {**TABLE, "agent/a.py": "from toolcrib.files import Entry"},
            ["toolcrib.agent.a:1 imports toolcrib.define.files through toolcrib.files; agent may not"],
        ),
        (
            {**TABLE, "doors/a.py": "from toolcrib import files"},
            ["toolcrib.doors.a:1 imports toolcrib.files through the root package; doors may not"],
        ),
        (
            {**TABLE, "tools/fs/read.py": "from toolcrib import Tool\nfrom ._paths import p", "tools/fs/_paths.py": ""},
            [],
        ),
        ({**TABLE, "tools/__init__.py": "from .fs.read import read", "tools/fs/read.py": ""}, []),
        (
            {**TABLE, "tools/fs/read.py": "from toolcrib.define.tool import Tool"},
            ["toolcrib.tools.fs.read:1 imports toolcrib.define.tool; tools may not"],
        ),
        (
            {**TABLE, "tools/fs/read.py": "from .write import write", "tools/fs/write.py": ""},
            ["toolcrib.tools.fs.read:1 imports toolcrib.tools.fs.write; tools may not"],
        ),
        (
            {**TABLE, "tools/fs/read.py": "from ..web._page import p", "tools/web/_page.py": ""},
            ["toolcrib.tools.fs.read:1 imports toolcrib.tools.web._page; tools may not"],
        ),
        (
            {**TABLE, "tools/fs/read.py": "from toolcrib import open"},
            ["toolcrib.tools.fs.read:1 imports toolcrib.app through the root package; tools may not"],
        ),
        (
            {**TABLE, "tools/fs/read.py": "import toolcrib\ntoolcrib.open()"},
            ["toolcrib.tools.fs.read:2 imports toolcrib.app through the root package; tools may not"],
        ),
        (
            {**TABLE, "policy/a.py": "import toolcrib as t"},
            ["toolcrib.policy.a:1 imports toolcrib; policy may not"],
        ),
        ({**TABLE, "doors/cli/main.py": "from toolcrib import __version__, open"}, []),
    ],
)
def test_an_upward_or_sideways_import_is_found(tmp_path: Path, files: dict[str, str], faults: list[str]) -> None:
    assert forbidden_imports(made_up(tmp_path, files)) == faults


@pytest.mark.parametrize(
    ("files", "knots"),
    [
        ({"define/a.py": "from .b import x", "define/b.py": ""}, []),
        (
            {"define/a.py": "from .b import x", "define/b.py": "from .a import y"},
            ["toolcrib.define.a, toolcrib.define.b import one another"],
        ),
        (
            {
                "define/a.py": "from .b import x",
                "define/b.py": "def f():\n    from .c import y",
                "define/c.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import a",
                "define/d.py": "from .a import z",
            },
            ["toolcrib.define.a, toolcrib.define.b, toolcrib.define.c import one another"],
        ),
        (
            {"define/__init__.py": "from .a import x", "define/a.py": "from . import y"},
            ["toolcrib.define, toolcrib.define.a import one another"],
        ),
        (
            {**TABLE, "app.py": "from .tools import s", "tools/__init__.py": "from toolcrib import open"},
            ["toolcrib.app, toolcrib.tools import one another"],
        ),
        ({**TABLE, "app.py": "from .tools import s", "tools/__init__.py": "from toolcrib import Tool"}, []),
        (
            {"define/a.py": "from . import b", "define/b.py": "from . import a",
             "define/c.py": "from . import d", "define/d.py": "from . import c\nfrom . import a"},
            ["toolcrib.define.a, toolcrib.define.b import one another",
             "toolcrib.define.c, toolcrib.define.d import one another"],
        ),
    ],
)  # fmt: skip
def test_a_ring_is_found_wherever_it_hides(tmp_path: Path, files: dict[str, str], knots: list[str]) -> None:
    assert rings(made_up(tmp_path, files)) == knots


def test_a_face_that_loads_what_it_names_is_found(tmp_path: Path) -> None:
    lazy = "from . import _serve\nif TYPE_CHECKING:\n    from .define import tool\n"
    files = {"__init__.py": "import sys", "files.py": lazy, "models.py": "from .define.tool import Tool"}
    assert face_faults(made_up(tmp_path, {**files, "define/tool.py": ""})) == [
        "toolcrib.models:1 imports what it should only name"
    ]


@pytest.mark.parametrize("call", ["importlib.import_module('toolcrib.app')", "__import__('toolcrib.app')"])
def test_an_import_by_a_computed_name_is_found(tmp_path: Path, call: str) -> None:
    tree = made_up(tmp_path, {"__init__.py": call, "agent/a.py": f"def f():\n    {call}"})
    assert dynamic_imports(tree) == ["toolcrib.agent.a:2 imports by a computed name; write an import statement"]


READ = """
    from toolcrib import tool

    @tool(group="fs")
    async def read(path: str) -> str:
        "Read."
"""
SHELF = "from .fs.read import read\nSHELF = (read,)"


@pytest.mark.parametrize(
    ("files", "faults"),
    [
        ({"tools/__init__.py": SHELF, "tools/fs/read.py": READ, "tools/fs/_paths.py": ""}, []),
        (
            {"tools/__init__.py": "SHELF = ()", "tools/fs/read.py": READ},
            ["toolcrib.tools.fs.read: is not on the shelf in tools/__init__.py"],
        ),
        (
            {"tools/__init__.py": SHELF, "tools/web/read.py": READ},
            ["toolcrib.tools.web.read: has group 'fs', not 'web'"],
        ),
        (
            {"tools/__init__.py": SHELF, "tools/fs/read.py": READ.replace("def read", "def reads")},
            ["toolcrib.tools.fs.read: declares 'reads' as 'reads'; both are called like the file"],
        ),
        (
            {"tools/__init__.py": SHELF, "tools/fs/read.py": READ.replace('group="fs"', 'group="fs", name="cat"')},
            ["toolcrib.tools.fs.read: declares 'cat' as 'read'; both are called like the file"],
        ),
        (
            {"tools/__init__.py": SHELF, "tools/fs/read.py": READ + READ},
            ["toolcrib.tools.fs.read: declares 2 tools; one file, one tool"],
        ),
        (
            {"tools/__init__.py": SHELF, "tools/fs/read.py": ""},
            ["toolcrib.tools.fs.read: declares 0 tools; one file, one tool"],
        ),
        (
            {"tools/__init__.py": SHELF, "tools/read.py": READ},
            ["toolcrib.tools.read: a tool stands in tools/<group>/<name>.py"],
        ),
        (
            {
                "tools/__init__.py": "SHELF: tuple = (cron, agents_list)\nAGENTS = [helper]",
                "tools/automation/cron.py": 'cron = actions("cron", "Later.", {}, group="automation")',
                "tools/sessions/agents_list.py": '@tool\ndef agents_list():\n    "List."',
                "tools/agents/helper.py": 'helper = Agent(name="helper")',
            },
            [],
        ),
        (
            {
                "tools/__init__.py": "AGENTS = [helper]",
                "tools/fs/helper.py": 'helper = Agent(name="helper")',
            },
            [
                "toolcrib.tools.fs.helper: agents stand in tools/agents, and nothing else does",
                "toolcrib.tools.fs.helper: has group None, not 'fs'",
            ],
        ),
    ],
)
def test_a_file_that_is_not_one_tool_on_the_shelf_is_found(
    tmp_path: Path, files: dict[str, str], faults: list[str]
) -> None:
    assert shelf_faults(made_up(tmp_path, files)) == faults


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("x = 1\n" * 500, []),
        ("x = 1\n" * 501, ["toolcrib.define.a has 501 lines; 500 is the most"]),
        ("def f():\n" + "    x = 1\n" * 74, []),
        ("def f():\n" + "    x = 1\n" * 75, ["toolcrib.define.a:1 f has 76 lines; 75 is the most"]),
        ("class A:\n  def f(self, a, b, c, d, *args, e, f, g, h, **more): ...", []),
        (
            "class A:\n  async def f(self, a, b, c, d, *, e, f, g, h, i): ...",
            ["toolcrib.define.a:2 f has 9 parameters; 8 is the most"],
        ),
    ],
)
def test_what_is_too_long_is_found(tmp_path: Path, text: str, faults: list[str]) -> None:
    assert size_faults(made_up(tmp_path, {"define/a.py": text})) == faults


@pytest.mark.parametrize(
    ("files", "faults"),
    [
        ({"define/names.py": "class Catalog: ..."}, []),
        ({"define/utils.py": ""}, ["toolcrib.define.utils is a drawer, not a room; name it after what is in it"]),
        ({"define/_helpers.py": ""}, ["toolcrib.define._helpers is a drawer, not a room; name it after what is in it"]),
        ({"core/a.py": ""}, ["toolcrib.core is a drawer, not a room; name it after what is in it"]),
        (
            {"define/a.py": "def f():\n  class ToolManager: ..."},
            ["toolcrib.define.a:2 class ToolManager; name it after what it is"],
        ),
    ],
)
def test_a_name_that_says_nothing_is_found(tmp_path: Path, files: dict[str, str], faults: list[str]) -> None:
    assert word_faults(made_up(tmp_path, files)) == faults


WATCH = """
    import json, sys

    seen = []
    WATCHED = ("open", "socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.mkdir")
    sys.addaudithook(lambda event, args: seen.append((event, str(args[:2]))) if event.startswith(WATCHED) else None)
    before = set(sys.modules)
    {imports}
    done = list(seen)
    print(json.dumps({{"events": done, "modules": sorted(set(sys.modules) - before)}}))
"""


def watched(imports: str) -> dict[str, Any]:
    """Return what a fresh Python opened, connected to and loaded while it ran these imports."""
    ran = subprocess.run(
        [
            sys.executable,
            "-I",
            "-B",
            "-c",
            f"import sys; sys.path[:0] = {sys.path!r}\n" + dedent(WATCH).format(imports=imports),
        ],
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    said: dict[str, Any] = json.loads(ran.stdout)
    return said


def is_module_file(args: str) -> bool:
    return any(f"{suffix}'" in args for suffix in (".py", ".pyc", ".so"))


def is_write(args: str) -> bool:
    return re.search(r"'[wax][^']*'\)$", args) is not None


def test_importing_toolcrib_opens_nothing_and_loads_nothing_heavy() -> None:
    said = watched("import toolcrib")
    assert [event for event in said["events"] if event[0] != "open" or not is_module_file(event[1])] == []
    assert [name for name in said["modules"] if name.startswith("toolcrib")] == ["toolcrib"]
    heavy = {
        "asyncio",
        "click",
        "inspect",
        "jsonschema_rs",
        "orjson",
        "pydantic",
        "pydantic_core",
        "re2",
        "rich",
        "yaml",
    }
    assert heavy.intersection(said["modules"]) == set()


def test_importing_every_module_writes_nothing_starts_nothing_and_connects_nowhere() -> None:
    said = watched(f"import {', '.join(sorted(REAL.paths))}")
    assert [event for event in said["events"] if event[0] != "open" or is_write(event[1])] == []


def test_the_watch_itself_sees_files_sockets_and_processes() -> None:
    said = watched("import socket, subprocess, os; socket.socket().close(); open(os.devnull, 'w').close()")
    events = [event for event, _ in said["events"]]
    assert "socket.__new__" in events
    assert [args for _, args in said["events"] if is_write(args)] == ["('/dev/null', 'w')"]
