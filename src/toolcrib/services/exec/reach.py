"""From where what a command prints may come: a network, files that hold words from outside, or what nobody can see.

Of a program that is known to show no more than it names, only what it names counts; of any other, all of the workspace.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from toolcrib.define.display import escape_unprintable
from toolcrib.define.errors import ToolError
from toolcrib.define.taint import join_sources
from toolcrib.policy.command import Judgement
from toolcrib.policy.command.parse import FoundCommand
from toolcrib.policy.command.permit import follow
from toolcrib.policy.command.rules import base_name

from .binding import MAX_HASHED_BYTES, list_words, look_at_files
from .process import CommandReach
from .repository import find_inside, read_inside

# what shows no file's content, and no name that is not named
_SILENT = frozenset({
    ":", "[", "basename", "cd", "date", "dirname", "echo", "export", "false", "free", "id", "nproc", "printf", "pwd",
    "sleep", "test", "true", "uname", "uptime", "wait", "whoami",
})  # fmt: skip
_LISTERS = frozenset({"df", "du", "file", "find", "ls", "realpath", "readlink", "stat", "tree"})  # names, no content
_WALKERS = frozenset({"du", "find", "tree"})  # also what is below
_LISTING_GIT = frozenset({"branch", "ls-files", "remote", "rev-parse", "status"})
_READERS = frozenset({
    "base64", "cat", "chmod", "cmp", "cp", "cut", "diff", "egrep", "fgrep", "grep", "gunzip", "gzip", "head", "jq",
    "ln", "md5sum", "mkdir", "mv", "nl", "od", "rg", "rm", "rmdir", "sha1sum", "sha256sum", "sort", "tac",
    "tail", "touch", "tr", "uniq", "unzip", "wc", "xxd", "zcat", "zip",
})  # fmt: skip
_SEARCHES = frozenset({"egrep", "fgrep", "grep", "rg"})  # the folder where they are, when they name none
_SYSTEM = ("/bin/", "/dev/", "/etc/", "/lib", "/opt/", "/proc/", "/sbin/", "/sys/", "/usr/")
_STARTS = ("-exec", "-ok", "-fprint", "--compress-program", "--pre")  # options that run or write something


class FileTracer(Protocol):
    """Knows where the files of workspaces came from."""

    def open_inside(self, root: str, path: str, /) -> int:
        """Return a descriptor (O_PATH) of what a path in a workspace leads to; ToolError when it leads out."""

    def trace(self, terms: Any, path: str, /, *, names: bool = False) -> tuple[str, ...]:
        """Return what the files at and below a path go back to, but for the folders where others' files lie.

        With `names` those alone whose names may say something.
        """

    def list_shut(self, terms: Any, /) -> tuple[str, ...]:
        """Return the folders of a workspace in which others' files lie, that their senders alone see."""

    def list_foreign(self, terms: Any, /) -> tuple[str, ...]:
        """Return those folders of a workspace, as far as there are any."""

    def begin_writing(self, terms: Any, source: str, /) -> Callable[[], None]:
        """Count what changes from now on as going back to a source; return what ends that and keeps it."""


def find_reach(
    tracer: FileTracer, terms: Any, judgement: Judgement, permit: Any, taint: Iterable[str], target: Any
) -> CommandReach:
    """Return what a command may read, where it starts, and after its turn has read from these sources."""
    kinds = {_classify(words) for words in _follow(judgement)} or {"opaque"}
    words = list(list_words(judgement, permit.line))
    if judgement.doubt or any(word.startswith(("/dev/tcp", "/dev/udp")) for word in words):
        kinds.add("opaque")
    root, foreign, is_host = os.path.realpath(terms.root), tracer.list_foreign(terms), target.is_host
    start = _find_inside(root, "", permit.cwd) or "."
    named = {each for each in (_find_inside(root, permit.cwd, word) for word in words) if each is not None}
    if is_host and kinds & {"read", "search"} and any(_is_anybodys(root, permit.cwd, word) for word in words):
        kinds.add("opaque")
    hidden = [each for each in foreign if not any(_is_at(path, each) for path in (*named, start))]
    is_open = any(None in command.argv for command in judgement.commands)  # with words that a shell fills in
    is_all = "opaque" in kinds or is_open or any(each.strip("/") in (".", "..") for each in permit.line.split())
    found = {each for each in named if os.path.lexists(os.path.join(root, each))}  # noqa: PTH118
    looks_around = kinds & {"search", "walk", "names"} and not found
    reached = found | ({"."} if is_all else {start} if looks_around else set())
    # nothing keeps a command on the host from looking into them
    below = [each for each in foreign if is_host and any(path == "." or _is_at(each, path) for path in reached)]
    shows_names = kinds & {"opaque", "search", "walk", "read"}
    shown = (each for each in foreign if each not in hidden or (each in below and shows_names))
    sources = dict.fromkeys(f"file:{each}/" for each in shown)
    if "opaque" in kinds and (is_host or target.limits.network):
        sources["exec:host" if is_host else "exec:network"] = None
    names = not kinds & {"opaque", "search", "read"}
    for path in reached:
        sources |= dict.fromkeys(tracer.trace(terms, path, names=names))
    shut = (each for each in tracer.list_shut(terms) if not any(_is_at(each, folder) for folder in hidden))
    covered = tuple(f"{root}/{each}" for each in (*hidden, *shut))
    told = tuple(escape_unprintable(each) for each in sources)
    written = "" if permit.only_reads else join_sources([*taint, *sources])
    begin = partial(tracer.begin_writing, terms)
    return CommandReach(sources=told, network="opaque" in kinds, hidden=covered, written=written, begin=begin)


def ask_about_secrets(
    tracer: FileTracer, root: str, judgement: Judgement, permit: Any, redact: Callable[[str], str] | None
) -> Judgement:
    """Return a judgement, and where it lets a command run that names and may show a file with a secret which `redact`
    would hide, the question whether it may."""
    kinds = {_classify(words) for words in _follow(judgement)}
    if redact is None or judgement.decision != "run" or kinds <= {"silent", "names", "walk"}:
        return judgement
    open_inside = partial(tracer.open_inside, root)
    with suppress(ToolError):  # without that folder nothing starts
        folder, _ = find_inside(open_inside, permit.cwd)
        for path in look_at_files(open_inside, folder, judgement, permit.line)[0]:
            with suppress(ToolError, ValueError):
                data = read_inside(open_inside, os.path.join(folder, path), MAX_HASHED_BYTES)  # noqa: PTH118
                if redact(text := data.decode(errors="replace")) != text:
                    why = f"{path[:200]!r} holds a secret of this crib, which a command can show in pieces"
                    return replace(judgement, decision="ask", reason=why)
    return judgement


def _follow(judgement: Judgement) -> Iterator[tuple[str, ...]]:
    for words in follow(FoundCommand(command.argv) for command in judgement.commands):
        yield tuple(word or "" for word in words or ())


def _classify(words: tuple[str, ...]) -> str:
    """Return what a command shows: nothing (`silent`), `names`, also below (`walk`), contents of what it names (`read`)
    or of what is below that (`search`), or anything (`opaque`).
    """
    name = base_name(words[0]) if words and ("/" not in words[0] or words[0].startswith(("/usr/bin/", "/bin/"))) else ""
    if not name or any(word.startswith(_STARTS) for word in words[1:]):
        return "opaque"
    if name in _SILENT:
        return "silent"
    if name in _LISTERS or (name == "git" and words[1:2] and words[1] in _LISTING_GIT):
        return "walk" if name in _WALKERS or any(word[:1] == "-" and "R" in word for word in words[1:]) else "names"
    if name in _SEARCHES and (name == "rg" or any(word[:1] == "-" and "r" in word.lower() for word in words[1:])):
        return "search"
    return "read" if name in _READERS else "opaque"


def _find_inside(root: str, folder: str, word: str) -> str | None:
    """Return where a word leads as a path, seen from a folder of the workspace; None when it leads out."""
    try:
        end = os.path.realpath(os.path.join(root, folder, word))  # noqa: PTH118
    except ValueError:
        return None
    return os.path.relpath(end, root) if end == root or end.startswith(f"{root.rstrip('/')}/") else None


def _is_anybodys(root: str, folder: str, word: str) -> bool:
    """Tell whether a word names what lies neither in the workspace nor in the system: anybody may have written it."""
    end = "" if "\0" in word else os.path.realpath(os.path.join(root, folder, word))  # noqa: PTH118
    is_inside = _find_inside(root, folder, word) is not None or end.startswith(_SYSTEM)
    return word[:1] in ("~", "$") or ("/" in word and not is_inside and os.path.lexists(end))


def _is_at(path: str | None, folder: str) -> bool:
    return path is not None and (path == folder or path.startswith(f"{folder}/"))
