"""Nothing that a start loads is taken from a workspace that its owner did not accept, whatever words name it."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from tests.backends.mcp.world import LIAR
from tests.doors.gateway.test_near_and_far import gateway, state  # noqa: F401  a fixture
from toolcrib import OWNER
from toolcrib.backends.models.local import _Server
from toolcrib.doors.cli.main import run as run_command

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="  # one of PNG
NAMES = ("json", "typing", "os", "time", "pathlib", "contextlib", "socket", "helper")


class Place:
    """A workspace that a model has written to, and a folder outside of it with an honest server."""

    def __init__(self, folder: Path) -> None:
        self.ws, self.outside, self.state = folder / "ws", folder / "outside", folder / "state"
        self.hit = folder / "HIT"
        for each in (self.ws, self.outside):
            each.mkdir()
        self.put(self.outside / "honest" / "server.py", "import helper\n" + LIAR.read_text())
        self.put(self.outside / "honest" / "helper.py", "")
        self.put(self.outside / "honest" / "__init__.py", "")

    def put(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def poison(self, *folders: str) -> None:
        """Write what a model would: modules under every name that a server might import."""
        for folder in folders:
            for name in NAMES:
                self.put(self.ws / folder / f"{name}.py", f"open({str(self.hit)!r}, 'w')\n")

    def fill(self, value: Any) -> Any:
        places = {"<ws>": self.ws, "<out>": self.outside, "<python>": sys.executable}
        return json.loads(re.sub(r"<\w+>", lambda found: str(places[found[0]]), json.dumps(value)))

    async def start(self, server: Mapping[str, Any]) -> tuple[bool, str]:
        """Start a crib with this server; tell whether its tool answers, and what is wrong with it."""
        config = {"workspace": {"root": str(self.ws)}, "mcpServers": {"srv": self.fill(server)}}
        async with toolcrib.open(config, state=self.state) as crib:
            await crib.mcp.ready(60.0)
            result = await crib.belt(OWNER).call("srv__echo", {"text": "hi"})
            problems = [each.sentence for each in crib.catalog.problems]
            return result.status == "ok", problems[0] if problems else ""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    place = Place(tmp_path)
    monkeypatch.setenv("TOOLCRIB_STATE", str(place.state))
    monkeypatch.chdir(place.ws)
    return place


def accept(sentence: str) -> None:
    assert run_command(shlex.split(sentence.rpartition("`toolcrib ")[2].partition("`")[0])) == 0


ELSEWHERE = [
    (
        "a module of Python",
        {"command": "<python>", "args": ["-m", "honest.server", "honest"], "env": {"PYTHONPATH": "<out>:<out>/honest"}},
    ),
    ("a script with a module beside it", {"command": "<python>", "args": ["<out>/honest/server.py", "honest"]}),
    (
        "a runner on the PATH",
        {"command": "runner", "args": ["-y", "@good/server"], "env": {"PATH": "<out>/bin:/usr/bin:/bin"}},
    ),
    ("a script and its cwd", {"command": "<python>", "args": ["server.py", "honest"], "cwd": "<out>/honest"}),
    ("one that works on the workspace", {"command": "<python>", "args": ["<out>/honest/server.py", "honest", "<ws>"]}),
]


@pytest.mark.parametrize("server", [row[1] for row in ELSEWHERE], ids=[row[0] for row in ELSEWHERE])
async def test_a_server_from_elsewhere_starts_and_loads_nothing_of_the_workspace(
    server: Mapping[str, Any], place: Place
) -> None:
    place.put(
        place.outside / "bin" / "runner", f"#!/bin/sh\nexec {sys.executable} {place.outside}/honest/server.py honest\n"
    )
    place.poison("", "node_modules/@good/server")
    place.put(place.ws / "package.json", "{}")
    assert await place.start(server) == (True, "")
    assert not place.hit.exists()


async def test_an_accepted_script_takes_no_module_beside_it(place: Place) -> None:
    shutil.copy(LIAR, place.ws / "server.py")
    server = {"command": "<python>", "args": ["server.py", "honest"]}
    accept((await place.start(server))[1])
    place.poison("")
    assert await place.start(server) == (True, "")
    assert not place.hit.exists()


BELOW = {"command": "sh", "args": ["<out>/run.sh"], "cwd": "<ws>/app"}
# how a start would load something of the workspace besides what its words name, and where that lies
AROUND: list[tuple[str, Mapping[str, Any], str]] = [
    ("its cwd", {"command": "<python>", "args": ["-m", "srv"], "cwd": "<ws>"}, "json.py"),
    ("its cwd below a workspace", BELOW, "app/x.py"),
    ("packages above its cwd", BELOW, "node_modules/zod/index.js"),
    ("settings above its cwd", BELOW, "package.json"),
    ("what a script of a shell reads", {"command": "sh", "args": ["app/run.sh"]}, "app/lib.sh"),
    ("packages above a script", {"command": "node", "args": ["<ws>/app/run.js"]}, "node_modules/zod/index.js"),
    ("a path", {"command": "<python>", "args": ["-c", ""], "env": {"PYTHONPATH": "<ws>/lib"}}, "lib/json.py"),
    ("one path of two", {"command": "node", "args": ["-"], "env": {"NODE_PATH": "<out>:<ws>/lib"}}, "lib/z.js"),
]


@pytest.mark.parametrize(("server", "file"), [row[1:] for row in AROUND], ids=[row[0] for row in AROUND])
async def test_what_a_start_finds_around_its_words_is_part_of_what_is_accepted(
    server: Mapping[str, Any], file: str, place: Place
) -> None:
    for name in ("app/run.sh", "app/run.js", "lib/a.py", "srv.py", file):
        place.put(place.ws / name, "")
    place.put(place.outside / "run.sh", "")
    for _ in range(4):  # each part is named by a sentence of its own
        sentence = (await place.start(server))[1]
        if "nobody has accepted it" not in sentence:
            break
        accept(sentence)
    assert "accepted" not in sentence
    place.put(place.ws / file, "changed")
    assert "it changed since it was accepted" in (await place.start(server))[1]


async def test_an_environment_in_a_workspace_is_accepted_as_a_whole_or_not_at_all(place: Place) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place.ws / ".venv"], check=True, timeout=120)
    server = {"command": ".venv/bin/python", "args": [str(place.outside / "honest" / "server.py"), "honest"]}
    works, sentence = await place.start(server)
    assert (works, "link that leads out" in sentence or "nobody has accepted" in sentence) == (False, True)


async def test_a_link_in_a_workspace_is_what_it_leads_to_now(place: Place) -> None:
    (place.ws / "serve").symlink_to(place.outside / "honest" / "server.py")
    server = {"command": "<python>", "args": ["serve", "honest"]}
    works, sentence = await place.start(server)
    assert (works, "is a link that leads out" in sentence) == (False, True), sentence


@pytest.mark.parametrize("word", [".", "..", "data", "./data/"])
async def test_a_folder_of_where_toolcrib_stands_needs_a_whole_name_or_a_cwd(word: str, place: Place) -> None:
    (place.ws / "data").mkdir()
    works, sentence = await place.start({"command": "<python>", "args": ["<out>/honest/server.py", "honest", word]})
    assert (works, f"args[2] {word!r} is a folder here" in sentence, "write cwd" in sentence) == (False, True, True)


def test_the_model_of_this_machine_is_started_outside(place: Place) -> None:
    place.poison("")
    with pytest.raises(toolcrib.CribError, match=r"llama\.cpp could not load"):
        _Server(place.outside / "weights.gguf")
    assert not place.hit.exists()


def test_a_gateway_that_starts_anew_loads_nothing_of_its_folder(state: Path) -> None:  # noqa: F811
    hit, work = state.parent / "HIT", state.parent / "work"
    with gateway(state) as (process, _):
        for name in NAMES:
            (work / f"{name}.py").write_text(f"open({str(hit)!r}, 'w')\n")
        command = [str(Path(sys.executable).with_name("toolcrib")), "gateway", "restart"]
        environment = {**os.environ, "TOOLCRIB_STATE": str(state)}
        assert subprocess.run(command, env=environment, cwd=state.parent, timeout=120, check=False).returncode == 0
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        assert next(line for line in lines if "the gateway starts anew" in line)
        assert next(line for line in lines if "the gateway is at" in line)
    assert not hit.exists()


GIVEN: list[tuple[str, Mapping[str, Any]]] = [
    ("a script without a suffix", {"command": "<python>", "args": ["-X", "utf8", "<ws>/start"]}),
    ("a packed script", {"command": "<python>", "args": ["-u", "<ws>/start.pyz"]}),
    ("a folder of node", {"command": "node", "args": ["<ws>/app"]}),
    ("what is loaded before", {"command": "node", "args": ["--require", "<ws>/start", "<out>/s.js"]}),
    ("what is loaded before, in one word", {"command": "node", "args": ["-r<ws>/start", "<out>/s.js"]}),
    ("a script of a shell", {"command": "nice", "args": ["-n", "5", "sh", "-x", "<ws>/start"]}),
    ("what a line of a shell reads", {"command": "sh", "args": ["-c", ". <ws>/start; exec true"]}),
    ("what a line of a shell is fed", {"command": "sh", "args": ["-c", "sh <<ws>/start"]}),
    ("where a line of a shell goes", {"command": "bash", "args": ["-c", "cd '<ws>' && exec python3 -m srv"]}),
    ("where it goes by a variable", {"command": "sh", "args": ["-c", 'cd "$D"; npx x'], "env": {"D": "<ws>"}}),
    ("where a wrapper goes", {"command": "env", "args": ["--chdir=<ws>", "<python>", "-m", "srv"]}),
    ("a path that a wrapper sets", {"command": "env", "args": ["PYTHONPATH=<ws>/app", "<python>", "-m", "srv"]}),
    ("what a line of Python reads", {"command": "<python>", "args": ["-c", "exec(open('<ws>/start').read())"]}),
    ("what a shell reads first", {"command": "bash", "args": ["-c", "true"], "env": {"BASH_ENV": "<ws>/start"}}),
    ("settings of a runner", {"command": "uvx", "args": ["x"], "env": {"UV_CONFIG_FILE": "<ws>/start"}}),
    ("packages of a user", {"command": "<python>", "args": ["-m", "srv"], "env": {"PYTHONUSERBASE": "<ws>/app"}}),
    ("settings of zsh", {"command": "sh", "args": ["-c", "true"], "env": {"ZDOTDIR": "<ws>/app"}}),
    ("a file of pipenv", {"command": "sh", "args": ["-c", "true"], "env": {"PIPENV_PIPFILE": "<ws>/start"}}),
    ("a file of just", {"command": "just", "args": ["--justfile", "<ws>/start"]}),
    ("a package of npx", {"command": "npx", "args": ["-y", "file:<ws>/app"]}),
    ("a folder of npm", {"command": "npm", "args": ["run", "mcp", "--prefix", "<ws>/app"]}),
    ("a project of uv", {"command": "uv", "args": ["--directory", "<ws>/app", "run", "srv"]}),
    ("a package of uvx", {"command": "uvx", "args": ["--from", "srv @ file://<ws>/app", "srv"]}),
    ("options of Ruby", {"command": "ruby", "args": ["<out>/s.rb"], "env": {"RUBYOPT": "-W0 -r<ws>/start"}}),
    ("options of Perl", {"command": "perl", "args": ["<out>/s.pl"], "env": {"PERL5OPT": "-I<ws>/app"}}),
    ("packages of Ruby", {"command": "ruby", "args": ["<out>/s.rb"], "env": {"BUNDLE_GEMFILE": "<ws>/start"}}),
    ("one of several folders", {"command": "java", "args": ["-cp", "<out>:<ws>/app", "M"]}),
    ("all of a folder", {"command": "java", "args": ["-cp", "<ws>/app/*", "M"]}),
    ("a file of options", {"command": "java", "args": ["@<ws>/start"]}),
    ("a library", {"command": "java", "args": ["-agentpath:<ws>/start", "M"]}),
    ("a name without its suffix", {"command": "ruby", "args": ["-r<ws>/app/lib", "<out>/s.rb"]}),
    ("a setting in an option", {"command": "php", "args": ["-d", "auto_prepend_file=<ws>/start", "<out>/s.php"]}),
    ("what a line of node reads", {"command": "node", "args": ["-p", "require('<ws>/start')"]}),
    ("what a runner has run", {"command": "bundle", "args": ["exec", "ruby", "<ws>/start"]}),
    ("what is watched", {"command": "tsx", "args": ["watch", "<ws>/start"]}),
    ("files of make", {"command": "make", "args": ["mcp"], "env": {"MAKEFLAGS": "-f <ws>/start"}}),
    ("settings of Go", {"command": "go", "args": ["run", "x.test/y"], "env": {"GOENV": "<ws>/start"}}),
    ("services of Docker", {"command": "docker", "args": ["compose", "-f", "<ws>/start", "run", "-T", "srv"]}),
    (
        "services of Docker, by a variable",
        {"command": "docker", "args": ["compose", "run", "srv"], "env": {"COMPOSE_FILE": "<ws>/start"}},
    ),
]


@pytest.mark.parametrize("server", [row[1] for row in GIVEN], ids=[row[0] for row in GIVEN])
async def test_what_runs_code_is_given_nothing_of_a_workspace_that_nobody_accepted(
    server: Mapping[str, Any], place: Place
) -> None:
    for name in ("start", "start.pyz", "app/start", "app/package.json", "app/lib.rb"):
        place.put(place.ws / name, "{}")
        (place.ws / name).chmod(0o644)
    for name in ("uv", "uvx", "just"):
        place.put(place.outside / "bin" / name, "#!/bin/sh\n")
    settings = {"PATH": f"{place.outside}/bin:/usr/bin:/bin", **server.get("env", {})}
    works, sentence = await place.start({**server, "env": settings})
    assert (works, "nobody has accepted it" in sentence) == (False, True), sentence


DATA: list[tuple[str, Mapping[str, Any]]] = [
    ("behind a script", {"args": ["-u", "<out>/honest/server.py", "honest", "--db", "<ws>/data.db", "<ws>"]}),
    ("behind a module", {"args": ["-m", "server", "honest", "<ws>/data.db"], "env": {"PYTHONPATH": "<out>/honest"}}),
    ("in a line", {"command": "sh", "args": ["-c", "exec <python> <out>/honest/server.py honest <ws> <ws>/data.db"]}),
    (
        "in a container",
        {"command": "<out>/docker", "args": ["run", "-i", "--rm", "-v", "<ws>:/p", "-w", "/p", "img", "/p"]},
    ),
    ("in a container", {"command": "docker", "args": ["run", "--rm", "-i", "-e", "DATA=<ws>/data.db", "img", "<ws>"]}),
    ("in variables", {"env": {"VAULT_PATH": "<ws>/notes", "MEMORY_FILE_PATH": "<ws>/data.db", "ROOT": "<ws>"}}),
]


@pytest.mark.parametrize("server", [row[1] for row in DATA], ids=[row[0] for row in DATA])
async def test_a_server_is_given_the_files_that_it_works_on(server: Mapping[str, Any], place: Place) -> None:
    place.put(place.outside / "docker", f"#!/bin/sh\nexec {sys.executable} {place.outside}/honest/server.py honest\n")
    (place.ws / "data.db").write_text("")
    (place.ws / "notes").mkdir()
    starts = f"#!/bin/sh\nexec {sys.executable} {place.outside}/honest/server.py honest\n"
    place.put(place.outside / "bin" / "docker", starts)
    plain = {"command": "<python>", "args": ["<out>/honest/server.py", "honest"]}
    settings = {"PATH": f"{place.outside}/bin:/usr/bin:/bin", **server.get("env", {})}
    assert await place.start({**plain, **server, "env": settings}) == (True, "")


@pytest.mark.parametrize("folder", ["<ws>/bin", ".", ""])
async def test_no_program_is_looked_for_in_a_workspace_that_the_path_of_a_terminal_has(
    folder: str, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bin/node", "node"):
        place.put(place.ws / name, f"#!/bin/sh\n: > {place.hit}\nexec true\n")
    place.put(
        place.outside / "bin" / "node", f"#!/bin/sh\nexec {sys.executable} {place.outside}/honest/server.py honest\n"
    )
    place.put(place.outside / "bin" / "runner", "#!/usr/bin/env node\n")
    monkeypatch.setenv("PATH", f"{folder.replace('<ws>', str(place.ws))}:{place.outside}/bin:/usr/bin:/bin")
    assert await place.start({"command": "runner"}) == (True, "")
    assert not place.hit.exists()
    if folder == "<ws>/bin":  # one that only that folder has is not replaced by another in silence
        assert "nobody has accepted it" in (await place.start({"command": "node"}))[1]


@pytest.mark.parametrize("stands", ["ws", "outside"])
async def test_no_program_of_ours_is_taken_from_a_workspace(
    stands: str, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(getattr(place, stands))
    for name in ("tesseract", "ffmpeg", "espeak-ng", "chromium", "rg", "git", "bash", "bwrap"):
        place.put(place.ws / "bin" / name, f"#!/bin/sh\n: > {place.hit}\nexit 1\n")
    monkeypatch.setenv("PATH", f"{place.ws}/bin:/usr/bin:/bin")
    picture = f"data:image/png;base64,{PIXEL}"
    async with toolcrib.open({"workspace": {"root": str(place.ws)}}, state=place.state) as crib:
        belt = crib.belt(OWNER)
        for name, args in (
            ("image", {"image": picture}), ("tts", {"text": "hi"}), ("grep", {"pattern": "x"}),
            ("exec", {"command": "git --version"}), ("browser", {"action": "status"}), ("browser", {"action": "start"}),
        ):  # fmt: skip
            told = await belt.call(name, args)
            assert f"{place.ws}/bin" not in told.plain_text, name
    assert not place.hit.exists()


@pytest.mark.parametrize("named", ["<ws>/chrome", "./chrome", "<out>/link", "<ws>/link"])
async def test_a_browser_that_is_named_lies_in_no_workspace(named: str, place: Place) -> None:
    place.put(place.ws / "chrome", f"#!/bin/sh\n: > {place.hit}\nexit 1\n")
    (place.outside / "link").symlink_to(place.ws / "chrome")
    (place.ws / "link").symlink_to("/usr/bin/true")
    config = {"workspace": {"root": str(place.ws)}, "browser": {"executable": place.fill(named)}}
    async with toolcrib.open(config, state=place.state) as crib:
        told = await crib.belt(OWNER).call("browser", {"action": "start"})
    assert "lies in a workspace" in told.plain_text
    assert not place.hit.exists()
