"""write: create or overwrite."""

import pytest

from toolcrib import Ctx, Result, ToolError
from toolcrib.testing import MemoryWorkspace, fake_ctx
from toolcrib.tools.fs.write import write

pytestmark = pytest.mark.anyio


async def run(ctx: Ctx, **args: object) -> Result:
    return await write.run(ctx, write.check(args))


async def test_a_file_is_made_with_its_folders_and_the_bytes_are_counted() -> None:
    ctx = fake_ctx()
    result = await run(ctx, file_path="a/b/c.txt", content="€😀")
    assert result == Result.text("wrote 7 bytes to a/b/c.txt", details={"path": "a/b/c.txt", "bytes": 7})
    assert ctx.workspace.files == {"a/b/c.txt": "€😀".encode()}


async def test_a_file_is_overwritten_whole_and_may_be_empty() -> None:
    ctx = fake_ctx(files={"f": "before"})
    await run(ctx, path="f", content="")
    assert ctx.workspace.files == {"f": b""}


async def test_odd_spaces_become_plain_unless_a_file_has_them() -> None:
    ctx = fake_ctx(files={"old\u00a0name": "1"})
    await run(ctx, path="old\u00a0name", content="2")
    await run(ctx, path="new\u00a0name", content="3")
    assert ctx.workspace.files == {"old\u00a0name": b"2", "new name": b"3"}


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ({"path": "f"}, "content"),
        ({"content": ""}, "path"),
        ({"path": " ", "content": ""}, "the path is empty"),
        ({"path": "d", "content": ""}, "is a folder"),
        ({"path": "../x", "content": ""}, "out of the workspace"),
        ({"path": "x", "content": "a\ud83d"}, "half a character at position 1"),
    ],
)
async def test_what_cannot_be_written_is_told_and_changes_nothing(args: dict[str, object], why: str) -> None:
    ctx = fake_ctx(files={"d/e": "1"})
    with pytest.raises(ToolError, match=why):
        await run(ctx, **args)
    assert ctx.workspace.files == {"d/e": b"1"}


async def test_a_read_only_workspace_says_so() -> None:
    ctx = fake_ctx()
    assert isinstance(ctx.workspace, MemoryWorkspace)
    ctx.workspace.access = "ro"
    with pytest.raises(ToolError, match="the workspace is read-only"):
        await run(ctx, path="f", content="")
