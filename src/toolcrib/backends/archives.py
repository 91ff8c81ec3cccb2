"""Archives unpacked whole or not at all: zip and tar, staged beside their place, bounded by what really comes out.

What could lead out of the folder, is neither a file nor a folder, or would be another file on another machine is
refused with the whole archive. What a header says may refuse an archive, and never permits anything.
"""

import bz2
import gzip
import lzma
import os
import stat
import tarfile
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Self

from toolcrib.backends.files.stage import StageFolder, remove_stale_stages, rename_new, stage, sync_folder
from toolcrib.define.display import escape_unprintable
from toolcrib.define.errors import ToolError
from toolcrib.lazy import regex

_MAX_MEMBERS, _MAX_BYTES, _MAX_RATIO = 10_000, 256 << 20, 200
_SMALL_BYTES = 16 << 20  # so much may come out of any archive, whatever the ratio
_MAX_READ_BYTES = 4 << 20  # at once: the directory of a zip of so many members
_MAX_HEADER_BYTES = 64 << 10  # of what a tar says about one member
_MAX_DEPTH, _MAX_NAME_BYTES, _NAME_CHARS, _SHOWN_CHARS = 64, 255, 80, 200
_PIECE_BYTES = 64 << 10
_PACKERS: dict[bytes, Callable[[Any], Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\0": lzma.open}
_ELSEWHERE = regex(r"^/|[\\\x00-\x1f\x7f-\x9f\ud800-\udfff]|(?:^|/)(?:[A-Za-z]:|\.\.(?:/|\Z))")
# what readers of archives raise for bytes that make no sense
_BROKEN = (
    OSError, EOFError, ValueError, ArithmeticError, LookupError, RuntimeError, MemoryError,
    tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError,
)  # fmt: skip


class _Source:
    """An archive that is read piece by piece, and how much came out of it so far."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._size, self._taken, self._made = file, os.fstat(file.fileno()).st_size, 0, 0
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, count: int = -1) -> bytes:
        count = self._size - self.tell() if count < 0 else count
        if count > _MAX_READ_BYTES:
            raise ToolError(f"it has more than {_MAX_MEMBERS:,} members, or says too much about them")
        data = self._file.read(count)
        self._taken += len(data)
        return data

    def check_members(self, count: int) -> None:
        if count > _MAX_MEMBERS:
            raise ToolError(f"it has more than {_MAX_MEMBERS:,} members")

    def count(self, data: bytes) -> bytes:
        """Return what came out; ToolError when that is more than may."""
        self._made += len(data)
        if self._made > _MAX_BYTES:
            raise ToolError(f"more than {_MAX_BYTES >> 20} MiB come out of it")
        # what two members share is read twice, and counts once
        if self._made > _SMALL_BYTES + _MAX_RATIO * min(self._taken, self._size):
            raise ToolError(f"more than {_MAX_RATIO} times its size comes out of it")
        return data


class _Tape:
    """A tar as it comes out of what packs it; it ends with its end mark, and never before."""

    def __init__(self, packed: Any) -> None:
        self._packed = packed

    def read(self, count: int) -> Any:
        if not (data := self._packed.read(count)):
            raise ToolError("it ends too early")
        return data


class _TarMember(tarfile.TarInfo):
    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Read a header; what is no header and no end mark is an error, which the library takes for an end."""
        try:
            member = super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError:
            if buf.strip(b"\0"):
                raise ToolError("a header in it is broken") from None
            raise
        max_bytes = _MAX_BYTES if member.type in tarfile.REGULAR_TYPES else _MAX_HEADER_BYTES
        if member.type == tarfile.GNUTYPE_SPARSE or not 0 <= member.size <= max_bytes:
            raise ToolError(f"{_show(member.name)} has holes, or is too large")
        return member


@contextmanager
def _stage_in(folder: Path) -> Iterator[tuple[int, StageFolder]]:
    """Give a folder and a stage in it; what a crash left of others is gone first, and the stage at the end."""
    above = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        remove_stale_stages(above)
        with stage(above) as staged:
            yield above, staged
            sync_folder(above)
    finally:
        os.close(above)


def uninstall(folder: Path, name: str) -> None:
    """Remove what stands in a folder under a name: it is gone whole, also when interrupted."""
    with _stage_in(folder) as (above, staged):
        os.rename(name, "gone", src_dir_fd=above, dst_dir_fd=staged.folder)


def install(archive: Path, folder: Path, choose: Callable[[Path], tuple[Path, str]]) -> Path:
    """Unpack an archive into a folder and return where; `choose` says which part of it goes there, under which name.

    It is there whole or not at all, and replaces nothing. ToolError, in one sentence, when that cannot be done.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _stage_in(folder) as (above, staged):
        whole = folder / staged.name / "whole"
        whole.mkdir()
        try:
            _unpack(archive, whole)
        except (ToolError, *_BROKEN) as error:
            why = getattr(error, "strerror", "") or str(error) or type(error).__name__
            raise ToolError(f"{archive} cannot be unpacked: {escape_unprintable(why)[:_SHOWN_CHARS]}") from None
        part, name = choose(whole)
        if _split(name) != (name,):
            raise ToolError(f"{_show(name)} is no name for a folder")
        try:
            rename_new(str(part.relative_to(whole.parent)), staged.folder, name, above)
        except FileExistsError:
            raise ToolError(f"{folder / name} is there already; remove it first") from None
    return folder / name


def _unpack(archive: Path, whole: Path) -> None:
    if not archive.is_file():  # a pipe would be waited for
        raise ToolError("there is no such file")
    with archive.open("rb") as file:
        seen, source, head = dict[str, tuple[str, bool]](), _Source(file), file.read(tarfile.BLOCKSIZE)
        file.seek(0)
        packer = next((packer for magic, packer in _PACKERS.items() if head.startswith(magic)), lambda plain: plain)
        if not head.startswith((b"PK", *_PACKERS)) and head[257:262] != b"ustar":
            raise ToolError("it is neither a zip nor a tar file")
        members = _read_zip(source) if head.startswith(b"PK") else _read_tar(_Tape(packer(source)))
        for count, (name, mode, content) in enumerate(members, start=1):
            source.check_members(count)
            path = whole.joinpath(*_check_member(name, mode, seen))
            (path if content is None else path.parent).mkdir(parents=True, exist_ok=True)
            if content is not None:
                with path.open("xb") as out, content:
                    while piece := content.read(_PIECE_BYTES):
                        out.write(source.count(piece))
                path.chmod(0o755 if mode & stat.S_IXUSR else 0o644)


def _read_zip(source: Any) -> Iterator[tuple[str, int, IO[bytes] | None]]:
    """Yield the name, the mode and the content of every member; a folder has none."""
    with zipfile.ZipFile(source) as whole:
        source.check_members(len(whole.infolist()))
        for each in whole.infolist():
            if each.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # others come out in one piece
                raise ToolError(f"{_show(each.orig_filename)} is packed in an unusual way; use deflate")
            mode = each.external_attr >> 16
            mode |= 0 if stat.S_IFMT(mode) else stat.S_IFDIR if each.is_dir() else stat.S_IFREG
            # by its own name: the other is what comes before a NUL
            yield each.orig_filename, mode, None if stat.S_ISDIR(mode) else whole.open(each)


def _read_tar(tape: Any) -> Iterator[tuple[str, int, IO[bytes] | None]]:
    with tarfile.open(fileobj=tape, mode="r|", tarinfo=_TarMember) as whole:
        for each in whole:
            is_file = each.isreg() and not each.issparse()
            kind = stat.S_IFREG if is_file else stat.S_IFDIR if each.isdir() else stat.S_IFLNK
            yield each.name, stat.S_IMODE(each.mode) | kind, whole.extractfile(each) if is_file else None


def _check_member(name: str, mode: int, seen: dict[str, tuple[str, bool]]) -> tuple[str, ...]:
    """Return the parts of a member's name; ToolError when it must not be unpacked beside those that were seen."""
    parts = _split(name)
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise ToolError(f"{_show(name)} is a link or a device; only files and folders are taken")
    if mode & (stat.S_ISUID | stat.S_ISGID) and stat.S_ISREG(mode):
        raise ToolError(f"{_show(name)} has a set-id bit")
    for depth in range(1, len(parts) + 1):
        path, is_folder = "/".join(parts[:depth]), depth < len(parts) or stat.S_ISDIR(mode)
        key = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", path).casefold())
        if key in seen and not (is_folder and seen[key] == (path, True)):
            raise ToolError(f"{_show(name)} and {_show(seen[key][0])} would be one file")
        seen[key] = path, is_folder
    return parts


def _split(name: str) -> tuple[str, ...]:
    """Return the parts of a name; ToolError when it could mean another place than one beneath the folder."""
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if _ELSEWHERE.search(name):
        raise ToolError(f"{_show(name)} leads out of the folder, or would on another machine")
    if len(parts) > _MAX_DEPTH or any(len(part.encode()) > _MAX_NAME_BYTES for part in parts):
        raise ToolError(f"{_show(name)} is too long")
    return parts


def _show(name: str) -> str:
    return ascii(name[:_NAME_CHARS])
