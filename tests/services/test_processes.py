"""Processes: what was permitted is started, once; the call waits or hands over; nobody sees another's commands."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from toolcrib.define.caller import Caller
from toolcrib.define.errors import ArgumentError, ToolError
from toolcrib.define.ports import Rpc
from toolcrib.define.shell import CommandEnded, CommandLimits, Leftover
from toolcrib.services.exec.process import ProcessTerms
from toolcrib.services.exec.processes import ExecTarget, Permit, Processes
from toolcrib.services.router import Router
from toolcrib.testing import FakeRun, FakeRunning, FakeShell, MemoryBlobs

pytestmark = pytest.mark.anyio

ANN, BOB = Caller(agent="ann"), Caller(agent="bob")


class World:
    """A service over a fake shell, asked through the router as tools ask it."""

    def __init__(self, runs: dict[str, Any], *, limits: CommandLimits | None = None, **place: Any) -> None:
        self.shell, self.blobs, self.now = FakeShell(runs), MemoryBlobs(), 0.0
        terms = place.pop("terms", None)

        def target_of(caller: Caller) -> ExecTarget:
            return ExecTarget(shell=self.shell, scope=str(caller.agent), limits=limits or CommandLimits(), **place)

        self.service = Processes(target_of, blobs=self.blobs, terms=terms, now=lambda: self.now, sweep=self.sweep)
        self.left: Sequence[Leftover] = ()
        self._calls = 0

    async def sweep(self) -> Sequence[Leftover]:
        return self.left

    def rpc(self, caller: Caller = ANN) -> Rpc:
        return Router([self.service]).rpc_for(caller)

    async def run(self, line: str, caller: Caller = ANN, permit: Permit | None = None, **params: Any) -> dict[str, Any]:
        """Permit a line and start it, as the judge and the tool do."""
        self._calls += 1
        call = f"call-{self._calls}"
        self.service.permit(caller, call, permit or Permit(line=line))
        state: dict[str, Any] = await self.rpc(caller)("process.start", {"call": call, **params})
        return state

    async def background(self, line: str, caller: Caller = ANN) -> tuple[str, FakeRunning]:
        """Start a line in the background; return its id and the command."""
        state = await self.run(line, caller, background=True)
        return state["sessionId"], self.shell.started[-1]

    async def ask(self, method: str, id: str, caller: Caller = ANN, **params: Any) -> dict[str, Any]:
        state: dict[str, Any] = await self.rpc(caller)(f"process.{method}", {"id": id, **params})
        return state


async def begun() -> None:
    """Let a poll begin to wait."""
    for _ in range(5):
        await asyncio.sleep(0)


async def hear_of_end(world: World, line: str) -> list[dict[str, Any]]:
    """Run a line until its answer tells of a command that ended; return what it tells."""
    async with asyncio.timeout(60):
        while not (notices := (await world.run(line))["notices"]):
            await asyncio.sleep(0)
    return list(notices)


async def test_what_was_permitted_is_started_word_for_word() -> None:
    world = World({"/usr/bin/ls -1": "a\nb\n"})
    permit = Permit(line="ls  -1", argv=("/usr/bin/ls", "-1"), script="/usr/bin/ls '-1'", cwd="src", env={"A": "1"})
    state = await world.run("ls  -1", permit=permit)
    (running,) = world.shell.started
    started = running.command
    assert (started.argv, started.line, started.cwd, started.env) == (("/usr/bin/ls", "-1"), None, "src", {"A": "1"})
    assert (state["status"], state["exitCode"], state["text"], state["cut"]) == ("completed", 0, "a\nb\n", False)


async def test_a_line_is_read_by_a_shell_in_the_judges_spelling() -> None:
    world = World({"'/bin/a' | '/bin/b'": ""})
    await world.run("a | b", permit=Permit(line="a | b", script="'/bin/a' | '/bin/b'"))
    assert world.shell.started[0].command.line == "'/bin/a' | '/bin/b'"


async def test_nothing_starts_without_a_permit() -> None:
    world = World({"ls": ""})
    with pytest.raises(ToolError, match="use the tool exec") as caught:
        await world.rpc()("process.start", {"call": "made-up"})
    assert caught.value.code == "denied"
    world.service.permit(ANN, "key", Permit(line="ls"))
    with pytest.raises(ToolError, match="nothing was permitted"):
        await world.rpc(BOB)("process.start", {"call": "key"})
    assert not world.shell.started


async def test_the_same_call_never_starts_its_command_twice() -> None:
    world = World({"ls": ""})
    world.service.permit(ANN, "key", Permit(line="ls"))
    await world.rpc()("process.start", {"call": "key"})
    world.service.permit(ANN, "key", Permit(line="ls"))
    with pytest.raises(ToolError, match="does not do so twice") as caught:
        await world.rpc()("process.start", {"call": "key"})
    assert caught.value.code == "repeated"
    assert len(world.shell.started) == 1


async def test_what_changed_after_it_was_shown_is_not_started() -> None:
    async def changed() -> None:
        raise ToolError("'job.py' was changed after it was shown; ask again", code="changed")

    world = World({"python3 job.py": ""})
    with pytest.raises(ToolError, match="was changed"):
        await world.run("python3 job.py", permit=Permit(line="python3 job.py", check_unchanged=changed))
    assert not world.shell.started


@pytest.mark.parametrize(
    ("ended", "sentence"),
    [
        (CommandEnded(reason="exit", duration=1, code=7), "exited with code 7"),
        (CommandEnded(reason="signal", duration=1, signal=9), "was ended by signal 9 (SIGKILL)"),
        (CommandEnded(reason="timeout", duration=3), "did not end within 3 s and was ended"),
        (
            CommandEnded(reason="timeout", duration=3, left=2),
            "did not end within 3 s and was ended; 2 of its processes could",
        ),
        (CommandEnded(reason="stop", duration=1), "was stopped"),
        (CommandEnded(reason="signal", duration=1, signal=9, limit="memory"), "; it reached its limit of memory"),
    ],
)
async def test_every_failure_says_which_and_keeps_the_output(ended: CommandEnded, sentence: str) -> None:
    world = World({"make": FakeRun("so far\n", code=None)})
    task = asyncio.create_task(world.run("make", seconds=3))
    while not world.shell.started:
        await asyncio.sleep(0)
    world.shell.started[0].ends(ended=ended)
    state = await task
    assert state["status"] == "failed"
    assert sentence in state["sentence"]
    assert state["text"] == "so far\n"
    assert state["timedOut"] is (ended.reason == "timeout")


async def test_a_slow_command_goes_to_the_background_under_a_name() -> None:
    world = World({"sleep 9": FakeRun("early\n", code=None)})
    state = await world.run("sleep 9", wait=0.01)
    assert (state["status"], state["tail"], state["pid"]) == ("running", "early\n", 100)
    assert len(state["sessionId"]) == 6
    world.shell.started[0].prints("later\n")
    world.shell.started[0].ends(0)
    polled = await world.ask("poll", state["sessionId"])
    assert (polled["text"], polled["status"], polled["exitCode"]) == ("early\nlater\n", "completed", 0)


async def test_a_command_that_ended_in_time_is_not_kept() -> None:
    world = World({"ls": "x\n"})
    await world.run("ls")
    assert await world.rpc()("process.list", {}) == {"sessions": []}


async def test_progress_is_told_while_the_call_waits() -> None:
    world = World({"make": FakeRun(code=None)})
    told: list[dict[str, Any]] = []
    heard = asyncio.Event()

    def listen(part: dict[str, Any]) -> None:
        told.append(part)
        heard.set()

    world.service.permit(ANN, "key", Permit(line="make"))
    task = asyncio.create_task(world.rpc()("process.start", {"call": "key"}, progress=listen))
    while not world.shell.started:
        await asyncio.sleep(0)
    for number in range(1_000):
        world.shell.started[0].prints(f"{number}\n")
    async with asyncio.timeout(60):
        await heard.wait()
    world.shell.started[0].ends(0)
    await task
    assert [part["tail"].endswith("998\n999\n") for part in told] == [True]
    assert len(told[0]["tail"]) == 2_000


async def test_a_cancelled_call_ends_its_command_and_a_background_one_goes_on() -> None:
    world = World({"fore": FakeRun(code=None), "back": FakeRun(code=None)})
    _, back = await world.background("back")
    task = asyncio.create_task(world.run("fore"))
    while len(world.shell.started) < 2:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    fore = world.shell.started[1]
    assert fore.ended == CommandEnded(reason="stop", duration=1.0)
    assert back.ended is None


async def test_long_output_shows_its_end_in_whole_lines_and_keeps_the_rest() -> None:
    world = World({"seq": "".join(f"line {number}\n" for number in range(3_000))})
    state = await world.run("seq")
    assert (state["lines"], state["totalLines"], state["cut"]) == (2_000, 3_000, True)
    assert state["text"].startswith("line 1000\n")
    kept = json.loads(world.blobs.values[state["key"]])
    assert kept["text"].startswith("line 0\nline 1\n")


async def test_output_beyond_what_is_kept_is_counted() -> None:
    limits = CommandLimits(output=1_000, whole=2_000)
    world = World({"yes": "y\n" * 10_000}, limits=limits)
    state = await world.run("yes")
    assert (state["bytes"], state["totalLines"], len(state["text"])) == (20_000, None, 1_000)
    assert json.loads(world.blobs.values[state["key"]])["text"].endswith("y\n\n[18,000 more bytes were not kept]")


@pytest.mark.parametrize(("asked", "given"), [(None, 60.0), (0, 60.0), (-1, 60.0), (5, 5.0), (90, 90.0), (9e9, 100.0)])
async def test_a_call_may_ask_for_less_time_and_for_more_only_within_bounds(asked: float | None, given: float) -> None:
    world = World({"ls": ""}, limits=CommandLimits(seconds=60.0), longest=100.0)
    await world.run("ls", seconds=asked)
    assert world.shell.started[0].limits.seconds == given


async def test_nobody_sees_or_touches_the_commands_of_another() -> None:
    world = World({"cat": FakeRun("secret\n", code=None)})
    id, running = await world.background("cat", ANN)
    assert await world.rpc(BOB)("process.list", {}) == {"sessions": []}
    for method in ("poll", "log", "write", "keys", "submit", "paste", "kill", "clear", "remove"):
        params = {"keys": {"literal": "x"}, "paste": {"text": "x"}}.get(method, {})
        with pytest.raises(ToolError, match="there are none") as caught:
            await world.ask(method, id, BOB, **params)
        assert caught.value.code == "not_found"
    assert running.ended is None


async def test_a_misspelt_name_is_told_the_nearest() -> None:
    world = World({"cat": FakeRun(code=None)})
    id, _ = await world.background("cat")
    with pytest.raises(ToolError, match=f"did you mean '{id}'"):
        await world.ask("poll", id[:-1] + "x")


async def test_a_poll_gives_only_what_is_new_and_tears_nothing() -> None:
    world = World({"cat": FakeRun(code=None)})
    id, running = await world.background("cat")
    running.prints(b"one " + "ü".encode()[:1])
    assert (await world.ask("poll", id))["text"] == "one "
    running.prints("ü".encode()[1:] + b" \x1b[3")
    assert (await world.ask("poll", id))["text"] == "ü "
    running.prints(b"1mred\x1b[0m\n")
    assert (await world.ask("poll", id))["text"] == "red\n"
    assert (await world.ask("poll", id))["text"] == ""


async def test_a_poll_says_what_it_missed() -> None:
    world = World({"cat": FakeRun(code=None)}, limits=CommandLimits(output=10))
    id, running = await world.background("cat")
    running.prints("0123456789abcdef")
    polled = await world.ask("poll", id)
    assert (polled["text"], polled["missed"]) == ("6789abcdef", 6)


async def test_a_poll_waits_for_output_or_the_end() -> None:
    world = World({"cat": FakeRun(code=None)})
    id, running = await world.background("cat")
    task = asyncio.create_task(world.ask("poll", id, wait=60))
    await begun()
    running.prints("now\n")
    assert (await task)["text"] == "now\n"
    task = asyncio.create_task(world.ask("poll", id, wait=60))
    await begun()
    running.ends(3)
    assert (await task)["exitCode"] == 3


@pytest.mark.parametrize(
    ("params", "text", "first"),
    [
        ({}, "\n".join(map(str, range(100, 300))), 100),
        ({"offset": 5, "limit": 2}, "5\n6", 5),
        ({"limit": 2}, "298\n299", 298),
        ({"offset": 999}, "", 300),
    ],
)
async def test_a_log_is_paged_by_lines(params: dict[str, Any], text: str, first: int) -> None:
    world = World({"seq": FakeRun("".join(f"{number}\n" for number in range(300)), code=None)})
    id, _ = await world.background("seq")
    log = await world.ask("log", id, **params)
    assert (log["text"], log["first"], log["totalLines"]) == (text, first, 300)


async def test_input_reaches_a_command_as_text_keys_lines_and_pastes() -> None:
    world = World({"cat": FakeRun(code=None)})
    id, running = await world.background("cat")
    await world.ask("write", id, data="raw")
    await world.ask("keys", id, keys=["C-c"], hex=["41"], literal="x")
    await world.ask("submit", id, data="line")
    await world.ask("paste", id, text="p")
    assert bytes(running.written) == b"rawxA\x03line\np"
    await world.ask("write", id, eof=True)
    assert running.is_closed


async def test_on_a_terminal_enter_is_a_return_and_a_paste_has_brackets() -> None:
    world = World({"vi": FakeRun(code=None)})
    state = await world.run("vi", background=True, pty=True)
    running = world.shell.started[0]
    await world.ask("submit", state["sessionId"], data=":q")
    await world.ask("paste", state["sessionId"], text="p")
    assert bytes(running.written) == b":q\r\x1b[200~p\x1b[201~"
    assert running.command.pty == (120, 30)


async def test_of_a_program_that_draws_the_screen_is_shown() -> None:
    world = World({"top": FakeRun(b"\x1b[2J\x1b[1;1Hload", code=None)})
    state = await world.run("top", background=True, pty=True)
    assert (await world.ask("poll", state["sessionId"]))["text"] == "[a screen of 120 columns]"


async def test_a_command_whose_input_is_closed_says_how_to_open_it() -> None:
    world = World({"sleep 9": FakeRun(code=None)})
    state = await world.run("sleep 9", wait=0.01)
    with pytest.raises(ToolError, match="background or pty"):
        await world.ask("write", state["sessionId"], data="x")


async def test_nothing_to_type_is_told() -> None:
    world = World({"cat": FakeRun(code=None)})
    id, _ = await world.background("cat")
    with pytest.raises(ArgumentError, match="'zz' is no byte in hex"):
        await world.ask("keys", id, hex=["zz"])


async def test_kill_ends_politely_or_sends_the_signal_asked_for() -> None:
    world = World({"cat": FakeRun(code=None)})
    id, running = await world.background("cat")
    for name in ("INT", "sigusr1", "9"):
        assert (await world.ask("kill", id, signal=name))["status"] == "running"
    assert running.signals == [2, 10, 9]
    with pytest.raises(ArgumentError, match="no signal 'NOPE'"):
        await world.ask("kill", id, signal="NOPE")
    assert (await world.ask("kill", id))["sentence"] == "was stopped"
    with pytest.raises(ToolError, match="was stopped; it reads nothing any more"):
        await world.ask("write", id, data="x")


async def test_clear_forgets_what_ended_and_remove_ends_what_runs() -> None:
    world = World({"a": FakeRun(code=None), "b": FakeRun(code=None)})
    first, _ = await world.background("a")
    second, running = await world.background("b")
    with pytest.raises(ToolError, match="still running"):
        await world.ask("clear", first)
    await world.ask("kill", first)
    await world.ask("clear", first)
    await world.ask("remove", second)
    assert running.ended is not None
    assert await world.rpc()("process.list", {}) == {"sessions": []}


async def test_who_started_a_command_hears_of_its_end_once() -> None:
    world = World({"make": FakeRun(code=None), "ls": ""})
    id, running = await world.background("make")
    running.ends(2)
    (notice,) = await hear_of_end(world, "ls")
    assert (notice["sessionId"], notice["name"], notice["sentence"]) == (id, "make", "exited with code 2")
    assert (await world.run("ls"))["notices"] == []


async def test_only_so_many_run_in_the_background() -> None:
    world = World({"cat": FakeRun(code=None), "ls": ""}, terms=ProcessTerms(running=2))
    await world.background("cat")
    await world.background("cat")
    with pytest.raises(ToolError, match="2 commands run in the background already") as caught:
        await world.background("cat")
    assert caught.value.code == "busy"
    assert (await world.run("ls"))["status"] == "completed"
    assert (await world.background("cat", BOB))[1].ended is None


async def test_a_slow_command_stays_with_its_call_while_the_background_is_full() -> None:
    world = World({"cat": FakeRun(code=None)}, terms=ProcessTerms(running=2))
    tasks = [asyncio.create_task(world.run("cat", wait=0.01)) for _ in range(3)]
    async with asyncio.timeout(60):
        done, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        while len(done) < 2:
            more, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            done |= more
    assert [task.result()["status"] for task in done] == ["running", "running"]
    for running in world.shell.started:
        running.ends(0)
    (last,) = waiting
    assert (await last)["status"] == "completed"


async def test_ended_commands_are_kept_for_a_time_and_not_too_many() -> None:
    world = World(
        {"ls": FakeRun("x" * 5_000, code=None), "true": ""}, terms=ProcessTerms(ended=2, bytes=20_000, seconds=60)
    )
    ids = []
    for world.now in (1.0, 2.0, 3.0):
        id, running = await world.background("ls")
        ids.append(id)
        running.ends()
        await hear_of_end(world, "true")
    listed = await world.rpc()("process.list", {})
    assert {each["sessionId"] for each in listed["sessions"]} == set(ids[1:])
    world.now = 62.5
    assert [each["sessionId"] for each in (await world.rpc()("process.list", {}))["sessions"]] == [ids[2]]


async def test_what_a_crib_that_died_left_is_ended_and_told(caplog: pytest.LogCaptureFixture) -> None:
    world = World({"ls": ""})
    world.left = [Leftover(pid=7, command="sleep 1000", started=1.0, pids=(7, 8))]
    await world.run("ls")
    await world.run("ls")
    assert [record.getMessage() for record in caplog.records] == [
        "a command was running when its crib died: 'sleep 1000' (pid 7); 2 processes of it were left and are ended"
    ]
    with pytest.raises(ToolError, match="scope 'admin'"):
        await world.rpc()("process.leftovers", {})


async def test_closing_ends_every_command() -> None:
    world = World({"cat": FakeRun(code=None)})
    _, running = await world.background("cat")
    await world.service.close()
    assert running.ended is not None


async def test_what_cannot_be_started_is_one_sentence_and_may_be_tried_again() -> None:
    world = World({"ls": ToolError("no folder 'x' in the workspace", code="not_found")})
    with pytest.raises(ToolError, match="no folder 'x'"):
        await world.run("ls")
    world.shell.runs["ls"] = "y\n"
    assert (await world.run("ls"))["text"] == "y\n"


async def test_a_thousand_at_once_each_get_their_own_answer() -> None:
    world = World({f"echo {number}": f"{number}\n" for number in range(1_000)})
    states = await asyncio.gather(*(world.run(f"echo {number}") for number in range(1_000)))
    assert [state["text"] for state in states] == [f"{number}\n" for number in range(1_000)]
