"""Whoever is asked about a change of files sees the change, and says yes to that one alone."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from toolcrib import OWNER, Call, Caller, Result
from toolcrib.testing import FakeApprover

pytestmark = pytest.mark.anyio


class Slow(FakeApprover):
    """Says yes, after something else has happened."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        super().__init__([True])
        self._meanwhile = meanwhile

    async def approve(
        self,
        caller: Caller,
        call: Call,
        reason: str,
        binding: Mapping[str, str] = {},
        /,
    ) -> bool:
        self._meanwhile()
        return await super().approve(caller, call, reason, binding)


async def call(folder: Path, approver: FakeApprover, tool: str, args: Mapping[str, Any]) -> Result:
    config = {"workspace": {"root": str(folder)}, "tools": {"ask": ["effect:write"]}}
    async with toolcrib.open(config, state=folder.parent / "state") as crib:
        caller = OWNER if tool != "apply_patch" else Caller(owner=True, provider="openai", model="gpt-5")
        return await crib.belt(caller, approver=approver).call(tool, args)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "ws"
    made.mkdir()
    (made / "prices.py").write_text("nut = 3\nbolt = 5\nwasher = 3\n")
    return made


async def test_an_edit_is_shown_as_a_diff_with_the_number_of_places_and_changes_nothing_before_the_yes(
    folder: Path,
) -> None:
    approver = FakeApprover([False])
    args = {"path": "prices.py", "oldText": "3", "newText": "4", "replaceAll": True}
    result = await call(folder, approver, "edit", args)
    assert result.plain_text == "a human refused edit"
    assert (folder / "prices.py").read_text() == "nut = 3\nbolt = 5\nwasher = 3\n"
    assert approver.bound == [
        {
            "change": "2 places in 1 file\n--- a/prices.py\n+++ b/prices.py\n@@ -1,3 +1,3 @@\n"
            "-nut = 3\n+nut = 4\n bolt = 5\n-washer = 3\n+washer = 4"
        }
    ]


async def test_a_patch_shows_files_that_come_and_go(folder: Path) -> None:
    patch = "*** Begin Patch\n*** Add File: a.txt\n+one\n*** Delete File: prices.py\n*** End Patch"
    approver = FakeApprover([True])
    result = await call(folder, approver, "apply_patch", {"input": patch})
    shown = approver.bound[0]["change"].split("\n")
    assert (result.status, shown[0]) == ("ok", "2 places in 2 files")
    assert {"+one", "--- a/prices.py", "+++ /dev/null", "-bolt = 5"} <= set(shown)
    assert sorted(path.name for path in folder.iterdir()) == ["a.txt"]


async def test_who_asks_is_not_told_before_the_yes_what_the_file_holds(folder: Path) -> None:
    approver = FakeApprover([False])
    result = await call(folder, approver, "edit", {"path": "prices.py", "oldText": "nutt = 3", "newText": "x"})
    assert approver.bound[0]["change"].startswith("nothing: ")
    assert "nut = 3" in approver.bound[0]["change"]
    assert result.plain_text == "a human refused edit"


async def test_a_file_that_changes_under_the_question_is_not_written(folder: Path) -> None:
    approver = Slow(lambda: (folder / "prices.py").write_text("precious\n"))
    result = await call(folder, approver, "write", {"path": "prices.py", "content": "nut = 9\n"})
    assert result.status == "error"
    assert "no longer what a human said yes to" in result.plain_text
    assert (folder / "prices.py").read_text() == "precious\n"


async def test_lines_that_only_moved_meanwhile_are_changed_as_shown(folder: Path) -> None:
    path = folder / "prices.py"
    approver = Slow(lambda: path.write_text(f"# prices\n{path.read_text()}"))
    result = await call(folder, approver, "edit", {"path": "prices.py", "oldText": "bolt = 5", "newText": "bolt = 6"})
    assert (result.status, path.read_text()) == ("ok", "# prices\nnut = 3\nbolt = 6\nwasher = 3\n")


async def test_a_file_too_large_to_compare_is_told_by_its_size(folder: Path) -> None:
    (folder / "big.txt").write_text("x" * 300_000)
    approver = FakeApprover([True])
    result = await call(folder, approver, "write", {"path": "big.txt", "content": "y"})
    assert (result.status, (folder / "big.txt").read_text()) == ("ok", "y")
    assert "300,000 bytes become 1" in approver.bound[0]["change"]
