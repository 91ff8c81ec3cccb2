"""Search in a workspace on disk: what is found, in which order, what is left out, and that nothing leads out."""

import asyncio
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from toolcrib.backends.files.beneath import Beneath
from toolcrib.backends.files.guard import WorkspaceGuard
from toolcrib.backends.files.search import find_names, search
from toolcrib.backends.files.search.rg import Sieve, StopSignal, find_ripgrep, read_rows, run_until_stopped
from toolcrib.define.errors import ToolError
from toolcrib.define.files import Find, Found, MatchedLine, Names, Search

from .race import swapping

pytestmark = pytest.mark.anyio

Make = Callable[..., Beneath]
Look = Callable[..., Awaitable[Found]]
RG = find_ripgrep() or ""
BLOCK = 8 << 20
GUARD = WorkspaceGuard.of("ro", (), ("**/node_modules/**",))


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Beneath] = []

    def build(files: dict[str, str | bytes]) -> Beneath:
        root = tmp_path / "ws"
        root.mkdir()
        for path, data in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(data.encode() if isinstance(data, str) else data)
        made.append(Beneath(str(root)))
        return made[-1]

    yield build
    for beneath in made:
        beneath.close()


@pytest.fixture(params=[0, 1_000], ids=["sieved", "at once"])
def look(request: pytest.FixtureRequest) -> Look:
    async def looked(beneath: Beneath, pattern: str, **asked: object) -> Found:
        query = Search(pattern=pattern, **asked)  # type: ignore[arg-type]  # the fields of Search
        return await search(beneath, GUARD, query, front=request.param)

    return looked


def rows(found: Found) -> list[str]:
    return [f"{line.path}{':' if line.matched else '-'}{line.number} {line.text}" for line in found.lines]


async def test_lines_come_in_the_order_of_paths(make: Make, look: Look) -> None:
    world = make({"b.txt": "x1\n\nx3", "a/z": "x\n", "a/b/c": "x\n", "a.txt": "x\r\n", ".h": "x\n", "B": "x\n"})
    assert rows(await look(world, "x")) == [
        ".h:1 x",
        "B:1 x",
        "a/b/c:1 x",
        "a/z:1 x",
        "a.txt:1 x",
        "b.txt:1 x1",
        "b.txt:3 x3",
    ]


async def test_lines_around_two_matches_are_given_once(make: Make, look: Look) -> None:
    world = make({"f": "1\nx\n3\nx\n5\n6\n7\nx\n"})
    assert rows(await look(world, "x", context=1)) == [
        "f-1 1", "f:2 x", "f-3 3", "f:4 x", "f-5 5", "f-7 7", "f:8 x",
    ]  # fmt: skip


@pytest.mark.parametrize(("limit", "more"), [(1, True), (3, True), (4, False), (5, False), (0, True)])
async def test_more_is_said_only_when_something_was_left_out(make: Make, look: Look, limit: int, more: bool) -> None:
    world = make({"a": "x\nx\n", "b": "x\n", "c": "y\n", "d": "x\n", "e": "y\n"})
    found = await look(world, "x", limit=limit)
    assert (len(found.lines), found.more) == (min(max(limit, 1), 4), more)


async def test_ignored_binary_and_linked_files_are_passed_over(make: Make, look: Look, tmp_path: Path) -> None:
    world = make(
        {
            ".gitignore": "*.log\nout/\n!keep.log\n", "a.log": "x", "keep.log": "x", "out/f": "x",
            "sub/.ignore": "/g\n", "sub/g": "x", "sub/deep/g": "x", "bin": b"x\0", "late": b"x" * 70_000 + b"\n\0",
            ".git/config": "x",
        }
    )  # fmt: skip
    (tmp_path / "outside").write_text("x")
    (tmp_path / "ws/link").symlink_to(tmp_path / "outside")
    (tmp_path / "ws/folder").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "ws/pipe")
    assert rows(await look(world, "x")) == ["keep.log:1 x", "sub/deep/g:1 x"]


async def test_an_ignored_folder_that_is_named_is_searched(make: Make, look: Look) -> None:
    world = make({".gitignore": "out/\n*.log\n", "out/f": "x", "out/a.log": "x", ".git/config": "x"})
    assert rows(await look(world, "x", path="out")) == ["out/f:1 x"]
    assert rows(await look(world, "x", path="out/a.log")) == ["out/a.log:1 x"]
    assert rows(await look(world, "x", path=".git")) == [".git/config:1 x"]


@pytest.mark.parametrize(
    ("glob", "found"),
    [
        ("*.ts", ["a.ts", "s/b.ts", "s/t/c.ts"]), ("s/*.ts", ["s/b.ts"]), ("t/*.ts", ["s/t/c.ts"]), ("/*.ts", ["a.ts"]),
        ("s/**/*.ts", ["s/b.ts", "s/t/c.ts"]), ("*.{py,log}", ["a.py", "x.log"]), ("!*.ts", ["a.py"]),
        ("t/", ["s/t/c.ts"]), ("[ab].*", ["a.py", "a.ts", "s/b.ts"]), ("", []), ("none", []),
    ],
)  # fmt: skip
async def test_a_glob_names_the_files_even_ignored_ones(make: Make, look: Look, glob: str, found: list[str]) -> None:
    world = make(dict.fromkeys(("a.ts", "a.py", "s/b.ts", "s/t/c.ts", "x.log"), "x") | {".gitignore": "*.log\n"})
    answer = await look(world, "x", glob=glob)
    assert [line.path for line in answer.lines] == found


async def test_hard_linked_files_are_left_out_and_counted(make: Make, look: Look, tmp_path: Path) -> None:
    world = make({"a": "x", "node_modules/m": "x", "other": "y"})
    (tmp_path / "secret").write_text("x CANARY")
    for name in ("b", "c", "node_modules/n"):
        (tmp_path / "ws" / name).hardlink_to(tmp_path / "secret")
    found = await look(world, "x")
    assert (rows(found), found.linked) == (["a:1 x", "node_modules/m:1 x", "node_modules/n:1 x CANARY"], 2)
    assert (await look(world, "x", limit=1)).more is True
    with pytest.raises(ToolError, match="hard-linked"):
        await look(world, "x", path="b")


async def test_an_ignore_file_that_is_a_link_is_not_obeyed(make: Make, look: Look, tmp_path: Path) -> None:
    world = make({"secret-word": "x", "b": "x"})
    (tmp_path / "outside").write_text("secret-word\n")
    (tmp_path / "ws/.gitignore").symlink_to(tmp_path / "outside")
    assert rows(await look(world, "x")) == ["b:1 x", "secret-word:1 x"]


async def test_a_pipe_in_place_of_an_ignore_file_holds_up_nobody(make: Make, look: Look, tmp_path: Path) -> None:
    world = make({"a": "x"})
    os.mkfifo(tmp_path / "ws/.gitignore")
    assert rows(await asyncio.wait_for(look(world, "x"), 60)) == ["a:1 x"]


@pytest.mark.parametrize("pattern", ["--pre=touch made", "-e", "--files", "-f/etc/passwd", "--", "$(touch made)"])
async def test_a_pattern_is_never_an_option(make: Make, look: Look, tmp_path: Path, pattern: str) -> None:
    world = make({"a": f"1 {pattern}\n", "-v": f"{pattern}\n", "--pre=x": "y\n"})
    found = await look(world, pattern, literal=True)
    assert [line.path for line in found.lines] == ["-v", "a"]
    assert not (tmp_path / "ws/made").exists()


async def test_the_users_configuration_of_ripgrep_is_not_read(make: Make, tmp_path: Path) -> None:
    world = make({"a": "x\n"})
    (tmp_path / "rc").write_text("--invert-match\n")
    code = (
        "import asyncio, sys\n"
        "from toolcrib.backends.files.beneath import Beneath\n"
        "from toolcrib.backends.files.guard import WorkspaceGuard\n"
        "from toolcrib.backends.files.search import search\n"
        "from toolcrib.define.files import Search\n"
        "found = search(Beneath(sys.argv[1]), WorkspaceGuard.of('ro', (), ()), Search(pattern='x'), front=0)\n"
        "print(len(asyncio.run(found).lines))\n"
    )
    env = {**os.environ, "RIPGREP_CONFIG_PATH": str(tmp_path / "rc")}
    done = subprocess.run([sys.executable, "-c", code, world.path], capture_output=True, env=env, check=True, text=True)
    assert done.stdout == "1\n"


async def test_encodings_are_read_as_their_marks_say(make: Make, look: Look) -> None:
    world = make(
        {
            "u16": "слово\nx\n".encode("utf-16"),
            "u8": b"\xef\xbb\xbf\xd1\x81\xd0\xbb\n",
            "bad": b"\xff\xd1\x81\xd0\xbb\xfe",
        }
    )
    assert rows(await look(world, "^сл|сл\ufffd?")) == ["bad:1 \ufffdсл\ufffd", "u16:1 слово", "u8:1 сл"]


async def test_a_file_larger_than_a_block_is_searched_to_its_end(make: Make, look: Look) -> None:
    line = b"y" * 99 + b"\n"
    filler = line * (BLOCK // len(line) + 1)
    world = make({"big": b"x first\n" + filler + b"around\nx middle\nafter\n" + filler + b"x last"})
    count = filler.count(b"\n")
    assert rows(await look(world, "^x", context=1)) == [
        "big:1 x first", f"big-2 {'y' * 99}", f"big-{count + 2} around", f"big:{count + 3} x middle",
        f"big-{count + 4} after", f"big-{2 * count + 4} {'y' * 99}", f"big:{2 * count + 5} x last",
    ]  # fmt: skip


async def test_a_line_longer_than_a_block_is_cut_and_the_next_one_counted_rightly(make: Make, look: Look) -> None:
    world = make({"big": b"x" + b"y" * (2 * BLOCK) + b"\nx second\n"})
    found = await look(world, "x")
    assert [(line.number, line.text[:8]) for line in found.lines] == [(1, "xyyyyyyy"), (2, "x second")]
    assert len(found.lines[0].text) <= 4_000


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("gone", "does not exist"),
        ("..", "leads out"),
        ("/etc", "outside"),
        ("out", "leads out"),
        ("pipe", "not a regular"),
    ],
)
async def test_a_path_that_cannot_be_searched_is_one_sentence(
    make: Make, look: Look, tmp_path: Path, path: str, words: str
) -> None:
    world = make({"a": "x"})
    (tmp_path / "ws/out").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "ws/pipe")
    with pytest.raises(ToolError, match=words) as raised:
        await look(world, "x", path=path)
    assert "\n" not in str(raised.value)


async def test_a_link_that_stays_inside_may_be_searched(make: Make, look: Look, tmp_path: Path) -> None:
    world = make({"real/a": "x"})
    (tmp_path / "ws/link").symlink_to("real")
    assert rows(await look(world, "x", path="link")) == ["real/a:1 x"]


async def test_a_workspace_out_of_reach_is_not_searched(make: Make) -> None:
    closed = WorkspaceGuard.of("none", (), ())
    world = make({"a": "x"})
    with pytest.raises(ToolError, match="out of reach"):
        await search(world, closed, Search(pattern="x"))
    with pytest.raises(ToolError, match="out of reach"):
        await find_names(world, closed, Find(pattern="x"))


async def test_a_sieve_that_fails_is_done_without(make: Make, tmp_path: Path) -> None:
    world = make({"a": "x", "b": "y"})
    for body in ("exit 3", "exit 2", "kill -9 $$"):
        found = await search(world, GUARD, Search(pattern="x"), rg=pretend(tmp_path, sieve=body), front=0)
        assert rows(found) == ["a:1 x"]


async def test_a_ripgrep_that_is_missing_is_one_sentence(make: Make) -> None:
    with pytest.raises(ToolError, match=r"^ripgrep, which searches in files, cannot be started: No such file"):
        await search(make({"a": "x"}), GUARD, Search(pattern="x"), rg="/nowhere/rg")


async def test_a_file_that_is_too_much_for_ripgrep_is_counted_and_the_others_are_found(
    make: Make, tmp_path: Path
) -> None:
    world = make({"a": "x", "b": "x poison", "c": "x", "d": "y"})
    dies = "for each; do case $each in /proc/*) if grep -q poison $each; then kill -9 $$; fi;; esac; done"
    found = await search(world, GUARD, Search(pattern="x"), rg=pretend(tmp_path, lines=dies))
    assert (rows(found), found.unreadable) == (["a:1 x", "c:1 x"], 1)


def test_ripgrep_names_the_files_worth_opening(make: Make) -> None:
    world = make({"a": "x", "sub/b": "x", "c": "y", "d.log": "x", "e.log/f": "x"})
    sieve = Sieve(RG, world.fd, ("--regexp=x",), None, ("*.log",), StopSignal())
    try:
        assert sieve.wait() == (frozenset({"a", "sub/b"}), True)
    finally:
        sieve.close()


async def test_a_file_behind_a_folder_that_is_gone_is_not_mistaken_for_another(make: Make, tmp_path: Path) -> None:
    world = make({"a/b/c": "x", "a/f": "wrong", "f": "right"})
    rg = pretend(tmp_path, sieve=f"rm -r {tmp_path}/ws/a/b\nprintf './a/b/c\\0./f\\0'; exit 0")
    # whether our own walk sees the folder before it is gone is left to the two processes
    assert rows(await search(world, GUARD, Search(pattern="."), rg=rg, front=0)) == ["f:1 right"]


async def test_a_sieve_that_lies_leads_nowhere(make: Make, tmp_path: Path) -> None:
    world = make({"a": "y", "b": "x"})
    (tmp_path / "secret").write_text("x")
    (tmp_path / "ws/link").symlink_to(tmp_path / "secret")
    lies = r"printf './a\0./b\0./link\0./../secret\0/etc/passwd\0./gone\0'; exit 0"
    assert rows(await search(world, GUARD, Search(pattern="x"), rg=pretend(tmp_path, sieve=lies), front=0)) == ["b:1 x"]


def pretend(folder: Path, sieve: str = ":", lines: str = ":") -> str:
    """Return a ripgrep that does something else first: as a sieve, or when it is asked for lines."""
    fake = folder / "rg"
    fake.write_text(
        f"#!/bin/sh\ncase \" $* \" in\n*' --files-with-matches '*)\n{sieve}\n;;\n*)\n{lines}\n;;\nesac\n"
        f'exec {RG} "$@"\n'
    )
    fake.chmod(0o755)
    return str(fake)


async def test_a_cancelled_search_ends_its_program(make: Make, tmp_path: Path) -> None:
    world = make({"a": "x"})
    fake, told = tmp_path / "rg", tmp_path / "told"
    os.mkfifo(told)
    fake.write_text(f"#!/bin/sh\nprintf $$ > {told}\nexec sleep 1000\n")
    fake.chmod(0o755)
    task = asyncio.create_task(search(world, GUARD, Search(pattern="x"), rg=str(fake), front=0))
    program = os.pidfd_open(int(await asyncio.wait_for(asyncio.to_thread(told.read_text), 60)))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    ended, _, _ = await asyncio.to_thread(select.select, [program], [], [], 60)
    assert ended, "the program is still there"
    os.close(program)


async def test_work_that_takes_too_long_says_so() -> None:
    began, ended = threading.Event(), threading.Event()

    def work(stop: StopSignal) -> None:
        began.set()
        try:
            while True:
                stop.check()
        finally:
            ended.set()

    while not began.is_set():  # on a busy machine it may be over before it has begun
        with pytest.raises(ToolError, match="took longer than 0 s"):
            await run_until_stopped(work, 0.01)
    assert await asyncio.to_thread(ended.wait, 60)


async def test_a_ripgrep_that_hangs_is_killed_when_the_time_is_over(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    hanging = pretend(tmp_path, lines="exec sleep 1000")
    ended = threading.Event()

    def work(stop: StopSignal) -> None:
        with (tmp_path / "f").open("rb") as file, pytest.raises(ToolError, match="stopped"):
            list(read_rows(hanging, [file.fileno()], ["--regexp=x"], context=0, max_count=1, stop=stop))
        ended.set()

    with pytest.raises(ToolError, match="took longer"):
        await run_until_stopped(work, 0.2)
    assert await asyncio.to_thread(ended.wait, 60)


@pytest.mark.skipif(os.name != "posix", reason="needs users")
async def test_what_may_not_be_read_is_counted(make: Make, look: Look, tmp_path: Path) -> None:
    world = make({"a": "x", "shut/b": "x", "c": "x"})
    (tmp_path / "ws/c").chmod(0)
    (tmp_path / "ws/shut").chmod(0)
    shut_out = os.geteuid() != 0
    found = await look(world, "x")
    (tmp_path / "ws/shut").chmod(0o755)
    assert (len(found.lines), found.unreadable) == ((1, 2) if shut_out else (3, 0))


async def test_a_folder_swapped_for_a_link_never_leads_out(make: Make, look: Look, tmp_path: Path) -> None:
    world = make({"race/f": "inner", "race/sub/g": "inner", "z": "inner"})
    (tmp_path / "out/sub").mkdir(parents=True)
    for name in ("f", "sub/g", "only-outside"):
        (tmp_path / "out" / name).write_text("CANARY inner")
    with swapping(tmp_path / "ws/race", "../out"):
        for _ in range(60):
            for line in (await look(world, "inner|CANARY")).lines:
                assert line == MatchedLine(path=line.path, number=1, text="inner")
            names = (await find_names(world, GUARD, Find(pattern="*"))).paths
            assert "race/only-outside" not in names


async def test_find_gives_names_in_order_and_folders_with_a_slash(make: Make, tmp_path: Path) -> None:
    world = make(
        {"b/c.txt": "", "a.txt": "", ".gitignore": "no/\n", "no/x": "", "b/Z.TXT": "", "a/x": "", ".git/h": ""}
    )
    (tmp_path / "ws/link.txt").symlink_to("/etc")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "ws/s.txt"))
    expected = {
        "*.txt": ("a.txt", "b/Z.TXT", "b/c.txt", "link.txt", "s.txt"),
        "*.TXT": ("b/Z.TXT",),
        "b": ("b/",),
        "b/": ("b/",),
        "b/*": ("b/Z.TXT", "b/c.txt"),
        "**/c.*": ("b/c.txt",),
        "/a*": ("a/", "a.txt"),
        "*": (".gitignore", "a/", "a/x", "a.txt", "b/", "b/Z.TXT", "b/c.txt", "link.txt", "s.txt"),
        "nothing": (),
    }
    for pattern, paths in expected.items():
        assert await find_names(world, GUARD, Find(pattern=pattern)) == Names(paths=paths), pattern
    assert await find_names(world, GUARD, Find(pattern="*.txt", limit=2)) == Names(
        paths=("a.txt", "b/Z.TXT"), more=True
    )
    assert await find_names(world, GUARD, Find(pattern="*.txt", limit=5)) == Names(paths=expected["*.txt"])
    assert await find_names(world, GUARD, Find(pattern="c*", path="b")) == Names(paths=("b/c.txt",))


async def test_names_that_are_no_text_are_found(make: Make, tmp_path: Path) -> None:
    world = make({"a": "x"})
    Path(os.fsdecode(os.fsencode(tmp_path / "ws") + b"/bad\xff.txt")).write_text("x")
    (tmp_path / "ws/two\nlines.txt").write_text("x")
    assert (await find_names(world, GUARD, Find(pattern="?*.txt"))).paths == ("bad\udcff.txt", "two\nlines.txt")
    found = await search(world, GUARD, Search(pattern="x", glob="*[!q].txt"), front=0)
    assert [line.path for line in found.lines] == ["bad\udcff.txt", "two\nlines.txt"]


@pytest.mark.parametrize("pattern", ["[", "a{b", "x\\", "[z-a]", "a" * 1_001, "{" * 20 + "}" * 20])
async def test_a_glob_that_is_none_is_one_sentence(make: Make, pattern: str) -> None:
    with pytest.raises(ToolError, match=r"^the glob") as raised:
        await find_names(make({"a": ""}), GUARD, Find(pattern=pattern))
    assert len(str(raised.value)) < 1_200


async def test_find_in_a_file_says_what_it_is(make: Make) -> None:
    with pytest.raises(ToolError, match="'a' is a file, not a folder"):
        await find_names(make({"a": ""}), GUARD, Find(pattern="*", path="a"))
