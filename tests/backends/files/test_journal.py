"""Whoever can write into the journal moves and removes nothing by it: names count only as we write them."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from toolcrib.backends.files.disk import Disk, Terms
from toolcrib.backends.files.local import LocalWorkspace
from toolcrib.define.files import Change

pytestmark = pytest.mark.anyio

STAGE, NAME = ".toolcrib-stage-0123456789abcdef", "fedcba9876543210"


class Forgery:
    """A workspace with its state in it, a folder outside with a secret, and records that somebody else wrote."""

    def __init__(self, base: Path) -> None:
        self.ws, self.out, self.state = base / "ws", base / "out", base / "ws" / "state"
        self.ws.mkdir()
        self.out.mkdir()
        (self.out / NAME).write_text("CANARY")
        self.records = self.state / hashlib.sha256(os.fsencode(self.ws.resolve())).hexdigest()[:32]
        self.records.mkdir(parents=True)

    def record(self, name: str = f"{NAME}.json", **other: Any) -> None:
        """Write a record that is ours but for `other`."""
        found = self.ws.stat()
        row = {"path": "taken", "new": None, "inode": None, "old": NAME, **other.pop("row", {})}
        whole = {"root": [found.st_dev, found.st_ino], "stage": STAGE, "folders": [], "steps": [row], **other}
        (self.records / name).write_text(json.dumps(whole))

    async def use(self) -> None:
        """Change something in the workspace, as any tool does."""
        disk = Disk(Terms(root=self.ws, state=self.state))
        try:
            await LocalWorkspace(disk).change([Change(path="a", data=b"1"), Change(path="b", data=b"2")])
        finally:
            disk.close()

    def is_unharmed(self) -> bool:
        kept = sorted(path.name for path in self.out.iterdir()) == [NAME] and (self.out / NAME).read_text() == "CANARY"
        return kept and not (self.ws / "taken").exists() and (self.ws / "a").read_text() == "1"


@pytest.fixture
def forged(tmp_path: Path) -> Forgery:
    return Forgery(tmp_path)


@pytest.mark.parametrize("suffix", ["json", "done"])
@pytest.mark.parametrize(
    "stage",
    ["../out", "../out/", "./../out", "state/../../out", "{out}", f"{STAGE}/../../out", f"{STAGE}\n", "", ".", "a"],
)  # fmt: skip
async def test_no_record_names_a_stage_that_is_none(forged: Forgery, stage: str, suffix: str) -> None:
    forged.record(f"{NAME}.{suffix}", stage=stage.format(out=forged.out))
    await forged.use()
    assert forged.is_unharmed()


@pytest.mark.parametrize("where", ["old", "new"])
@pytest.mark.parametrize(
    "name", [f"../../out/{NAME}", f"{{out}}/{NAME}", f"link/{NAME}", "../state/x", "", "..", 7, ["x"]]
)
async def test_no_record_names_a_file_outside_of_its_stage(forged: Forgery, where: str, name: Any) -> None:
    (forged.ws / f"{STAGE}.undo").mkdir()
    (forged.ws / f"{STAGE}.undo" / "link").symlink_to(forged.out)
    named = name.format(out=forged.out) if isinstance(name, str) else name
    forged.record(row={where: named, "inode": 1, **({"old": "0" * 16} if where == "new" else {})})
    await forged.use()
    assert forged.is_unharmed()


@pytest.mark.parametrize("name", [STAGE, f"{STAGE}.undo"])
async def test_a_stage_that_is_a_link_is_not_followed(forged: Forgery, name: str) -> None:
    (forged.ws / name).symlink_to(forged.out)
    forged.record()
    await forged.use()
    assert forged.is_unharmed()


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "7", "{}", '{"root": 1}', "[" * 100_000, '{"stage": "../out"}', "\ud800"],
)  # fmt: skip
async def test_a_record_that_is_not_of_our_form_is_set_aside(forged: Forgery, text: str) -> None:
    (forged.records / f"{NAME}.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    await forged.use()
    assert forged.is_unharmed()
    assert sorted(path.name for path in forged.records.iterdir()) == [f"{NAME}.odd", "lock"]


async def test_a_pipe_a_link_and_a_folder_among_the_records_hold_up_nobody(forged: Forgery) -> None:
    os.mkfifo(forged.records / f"{NAME}.json")
    (forged.records / "0000000000000000.json").symlink_to("/dev/zero")
    (forged.records / "1111111111111111.json").mkdir()
    (forged.records / "2222222222222222.new").mkdir()
    (forged.records / "note.txt").write_text("not ours")
    await forged.use()
    assert forged.is_unharmed()
    assert (forged.records / "note.txt").read_text() == "not ours"


async def test_records_that_are_a_link_are_refused(forged: Forgery) -> None:
    forged.records.rmdir()
    forged.records.symlink_to(forged.out)
    with pytest.raises(Exception, match="cannot keep its journal"):
        await forged.use()
    assert sorted(path.name for path in forged.out.iterdir()) == [NAME]


async def test_a_record_of_ours_is_still_obeyed(forged: Forgery) -> None:
    (forged.ws / f"{STAGE}.undo").mkdir()
    (forged.ws / f"{STAGE}.undo" / NAME).write_text("put back")
    forged.record(row={"path": "old"})
    await forged.use()
    assert (forged.ws / "old").read_text() == "put back"
    assert [path.name for path in forged.records.iterdir()] == ["lock"]
    assert not [path for path in forged.ws.iterdir() if path.name.startswith(".toolcrib-stage")]
