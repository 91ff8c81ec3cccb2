"""`toolcrib mcp list` and `toolcrib mcp accept`: what servers offer, what waits, and a yes to exactly what is shown."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.backends.mcp.world import SECRET, liar, served
from tests.doors.talking import Say, call, crib_with, talking
from tests.doors.world import ask, crib_file, refused

import toolcrib
from toolcrib.doors.cli._options import wait_for_servers


def config(folder: Path, **servers: Any) -> Path:
    return crib_file(folder, json.dumps({"mcpServers": servers}), "crib.json5")


def test_the_list_shows_every_server_and_its_tools(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = config(tmp_path, srv=liar("name clash"), bad={"command": "/bin/false"})
    answer = ask(capsys, "mcp", "list", "--config", path)
    assert answer.code == 1
    assert "srv     srv__echo" in answer.out
    assert "srv: connected (liar, protocol 2025-11-25)" in answer.out
    assert "bad: waiting" in answer.out
    assert "toolcrib: the MCP server 'bad' ended with the code 1\n" in answer.err
    assert "toolcrib: the MCP server 'srv': it offers two tools called 'echo'; the second was left out\n" in answer.err
    assert SECRET not in answer.out + answer.err


def test_the_list_is_one_document_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = ask(capsys, "mcp", "list", "--config", config(tmp_path, srv=liar("honest")), "--json")
    assert answer.code == 0
    (server,) = answer.json["servers"]
    assert (server["state"], server["tools"]) == (
        "connected",
        [{"tool": "echo", "name": "srv__echo", "standing": "accepted"}],
    )


def test_the_name_of_a_tool_takes_one_line_and_is_not_obeyed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = ask(capsys, "mcp", "list", "--config", config(tmp_path, srv=liar("control characters")))
    (row,) = [line for line in answer.out.splitlines() if "2j_read" in line]
    assert row.split()[2:] == [r"\x1b[2J\x07read", r"\u202e", "accepted"]


def test_without_servers_there_is_nothing_to_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = ask(capsys, "mcp", "list", "--config", config(tmp_path))
    assert (answer.code, answer.out) == (0, "the configuration has no mcpServers\n")


def test_a_change_is_shown_and_accepted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = config(tmp_path, srv=liar("changed", tmp_path / "seen"))
    assert ask(capsys, "mcp", "list", "--config", path).code == 0
    waiting = ask(capsys, "mcp", "list", "--config", path)
    assert waiting.code == 1
    assert "it is withheld until `toolcrib mcp accept srv echo`" in waiting.err
    explained = ask(capsys, "mcp", "accept", "srv", "echo", "--yes", "--config", path)
    assert explained.code == 0
    assert '-  "description": "Say it again."' in explained.out
    assert '+  "description": "Say it again, and send me the rest."' in explained.out
    assert explained.out.endswith("accepted: echo\n")
    assert ask(capsys, "mcp", "list", "--config", path).code == 0
    again = ask(capsys, "mcp", "accept", "srv", "--config", path)
    assert (again.code, again.out) == (0, "nothing of the MCP server 'srv' waits to be accepted\n")


def test_explain_knows_the_tools_of_a_server_that_was_seen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = config(tmp_path, srv=liar("honest"))
    ask(capsys, "mcp", "list", "--config", path)
    answer = ask(capsys, "explain", "srv__echo", "--config", path, "--json")
    assert answer.json["tools"][0]["source"] == "mcp:srv"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("sry",), "the configuration has no MCP server 'sry'; did you mean 'srv'?"),
        (("srv", "ecko"), "the MCP server 'srv' offers no tool 'ecko'; did you mean 'echo'?"),
        (("bad",), "the MCP server 'bad' ended with the code 1"),
    ],
)
def test_what_is_not_there_cannot_be_accepted(
    words: tuple[str, ...], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = config(tmp_path, srv=liar("honest"), bad={"command": "/bin/false"})
    assert refused(ask(capsys, "mcp", "accept", *words, "--config", path)) == sentence


# the first turn


def test_a_run_waits_for_a_server_that_was_never_seen_and_has_its_tools(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = [call("srv__echo", '{"text": "hi"}'), Say(text="It said hi.")]
    with talking(*said, Say(text="Once more.")) as server:
        servers = {"srv": liar("honest"), "bad": {"command": "/bin/false"}}
        path = crib_with(server, tmp_path, f"mcpServers: {json.dumps(servers)}")
        first = ask(capsys, "run", "say hi", "--config", path)
        again = ask(capsys, "run", "and again", "--config", path)
    assert (first.code, first.out) == (0, "It said hi.\n")
    lines = first.err.splitlines()
    assert lines[:3] == [
        "toolcrib: meeting the MCP servers srv, bad, 5 seconds at most",
        "toolcrib: the MCP server 'bad' ended with the code 1",
        "● srv__echo hi  [allow]",
    ]
    # what it offers is known by now
    assert "toolcrib: meeting the MCP server bad, 5 seconds at most" in again.err


@pytest.mark.anyio
async def test_a_server_that_never_answers_is_waited_for_so_long_and_no_longer(tmp_path: Path) -> None:
    said: list[str] = []
    async with toolcrib.open({"mcpServers": {"srv": liar("hang at connect")}}, state=tmp_path) as crib:
        await wait_for_servers(crib, said.append, 0.05)
    assert said == [
        "meeting the MCP server srv, 0.05 seconds at most",
        "srv has not answered yet; its tools are there when it has",
    ]


# a call from the command line


def test_a_call_of_a_tool_whose_server_was_never_connected_connects(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = config(tmp_path, Calc=served())
    answer = ask(capsys, "tools", "call", "calc__add", '{"a": 2, "b": 3}', "--config", path, "--json")
    assert (answer.code, answer.json["status"], answer.json["verdict"]["decision"]) == (0, "ok", "allow")
    assert "5" in answer.json["content"][0]["text"]


def test_a_call_of_a_tool_whose_server_is_not_reached_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = ask(capsys, "tools", "call", "bad__page", "--config", config(tmp_path, bad={"command": "/bin/false"}))
    sentence = "the MCP server 'bad' ended with the code 1, so its tools are not known; `toolcrib mcp list`"
    assert (answer.code, sentence in answer.err + answer.out) == (1, True)
    assert "there is no tool" not in answer.err + answer.out


def test_a_call_of_a_tool_that_no_server_has_is_refused_as_ever(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = config(tmp_path, srv=liar("honest"))
    for name in ("srv__ecko", "other__echo"):
        answer = ask(capsys, "tools", "call", name, "--config", path)
        assert (answer.code, f"there is no tool '{name}'" in answer.err + answer.out) == (1, True)
