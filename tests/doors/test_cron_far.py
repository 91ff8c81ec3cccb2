"""toolcrib cron while a gateway runs: the jobs are the gateway's, which runs them, and so is what it says of them."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import prestarted
from tests.doors.chat.desk import surroundings_of
from tests.doors.talking import Say, crib_with, talking

pytest.importorskip("websockets", reason="the extra gateway is not installed")

from tests.doors.chat.test_far import gateway_in


class Desk:
    """A terminal beside a gateway."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return prestarted.run(
            [sys.executable, "-m", "toolcrib", *words], capture_output=True, text=True, timeout=120, cwd=self._folder,
            env=surroundings_of(self._folder), stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def json(self, *words: str) -> Any:
        done = self.run(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A terminal whose gateway has a model that says one thing."""
    folder = tmp_path / "shop"
    folder.mkdir()
    with talking(Say(text="There are three nuts.")) as server, gateway_in(folder, crib_with(server, tmp_path)):
        yield Desk(folder)


def test_a_job_is_made_listed_changed_run_and_taken_away_in_the_gateway(desk: Desk) -> None:
    made = desk.run("cron", "add", "--every", "1h", "--message", "count the nuts", "--allow", "ls")
    assert (made.returncode, "no gateway runs here" in made.stderr) == (0, False)
    (job,) = desk.json("cron", "list")["jobs"]
    assert made.stderr.startswith(f"{job['id']} is there, and runs ")
    edited = desk.json("cron", "edit", job["id"], "--cron", "0 9 * * *", "--tz", "Europe/Kyiv", "--name", "nuts")
    assert (edited["name"], edited["schedule"]["tz"]) == ("nuts", "Europe/Kyiv")
    assert desk.run("cron", "disable", job["id"]).stderr == f"{job['id']} is off\n"
    assert desk.json("cron", "list") == {"jobs": []}
    assert f"{job['id']} is on, and runs " in desk.run("cron", "enable", job["id"]).stderr
    ran = desk.run("cron", "run", job["id"])
    assert (ran.returncode, ran.stdout) == (0, "There are three nuts.\n")
    (entry,) = desk.json("cron", "runs", job["id"])["entries"]
    assert (entry["status"], entry["summary"]) == ("ok", "There are three nuts.")
    told = desk.json("sessions", "show", "agent:main:main")["messages"][-1]["text"]
    assert told.startswith("Cron: the job 'nuts' says:")
    assert "There are three nuts." in told
    assert desk.run("cron", "rm", job["id"]).stderr == f"{job['id']} is gone\n"
    assert desk.run("cron", "rm", job["id"]).returncode == 1


def test_explain_says_what_a_job_of_the_gateway_may_use(desk: Desk) -> None:
    job = desk.json("cron", "add", "--every", "1h", "--message", "count the nuts", "--allow", "ls")["id"]
    said = desk.run("explain", "exec", "--job", job).stdout
    assert said.startswith(f"exec is denied at the job layer: not in allow (job {job})")
    rows = {row["tool"]: row["decision"] for row in desk.json("explain", "--job", job)["tools"]}
    assert (rows["ls"], rows["read"]) == ("allow", "deny")
    unknown = desk.run("explain", "--job", "nope")
    assert (unknown.returncode, "there is no job 'nope'" in unknown.stderr) == (2, True)


def test_what_cannot_be_is_told_in_the_gateways_words(desk: Desk) -> None:
    past = desk.run("cron", "add", "--at", "2020-01-01", "--event", "t")
    assert (past.returncode, "seconds past; name one that comes" in past.stderr) == (2, True)
    near = desk.run("cron", "run", "nope")
    assert "there is no job 'nope'; `toolcrib cron list --all` shows what there is" in near.stderr


def test_a_job_that_is_due_is_run_by_the_gateway_itself(desk: Desk) -> None:
    job = desk.json("cron", "add", "--every", "1s", "--message", "count the nuts")["id"]
    entries: list[Any] = []
    while not any(each["status"] == "ok" for each in entries):  # each look takes a process its time
        entries = desk.json("cron", "runs", job)["entries"]
    assert entries[-1]["summary"] == "There are three nuts."
