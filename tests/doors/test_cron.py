"""toolcrib cron: jobs are listed, made, changed and run at the terminal."""

import json
import os
from pathlib import Path

import pytest

from .world import ask, refused


@pytest.fixture(autouse=True)
def no_state_of_yours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.endswith("_API_KEY") or name.startswith("TOOLCRIB_") or name == "TZ":
            monkeypatch.delenv(name)


@pytest.fixture
def job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The id of a job that lists the files."""
    config = tmp_path / "crib.json"
    config.write_text(json.dumps({"workspace": {"root": str(tmp_path)}}))
    words = ("--every", "1h", "--message", "list the files", "--allow", "ls", "--config", str(config))
    made: str = ask(capsys, "cron", "add", *words, "--json").json["id"]
    return made


def test_without_jobs_the_list_says_how_to_make_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert "there are no jobs; `toolcrib cron add" in ask(capsys, "cron", "list").out
    assert ask(capsys, "cron", "list", "--json").json == {"jobs": []}


def test_a_job_is_made_listed_changed_turned_off_and_taken_away(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    listed = ask(capsys, "cron", "list")
    assert listed.out.splitlines()[1].split("  ")[:3] == [job, "list the files", "every 3,600 s"]
    assert "no gateway runs here" in listed.err
    edited = ask(
        capsys, "cron", "edit", job, "--cron", "0 9 * * *", "--tz", "Europe/Kyiv", "--deny", "ls", "--json"
    ).json
    assert edited["schedule"] == {"kind": "cron", "expr": "0 9 * * *", "tz": "Europe/Kyiv"}
    assert (edited["tools"], edited["payload"]["message"]) == ({"deny": ["ls"]}, "list the files")
    assert ask(capsys, "cron", "disable", job).err == f"{job} is off\n"
    assert ask(capsys, "cron", "list", "--json").json == {"jobs": []}
    assert [each["id"] for each in ask(capsys, "cron", "list", "--all", "--json").json["jobs"]] == [job]
    assert f"{job} is on, and runs " in ask(capsys, "cron", "enable", job).err
    assert ask(capsys, "cron", "rm", job).err == f"{job} is gone\n"
    assert ask(capsys, "cron", "rm", job).code == 1


def test_a_job_is_run_now_and_what_came_of_it_is_kept(
    job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = ask(capsys, "cron", "run", job, "--config", str(tmp_path / "crib.json"))
    assert (ran.code, "crib.json" in ran.out) == (0, True)
    (entry,) = ask(capsys, "cron", "runs", job, "--json").json["entries"]
    assert (entry["jobId"], entry["status"]) == (job, "ok")
    assert ask(capsys, "cron", "runs").out.splitlines()[1].startswith(job)


def test_explain_says_what_a_job_may_use(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = ask(capsys, "explain", "exec", "--job", job).out
    assert said.startswith(f"exec is denied at the job layer: not in allow (job {job})")
    rows = {row["tool"]: row["decision"] for row in ask(capsys, "explain", "--job", job, "--json").json["tools"]}
    assert (rows["ls"], rows["read"]) == ("allow", "deny")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("add", "--every", "1h"), "say when, with --at, --every or --cron, and what, with --message or --event"),
        (("add", "--every", "1h", "--at", "2030-01-01", "--event", "t"), "a job has one schedule and one text"),
        (
            ("add", "--cron", "99 * * * *", "--event", "t"),
            "the cron expression '99 * * * *' cannot be read (Bad minute)",
        ),
        (("add", "--cron", "0 0 30 2 *", "--event", "t"), "that time never comes"),
        (("add", "--at", "tomorrow", "--event", "t"), "'tomorrow' is no time; write one like 2030-01-01T09:00+02:00"),
        (("add", "--at", "2020-01-01", "--event", "t"), "seconds past; name one that comes"),
        (("add", "--every", "soon", "--event", "t"), "'soon' is no length of time"),
        (("add", "--cron", "0 9 * * *", "--tz", "Mars/Base", "--event", "t"), "there is no time zone 'Mars/Base'"),
        (("edit", "nope", "--every", "2h"), "there is no job 'nope'; `toolcrib cron list --all` shows what there is"),
        (("edit", "nope"), "say what is to change"),
    ],
)
def test_what_cannot_be_is_said_in_one_sentence(
    words: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sentence in refused(ask(capsys, "cron", *words))


def test_the_beginning_of_an_id_is_enough_to_be_asked_whether_it_is_meant(
    job: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"did you mean {job!r}?" in refused(ask(capsys, "cron", "run", job[:4]))
