"""The repositories that git would find from a folder, and whether their own settings may bring programs.

Their files are read, and git is not asked: asking it is what the settings are dangerous for.
"""

import os
import stat
from collections.abc import Callable

from toolcrib.define.errors import ToolError
from toolcrib.policy.command.programs_git import find_unsafe_setting

OpenInside = Callable[[str], int]
"""Returns a descriptor (O_PATH) of what a path in the workspace leads to; ToolError when it leads out or nowhere."""

_CONFIG_BYTES = 1 << 16


def explain_odd_repository(open_inside: OpenInside, root: str, workdir: str) -> str:
    """Return why git is not run unasked in a folder: what a repository there or above may bring; "" when nothing."""
    try:
        folder = find_inside(open_inside, workdir)[0] or root
        # all of them: git goes on where one is not whole
        while not (odd := _explain_level(open_inside, folder)) and folder not in (root, "/"):
            folder = os.path.dirname(folder)  # noqa: PTH120
    except ToolError as error:
        return f"its repository cannot be looked at: {error}"
    return odd


def _explain_level(open_inside: OpenInside, folder: str) -> str:
    """Return what is odd about the repository of this very folder, "" when nothing is or there is none."""
    place, about = find_inside(open_inside, f"{folder}/.git")
    if about is None:
        is_bare = all(find_inside(open_inside, f"{folder}/{name}")[0] for name in ("HEAD", "objects", "refs"))
        return f"{folder!r} is a repository without a folder .git, which anybody could have written" if is_bare else ""
    if not stat.S_ISDIR(about.st_mode):
        place = _follow(open_inside, folder, place, "gitdir: ")
    common = place
    if find_inside(open_inside, f"{place}/commondir")[0]:
        common = _follow(open_inside, place, f"{place}/commondir", "")
    for path in {f"{each}/{name}": None for each in (place, common) for name in ("config", "config.worktree")}:
        text = read_inside(open_inside, path, _CONFIG_BYTES) if find_inside(open_inside, path)[0] else b""
        if odd := find_unsafe_setting(text.decode("latin-1")):
            return f"the settings of its repository ({path!r}) hold {odd[:80]!r}, which may bring a program"
    alternates = find_inside(open_inside, f"{common}/objects/info/alternates")[0]
    return "its repository takes objects from another one" if alternates else ""


def _follow(open_inside: OpenInside, folder: str, path: str, before: str) -> str:
    """Return the folder that a file of git names."""
    target = os.fsdecode(read_inside(open_inside, path, _CONFIG_BYTES)).removeprefix(before).rstrip("\r\n")
    place = find_inside(open_inside, os.path.join(folder, target))[0]  # noqa: PTH118
    if not place:
        raise ToolError(f"{path!r} names a folder that is not there", code="not_found")
    return place


def read_inside(open_inside: OpenInside, path: str, max_bytes: int) -> bytes:
    """Return what a regular file holds; ToolError when it is none, or larger. Nothing else is ever opened."""
    fd = open_inside(path)
    try:
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode) or about.st_size > max_bytes:
            raise ToolError(f"{path!r} is no plain file of at most {max_bytes:,} bytes", code="denied")
        with open(f"/proc/self/fd/{fd}", "rb") as file:  # noqa: PTH123
            return file.read(max_bytes)
    except OSError as error:
        raise ToolError(f"{path!r} cannot be read ({error.strerror})", code="denied") from error
    finally:
        os.close(fd)


def find_inside(open_inside: OpenInside, path: str) -> tuple[str, os.stat_result | None]:
    """Return where a path leads, every link resolved, and what is there; "" and None when nothing is."""
    try:
        fd = open_inside(path)
    except ToolError as error:
        if error.code != "not_found":
            raise
        return "", None
    try:
        return os.readlink(f"/proc/self/fd/{fd}"), os.fstat(fd)  # noqa: PTH115
    finally:
        os.close(fd)
