"""A real Prosody on loopback, and people who write there with a client that knows as much XMPP as they need."""

import asyncio
import contextlib
import socket
import subprocess
import sysconfig
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from xml.etree.ElementTree import Element

from tests.apart import unpack_apart

from toolcrib.backends.channels.xmpp_stream import CLIENT, AckRequest, XmppStream, add_element, make_element

__all__ = ["DOMAIN", "ROOM", "Prosody", "XmppPerson", "prosody", "xmpp_person"]

DOMAIN, ROOM = "localhost", "shop@rooms.localhost"
SECONDS = 240.0
PACKAGES = ("prosody", "lua5.4", "lua-expat", "lua-filesystem", "lua-sec", "lua-socket", "lua-bitop")
CONFIG = """\
pidfile = "{folder}/prosody.pid"
data_path = "{folder}/data"
log = {{ error = "{folder}/error.log" }}
interfaces = {{ "127.0.0.1" }}
c2s_ports = {{ {port} }}
http_ports = {{ {web} }}
http_interfaces = {{ "127.0.0.1" }}
https_ports = {{ }}
modules_enabled = {{ "disco", "roster", "saslauth", "tls", "smacks", "mam", "ping", "offline" {more} }}
modules_disabled = {{ "s2s" }}
allow_unencrypted_plain_auth = false
c2s_require_encryption = {secure}
authentication = "internal_hashed"
run_as_root = true
limits = {{ }}
VirtualHost "localhost"
{tls}
Component "rooms.localhost" "muc"
  modules_enabled = {{ "muc_mam" }}
  muc_room_default_public_jids = {open}
  muc_room_locking = false
Component "files.localhost" "http_file_share"
  http_host = "127.0.0.1"
  http_external_url = "http://127.0.0.1:{web}/"
"""


class Prosody:
    """A server that can be stopped and started again in its folder."""

    def __init__(self, folder: Path, *, open: bool, certificate: tuple[Path, Path] | None) -> None:
        self._root = unpack_apart(*PACKAGES)
        self._folder = folder / "prosody"
        for name in ("data", "certs"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        self.port, web = (_free_port() for _ in range(2))
        tls = f'  ssl = {{ certificate = "{certificate[0]}"; key = "{certificate[1]}" }}' if certificate else ""
        config = CONFIG.format(
            folder=self._folder, port=self.port, web=web, more="", secure=str(bool(certificate)).lower(),
            open=str(open).lower(), tls=tls,
        )  # fmt: skip
        self._config = self._folder / "prosody.cfg.lua"
        self._config.write_text(config)
        self._process: subprocess.Popen[bytes] | None = None

    def register(self, *names: str) -> None:
        for name in names:
            self._run("prosodyctl", "register", name, DOMAIN, f"{name}-secret-1")

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._words("prosody", "-F"), env=self._env(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _run(self, program: str, *words: str) -> None:
        done = subprocess.run(self._words(program, *words), env=self._env(), capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    def _words(self, program: str, *words: str) -> list[str]:
        script = self._folder / f"{program}.lua"
        source = (self._root / "usr/bin" / program).read_text()
        script.write_text(source.replace("'/usr/lib/prosody", f"'{self._root}/usr/lib/prosody"))
        return [str(self._root / "usr/bin/lua5.4"), str(script), "--config", str(self._config), *words]

    def _env(self) -> dict[str, str]:
        usr = self._root / "usr"
        native = usr / "lib" / sysconfig.get_config_var("MULTIARCH")
        return {
            "LUA_PATH": f"{usr}/share/lua/5.4/?.lua;{usr}/share/lua/5.4/?/init.lua",
            "LUA_CPATH": f"{native}/lua/5.4/?.so",
            "LD_LIBRARY_PATH": str(native),
            "PATH": "/usr/bin:/bin",
        }


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@contextmanager
def prosody(
    folder: Path, *names: str, open: bool = True, certificate: tuple[Path, Path] | None = None
) -> Iterator[Prosody]:
    """Run a Prosody with accounts of these names; `open` rooms tell who is in them."""
    server = Prosody(folder, open=open, certificate=certificate)
    server.register(*names)
    server.start()
    try:
        yield server
    finally:
        server.kill()


class XmppPerson:
    """Somebody at a client."""

    def __init__(self, stream: XmppStream) -> None:
        self.stream, self.jid = stream, stream.me.partition("/")[0]

    def say(self, to: str, text: str, *more: Element, id: str = "") -> None:
        stanza = make_element("message", to=to, type="groupchat" if to == ROOM else "chat", id=id or "m1")
        add_element(stanza, "body", CLIENT, text)
        stanza.extend(more)
        self.stream.send(stanza)

    async def enter(self, nick: str, room: str = ROOM) -> None:
        stanza = make_element("presence", to=f"{room}/{nick}")
        add_element(
            add_element(stanza, "x", "http://jabber.org/protocol/muc"),
            "history",
            "http://jabber.org/protocol/muc",
            maxstanzas="0",
        )
        self.stream.send(stanza)
        await self.sees(f"{room}/{nick}")

    async def sees(self, occupant: str) -> None:
        """Wait until somebody is in a room."""
        while (await self.next("presence")).get("from") != occupant:
            pass

    async def hears(self, *words: str) -> str:
        """Return the next text of somebody else that holds these words."""
        return (await self.hears_message(*words)).findtext(f"{{{CLIENT}}}body") or ""

    async def hears_message(self, *words: str) -> Element:
        while True:
            stanza = await self.next("message")
            text = stanza.findtext(f"{{{CLIENT}}}body")
            if text and all(word in text for word in words):
                return stanza

    async def next(self, kind: str) -> Element:
        async with asyncio.timeout(SECONDS):
            while True:
                stanza = await self.stream.inbox.get()
                if isinstance(stanza, AckRequest):
                    self.stream.acknowledge(stanza)
                elif stanza.tag == f"{{{CLIENT}}}{kind}":
                    return stanza


@asynccontextmanager
async def xmpp_person(server: Prosody, name: str, nick: str = "") -> AsyncIterator[XmppPerson]:
    """Give somebody who has signed in, and is in the room under this nick."""
    async with asyncio.timeout(SECONDS):
        while True:
            with contextlib.suppress(ConnectionRefusedError):
                reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
                break
            await asyncio.sleep(0.05)
    stream = XmppStream(reader, writer)
    await stream.sign_in(f"{name}@{DOMAIN}", f"{name}-secret-1", "here", None)
    pump = asyncio.create_task(stream.pump())
    who = XmppPerson(stream)
    stream.send(make_element("presence"))
    if nick:
        await who.enter(nick)
    try:
        yield who
    finally:
        stream.close()
        pump.cancel()
        await asyncio.wait((pump,))
        if not pump.cancelled():
            pump.exception()
