"""What the crib loads and runs on the host is changed by no tool and no command, wherever it lies."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.backends.exec.shells import ran

import toolcrib
from toolcrib.app.sources import list_loaded_code
from toolcrib.app.terms import terms_of
from toolcrib.backends.exec.shells import LocalShells
from toolcrib.backends.files.disk import Disk, Terms
from toolcrib.backends.files.local import Workspaces
from toolcrib.config.load import load
from toolcrib.define.caller import Caller
from toolcrib.define.errors import ToolError

pytestmark = pytest.mark.anyio

SERVERS: dict[str, dict[str, Any]] = {
    "server.py": {"command": "python3", "args": ["server.py"]},
    "tools/index.js": {"command": "node", "args": ["./tools/index.js", "--db", "data.db"]},
    "tools/run.mjs": {"command": "node", "args": ["--import=./tools/run.mjs"]},
    "bin/serve": {"command": "./bin/serve"},
    "bin/go.sh": {"command": "sh", "args": ["-c", "cd . && exec ./bin/go.sh 'x'"]},
    "pack/core.py": {"command": "python3", "args": ["-m", "pack"]},
    "deep/mod.py": {"command": "python3", "args": ["-m", "deep.mod"]},
    "late.js": {"command": "node", "args": ["late"]},
}
PLUGINS = (
    "plugins/shop/plugin.py", "plugins/shop/toolcrib.plugin.json", "plugins/voice/openclaw.plugin.json",
    "plugins/new/plugin.py",
)  # fmt: skip


@pytest.fixture
def terms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terms:
    ws = tmp_path / "ws"
    for name in (*SERVERS, *PLUGINS[:3], "pack/__init__.py", "data.db"):
        (ws / name).parent.mkdir(parents=True, exist_ok=True)
        (ws / name).write_text("mine")
    (ws / "bin" / "serve").chmod(0o755)
    monkeypatch.chdir(ws)
    servers = {f"s{at}": {**each, "cwd": str(ws)} for at, each in enumerate(SERVERS.values())}
    loaded = load({"workspace": {"root": str(ws)}, "plugins": {"folders": ["plugins"]}, "mcpServers": servers})
    return terms_of(loaded, (tmp_path / "state",), list_loaded_code(loaded))(Caller())


@pytest.fixture
def workspaces() -> Iterator[Workspaces]:
    opened = Workspaces()
    yield opened
    opened.close()


@pytest.mark.parametrize("name", [*SERVERS, *PLUGINS])
async def test_no_tool_changes_it(terms: Terms, workspaces: Workspaces, name: str) -> None:
    with pytest.raises(ToolError, match="is protected"):
        await workspaces.open(terms, "main").write(name, b"evil")


@pytest.mark.parametrize("name", [*SERVERS, *PLUGINS])
async def test_no_command_changes_it(terms: Terms, name: str) -> None:
    shells = LocalShells()
    try:
        shell = shells.find("sandbox", terms)
        top = name.partition("/")[0]
        for line in (
            f"mkdir -p $(dirname {name}); echo evil > {name}",
            f"mv {top} x && cp -r x {top} && echo evil > {name}",
        ):
            assert not (await ran(shell, line))[0].ok
    finally:
        await shells.close()
    place = terms.root / name
    assert not place.exists() or place.read_text() == "mine"


async def test_what_it_works_on_is_changed_as_ever(terms: Terms, workspaces: Workspaces) -> None:
    await workspaces.open(terms, "main").write("data.db", b"theirs")
    await workspaces.open(terms, "main").write("tools/other.js", b"theirs")
    assert (terms.root / "data.db").read_bytes() == b"theirs"


async def test_our_own_code_is_among_it() -> None:
    package = Path(toolcrib.__file__).parent
    root, inside = package.parent, f"{package.name}/policy/gate.py"
    terms = Terms(root=root, code=list_loaded_code(load({})))
    disk = Disk(terms)
    with pytest.raises(ToolError, match="is protected"):
        disk.guard.check_write(inside, inside)
    disk.close()
    shells = LocalShells()
    try:
        assert not (await ran(shells.find("sandbox", terms), f"test -w {inside}"))[0].ok
    finally:
        await shells.close()
