"""attacks/paths and attacks/resources, the rows about archives and skills: made on the spot, unpacked, and measured."""

import asyncio
import bz2
import gzip
import io
import re
import stat
import struct
import tarfile
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from toolcrib.app.skills import read_skill
from toolcrib.backends.archives import install
from toolcrib.define.errors import CribError
from toolcrib.threads import in_thread

from . import Outcome, broken, kept, resources
from .lateness import Lateness, Stopwatch

Json = Mapping[str, Any]

_ENTRY = re.compile(r"(?P<name>.*?)(?:(?P<link>->|=>)(?P<target>.*)|!(?P<kind>[a-z0-9]?)(?P<rest>[0-9,]*))?", re.DOTALL)
_KINDS = {"c": tarfile.CHRTYPE, "b": tarfile.BLKTYPE, "p": tarfile.FIFOTYPE}
_PIECE = 1 << 20
_ZIP_KINDS = {"->": stat.S_IFLNK, "c": stat.S_IFCHR, "b": stat.S_IFBLK, "p": stat.S_IFIFO}


def extract(asked: Json, root: Path) -> str:
    """Unpack an archive of these entries into a folder of a root; look whether all of them are there."""
    with tempfile.TemporaryDirectory() as name:
        archive = Path(name) / "archive"
        archive.write_bytes(pack(asked["format"], asked["entries"]))
        above, _, own = asked["dest"].rpartition("/")
        is_plain = own and not above.startswith("/") and ".." not in above
        folder, dest = (root / above, own) if is_plain else (root, asked["dest"])
        target = install(archive, folder, lambda whole: (whole, dest))
    missing = [each for each in asked["entries"] if not (target / each).exists()]
    assert not missing, missing
    return f"{len(asked['entries'])} members are there"


def pack(form: str, entries: list[str]) -> bytes:
    """Return an archive of `name`, `folder/`, `link->target`, `hard=>target`, `device!c1,3`, `pipe!p`, `file!4755`."""
    out = io.BytesIO()
    if form == "zip":
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as zipped, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about two members of one name
            for each in entries:
                _add_to_zip(zipped, each)
        return out.getvalue()
    mode = {"tar": "w", "targz": "w:gz", "tgz": "w:gz", "tar.gz": "w:gz", "tarbz2": "w:bz2", "tar.bz2": "w:bz2"}
    with tarfile.open(fileobj=out, mode=mode.get(form, "w:xz")) as tape:  # type: ignore[call-overload]  # a mode by name
        for each in entries:
            tape.addfile(*_tar_member(each))
    return out.getvalue()


def _add_to_zip(zipped: zipfile.ZipFile, entry: str) -> None:
    found = _ENTRY.fullmatch(entry)
    assert found
    info = zipfile.ZipInfo("x")
    info.filename = found["name"]  # as it is: the class takes away what is behind a NUL
    info.compress_type = zipfile.ZIP_DEFLATED
    kind = found["link"] or found["kind"] or ""
    mode = int(f"{kind}{found['rest']}", 8) | stat.S_IFREG if kind.isdigit() else _ZIP_KINDS.get(kind, stat.S_IFREG)
    info.external_attr = (stat.S_IFDIR if entry.endswith("/") else mode) << 16
    zipped.writestr(info, found["target"] or ("" if entry.endswith("/") else "x\n"))


def _tar_member(entry: str) -> tuple[tarfile.TarInfo, io.BytesIO]:
    found = _ENTRY.fullmatch(entry)
    assert found
    info, kind = tarfile.TarInfo(found["name"]), found["kind"] or ""
    if found["link"]:
        info.type, info.linkname = tarfile.SYMTYPE if found["link"] == "->" else tarfile.LNKTYPE, found["target"]
    elif kind in _KINDS:
        info.type = _KINDS[kind]
        info.devmajor, info.devminor = map(int, (found["rest"] or "0,0").split(","))
    elif kind:
        info.mode, info.size = int(kind + found["rest"], 8), 2
    elif entry.endswith("/"):
        info.type = tarfile.DIRTYPE
    else:
        info.size = 2
    return info, io.BytesIO(b"x\n")


def judge(case: Json) -> Outcome:
    """Generate an archive, unpack it beside a loop that has to stay there for others, and measure."""
    asked, must = case["input"], case["must"]
    with tempfile.TemporaryDirectory() as name:
        archive, root = Path(name) / "archive", Path(name) / "root"
        with archive.open("wb") as out:
            _GENERATORS[next(key for key in _GENERATORS if key in asked["gen"])](asked["gen"], out)
        return _measure(must, root, lambda: install(archive, root, lambda whole: (whole, "unpack")))


def judge_skill(case: Json) -> Outcome:
    """Generate the header of a SKILL.md, read the skill, and measure."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "skill"
        folder.mkdir()
        head = "name: pdf-forms\ndescription: Fill in forms.\nallowed-tools: [read, grep]\n"
        (folder / "SKILL.md").write_text(f"---\n{head}{_yaml(case['input']['gen'])}---\nRead it.\n")
        return _measure(case["must"], folder.parent / "root", lambda: read_skill(folder))


def _yaml(gen: Json) -> str:
    kind = gen["yaml"]
    if "levels" in gen or "alias" in kind or "laugh" in kind:
        fan = int(gen.get("fan", 9))
        rows = [f"  l0: &l0 [{', '.join(['x'] * fan)}]"]
        for level in range(1, int(gen.get("levels", 9))):
            rows.append(f"  l{level}: &l{level} [{', '.join([f'*l{level - 1}'] * fan)}]")
        return "metadata:\n" + "\n".join(rows) + "\n"
    if "depth" in gen or "deep" in kind:
        depth = int(gen.get("depth", 10_000))
        return f"metadata: {'[' * depth}{']' * depth}\n"
    if "tag" in kind or "object" in kind or "python" in kind:
        return "metadata: !!python/object/apply:os.system [exit]\n"
    rows = [f"  k{at}: {'v' * int(gen.get('bytes', 10))}" for at in range(int(gen.get("count", 3)))]
    return "license: MIT\nmetadata:\n" + "\n".join(rows) + "\n"


def _measure(must: Json, root: Path, work: Callable[[], object]) -> Outcome:
    lateness, said = Lateness(), ""

    async def watched() -> None:
        async with lateness:
            await in_thread(work)

    asyncio.run(in_thread(int))  # what runs beside a loop is started before anything is measured
    before, watch = resources.measure_held(begins=True), Stopwatch()
    try:
        asyncio.run(watched())
    except CribError as error:
        said = str(error)
    complaints = resources.measure({**must, "alive_during": False}, watch.took, before, resources.measure_held())
    wanted = must["verdict"]
    if wanted.partition("_")[0] != "reject" and said and wanted != "bounded":
        complaints.append(f"must {wanted}: {said[:200]}")
    if wanted == "reject" and not said:
        complaints.append("it was let through")
    if len(said) > 400:
        complaints.append(f"the error has {len(said)} characters")
    if must.get("alive_during") and lateness.complaint:
        complaints.append(lateness.complaint)
    size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
    if (said and size) or size > must.get("disk_mb", 300) * 1_000_000:
        complaints.append(f"{size} bytes are left")
    return broken("; ".join(complaints), {"said": said}) if complaints else kept({"said": said[:200]})


def _zip(gen: Json, out: Any) -> None:
    kind, count = gen["zip"], int(gen.get("count", 1))
    if "levels" in gen or "nest" in kind:
        out.write(
            _nest(int(gen.get("levels", gen.get("depth", 5))), int(gen.get("fan", 10)), int(gen.get("plain", _PIECE)))
        )
    elif "overlap" in kind:
        _write_zip(
            out, [f"{at}" for at in range(count if count > 1 else 250)], int(gen.get("plain", 10**9)), shared=True
        )
    elif "declared" in gen or kind.startswith("l"):  # it lies
        _write_zip(out, ["lie.bin"], int(gen.get("plain", 10**9)), declared=int(gen.get("declared", 10)))
    elif kind == "zeros" or "plain" in gen:
        _write_zip(out, [f"{at}.bin" for at in range(count)], int(gen.get("plain", gen.get("bytes", 0))) // count)
    else:
        _write_zip(out, [f"d/{at}.txt" for at in range(count)], int(gen.get("bytes_each", 10)))


def _nest(levels: int, fan: int, plain: int) -> bytes:
    inner = bytes(plain)
    for level in range(levels):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as zipped:
            for at in range(fan):
                zipped.writestr(f"{level}-{at}.zip", inner)
        inner = out.getvalue()
    return inner


def _deflate_zeros(size: int) -> bytes:
    """Return so many zeros, packed; a piece is packed once, however often it comes."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    piece = packer.compress(bytes(_PIECE)) + packer.flush(zlib.Z_FULL_FLUSH)
    last = zlib.compressobj(9, zlib.DEFLATED, -15)
    return piece * (size // _PIECE) + last.compress(bytes(size % _PIECE)) + last.flush()


def _write_zip(out: Any, names: list[str], size: int, *, declared: int | None = None, shared: bool = False) -> None:
    """Write a zip by hand: what a library would not write, and what would take it minutes."""
    data, says = _deflate_zeros(size), size if declared is None else declared
    crc = zlib.crc32(bytes(size)) if size <= 64 * _PIECE else 0
    wide = struct.pack("<HHQ", 1, 8, says) if says >= 0xFFFFFFFF else b""
    sizes = (crc, len(data), min(says, 0xFFFFFFFF))
    directory = bytearray()
    for at, name in enumerate(names):
        where, coded = out.tell(), name.encode()
        if not shared or not at:
            out.write(
                struct.pack("<4s5H3L2H", b"PK\3\4", 45, 0x800, 8, 0, 33, *sizes, len(coded), len(wide)) + coded + wide
            )
            out.write(data)
        else:
            where = 0
        head = struct.pack(
            "<4s6H3L5H2L", b"PK\1\2", 45, 45, 0x800, 8, 0, 33, *sizes, len(coded), len(wide), 0, 0, 0, 0, where
        )
        directory += head + coded + wide
    start, count = out.tell(), min(len(names), 0xFFFF)
    out.write(directory + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, len(directory), start, 0))


def _tar(gen: Json, out: Any) -> None:
    kind = gen["tar"]
    if kind == "sparse":
        out.write(_sparse_header(int(gen["declared"])) + bytes(1024))
    elif kind == "pax_huge_header":
        info = tarfile.TarInfo("././@PaxHeader")
        info.type, info.size = tarfile.XHDTYPE, int(gen["bytes"])
        out.write(info.tobuf(tarfile.GNU_FORMAT))
        out.seek(info.size, 1)  # a hole: nothing large is written
        out.write(tarfile.TarInfo("x").tobuf() + bytes(1024))
    else:
        size, count = int(gen.get("bytes_each", gen.get("plain", 10))), int(gen.get("count", 1))
        with tarfile.open(fileobj=out, mode="w") as tape:
            for at in range(count):
                info = tarfile.TarInfo(f"d/{at}.txt")
                info.size = size
                tape.addfile(info, io.BytesIO(bytes(size)))


def _sparse_header(declared: int) -> bytes:
    info = tarfile.TarInfo("holes.bin")
    info.type, info.size = tarfile.GNUTYPE_SPARSE, 0
    head = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    head[386:398] = tarfile.itn(declared, 12, tarfile.GNU_FORMAT)  # type: ignore[attr-defined]  # not in the stubs
    head[398:410] = b"%011o\0" % 0
    head[483:495] = tarfile.itn(declared, 12, tarfile.GNU_FORMAT)  # type: ignore[attr-defined]
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head)


def _packed_tar(pack_piece: Callable[[bytes], bytes], gen: Json, out: Any) -> None:
    """Write a tar of zeros as many packed streams, one behind the other: each is packed once."""
    size = int(gen.get("plain", gen.get("bytes", 0)))
    info = tarfile.TarInfo("zeros.bin")
    info.size = size
    out.write(pack_piece(info.tobuf(tarfile.GNU_FORMAT)))
    piece = pack_piece(bytes(8 * _PIECE))
    for _ in range(size // (8 * _PIECE)):
        out.write(piece)
    out.write(pack_piece(bytes(size % (8 * _PIECE) + -size % 512 + 1024)))


_GENERATORS: Mapping[str, Callable[[Json, Any], None]] = {
    "zip": _zip,
    "targz": lambda gen, out: _packed_tar(gzip.compress, gen, out),
    "tarbz2": lambda gen, out: _packed_tar(bz2.compress, gen, out),
    "tar": _tar,
}
