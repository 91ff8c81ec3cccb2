"""Names in a workspace that the host obeys later: read-only in the sandbox, and new ones are put aside afterwards.

What is there is mounted over itself, so that a command can neither change nor replace it. What is not there cannot be:
a mount needs something to lie on, and that would be seen in the workspace. So whatever a command makes under such a
name is moved away when it has ended, and told. Of a git repository that is what git runs: the rest is ordinary work.
"""

import logging
import os
import re
import secrets
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from toolcrib.backends.files.beneath import Beneath
from toolcrib.backends.files.guard import OBEYED_NAMES
from toolcrib.define.errors import ToolError

log = logging.getLogger("toolcrib")

_GIT_PARTS = ("hooks", "config", "config.worktree", "commondir")
_GIT_WITHIN = ("modules", "worktrees")
_MAX_ENTRIES, _MAX_NAMES = 50_000, 200  # looked at, nearest to the root first; mounted
_MAX_SETTINGS_BYTES = 20_000
_ASIDE = ".toolcrib-withheld"
# What git, cloning or beginning a repository, writes into its settings, and that names no program.
_HARMLESS_LINE = re.compile(
    r"\s*(?:[#;].*|\[core\]|\[user\]|\[init\]|\[(?:remote|branch|submodule) \"[^\"\\]*\"\]"
    r"|(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|symlinks|precomposeunicode|name|email"
    r"|url|fetch|remote|merge|rebase|active|defaultbranch)\s*=[^\\]*)?\s*",
    re.IGNORECASE,
)


class _Mark(NamedTuple):
    """Tells one thing from another under the same name: the folder that holds it, itself, where it leads as a link."""

    holder: int
    own: int
    link: str


@dataclass(frozen=True, slots=True)
class KeptPaths:
    """Places on this machine that commands do not touch where they lie in a workspace: unseen, and read-only.

    `protected` matches paths of the workspace that are read-only where they exist.
    """

    hidden: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    protected: re.Pattern[str] | None = None


NOTHING_KEPT = KeptPaths()


class ObeyedNames:
    """The names beneath one root."""

    def __init__(self, root: str, kept: KeptPaths) -> None:
        self._root, self._protected = root, kept.protected
        self._hidden = tuple(_inside(root, kept.hidden))
        self._readable = tuple(_inside(root, kept.readable))

    def look(self) -> Mapping[str, _Mark]:
        """Return the names that are there now."""
        found: dict[str, _Mark] = {}
        ahead, left = deque([""]), _MAX_ENTRIES
        while ahead and left > 0:
            folder = ahead.popleft()
            with suppress(OSError), os.scandir(f"{self._root}/{folder}") as entries:  # gone, or not for us
                holder = os.stat(f"{self._root}/{folder}").st_ino  # noqa: PTH116
                for entry in entries:
                    left -= 1
                    path = f"{folder}{entry.name}"
                    is_folder = entry.is_dir(follow_symlinks=False)
                    if self._is_obeyed(path, entry.name):
                        found[path] = _mark(entry.path, holder)
                        if entry.name.casefold() == ".git" and (real := next(_inside(self._root, [entry.path]), "")):
                            found.update(self._look_into_git(real))
                    elif is_folder and path not in self._hidden:
                        ahead.append(f"{path}/")
        return found

    def mount(self, seen: Iterable[str] | None, empty: str) -> Iterator[str]:
        """Give the arguments that cover what was seen, to come after the workspace; None where that is read-only."""
        nearest = sorted(seen or (), key=lambda path: path.count("/"))[:_MAX_NAMES]
        plain = dict.fromkeys(nearest, "--ro-bind-try")
        for path in plain:
            if os.path.basename(path).casefold() == ".git" and os.path.isdir(f"{self._root}/{path}"):  # noqa: PTH112, PTH119
                plain[path] = "--bind-try"  # stays where it is; git works in it
        kept = dict.fromkeys(self._readable, "--ro-bind-try")
        # a folder that holds such a place is a mount, too: else it could be renamed, and another made in its place
        held = () if seen is None else (*self._hidden, *kept)
        above = {folder for path in held for folder in _folders_above(path)}
        ways = {**dict.fromkeys(above, "--bind-try"), **plain, **kept, **dict.fromkeys(self._hidden, "")}
        for path in sorted(ways, key=lambda path: path.split("/")):
            spelled = f"{self._root}/{path}"
            place = os.path.realpath(spelled)
            if not place.startswith(f"{self._root}/") or not os.path.exists(place):  # noqa: PTH110
                continue
            if ways[path]:
                yield from (ways[path], place, place)
            elif os.path.isdir(place):  # noqa: PTH112
                yield from ("--perms", "0555", "--tmpfs", place, "--remount-ro", place)
            else:
                yield from ("--ro-bind", empty, place)

    def put_aside(self, seen: Mapping[str, _Mark], to: str | None) -> tuple[str, ...]:
        """Move away what was made under such a name since it was looked; return what that was.

        It goes to the folder `to`, or where that is on another disk, under a name of ours to the root.
        """
        # what was there lies under a mount: the same thing is as it was, wherever its folder was moved, and another
        # thing in the same folder is somebody else's work, on the host
        before = {(mark.own, mark.link) for mark in seen.values()}
        made = [
            path
            for path, mark in self.look().items()
            if (mark.own, mark.link) not in before and not (path in seen and _is_alike(mark, seen[path]))
            if path not in self._hidden and not self._is_harmless(path)
        ]
        if not made:
            return ()
        beneath = Beneath(self._root)
        try:
            # innermost first: a folder may be made and hold such names itself
            for path in sorted(made, key=lambda path: -path.count("/")):
                with suppress(ToolError, OSError), beneath.place(path, follow=False) as place:
                    name = f"{_ASIDE}-{secrets.token_hex(8)}-{place.name}"
                    try:
                        os.rename(place.name, f"{to or self._root}/{name}", src_dir_fd=place.folder)
                    except OSError:
                        os.rename(place.name, name, src_dir_fd=place.folder, dst_dir_fd=beneath.fd)
                    log.warning("a command made %r, which was moved to %r in %r", path, name, to or self._root)
                    if (mark := seen.get(path)) and mark.link:
                        os.symlink(mark.link, place.name, dir_fd=place.folder)
        finally:
            beneath.close()
        return tuple(sorted(made))

    def _is_obeyed(self, path: str, name: str) -> bool:
        return (
            name.casefold() in OBEYED_NAMES
            or path.casefold().endswith(".config/fish")
            or path in self._hidden
            or (self._protected is not None and self._protected.fullmatch(path) is not None)
        )

    def _look_into_git(self, path: str) -> Iterator[tuple[str, _Mark]]:
        """Give what git obeys in a repository, and in those of its submodules and work trees."""
        ahead, left = [path], _MAX_NAMES
        while ahead and left:
            folder, left = ahead.pop(), left - 1
            with suppress(OSError):
                place = f"{self._root}/{folder}"
                holder, names = os.stat(place).st_ino, os.listdir(place)  # noqa: PTH116, PTH208
                for name in names:
                    if name.casefold() in _GIT_PARTS:
                        yield f"{folder}/{name}", _mark(f"{place}/{name}", holder)
                    elif folder != path or name in _GIT_WITHIN:
                        ahead += [f"{folder}/{name}"] if name not in ("objects", "refs", "logs") else []

    def _is_harmless(self, path: str) -> bool:
        """Tell whether what was made is what git makes by itself, and names no program."""
        place, name = f"{self._root}/{path}", os.path.basename(path).casefold()  # noqa: PTH119
        if self._protected is not None and self._protected.fullmatch(path):  # the owner's own list: made is not changed
            return name not in OBEYED_NAMES
        try:
            if os.path.islink(place):  # noqa: PTH114
                return False
            if os.path.isdir(place):  # noqa: PTH112
                return name == ".git" or all(each.endswith(".sample") for each in os.listdir(place))  # noqa: PTH208
            if not os.path.isfile(place) or os.path.getsize(place) > _MAX_SETTINGS_BYTES:  # noqa: PTH113, PTH202
                return False
            with open(place, encoding="utf-8", opener=_open_at_once) as file:
                text = file.read(_MAX_SETTINGS_BYTES)
        except (OSError, ValueError):
            return False
        if name == ".git":  # of a submodule or a work tree: what git obeys there was looked at by itself
            target = os.path.join(os.path.dirname(place), text.removeprefix("gitdir:").strip())  # noqa: PTH118, PTH120
            return any(f"/.git/{each}/" in f"/{next(_inside(self._root, [target]), '')}" for each in _GIT_WITHIN)
        return (name == "commondir" and text.strip() == "../..") or (
            name == "config" and all(map(_HARMLESS_LINE.fullmatch, text.splitlines()))
        )


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)  # a pipe may have been put there meanwhile


def _mark(place: str, holder: int) -> _Mark:
    link = os.readlink(place) if os.path.islink(place) else ""  # noqa: PTH114, PTH115
    return _Mark(holder, os.lstat(place).st_ino, link)


def _is_alike(now: _Mark, before: _Mark) -> bool:
    return (now.holder, now.link) == (before.holder, before.link)


def _inside(root: str, paths: Sequence[str]) -> Iterator[str]:
    """Give those of the paths that lie beneath the root, as they are called from there."""
    for path in dict.fromkeys(map(os.path.realpath, paths)):
        if path.startswith(f"{root}/"):
            yield path.removeprefix(f"{root}/")


def _folders_above(path: str) -> Iterator[str]:
    parts = path.split("/")
    return ("/".join(parts[:count]) for count in range(1, len(parts)))
