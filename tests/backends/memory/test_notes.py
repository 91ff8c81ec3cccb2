"""The files of a memory: which belong to it, and that no link, no race and no odd file leads elsewhere."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.backends.memory.memory_world import fill, open_memory

from toolcrib.backends.memory import notes
from toolcrib.backends.memory.notes import list_notes, read_note
from toolcrib.define.errors import ToolError
from toolcrib.define.memory import MemoryPlaces


def listed(folder: Path, *extra: str) -> list[str]:
    return sorted(list_notes(MemoryPlaces(folder, tuple(map(Path, extra)))).notes)


def test_a_memory_is_its_own_files_and_what_else_is_named(tmp_path: Path) -> None:
    home, other = tmp_path / "home", tmp_path / "other"
    names = ("MEMORY.md", "memory.md", "memory/a.md", "memory/b/c.MD", "memory/x.txt", "memory/.hidden.md", "other.md")
    fill(home, dict.fromkeys(names, "text"))
    fill(home, {"notes/x.md": "1", "notes/.git/y.md": "2", "one.md": "3"})
    fill(other, {"far.md": "4"})
    own = ["MEMORY.md", "memory.md", "memory/a.md", "memory/b/c.MD"]
    assert listed(home) == own
    assert listed(home, "notes", "one.md", "missing", "one.md", "notes") == [*own, "notes/x.md", "one.md"]
    assert listed(home, str(other)) == sorted([*own, str(other / "far.md")])
    assert listed(home, ".") == sorted([*own, "notes/x.md", "one.md", "other.md"])


def test_links_and_special_files_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    fill(tmp_path, {"secret/s.md": "secret", "home/memory/real.md": "text"})
    (home / "MEMORY.md").symlink_to(tmp_path / "secret/s.md")
    (home / "memory/file.md").symlink_to(tmp_path / "secret/s.md")
    (home / "memory/folder").symlink_to(tmp_path / "secret")
    (home / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(home / "memory/pipe.md")
    with socket.socket(socket.AF_UNIX) as server:
        monkeypatch.chdir(home)  # the name of a socket has to be short
        server.bind("memory/s.md")
        assert listed(home, "link") == ["memory/real.md"]


def test_a_file_with_a_second_name_is_left_out_and_told(tmp_path: Path) -> None:
    home = tmp_path / "home"
    fill(tmp_path, {"secret.md": "secret", "home/memory/a.md": "text"})
    (home / "memory/b.md").hardlink_to(tmp_path / "secret.md")
    found = list_notes(MemoryPlaces(home))
    assert list(found.notes) == ["memory/a.md"]
    assert found.describe() == "not searched: 1 that have a second name (a hard link)"


def test_a_file_that_became_something_else_is_not_read(tmp_path: Path) -> None:
    fill(tmp_path, {"home/memory/a.md": "text", "secret.md": "secret"})
    home = tmp_path / "home"
    found = list_notes(MemoryPlaces(home))
    path = home / "memory/a.md"
    path.unlink()
    becomes: list[Callable[[], None]] = [
        lambda: path.symlink_to(tmp_path / "secret.md"),
        lambda: path.hardlink_to(tmp_path / "secret.md"),
        lambda: os.mkfifo(path),
        lambda: path.mkdir(),
    ]
    for become in becomes:
        become()
        with pytest.raises(ToolError):
            read_note(found, "memory/a.md")
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    (home / "memory").rmdir()
    (home / "memory").symlink_to(tmp_path)
    (tmp_path / "a.md").write_text("outside")
    with pytest.raises(ToolError):
        read_note(found, "memory/a.md")


@pytest.mark.anyio
async def test_what_is_too_large_or_too_deep_is_told(tmp_path: Path) -> None:
    fill(tmp_path, {"MEMORY.md": "an otter", f"memory/{'d/' * 40}x.md": "otter"})
    (tmp_path / "memory/big.md").write_bytes(b"otter " * (notes.NOTE_BYTES // 6 + 1))
    memory = open_memory(tmp_path)
    assert [each.path for each in await memory.search("otter")] == ["MEMORY.md"]
    assert memory.state.problem == "not searched: 1 that are larger than 4 MiB, 1 that lie too deep"


@pytest.mark.anyio
async def test_bytes_that_are_no_text_are_read_as_far_as_they_go(tmp_path: Path) -> None:
    (tmp_path / "MEMORY.md").write_bytes(b"\xef\xbb\xbfan otter \xff\xfe\x00 badger")
    (tmp_path / "memory").mkdir()
    (Path(os.fsdecode(os.fsencode(tmp_path / "memory") + b"/\xff.md"))).write_text("otter")
    memory = open_memory(tmp_path)
    assert [each.path for each in await memory.search("otter badger")] == ["MEMORY.md"]
    assert memory.state.problem == "not searched: 1 that have a name that is no text"
