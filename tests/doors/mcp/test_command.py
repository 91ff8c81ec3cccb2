"""The words of `toolcrib mcp`: help, what is refused, and that nothing is loaded before it is used."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.doors.mcp.world import surroundings
from tests.doors.world import ask, refused

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize("command", ["mcp", "mcp serve"])
def test_help_ends_with_examples(capsys: Capture, command: str) -> None:
    answer = ask(capsys, *command.split(), "--help")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith(f"Usage: toolcrib {command}")
    assert f"toolcrib {command}" in answer.out.partition("Examples:\n")[2]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("mcp serv", "there is no command 'serv'; did you mean 'serve'?"),
        ("mcp serve --profil coding", "there is no option '--profil'; did you mean '--profile'?"),
        ("mcp serve --profile codng", "invalid value for '--profile': 'codng' is not one of"),
        ("mcp serve --http 70000", "invalid value for '--http': 70000 is not in the range 0<=x<=65535"),
        ("mcp serve --http 0 --config gone.yaml", "gone.yaml: no such file; create it or name another"),
    ],
)
def test_wrong_words_get_one_sentence(capsys: Capture, words: str, sentence: str) -> None:
    pytest.importorskip("mcp", reason="the package mcp is not installed")
    assert sentence in refused(ask(capsys, *words.split()))


@pytest.mark.parametrize("token", ["", "short", "with a blank in it", "schlüssel-schlüssel"])
def test_a_token_that_is_none_is_refused(capsys: Capture, monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    pytest.importorskip("mcp", reason="the package mcp is not installed")
    monkeypatch.setenv("TOOLCRIB_MCP_TOKEN", token)
    sentence = refused(ask(capsys, "mcp", "serve", "--http", "0"))
    assert sentence.startswith("TOOLCRIB_MCP_TOKEN is no token; write 16 or more letters")
    assert not token or token not in sentence


@pytest.mark.parametrize("words", [["--help"], ["mcp", "--help"], ["mcp", "serve", "--help"], ["explain"]])
def test_the_sdk_is_loaded_by_nothing_that_does_not_serve(tmp_path: Path, words: list[str]) -> None:
    code = (
        "import sys, json\nfrom toolcrib.doors.cli.main import run\n"
        f"code = run({words!r})\n"
        "print(json.dumps([code, [name for name in ('mcp', 'mcp_types', 'uvicorn', 'anyio') if name in sys.modules]]))"
    )
    ran = subprocess.run([sys.executable, "-c", code], env=surroundings(tmp_path), capture_output=True, text=True)
    assert json.loads(ran.stdout.splitlines()[-1]) == [0, []]


def test_where_the_sdk_is_missing_it_says_what_to_install(tmp_path: Path) -> None:
    blocked = "import sys\nsys.modules['mcp'] = None\n"
    code = f"{blocked}from toolcrib.doors.cli.main import run\nsys.exit(run(['mcp', 'serve']))"
    ran = subprocess.run([sys.executable, "-c", code], env=surroundings(tmp_path), capture_output=True, text=True)
    sentence = "toolcrib: `toolcrib mcp serve` needs the package mcp; install it with: pip install 'toolcrib[mcp]'\n"
    assert (ran.returncode, ran.stderr) == (2, sentence)
