"""Archives: whole or not at all, nothing outside, never more than may come out; more rows are in tests/attacks."""

import io
import os
import signal
import struct
import subprocess
import sys
import tarfile
import time
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path

import pytest
from tests.attacks.archives import pack

from toolcrib.backends.archives import install, uninstall
from toolcrib.define.errors import ToolError

FORMS = ("zip", "tar", "tar.gz", "tar.bz2", "tar.xz")


def put(folder: Path, data: bytes) -> Path:
    path = folder / "archive"
    path.write_bytes(data)
    return path


def unpack(folder: Path, data: bytes) -> Path:
    return install(put(folder, data), folder / "there", lambda whole: (whole, "one"))


def listed(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_unpacked_by_what_it_is_and_not_by_its_name(tmp_path: Path, form: str) -> None:
    target = unpack(tmp_path, pack(form, ["./", "./a.txt", "d/e/b.txt", "run.sh!755"]))
    assert listed(tmp_path / "there") == ["one", "one/a.txt", "one/d", "one/d/e", "one/d/e/b.txt", "one/run.sh"]
    assert (target / "a.txt").read_bytes() == b"x\n"
    assert [bool((target / name).stat().st_mode & 0o111) for name in ("a.txt", "run.sh")] == [False, True]


@pytest.mark.parametrize("inner", FORMS)
def test_an_archive_in_an_archive_is_data_and_stays_packed(tmp_path: Path, inner: str) -> None:
    out, packed = io.BytesIO(), pack(inner, ["../evil.txt", "a->/etc"])
    with zipfile.ZipFile(out, "w") as whole:
        whole.writestr(f"d/inner.{inner}", packed)
    target = unpack(tmp_path, out.getvalue())
    assert listed(tmp_path / "there") == ["one", "one/d", f"one/d/inner.{inner}"]
    assert (target / "d" / f"inner.{inner}").read_bytes() == packed


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("part", [0.2, 0.5, 0.9])
def test_what_is_cut_off_is_refused_whole(tmp_path: Path, form: str, part: float) -> None:
    data = pack(form, [f"d/{at}.txt" for at in range(40)])
    data = data.rstrip(b"\0") if form == "tar" else data
    with pytest.raises(ToolError, match="cannot be unpacked"):
        unpack(tmp_path, data[: int(len(data) * part)])
    assert listed(tmp_path / "there") == []


@pytest.mark.parametrize("form", FORMS)
def test_whatever_byte_is_another_nothing_is_left_of_an_archive_that_is_refused(tmp_path: Path, form: str) -> None:
    data = pack(form, ["a.txt", "d/b.txt"])
    for at in range(0, len(data), max(1, len(data) // 60)):
        changed = bytearray(data)
        changed[at] ^= 0xFF
        with suppress(ToolError):
            uninstall(unpack(tmp_path, bytes(changed)).parent, "one")
        assert listed(tmp_path / "there") == []


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "neither a zip nor a tar"),
        (b"no archive\n" * 100, "neither a zip nor a tar"),
        (pack("tar", ["a"])[:1024] + b"x" * 512, "a header in it is broken"),
        (b"PK\3\4", "not a zip file"),
        (b"\x1f\x8b" + bytes(20), "compression method"),
        (b"\xfd7zXZ\0" + bytes(20), "data"),
        (b"BZh9" + bytes(20), "data stream"),
    ],
)
def test_what_is_no_archive_is_told_in_one_sentence(tmp_path: Path, data: bytes, why: str) -> None:
    with pytest.raises(ToolError, match=why):
        unpack(tmp_path, data)


@pytest.mark.parametrize("make", ["missing", "folder", "pipe"])
def test_what_is_no_file_is_not_waited_for(tmp_path: Path, make: str) -> None:
    path = tmp_path / "archive"
    if make == "folder":
        path.mkdir()
    elif make == "pipe":
        os.mkfifo(path)
    with pytest.raises(ToolError, match="there is no such file"):
        install(path, tmp_path / "there", lambda whole: (whole, "one"))


def zipped(name: str, data: bytes, compression: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        archive.writestr(name, data)
    return out.getvalue()


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_zip_that_comes_out_in_one_piece_is_refused_before_it_does(tmp_path: Path, method: int) -> None:
    with pytest.raises(ToolError, match="packed in an unusual way; use deflate"):
        unpack(tmp_path, zipped("a", bytes(100_000_000), compression=method))


def test_a_zip_behind_a_password_is_told(tmp_path: Path) -> None:
    data = bytearray(zipped("a", b"x"))
    for magic, at in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        data[data.index(magic) + at] |= 1
    with pytest.raises(ToolError, match="encrypted"):
        unpack(tmp_path, bytes(data))


def tar_of(*members: tarfile.TarInfo) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tape:
        for member in members:
            tape.addfile(member, io.BytesIO(bytes(member.size)))
    return out.getvalue()


@pytest.mark.parametrize(
    "headers",
    [
        {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "9"},
        {"GNU.sparse.map": "0,9", "GNU.sparse.size": "9"},
        {"size": "99999999999"},
        {"size": "-512"},
        {"path": "../evil.txt"},
        {"linkpath": "x", "path": "a\\b"},
    ],
)
def test_what_a_longer_header_says_is_judged_as_well(tmp_path: Path, headers: dict[str, str]) -> None:
    member = tarfile.TarInfo("a.txt")
    member.pax_headers = headers
    with pytest.raises(ToolError):
        unpack(tmp_path, tar_of(member))
    assert listed(tmp_path / "there") == []


def test_headers_about_headers_without_end_are_refused(tmp_path: Path) -> None:
    header = tarfile.TarInfo("x")
    header.type = tarfile.XHDTYPE
    with pytest.raises(ToolError, match="cannot be unpacked"):
        unpack(tmp_path, header.tobuf() * 5_000 + bytes(1024))


def test_two_members_that_share_their_bytes_count_twice(tmp_path: Path) -> None:
    """Each member says that the same packed megabyte is its own: little is read, and much comes out."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = packer.compress(bytes(1 << 20)) + packer.flush()
    crc, names, directory, out = zlib.crc32(bytes(1 << 20)), [f"{at:03}" for at in range(300)], b"", b""
    sizes = (crc, len(data), 1 << 20)
    for name in names:
        # the header of each is there, and the packed bytes once: behind the last one
        where = len(out)
        quoted = (len(names) - 1 - int(name)) * 37  # the headers behind it, as an extra field of it
        head = struct.pack("<4s5H3L2H", b"PK\3\4", 20, 0, 8, 0, 33, *sizes, 3, 4 + quoted if quoted else 4)
        out += head + name.encode() + struct.pack("<HH", 0x4141, quoted)
        directory += struct.pack("<4s6H3L5H2L", b"PK\1\2", 20, 20, 0, 8, 0, 33, *sizes, 3, 0, 0, 0, 0, 0, where)
        directory += name.encode()
    out += data
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 300, 300, len(directory), len(out), 0)
    with pytest.raises(ToolError, match="200 times its size"):
        unpack(tmp_path, out + directory + end)
    assert listed(tmp_path / "there") == []


def test_nobody_s_place_is_taken(tmp_path: Path) -> None:
    unpack(tmp_path, pack("zip", ["a.txt"]))
    with pytest.raises(ToolError, match="is there already; remove it first"):
        unpack(tmp_path, pack("zip", ["b.txt"]))
    assert listed(tmp_path / "there") == ["one", "one/a.txt"]
    (tmp_path / "there" / "empty").mkdir()
    with pytest.raises(ToolError, match="is there already"):
        install(tmp_path / "archive", tmp_path / "there", lambda whole: (whole, "empty"))


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/a", "a\\b", "C:", "a\n"])
def test_it_goes_nowhere_but_into_its_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(ToolError):
        install(put(tmp_path, pack("zip", ["a.txt"])), tmp_path / "there", lambda whole: (whole, name))
    assert listed(tmp_path / "there") == []


def test_a_key_that_interrupts_it_leaves_nothing(tmp_path: Path) -> None:
    def interrupt(whole: Path) -> tuple[Path, str]:
        assert listed(whole) == ["a.txt"]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        install(put(tmp_path, pack("zip", ["a.txt"])), tmp_path / "there", interrupt)
    assert listed(tmp_path / "there") == []


def test_what_is_killed_in_the_midst_is_gone_with_the_next_one(tmp_path: Path) -> None:
    archive = put(tmp_path, pack("tar", [f"{at}.txt" for at in range(100)]))
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom toolcrib.backends.archives import install\n"
        "def stay(whole):\n    print('staged', flush=True)\n    time.sleep(600)\n"
        f"install(Path({str(archive)!r}), Path({str(tmp_path / 'there')!r}), stay)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"staged\n"
        # what somebody still unpacks stays
        install(archive, tmp_path / "there", lambda whole: (whole, "two"))
        assert len([*(tmp_path / "there").iterdir()]) == 2
        child.send_signal(signal.SIGKILL)
    install(archive, tmp_path / "there", lambda whole: (whole, "three"))
    assert sorted(path.name for path in (tmp_path / "there").iterdir()) == ["three", "two"]


def test_a_bomb_is_refused_while_little_of_it_is_there(tmp_path: Path) -> None:
    began = time.process_time()
    with pytest.raises(ToolError, match="200 times its size"):
        unpack(tmp_path, zipped("a", bytes(100_000_000), compression=zipfile.ZIP_DEFLATED))
    assert time.process_time() - began < 30
    assert listed(tmp_path / "there") == []
