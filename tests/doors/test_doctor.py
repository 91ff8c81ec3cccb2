"""toolcrib doctor: what is missing here, which tools that costs and what to do; quickly, and without telling a key."""

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import monotonic
from typing import Any

import apsw
import pytest

import toolcrib
from toolcrib.backends.models.known import KNOWN

from .world import Answer, ask, crib_file, plugin_folder

Capture = pytest.CaptureFixture[str]

KEY = "sk-never-to-be-seen-0123456789"
SITE = Path(pytest.__file__).parent.parent


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for provider in KNOWN.values():
        for name in provider.keys:
            monkeypatch.delenv(name, raising=False)


def row(answer: Answer, what: str) -> dict[str, Any]:
    """Return the one row about something."""
    rows: list[dict[str, Any]] = [each for each in answer.json["checks"] if each["what"] == what]
    assert len(rows) == 1, answer.out
    return rows[0]


def masked(*paths: Path | str, env: dict[str, str] | None = None) -> Answer:
    """Run the doctor on this machine without some of its files and folders; they are hidden, not taken away."""
    words = ["bwrap", "--dev-bind", "/", "/"]
    for path in paths:
        words += ["--tmpfs", str(path)] if Path(path).is_dir() else ["--ro-bind", "/dev/null", str(path)]
    words += [sys.executable, "-m", "toolcrib", "doctor", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, env={**os.environ, **(env or {})})
    return Answer(done.returncode, done.stdout, done.stderr)


# ---- a machine where all is well


def test_where_everything_works_it_says_so_and_leaves_nothing_behind(tmp_path: Path, capsys: Capture) -> None:
    began = monotonic()
    answer = ask(capsys, "doctor")
    assert (answer.code, answer.err) == (0, ""), answer
    assert answer.out.endswith("everything that is needed works\n")
    assert monotonic() - began < 50
    assert not (tmp_path / "home" / "state").exists(), "to look makes nothing"
    rows = ask(capsys, "doctor", "--json").json
    assert rows["failing"] == 0
    names = [each["what"] for each in rows["checks"]]
    assert names[:14] == [
        "python", "sandbox", "ripgrep", "git", "tesseract", "pillow", "trafilatura", "pypdf", "wordllama", "pyte",
        "mcp", "uvicorn", "prompt_toolkit", "rich",
    ]  # fmt: skip
    assert {"workspace", "state", "configuration", "model", "terminal"} <= set(names)
    for each in rows["checks"]:
        assert each["state"] == "ok" or each["remedy"], each


def test_it_says_what_tools_may_fetch_and_which_rule_refuses_an_address(tmp_path: Path, capsys: Capture) -> None:
    opened = "web: {ssrf: {allowPrivate: ['10.1.2.3:8080']}}\ntools: {hosts: {deny: [bad.example]}}"
    file = crib_file(tmp_path, opened)
    told = ask(capsys, "doctor", "--json", "--config", file, "--reach", "http://0x0a.1.515:8080/")
    assert row(told, "web")["found"] == (
        "tools may fetch from addresses of the internet, and 10.1.2.3:8080; not bad.example"
    )
    assert row(told, "reach")["found"] == "http://10.1.2.3:8080/ may be fetched"
    for url, words in (
        ("http://10.1.2.3/", "10.1.2.3 is of 10.0.0.0/8; web.ssrf.allowPrivate opens it"),
        ("https://bad.example/", "tools.hosts.deny names it"),
        ("gopher://x/", "'gopher' is no scheme of web pages"),
    ):
        answer = ask(capsys, "doctor", "--json", "--config", file, "--reach", url)
        assert answer.code == 1
        assert words in row(answer, "reach")["found"]


def test_it_knows_of_the_gateway(tmp_path: Path, capsys: Capture) -> None:
    afar = "gateway: {bind: lan, auth: {token: 'Xw3-a-token-of-the-configuration-9'}}"
    assert row(ask(capsys, "doctor", "--json"), "gateway")["found"].startswith("none runs")
    told = row(ask(capsys, "doctor", "--json", "--config", crib_file(tmp_path, afar)), "gateway")
    assert ("beyond this machine" in told["found"], "TLS" in told["remedy"]) == (True, True)
    state = tmp_path / "home" / "state" / "toolcrib"
    state.mkdir(mode=0o700, parents=True)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        address = {"url": f"ws://127.0.0.1:{deaf.getsockname()[1]}", "pid": os.getpid(), "tokenFile": None}
        (state / "gateway.json").write_text(json.dumps(address))
        told = row(ask(capsys, "doctor", "--json"), "gateway")
        assert (told["state"], "does not answer" in told["found"]) == ("broken", True)
    (state / "gateway.token").write_text("a-token-that-is-long-enough\n")
    (state / "gateway.token").chmod(0o640)
    told = row(ask(capsys, "doctor", "--json"), "gateway")
    assert (told["state"], "others can read" in told["found"]) == ("broken", True)


def test_what_a_granted_network_reaches_is_told(tmp_path: Path, capsys: Capture) -> None:
    for text, is_told in (("tools: {exec: {network: true}}", True), ("sandbox: {network: true}", True), ("{}", False)):
        rows = ask(capsys, "doctor", "--json", "--config", crib_file(tmp_path, text)).json["checks"]
        (sandbox,) = (each for each in rows if each["what"] == "sandbox")
        assert ("go out by a proxy to what web.ssrf permits" in sandbox["found"]) is is_told


def test_a_row_that_is_not_good_says_below_what_it_costs_and_what_to_do(tmp_path: Path, capsys: Capture) -> None:
    crib = crib_file(tmp_path, "mcpServers: {notes: {command: no-such-program-here}}")
    answer = ask(capsys, "doctor", "--config", crib)
    lines = answer.out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("mcp notes"))
    assert lines[at].split()[2] == "missing"
    assert lines[at + 1].strip() == "costs: notes__*"
    assert lines[at + 2].strip().startswith("do:    install it, or write its whole path")
    assert (answer.code, lines[-1]) == (1, "one thing does not work")


def test_an_mcp_server_is_looked_for_and_not_started(tmp_path: Path, capsys: Capture) -> None:
    program = tmp_path / "serve"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    program.chmod(0o700)
    servers = {"here": {"command": str(program)}, "there": {"url": "https://mcp.invalid/mcp"}}
    crib = crib_file(tmp_path, json.dumps({"mcpServers": servers}), "crib.json")
    answer = ask(capsys, "doctor", "--config", crib, "--json")
    assert (answer.code, answer.err) == (0, "")
    assert row(answer, "mcp here")["found"] == str(program)
    assert row(answer, "mcp there")["found"] == "at an address, which was not asked"
    assert not (tmp_path / "started").exists()


# ---- programs and packages


def test_without_bubblewrap_commands_are_lost_and_the_package_is_named() -> None:
    answer = masked("/usr/bin/bwrap")
    sandbox = row(answer, "sandbox")
    assert answer.code == 1
    assert (sandbox["state"], sandbox["tools"]) == ("missing", ["exec", "process"])
    assert "bubblewrap" in sandbox["remedy"]
    assert "is not installed" in sandbox["found"]


def test_a_sandbox_is_not_needed_where_commands_run_on_the_host(tmp_path: Path) -> None:
    crib = crib_file(tmp_path, "tools: {exec: {host: host}}")
    answer = masked("/usr/bin/bwrap", env={"TOOLCRIB_CONFIG": str(crib)})
    sandbox = row(answer, "sandbox")
    assert (answer.code, sandbox["state"], sandbox["tools"]) == (0, "missing", [])


def test_a_bubblewrap_that_makes_no_sandbox_is_told_from_one_that_is_not_there() -> None:
    words = ["bwrap", "--dev-bind", "/", "/", "--unshare-user", "--disable-userns", "--cap-drop", "ALL"]
    done = subprocess.run(
        [*words, sys.executable, "-m", "toolcrib", "doctor", "--json"], capture_output=True, text=True, timeout=120
    )
    answer = Answer(done.returncode, done.stdout, done.stderr)
    sandbox = row(answer, "sandbox")
    assert (answer.code, sandbox["state"], sandbox["tools"]) == (1, "broken", ["exec", "process"])
    assert "cannot be made here" in sandbox["found"]


def test_packages_that_are_missing_cost_no_tool_and_each_names_its_command() -> None:
    answer = masked(*(SITE / name for name in ("pyte", "PIL", "mcp", "prompt_toolkit", "rich")))
    assert answer.code == 0
    for name, asked in {
        "pyte": "toolcrib[terminal]", "pillow": "toolcrib[media]", "mcp": "toolcrib[mcp]",
        "prompt_toolkit": "prompt_toolkit rich", "rich": "prompt_toolkit rich",
    }.items():  # fmt: skip
        found = row(answer, name)
        assert (found["state"], found["tools"]) == ("missing", [])
        assert found["less"]
        assert asked in found["remedy"]
        assert found["remedy"].startswith(sys.executable)


def test_programs_that_are_not_on_the_path_cost_no_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    rg = Path(sys.executable).with_name("rg")
    done = subprocess.run(
        [shutil.which("bwrap", path="/usr/bin:/bin") or "bwrap", "--dev-bind", "/", "/", "--ro-bind", "/dev/null",
         str(rg), sys.executable, "-m", "toolcrib", "doctor", "--json"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    answer = Answer(done.returncode, done.stdout, done.stderr)
    assert answer.code == 0
    for name in ("git", "ripgrep"):
        assert (row(answer, name)["state"], row(answer, name)["tools"]) == ("missing", [])
        assert row(answer, name)["remedy"]


# ---- what is kept


def recorded(folder: Path) -> Path:
    """Return a state folder with a record of one call in it."""

    async def call() -> None:
        async with toolcrib.open({}, state=folder, env={}) as crib:
            await crib.belt(toolcrib.OWNER).call("ls", {})

    asyncio.run(call())
    return folder


def test_a_record_that_is_whole_is_told_from_one_that_was_altered(tmp_path: Path, capsys: Capture) -> None:
    state = recorded(tmp_path / "home" / "state" / "toolcrib")
    answer = ask(capsys, "doctor", "--json")
    assert (answer.code, row(answer, "record")["state"]) == (0, "ok")
    db = apsw.Connection(str(state / "crib.db"))
    db.execute("UPDATE record SET at = at + 1 WHERE seq = 2")
    db.close()
    answer = ask(capsys, "doctor", "--json")
    assert (answer.code, row(answer, "record")["state"]) == (1, "broken")
    assert row(answer, "record")["remedy"] == "toolcrib audit verify"


def test_a_store_that_cannot_be_read_costs_every_tool(tmp_path: Path, capsys: Capture) -> None:
    state = tmp_path / "home" / "state" / "toolcrib"
    state.mkdir(parents=True)
    (state / "crib.db").write_text("no database")
    answer = ask(capsys, "doctor", "--json")
    assert (answer.code, row(answer, "record")["tools"]) == (1, ["*"])
    assert row(answer, "record")["remedy"].endswith(f"mkdir {state / 'old'}; mv {state / 'crib.db'}* {state / 'old'}")


@pytest.mark.parametrize("is_damaged", [False, True])
def test_looking_changes_nothing(tmp_path: Path, capsys: Capture, is_damaged: bool) -> None:
    state = recorded(tmp_path / "home" / "state" / "toolcrib")
    if is_damaged:
        (state / "crib.db").write_bytes((state / "crib.db").read_bytes()[:5000])
    before = everything_in(tmp_path)
    answer = ask(capsys, "doctor", "--json")
    assert row(answer, "record")["state"] == ("broken" if is_damaged else "ok")
    assert everything_in(tmp_path) == before


def everything_in(folder: Path) -> dict[Path, bytes]:
    """All files but the one in which those who read a store at this moment know of each other."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "crib.db-shm"}


def test_a_file_where_the_state_folder_should_be_costs_every_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    in_the_way = tmp_path / "taken"
    in_the_way.write_text("")
    monkeypatch.setenv("TOOLCRIB_STATE", str(in_the_way / "state"))
    answer = ask(capsys, "doctor", "--json")
    state = row(answer, "state")
    assert (answer.code, state["state"], state["tools"]) == (1, "broken", ["*"])
    assert f"{in_the_way} is in the way" in state["found"]


def test_a_workspace_that_is_not_there_costs_the_tools_for_files_and_commands(tmp_path: Path, capsys: Capture) -> None:
    crib = crib_file(tmp_path, f"workspace: {{root: {tmp_path}/nowhere}}")
    workspace = row(ask(capsys, "doctor", "--config", crib, "--json"), "workspace")
    assert workspace["state"] == "broken"
    assert {"read", "write", "exec"} <= set(workspace["tools"])


# ---- the configuration


@pytest.mark.parametrize("text", ["tools: {denny: [exec]}", "tools: [", "owners: 7"])
def test_a_configuration_that_cannot_be_used_is_one_row_and_the_rest_is_looked_at(
    tmp_path: Path, text: str, capsys: Capture
) -> None:
    answer = ask(capsys, "doctor", "--config", crib_file(tmp_path, text), "--json")
    configuration = row(answer, "configuration")
    assert (answer.code, configuration["state"], configuration["tools"]) == (1, "broken", ["*"])
    assert "crib.yaml" in configuration["found"]
    assert row(answer, "sandbox")["state"] == "ok"
    assert "model" not in [each["what"] for each in answer.json["checks"]], "nobody knows which is meant"


def test_a_broken_promise_is_broken_and_a_warning_is_only_told(tmp_path: Path, capsys: Capture) -> None:
    promise = crib_file(tmp_path, "{tools: {deny: [exec]}, expect: [{has: [exec]}]}", "promise.yaml")
    answer = ask(capsys, "doctor", "--config", promise, "--json")
    assert (answer.code, row(answer, "configuration")["state"]) == (1, "broken")
    assert "1 error" in row(answer, "configuration")["found"]
    warning = crib_file(tmp_path, "tools: {deny: [exce]}", "warning.yaml")
    answer = ask(capsys, "doctor", "--config", warning, "--json")
    assert (answer.code, row(answer, "configuration")["state"]) == (0, "ok")
    assert row(answer, "configuration")["found"] == f"{warning}: 1 warning"
    assert row(answer, "configuration")["remedy"] == "toolcrib lint"


def test_a_plugin_that_cannot_be_taken_in_is_told_and_fails_where_it_is_wanted(tmp_path: Path, capsys: Capture) -> None:
    folder = plugin_folder(tmp_path / "plugins", manifest="{")
    unwanted = crib_file(tmp_path, f"plugins: {{folders: ['{folder}']}}", "unwanted.yaml")
    answer = ask(capsys, "doctor", "--config", unwanted, "--json")
    assert (answer.code, row(answer, "plugins")["state"]) == (0, "missing")
    assert "is no JSON" in row(answer, "plugins")["found"]
    wanted = crib_file(tmp_path, f"plugins: {{folders: ['{folder}'], allow: [dice]}}", "wanted.yaml")
    answer = ask(capsys, "doctor", "--config", wanted, "--json")
    assert (answer.code, row(answer, "configuration")["state"]) == (1, "broken")
    assert "is no JSON" in row(answer, "configuration")["found"]


# ---- models


class Models(BaseHTTPRequestHandler):
    """A server that has models, as ollama, vLLM and llama.cpp say it."""

    def do_GET(self) -> None:
        heard = self.server
        assert isinstance(heard, Heard)
        heard.requests.append((self.path, dict(self.headers)))
        body = json.dumps({"object": "list", "data": [{"id": "tiny"}, {"id": "big:latest"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class Heard(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Models)
        self.requests: list[tuple[str, dict[str, str]]] = []


@contextmanager
def served() -> Iterator[Heard]:
    with Heard() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(60)


def model_row(capsys: Capture, folder: Path, config: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    answer = ask(capsys, "doctor", "--config", crib_file(folder, json.dumps(config), "crib.json"), "--json")
    assert KEY not in answer.out + answer.err
    return answer.code, row(answer, "model")


def test_without_any_key_the_offline_model_answers_and_that_is_enough(capsys: Capture) -> None:
    answer = ask(capsys, "doctor", "--json")
    model = row(answer, "model")
    assert (answer.code, model["state"]) == (0, "missing")
    assert "offline" in model["found"]
    assert "API_KEY" in model["remedy"] or "models.default" in model["remedy"], "a server may run on this machine"


def test_a_key_is_named_and_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setenv("MISTRAL_API_KEY", KEY)
    code, model = model_row(capsys, tmp_path, {})
    assert (code, model["state"]) == (0, "ok")
    assert model["found"] == "mistral:mistral-large-latest, with the key in MISTRAL_API_KEY"
    code, model = model_row(capsys, tmp_path, {"models": {"default": "openai:gpt-5", "openai": {"apiKey": KEY}}})
    assert (code, model["found"]) == (0, "openai:gpt-5, with the key of the configuration")


def test_a_model_without_its_key_is_broken(tmp_path: Path, capsys: Capture) -> None:
    code, model = model_row(capsys, tmp_path, {"models": {"default": "openai:gpt-5"}})
    assert (code, model["state"]) == (1, "broken")
    assert "OPENAI_API_KEY" in model["found"]


def test_a_server_on_this_machine_is_asked_for_its_models_without_a_key(tmp_path: Path, capsys: Capture) -> None:
    with served() as server:
        given = {"baseUrl": f"http://user:{KEY}@127.0.0.1:{server.server_port}/v1", "apiKey": KEY}
        for name, state in {"tiny": "ok", "big": "ok", "other": "broken"}.items():
            code, model = model_row(capsys, tmp_path, {"models": {"default": f"vllm:{name}", "vllm": given}})
            assert (code, model["state"]) == (int(state == "broken"), state)
        assert model["remedy"] == "set models.default: vllm:tiny"
        assert [path for path, _ in server.requests] == ["/v1/models"] * 3
        assert KEY not in str(server.requests)
        assert not [name for _, headers in server.requests for name in headers if name.lower() == "authorization"]


def test_where_nobody_has_a_key_a_server_on_this_machine_is_the_way_out(tmp_path: Path, capsys: Capture) -> None:
    with served() as server:
        given = {"lmstudio": {"baseUrl": f"http://localhost:{server.server_port}/v1"}}
        code, model = model_row(capsys, tmp_path, {"models": given})
    assert (code, model["state"], model["remedy"]) == (0, "missing", "set models.default: lmstudio:tiny")


def test_a_server_that_is_down_or_never_answers_is_broken_and_holds_nothing_up(tmp_path: Path, capsys: Capture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        config = {"models": {"default": "ollama:tiny", "ollama": {"baseUrl": f"http://127.0.0.1:{port}/v1"}}}
        began = monotonic()
        for _ in range(2):
            code, model = model_row(capsys, tmp_path, config)
            assert (code, model["state"], model["remedy"]) == (1, "broken", "ollama serve")
            assert "nothing answers at" in model["found"]
            silent.close()
        assert monotonic() - began < 60


def test_a_server_elsewhere_is_not_asked(tmp_path: Path, capsys: Capture) -> None:
    """This machine's own address counts as elsewhere when it is not loopback."""
    with socket.create_server(("0.0.0.0", 0)) as listening:
        listening.setblocking(False)
        url = f"http://{socket.gethostname()}:{listening.getsockname()[1]}/v1"
        code, model = model_row(capsys, tmp_path, {"models": {"default": "vllm:x", "vllm": {"baseUrl": url}}})
        with pytest.raises(BlockingIOError):
            listening.accept()
    assert (code, model["found"]) == (0, "vllm:x, without a key")


# ---- the terminal


def test_a_terminal_without_utf_8_is_told_and_costs_no_tool() -> None:
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    words = [sys.executable, "-m", "toolcrib", "doctor", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, env=env)
    terminal = row(Answer(done.returncode, done.stdout, done.stderr), "terminal")
    assert (done.returncode, terminal["state"], terminal["found"]) == (0, "missing", "no terminal, ASCII")
    assert terminal["remedy"] == "export LANG=C.UTF-8"
