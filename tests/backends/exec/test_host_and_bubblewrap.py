"""What every shell does, on the bare host and in the sandbox."""

import asyncio
import os
import resource
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from toolcrib.backends.exec.limits import hierarchies
from toolcrib.backends.exec.supervisor import SupervisorClient
from toolcrib.define.errors import ToolError
from toolcrib.define.shell import Command, CommandLimits, Shell

from .shells import ENV, KINDS, descriptors, left, marker, opened, ran, started, until

pytestmark = pytest.mark.anyio


@pytest.fixture(params=KINDS)
async def shell(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shell]:
    async with opened(request.param, tmp_path / "ws") as shell:
        yield shell


async def test_stdout_and_stderr_come_in_the_order_they_were_printed(shell: Shell) -> None:
    ended, text = await ran(shell, "for i in 1 2 3; do echo out $i; echo err $i >&2; done")
    assert ended.ok
    assert text == "".join(f"out {i}\nerr {i}\n" for i in (1, 2, 3))


@pytest.mark.parametrize(
    ("line", "reason", "code", "number", "sentence"),
    [
        ("true", "exit", 0, None, "exited with code 0"),
        ("exit 7", "exit", 7, None, "exited with code 7"),
        ("no-such-program", "exit", 127, None, "exited with code 127"),
        ("kill -9 $$", "signal", None, 9, "was ended by signal 9 (SIGKILL)"),
        ("kill -TERM $$", "signal", None, 15, "was ended by signal 15 (SIGTERM)"),
        ("-x", "exit", 127, None, "exited with code 127"),
    ],
)
async def test_an_end_has_one_true_reason(
    shell: Shell, line: str, reason: str, code: int | None, number: int | None, sentence: str
) -> None:
    ended, _ = await ran(shell, line)
    assert (ended.reason, ended.code, ended.signal, ended.sentence()) == (reason, code, number, sentence)
    assert ended.ok is (code == 0)


async def test_a_deadline_ends_the_command_and_keeps_what_it_printed(shell: Shell) -> None:
    ended, text = await ran(shell, "echo before; sleep 1000", CommandLimits(seconds=3.0))
    assert (ended.reason, ended.code, text) == ("timeout", None, "before\n")
    assert ended.duration >= 3.0


async def test_who_ignores_polite_signals_is_killed(shell: Shell) -> None:
    running = await started(shell, "trap '' TERM INT HUP; echo ready; while :; do sleep 1000; done")
    await until(lambda: b"ready" in running.tail())
    ended = await running.stop(grace=0.1)
    assert (ended.reason, ended.left) == ("stop", 0)


async def test_who_cleans_up_on_term_has_time_for_it(shell: Shell) -> None:
    running = await started(shell, "trap 'echo clean; exit 0' TERM; echo ready; sleep 1000 & wait")
    await until(lambda: b"ready" in running.tail())
    ended = await running.stop()
    assert ended.reason == "stop"
    assert running.tail() == b"ready\nclean\n"


async def test_what_the_first_process_leaves_running_ends_with_it(shell: Shell) -> None:
    mark = marker()
    ended, text = await ran(shell, f"sleep {mark} & (setsid sleep {mark} &) ; nohup sleep {mark} & echo done")
    assert (ended.code, "done" in text, left(mark)) == (0, True, [])


async def test_stopping_twice_and_after_the_end_changes_nothing(shell: Shell) -> None:
    running = await started(shell, "sleep 1000")
    first, second = await asyncio.gather(running.stop(), running.stop())
    running.signal(signal.SIGTERM)
    assert first == second == running.ended == await running.stop() == await running.wait()


async def test_a_waiter_that_is_called_off_leaves_the_command_running(shell: Shell) -> None:
    running = await started(shell, "cat", stdin=None)
    waiter = asyncio.create_task(running.wait())
    await asyncio.sleep(0)
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    await running.write(b"still here\n")
    await running.close_stdin()
    assert (await running.wait()).ok
    assert running.tail() == b"still here\n"


async def test_a_start_that_is_called_off_leaves_nothing(shell: Shell) -> None:
    await ran(shell, "true")
    mark = marker()
    start = asyncio.create_task(started(shell, f"sleep {mark}"))
    while not start.done():
        await asyncio.sleep(0)
        start.cancel()
    await asyncio.wait([start])
    assert start.cancelled()
    await until(lambda: not left(mark))


async def test_a_signal_reaches_every_process_and_none_of_ours(shell: Shell) -> None:
    inner = """bash -c 'trap "echo inner; exit" USR1; echo ready; sleep 1000 & wait'"""
    running = await started(shell, f"trap 'echo outer; exit 3' USR1; {inner} & wait")
    await until(lambda: b"ready" in running.tail())
    running.signal(signal.SIGUSR1)
    ended = await running.wait()
    assert (ended.reason, ended.code) == ("exit", 3)
    assert b"outer" in running.tail()


async def test_the_environment_is_what_was_given_and_nothing_else(shell: Shell) -> None:
    _, text = await ran(shell, "env", env={**ENV, "GREETING": "a b\n'c'", "ODD": "\udcff"})
    assert "GREETING=a b\n'c'" in text
    names = {line.partition("=")[0] for line in text.splitlines() if "=" in line}
    assert names <= {"PATH", "LANG", "GREETING", "ODD", "PWD", "SHLVL", "_", "OLDPWD"}


async def test_no_descriptor_is_inherited(shell: Shell) -> None:
    read, write = os.pipe()
    os.set_inheritable(write, True)
    try:
        _, text = await ran(shell, "ls /proc/self/fd")
    finally:
        os.close(read)
        os.close(write)
    assert text.split() == ["0", "1", "2", "3"]  # the last is the listing itself


@pytest.mark.parametrize(
    ("given", "printed"), [(b"", b""), (b"one\ntwo\n", b"one\ntwo\n"), (b"x" * 300_000, b"x" * 200_000)]
)
async def test_input_that_is_given_ends_by_itself(shell: Shell, given: bytes, printed: bytes) -> None:
    running = await started(shell, "cat", stdin=given)
    assert (await running.wait()).ok
    assert running.tail() == printed


async def test_a_command_without_input_takes_none(shell: Shell) -> None:
    running = await started(shell, "sleep 1000")
    with pytest.raises(ToolError, match="takes no more input") as raised:
        await running.write(b"x")
    assert raised.value.code == "closed"


async def test_writing_to_who_does_not_read_ends_when_the_command_does(shell: Shell) -> None:
    running = await started(shell, "exec sleep 1000", stdin=None)
    write = asyncio.create_task(running.write(b"x" * 500_000))
    await asyncio.sleep(0)
    await running.stop()
    with pytest.raises(ToolError) as raised:
        await write
    assert raised.value.code == "closed"


async def test_argv_runs_as_it_is_without_a_shell(shell: Shell) -> None:
    running = await shell.start(Command(argv=("printf", "%s|", "$HOME", "a b", "*", ";"), env=ENV), CommandLimits())
    assert (await running.wait()).ok
    assert running.tail() == b"$HOME|a b|*|;|"


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        (Command(argv=("nope",), env=ENV), "not_found", "no program 'nope' here"),
        (Command(argv=("/no/such/thing",), env=ENV), "not_found", "no program '/no/such/thing' here"),
        (Command(argv=("./plain",), env=ENV), "not_found", "'./plain'"),
        (Command(line="true", env=ENV, cwd="missing"), "not_found", "no folder 'missing' in the workspace"),
        (Command(line="true", env=ENV, cwd="plain"), "not_found", "'plain' is not a folder"),
        (Command(line="true", env=ENV, cwd="../other"), "denied", "workspace"),
        (Command(line="true", env=ENV, cwd="out"), "denied", "workspace"),
        (Command(line="true", env=ENV, cwd="/etc"), "denied", "workspace"),
        (Command(env=ENV), "bad_arguments", "either argv or a line"),
        (Command(line="x", argv=("x",), env=ENV), "bad_arguments", "either argv or a line"),
        (Command(argv=("",), env=ENV), "bad_arguments", "names a program"),
        (Command(line="echo \0", env=ENV), "bad_arguments", "no NUL"),
        (Command(line="true", env={"A=B": "c"}), "bad_arguments", "no name is empty or has ="),
        (Command(line="x" * 200_000, env=ENV), "too_large", "write it to a file first"),
        (Command(line="true", env=ENV, pty=(0, 10)), "bad_arguments", "columns"),
    ],
)  # fmt: skip
async def test_what_cannot_start_is_one_clear_sentence(
    shell: Shell, tmp_path: Path, command: Command, code: str, words: str
) -> None:
    (tmp_path / "ws" / "plain").write_text("no program")
    (tmp_path / "ws" / "out").symlink_to("/usr")
    with pytest.raises(ToolError) as raised:
        await shell.start(command, CommandLimits())
    assert (raised.value.code, words in str(raised.value), "\n" in str(raised.value)) == (code, True, False)


async def test_it_runs_in_the_folder_it_is_told(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "ws" / "a" / "b").mkdir(parents=True)
    (tmp_path / "ws" / "link").symlink_to("a/b")
    for cwd, real in ((".", ""), ("a/b", "/a/b"), ("link", "/a/b"), ("a/../a", "/a")):
        _, text = await ran(shell, "pwd; echo $PWD", cwd=cwd)
        assert text == f"{os.path.realpath(tmp_path)}/ws{real}\n" * 2


async def test_a_long_command_with_a_large_environment_runs(shell: Shell) -> None:
    _, text = await ran(shell, f"printf %s {'y' * 100_000} | wc -c; echo ${{#BIG}}", env={**ENV, "BIG": "z" * 100_000})
    assert text.split() == ["100000", "100000"]


async def test_much_output_keeps_the_end_in_memory_and_the_beginning_on_disk(shell: Shell) -> None:
    limits = CommandLimits(seconds=60.0, output=10_000, whole=50_000)
    running = await started(shell, "seq 1 1000000", limits)
    assert (await running.wait()).ok
    everything = "".join(f"{i}\n" for i in range(1, 1_000_001)).encode()
    assert running.total == len(everything)
    assert running.tail() == everything[-10_000:]
    assert running.since(running.total - 5) == (running.total - 5, everything[-5:])
    assert running.since(0) == (running.total - 10_000, everything[-10_000:])
    whole = await running.whole()
    assert (whole.data, whole.missing) == (everything[:50_000], len(everything) - 50_000)
    assert whole.why == "only the first 50,000 bytes are kept"


async def test_new_output_is_told_as_it_comes(shell: Shell) -> None:
    running = await started(shell, "read x; echo $x; read x; echo $x", stdin=None)
    heard: list[bytes] = []
    end = running.watch(heard.append)
    running.watch(_fails)  # who fails is not told again, and harms nobody
    await running.write(b"one\n")
    await until(lambda: b"".join(heard) == b"one\n")
    end()
    await running.write(b"two\n")
    await running.wait()
    assert (b"".join(heard), running.tail()) == (b"one\n", b"one\ntwo\n")


async def test_memory_is_limited(shell: Shell) -> None:
    line = "x=$(head -c 300000000 /dev/zero | tr '\\0' x); echo ${#x}"
    ended, text = await ran(shell, line, CommandLimits(seconds=60.0, memory=100_000_000))
    assert not ended.ok
    assert "300000000" not in text


@pytest.mark.parametrize("apart", ["", "setsid --wait "])
async def test_memory_is_limited_for_all_processes_of_a_command_together(shell: Shell, apart: str) -> None:
    holds = (
        "for (1..12) { fork or do { vec(my $x, 40_000_000, 8) = 1; sleep 50; exit } } while (wait > 0) { exit 1 if $? }"
    )
    ended, _ = await ran(shell, f"{apart}perl -e '{holds}'", CommandLimits(seconds=100.0, memory=64 << 20))
    assert (ended.ok, ended.limit, ended.left) == (False, "memory", 0)
    assert "it reached its limit of memory" in ended.sentence()


async def test_memory_that_processes_share_counts_once(shell: Shell) -> None:
    shares = 'vec(my $x, 40_000_000, 8) = 1; for (1..8) { fork or do { sleep 2; exit } } 1 while wait > 0; print "y"'
    ended, text = await ran(shell, f"perl -e '{shares}'", CommandLimits(seconds=100.0, memory=128 << 20))
    assert (ended.ok, ended.limit, text) == (True, "", "y")


async def test_processes_are_limited(shell: Shell) -> None:
    if not os.getuid() and not any("pids" in place.kinds for place in hierarchies()):
        pytest.skip("impossible here: root is exempt, and no control group can be made")
    mark = marker()
    forks = f'for (1..60) {{ my $p = fork; defined $p or last; $p or exec "sleep", "{mark}" }}'
    line = f"perl -e '{forks} $| = 1; print \"enough\n\"; sleep 1000'"
    running = await started(shell, line, CommandLimits(seconds=60.0, processes=30))
    await until(lambda: b"enough" in running.tail() and len(left(mark)) > 10)
    assert 10 < len(left(mark)) <= 30
    ended = await running.stop()
    assert (ended.left, left(mark)) == (0, [])


async def test_a_fork_bomb_is_ended(shell: Shell) -> None:
    if not os.getuid() and not any("pids" in place.kinds for place in hierarchies()):
        pytest.skip("impossible here: root is exempt, and no control group can be made")
    ended, _ = await ran(shell, ":(){ :|:& };:; sleep 1000", CommandLimits(seconds=1.0, processes=50))
    assert (ended.left, ended.reason in ("timeout", "exit")) == (0, True)


async def test_descriptors_and_children_come_back_to_where_they_were(shell: Shell) -> None:
    await ran(shell, "true")
    before = descriptors()
    for line in ("echo x", "exit 3", "sleep 1000", "kill -9 $$"):
        await ran(shell, line, CommandLimits(seconds=0.2))
    await ran(shell, "echo x", pty=(80, 24))
    await ran(shell, "cat", stdin=b"x" * 10)
    with pytest.raises(ToolError):
        await shell.start(Command(argv=("nope",), env=ENV), CommandLimits())
    assert descriptors() <= before


async def test_it_says_what_confines(shell: Shell) -> None:
    confinement = await shell.describe()
    assert confinement.kind == ("host" if "Host" in type(shell).__name__ else "sandbox")
    assert all(fact and "\n" not in fact for fact in confinement.facts)


@pytest.mark.parametrize(("kind", "count"), [("host", 1_000), ("sandbox", 100)])
async def test_a_thousand_at_once_wait_for_their_turn(tmp_path: Path, kind: str, count: int) -> None:
    supervisor = SupervisorClient(most=8)
    async with opened(kind, tmp_path / "ws", supervisor=supervisor) as shell:
        await ran(shell, "true")
        before = descriptors()
        ends = await asyncio.gather(*(ran(shell, "echo x", CommandLimits(seconds=60.0)) for _ in range(count)))
        assert {(ended.code, text) for ended, text in ends} == {(0, "x\n")}
        assert descriptors() <= before


async def test_more_than_may_wait_are_refused_in_words(tmp_path: Path) -> None:
    async with opened("host", tmp_path / "ws", supervisor=SupervisorClient(most=2, waiting=3)) as shell:
        outcomes = await asyncio.gather(*(started(shell, "sleep 1000") for _ in range(2)))
        waiting = [asyncio.create_task(ran(shell, "echo x")) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(ToolError, match="2 commands run and 3 wait already") as raised:
            await started(shell, "true")
        assert raised.value.code == "busy"
        for running in outcomes:
            await running.stop()
        assert [text for _, text in await asyncio.gather(*waiting)] == ["x\n"] * 3


async def test_what_no_disk_takes_is_said_and_the_command_runs_on(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    async with opened("host", tmp_path / "ws", supervisor=SupervisorClient(str(tmp_path / "state"))) as shell:
        await ran(shell, "true")
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))  # the kernel says no as a full disk does
        try:
            running = await started(shell, "seq 1 100000", CommandLimits(output=1_000))
            assert (await running.wait()).ok
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        whole = await running.whole()
    assert whole.data.startswith(b"1\n2\n3\n")
    assert whole.missing == running.total - len(whole.data) > 0
    assert whole.why.startswith("the disk did not take it")


def _fails(data: bytes) -> None:
    raise ValueError(data)
