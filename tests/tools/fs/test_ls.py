"""ls: what is in a folder."""

import os
from pathlib import Path

import pytest

from toolcrib import Ctx, Result, ToolError
from toolcrib.backends.files.disk import Terms
from toolcrib.backends.files.local import Workspaces
from toolcrib.define.context import Ports
from toolcrib.testing import fake_ctx
from toolcrib.tools.fs.ls import ls

pytestmark = pytest.mark.anyio


async def run(ctx: Ctx, **args: object) -> Result:
    return await ls.run(ctx, ls.check(args))


def text_of(result: Result) -> str:
    return result.plain_text


async def test_names_come_in_order_with_hidden_ones_and_folders_marked() -> None:
    names = ["1", "2", "10", "b", "A", "a2", "B2", "_u", ".d", "é", "f", "z/x"]
    result = await run(fake_ctx(files=dict.fromkeys(names, "")))
    assert text_of(result).split("\n") == ["_u", ".d", "1", "10", "2", "A", "a2", "b", "B2", "é", "f", "z/"]
    assert result.details == {"path": ".", "entries": 12, "left": 0}


async def test_what_is_left_out_is_told_and_only_then() -> None:
    ctx = fake_ctx(files={f"f{number:04}": "" for number in range(501)})
    assert text_of(await run(ctx)).endswith("f0499\n\n[500 of 501 entries shown; limit=501 shows more]")
    assert text_of(await run(ctx, limit=501)).endswith("\nf0500")
    assert text_of(await run(ctx, limit=1)) == "f0000\n\n[1 of 501 entries shown; limit=501 shows more]"


async def test_long_names_end_before_they_are_too_many() -> None:
    ctx = fake_ctx(files={f"{number:04}{'x' * 200}": "" for number in range(1000)})
    text = text_of(await run(ctx, limit=1000))
    assert len(text) < 51_400
    assert text.endswith("[249 of 1000 entries shown; use find to see those of a name]")


async def test_an_empty_folder_a_file_and_a_missing_one_are_told_apart() -> None:
    ctx = fake_ctx(files={"d/f": "", "src/x": ""})
    await ctx.workspace.mkdir("empty")
    assert text_of(await run(ctx, path="empty")) == "[the folder is empty]"
    with pytest.raises(ToolError, match=r"^'d/f' is not a folder; use read for a file$"):
        await run(ctx, path="d/f")
    with pytest.raises(ToolError, match=r"^no file 'srx'; did you mean 'src'\?$"):
        await run(ctx, path="srx")
    with pytest.raises(ToolError, match=r"^ls: limit must be at least 1, not -1"):
        await run(ctx, limit=-1)


async def test_blanks_of_a_model_that_fills_in_everything_are_not_given() -> None:
    ctx = fake_ctx(files={"a": "", "b": ""})
    assert text_of(await run(ctx, path="", limit=0)) == text_of(await run(ctx)) == "a\nb"


async def test_links_pipes_and_unprintable_names_are_shown_as_what_they_are(tmp_path: Path) -> None:
    root = tmp_path / "ws"
    (root / "d").mkdir(parents=True)
    (root / "to-d").symlink_to("d")
    (root / "dead").symlink_to("nowhere")
    (root / "out").symlink_to("/etc")
    os.mkfifo(root / "pipe")
    (root / "new\nline").touch()
    Path(os.fsdecode(os.fsencode(root) + b"/\xff")).touch()
    workspaces = Workspaces()
    plain = fake_ctx()
    ctx = Ctx(plain.call, plain.caller, plain.course, Ports(workspace=workspaces.open(Terms(root=root), "main")))
    assert text_of(await run(ctx)).split("\n") == [
        "d/",
        "dead -> nowhere (leads nowhere inside the workspace)",
        "new\\nline",
        "out -> /etc (leads nowhere inside the workspace)",
        "pipe (a pipe, socket or device)",
        "to-d/",
        "\\udcff",
    ]
    workspaces.close()
