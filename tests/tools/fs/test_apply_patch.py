"""apply_patch: several files, all or nothing; what a hunk keeps stays as the file has it."""

import difflib
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolcrib import Result, ToolError
from toolcrib.testing import FakeCtx, fake_ctx
from toolcrib.tools.fs._diff import apply_splices
from toolcrib.tools.fs._patch import find_splices, read_patch
from toolcrib.tools.fs.apply_patch import apply_patch

pytestmark = pytest.mark.anyio


def patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


async def patched(ctx: FakeCtx, text: str) -> Result:
    return await apply_patch.run(ctx, apply_patch.check({"input": text}))


async def after(files: dict[str, Any], text: str) -> dict[str, bytes]:
    ctx = fake_ctx(files=files)
    await patched(ctx, text)
    return ctx.workspace.files


async def test_files_are_added_updated_moved_and_deleted_by_one_patch() -> None:
    ctx = fake_ctx(files={"a": "1\n2\n", "b": "x\n", "c": "gone\n"})
    text = patch(
        "*** Add File: d/n", "+new", "*** Update File: a", "@@", " 1", "-2", "+two",
        "*** Update File: b", "*** Move to: e", "*** Delete File: c",
    )  # fmt: skip
    result = await patched(ctx, text)
    assert ctx.workspace.files == {"d/n": b"new\n", "a": b"1\ntwo\n", "e": b"x\n"}
    assert result.to_json()["content"][0]["text"] == "Changed these files:\nA d/n\nM a\nM e\nD c"
    assert result.details == {
        "summary": {"added": ["d/n"], "modified": ["a", "e"], "deleted": ["c"]},
        "moved": {"b": "e"},
        "diff": "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n 1\n-2\n+two",
    }


@pytest.mark.parametrize(
    ("there", "asked"),
    [
        ("d\u2019x", "d'x"), ("cafe\u0301", "caf\u00e9"), ("a b", "a\u00a0b"), ("a\u00a0b", "a\u00a0b"),
        ("d/f", "@d/f"), ("@f", "@f"), ("At 1\u202fPM", "At 1 PM"), ("d/f", "@./d//f"),
    ],
)  # fmt: skip
async def test_a_path_as_a_person_sees_it_finds_the_file(there: str, asked: str) -> None:
    files: dict[str, Any] = {there: "1\n", "other": "1\n"}
    update = ["@@", "-1", "+2"]
    assert await after(files, patch(f"*** Update File: {asked}", *update)) == {there: b"2\n", "other": b"1\n"}
    assert await after(files, patch(f"*** Delete File: {asked}")) == {"other": b"1\n"}
    moved = patch(
        f"*** Update File: {asked}", "*** Move to: n\u00a0m", *update, "*** Update File: n\u00a0m", "@@", "+3"
    )
    assert await after(files, moved) == {"other": b"1\n", "n m": b"2\n3\n"}
    with pytest.raises(ToolError, match="exists already"):
        await after(files, patch(f"*** Add File: {asked}", "+1"))


@pytest.mark.parametrize(
    ("before", "hunk", "result"),
    [
        ("a\r\nb\r\nc\r\n", ["@@", " a", "-b", "+B", "+B2"], "a\r\nB\r\nB2\r\nc\r\n"),
        ("a\r\nb\nc\r\n", ["@@", "-a", "-b", "+A", "+B", "+C"], "A\r\nB\nC\nc\r\n"),
        ("a\r\nb", ["@@", "+c"], "a\r\nb\r\nc\r\n"),
        ("\ufeffa\nb\n", ["@@", "-a", "+A"], "\ufeffA\nb\n"),
        ("“a”  \nb\n", ["@@", ' "a"', "-b", "+c"], "“a”  \nc\n"),
        ("\tif a:\n\t\tgo()\n", ["@@", " if a:", "-    go()", "+    a()", "+    b()"], "\tif a:\n\t\ta()\n\t\tb()\n"),
        ("a\nb\na\nb\n", ["@@ b", "+c"], "a\nb\nc\na\nb\n"),
        ("A\nf\n x\nB\nf\n x\n", ["@@ B", "@@ f", "- x", "+ y"], "A\nf\n x\nB\nf\n y\n"),
        ("x\ny\nx\n", ["@@", "-x", "+z", "*** End of File"], "x\ny\nz\n"),
        ("a\nb", ["@@", "-a", "+A"], "A\nb"),
        ("a\nb", ["@@", " b", "+c"], "a\nb\nc\n"),
        ("a\n\n\n", ["@@", "-a", "+b"], "b\n\n\n"),
        ("a\nb\n", ["@@", "+c", ""], "a\nb\nc\n"),
        ("", ["@@", "+a"], "a\n"),
        ("a\n", ["@@", "-a"], ""),
    ],
)  # fmt: skip
async def test_a_hunk_changes_what_it_says_and_nothing_else(before: str, hunk: list[str], result: str) -> None:
    files = await after({"f": before}, patch("*** Update File: f", *hunk))
    assert files["f"].decode() == result


async def test_bytes_that_are_no_text_survive() -> None:
    files = await after({"f": b"\xff\xfe\nb  \nc\n"}, patch("*** Update File: f", "@@", " b", "-c", "+d"))
    assert files["f"] == b"\xff\xfe\nb  \nd\n"


@pytest.mark.parametrize(
    "text",
    [
        "  " + patch("*** Add File: n", "+x") + "\n\n",
        "<<'EOF'\n" + patch("*** Add File: n", "+x") + "\nEOF",
        patch("*** Add File: n", "+x").replace("\n", "\r\n"),
        patch("", "*** Add File: n  ", "+x", "", "  "),
    ],
)
async def test_blanks_and_a_here_document_around_the_patch_do_not_matter(text: str) -> None:
    assert await after({}, text) == {"n": b"x\n"}


@pytest.mark.parametrize("to", ["f", "./f"])
async def test_a_move_onto_itself_keeps_the_file(to: str) -> None:
    assert await after({"f": "a\n"}, patch("*** Update File: f", f"*** Move to: {to}", "@@", "-a", "+b")) == {
        "f": b"b\n"
    }


async def test_a_file_may_be_deleted_and_added_anew() -> None:
    assert await after({"f": "a\n"}, patch("*** Delete File: f", "*** Add File: f", "+b")) == {"f": b"b\n"}


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["*** Update File: f", "@@", "-zeta", "+z"], "f: hunk 1 (line 3 of the patch) does not fit"),
        (["*** Update File: f", "@@", " alpha", "-bet", "+z"], "there is no 'bet' in the file where it belongs"),
        (["*** Update File: f", "@@", " alpha", "-bet", "+z"], "the nearest is line 2, 'beta'"),
        (["*** Update File: f", "@@ alpa", "-beta", "+z"], "the nearest is line 1, 'alpha'"),
        (["*** Update File: f", "@@", "-gamma", "+g", "@@", "-beta", "+b"], "does not fit: from line 4 on"),
        (["*** Update File: f", "@@ -1,2 +1,2 @@", "-beta", "+b"], "line 3: '@@ -1,2 +1,2 @@' has line numbers"),
        (["*** Update File: f"], "line 2: the update of 'f' is empty"),
        (["*** Update File: f", "@@", "beta"], "line 4: 'beta' is no line of a hunk"),
        (["*** Update File: f", "-beta", "+b", "junk"], "line 5: a hunk behind another begins with a line @@"),
        (["*** Update File: none", "@@", "-a"], "'none'"),
        (["*** Add File: f", "+a"], "f exists already; update it, or delete it first"),
        (["*** Delete File: g", "*** Update File: d/x", "*** Move to: f"], "f exists already"),
        (["*** Add File: n", "+a", "", "+b"], "line 5: '+b' is not the beginning of a section"),
        (["*** Rename File: f"], "line 2: '*** Rename File: f' is not the beginning of a section"),
        (["*** Delete File: f", "*** Delete File: f"], "f is gone earlier in the patch"),
        (["*** Delete File: d"], "'d' is a folder"),
        ([], "changes no files"),
    ],
)  # fmt: skip
async def test_one_fault_leaves_every_file_as_it_was(lines: list[str], words: str) -> None:
    files = {"f": b"alpha\nbeta\ngamma\n", "g": b"1\n", "d/x": b"1\n"}
    ctx = fake_ctx(files=dict(files))
    with pytest.raises(ToolError) as raised:
        await patched(
            ctx, patch(*(["*** Add File: first", "+1"] if lines[:1] == ["*** Delete File: d"] else []), *lines)
        )
    said = str(raised.value)
    assert words in said
    assert "\n" not in said
    assert len(said) < 400
    assert ctx.workspace.files == files


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the patch is empty"),
        (" \n", "the patch is empty"),
        ("hello", "first line of the patch must be '*** Begin Patch', not 'hello'"),
        ("*** Begin Patch\n*** Add File: a\n+1", "last line of the patch must be '*** End Patch', not '+1'"),
        ("*** Begin Patch", "last line of the patch"),
        (patch("*** Add File: a", "+\ud800"), "half a character"),
        (patch("*** Update File: f", "@@"), "line 3: the hunk at the end of the patch is empty"),
    ],
)
async def test_what_is_no_patch_is_told(text: str, words: str) -> None:
    with pytest.raises(ToolError) as raised:
        await patched(fake_ctx(), text)
    assert words in str(raised.value)


async def test_a_file_that_changes_while_the_patch_is_made_is_not_overwritten() -> None:
    ctx = fake_ctx(files={"f": "a\n", "g": "b\n"})
    read = ctx.workspace.read

    async def meanwhile(path: str, /, start: int = 0, length: int | None = None) -> bytes:
        data = await read(path, start, length)
        ctx.workspace.files["f"] = b"other\n"
        return data

    ctx.workspace.read = meanwhile  # type: ignore[method-assign]  # somebody else is at work
    text = patch("*** Update File: f", "@@", "-a", "+A", "*** Update File: g", "@@", "-b", "+B")
    with pytest.raises(ToolError) as raised:
        await patched(ctx, text)
    assert (raised.value.code, ctx.workspace.files) == ("changed", {"f": b"other\n", "g": b"b\n"})


LINES = st.lists(
    st.sampled_from(["", " ", "a", "b", "ab", "\ta", "  b", "“", "+a", "-b", "@@", "*** End Patch", "é\udcff"]),
    max_size=14,
)
HEADERS = (
    "*** Begin Patch", "*** End Patch", "*** Update File: f", "*** Add File: n", "*** Delete File: f", "*** Move to: n",
    "*** End of File", "<<EOF", "EOF",
)  # fmt: skip


@given(LINES, LINES)
@example([""], [" ", ""])
def test_a_patch_made_of_two_texts_turns_one_into_the_other(old: list[str], new: list[str]) -> None:
    body = [
        "@@" if line.startswith("@@ -") else line
        for line in list(difflib.unified_diff(old, new, n=len(old) + len(new), lineterm=""))[2:]
    ]
    before, wanted = ("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape") for lines in (old, new))
    if not body:
        return
    (section,) = read_patch(patch("*** Update File: f", *body))
    assert apply_splices(before, find_splices("f", before, section.hunks)) == wanted


GARBAGE = st.sampled_from([*HEADERS, "@@", "@@ a", "-a", "+b", " a", "", "x"]) | st.text(max_size=8)


@given(st.lists(GARBAGE, max_size=12).map("\n".join))
async def test_garbage_raises_nothing_but_tool_errors(text: str) -> None:
    said = []
    for whole in (text, patch(text)):
        try:
            await patched(fake_ctx(files={"f": "a\nb\n"}), whole)
        except ToolError as error:
            said.append(str(error))
    assert not any("\n" in each for each in said)
