"""The guard is the only way out: nobody else opens connections, and it sits beneath every client."""

import asyncio
import contextlib
import re
import socket
import ssl
import subprocess
from pathlib import Path

import httpx2
import pytest
from tests.pages import ROOT
from tests.sockets import listening

from toolcrib.backends.web.guard import EgressGuard, guard_for
from toolcrib.define.egress import EgressError, EgressRules, Opening
from toolcrib.define.errors import ToolError

pytestmark = pytest.mark.anyio

_OPENS = re.compile(
    r"AsyncClient\(|urlopen\(|http\.client|open_connection\(|create_connection\(|websockets\.\w*connect"
)
# to a gateway of this user, to servers of models on loopback that the doctor looks for
_NOT_OUT = {"backends/gateway.py", "client.py", "doors/cli/_remote.py", "doors/cli/_doctor_models.py"}


def test_nobody_else_opens_connections() -> None:
    found = set()
    for path in (ROOT / "src/toolcrib").rglob("*.py"):
        name = str(path.relative_to(ROOT / "src/toolcrib"))
        if not name.startswith("backends/web/") and _OPENS.search(path.read_text()):
            found.add(name)
    assert found <= _NOT_OUT


async def test_the_guard_sits_beneath_the_client_of_the_library() -> None:
    async with EgressGuard(EgressRules()).open_client(timeout=httpx2.Timeout(5)) as client:
        with pytest.raises(EgressError, match=r"127.0.0.1 is of 127.0.0.0/8"):
            await client.get("http://127.0.0.1:1/")


async def test_a_client_for_one_server_reaches_no_other() -> None:
    async def serve(reader: object, writer: object) -> None: ...

    async with (
        listening(serve) as port,
        guard_for("http://127.0.0.1:9").open_client(timeout=httpx2.Timeout(5)) as client,
    ):
        with pytest.raises(EgressError, match="it is not where this way out leads"):
            await client.get(f"http://127.0.0.1:{port}/")


async def test_a_dial_that_cannot_be_is_told_in_one_sentence() -> None:
    guard = EgressGuard(EgressRules())
    for host, code in (("10.0.0.1", "denied"), ("nobody.invalid", "unavailable"), ("a b", "bad_address")):
        with pytest.raises(ToolError) as told:
            await guard.dial(host, 80)
        assert told.value.code == code


async def test_a_certificate_has_to_be_for_the_host_and_from_somebody_who_is_known(tmp_path: Path) -> None:
    words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=shop.example"]
    files = ["-addext", "subjectAltName=DNS:shop.example", "-keyout", "key.pem", "-out", "cert.pem"]
    await asyncio.to_thread(subprocess.run, ["openssl", *words, *files], cwd=tmp_path, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    names, asked = ("shop.example", "other.example"), list[bytes]()

    async def resolve(name: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    with context.wrap_socket(socket.create_server(("127.0.0.1", 0)), server_side=True) as listener:

        def serve() -> None:
            for _ in names:
                with contextlib.suppress(OSError), listener.accept()[0] as connection:  # who refuses is no error here
                    asked.append(connection.recv(9))

        opened = EgressRules(opened=(Opening.read("127.0.0.1"),))
        guard = EgressGuard(opened, resolve=resolve)
        serving = asyncio.ensure_future(asyncio.to_thread(serve))
        async with guard.open_client(timeout=httpx2.Timeout(20)) as client:
            for name in names:
                with pytest.raises(httpx2.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
                    await client.get(f"https://{name}:{listener.getsockname()[1]}/")
        await serving
    assert asked == []
