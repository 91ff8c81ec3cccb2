"""Names in a workspace that the host obeys later: read-only for commands, and put aside where a command makes them.

What is there is mounted over itself. A mount needs something to lie on, and a placeholder would be seen by all who look
at the workspace meanwhile: so what is not there is looked for, every second while a command runs and when nothing of it
is left. Kept are the names at the root, what git obeys in the repository there, and both wherever they lie deeper when
the first command comes; of a new repository what git itself writes may stay. The supervisor imports this, so it imports
next to nothing.
"""

import os
import re
import secrets
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice

from toolcrib.lazy import regex

NameMark = int | str | None
"""What is under a name: an inode's number, where a link leads, or nothing."""

_GIT_HOOKS, _GIT_CONFIG = ".git/hooks", ".git/config"
_GIT_PARTS = ("hooks", "config", "config.worktree", "commondir")
_MAX_FOLDERS, _MAX_DEEP_NAMES = 1_000, 64
_MAX_NAME_PARTS = 3  # of a name: .local/share/systemd
_MANY_FILES = frozenset(("node_modules", "site-packages"))
_MANY_GIT_FILES = frozenset(("objects", "refs", "logs", "hooks"))
_MAX_SETTINGS_BYTES = 20_000
# What git writes into the settings of a repository that it begins or clones, and that names no program.
_HARMLESS_LINE = regex(
    r"\s*(?:[#;].*|\[(?:core|user|init|extensions)\]|\[(?:remote|branch|submodule) \"[^\"\\]*\"\]"
    r"|(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|symlinks|precomposeunicode|name|email|url"
    r"|fetch|remote|merge|rebase|active|defaultbranch|objectformat|refstorage|tagopt|prune)\s*=[^\\]*)?\s*",
    re.IGNORECASE,
)


class InstructionFiles:
    """What commands do not change beneath a root: `names`, and places on this machine, `hidden` or `read_only`."""

    def __init__(
        self, root: str, names: Iterable[str], hidden: Iterable[str] = (), read_only: Iterable[str] = ()
    ) -> None:
        self._root, self._hidden = root, tuple(_inside(root, hidden))
        self._named = (*names, *_inside(root, read_only), *(f".git/{part}" for part in _GIT_PARTS))
        self._names, self._above = tuple[str, ...](), set[str]()

    def look(self) -> dict[str, NameMark]:
        """Return what is there now under each name; where a link leads in the workspace is such a name, too."""
        if not self._names:
            names = (*dict.fromkeys((*self._named, *islice(_find_deep(self._root, {*self._named}), _MAX_DEEP_NAMES))),)
            self._above = {*_folders_above(names)} - {*names}
            self._names = (*self._above, *names)  # a folder comes before what is in it
        seen = {path: _mark(f"{self._root}/{path}") for path in self._names}
        linked = [f"{self._root}/{path}" for path, mark in seen.items() if isinstance(mark, str)]
        return {**{path: _mark(f"{self._root}/{path}") for path in _inside(self._root, linked)}, **seen}

    def cover(
        self, seen: Mapping[str, NameMark], running: Collection[Mapping[str, NameMark]]
    ) -> tuple[list[str], dict[str, str]]:
        """Return the arguments that cover what was seen, and the names left over, with where each may lead as a link.

        Nothing is `seen` for a workspace that is read-only. What was not the same when one of the `running` commands
        began is not covered: that one could make it a link while bubblewrap looks, and what lies outside be mounted.
        """
        worked_in = {path for path in self._above if os.path.isdir(f"{self._root}/{path}")}  # noqa: PTH112
        there = [path for path, mark in seen.items() if isinstance(mark, int) and path not in worked_in]
        kept = [f"{self._root}/{path}" for path in there if all(each.get(path) == seen[path] for each in running)]
        hidden = [
            path
            for path in (*self._hidden, *_inside(self._root, list_sockets(self._root)))
            if os.path.lexists(f"{self._root}/{path}")
        ]
        hidden = [path for path in hidden if not {*_folders_above([path])} & {*hidden}]  # it is hidden with its folder
        ways = dict.fromkeys(_inside(self._root, kept), "--ro-bind-try")
        # a folder that holds such a place is a mount, too: else it could be renamed, and another made in its place
        above = dict.fromkeys(_folders_above((*ways, *hidden) if seen else ()), "--bind-try")
        ways = above | ways | dict.fromkeys(hidden, "--tmpfs")
        args: list[str] = []
        for path in sorted(ways, key=lambda path: path.split("/")):
            place = f"{self._root}/{path}"
            if ways[path] != "--tmpfs":
                args += (ways[path], place, place)
            elif os.path.isdir(place):  # noqa: PTH112
                args += ("--perms", "0555", "--tmpfs", place, "--remount-ro", place)
            else:
                args += ("--ro-bind", "/dev/null", place)  # a device, which cannot be opened there, and no empty file
        # what the host itself has replaced meanwhile is no command's
        settled = {*ways, *(path for path in there if all(each.get(path) for each in running))}
        return args, {path: mark if isinstance(mark, str) else "" for path, mark in seen.items() if path not in settled}


def list_sockets(root: str) -> Iterator[str]:
    """Give the sockets beneath a root that programs of this machine have open: who connects is past every sandbox.

    Those of sandboxed commands are not among them: each has a network of its own.
    """
    with open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123
        names = {words[7].rstrip("\n") for line in file if len(words := line.split(None, 7)) == 8}
    near = {name.rpartition("/")[2] for name in names - {"Path"} if name[0] not in "/@"}
    yield from (name for name in names if name.startswith("/"))
    for folder, _, files in islice(os.walk(root), _MAX_FOLDERS) if near else ():  # bound where that program stood
        yield from (f"{folder}/{name}" for name in files if name in near and _is_socket(f"{folder}/{name}"))


def _is_socket(place: str) -> bool:
    with suppress(OSError):
        return stat.S_ISSOCK(os.lstat(place).st_mode)
    return False


def put_aside(root: str, uncovered: Mapping[str, str], to: str | None) -> list[str]:
    """Move away what is under such a name by now; return the names. A link that was there is made again.

    It goes to the folder `to`, or where that is on another disk, under a name of ours beside where it was.
    """
    above, report = set(_folders_above(uncovered)), list[str]()
    for path, link in uncovered.items():
        holder, name = os.path.split(f"{root}/{path}")
        if not os.path.lexists(f"{holder}/{name}"):
            continue
        folder = os.open(holder, os.O_PATH | os.O_CLOEXEC)
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            is_worked_in = path in above and stat.S_ISDIR(found.st_mode)
            is_same = stat.S_ISLNK(found.st_mode) and os.readlink(name, dir_fd=folder) == link
            # behind a link, that is such a name itself
            is_behind = os.readlink(f"/proc/self/fd/{folder}") != holder  # noqa: PTH115
            if not (is_worked_in or is_same or is_behind or _is_harmless(folder, path, found)):
                _move(folder, name, to)
                report.append(path)
                if link:
                    os.symlink(link, name, dir_fd=folder)
        except FileNotFoundError:  # gone meanwhile
            continue
        except OSError as error:
            report.append(f"{path} (still there: {error.strerror})")
        finally:
            os.close(folder)
    return report


def _move(folder: int, name: str, to: str | None) -> None:
    aside = f".toolcrib-withheld-{secrets.token_hex(8)}-{name}"
    os.chmod(f"/proc/self/fd/{folder}", 0o700 | os.stat(folder).st_mode & 0o777)  # noqa: PTH101  it may be closed
    try:
        os.rename(name, f"{to or '.'}/{aside}", src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        os.rename(name, aside, src_dir_fd=folder, dst_dir_fd=folder)


def _is_harmless(folder: int, path: str, found: os.stat_result) -> bool:
    """Tell whether something new is what git makes by itself, and names no program."""
    place = f"/proc/self/fd/{folder}/{os.path.basename(path)}"  # noqa: PTH119
    if path.endswith(_GIT_HOOKS) and stat.S_ISDIR(found.st_mode):
        return all(name.endswith(".sample") for name in os.listdir(place))  # noqa: PTH208
    if not path.endswith(_GIT_CONFIG) or not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        return False
    fd = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(fd, encoding="utf-8", errors="replace", newline="") as file:  # noqa: PTH123
        text = file.read(_MAX_SETTINGS_BYTES + 1)
    return len(text) <= _MAX_SETTINGS_BYTES and all(map(_HARMLESS_LINE.fullmatch, text.splitlines()))


def _find_deep(root: str, names: Collection[str]) -> Iterator[str]:
    """Give such names that lie deeper, and what git obeys in every repository, submodule and tree that it worked in."""
    ahead, last_parts = [""], {name.rpartition("/")[2] for name in names}
    for folder in islice(ahead, _MAX_FOLDERS):  # those above come first
        try:
            with os.scandir(f"{root}/{folder}") as found:
                entries = {entry.name: entry.is_dir(follow_symlinks=False) for entry in found}
        except OSError:  # closed to us, or gone
            continue
        is_git = "HEAD" in entries and ("objects" in entries or "commondir" in entries)
        if is_git:
            yield from (f"{folder}{part}" for part in _GIT_PARTS)
        yield from (f"{folder}{name}" for name in entries if name in last_parts and _is_named(f"{folder}{name}", names))
        yield from (f"{folder}{name}" for name in entries if name == ".git" and not entries[name])
        skipped = _MANY_GIT_FILES if is_git else _MANY_FILES
        ahead += (f"{folder}{name}/" for name in entries if entries[name] and name not in skipped)


def _is_named(path: str, names: Collection[str]) -> bool:
    """Tell whether a path ends with one of the names, which may be of several parts."""
    parts = path.split("/")
    return any("/".join(parts[-count:]) in names for count in range(1, min(_MAX_NAME_PARTS, len(parts)) + 1))


def _mark(place: str) -> NameMark:
    with suppress(OSError):
        found = os.lstat(place)
        return os.readlink(place) if stat.S_ISLNK(found.st_mode) else found.st_ino  # noqa: PTH115
    return None


def _inside(root: str, paths: Iterable[str]) -> Iterator[str]:
    """Give those of the paths that lie beneath the root, as they are called from there."""
    for path in paths:
        with suppress(OSError):  # a link that is swapped while it is read
            real = os.path.realpath(path)
            if real.startswith(f"{root}/"):
                yield real.removeprefix(f"{root}/")


def _folders_above(paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        parts = path.split("/")
        yield from ("/".join(parts[:count]) for count in range(1, len(parts)))
