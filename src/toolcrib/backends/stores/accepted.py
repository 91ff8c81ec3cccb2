"""What the owner accepted, by the hash of its content: one small file for each, so that no yes overwrites another."""

import contextlib
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from secrets import token_hex
from shlex import quote

import orjson

from toolcrib.backends.files.stage import sync_folder, write_synced
from toolcrib.define.display import escape_unprintable
from toolcrib.define.errors import ToolError
from toolcrib.lazy import dataclass, regex

_DIGEST = regex(r"[0-9a-f]{64}")
_MAX_RECORD_BYTES = 16 * 1024  # bytes of what is kept about one
_MAX_FILES, _MAX_BYTES = 5_000, 64 << 20  # of a folder that is accepted


def read_content(path: Path) -> tuple[str, Mapping[str, bytes]]:
    """Read a file or a folder once; return its hash, and the bytes of each file by its path within ("." by itself).

    ToolError when it is neither, too large, or a link in it leads out. Bytecode that Python keeps beside a source, and
    what git keeps, is no part of it: both change by being used.
    """
    top, files, left = os.path.realpath(path), dict[str, bytes](), _MAX_BYTES
    # a folder is hashed otherwise than a file, so that no file can be written that has the hash of a folder
    whole = hashlib.blake2b(digest_size=32, person=b"toolcrib folder")
    try:
        for count, each in enumerate(_walk(top)):
            name, end = os.path.relpath(each, top), os.path.realpath(each)
            if end != each and (not end.startswith(f"{top}/") or ".git" in end.split("/")):
                raise ToolError(f"{each} is a link that leads out of {path}; put the file itself there", code="denied")
            if not os.path.isdir(end):  # noqa: PTH112  a link to a folder: what is in that is read where it stands
                files[name] = read_plain(end, left)
                left -= len(files[name])
            if left < 0 or count >= _MAX_FILES:
                limit = f"{_MAX_FILES:,} files and {_MAX_BYTES >> 20} MiB"
                raise ToolError(f"{path} is too large: {limit} can be accepted; name a part of it", code="too_large")
            for part in (name, os.path.relpath(end, top), hash_file(files.get(name, b""))):
                whole.update(len(os.fsencode(part)).to_bytes(8) + os.fsencode(part))
    except (OSError, RecursionError) as error:
        why = getattr(error, "strerror", None) or "its folders are too deep"
        raise ToolError(f"{path} cannot be read ({why})", code="not_found") from None
    return hash_file(files["."]) if "." in files else whole.hexdigest(), files


def hash_file(data: bytes) -> str:
    """Return the hash by which the content of a file is accepted."""
    return hashlib.sha256(data).hexdigest()


def _walk(path: str) -> Iterator[str]:
    """Yield a file, or all that is in a folder, in one order; links are not followed."""
    if not os.path.isdir(path) or os.path.islink(path):  # noqa: PTH112, PTH114
        yield path
        return
    for name in sorted(os.listdir(path)):  # noqa: PTH208
        if name != ".git" and not (name.endswith(".pyc") and path.endswith("/__pycache__")):
            yield from _walk(f"{path}/{name}")


def read_plain(path: str | Path, max_bytes: int) -> bytes:
    """Return what a regular file holds, and one byte more than `most` of a larger one; ToolError for what is none."""
    # without waiting for a writer, as a pipe would, and without following what has become a link
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise ToolError(f"{path} is neither a file nor a folder", code="denied")
    with open(fd, "rb") as file:  # noqa: PTH123
        return file.read(max_bytes + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """One yes: to this content, which had this name and lay there at the time."""

    digest: str
    name: str
    file: str
    at: float


class AcceptedContents:
    """What was accepted, in a folder of the state that no tool can write to: one that could could accept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def accept(self, accepted: Accepted, copied: Mapping[str, bytes] | None = None) -> None:
        """Keep a yes, with a copy of these files if there are any; it is on the disk when this returns."""
        copy = self.find_copy(accepted.digest)
        body = orjson.dumps({"name": accepted.name, "file": accepted.file, "at": accepted.at})
        fresh = self.folder / f".{token_hex(8)}"
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if copied and not copy.is_dir():
                whole = self.folder / f".{token_hex(8)}"
                for name, data in copied.items():
                    (whole / name).parent.mkdir(parents=True, exist_ok=True)
                    write_synced(whole / name, data)
                whole.rename(copy)
            write_synced(fresh, body)
            fresh.replace(self.folder / accepted.digest)
            sync_folder(self.folder)
        except OSError as error:
            with contextlib.suppress(OSError):  # there may never have been one
                fresh.unlink()
            raise ToolError(f"the yes could not be kept in {self.folder} ({error.strerror})") from None

    def find(self, digest: str) -> Accepted | None:
        """Return the yes to this content; one that cannot be read is none."""
        _check(digest)
        try:
            with (self.folder / digest).open("rb") as file:
                body = orjson.loads(file.read(_MAX_RECORD_BYTES))
            return Accepted(digest=digest, name=str(body["name"]), file=str(body["file"]), at=float(body["at"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def find_copy(self, digest: str) -> Path:
        """Return where a copy of what was accepted lies, if one was kept."""
        _check(digest)
        return self.folder / f"{digest}.files"

    def explain(self, path: Path, digest: str, verb: str = "accept", *, so: str = "it is not used") -> str:
        """Say that what lies there is not accepted, the consequence and the remedy; "" when it is accepted."""
        if self.find(digest) is not None:
            return ""
        before = any(each.file in (str(path.absolute()), os.path.realpath(path)) for each in self.list_all())
        why = "it changed since it was accepted" if before else "nobody has accepted it"
        shown = str(path)
        with contextlib.suppress(OSError, ValueError):  # it lies elsewhere, or the current folder is gone
            shown = f"./{path.relative_to(Path.cwd())}".removesuffix("/.") if path.is_absolute() else shown
        return escape_unprintable(f"{shown}: {why}, so {so}; look at it, then `toolcrib {verb} {quote(shown)}`")

    def forget(self, path: Path) -> list[Accepted]:
        """Take back the consent to what lies or lay there, and return it; ToolError when there is none."""
        names = [str(path.absolute()), os.path.realpath(path)]
        with contextlib.suppress(ToolError):  # it may be gone itself
            names.append(read_content(path)[0])
        if not (gone := [each for each in self.list_all() if each.file in names or each.digest in names]):
            raise ToolError(f"nobody has accepted {str(path)!r}; `toolcrib accept --list` shows what was accepted")
        for each in gone:
            try:
                (self.folder / each.digest).unlink(missing_ok=True)
                shutil.rmtree(self.find_copy(each.digest), ignore_errors=True)
                sync_folder(self.folder)
            except OSError as error:
                words = f"the yes to {each.file} could not be taken out of {self.folder} ({error.strerror})"
                raise ToolError(words) from None
        return gone

    def list_all(self) -> list[Accepted]:
        """Return every yes, the latest last."""
        try:
            names = [path.name for path in self.folder.iterdir() if _DIGEST.fullmatch(path.name)]
        except OSError:
            return []
        return sorted(filter(None, map(self.find, names)), key=lambda each: each.at)


def _check(digest: str) -> None:
    if not _DIGEST.fullmatch(digest):
        raise ValueError(f"{digest[:80]!r} is no SHA-256")
