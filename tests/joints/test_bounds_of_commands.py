"""What a command in the sandbox comes to, and how much it may write."""

import os
import socket
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from toolcrib import OWNER, Crib

pytestmark = pytest.mark.anyio

CONNECT = "python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.connect({0!r}); print(s.recv(9))'"


def opened(root: Path, **sandbox: Any) -> Crib:
    config = {"workspace": {"root": str(root)}, "sandbox": sandbox}
    config["tools"] = {"exec": {"ask": "off", "security": "full"}}
    return toolcrib.open(config, state=root.parent / "state")


async def run(crib: Crib, line: str) -> tuple[str, str]:
    told = await crib.belt(OWNER).call("exec", {"command": line})
    return str(told.status), told.plain_text


@pytest.mark.parametrize("name", ["d.sock", "run/deep/d.sock", "relative.sock"])
async def test_a_socket_of_the_host_is_not_reached_and_one_of_the_commands_is(tmp_path: Path, name: str) -> None:
    root = tmp_path / "ws"
    (root / name).parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as daemon:
        before = os.getcwd()  # noqa: PTH109
        os.chdir(root)
        try:
            daemon.bind(name if name == "relative.sock" else str(root / name))
        finally:
            os.chdir(before)
        daemon.listen()
        async with opened(root) as crib:
            for access in (name, f"./{name}", str(root / name)):
                status, text = await run(crib, CONNECT.format(access))
                assert status == "error", text
                assert "Error" in text
            own = "import socket; s = socket.socket(socket.AF_UNIX); s.bind('own'); s.listen(); print('bound')"
            assert "bound" in (await run(crib, f'python3 -c "{own}"'))[1]
            assert (await run(crib, "ls"))[0] == "ok"


async def test_a_file_that_a_command_writes_is_bounded_and_told(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    async with opened(tmp_path / "ws", fileMb=1) as crib:
        status, text = await run(crib, "head -c 3000000 /dev/zero > big")
        assert status == "error"
        assert "the size of a file" in text, text
        assert (tmp_path / "ws" / "big").stat().st_size == 1 << 20
        assert (await run(crib, "head -c 1000000 /dev/zero > fits"))[0] == "ok"
