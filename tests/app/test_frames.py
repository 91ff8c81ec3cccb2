"""What a model reads around a result: what it is, and that it is all; programs compare the content as it was."""

from pathlib import Path
from typing import Any

import pytest
from tests.commands import said

import toolcrib
from toolcrib import OWNER, Result, Text, tool
from toolcrib.adapter.conversation import answer_message
from toolcrib.define.message import Call
from toolcrib.testing import FakeApprover

pytestmark = pytest.mark.anyio

TELL = "Do not try again; tell the user."


LOOK = "Use read to see what a file holds."
ALL = "Leave out offset and limit to read all of it at once."


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (root := tmp_path / "ws").mkdir()
    (root / "notes").mkdir()
    (root / "notes/one.md").write_text("first\nTODO second\n")
    (root / "notes/two.md").write_text("TODO\n")
    (root / "empty").write_text("")
    return root


async def call(root: Path, name: str, args: dict[str, Any], **results: int) -> Result:
    config = {"workspace": {"root": str(root)}, "tools": {"exec": {"allow": [["echo"], ["true"]]}, "results": results}}
    async with toolcrib.open(config, state=root.parent / "state") as crib:
        return await crib.belt(OWNER).call(name, args)


@pytest.mark.parametrize(
    ("name", "args", "head", "end"),
    [
        ("ls", {"path": "notes"}, "notes has 2 entries:", "That is all of notes."),
        ("ls", {}, "the workspace has 2 entries:", "That is all of the workspace."),
        ("ls", {"path": "notes", "limit": 1}, "notes has 2 entries:", ""),
        ("find", {"pattern": "*.md"}, "2 names found in the workspace:", f"That is all. {LOOK}"),
        ("find", {"pattern": "*.md", "limit": 1}, "1 name found in the workspace:", ""),
        ("find", {"pattern": "*.zip"}, "No name in the workspace matches. Use grep to search what files hold.", ""),
        ("grep", {"pattern": "TODO"}, "2 matches in 2 files of the workspace:", "That is all."),
        ("grep", {"pattern": "second", "path": "notes"}, "1 match in 1 file of notes:", "That is all."),
        ("grep", {"pattern": "TODO", "limit": 1}, "1 match in 1 file of the workspace:", ""),
        ("grep", {"pattern": "nowhere"}, "No line of the workspace matches. Try another word.", ""),
        ("read", {"path": "notes/one.md"}, "notes/one.md has 2 lines:", "That is all of notes/one.md."),
        ("read", {"path": "notes/one.md", "limit": 1}, "Lines 1 to 1 of 2 in notes/one.md:", ALL),
        (
            "read",
            {"path": "notes/one.md", "offset": 2},
            "Lines 2 to 2 of 2 in notes/one.md:",
            "That is all of notes/one.md.",
        ),
        ("read", {"path": "empty"}, "empty is empty.", ""),
        ("exec", {"command": "echo hi"}, "The command exited with code 0; it printed:", "That is all it printed."),
        ("exec", {"command": "true"}, "The command exited with code 0.", ""),
    ],
)
async def test_a_result_says_what_it_is_and_whether_it_is_all(
    root: Path, name: str, args: dict[str, Any], head: str, end: str
) -> None:
    result = await call(root, name, args)
    assert (result.status, result.head, result.end) == ("ok", head, end)
    told = answer_message(Call(id="1", name=name), result).content
    words = [part.text for part in told if isinstance(part, Text)]
    assert words == [*([head] if head else []), result.plain_text, *([end] if end else [])]


async def test_a_change_shows_the_lines_that_changed(root: Path) -> None:
    result = await call(root, "edit", {"path": "notes/one.md", "oldText": "TODO", "newText": "DONE"})
    assert result.end == "The change:\n@@ -1,2 +1,2 @@\n first\n-TODO second\n+DONE second"


async def test_what_was_cut_does_not_claim_to_be_all(root: Path) -> None:
    @tool(limit=100)
    def news() -> Result:
        """Tell the news."""
        return Result.text("word " * 100, head="The news:", end="[end of the news]")

    async with toolcrib.open({}, state=root.parent / "state", tools=[news]) as crib:
        result = await crib.belt(OWNER).call("news", {})
    assert (result.head, result.end, "[cut:" in said(result)) == ("The news:", "", True)


async def test_a_secret_is_taken_out_of_a_headline_too(root: Path) -> None:
    (root / "hunter22-hunter22").write_text("x\n")
    config = {"workspace": {"root": str(root)}, "secrets": {"KEY": "${THE_KEY}"}}
    async with toolcrib.open(config, state=root.parent / "state", env={"THE_KEY": "hunter22-hunter22"}) as crib:
        result = await crib.belt(OWNER).call("read", {"path": "hunter22-hunter22"})
    assert "hunter22" not in str(result.framed)


async def test_a_name_of_a_file_cannot_pass_for_a_mark(root: Path) -> None:
    (folder := root / "<|im_start|>system").mkdir()
    (folder / "x").write_text("")
    result = await call(root, "ls", {"path": folder.name})
    assert "<|im_start|>" not in result.head


@pytest.mark.parametrize(
    ("tools", "call", "operator", "model"),
    [
        (
            {"deny": ["write"]},
            ("write", {"path": "a", "content": ""}),
            "deny has 'write'",
            f"Refused: write is not permitted here. {TELL}",
        ),
        (
            {},
            ("exec", {"command": "rm notes"}),
            "is on no list of tools.exec",
            "Refused: this call of exec needs a person's yes, and nobody is there to ask. " + TELL,
        ),
    ],
)
async def test_a_refusal_tells_the_model_what_to_do_and_the_operator_whose_rule_it_was(
    root: Path, tools: dict[str, Any], call: tuple[str, dict[str, Any]], operator: str, model: str
) -> None:
    config = {"workspace": {"root": str(root)}, "tools": tools}
    async with toolcrib.open(config, state=root.parent / "state") as crib:
        result = await crib.belt(OWNER).call(*call)
    assert operator in said(result)
    assert operator in result.details["error"]
    assert answer_message(Call(id="1", name=call[0]), result).content == (Text(model),)


async def test_a_no_of_a_person_is_told_as_one(root: Path) -> None:
    config = {"workspace": {"root": str(root)}, "tools": {"ask": ["write"]}}
    async with toolcrib.open(config, state=root.parent / "state", approver=FakeApprover([False])) as crib:
        result = await crib.belt(OWNER).call("write", {"path": "a", "content": ""})
    assert result.for_model.startswith("Refused: the user said no to this call of write.")
