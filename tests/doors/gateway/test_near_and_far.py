"""The same commands with a gateway and without one: the same answers; and `toolcrib gateway` as a process."""

import json
import os
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests import prestarted

from toolcrib import OWNER, Ctx, ToolError, connect, tool
from toolcrib import open as open_crib

pytest.importorskip("websockets", reason="the extra gateway is not installed")

pytestmark = pytest.mark.timeout(300)


def toolcrib(state: Path, *words: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    return prestarted.run(
        [sys.executable, "-m", "toolcrib", *words],
        capture_output=True, text=True, timeout=240, cwd=cwd or state.parent / "work", env=_environment(state, **env),
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


def _environment(state: Path, **env: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TOOLCRIB_")}
    return {**kept, "TOOLCRIB_STATE": str(state), "HOME": str(state.parent / "home"), **env}


@contextmanager
def gateway(state: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a gateway; yield its process and its address."""
    process = prestarted.Popen(
        [sys.executable, "-m", "toolcrib", "gateway", *([] if "--port" in words else ["--port", "0"]), *words],
        stderr=subprocess.PIPE, text=True, cwd=state.parent / "work", env=_environment(state),
    )  # fmt: skip
    try:
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if "the gateway is at ws://127.0.0.1:" in line:
                break
        else:
            pytest.fail(f"it did not start: {''.join(said)}")
        yield process, line.split()[-1]
    finally:
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "state"


@pytest.mark.timeout(300)
def test_commands_answer_the_same_near_and_far(state: Path) -> None:
    assert toolcrib(state, "run", "list the files").returncode == 0
    asked = [line.split() for line in (
        "sessions list --json", "agents list --json", "tools show exec", "explain exec --json", "tools call ls --json",
        "tools call reed --json",
    )]  # fmt: skip
    near = [toolcrib(state, *words) for words in asked]
    with gateway(state) as (_, url):
        found = [toolcrib(state, *words) for words in asked]
        named = toolcrib(state, *asked[0], "--gateway", url)
    for words, *answers in zip(asked, near, found, strict=True):
        first, second = ((each.returncode, each.stdout, each.stderr) for each in answers)
        assert second == first, words
    assert named.stdout == near[0].stdout


def test_a_message_is_answered_by_the_gateway_as_it_would_be_here(state: Path) -> None:
    near = toolcrib(state, "run", "list the files", "--json")
    with gateway(state) as (process, _):
        far = toolcrib(state, "run", "list the files", "--json")
        shown = toolcrib(state, "run", "read nothing.txt", "--continue")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    first, second = ([json.loads(line) for line in each.stdout.splitlines()] for each in (near, far))
    session = second[0]["session"]
    for lines in (first, second):
        for line in lines:
            for name in ("id", "calls", "session"):  # which are new each time
                line.pop(name, None)
    assert (near.returncode, far.returncode, second) == (0, 0, first)
    assert (shown.returncode, "[allow]" in shown.stderr, "does not exist" in shown.stderr) == (1, True, True), shown
    assert session in toolcrib(state, "sessions", "list").stdout  # kept, and gone on with


def test_a_question_about_somebody_else_or_other_files_is_answered_here(state: Path) -> None:
    work = state.parent / "work"
    (work / "crib.yaml").write_text("tools: {deny: [exec]}\n")
    with gateway(state) as (process, url):
        assert "deny" in toolcrib(state, "explain", "exec", "--config", "crib.yaml", "--json").stdout
        assert '"channel": "irc"' in toolcrib(state, "explain", "--channel", "irc", "--json").stdout
        refused = toolcrib(state, "explain", "--no-owner", "--gateway", url)
        assert (refused.returncode, "--owner is a question to a configuration" in refused.stderr) == (2, True)
        (work / "below").mkdir()
        (work / "below" / "mine.txt").write_text("mine\n")
        called = toolcrib(state, "tools", "call", "ls", cwd=work / "below")
        assert (called.stdout.splitlines(), called.returncode) == (["mine.txt"], 0)
        process.kill()
        process.wait()
        assert "crib.yaml" in toolcrib(state, "tools", "call", "ls").stdout


def test_the_token_is_made_once_and_is_nobody_elses(state: Path) -> None:
    with gateway(state):
        first = (state / "gateway.token").read_text()
        assert stat.S_IMODE((state / "gateway.token").stat().st_mode) == 0o600
    with gateway(state):
        assert (state / "gateway.token").read_text() == first
    (state / "gateway.token").chmod(0o644)
    refused = toolcrib(state, "gateway", "--port", "0")
    assert (refused.returncode, "can be read by others" in refused.stderr) == (2, True)


def test_it_stops_in_order_and_takes_its_address_away(state: Path) -> None:
    with gateway(state) as (process, _):
        assert (state / "gateway.json").exists()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    assert not (state / "gateway.json").exists()
    assert toolcrib(state, "sessions", "list").returncode == 0


def test_after_a_kill_commands_do_without_it_and_it_starts_again(state: Path) -> None:
    with gateway(state) as (process, _):
        process.kill()
        process.wait()
        assert (state / "gateway.json").exists()
        assert toolcrib(state, "sessions", "list").returncode == 0
    with gateway(state):
        assert json.loads(toolcrib(state, "sessions", "list", "--json").stdout) == {"sessions": []}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("sessions", "list", "--gateway", "ws://127.0.0.1:9"), "needs a token"),
        (("sessions", "list", "--gateway", "127.0.0.1:9", "--token-file", "token"), "is no address of a gateway"),
        (
            ("gateway", "page", "--gateway", "ws://127.0.0.1:99999", "--token-file", "token"),
            "is no address of a gateway",
        ),
        (("gateway", "page", "--gateway", "ws://[::1", "--token-file", "token"), "is no address of a gateway"),
        (("sessions", "list", "--gateway", "ws://127.0.0.1:9", "--token-file", "token"), "no gateway answers"),
        (("sessions", "list", "--gateway", "ws://127.0.0.1:9", "--token-file", "nothing"), "cannot be read"),
        (("gateway", "--bind", "nowhere"), "is no address"),
        (("gateway", "--bind", "lan"), "needs gateway.auth"),
        (("gateway", "--token-file", "short"), "holds no token"),
        (("gateway", "--port", "1", "status"), "options stand behind status"),
        (("gateway", "instal"), "did you mean 'install'?"),
        (("gateway", "install", "--config", "nothing.yaml"), "nothing.yaml"),
        (("gateway", "install"), "`toolcrib gateway install --print` shows what systemd would run"),
    ],
)
def test_bad_input_gets_one_sentence(state: Path, words: tuple[str, ...], says: str) -> None:
    (state.parent / "work" / "token").write_text("a-token-that-is-long-enough\n")
    (state.parent / "work" / "short").write_text("short\n")
    refused = toolcrib(state, *words)
    assert (refused.returncode, says in refused.stderr, "Traceback" in refused.stderr) == (2, True, False), refused
    assert len(refused.stderr.splitlines()) == 1


def test_beside_a_gateway_with_a_secret_of_its_own_commands_find_it_or_do_without(state: Path) -> None:
    work = state.parent / "work"
    (work / "token").write_text("a-token-that-is-long-enough\n")
    with gateway(state, "--token-file", "token"):
        assert toolcrib(state, "sessions", "list").returncode == 0
    (work / "crib.yaml").write_text("gateway: {auth: {token: 'Xw3-a-token-of-the-configuration-9'}}\n")
    with gateway(state, "--config", "crib.yaml") as (_, url):
        assert toolcrib(state, "sessions", "list").returncode == 0
        far = toolcrib(state, "sessions", "list", "--gateway", url, TOOLCRIB_TOKEN="Xw3-a-token-of-the-configuration-9")
        assert far.returncode == 0, far
        assert toolcrib(state, "lint", "--config", "crib.yaml", "--level", "warning").returncode in (0, 1)


def test_status_tells_how_it_stands_and_leaves_with_1_when_none_runs(state: Path) -> None:
    with gateway(state) as (process, url):
        told = toolcrib(state, "gateway", "status", "--json")
        assert told.returncode == 0, told
        rows = json.loads(told.stdout)
        assert (rows["running"], rows["url"], rows["connections"], rows["unit"]) == (True, url, 1, None)
        process.kill()
        process.wait()
        gone = toolcrib(state, "gateway", "status", "--gateway", url, "--token-file", str(state / "gateway.token"))
        assert (gone.returncode, "no gateway answers" in gone.stdout) == (1, True)
    none = toolcrib(state, "gateway", "status")
    assert (none.returncode, none.stdout.startswith("no gateway runs here"), none.stderr) == (1, True, "")


def test_a_gateway_that_is_restarted_is_there_again_and_keeps_its_sessions(state: Path) -> None:
    assert "no gateway runs here" in toolcrib(state, "gateway", "restart").stderr
    with gateway(state) as (process, _):
        assert toolcrib(state, "run", "list the files").returncode == 0
        kept = toolcrib(state, "sessions", "list", "--json").stdout
        assert toolcrib(state, "gateway", "restart").returncode == 0
        assert process.stderr is not None
        assert any("the gateway starts anew" in line for line in process.stderr)
        assert any("the gateway is at" in line for line in process.stderr)
        assert toolcrib(state, "sessions", "list", "--json").stdout == kept


def test_status_of_one_whose_token_is_not_at_hand_says_that_it_runs(state: Path) -> None:
    (state.parent / "work" / "crib.yaml").write_text("gateway: {auth: {token: 'Xw3-a-token-of-the-configuration-9'}}\n")
    with gateway(state, "--config", "crib.yaml"):
        told = toolcrib(state, "gateway", "status", "--json")
        assert (told.returncode, json.loads(told.stdout)["running"]) == (0, True)


def test_the_unit_is_one_that_systemd_takes_and_that_starts_the_same_gateway(state: Path, tmp_path: Path) -> None:
    work = tmp_path / "work" / 'odd %s $HOME "place"'
    work.mkdir()
    (work / "token").write_text("a-token-that-is-long-enough\n")
    words = ("--port", "0", "--token-file", "token")
    told = subprocess.run(
        [sys.executable, "-m", "toolcrib", "gateway", "install", "--print", *words],
        capture_output=True, text=True, timeout=60, cwd=work, check=True,
        env=_environment(state, XDG_CONFIG_HOME=str(tmp_path / "config"), SOME_API_KEY="sk-not-for-the-unit"),
    )  # fmt: skip
    assert "sk-not-for-the-unit" not in told.stdout
    assert "a-token" not in told.stdout
    assert not (tmp_path / "config").exists()
    lines = dict(line.partition("=")[::2] for line in told.stdout.splitlines() if not line.startswith("#"))
    assert lines["EnvironmentFile"] == f"-{tmp_path}/config/toolcrib/gateway.env"
    assert lines["WorkingDirectory"] == str(work).replace("%", "%%")
    command = [each.replace("$$", "$").replace("%%", "%") for each in shlex.split(lines["ExecStart"])]
    assert command == [
        sys.executable, "-P", "-m", "toolcrib", "gateway", *words[:3], str(work / "token")
    ]  # fmt: skip
    if shutil.which("systemd-analyze"):
        unit, env = tmp_path / "toolcrib-gateway.service", _environment(state, XDG_RUNTIME_DIR=str(tmp_path))
        unit.write_text(told.stdout)
        words = ("systemd-analyze", "--user", "verify", str(unit))
        verified = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False, env=env)
        assert (verified.returncode, verified.stdout, verified.stderr) == (0, "", "")


@pytest.mark.anyio
async def test_tools_of_a_program_ask_the_gateway_beside_it_with_the_rights_of_its_credential(state: Path) -> None:
    @tool
    async def list_theirs(ctx: Ctx) -> str:
        """List sessions."""
        return " ".join(each["key"] for each in (await ctx.rpc("sessions.list", {}))["sessions"])

    with gateway(state) as (_, url):
        async with connect(url, (state / "gateway.token").read_text().strip(), tries=0) as far:
            await far.say("hello", session="work")
            async with open_crib({}, tools=[list_theirs], services=[far], env={}) as crib:
                told = await crib.belt(OWNER).call("list_theirs")
                assert told.plain_text == "agent:main:work"
                with pytest.raises(ToolError, match="scope"):
                    await crib.belt(OWNER).ports.rpc("sessions.delete", {"key": "work"})


def test_the_page_is_opened_by_the_address_that_the_gateway_prints_or_makes_anew(state: Path) -> None:
    refused = toolcrib(state, "gateway", "page")
    assert (refused.returncode, "no gateway runs here" in refused.stderr) == (2, True)
    with gateway(state) as (process, url):
        assert process.stderr is not None
        printed = next(line for line in process.stderr if "its page is" in line).split()[-1]
        made = toolcrib(state, "gateway", "page").stdout.strip()
        told = json.loads(toolcrib(state, "gateway", "page", "--json").stdout)
        secret = (state / "gateway.token").read_text().strip()
        named = ("--gateway", f"{url}/", "--token-file", str(state / "gateway.token"))
        far = toolcrib(state, "gateway", "page", *named).stdout.strip()
        for address in (printed, made, told["url"], far):
            origin, _, code = address.partition("/#code=")
            assert (origin, secret in address) == (url.replace("ws:", "http:"), False)
            assert [open_page(origin, code) for _ in range(2)] == [200, 401]


def test_the_page_of_a_gateway_with_a_password_is_opened_by_who_says_it(state: Path) -> None:
    config, password = state.parent / "crib.yaml", state.parent / "password"
    config.write_text("gateway: {auth: {mode: password, password: a-password-of-some-length}}\n")
    password.write_text("a-password-of-some-length\n")
    config.chmod(0o600)
    with gateway(state, "--config", str(config)) as (_, url):
        refused = toolcrib(state, "gateway", "page")
        assert (refused.returncode, f"{url} needs a token" in refused.stderr) == (2, True), refused
        made = toolcrib(state, "gateway", "page", "--gateway", url, "--token-file", str(password))
        assert made.stdout.startswith(f"{url.replace('ws:', 'http:')}/#code="), made


def open_page(origin: str, code: str) -> int:
    """Post a code as the page does; return the status of the answer."""
    body = json.dumps({"code": code}).encode()
    asked = urllib.request.Request(f"{origin}/page/login", body, {"origin": origin, "content-type": "application/json"})
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
