"""What every workspace does: on disk resolved by the kernel, on disk walked name by name, and in memory."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from toolcrib.backends.files.disk import Disk, Terms
from toolcrib.backends.files.local import LocalWorkspace
from toolcrib.define.errors import ToolError
from toolcrib.define.files import NOWHERE, Change
from toolcrib.define.ports import Workspace
from toolcrib.testing import MemoryWorkspace

pytestmark = pytest.mark.anyio

Make = Callable[..., Workspace]


@pytest.fixture(params=["kernel", "walk", "memory"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    disks: list[Disk] = []

    def build(files: dict[str, bytes] | None = None, access: str = "rw") -> Workspace:
        if request.param == "memory":
            return MemoryWorkspace(files, access=access)  # type: ignore[arg-type]  # the two words it knows
        for path, data in (files or {}).items():
            (tmp_path / "ws" / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "ws" / path).write_bytes(data)
        (tmp_path / "ws").mkdir(exist_ok=True)
        terms = Terms(root=tmp_path / "ws", access=access, state=tmp_path / "state")  # type: ignore[arg-type]
        disks.append(Disk(terms, kernel=request.param == "kernel"))
        return LocalWorkspace(disks[-1])

    yield build
    for disk in disks:
        disk.close()


async def refusal(awaitable: object) -> str:
    with pytest.raises(ToolError) as raised:
        await awaitable  # type: ignore[misc]
    assert "\n" not in str(raised.value)
    return raised.value.code


async def test_bytes_come_back_as_they_were_written(make: Make) -> None:
    workspace = make()
    data = bytes(range(256)) * 3
    entry = await workspace.write("a/b/c.bin", data)
    assert (entry.path, entry.kind, entry.size) == ("a/b/c.bin", "file", 768)
    assert await workspace.read("a/b/c.bin") == data
    assert await workspace.read("a/b/c.bin", 254, 4) == bytes([254, 255, 0, 1])
    assert await workspace.read("a/b/c.bin", 9_999) == b""


@pytest.mark.parametrize("path", ["./a//b.txt", "a/./b.txt", "a/../a/b.txt", "a/b.txt"])
async def test_a_path_may_be_spelled_in_several_ways(make: Make, path: str) -> None:
    workspace = make({"a/b.txt": b"x"})
    assert await workspace.read(path) == b"x"
    assert (await workspace.stat(path)).path == "a/b.txt"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("../x", "denied"), ("a/../../x", "denied"), ("..", "denied"), ("/etc/passwd", "denied"), ("~/x", "denied"),
        ("~root/x", "denied"), ("file:///etc/passwd", "denied"), ("https://x.test/y", "denied"), ("a\0b", "bad_path"),
        ("", "bad_path"), ("x" * 256, "bad_path"), ("y/" * 2_500, "bad_path"), ("\ud83d", "bad_path"),
    ],
)  # fmt: skip
async def test_a_path_that_leads_out_or_nowhere_is_refused_for_everything(make: Make, path: str, code: str) -> None:
    workspace = make({"a/b": b""})
    assert await refusal(workspace.read(path)) == code
    assert await refusal(workspace.stat(path)) == code
    assert await refusal(workspace.lines(path, 1, 1, 1)) == code
    assert await refusal(workspace.list(path)) == code
    assert await refusal(workspace.write(path, b"")) == code
    assert await refusal(workspace.delete(path)) == code
    assert await refusal(workspace.mkdir(path)) == code
    assert await refusal(workspace.move(path, "z")) == code
    assert await refusal(workspace.move("a", path)) == code


@pytest.mark.parametrize(
    "path", ["~draft.txt", "~$lock.docx", "..foo", "foo..bar", "100%.txt", "a\\b", "日本.txt", "-x"]
)
async def test_an_unusual_name_is_a_name_like_any_other(make: Make, path: str) -> None:
    workspace = make()
    await workspace.write(path, b"x")
    assert await workspace.read(path) == b"x"
    assert [entry.path for entry in (await workspace.list(".")).entries] == [path]


async def test_what_is_missing_or_of_the_wrong_kind_is_told_apart(make: Make) -> None:
    workspace = make({"d/f": b"1"})
    assert await refusal(workspace.read("none")) == "not_found"
    assert await refusal(workspace.read("d/none")) == "not_found"
    assert await refusal(workspace.read("d")) == "is_folder"
    assert await refusal(workspace.write("d", b"")) == "is_folder"
    assert await refusal(workspace.write(".", b"")) == "is_folder"
    assert await refusal(workspace.list("d/f")) == "not_folder"
    assert await refusal(workspace.list("none")) == "not_found"
    assert await refusal(workspace.delete("none")) == "not_found"
    assert await refusal(workspace.delete("d")) == "is_folder"
    assert await refusal(workspace.mkdir("d/f")) == "exists"


async def test_a_folder_is_listed_in_order_with_how_many_there_are(make: Make) -> None:
    workspace = make({"b": b"", "A/x": b"", "c10": b"", "C9": b"12", ".h": b""})
    listing = await workspace.list(".")
    assert [(entry.path, entry.kind) for entry in listing.entries] == [
        (".h", "file"), ("A", "folder"), ("b", "file"), ("c10", "file"), ("C9", "file"),
    ]  # fmt: skip
    assert [entry.size for entry in listing.entries][-1] == 2
    cut = await workspace.list("./", most=2)
    assert ([entry.name for entry in cut.entries], cut.total) == ([".h", "A"], 5)
    assert [entry.path for entry in (await workspace.list("A")).entries] == ["A/x"]


LINES = b"one\ntwo\r\n\nfour\nfive"


@pytest.mark.parametrize(
    ("asked", "data", "count", "more", "total", "long"),
    [
        ((1, 10, 100), LINES, 5, False, 5, None),
        ((2, 2, 100), b"two\r\n\n", 2, True, 5, None),
        ((5, 9, 100), b"five", 1, False, 5, None),
        ((1, 10, 8), b"one\ntwo\r\n", 2, True, 5, None),
        ((1, 10, 7), b"one\n", 1, True, 5, None),
        ((1, 10, 2), b"", 0, True, 5, 4),
        ((1, 10, 3), b"one\n", 1, True, 5, None),
        ((5, 10, 3), b"", 0, True, 5, 4),
        ((6, 1, 100), b"", 0, False, 5, None),
        ((99, 1, 100), b"", 0, False, 5, None),
        ((1, 0, 100), b"", 0, True, 5, None),
    ],
)
async def test_lines_are_whole_and_say_what_follows(
    make: Make, asked: tuple[int, int, int], data: bytes, count: int, more: bool, total: int, long: int | None
) -> None:
    workspace = make({"f": LINES})
    for _ in range(2):  # the second time from what the first has learned
        passage = await workspace.lines("f", *asked)
        assert (passage.data, passage.count, passage.more, passage.total, passage.long) == (
            data, count, more, total, long,
        )  # fmt: skip


async def test_pages_of_lines_put_together_are_the_file(make: Make) -> None:
    data = b"".join(b"line %d %s\n" % (number, b"x" * (number % 50)) for number in range(3_000))
    workspace = make({"f": data})
    first, pages = 1, b""
    while True:
        passage = await workspace.lines("f", first, 700, 10_000)
        pages += passage.data
        first += passage.count
        if not passage.more:
            break
    assert (pages, first, passage.total) == (data, 3_001, 3_000)


async def test_an_empty_file_has_no_lines(make: Make) -> None:
    passage = await make({"f": b""}).lines("f", 1, 10, 10)
    assert (passage.data, passage.count, passage.more, passage.total) == (b"", 0, False, 0)


async def test_a_change_of_several_files_happens_whole(make: Make) -> None:
    workspace = make({"a": b"1", "b": b"2", "old/c": b"3"})
    written = await workspace.change(
        [
            Change(path="a", data=b"one"),
            Change(path="b", data=None),
            Change(path="new/deep/c", data=b"3", expect=NOWHERE, like="old/c"),
            Change(path="old/c", data=None),
        ]
    )
    assert [(entry.path, entry.size) for entry in written] == [("a", 3), ("new/deep/c", 1)]
    assert await workspace.read("a") == b"one"
    assert await workspace.read("new/deep/c") == b"3"
    assert await refusal(workspace.read("b")) == "not_found"
    assert await refusal(workspace.read("old/c")) == "not_found"


@pytest.mark.parametrize(
    ("last", "code"),
    [
        (Change(path="none", data=None), "not_found"),
        (Change(path="b", data=b"", expect="another"), "changed"),
        (Change(path="b", data=b"", expect=NOWHERE), "changed"),
        (Change(path="none", data=b"", expect="another"), "changed"),
        (Change(path="../x", data=b""), "denied"),
        (Change(path="d", data=b""), "is_folder"),
    ],
)
async def test_a_change_that_cannot_happen_whole_does_not_happen(make: Make, last: Change, code: str) -> None:
    workspace = make({"a": b"1", "b": b"2", "d/e": b"3"})
    changes = [Change(path="a", data=b"one"), Change(path="new/n", data=b""), Change(path="d/e", data=None), last]
    assert await refusal(workspace.change(changes)) == code
    assert [await workspace.read(path) for path in ("a", "b", "d/e")] == [b"1", b"2", b"3"]
    assert await refusal(workspace.stat("new")) == "not_found"


async def test_the_version_of_a_file_changes_with_its_content(make: Make) -> None:
    workspace = make({"a": b"1"})
    before = await workspace.stat("a")
    assert (await workspace.stat("a")).version == before.version != NOWHERE
    after = await workspace.write("a", b"22")
    assert after.version != before.version
    assert (await workspace.stat("a")).version == after.version
    assert await refusal(workspace.change([Change(path="a", data=b"", expect=before.version)])) == "changed"
    await workspace.change([Change(path="a", data=b"3", expect=after.version)])
    assert await workspace.read("a") == b"3"


async def test_what_was_seen_is_remembered_until_it_is_seen_again(make: Make) -> None:
    workspace = make({"a": b"1"})
    assert workspace.last_seen("a") is None
    entry = await workspace.stat("./a")
    workspace.note(entry)
    assert workspace.last_seen("a") == workspace.last_seen("x/../a") == entry
    written = await workspace.write("a", b"2")
    assert workspace.last_seen("a") == written != entry


async def test_files_and_folders_are_deleted(make: Make) -> None:
    workspace = make({"a/b/c": b"", "a/d": b"", "e": b""})
    await workspace.delete("e")
    assert await refusal(workspace.stat("e")) == "not_found"
    await workspace.delete("a", recursive=True)
    assert await refusal(workspace.stat("a")) == "not_found"


async def test_a_folder_is_made_with_those_above_it_and_twice_is_fine(make: Make) -> None:
    workspace = make()
    for _ in range(2):
        await workspace.mkdir("x/y/z")
    assert (await workspace.stat("x/y/z")).kind == "folder"
    await workspace.delete("x/y/z")
    assert await refusal(workspace.stat("x/y/z")) == "not_found"


async def test_a_move_takes_everything_along_and_never_replaces(make: Make) -> None:
    workspace = make({"a/b/c": b"1", "d": b"2"})
    await workspace.move("a", "new/place")
    assert await workspace.read("new/place/b/c") == b"1"
    assert await refusal(workspace.stat("a")) == "not_found"
    assert await refusal(workspace.move("d", "new/place/b/c")) == "exists"
    assert await refusal(workspace.move("d", "new")) == "exists"
    assert await refusal(workspace.move("none", "z")) == "not_found"


async def test_a_read_only_workspace_reads_and_changes_nothing(make: Make) -> None:
    workspace = make({"a": b"1"}, access="ro")
    assert await workspace.read("a") == b"1"
    for method, *args in (
        (workspace.write, "a", b""), (workspace.write, "b/c", b""), (workspace.delete, "a"), (workspace.mkdir, "d"),
        (workspace.move, "a", "b"), (workspace.change, [Change(path="a", data=None)]),
    ):  # fmt: skip
        assert await refusal(method(*args)) == "denied"
    assert (await workspace.list(".")).total == 1
