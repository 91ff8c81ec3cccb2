"""A command with a network has a loopback of its own and one way out, the proxy; without one it has no way out."""

import asyncio
import os
import shutil
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from tests.backends.web.proxies import REFUSAL, SayHttp, Serve, World, say_nothing, world
from tests.sockets import serving

from toolcrib.backends.exec.bubblewrap import Bubblewrap
from toolcrib.backends.exec.supervisor import SupervisorClient
from toolcrib.backends.web.proxy import GuardedProxy
from toolcrib.define.errors import ToolError
from toolcrib.define.shell import Command, CommandLimits, Shell

from .shells import ENV, descriptors, give_up, left, marker, opened, ran, started, until

pytestmark = pytest.mark.anyio

SHOP, SAFE = ("shop.test", 80), ("shop.test", 443)
LIMITS = CommandLimits(seconds=30.0, network=True)


@dataclass
class Site:
    """A sandbox, and the world that its proxy dials."""

    shell: Shell
    world: World

    async def run(self, line: str, **named: object) -> tuple[bool, str]:
        """Run a line with a network; return whether it was a success, and what it printed."""
        ended, text = await ran(self.shell, line, LIMITS, **named)
        return ended.ok, text


@asynccontextmanager
async def site(folder: Path, hosts: dict[tuple[str, int], Serve] | None = None, **bounds: Any) -> AsyncIterator[Site]:
    """Give a sandbox whose proxy dials these hosts: one shop, unless others are named."""
    async with (
        world({SHOP: SayHttp()} if hosts is None else hosts) as found,
        opened("sandbox", folder / "ws", proxy=GuardedProxy(found.dial, **bounds)) as shell,
    ):
        yield Site(shell, found)


@contextmanager
def watched() -> Iterator[socket.socket]:
    """Give a listener on this machine's loopback to which nobody has come at the end of the block."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize(
    "line",
    [
        "curl -sS http://shop.test/",
        "wget -qO- http://shop.test/",
        'python3 -c \'import urllib.request as u; print(u.urlopen("http://shop.test/").read().decode(), end="")\'',
        "perl -MHTTP::Tiny -e 'print HTTP::Tiny->new->get(\"http://shop.test/\")->{content}'",
        "curl -sS --proxytunnel http://shop.test:80/",
    ],
)
async def test_programs_find_the_proxy_by_themselves(tmp_path: Path, line: str) -> None:
    if shutil.which(line.split()[0], path=ENV["PATH"]) is None:
        pytest.skip(f"impossible here: there is no {line.split()[0]}")
    async with site(tmp_path) as found:
        assert await found.run(line) == (True, "hello")
        assert found.world.dialled == [SHOP]


async def test_tls_goes_through_a_tunnel_from_end_to_end(tmp_path: Path) -> None:
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=shop.test"
    if shutil.which("openssl") is None:
        pytest.skip("impossible here: there is no openssl")
    made = [*words.split(), "-addext", "subjectAltName=DNS:shop.test", "-keyout", "key.pem", "-out", "ws/cert.pem"]
    (tmp_path / "ws").mkdir()
    subprocess.run(["openssl", *made], cwd=tmp_path, check=True, capture_output=True, timeout=60)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "ws/cert.pem", tmp_path / "key.pem")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await writer.start_tls(context)
        await SayHttp()(reader, writer)

    async with site(tmp_path, {SAFE: answer}) as found:
        assert await found.run("curl -sS --cacert cert.pem https://shop.test/") == (True, "hello")
        ok, text = await found.run("curl -sS https://shop.test/")
        assert (ok, "certificate" in text) == (False, True)
        assert found.world.dialled == [SAFE, SAFE]


async def test_git_clones_over_http(tmp_path: Path) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    for words in (["init", "-q", "src"], ["-C", "src", "commit", "-q", "--allow-empty", "-m", "One"]):
        subprocess.run([*git, *words], cwd=tmp_path, check=True, timeout=60)
    subprocess.run([*git, "clone", "-q", "--bare", "src", "public/shop.git"], cwd=tmp_path, check=True, timeout=60)
    subprocess.run([*git, "update-server-info"], cwd=tmp_path / "public/shop.git", check=True, timeout=60)
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "public"))
    with serving(handler) as origin:
        async with site(tmp_path, {}) as found:
            found.world.places["git.test", 80] = int(origin.rpartition(":")[2])
            ok, text = await found.run("git clone -q http://git.test/shop.git && git -C shop log --format=%s")
            assert (ok, text.splitlines()[-1:]) == (True, ["One"]), text


@pytest.mark.parametrize(
    "line",
    [
        "curl -sSf http://127.0.0.1:{port}/",
        "curl -sSf --noproxy '' http://127.0.0.1:{port}/",
        "curl -sSf --noproxy '' -p http://127.0.0.1:{port}/",
        "curl -sSf --noproxy '*' http://127.0.0.1:{port}/",
        "http_proxy= HTTP_PROXY= curl -sSf http://localhost:{port}/",
        "curl -sSf --noproxy '' http://[::ffff:127.0.0.1]:{port}/",
        "curl -sSf --noproxy '' http://2130706433:{port}/",
        "exec 3<>/dev/tcp/127.0.0.1/{port}",
        "exec 3<>/dev/tcp/0.0.0.0/{port}",
        "exec 3<>/dev/tcp/1.1.1.1/443",
        "exec 3<>/dev/tcp/169.254.169.254/80",
        "bash -c 'echo x >/dev/udp/1.1.1.1/53'",
        "exec 3<>/dev/tcp/::1/{port}",
        "getent hosts example.com",
        "python3 -c 'import socket; socket.create_connection((\"1.1.1.1\", 80), 5)'",
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"\\0{name}\")'",
        "perl -e 'socket(my $s, 40, 1, 0) or exit 1'",
        "ip link add x type dummy",
        "ip route add default dev lo",
        "cat /sys/class/net/*/address | grep -v 00:00:00:00:00:00",
    ],
)
async def test_nothing_of_this_machine_is_reached_and_nothing_beside_the_proxy(tmp_path: Path, line: str) -> None:
    with watched() as server, socket.socket(socket.AF_UNIX) as abstract:
        name = f"toolcrib-test-{os.getpid()}"
        abstract.bind(f"\0{name}")
        abstract.listen()
        async with site(tmp_path) as found:
            ok, text = await found.run(line.replace("{port}", str(server.getsockname()[1])).replace("{name}", name))
            assert not ok, text


async def test_a_refused_address_is_told_to_whoever_asked(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        ok, text = await found.run("curl -sS --fail-with-body http://169.254.169.254/latest/meta-data/")
        assert (ok, f"'169.254.169.254' {REFUSAL}\n" in text) == (False, True)
        ok, text = await found.run("curl -sS https://10.0.0.1/")
        assert (ok, "403" in text) == (False, True)
        asked = "import urllib.request as u; u.urlopen('https://10.0.0.1/')"
        ok, text = await found.run(f'python3 -c "{asked}"')
        assert (ok, REFUSAL in text) == (False, True)
        assert found.world.dialled == [("169.254.169.254", 80), ("10.0.0.1", 443), ("10.0.0.1", 443)]


async def test_what_a_command_is_given_or_sets_itself_changes_nothing_about_the_way_out(tmp_path: Path) -> None:
    given = {**ENV, "http_proxy": "http://elsewhere.test:1", "HTTPS_PROXY": "http://elsewhere.test:1", "no_proxy": "*"}
    async with site(tmp_path) as found:
        assert await found.run("curl -sS http://shop.test/", env=given) == (True, "hello")
        ok, _ = await found.run("http_proxy=http://10.0.0.1:1 curl -sS http://shop.test/")
        assert (ok, len(found.world.dialled)) == (False, 1)


async def test_a_server_of_its_own_is_reached_by_the_command_and_the_port_of_the_proxy_cannot_be_taken(
    tmp_path: Path,
) -> None:
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws/page").write_text("mine")
    serve = "python3 -m http.server {} --bind 127.0.0.1 >/dev/null 2>&1 & p=$!;"
    wait = " until exec 3<>/dev/tcp/127.0.0.1/8080; do sleep 0.02; done 2>/dev/null;"
    async with site(tmp_path) as found:
        for host in ("127.0.0.1", "localhost"):
            line = f"{serve.format(8080)}{wait} curl -sS http://{host}:8080/page; kill $p"
            assert (await found.run(line))[1] == "mine"
        ok, text = await found.run("python3 -m http.server 880 --bind 0.0.0.0")
        assert (ok, "Permission denied" in text or "in use" in text) == (False, True), text
        ok, text = await found.run("python3 -c 'import socket as s; s.socket().bind((\"127.0.0.2\", 880))'")
        assert (ok, "Permission denied" in text) == (False, True)
        assert found.world.dialled == []


async def test_commands_at_once_have_a_network_each(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        serving = await started(found.shell, "python3 -u -m http.server 8080 --bind 127.0.0.1", LIMITS)
        await until(lambda: b"Serving" in serving.tail())
        told = await asyncio.gather(
            *(found.run("curl -sS http://shop.test/") for _ in range(20)), found.run("curl -sS http://127.0.0.1:8080/")
        )
        await serving.stop(0.0)
    assert told[:20] == [(True, "hello")] * 20
    assert (told[20][0], "Failed to connect" in told[20][1]) == (False, True)


async def test_a_command_in_the_background_keeps_its_network_until_it_ends(tmp_path: Path) -> None:
    line = "while read -r name; do curl -sS http://$name/; echo; done"
    async with site(tmp_path) as found:
        running = await started(found.shell, line, LIMITS, stdin=None)
        for count in range(1, 4):
            await running.write(b"shop.test\n")
            await until(lambda count=count: running.tail().count(b"hello") == count)  # type: ignore[misc]
            assert (await found.run("true"))[0]
        await running.close_stdin()
        assert (await running.wait()).ok


async def test_without_a_network_there_is_no_proxy_and_no_word_of_one(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        for line in ("curl -sS http://shop.test/", "exec 3<>/dev/tcp/127.0.0.1/880", "env | grep -i proxy"):
            ended, _ = await ran(found.shell, line)
            assert not ended.ok
        assert found.world.dialled == []


async def test_a_shell_without_a_proxy_grants_no_network(tmp_path: Path) -> None:
    async with opened("sandbox", tmp_path / "ws") as shell:
        with pytest.raises(ToolError, match="no way out to the network was made"):
            await ran(shell, "true", LIMITS)


async def test_a_flood_of_connections_is_bounded_and_others_are_served_meanwhile(tmp_path: Path) -> None:
    flood = """python3 -c '
import socket, time
held = []
for _ in range(1000):
    s = socket.socket(); s.setblocking(False); s.connect_ex(("127.0.0.1", 880)); held.append(s)
    try: s.send(b"CONNECT quiet.test:80 HTTP/1.1\\r\\n\\r\\n")
    except OSError: pass
print("flooded", flush=True); time.sleep(1000)'"""
    hosts: dict[tuple[str, int], Serve] = {SHOP: SayHttp(), ("quiet.test", 80): say_nothing}
    async with site(tmp_path, hosts, most=10) as found:
        assert (await found.run("true"))[0]
        before, tasks = descriptors(), len(asyncio.all_tasks())
        running = await started(found.shell, flood, LIMITS)
        await until(lambda: b"flooded" in running.tail() and found.world.open == 10)
        assert await found.run("curl -sS http://shop.test/") == (True, "hello")
        assert (found.world.open, len(found.world.dialled)) == (10, 11)
        await running.stop(0.0)
        await until(lambda: found.world.open == 0 and len(asyncio.all_tasks()) <= tasks)
        await until(lambda: descriptors() <= before)


@pytest.mark.parametrize("how", ["stop", "deadline", "supervisor killed", "first process ends"])
async def test_the_end_of_a_command_ends_its_connections_wherever_they_stand(tmp_path: Path, how: str) -> None:
    hosts: dict[tuple[str, int], Serve] = {SHOP: say_nothing}
    async with world(hosts) as far:
        supervisor = SupervisorClient(str(tmp_path / "state"))
        async with opened("sandbox", tmp_path / "ws", supervisor=supervisor, proxy=GuardedProxy(far.dial)) as shell:
            assert (await ran(shell, "true", LIMITS))[0].ok
            before, tasks = descriptors(), len(asyncio.all_tasks())
            limits = CommandLimits(seconds=1.0 if how == "deadline" else 30.0, network=True)
            wait = "wait" if how != "first process ends" else "read -r x"
            line = f"curl -sSp http://shop.test/ & curl -sS http://shop.test/ & {wait}"
            running = await started(shell, line, limits, stdin=None)
            await until(lambda: far.open == 2)
            if how == "stop":
                await running.stop(0.0)
            elif how == "supervisor killed":
                os.kill(supervisor._pid, 9)
            elif how == "first process ends":
                await running.close_stdin()
            await running.wait()
            await until(lambda: far.open == 0 and len(asyncio.all_tasks()) <= tasks)
            slack = 3 if how == "supervisor killed" else 0
            await until(lambda: descriptors() <= before + slack)


async def test_a_start_that_is_called_off_leaves_no_process_task_or_descriptor(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        assert (await found.run("true"))[0]
        before, tasks, mark = descriptors(), len(asyncio.all_tasks()), marker()
        for turns in range(0, 60, 3):
            start = asyncio.create_task(started(found.shell, f"sleep {mark}", LIMITS))
            for _ in range(turns):
                await asyncio.sleep(0.0005)
            start.cancel()
            await asyncio.wait([start])
            if not start.cancelled():
                await start.result().stop(0.0)
        await until(lambda: not left(mark) and len(asyncio.all_tasks()) <= tasks)
        await until(lambda: descriptors() <= before)


async def test_a_sandbox_that_cannot_be_made_tells_its_own_reason(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        ended, text = await ran(found.shell, "true", LIMITS, held=("/proc/no/such", b"x"))
        assert (ended.code, "bwrap: " in text) == (126, True)


@pytest.mark.parametrize("told", ["a network that is gone", "the network of this machine", "nothing that can be read"])
async def test_where_no_network_can_be_entered_nothing_runs_and_no_port_of_this_machine_is_taken(
    tmp_path: Path, told: str
) -> None:
    inode = {"a network that is gone": 1, "the network of this machine": os.stat("/proc/self/ns/net").st_ino}  # noqa: PTH116
    said = f'{{"child-pid": {os.getpid()}, "net-namespace": {inode[told]}}}' if told in inode else "{x}"
    program, mark = tmp_path / "bwrap", marker()
    program.write_text(
        '#!/bin/bash\n[ -e /proc/self/fd/104 ] || exec /usr/bin/bwrap "$@"\n'
        f"printf '{said}' >&104; read -u 105; sleep {mark}\n"
    )
    program.chmod(0o755)
    (tmp_path / "ws").mkdir()
    supervisor = SupervisorClient()
    shell = Bubblewrap(str(tmp_path / "ws"), supervisor, program=str(program), proxy=GuardedProxy(World({}).dial))
    try:
        try:
            await shell.describe()
        except ToolError as error:
            give_up(error)
        with pytest.raises(ToolError, match="cannot be given a network here"):
            await shell.start(Command(line="true", env=ENV), LIMITS)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", 880), 5)
        assert not left(mark)
    finally:
        await supervisor.close()
    assert not left(mark)


async def test_no_descriptor_of_the_network_is_inherited(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        _, text = await found.run("ls /proc/self/fd")
        assert text.split() == ["0", "1", "2", "3"]
        _, text = await found.run("tty; ls /proc/self/fd", pty=(80, 24))
        assert text.split()[1:] == ["0", "1", "2", "3"]
