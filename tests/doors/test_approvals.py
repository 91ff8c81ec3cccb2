"""toolcrib approvals, and the terminal as a place where questions are asked."""

import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.memory_stores import MemoryApprovals

from toolcrib.app.stores import STATE_FILE
from toolcrib.backends.stores.approvals import SqliteApprovals
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.define.approval import Lasting, Question
from toolcrib.define.caller import Caller, Sender
from toolcrib.define.errors import CribError, ToolError
from toolcrib.define.message import Call
from toolcrib.doors.cli._log import state_folder
from toolcrib.doors.cli.approvals import ask_at_terminal, command, seconds_from
from toolcrib.services.approvals import Approvals, ApprovalTerms

from .world import crib_file

pytestmark = pytest.mark.anyio

BOB = Caller(channel="telegram", sender=Sender(id="7"))
CALL = Call("1", "exec", {"command": "git push \u202e"})
WORDS = {"argv": '["git","push"]'}


def approvals_of(once: str | None = None, **terms: Any) -> Approvals:
    approvals = Approvals(
        MemoryApprovals(), is_owner=lambda caller: caller.channel is None, can_lend=lambda call, binding: once,
        terms=ApprovalTerms(look=0.01, **terms),
    )  # fmt: skip
    approvals.lend_lines("exec", "command", lambda call, binding: once)
    return approvals


class Person:
    """Types prepared lines, and then nothing any more; `prompts` are what was asked."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines, self.prompts = list(lines), list[str]()

    async def __call__(self, prompt: str) -> str:
        self.prompts.append(prompt)
        if not self._lines:
            await asyncio.Event().wait()
        return self._lines.pop(0)


async def called(approvals: Approvals, person: Person, binding: dict[str, str] | None = None) -> bool:
    async with asyncio.timeout(60), ask_at_terminal(approvals, person):
        return await approvals.approve(BOB, CALL, "why", binding or {})


@pytest.mark.parametrize(
    ("lines", "result"),
    [
        (["y\n"], True),
        (["YES\n"], True),
        (["n\n"], False),
        (["\n"], False),
        ([""], False),
        (["what\n", "y\n"], True),
        (["what\n", "да\n", "yess\n", "yeah\n", "y\n"], True),
        (["t\n", "1\n", "10m\n"], True),
        (["t\n", "\n", "\n"], True),
        (["t\n", "4\n", "y\n"], True),
        (["t\n", "1\n", "soon\n", "n\n"], False),
    ],
)
async def test_the_person_at_the_terminal_decides(lines: list[str], result: bool) -> None:
    assert await called(approvals_of(), Person(lines), WORDS) is result


async def test_the_whole_call_is_shown_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    person = Person(["n"])
    await called(approvals_of(), person, {"dir": "/ws"})
    out, err = capsys.readouterr()
    assert (out, err) == (
        "",
        'exec, asked by channel telegram, id:7\nbecause why\n  command: "git push \\u202e"\nbound to\n  dir: "/ws"\n',
    )
    assert person.prompts == ["Run it? [y]es once, [s]ession, [t]ime, [n]o: "]


async def test_a_yes_for_a_time_is_for_what_the_person_chose(capsys: pytest.CaptureFixture[str]) -> None:
    approvals = approvals_of()
    assert await called(approvals, Person(["t", "2", "2h"]), WORDS)
    (grant,) = await approvals.grants(Caller())
    assert (grant["shown"], grant["until"] - grant["madeAt"]) == ('every call that begins with ["git"]', 7200)
    assert '  1  exactly this call\n  2  every call that begins with ["git"]\n' in capsys.readouterr().err


async def test_what_may_not_last_is_not_offered_for_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    person = Person(["t", "y"])
    assert await called(approvals_of("it runs anything"), person)
    assert person.prompts == ["Run it? [y]es once, [n]o: "] * 2
    assert "(only once: it runs anything)" in capsys.readouterr().err


async def test_an_answer_from_elsewhere_ends_the_question_here(capsys: pytest.CaptureFixture[str]) -> None:
    approvals, person = approvals_of(), Person([])

    async def elsewhere() -> None:
        while not person.prompts:
            await asyncio.sleep(0)
        await approvals.answer(Caller(), (await approvals.waiting(Caller()))[0]["id"], "once")

    answer, _ = await asyncio.gather(called(approvals, person), elsewhere())
    assert answer is True


async def test_a_cancelled_call_leaves_no_question_at_the_terminal() -> None:
    approvals, person = approvals_of(), Person([])
    task = asyncio.create_task(called(approvals, person))
    while not person.prompts:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await approvals.waiting(Caller()) == []
    with pytest.raises(ToolError, match="nobody to ask"):
        await approvals.approve(BOB, CALL, "why", {})


async def test_two_questions_come_one_after_the_other() -> None:
    approvals, person = approvals_of(), Person(["y", "n"])
    async with asyncio.timeout(60), ask_at_terminal(approvals, person):
        both = [approvals.approve(BOB, CALL._replace(args={"command": line}), "why", {}) for line in ("a", "b")]
        assert await asyncio.gather(*both) == [True, False]


# the command


QUESTION = Question(
    id="3f9c2a7b10de44c1", digest="d", tool="exec", reason="why", shown="exec, asked by id:7\n  command: x",
    person="", asked_at=time.time(), expires_at=time.time() + 86_400, lasting=(Lasting("exactly this call", "d"),),
)  # fmt: skip


@pytest.fixture
def waiting() -> None:
    """One question that waits, in the user's own store."""
    store = SqliteApprovals(SqliteFile(state_folder() / STATE_FILE))
    asyncio.run(store.add(QUESTION, most=1))


def run(*args: str) -> Any:
    return CliRunner().invoke(command, args, standalone_mode=False)


@pytest.mark.usefixtures("waiting")
def test_list_shows_what_waits() -> None:
    shown = run("list").output
    assert shown.startswith(f"{QUESTION.id}  until ")
    assert shown.endswith(f"\n{QUESTION.shown}\n  --for TIME --which 0: exactly this call\n")
    assert json.loads(run("list", "--json").output)["questions"][0] == json.loads(json.dumps(QUESTION.to_json()))


@pytest.mark.usefixtures("waiting")
@pytest.mark.parametrize(
    ("args", "said"),
    [(["allow", QUESTION.id], "exec is allowed\n"), (["deny", QUESTION.id], "exec is denied\n")],
)
def test_a_question_is_answered_once(args: list[str], said: str) -> None:
    assert run(*args).output == said
    again = run(*args)
    assert isinstance(again.exception, ToolError)
    assert "is settled already" in str(again.exception)
    assert run("list").output == "nothing waits for an answer\n"


@pytest.mark.usefixtures("waiting")
def test_a_grant_is_given_listed_and_revoked() -> None:
    assert run("grants").output == "nothing is granted\n"
    assert run("allow", QUESTION.id, "--for", "10m").output == "exec is allowed\n"
    (grant,) = json.loads(run("grants", "--json").output)["grants"]
    assert round(grant["until"] - grant["madeAt"]) == 600
    assert grant["id"] in run("grants").output
    assert run("revoke", grant["id"]).output == f"{grant['id']} is revoked\n"
    assert isinstance(run("revoke", grant["id"]).exception, ToolError)


def test_the_command_stands_on_the_users_own_store(tmp_path: Path) -> None:
    crib = crib_file(tmp_path, "{}")
    ran = CliRunner().invoke(command, ["list", "--config", str(crib)], standalone_mode=False)
    assert ran.output == "nothing waits for an answer\n"
    ran = CliRunner().invoke(command, ["allow", "no-such", "--config", str(crib)], standalone_mode=False)
    assert "there is no question 'no-such' that this caller may answer" in str(ran.exception)


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("30s", 30), (" 10M ", 600), ("2 h", 7200), ("1d", 86_400)])
def test_lengths_of_time_are_read(text: str, seconds: int) -> None:
    assert seconds_from(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "-5", "1.5h", "ten", "10w", "1m30s", "99999999s", "٣m"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(CribError, match="is no length of time; write one like 30s, 10m or 2h"):
        seconds_from(text)
