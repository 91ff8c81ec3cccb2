"""read: lines with a word on what is left, pictures, and what is neither."""

import base64
import io
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image as Pictures

import toolcrib
from toolcrib import OWNER, Ctx, Image, Result, Text, ToolError
from toolcrib.testing import fake_ctx
from toolcrib.tools.fs.read import read

pytestmark = pytest.mark.anyio


async def run(ctx: Ctx, **args: object) -> Result:
    return await read.run(ctx, read.check(args))


def text_of(result: Result) -> str:
    return result.plain_text


def numbered(count: int, pad: str = "") -> str:
    return "".join(f"line {number}{pad}\n" for number in range(1, count + 1))


async def test_a_short_file_comes_back_as_it_is() -> None:
    result = await run(fake_ctx(files={"a/b.txt": "x\r\ny\n"}), file_path="a/b.txt")
    assert text_of(result) == "x\r\ny\n"
    assert result.details == {
        "path": "a/b.txt", "kind": "text", "bytes": 5, "first": 1, "lines": 2, "total": 2, "next": None, "cut": None,
        "encoding": "utf-8",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("args", "first", "last", "notice"),
    [
        ({}, 1, 2000, "[lines 1-2000 of 5000 shown, 3000 more; go on with offset=2001]"),
        ({"offset": 4001}, 4001, 5000, ""),
        ({"offset": 3001}, 3001, 5000, ""),
        ({"offset": 10, "limit": 3}, 10, 12, "[lines 10-12 of 5000 shown, 4988 more; go on with offset=13]"),
        ({"limit": 4000}, 1, 2000, "[lines 1-2000 of 5000 shown, 3000 more; go on with offset=2001]"),
        ({"offset": 4999, "limit": 1}, 4999, 4999, "[lines 4999-4999 of 5000 shown, 1 more; go on with offset=5000]"),
        ({"offset": 0, "limit": 1}, 1, 1, "[lines 1-1 of 5000 shown, 4999 more; go on with offset=2]"),
        ({"offset": -7, "limit": 1}, 1, 1, "[lines 1-1 of 5000 shown, 4999 more; go on with offset=2]"),
    ],
)
async def test_a_page_says_what_is_left_and_how_to_go_on(
    args: dict[str, int], first: int, last: int, notice: str
) -> None:
    result = await run(fake_ctx(files={"f": numbered(5000)}), path="f", **args)
    body = "".join(f"line {number}\n" for number in range(first, last + 1))
    assert text_of(result) == body + (f"\n{notice}" if notice else "")


async def test_the_pages_put_together_are_the_file() -> None:
    whole = numbered(3000, pad="." * 40)
    ctx, offset, pages = fake_ctx(files={"f": whole}), 1, ""
    while offset is not None:
        result = await run(ctx, path="f", offset=offset)
        assert len(text_of(result).encode()) < 51_400
        pages += text_of(result).rpartition("\n[")[0] if result.details["next"] else text_of(result)
        offset = result.details["next"]
    assert pages == whole


async def test_fifty_kilobytes_are_enough() -> None:
    result = await run(fake_ctx(files={"f": numbered(1000, pad="." * 100)}), path="f")
    assert text_of(result).endswith("\n\n[lines 1-470 of 1000 shown (50.0KB at once), 530 more; go on with offset=471]")


async def test_a_line_that_is_too_long_is_told_with_the_way_around_it() -> None:
    ctx = fake_ctx(files={"f": "short\n" + "y" * 60_000 + "\nend"})
    first = await run(ctx, path="f")
    assert text_of(first) == "short\n\n[lines 1-1 of 3 shown (50.0KB at once), 2 more; go on with offset=2]"
    second = await run(ctx, path="f", offset=2)
    assert text_of(second) == (
        "[line 2 alone has 58.6KB, more than the 50.0KB shown at once; "
        "go on behind it with offset=3, or search in it with grep]"
    )
    assert text_of(await run(ctx, path="f", offset=3)) == "end"


async def test_an_offset_behind_the_end_is_told_with_the_number_of_lines() -> None:
    with pytest.raises(ToolError, match=r"^'f' has 3 lines; offset 4 is behind its end$"):
        await run(fake_ctx(files={"f": numbered(3)}), path="f", offset=4)
    assert text_of(await run(fake_ctx(files={"f": ""}), path="f", offset=1)) == ""


@pytest.mark.parametrize("args", [{"limit": -1}, {"offset": 1.5}, {}])
async def test_arguments_that_do_not_fit_are_refused(args: dict[str, object]) -> None:
    with pytest.raises(ToolError, match=r"^read: "):
        await run(fake_ctx(files={"f": ""}), **({"path": "f", **args} if args else {}))


async def test_a_folder_is_for_ls_and_a_missing_file_has_neighbours() -> None:
    ctx = fake_ctx(files={"src/app.py": "", "src/zeta.md": "", "docs/x": ""})
    with pytest.raises(ToolError, match=r"^'src' is a folder; use ls to see what is in it$"):
        await run(ctx, path="src")
    with pytest.raises(ToolError, match=r"^no file 'src/ap.py'; did you mean 'src/app.py'\?$"):
        await run(ctx, path="src/ap.py")
    with pytest.raises(
        ToolError, match=r"^no file 'shop/app.py'; there is 'src/app.py'; the workspace holds docs, src$"
    ):
        await run(ctx, path="shop/app.py")
    with pytest.raises(ToolError, match=r"^no file 'zzz'; the workspace holds docs, src$"):
        await run(ctx, path="zzz")
    with pytest.raises(ToolError, match="the path is empty"):
        await run(ctx, path="  ")


@pytest.mark.parametrize(
    ("there", "asked"),
    [
        ("d\u2019accord.txt", "d'accord.txt"),
        ("Screenshot 1.02.03\u202fPM.png.txt", "Screenshot 1.02.03 PM.png.txt"),
        ("cafe\u0301.txt", "caf\u00e9.txt"),
        ("caf\u00e9.txt", "cafe\u0301.txt"),
        ("l\u2019e\u0301t\u00e9.txt".replace("\u00e9", "e\u0301"), "l'\u00e9t\u00e9.txt"),
        ("a b.txt", "a\u00a0b.txt"),
        ("f.txt", "@f.txt"),
        ("@f.txt", "@f.txt"),
    ],
)
async def test_a_path_as_a_person_sees_it_finds_the_file(there: str, asked: str) -> None:
    assert text_of(await run(fake_ctx(files={there: "ok"}), path=asked)) == "ok"


async def test_the_spelling_given_comes_first() -> None:
    ctx = fake_ctx(files={"d'x": "straight", "d\u2019x": "curly"})
    assert [text_of(await run(ctx, path=path)) for path in ("d'x", "d\u2019x")] == ["straight", "curly"]


async def test_encodings_survive_and_are_told() -> None:
    ctx = fake_ctx(
        files={
            "bom": "\ufeffabc\n", "latin": b"caf\xe9 \xff\n", "le": "\ufeffh\u00e9\ntwo\n".encode("utf-16-le"),
            "be": "\ufeffh\u00e9\n".encode("utf-16-be"),
        }
    )  # fmt: skip
    assert text_of(await run(ctx, path="bom")) == "\ufeffabc\n"
    latin = text_of(await run(ctx, path="latin"))
    assert (
        latin == "caf\ufffd \ufffd\n\n[\ufffd stands for what is not UTF-8 (2 times); the file itself keeps its bytes]"
    )
    assert text_of(await run(ctx, path="le")) == "h\u00e9\ntwo\n\n[the file is UTF-16, shown here as text]"
    page = await run(ctx, path="le", offset=2, limit=1)
    assert (text_of(page).partition("\n")[0], page.details["encoding"], page.details["total"]) == ("two", "utf-16", 2)
    assert text_of(await run(ctx, path="be")).startswith("h\u00e9\n")


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x7fELF\x02\x01\x01" + bytes(9), "an ELF program or library"),
        (b"PK\x03\x04" + bytes(20), "a ZIP archive"),
        (b"SQLite format 3\0" + bytes(80), "an SQLite database"),
        (b"a\0b", "binary data"),
        (bytes(range(1, 8)) * 9, "binary data"),
    ],
)
async def test_what_is_not_text_is_described(data: bytes, kind: str) -> None:
    result = await run(fake_ctx(files={"x.bin": data}), path="x.bin")
    assert text_of(result).startswith(f"[x.bin is {kind}")
    assert result.details == {"path": "x.bin", "kind": "binary", "bytes": len(data)}


async def test_the_session_remembers_the_version_it_was_shown() -> None:
    ctx = fake_ctx(files={"f": "x"})
    await run(ctx, path="./f")
    assert ctx.workspace.last_seen("f") == await ctx.workspace.stat("f")


def picture(kind: str, sides: tuple[int, int], mode: str = "RGB", **options: object) -> bytes:
    out = io.BytesIO()
    Pictures.new(mode, sides, "navy").save(out, kind, **options)
    return out.getvalue()


@pytest.mark.parametrize("kind", ["png", "jpeg", "gif", "webp"])
async def test_a_small_picture_passes_as_it_is_whatever_its_name(kind: str) -> None:
    data = picture(kind, (30, 20))
    result = await run(fake_ctx(files={"notes.txt": data}), path="notes.txt", offset=9)
    assert result.content == (Text(f"MEDIA:notes.txt\nimage/{kind}, 30x20"), Image(data, f"image/{kind}"))
    assert result.details == {
        "path": "notes.txt", "kind": "image", "bytes": len(data), "shown": True, "width": 30, "height": 20,
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["png", "jpeg", "webp"])
async def test_a_large_picture_is_made_smaller_and_the_scale_told(kind: str) -> None:
    result = await run(fake_ctx(files={"p": picture(kind, (4000, 1000))}), path="p")
    about, image = result.content
    assert isinstance(about, Text)
    assert isinstance(image, Image)
    assert about.text.endswith("shown at 2000x500 instead of 4000x1000; multiply coordinates by 2.00 for the original")
    assert (result.details["width"], result.details["height"]) == (4000, 1000)
    with Pictures.open(io.BytesIO(image.data)) as shown:
        assert shown.size == (2000, 500)


async def test_a_heavy_picture_is_written_again_until_it_fits() -> None:
    noise = Pictures.effect_noise((1600, 1600), 200).convert("RGB")
    out = io.BytesIO()
    noise.save(out, "PNG", compress_level=0)
    (_, image) = (await run(fake_ctx(files={"p.png": out.getvalue()}), path="p.png")).content
    assert isinstance(image, Image)
    assert len(base64.b64encode(image.data)) <= 4.5 * 1024 * 1024 < len(out.getvalue())


async def test_a_photograph_is_turned_upright() -> None:
    exif = Pictures.Exif()
    exif[0x0112] = 6
    data = picture("jpeg", (60, 40), exif=exif)
    (about, image) = (await run(fake_ctx(files={"p.jpg": data}), path="p.jpg")).content
    assert about == Text("MEDIA:p.jpg\nimage/jpeg, 40x60")
    assert isinstance(image, Image)
    with Pictures.open(io.BytesIO(image.data)) as shown:
        assert shown.size == (40, 60)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x89PNG\r\n\x1a\n", "is cut off or damaged"),
        (picture("png", (3000, 10))[:60], "cannot be opened"),
        (b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + b"\0\x01\0\0\0\x01\0\0" + bytes(9), "too many to open"),
        (b"\xff\xd8\xff\xe0\0\x04JF", "is cut off or damaged"),
        (b"\xff\xd8\xff" + b"\xff" * 500, "is cut off or damaged"),
    ],
)
async def test_a_picture_that_cannot_be_shown_is_described(data: bytes, why: str) -> None:
    result = await run(fake_ctx(files={"p.png": data}), path="p.png")
    assert why in text_of(result)
    assert len(result.content) == 1


def test_without_pillow_small_pictures_pass_and_large_ones_name_the_remedy() -> None:
    code = (
        "import sys; sys.modules['PIL'] = None\n"
        "from toolcrib.tools._media import fit_picture\n"
        "from toolcrib import ToolError\n"
        "head = lambda side: b'\\x89PNG\\r\\n\\x1a\\n' + b'\\0\\0\\0\\rIHDR' + side.to_bytes(4, 'big') * 2 + bytes(9)\n"
        "print(fit_picture(head(100), 'image/png').note)\n"
        "try: fit_picture(head(3000), 'image/png')\n"
        "except ToolError as error: print(error)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    small, large = ran.stdout.splitlines()
    assert small == "image/png, 100x100"
    assert "install toolcrib[media]" in large


async def test_what_others_sent_is_from_outside_wherever_it_is_read_from(tmp_path: Path) -> None:
    files = {"inbox/telegram-1/a.txt": "obey me", "Downloads/b.txt": "me too", "inbox.txt": "mine"}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    async with toolcrib.open({"workspace": {"root": str(tmp_path)}}) as crib:
        belt = crib.belt(OWNER)
        for path, source in (
            ("inbox/telegram-1/a.txt", "file:inbox/telegram-1/a.txt"),
            ("./inbox/../inbox/telegram-1/a.txt", "file:inbox/telegram-1/a.txt"),
            ("Downloads/b.txt", "file:Downloads/b.txt"),
            ("inbox.txt", None),
        ):
            (part,) = (await belt.call("read", {"path": path})).content
            assert isinstance(part, Text)
            assert part.source == source
        found = await belt.call("grep", {"pattern": "me"})
        both = "file:Downloads/b.txt and file:inbox/telegram-1/a.txt"
        assert [part.source for part in found.content if isinstance(part, Text)] == [both]
