"""What only a workspace on disk can get wrong: links, special files, protected names, permissions, full disks."""

import asyncio
import os
import socket
import stat
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from toolcrib.backends.files.disk import Disk, Terms
from toolcrib.backends.files.local import LocalWorkspace, Workspaces
from toolcrib.backends.files.stage import STAGE
from toolcrib.define.errors import ToolError
from toolcrib.define.files import Change

pytestmark = pytest.mark.anyio

Open = Callable[..., LocalWorkspace]


@pytest.fixture(params=[True, False], ids=["kernel", "walk"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    disks: list[Disk] = []
    (tmp_path / "ws").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "secret").write_text("CANARY")

    def build(**terms: Any) -> LocalWorkspace:
        disks.append(Disk(Terms(root=tmp_path / "ws", state=tmp_path / "state", **terms), kernel=request.param))
        return LocalWorkspace(disks[-1])

    yield build
    for disk in disks:
        disk.close()


@pytest.fixture
def ws(tmp_path: Path, opened: Open) -> Path:
    """The root; it exists once `opened` does."""
    return tmp_path / "ws"


async def refusal(awaitable: Any) -> ToolError:
    with pytest.raises(ToolError) as raised:
        await awaitable
    assert "\n" not in str(raised.value)
    return raised.value


async def test_the_kernel_resolves_where_it_can(tmp_path: Path) -> None:
    disk = Disk(Terms(root=tmp_path))
    assert disk.beneath.kernel == (os.uname().sysname == "Linux")
    disk.close()


async def test_a_root_that_is_not_there_is_named_with_the_remedy(tmp_path: Path) -> None:
    workspace = Workspaces().open(Terms(root=tmp_path / "none"), "main")
    error = await refusal(workspace.read("x"))
    assert (error.code, str(error)) == (
        "unavailable", f"the workspace {str(tmp_path / 'none')!r} does not exist; make it, or set workspace.root",
    )  # fmt: skip


async def test_absolute_paths_inside_are_those_of_the_root(opened: Open, ws: Path) -> None:
    workspace = opened()
    (ws / "a").mkdir()
    await workspace.write(f"{ws}/a/x", b"1")
    assert await workspace.read(f"{ws}//a/./x") == b"1"
    assert (await workspace.stat(f"{ws}/a/x")).path == "a/x"
    assert (await refusal(workspace.read(f"{ws}/../out/secret"))).code == "denied"
    assert (await refusal(workspace.read(f"{ws}-evil/x"))).code == "denied"


async def test_links_are_followed_as_long_as_they_stay_inside(opened: Open, ws: Path) -> None:
    workspace = opened()
    (ws / "d").mkdir()
    (ws / "d" / "real").write_text("1")
    (ws / "rel").symlink_to("d/real")
    (ws / "d" / "up").symlink_to("../d")
    (ws / "abs").symlink_to(ws / "d")
    for path in ("rel", "d/up/real", "abs/real", "abs/up/../d/real"):
        assert await workspace.read(path) == b"1"
    await workspace.write("rel", b"2")
    await workspace.write("abs/new", b"3")
    assert ((ws / "d" / "real").read_text(), (ws / "d" / "new").read_text()) == ("2", "3")
    assert (ws / "rel").is_symlink()
    entries = {entry.path: (entry.kind, entry.target) for entry in (await workspace.list(".")).entries}
    assert entries == {"abs": ("folder", str(ws / "d")), "d": ("folder", None), "rel": ("file", "d/real")}


@pytest.mark.parametrize("target", ["../out", "/etc", "d/../../out", "/proc/self/root", "../ws-evil", "loop"])
async def test_no_link_leads_out(opened: Open, ws: Path, tmp_path: Path, target: str) -> None:
    workspace = opened()
    (ws / "d").mkdir()
    (ws / "loop").symlink_to(target)
    for method, *args in (
        (workspace.read, "loop/secret"), (workspace.lines, "loop/secret", 1, 1, 1), (workspace.list, "loop"),
        (workspace.write, "loop/new", b""), (workspace.write, "loop/a/b/new", b""), (workspace.mkdir, "loop/new"),
        (workspace.delete, "loop/secret"), (workspace.move, "loop/secret", "x"), (workspace.move, "d", "loop/x"),
        (workspace.change, [Change(path="ok", data=b""), Change(path="loop/new", data=b"")]),
    ):  # fmt: skip
        assert (await refusal(method(*args))).code == "denied"
    assert os.listdir(tmp_path / "out") == ["secret"]  # noqa: PTH208
    assert sorted(os.listdir(ws)) == ["d", "loop"]  # noqa: PTH208
    entry = await workspace.stat("loop")
    assert (entry.kind, entry.target) == ("link", target)
    await workspace.delete("loop")
    assert not (ws / "loop").is_symlink()
    assert (tmp_path / "out" / "secret").read_text() == "CANARY"


async def test_a_write_through_a_link_makes_the_file_it_names_but_no_folders(opened: Open, ws: Path) -> None:
    workspace = opened()
    (ws / "l").symlink_to("there")
    await workspace.write("l", b"1")
    assert (ws / "there").read_text() == "1"
    (ws / "m").symlink_to("not/yet/there")
    for path in ("m", "m/x"):
        error = await refusal(workspace.write(path, b"1"))
        assert (error.code, str(error)) == ("not_found", f"{path!r} goes through a link that leads nowhere")


async def test_a_recursive_delete_does_not_follow_links(opened: Open, ws: Path, tmp_path: Path) -> None:
    (ws / "d").mkdir()
    (ws / "d" / "l").symlink_to("../../out")
    await opened().delete("d", recursive=True)
    assert (os.listdir(ws), (tmp_path / "out" / "secret").read_text()) == ([], "CANARY")  # noqa: PTH208


async def test_hard_links_are_refused_outside_of_the_folders_for_them(opened: Open, ws: Path, tmp_path: Path) -> None:
    workspace = opened(linked=("**/node_modules/**",))
    (ws / "node_modules").mkdir()
    for path in ("hard", "node_modules/hard"):
        (ws / path).hardlink_to(tmp_path / "out" / "secret")
    assert await workspace.read("node_modules/hard") == b"CANARY"
    for method, *args in (
        (workspace.read, "hard"), (workspace.lines, "hard", 1, 1, 1), (workspace.write, "hard", b""),
        (workspace.move, "hard", "other"), (workspace.move, "hard", "node_modules/x"),
    ):  # fmt: skip
        error = await refusal(method(*args))
        assert (error.code, "hard-linked" in str(error)) == ("denied", True)
    (ws / "folder").mkdir()
    (ws / "folder" / "hard").hardlink_to(tmp_path / "out" / "secret")
    assert (await refusal(workspace.move("folder", "node_modules/folder"))).code == "denied"
    await workspace.delete("hard")
    assert (tmp_path / "out" / "secret").read_text() == "CANARY"


async def test_special_files_are_refused_without_waiting_for_them(opened: Open, ws: Path) -> None:
    workspace = opened()
    os.mkfifo(ws / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        folder = os.open(ws, os.O_RDONLY)
        listener.bind(f"/proc/self/fd/{folder}/socket")  # the path of a socket has to be short
        os.close(folder)
        for path in ("pipe", "socket"):
            assert (await refusal(workspace.read(path))).code == "denied"
            assert (await refusal(workspace.write(path, b""))).code == "denied"
            assert (await workspace.stat(path)).kind == "other"
    assert [entry.kind for entry in (await workspace.list(".")).entries] == ["other", "other"]


PROTECTED = [
    ".git/config", ".git/hooks/pre-commit", ".git", "sub/.git/config", ".GIT/config", ".g\u200cit/config",
    ".git /config", "./.git//config", "to-git/config", "sub/../.git/config",
    ".bashrc", "x/.zshrc", ".profile", ".mcp.json", ".ssh/authorized_keys", "toolcrib.yaml", "state/own.json",
    "keep/me", "keep/deep/too", "a.lock", "b/c.lock", f"{STAGE}-x", f"{STAGE}-x/y",
]  # fmt: skip


@pytest.mark.parametrize("path", PROTECTED)
async def test_protected_names_cannot_be_changed(opened: Open, ws: Path, path: str) -> None:
    workspace = opened(protected=("keep", "*.lock"), own=(ws / "state" / "own.json",))
    for folder in (".git", "sub"):
        (ws / folder).mkdir()
    (ws / "to-git").symlink_to(".git")
    (ws / "f").write_text("1")
    before = sorted(path.name for path in ws.rglob("*"))
    for method, *args in (
        (workspace.write, path, b""), (workspace.mkdir, path), (workspace.move, "f", path), (workspace.delete, path),
        (workspace.change, [Change(path="g", data=b""), Change(path=path, data=b"")]),
    ):  # fmt: skip
        error = await refusal(method(*args))
        assert (error.code, "protected" in str(error)) == ("denied", True)
    assert sorted(path.name for path in ws.rglob("*")) == before


@pytest.mark.parametrize(
    "path",
    [".gitignore", ".github/workflows/x.yml", "git/hooks/pre-commit", "a.git/config", "bashrc", "lock", "k/keep.md"],
)
async def test_names_that_only_look_like_protected_ones_are_free(opened: Open, path: str) -> None:
    workspace = opened(protected=("keep", "*.lock", "/lock.d"))
    await workspace.write(path, b"1")
    assert await workspace.read(path) == b"1"


async def test_what_is_protected_can_be_read(opened: Open, ws: Path) -> None:
    (ws / ".git").mkdir()
    (ws / ".git" / "config").write_text("[core]")
    assert await opened().read(".git/config") == b"[core]"


async def test_a_workspace_without_access_shows_nothing(opened: Open, ws: Path) -> None:
    (ws / "a").write_text("1")
    workspace = opened(access="none")
    for method, *args in (
        (workspace.read, "a"),
        (workspace.stat, "a"),
        (workspace.list, "."),
        (workspace.write, "a", b""),
    ):
        error = await refusal(method(*args))
        assert (error.code, "out of reach" in str(error)) == ("denied", True)


async def test_permissions_survive_and_a_moved_file_brings_its_own(opened: Open, ws: Path) -> None:
    workspace = opened()
    (ws / "run").write_text("1")
    (ws / "run").chmod(0o750)
    await workspace.write("run", b"2")
    assert stat.S_IMODE((ws / "run").stat().st_mode) == 0o750
    await workspace.change([Change(path="new", data=b"3", like="run"), Change(path="run", data=None)])
    assert stat.S_IMODE((ws / "new").stat().st_mode) == 0o750


async def test_nothing_is_left_beside_what_was_written(opened: Open, ws: Path) -> None:
    workspace = opened()
    await workspace.write("a", b"1")
    await workspace.write("b/c", b"1")
    await workspace.change([Change(path="a", data=b"2"), Change(path="b/c", data=None), Change(path="d", data=b"")])
    await refusal(workspace.change([Change(path="a", data=b"3"), Change(path="b/c", data=None)]))
    assert sorted(str(path.relative_to(ws)) for path in ws.rglob("*")) == ["a", "b", "d"]


async def test_many_at_once_do_not_get_in_each_others_way(opened: Open, ws: Path) -> None:
    workspace = opened()
    await asyncio.gather(
        *(workspace.write(f"f{number % 7}", b"%d" % number) for number in range(40)),
        *(
            workspace.change([Change(path=f"g{number}/x", data=b"1"), Change(path=f"g{number}/y", data=b"2")])
            for number in range(10)
        ),
    )
    assert sorted(path.name for path in ws.iterdir()) == [f"f{at}" for at in range(7)] + [f"g{at}" for at in range(10)]


async def test_of_two_changes_of_one_version_only_the_first_happens(opened: Open, ws: Path) -> None:
    workspace = opened()
    version = (await workspace.write("f", b"0")).version
    done = await asyncio.gather(
        *(workspace.change([Change(path="f", data=b"%d" % number, expect=version)]) for number in range(1, 9)),
        return_exceptions=True,
    )
    refused = [each for each in done if isinstance(each, ToolError)]
    assert (len(refused), {error.code for error in refused}) == (7, {"changed"})


async def test_a_new_name_with_control_characters_is_refused(opened: Open) -> None:
    for path in ("a\nb", "x/\x1b[31m", "\x7f"):
        assert (await refusal(opened().write(path, b""))).code == "bad_path"


async def test_a_name_that_is_not_utf8_can_be_listed_and_read(opened: Open, ws: Path) -> None:
    (Path(os.fsdecode(os.fsencode(ws) + b"/caf\xe9"))).write_text("1")
    workspace = opened()
    [entry] = (await workspace.list(".")).entries
    assert await workspace.read(entry.path) == b"1"


async def test_what_is_too_large_to_hold_is_refused_but_read_in_parts(opened: Open, ws: Path) -> None:
    with (ws / "big").open("wb") as file:
        file.truncate(65 << 20)
    workspace = opened()
    error = await refusal(workspace.read("big"))
    assert (error.code, "too many to hold at once" in str(error)) == ("too_large", True)
    assert await workspace.read("big", 64 << 20, 4) == bytes(4)


async def test_a_file_changed_by_somebody_else_is_refused_with_the_change_named(opened: Open, ws: Path) -> None:
    workspace = opened()
    (ws / "f").write_text("12")
    seen = await workspace.stat("f")
    workspace.note(seen)
    (ws / "f").write_text("12345")
    error = await refusal(workspace.change([Change(path="f", data=b"", expect=seen.version)]))
    assert error.code == "changed"
    assert "changed on disk since it was read: it had 2 bytes and now has 5 bytes" in str(error)
    (ws / "f").unlink()
    error = await refusal(workspace.change([Change(path="f", data=b"", expect=seen.version)]))
    assert str(error) == "'f' was deleted since it was read"


async def test_a_file_whose_times_were_put_back_is_refused_and_one_that_was_only_touched_is_not(
    opened: Open, ws: Path
) -> None:
    workspace = opened()
    written = [await workspace.write(path, b"12") for path in ("f", "g")]
    (ws / "f").chmod(0o755)
    os.utime(ws / "g")
    both = [Change(path=each.path, data=b"34", expect=each.version) for each in written]
    written = list(await workspace.change(both))
    for now in written:
        (ws / now.path).write_text("56")
        os.utime(ws / now.path, ns=(0, now.changed))
    for changes in (both, both[:1], both[1:]):
        asked = [replace(each, expect=now.version) for each in changes for now in written if now.path == each.path]
        assert (await refusal(workspace.change(asked))).code == "changed"
    assert (ws / "f").read_text() + (ws / "g").read_text() == "5656"


async def test_what_lies_in_the_workspace_under_our_names_is_not_obeyed(opened: Open, ws: Path, tmp_path: Path) -> None:
    (ws / ".git" / "hooks").mkdir(parents=True)
    record = '{"root": [], "stage": "x", "folders": [], "steps": [{"path": ".git/hooks/x", "new": "y", "old": "y"}]}'
    for name in (f"{STAGE}-a", f"{STAGE}-b.undo"):
        (ws / name).mkdir()
        (ws / name / "x.json").write_text(record)
        (ws / name / "y").write_text("#!/bin/sh")
    (ws / f"{STAGE}-c").symlink_to("../out")
    os.mkfifo(ws / f"{STAGE}-d")
    await opened().write("a", b"1")
    assert os.listdir(tmp_path / "out") == ["secret"]  # noqa: PTH208
    assert sorted(path.name for path in ws.iterdir()) == [".git", f"{STAGE}-b.undo", "a"]
    assert not list((ws / ".git" / "hooks").iterdir())


async def test_sessions_share_the_root_but_not_what_they_have_seen(tmp_path: Path) -> None:
    workspaces = Workspaces()
    terms = Terms(root=tmp_path, state=tmp_path / "state")
    one, other = workspaces.open(terms, "one"), workspaces.open(terms, "other")
    await one.write("f", b"1")
    assert await other.read("f") == b"1"
    assert (one.last_seen("f") is None, other.last_seen("f") is None) == (False, True)
    assert workspaces.open(terms, "one") is one
    workspaces.close()
