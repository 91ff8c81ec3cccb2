"""Where the files of a workspace came from, by what is known of them. Plain functions: it runs them in threads."""

import hashlib
import os
import stat
from collections.abc import Collection, Mapping
from itertools import islice

from toolcrib.define.errors import ToolError
from toolcrib.define.files import Listing, Passage
from toolcrib.define.memory import is_memory_file
from toolcrib.define.sourced import TRACED
from toolcrib.define.taint import source_after

from .changes import resolve_path
from .disk import Disk, LineMark
from .origins import (
    WHOLE_FOLDER,
    OriginRow,
    hash_bytes,
    is_below,
    is_wordy,
    list_files,
    read_digest,
    read_name,
    to_kept_path,
)

_MAX_HASHED = 500  # files below one path


def read(disk: Disk, path: str, start: int, length: int | None) -> bytes:
    """Return a part of a file, traced where the caller wants that."""
    data = disk.read(path, start, length)
    if (traced := TRACED.get()) is not None:
        traced.append(trace(disk, (path,)))
    return data


def read_lines(disk: Disk, path: str, asked: tuple[int, int, int], marks: dict[str, LineMark]) -> Passage:
    """Return lines of a file, traced where the caller wants that."""
    passage = disk.lines(path, asked, marks)
    if (traced := TRACED.get()) is not None:
        traced.append(trace(disk, (path,)))
    return passage


def list_folder(disk: Disk, path: str, limit: int) -> Listing:
    """Return the entries of a folder, their names traced where the caller wants that."""
    listing = disk.list(path, limit)
    if (traced := TRACED.get()) is not None:
        traced.append(trace(disk, [entry.path for entry in listing.entries], names=True))
    return listing


def trace(disk: Disk, paths: Collection[str], *, names: bool = False) -> tuple[str, ...]:
    """Return where these files came from, as far as it is outside; with `names` where their names did."""
    found, folders = dict[str, None](), dict[str, str]()
    for path in paths:
        folder, _, name = path.rstrip("/").rpartition("/")
        try:
            if names and folder not in folders:  # of many names in few folders
                folders[folder] = resolve_path(disk, folder or ("/" if path[:1] == "/" else "."))
            real = f"{folders[folder]}/{name}".removeprefix("./") if names else resolve_path(disk, path)
        except ToolError:  # it is gone, or leads out: its content is not shown either
            continue
        own = f"file:{real}" if disk.is_foreign(real) else None
        whole = f"{disk.beneath.path}/{real}"
        if not names or (own is None and is_wordy(f"/{real}{read_name(whole)[len(whole) :]}")):
            is_folder = names and os.path.isdir(whole) and not os.path.islink(whole)  # noqa: PTH112, PTH114
            sources = list_below(disk, real, names=True) if is_folder else (_trace_content(disk, real),)
        else:
            sources = (own,)
        found |= {source: None for source in sources if source}
    return tuple(found)


def _trace_content(disk: Disk, path: str) -> str | None:
    sources = trace_note(disk, path)
    return (
        source_after(f"file:{path}", sources)
        if sources
        else f"file:{path}"
        if sources is None and disk.is_foreign(path)
        else None
    )


def trace_note(disk: Disk, path: str) -> list[str] | None:
    """Return what a file goes back to: nothing where a person wrote or accepted it; None where that is unknown."""
    whole = f"{disk.beneath.path}/{path}"
    try:
        about = os.lstat(whole)
    except OSError:
        return None
    rows = [each for each in disk.origins.store.find(about.st_size) if each.size >= 0 or is_below(whole, each.path)]
    sources = [source for since, source in disk.origins.list_writers(whole) if about.st_ctime_ns >= since]
    if not stat.S_ISDIR(about.st_mode) and any(each.size >= 0 for each in rows):
        if stat.S_ISLNK(about.st_mode):
            digest = read_digest(whole)
        else:
            with disk.open(path) as (fd, _), open(fd, "rb", closefd=False) as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        same = [each for each in rows if each.digest == digest]
        if not sources and any(not each.source and each.path in ("", to_kept_path(whole)) for each in same):
            return []
        rows = [each for each in rows if each.size < 0]
        rows += [each for each in same if each.is_of(whole, about.st_ctime_ns)]
    return [*sources, *(each.source for each in rows if each.source)] or None


def mark(disk: Disk, contents: Mapping[str, bytes | None], source: str) -> None:
    """Keep that contents about to be written go back to a source.

    With "" for none, notes of a memory are kept as what a person wrote: they would not be known from what others
    put there. Where the one before is unknown or from outside, the next one is no more than that.
    """
    rows = list[OriginRow]()
    for path, data in contents.items():
        real = resolve_path(disk, path)
        is_there = os.path.lexists(f"{disk.beneath.path}/{real}")
        if not source and not (is_memory_file(real.split("/")) and (not is_there or trace_note(disk, real) == [])):
            continue
        size = WHOLE_FOLDER if data is None else len(data)
        digest = "" if data is None else hash_bytes(data)
        if size or is_wordy(real):
            rows.append(OriginRow(to_kept_path(f"{disk.beneath.path}/{real}"), size, digest, source))
    disk.origins.store.add(rows)


def keep_made(disk: Disk, contents: Mapping[str, bytes], person: str) -> None:
    """Keep that a call of this person wrote these contents."""
    real = {_spell_kept(disk, resolve_path(disk, path)): hash_bytes(data) for path, data in contents.items()}
    disk.origins.store.add_made(real, person)


def is_of(disk: Disk, path: str, person: str) -> bool:
    """Tell whether a file lies where this person's are kept, or is as a call of theirs wrote it."""
    real = resolve_path(disk, path)
    if is_below(real, person):
        return True
    digest = disk.origins.store.find_made(_spell_kept(disk, real), person)
    if not digest:
        return False
    try:
        with disk.open(real) as (fd, _), open(fd, "rb", closefd=False) as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == digest
    except ToolError:
        return False


def _spell_kept(disk: Disk, real: str) -> str:
    return to_kept_path(f"{disk.beneath.path}/{real}")


def list_below(disk: Disk, path: str, *, names: bool = False) -> tuple[str, ...]:
    """Return what the files at and below a path go back to, as far as they are as they were written.

    With `names` those alone whose names are as long as a sentence. The folders in which others' files lie count no more
    than other ones: who may look there is decided elsewhere.
    """
    real = resolve_path(disk, path)
    top = f"{disk.beneath.path}/{real}".removesuffix("/.")
    found, gone = dict[str, None](), set[int]()
    for index, row in enumerate(disk.origins.store.below(to_kept_path(top))):
        own = row.path.removeprefix(f"{disk.beneath.path}/")
        if disk.is_foreign(own) or (names and not is_wordy(f"{own}{read_name(row.path)[len(row.path) :]}")):
            continue
        if row.size == WHOLE_FOLDER or index >= _MAX_HASHED or not (row.size or row.digest):
            found[f"file:{own} after {row.source}"] = None
        elif os.path.lexists(row.path):
            found |= dict.fromkeys(trace(disk, (own,), names=names))
        else:
            gone.add(row.size)
    if names:
        return tuple(found)
    # a person may have moved or copied it: then it is known by its content
    moved = (os.path.relpath(each, disk.beneath.path) for each, size in list_files(top) if size in gone) if gone else ()
    paths = (each for each in (real, *islice(moved, _MAX_HASHED)) if not disk.is_foreign(each))
    found |= dict.fromkeys(trace(disk, tuple(paths)))
    found |= dict.fromkeys(source for _, source in disk.origins.list_writers(top))
    return tuple(found)
