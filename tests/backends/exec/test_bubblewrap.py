"""Nothing leaves the sandbox, whatever is run in it; and ordinary work is done in it as ever."""

import asyncio
import os
import platform
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from toolcrib.backends.exec.bubblewrap import SYSCALL_NUMBERS, Bubblewrap, build_filter
from toolcrib.backends.exec.supervisor import SupervisorClient
from toolcrib.define.errors import ToolError
from toolcrib.define.shell import Command, CommandLimits, Shell

from .shells import ENV, give_up, opened, ran, started, until

pytestmark = pytest.mark.anyio

BENIGN = {
    "a pipe": ("printf 'b\\na\\n' | sort | tr a-z A-Z", "A\nB\n"),
    "a here-document": ("cat <<X\nhello\nX", "hello\n"),
    "process substitution": ("diff <(echo a) <(echo a) && echo same", "same\n"),
    "a private temporary folder": ("f=$(mktemp) && echo x > $f && cat $f", "x\n"),
    "shared memory": ("echo x > /dev/shm/y && cat /dev/shm/y", "x\n"),
    "null and zero": ("head -c 3 /dev/zero | wc -c; echo x > /dev/null", "3\n"),
    "randomness": ("head -c 8 /dev/urandom | wc -c", "8\n"),
    "loopback": ("bash -c 'exec 3<>/dev/udp/127.0.0.1/9' && echo up", "up\n"),
    "names of users": ("id -un", None),
    "time zones": ("TZ=Europe/Paris date -d @0 +%H", "01\n"),
    "a background job": ("(sleep 0.05; echo later) & wait; echo done", "later\ndone\n"),
    "a trap": ("trap 'echo bye' EXIT; echo hi", "hi\nbye\n"),
    "the home folder": ("echo x > ~/.made && cat ~/.made", "x\n"),
    "perl": ("perl -e 'print 6 * 7'", "42"),
    "links of the system": ("readlink -e /bin/sh > /dev/null && echo found", "found\n"),
    "own processes": ("sleep 5 & kill -0 $! && kill $! && echo ended", "ended\n"),
}


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[Shell]:
    async with opened("sandbox", tmp_path / "ws") as shell:
        yield shell


@pytest.mark.parametrize("name", BENIGN)
async def test_ordinary_work_is_done(shell: Shell, name: str) -> None:
    line, printed = BENIGN[name]
    ended, text = await ran(shell, line, env={**ENV, "HOME": "/home/somebody"})
    assert (ended.ok, text if printed is not None else None) == (True, printed), text


@pytest.mark.parametrize("line", ["echo x > made", "rm kept", "chmod 777 kept", "mkdir sub/made", "mv kept other"])
async def test_what_only_reads_finds_a_workspace_that_it_cannot_change(shell: Shell, tmp_path: Path, line: str) -> None:
    root = tmp_path / "ws"
    (root / "sub").mkdir()
    (root / "kept").write_text("as it was\n")
    ended, text = await ran(shell, f"cat kept; {line}", only_reads=True)
    assert not ended.ok
    assert (text.splitlines()[0], "Read-only file system" in text) == ("as it was", True)
    assert sorted(each.name for each in root.iterdir()) == ["kept", "sub"]
    assert (await ran(shell, line))[0].ok


async def test_a_held_file_has_the_contents_that_were_looked_at_whatever_stands_on_the_disk(
    shell: Shell, tmp_path: Path
) -> None:
    script = tmp_path / "ws/run.sh"
    script.write_text("#!/bin/sh\necho swapped\n")
    held = (str(script), b"#!/bin/sh\necho shown\n")
    assert (await ran(shell, "./run.sh; sh run.sh; echo x > other", held=held))[1] == "shown\nshown\n"
    assert (script.read_text(), (tmp_path / "ws/other").read_text()) == ("#!/bin/sh\necho swapped\n", "x\n")


@pytest.mark.parametrize(
    "line",
    [
        "cat {secret}",
        "cat /etc/shadow",
        "cat /etc/sudoers",
        "ls /root /home /var/lib /var/log /opt /srv /boot /sys /mnt | grep .",
        "ls -d {secret}",
        "ln {secret} stolen && cat stolen",
        "ln -s {secret} link && cat link",
        "cat /proc/1/root{secret}",
        "cat /proc/{pid}/environ",
        "kill -0 {pid}",
        "ls -d /proc/{pid}",
        "grep . /proc/cmdline",
        "grep . /proc/keys",
        "mount -t tmpfs x /tmp",
        "mount --bind / /tmp",
        "umount /etc",
        "unshare -U true",
        "unshare -r mount -t proc p /proc",
        "nsenter -t 1 -m true",
        "chroot / true",
        "mknod x c 1 1",
        "chown 12345 .",
        "perl -e 'socket(my $s, 40, 1, 0) or exit 1'",
        "perl -e 'socket(my $s, 38, 5, 0) or exit 1'",
        "perl -e 'syscall({ptrace}, 0, 0, 0, 0) == 0 or exit 1'",
        "perl -e 'syscall({keyctl}, 0, -3, 0) >= 0 or exit 1'",
        "perl -e 'my $b = pack(\"C\", 65); ioctl(STDIN, 0x5412, $b) or exit 1'",
        "bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}'",
        "bash -c 'exec 3<>/dev/tcp/1.1.1.1/80'",
        "getent hosts example.com",
        "hostname pwned",
        "exec 9>>/proc/sys/kernel/core_pattern",  # opened, never written to
        "exec 9>>/proc/sys/kernel/modprobe",
        "exec 9>>/proc/sys/vm/overcommit_memory",
        "exec 9>>/proc/irq/default_smp_affinity",
        "exec 9>>/proc/sysrq-trigger",
        "touch /x",
        "touch /usr/bin/x",
        "touch /etc/x",
        "touch /bin/x",
        "exec 9>>/usr/bin/env",
        "exec 9>>/dev/mem",
        "ls /dev/vda* /dev/sda* /dev/kvm /dev/fuse | grep .",
    ],
)
async def test_nothing_leaves_the_sandbox(shell: Shell, tmp_path: Path, line: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text("canary")
    if platform.machine() not in SYSCALL_NUMBERS:
        pytest.skip("impossible here: no filter of system calls for this processor")
    numbers = SYSCALL_NUMBERS[platform.machine()][1]
    with socket.create_server(("127.0.0.1", 0)) as server:
        words = {
            "{secret}": str(secret), "{pid}": str(os.getpid()), "{port}": str(server.getsockname()[1]),
            "{ptrace}": str(numbers["ptrace"]), "{keyctl}": str(numbers["keyctl"]),
        }  # fmt: skip
        for word, value in words.items():
            line = line.replace(word, value)
        ended, text = await ran(shell, line)
    assert not ended.ok, text
    assert "canary" not in text
    assert secret.read_text() == "canary"


LEFT_BEHIND = {
    "chmod": "chmod 4755 f", "chmod by letters": "chmod u+s f; chmod g+s f", "install": "install -m 6755 f g",
    "cp": "cp -p /usr/bin/passwd g && chmod 4755 g", "a folder": "mkdir -m 2755 d; mkdir e && chmod g+s e",
    "a pipe": "mkfifo p", "a device": "mknod n c 1 3", "a pipe by its number": "mknod n p",
    "made so": "python3 -c 'import os; os.close(os.open(\"g\", os.O_CREAT | os.O_WRONLY, 0o6755))'",
    "made so as a node": "python3 -c 'import os, stat; os.mknod(\"g\", stat.S_IFREG | 0o4755)'",
    "by descriptor": "python3 -c 'import os; os.fchmod(os.open(\"f\", os.O_RDWR), 0o4755)'",
    "without a name": "python3 -c 'import os; fd = os.open(\".\", os.O_TMPFILE | os.O_RDWR, 0o4755); "
    "os.link(f\"/proc/self/fd/{fd}\", \"g\", follow_symlinks=True)'",
    "the newest call": "perl -e 'syscall(452, -100, \"f\", 04755, 0)'",
    "behind a pointer": "perl -e '$how = pack(\"QQQ\", 0101, 04755, 0); syscall(437, -100, \"g\", $how, 24)'",
    "an archive": "cp f g && tar --mode=4755 -cf a.tar g && rm g && tar -xpf a.tar",
}  # fmt: skip


@pytest.mark.parametrize("name", LEFT_BEHIND)
async def test_nothing_is_left_that_lends_rights_or_is_no_file(shell: Shell, tmp_path: Path, name: str) -> None:
    if platform.machine() not in SYSCALL_NUMBERS:
        pytest.skip("impossible here: no filter of system calls for this processor")
    await ran(shell, "cp /usr/bin/true f")
    await ran(shell, LEFT_BEHIND[name])
    left = [path for path in (tmp_path / "ws").iterdir() if not (path.is_file() or path.is_dir()) or is_lent(path)]
    assert left == []


def is_lent(path: Path) -> bool:
    return bool(path.lstat().st_mode & 0o6000)


async def test_ordinary_modes_are_set(shell: Shell, tmp_path: Path) -> None:
    line = (
        "touch f && chmod 750 f && mkdir -m 1777 d && mkdir e && chmod 700 e && install -m 644 f g && cp -a e h"
        ' && (umask 027; touch i) && python3 -c \'import os; os.mknod("n"); os.close(os.open("o", 65, 0o600))\''
    )
    ended, text = await ran(shell, line)
    assert ended.ok, text
    modes = {path.name: path.stat().st_mode & 0o7777 for path in (tmp_path / "ws").iterdir()}
    assert modes == {"f": 0o750, "d": 0o1777, "e": 0o700, "g": 0o644, "h": 0o700, "i": 0o640, "n": 0o600, "o": 0o600}


async def test_it_has_no_privileges_and_gains_none(shell: Shell) -> None:
    _, text = await ran(shell, "cat /proc/self/status; hostname")
    fields = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    assert {fields[name].strip() for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert fields["NoNewPrivs"] == "1"
    assert fields["Seccomp"] == ("2" if build_filter() else "0")
    assert text.endswith("\nsandbox\n")


async def test_what_the_kernel_tells_root_is_not_seen(shell: Shell) -> None:
    names = "config.gz iomem kallsyms kpagecgroup kpagecount kpageflags slabinfo timer_list vmallocinfo cmdline keys"
    _, text = await ran(shell, f"cd /proc; for each in {names}; do head -c 100 $each 2>/dev/null; done | wc -c")
    assert text == "0\n"


@pytest.mark.parametrize(
    ("access", "reads", "writes"), [("rw", True, True), ("ro", True, False), ("none", False, False)]
)
async def test_the_workspace_is_open_as_far_as_it_was_said(
    tmp_path: Path, access: str, reads: bool, writes: bool
) -> None:
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "file").write_text("content")
    async with opened("sandbox", tmp_path / "ws", access=access) as shell:
        ended, text = await ran(shell, "cat file")
        assert (ended.ok, "content" in text) == (reads, reads)
        await ran(shell, "echo new > made; echo changed > file")
    assert (tmp_path / "ws" / "made").exists() is writes
    assert ((tmp_path / "ws" / "file").read_text() == "changed\n") is writes


async def test_files_made_inside_are_ours_outside(shell: Shell, tmp_path: Path) -> None:
    await ran(shell, "mkdir -p a/b && echo x > a/b/c && chmod 640 a/b/c")
    found = (tmp_path / "ws" / "a" / "b" / "c").stat()
    assert (found.st_uid, found.st_mode & 0o777) == (os.getuid(), 0o640)


async def test_private_folders_are_gone_with_the_command(shell: Shell) -> None:
    home = {**ENV, "HOME": "/home/somebody"}
    await ran(shell, "touch /tmp/a /dev/shm/a ~/a", env=home)
    _, text = await ran(shell, "ls -A /tmp /dev/shm ~ | grep a", env=home)
    assert "a\n" not in text.replace(":\n", "")


async def test_private_folders_take_no_more_than_the_memory_of_the_command(shell: Shell) -> None:
    limits = CommandLimits(seconds=60.0, memory=64 << 20)
    line = "for f in /tmp/a /dev/shm/a ~/a; do head -c 80M /dev/zero > $f 2>/dev/null; stat -c %s $f; done"
    _, text = await ran(shell, line, limits, env={**ENV, "HOME": "/home/somebody"})
    assert 0 < sum(map(int, text.split())) <= 64 << 20
    _, text = await ran(shell, "head -c 200M /dev/zero > /tmp/a && stat -c %s /tmp/a", env=ENV)
    assert text == f"{200 << 20}\n"


async def test_further_folders_can_be_shown_read_only(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "hello").write_text("#!/bin/sh\necho hello\n")
    (tools / "hello").chmod(0o755)
    (tmp_path / "ws").mkdir()
    supervisor = SupervisorClient()
    try:
        shell = Bubblewrap(str(tmp_path / "ws"), folders=(str(tools),), supervisor=supervisor)
        running = await shell.start(Command(argv=("hello",), env={"PATH": f"{tools}:/usr/bin:/bin"}), CommandLimits())
        assert (await running.wait()).ok
        assert running.tail() == b"hello\n"
        assert not (await ran(shell, f"touch {tools}/x"))[0].ok
    finally:
        await supervisor.close()


async def test_the_environment_is_not_shown_to_other_users_of_the_machine(shell: Shell) -> None:
    running = await started(shell, "echo ready; cat", env={**ENV, "TOKEN": "canary"}, stdin=None)
    await until(lambda: b"ready" in running.tail())
    assert b"canary" not in Path(f"/proc/{running.pid}/cmdline").read_bytes()
    await running.close_stdin()
    assert (await running.wait()).ok


async def test_a_program_that_only_leads_out_is_not_found(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\necho out\n")
    (tmp_path / "tool").chmod(0o755)
    (tmp_path / "ws" / "link").symlink_to(tmp_path / "tool")
    with pytest.raises(ToolError, match=r"no program '\./link' here"):
        await shell.start(Command(argv=("./link",), env=ENV), CommandLimits())
    ended, _ = await ran(shell, "./link")
    assert ended.code == 127


async def test_without_bubblewrap_nothing_runs_and_the_remedy_is_said(tmp_path: Path) -> None:
    supervisor = SupervisorClient()
    shell = Bubblewrap(str(tmp_path), supervisor=supervisor, program=str(tmp_path / "bwrap"))
    for ask in (shell.start(Command(line=f"touch {tmp_path}/ran", env=ENV), CommandLimits()), shell.describe()):
        with pytest.raises(
            ToolError, match=r"not installed; install the Debian package bubblewrap, or .*host: host"
        ) as told:
            await ask
        assert told.value.code == "unavailable"
    await supervisor.close()
    assert not (tmp_path / "ran").exists()


async def test_where_it_cannot_be_set_up_nothing_runs_and_the_reason_is_said(tmp_path: Path) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    broken.chmod(0o755)
    supervisor = SupervisorClient()
    shell = Bubblewrap(str(tmp_path), supervisor=supervisor, program=str(broken))
    with pytest.raises(ToolError, match=r"No permissions to create new namespace.*allow this user") as told:
        await shell.start(Command(line=f"touch {tmp_path}/ran", env=ENV), CommandLimits())
    await supervisor.close()
    assert (told.value.code, "\n" in str(told.value), (tmp_path / "ran").exists()) == ("unavailable", False, False)


async def test_many_at_once_do_not_see_each_other(shell: Shell) -> None:
    ends = await asyncio.gather(
        *(ran(shell, f"ls /tmp/x?; echo {i} > /tmp/x{i}; sleep 0.1; cat /tmp/x?*") for i in range(20))
    )
    assert [text.splitlines()[1:] for _, text in ends] == [[str(i)] for i in range(20)]


async def test_as_many_start_at_once_as_may_run(shell: Shell) -> None:
    ends = await asyncio.gather(*(ran(shell, f"echo {'x' * 20_000}") for _ in range(64)))
    assert all(ended.ok for ended, _ in ends)


@pytest.mark.parametrize(("machine", "arch"), [("x86_64", "X86_64"), ("aarch64", "AARCH64")])
def test_the_numbers_of_system_calls_are_the_kernels(machine: str, arch: str) -> None:
    pyseccomp = pytest.importorskip("pyseccomp", reason="pyseccomp is not installed")
    token, numbers = SYSCALL_NUMBERS[machine]
    assert token == getattr(pyseccomp.Arch, arch)
    told = {name: pyseccomp.resolve_syscall(token, name) for name in numbers}
    assert told == {
        **numbers,
        **{name: number for name, number in told.items() if number < 0},
    }  # newer than the package


def test_an_unknown_processor_has_no_filter() -> None:
    assert build_filter("abacus") is None
    assert len(build_filter("x86_64") or b"") % 8 == 0


async def test_a_sandbox_that_does_not_start_fails_its_test_where_bubblewrap_by_itself_works() -> None:
    with pytest.raises(ToolError, match="it did not start"):
        give_up(ToolError("it did not start"))
    with pytest.raises(pytest.skip.Exception, match="impossible here: it did not start"):
        give_up(ToolError("it did not start"), ["--no-such-option"])
