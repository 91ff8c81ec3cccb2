"""One state folder has one gateway; who was it before is gone, whatever it was called."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.doors.gateway.test_near_and_far import gateway, state, toolcrib  # noqa: F401  a fixture
from toolcrib.backends.stores.approvals import SqliteApprovals
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.define.approval import Question
from toolcrib.define.errors import CribError
from toolcrib.services.approvals import Approvals, ApprovalTerms
from toolcrib.services.members import Members

Rename = Callable[[str], str]
QUESTION = Question(id="q", digest="d", tool="t", reason="", shown="", person="", asked_at=0.0, expires_at=9e9)


def test_a_second_gateway_is_refused_by_name_and_the_first_serves_on(state: Path) -> None:  # noqa: F811
    with gateway(state) as (first, url):
        second = toolcrib(state, "gateway", "--port", "0")
        assert second.returncode == 2
        who = rf"another gateway \(process {first.pid} on .+\) has the state folder {state}: one folder has one gateway"
        assert re.search(f"{who}; stop that one, or name another folder with TOOLCRIB_STATE$", second.stderr.strip())
        assert json.loads(toolcrib(state, "gateway", "status", "--json").stdout)["url"] == url
        assert toolcrib(state, "tools", "call", "ls").returncode == 0
        first.send_signal(signal.SIGKILL)
        first.wait()
    with gateway(state) as (_, url):
        assert json.loads(toolcrib(state, "gateway", "status", "--json").stdout)["url"] == url


def test_what_works_beside_a_gateway_is_not_held_up_by_its_lock(state: Path) -> None:  # noqa: F811
    with gateway(state):
        answered = toolcrib(state, "run", "list the files", "--session", "beside", TOOLCRIB_TOKEN="")
        assert answered.returncode == 0, answered.stderr


def far(name: str) -> str:
    """The name of a process of another machine, or of another container of this one."""
    return re.sub(r"@[^#]*", "@0123456789ab/4026532999", name)


def gone(name: str) -> str:
    return re.sub(r"^\d+", "4194999", name)


def again(name: str) -> str:
    return re.sub(r"^(\d+):\d+", r"\1:1", name)


NAMES: list[tuple[str, Rename, bool]] = [
    ("this process", str, True),
    ("a process that has ended", gone, False),
    ("another process under the number of one that has ended", again, False),
    ("a process of another container", far, True),
    ("one that does not say what it is", lambda _: "", True),
    ("one from before names had places", lambda name: name.partition("@")[0], True),
    ("an ended one from before names had places", lambda name: gone(name.partition("@")[0]), False),
]


@pytest.mark.parametrize(("rename", "is_alive"), [row[1:] for row in NAMES], ids=[row[0] for row in NAMES])
def test_a_process_is_gone_only_where_that_can_be_seen(rename: Rename, is_alive: bool, tmp_path: Path) -> None:
    members = Members(tmp_path)
    assert members.is_alive(rename(members.name)) is is_alive


@pytest.mark.parametrize("rename", [str, far, gone], ids=["here", "another container", "ended"])
def test_every_gateway_before_is_gone_for_all_who_share_the_folder(rename: Rename, tmp_path: Path) -> None:
    first, beside = Members(tmp_path), Members(tmp_path)
    first.lock()
    before = rename(first.name)
    assert beside.is_alive(far(before))
    first.release()
    second = Members(tmp_path)
    second.lock()
    assert (second.is_alive(before), beside.is_alive(before)) == (False, False)
    assert (second.is_alive(second.name), beside.is_alive(far(second.name))) == (True, True)


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
@pytest.mark.parametrize("hides", [(), ("--tmpfs", "/etc")], ids=["", "without a machine-id"])
def test_two_containers_of_one_name_are_two_places(hides: tuple[str, ...]) -> None:
    ask = "from toolcrib.services.members import Members; print(Members().name)"
    contained = ["bwrap", "--bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-pid", *hides]
    names = {subprocess.check_output([*contained, sys.executable, "-c", ask], text=True) for _ in range(2)}
    assert len({name.partition("@")[2] for name in names}) == 2
    assert all(Members().is_alive(name.strip()) for name in names)


def test_the_lock_of_another_folder_says_nothing_here(tmp_path: Path) -> None:
    here, elsewhere = Members(tmp_path / "here"), Members(tmp_path / "elsewhere")
    here.lock()
    elsewhere.lock()
    assert here.is_alive(far(elsewhere.name))


def test_a_lock_file_that_was_removed_or_holds_nonsense_still_lets_in_one(tmp_path: Path) -> None:
    first = Members(tmp_path)
    first.lock()
    (tmp_path / "gateway.lock").write_text("[]")
    with pytest.raises(CribError, match="one folder has one gateway"):
        Members(tmp_path).lock()
    (tmp_path / "gateway.lock").unlink()
    with pytest.raises(CribError, match=f"another gateway has the state folder {tmp_path}: one folder has one gateway"):
        Members(tmp_path).lock()
    first.release()
    second = Members(tmp_path)
    second.lock()
    with pytest.raises(CribError, match=str(os.getpid())):
        Members(tmp_path).lock()
    second.release()


def approvals_of(path: Path, members: Members) -> Approvals:
    store = SqliteApprovals(SqliteFile(path / "crib.db"))
    terms = ApprovalTerms(members=members)
    return Approvals(store, is_owner=lambda _: True, can_lend=lambda *_: "once", terms=terms, now=lambda: 1.0)


@pytest.mark.parametrize(
    ("had_the_lock", "is_left"), [(True, True), (False, False)], ids=["a gateway before", "a program beside"]
)
def test_a_question_of_another_container_is_taken_up_only_where_that_one_is_gone(
    had_the_lock: bool, is_left: bool, tmp_path: Path
) -> None:
    before, now = Members(tmp_path), Members(tmp_path)
    if had_the_lock:
        before.lock()
    asked = replace(QUESTION, process=f"{far(before.name)}:beef")
    before.release()
    now.lock()

    async def look() -> list[str]:
        approvals = approvals_of(tmp_path, now)
        await SqliteApprovals(SqliteFile(tmp_path / "crib.db")).add(asked, most=9)
        return [each.id for each in await approvals.list_left()]

    assert asyncio.run(look()) == (["q"] if is_left else [])
