"""A real Synapse on loopback, and people who write in its rooms."""

import asyncio
import json
import os
import socket
import subprocess
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any
from urllib.parse import quote
from urllib.request import Request, urlopen

from tests.apart import install_apart

SYNAPSE = "matrix-synapse==1.163.2"
CONFIG = """\
server_name: test
listeners: [{{port: {port}, type: http, bind_addresses: [127.0.0.1], resources: [{{names: [client]}}]}}]
database: {{name: sqlite3, args: {{database: {folder}/home.db}}}}
signing_key_path: {folder}/signing.key
media_store_path: {folder}/media
log_config: {folder}/log.yaml
enable_registration: true
enable_registration_without_verification: true
report_stats: false
macaroon_secret_key: abcdefgh12345678
form_secret: abcdefgh12345678
trusted_key_servers: []
bcrypt_rounds: 4
rc_message: {{per_second: 1000, burst_count: 1000}}
rc_registration: {{per_second: 1000, burst_count: 1000}}
rc_joins: {{local: {{per_second: 1000, burst_count: 1000}}}}
rc_invites: {{per_room: {{per_second: 1000, burst_count: 1000}}, per_user: {{per_second: 1000, burst_count: 1000}},
             per_issuer: {{per_second: 1000, burst_count: 1000}}}}
rc_login: {{address: {{per_second: 1000, burst_count: 1000}}, account: {{per_second: 1000, burst_count: 1000}},
           failed_attempts: {{per_second: 1000, burst_count: 1000}}}}
"""


class Member:
    """Somebody who has an account."""

    def __init__(self, address: str, name: str, token: str) -> None:
        self.address, self.id, self.token = address, f"@{name}:test", token
        self._since = ""
        self._heard: list[tuple[str, str, str]] = []

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        return await asyncio.to_thread(ask, self.address, method, path, body, self.token)

    async def make_room(self, *invited: str, direct: bool = False) -> str:
        made = await self.ask("POST", "/createRoom", {"invite": invited, "is_direct": direct, "preset": "private_chat"})
        return str(made["room_id"])

    async def say(self, room: str, text: str, **content: Any) -> str:
        path = f"/rooms/{quote(room)}/send/m.room.message/{os.urandom(6).hex()}"
        told = await self.ask("PUT", path, {"msgtype": "m.text", "body": text, **content})
        return str(told["event_id"])

    async def show(self, room: str, picture: bytes) -> None:
        """Upload a picture, and show it in a room."""
        url = f"{self.address}/_matrix/media/v3/upload?filename=a.png"
        headers = {"authorization": f"Bearer {self.token}", "content-type": "image/png"}
        told = json.loads(await asyncio.to_thread(fetch, Request(url, picture, headers)))
        info = {"mimetype": "image/png", "size": len(picture)}
        content = {"msgtype": "m.image", "body": "a.png", "url": told["content_uri"], "info": info}
        await self.ask("PUT", f"/rooms/{quote(room)}/send/m.room.message/{token_hex(8)}", content)

    async def sees(self, room: str) -> bytes:
        """Return the last picture of a room."""
        found = await self.ask("GET", f"/rooms/{quote(room)}/messages?dir=b&limit=20")
        url = next(each["content"]["url"] for each in found["chunk"] if each["content"].get("msgtype") == "m.image")
        address = f"{self.address}/_matrix/client/v1/media/download/{url.removeprefix('mxc://')}"
        headers = {"authorization": f"Bearer {self.token}"}
        return await asyncio.to_thread(fetch, Request(address, headers=headers))

    async def hears(self, *words: str, room: str = "") -> str:
        """Return the next message of somebody else that holds these words."""
        async with asyncio.timeout(120):
            while True:
                while self._heard:
                    where, sender, text = self._heard.pop(0)
                    if sender != self.id and room in ("", where) and all(word in text for word in words):
                        return text
                since = f"&since={self._since}" if self._since else ""
                told = await self.ask("GET", f"/sync?timeout=3000{since}")
                self._since = told["next_batch"]
                for where, found in told.get("rooms", {}).get("join", {}).items():
                    for event in found["timeline"]["events"]:
                        if event["type"] == "m.room.message":
                            self._heard.append((where, event["sender"], event["content"].get("body", "")))

    async def until_joined(self, room: str, who: str) -> None:
        async with asyncio.timeout(120):
            while who not in (await self.ask("GET", f"/rooms/{quote(room)}/joined_members"))["joined"]:
                await asyncio.sleep(0.1)


def fetch(request: Request) -> bytes:
    with urlopen(request, timeout=120) as answer:
        data: bytes = answer.read()
        return data


def ask(address: str, method: str, path: str, body: Any = None, token: str = "") -> Any:
    headers = {"content-type": "application/json", **({"authorization": f"Bearer {token}"} if token else {})}
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(f"{address}/_matrix/client/v3{path}", data, headers, method=method), timeout=120) as answer:
        return json.loads(answer.read())


class Homeserver:
    """A Synapse that runs."""

    def __init__(self, address: str) -> None:
        self.address = address

    async def register(self, name: str) -> Member:
        body = {"username": name, "password": f"{name}-secret-1", "auth": {"type": "m.login.dummy"}}
        told = await asyncio.to_thread(ask, self.address, "POST", "/register", body)
        return Member(self.address, name, told["access_token"])


@asynccontextmanager
async def synapse(folder: Path) -> AsyncIterator[Homeserver]:
    """Run a homeserver in a folder."""
    python = await asyncio.to_thread(install_apart, SYNAPSE)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = folder / "home.yaml"
    config.write_text(CONFIG.format(port=port, folder=folder))
    (folder / "log.yaml").write_text("version: 1\nroot: {level: ERROR}\n")
    words = [str(python), "-m", "synapse.app.homeserver", "--config-path", str(config)]
    env = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    seed = b64encode(os.urandom(32)).decode().rstrip("=")  # what --generate-keys writes, without a start for it
    (folder / "signing.key").write_text(f"ed25519 a_test {seed}\n")
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env, cwd=folder)
    try:
        address = f"http://127.0.0.1:{port}"
        async with asyncio.timeout(120):
            while True:
                assert process.poll() is None, "Synapse has ended"
                try:
                    await asyncio.to_thread(ask, address, "GET", "/login")
                    break
                except OSError:
                    await asyncio.sleep(0.2)
        yield Homeserver(address)
    finally:
        process.kill()
        await asyncio.to_thread(process.wait)
