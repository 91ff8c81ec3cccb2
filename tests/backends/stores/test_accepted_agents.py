"""Accepted files of agents: a yes is to one content, is there for the next process, and is never made of rubbish."""

import stat
from pathlib import Path

import pytest

from toolcrib.backends.stores.accepted_agents import Accepted, AcceptedAgents
from toolcrib.define.errors import ToolError

ONE, OTHER = "1" * 64, "2" * 64


def yes(digest: str = ONE, at: float = 1.0, file: str = "/w/a.md") -> Accepted:
    return Accepted(digest=digest, name="a", file=file, at=at)


def test_a_yes_is_to_one_content_and_is_found_again(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "agents"
    AcceptedAgents(folder).accept(yes())
    again = AcceptedAgents(folder)
    assert again.find(ONE) == yes()
    assert again.find(OTHER) is None
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [path.name for path in folder.iterdir()] == [ONE]


def test_the_latest_yes_to_a_file_is_told(tmp_path: Path) -> None:
    store = AcceptedAgents(tmp_path)
    assert store.of_file("/w/a.md") is None
    for accepted in (yes(OTHER, at=2.0), yes(ONE, at=1.0), yes("3" * 64, at=3.0, file="/w/b.md")):
        store.accept(accepted)
    assert store.of_file("/w/a.md") == yes(OTHER, at=2.0)
    assert store.of_file("/w/c.md") is None


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"name": "a", "file": "f", "at": "never"}'])
def test_what_cannot_be_read_is_no_yes(tmp_path: Path, body: bytes) -> None:
    (tmp_path / ONE).write_bytes(body)
    assert AcceptedAgents(tmp_path).find(ONE) is None


def test_only_looking_makes_no_folder(tmp_path: Path) -> None:
    store = AcceptedAgents(tmp_path / "none")
    assert (store.find(ONE), store.of_file("/w/a.md")) == (None, None)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("digest", ["", "../x", "A" * 64, "1" * 63])
def test_a_hash_is_a_hash_and_no_path(tmp_path: Path, digest: str) -> None:
    with pytest.raises(ValueError, match="is no SHA-256"):
        AcceptedAgents(tmp_path).find(digest)


def test_a_yes_that_cannot_be_kept_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ToolError, match=r"the yes could not be kept in .*file/agents \(Not a directory\)"):
        AcceptedAgents(tmp_path / "file" / "agents").accept(yes())
