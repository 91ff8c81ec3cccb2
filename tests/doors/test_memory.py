"""toolcrib memory: how it stands, what is found, and reading it anew; without a gateway, and through one."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.doors.talking import Say, crib_with, talking
from tests.doors.test_cron_far import Desk

pytest.importorskip("websockets", reason="the extra gateway is not installed")

from tests.doors.chat.test_far import gateway_in

from .world import ask


@pytest.fixture(autouse=True)
def no_state_of_yours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.endswith("_API_KEY") or name.startswith("TOOLCRIB_"):
            monkeypatch.delenv(name)


def remember(folder: Path) -> None:
    (folder / "memory").mkdir(parents=True)
    (folder / "MEMORY.md").write_text("# Tastes\n\n- Drinks green tea.\x1b[31m\n")
    (folder / "memory" / "day.md").write_text("# Lviv\n\nWe met Olena.\n")


@pytest.fixture
def config(tmp_path: Path) -> str:
    """A configuration whose workspace has a memory that is searched by words alone."""
    remember(tmp_path / "ws")
    file = tmp_path / "crib.json"
    (tmp_path / "ops").mkdir()
    agents = {"ops": {"workspace": str(tmp_path / "ops")}}
    told = {"workspace": {"root": str(tmp_path / "ws")}, "memory": {"provider": "none"}, "agents": agents}
    file.write_text(json.dumps(told))
    return str(file)


def test_the_status_says_where_it_lies_how_much_there_is_and_how_it_is_searched(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = ask(capsys, "memory", "status", "--config", config)
    assert (told.code, told.out.split("\n")[:3]) == (
        0,
        [f"  folder  {tmp_path / 'ws'}", "   holds  2 files, 2 passages", "searched  by words alone"],
    )
    as_json = ask(capsys, "memory", "status", "--config", config, "--json").json
    assert (as_json["files"], as_json["provider"], as_json["people"]) == (2, "none", [])
    other = ask(capsys, "memory", "status", "--config", config, "--agent", "ops", "--json").json
    assert (other["files"], other["agentId"]) == (0, "ops")


def test_a_search_shows_the_best_first_with_its_place_and_no_codes_of_a_terminal(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = ask(capsys, "memory", "search", "green tea", "--config", config)
    assert told.code == 0
    assert told.out.startswith("MEMORY.md:1-")
    assert "Drinks green tea." in told.out
    assert "\x1b" not in told.out
    (found,) = ask(capsys, "memory", "search", "Olena", "--config", config, "--json").json["results"]
    assert (found["path"], found["source"]) == ("memory/day.md", "memory")
    nothing = ask(capsys, "memory", "search", "zebra", "--config", config)
    assert (nothing.code, nothing.out, nothing.err) == (1, "", "nothing was found\n")


def test_everything_is_read_anew_and_an_unknown_agent_is_bad_input(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(capsys, "memory", "reindex", "--config", config, "--json").json["files"] == 2
    told = ask(capsys, "memory", "reindex", "--config", config, "--agent", "opps")
    assert (told.code, told.out) == (2, "")
    assert "there is no agent 'opps'; did you mean 'ops'?" in told.err


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A terminal whose gateway works in a folder with a memory."""
    folder = tmp_path / "shop"
    remember(folder)
    with talking(Say(text="yes")) as server, gateway_in(folder, crib_with(server, tmp_path)):
        yield Desk(folder)


def test_a_gateway_that_runs_is_asked(desk: Desk) -> None:
    assert desk.json("memory", "status")["files"] == 2
    assert desk.json("memory", "search", "green tea", "--most", "1")["results"][0]["path"] == "MEMORY.md"
    assert desk.json("memory", "reindex")["files"] == 2
