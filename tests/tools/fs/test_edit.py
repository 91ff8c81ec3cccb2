"""edit: a passage is replaced, and nothing else is."""

import asyncio
import re
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.cases.edits import numbered

from toolcrib import Result, ToolError
from toolcrib.testing import FakeCtx, fake_ctx
from toolcrib.tools.fs._diff import Splice, apply_splices, make_diff
from toolcrib.tools.fs.edit import edit

pytestmark = pytest.mark.anyio


async def edited(ctx: FakeCtx, **args: Any) -> Result:
    return await edit.run(ctx, edit.check({"path": "f", **args}))


async def made(before: str | bytes, old: str, new: str, **args: Any) -> bytes:
    ctx = fake_ctx(files={"f": before})
    await edited(ctx, oldText=old, newText=new, **args)
    return ctx.workspace.files["f"]


async def refusal(before: str | bytes, **args: Any) -> ToolError:
    ctx = fake_ctx(files={"f": before})
    with pytest.raises(ToolError) as raised:
        await edited(ctx, **args)
    assert ctx.workspace.files["f"] == (before.encode() if isinstance(before, str) else before)
    return raised.value


async def test_the_details_tell_the_path_the_diff_the_line_and_the_number() -> None:
    ctx = fake_ctx(files={"f": "one\ntwo\nthree\n"})
    result = await edited(ctx, oldText="two", newText="2")
    assert result.details == {
        "path": "f",
        "diff": "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three",
        "firstChangedLine": 2,
        "replacements": 1,
        "matched": "exact",
    }


@pytest.mark.parametrize(
    ("before", "old", "new", "after", "matched"),
    [
        ("a\nb\n", "b\n", "", "a\n", "exact"),
        ("\ufeffa\r\nb\r\n", "a\nb", "A\nB", "\ufeffA\r\nB\r\n", "endings"),
        ("a\r\nb\nc\r\n", "b\nc", "B\nC\nD", "a\r\nB\nC\nD\r\n", "exact"),
        ("a\r\nb\nc\nd", "a\r\nb\nc", "a\nb\nx", "a\r\nb\nx\nd", "exact"),
        ("a\rb\rc", "b\nc", "B\nC", "a\rB\rC", "endings"),
        ("a\r\nb", "\nb", "\nc", "a\r\nc", "exact"),
        ("a\r\nb", "\n", " ", "a b", "exact"),
        ("x\r\n", "x", "y\nz", "y\r\nz\r\n", "exact"),
        ("if x:\t \n  go()\nend  \n", "if x:\n  go()", "if y:\n  go()", "if y:\n  go()\nend  \n", "blanks"),
        ("keep  \nold  \n", "keep\nold", "keep\nnew", "keep  \nnew  \n", "blanks"),
        ("say “hi” – ok\n", "say \"hi\" - ok", "say 'yo'", "say 'yo'\n", "marks"),
        ("“a”\n10\u2009km\n", "10 km", "12 km", "“a”\n12 km\n", "spaces"),
        ("\ta:\n\t\tgo()\n", "a:\n    go()", "b:\n    go()\n    x()", "\tb:\n\t\tgo()\n\t\tx()\n", "indentation"),
        ("    a\n    b\n", "a\nb\n", "", "", "indentation"),
        ("    a\n    b\n", "  a\n  b", "  if x:\n    a\n  b", "    if x:\n      a\n    b\n", "indentation"),
        ("\ufeff  a\n", "\ta", "\tb", "\ufeff  b\n", "indentation"),
    ],
)  # fmt: skip
async def test_a_passage_is_found_as_a_reader_would_find_it(
    before: str, old: str, new: str, after: str, matched: str
) -> None:
    ctx = fake_ctx(files={"f": before})
    result = await edited(ctx, oldText=old, newText=new)
    assert (ctx.workspace.files["f"].decode(), result.details["matched"]) == (after, matched)


async def test_bytes_that_are_no_text_survive_every_reading() -> None:
    assert await made(b"\xff\x00 \xe4\nsay \xe2\x80\x9chi\xe2\x80\x9d\xfe\n", 'say "hi"', "yo") == (
        b"\xff\x00 \xe4\nyo\xfe\n"
    )


async def test_an_exact_passage_is_taken_though_others_look_alike() -> None:
    assert await made('say "hi"\nsay “hi”\n', 'say "hi"', "x") == "x\nsay “hi”\n".encode()


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [("x y x\n", "x", "z", "z y z\n"), ("“a”\n„a“\n", '"a"', "b", "b\nb\n"), ("a\r\na\n", "a\n", "b\n", "a\r\nb\n")],
)
async def test_replace_all_replaces_every_place_that_the_reading_found(
    before: str, old: str, new: str, after: str
) -> None:
    assert (await made(before, old, new, replace_all=True)).decode() == after


@pytest.mark.parametrize(
    "args",
    [
        {"edits": [{"oldText": "c", "newText": "C"}, {"oldText": "a", "newText": "b"}]},
        {"edits": [{"old_string": "c", "new_string": "C"}], "old_string": "a", "new_string": "b"},
        {"edits": '[{"oldText": "c", "newText": "C"}, {"oldText": "a", "newText": "b"}]'},
    ],
)
async def test_several_edits_are_matched_against_the_file_as_it_was(args: dict[str, Any]) -> None:
    ctx = fake_ctx(files={"f": "a\nb\nc\n"})
    result = await edited(ctx, **args)
    assert (ctx.workspace.files["f"], result.details["replacements"]) == (b"b\nb\nC\n", 2)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"oldText": "hello word", "newText": "x"}, "oldText is not in f; the nearest is line 3, 'hello world'"),
        ({"oldText": "qqq", "newText": "x"}, "nothing in it is like it"),
        ({"oldText": "a", "newText": "b"}, "stands in f 2 times, at line 1, 2; add lines around it"),
        ({"oldText": "a\na", "newText": "a\na"}, "no change"),
        ({"oldText": "", "newText": "x"}, "oldText must not be empty in f, which has 16 bytes"),
        ({"oldText": "a\na"}, "newText is missing"),
        ({"newText": "a"}, "oldText is missing"),
        ({}, "nothing to replace"),
        ({"oldText": "hello", "newText": "\ud800"}, "newText holds half a character"),
        ({"edits": [{"oldText": "", "newText": "x"}, {"oldText": "a", "newText": "x"}]}, "edits[0].oldText must not"),
        ({"edits": [{"oldText": "hello", "newText": "x"}, {"oldText": "zz", "newText": ""}]}, "edits[1].oldText is"),
        ({"edits": [{"oldText": "hello", "newText": "x"}, {"oldText": "lo w", "newText": ""}]}, "overlap in f"),
        ({"edits": [{"oldText": "hello"}]}, "edits[0].newText is required"),
        ({"edits": [{"oldText": "hello", "old_string": "h", "newText": ""}]}, "no parameter 'old_string' in edits[0]"),
        ({"edits": "[nonsense"}, "edits"),
    ],
)  # fmt: skip
async def test_what_cannot_be_done_is_told_in_one_sentence(args: dict[str, Any], words: str) -> None:
    said = str(await refusal("a\na\nhello world\n", **args))
    assert words in said
    assert "\n" not in said
    assert len(said) < 400


async def test_an_empty_old_text_fills_a_file_that_is_empty_or_new() -> None:
    assert await made("", "", "x\n") == b"x\n"
    ctx = fake_ctx()
    await edited(ctx, oldText="", newText="x")
    assert ctx.workspace.files == {"f": b"x"}


async def test_a_missing_file_is_named() -> None:
    with pytest.raises(ToolError, match="'gone'") as raised:
        await edit.run(fake_ctx(), {"path": "gone", "oldText": "a", "newText": "b"})
    assert raised.value.code == "not_found"


SPELLINGS = [
    ("d\u2019accord.txt", "d'accord.txt"),
    ("At 1.02.03\u202fPM.txt", "At 1.02.03 PM.txt"),
    ("cafe\u0301.txt", "caf\u00e9.txt"),
    ("caf\u00e9.txt", "cafe\u0301.txt"),
    ("a b.txt", "a\u00a0b.txt"),
    ("a\u00a0b.txt", "a\u00a0b.txt"),
    ("d/f.txt", "@d/f.txt"),
    ("@f.txt", "@f.txt"),
]


@pytest.mark.parametrize(("there", "asked"), SPELLINGS)
@pytest.mark.parametrize("key", ["path", "file_path"])
async def test_a_path_as_a_person_sees_it_finds_the_file(there: str, asked: str, key: str) -> None:
    ctx = fake_ctx(files={there: "a", "other": "a"})
    result = await edit.run(ctx, edit.check({key: asked, "oldText": "a", "newText": "b"}))
    assert (ctx.workspace.files, result.details["path"]) == ({there: b"b", "other": b"a"}, there)


@pytest.mark.parametrize(("there", "asked"), SPELLINGS)
async def test_an_empty_file_is_filled_under_the_name_it_has(there: str, asked: str) -> None:
    ctx = fake_ctx(files={there: ""})
    await edit.run(ctx, edit.check({"path": asked, "oldText": "", "newText": "b"}))
    assert ctx.workspace.files == {there: b"b"}


async def test_the_spelling_given_comes_first() -> None:
    ctx = fake_ctx(files={"d'x": "a", "d\u2019x": "a", "@d'x": "a"})
    for path, new in (("d'x", "1"), ("d\u2019x", "2"), ("@d'x", "3")):
        await edit.run(ctx, edit.check({"path": path, "oldText": "a", "newText": new}))
    assert ctx.workspace.files == {"d'x": b"1", "d\u2019x": b"2", "@d'x": b"3"}


@pytest.mark.parametrize(
    "args",
    [
        {"oldText": "a"},
        {"newText": "a"},
        {},
        {"edits": []},
        {"edits": [{"oldText": "a"}]},
        {"edits": [{"oldText": "", "newText": "b"}, {"oldText": "a", "newText": "b"}]},
        {"edits": "[{"},
        {"edits": [{"oldText": "a", "newText": "b"}, {"oldText": "a", "newText": "c"}]},
        {"oldText": "a", "newText": "\ud800"},
        {"oldText": "\ud800", "newText": "a"},
        {"oldText": 5.5, "newText": ["a"]},
        {"oldText": "a", "newText": "b", "colour": "red"},
        {"oldText": "a", "newText": "b", "replaceAll": "perhaps"},
        {"oldText": "a", "newText": "a"},
        {"oldText": "zebra", "newText": "a"},
        {"oldText": "x", "newText": "a"},
        {"oldText": "", "newText": "a"},
    ],
)
async def test_every_refusal_names_the_file(args: dict[str, Any]) -> None:
    ctx = fake_ctx(files={"src/deep name.py": "a\nx\nx\n"})
    with pytest.raises(ToolError, match=re.escape("src/deep name.py")):
        await edit.run(ctx, edit.check({"path": "src/deep name.py", **args}))
    assert ctx.workspace.files == {"src/deep name.py": b"a\nx\nx\n"}


async def test_a_file_that_changed_since_it_was_read_is_refused() -> None:
    ctx = fake_ctx(files={"f": "a\n"})
    ctx.workspace.note(await ctx.workspace.stat("f"))
    ctx.workspace.files["f"] = b"a\nmore\n"
    with pytest.raises(ToolError, match=re.escape("it had 2 bytes and has 7); read it again")) as raised:
        await edited(ctx, oldText="a", newText="b")
    assert (raised.value.code, ctx.workspace.files["f"]) == ("changed", b"a\nmore\n")


async def test_an_edit_may_follow_an_edit() -> None:
    ctx = fake_ctx(files={"f": "a\n"})
    ctx.workspace.note(await ctx.workspace.stat("f"))
    for old, new in ("ab", "bc"):
        await edited(ctx, oldText=old, newText=new)
    assert ctx.workspace.files["f"] == b"c\n"


async def test_a_long_diff_is_cut_and_says_so() -> None:
    ctx = fake_ctx(files={"f": "x\n" * 30_000 + "y" * 5_000})
    result = await edited(ctx, oldText="x", newText="z", replaceAll=True)
    assert result.details["replacements"] == 30_000
    assert len(result.details["diff"]) < 60_000
    assert "more lines" in result.details["diff"]


async def test_what_is_like_nothing_in_a_large_file_is_told_soon() -> None:
    said = str(await refusal(" \n" * 200_000 + "(" * 100_000, oldText="\n" * 50_000 + "q", newText=""))
    assert "nothing in it is like it" in said


PIECES = (b"\n", b"\r\n", b"\r", b" ", b"\t", b"a", b"b", b"\xff", b"\x00", "“".encode(), b'"', "\ufeff".encode())
BYTES = st.lists(st.sampled_from(PIECES) | st.binary(max_size=3), max_size=20).map(b"".join)
TEXT = st.text('ab"“” \t\r\n\ufeffé', min_size=1, max_size=12)


@given(BYTES, TEXT, BYTES, st.text('abc"“ ', max_size=5))
def test_an_exact_unique_passage_is_replaced_and_every_other_byte_stays(
    before: bytes, old: str, behind: bytes, new: str
) -> None:
    data, wanted = before + old.encode() + behind, old.encode()
    assume(sum(data.startswith(wanted, at) for at in range(len(data))) == 1)  # those that overlap are two
    assume(not (old.startswith("\n") and before.endswith(b"\r")))  # a line ending is one thing, not two
    assume(new != old)
    assert changed(data, old, new) == before + new.encode() + behind


INSIDE = st.text('abЖ"“” \t\né', max_size=12).map("Ж{}Ж".format)
VARIANTS = {'"': '"“”', "“": '"“', "”": '"”', " ": (" ", " ", "\t"), "\n": ("\n", "\n", "\r\n", "  \n", "\n  ")}


@given(BYTES, INSIDE, BYTES, st.text('ab"“ \n', max_size=8), st.sampled_from([(b"<", b">"), (b"\n", b"\n")]), st.data())
def test_whatever_the_reading_what_is_outside_of_the_passage_stays(
    before: bytes, passage: str, behind: bytes, new: str, edges: tuple[bytes, bytes], draw: st.DataObject
) -> None:
    before, behind = before + b"<" + edges[0], edges[1] + b">" + behind
    assume("Ж".encode() not in before + behind)  # so the passage can be meant in one place only
    old = "".join(draw.draw(st.sampled_from(VARIANTS.get(each, each))) for each in passage)
    result = changed(before + passage.encode() + behind, old, new)
    if result is None:
        assert without_marks(old, '"“”') != without_marks(passage, '"“”')
        return
    assert (result[: len(before)], result[len(result) - len(behind) :]) == (before, behind)
    middle = result[len(before) : len(result) - len(behind)].decode()
    assert without_marks(middle) == without_marks(new)


def changed(data: bytes, old: str, new: str) -> bytes | None:
    """Return the file as edit leaves it; None when it finds no such passage."""
    ctx = fake_ctx(files={"f": data})
    try:
        asyncio.run(edited(ctx, oldText=old, newText=new))
    except ToolError as error:
        if error.code != "no_match":
            raise
        return None if ctx.workspace.files == {"f": data} else b"refused, and changed"
    return ctx.workspace.files["f"]


def without_marks(text: str, marks: str = '"“” \t\r\n') -> str:
    return text.translate(dict.fromkeys(map(ord, marks)))


@given(st.lists(st.sampled_from(["a", "b", "", " a", "c\r"]), max_size=40), st.data())
def test_a_diff_turns_the_old_file_into_the_new_one(lines: list[str], data: st.DataObject) -> None:
    text = "\n".join(lines).encode()
    ends = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pairs = zip(ends[::2], ends[1::2], strict=False)
    splices = [Splice(start, end, data.draw(st.sampled_from([b"", b"x", b"a\n", b"\nq\n"]))) for start, end in pairs]
    told = make_diff("f", text, splices).text
    numbered(told, text.decode(), apply_splices(text, splices).decode())
