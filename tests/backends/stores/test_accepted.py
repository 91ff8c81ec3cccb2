"""Accepted files of agents: a yes is to one content, is there for the next process, and is never made of rubbish."""

import hashlib
import os
import stat
import subprocess
from pathlib import Path

import pytest

from toolcrib.backends.stores.accepted import Accepted, AcceptedContents, read_content
from toolcrib.define.errors import ToolError

ONE, OTHER = "1" * 64, "2" * 64


def yes(digest: str = ONE, at: float = 1.0, file: str = "/w/a.md") -> Accepted:
    return Accepted(digest=digest, name="a", file=file, at=at)


def test_a_yes_is_to_one_content_and_is_found_again(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "agents"
    AcceptedContents(folder).accept(yes())
    again = AcceptedContents(folder)
    assert again.find(ONE) == yes()
    assert again.find(OTHER) is None
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [path.name for path in folder.iterdir()] == [ONE]


def test_a_file_that_changed_is_told_from_one_that_nobody_looked_at(tmp_path: Path) -> None:
    store = AcceptedContents(tmp_path)
    assert store.list_all() == []
    for accepted in (yes(OTHER, at=2.0), yes(ONE, at=1.0), yes("3" * 64, at=3.0, file="/w/b.md")):
        store.accept(accepted)
    assert [each.at for each in store.list_all()] == [1.0, 2.0, 3.0]
    assert store.explain(Path("/w/a.md"), OTHER) == ""
    assert "it changed since it was accepted" in store.explain(Path("/w/a.md"), "4" * 64)
    assert "nobody has accepted it" in store.explain(Path("/w/c.md"), "4" * 64)
    assert [each.digest for each in store.forget(Path("/w/a.md"))] == [ONE, OTHER]
    assert store.find(OTHER) is None


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"name": "a", "file": "f", "at": "never"}'])
def test_what_cannot_be_read_is_no_yes(tmp_path: Path, body: bytes) -> None:
    (tmp_path / ONE).write_bytes(body)
    assert AcceptedContents(tmp_path).find(ONE) is None


def test_only_looking_makes_no_folder(tmp_path: Path) -> None:
    store = AcceptedContents(tmp_path / "none")
    assert (store.find(ONE), store.list_all()) == (None, [])
    with pytest.raises(ToolError, match=r"nobody has accepted '/w/a\.md'"):
        store.forget(Path("/w/a.md"))
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("digest", ["", "../x", "A" * 64, "1" * 63])
def test_a_hash_is_a_hash_and_no_path(tmp_path: Path, digest: str) -> None:
    with pytest.raises(ValueError, match="is no SHA-256"):
        AcceptedContents(tmp_path).find(digest)


def test_a_yes_that_cannot_be_kept_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ToolError, match=r"the yes could not be kept in .*file/agents \(Not a directory\)"):
        AcceptedContents(tmp_path / "file" / "agents").accept(yes())


def test_whatever_is_in_a_folder_is_in_its_hash(tmp_path: Path) -> None:
    folder = tmp_path / "plugin"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.py").write_text("a")
    (folder / "deep/b.py").write_text("b")
    (folder / "link").symlink_to("a.py")
    seen = {read_content(folder)[0]}
    (folder / "__pycache__").mkdir()
    lines = (
        "echo b > a.py", "touch c.py", "mv c.py d.py", "mv deep deeper", "ln -sfn d.py link", "touch .hidden",
        "touch __pycache__/x.py", "touch e.pyc",
    )  # fmt: skip
    for line in lines:
        subprocess.run(line, shell=True, cwd=folder, check=True)
        digest = read_content(folder)[0]
        assert digest not in seen
        seen.add(digest)
    (folder / "__pycache__/x.cpython-311.pyc").write_text("made by use")
    (folder / ".git").mkdir()
    (folder / ".git/index").write_text("made by use")
    assert read_content(folder)[0] == digest


def test_no_file_has_the_hash_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one/a").write_text("x")
    (tmp_path / "file").write_text("x")
    digest, files = read_content(tmp_path / "file")
    assert (digest, files) == (hashlib.sha256(b"x").hexdigest(), {".": b"x"})
    assert read_content(tmp_path / "one")[0] != digest
    assert read_content(tmp_path / "one")[1] == {"a": b"x"}


@pytest.mark.parametrize("kind", ["pipe", "nothing", "loop", "pipe inside", "link out", "link to git"])
def test_what_is_neither_a_file_nor_a_folder_or_leads_out_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    (folder := tmp_path / "f" / ".git").mkdir(parents=True)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    if kind == "pipe inside":
        os.mkfifo(tmp_path / "f/p")
    (folder / "x").write_text("")
    if kind.startswith("link"):
        (tmp_path / "f/l").symlink_to({"link out": "../pipe", "link to git": ".git/x"}[kind])
    with pytest.raises(ToolError):
        read_content(tmp_path / (kind if kind in ("pipe", "nothing", "loop") else "f"))
