"""From where what a command prints may come: a network, files that hold words from outside, or what nobody can see.

Of a program that is known to show no more than it names, only what it names counts; of any other, all of the workspace.
"""

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from toolcrib.define.display import escape_unprintable
from toolcrib.define.errors import ToolError
from toolcrib.define.taint import join_sources
from toolcrib.lazy import regex, replace
from toolcrib.policy.command import Judgement
from toolcrib.policy.command.options import UnsafeUsageError, names
from toolcrib.policy.command.parse import TOLD_DOUBTS, FoundCommand
from toolcrib.policy.command.permit import follow
from toolcrib.policy.command.programs import READERS, check
from toolcrib.policy.command.rules import base_name

from .binding import MAX_HASHED_BYTES, list_words, look_at_files
from .process import CommandReach
from .repository import find_inside, read_inside

# what shows no file's content, and no name that is not named
_SILENT = names(
    ": [ basename cd date dirname echo export false free id nproc printf pwd sleep test true uname uptime wait whoami"
)
_LISTERS = frozenset({"df", "du", "find", "ls", "readlink", "realpath", "stat", "tree"})  # names, no content
_WALKERS = frozenset({"du", "find", "tree"})  # also what is below
_LISTING_GIT = frozenset({"branch", "ls-files", "rev-parse", "status"})
_READERS = READERS | names(
    """base64 chmod cmp cp egrep fgrep file gunzip gzip ln md5sum mkdir mv nl od rm rmdir sha1sum sha256sum tac touch
    unzip xxd zcat zip"""
)
_SEARCHES = frozenset({"egrep", "fgrep", "grep", "rg"})  # the folder where they are, when they name none
_PLAIN_LINE = regex(r"[ !\"$-'*-;=-Z\]^_a-z|~]*")  # in which nothing is hidden behind the first doubt about it
_SYSTEM = ("/bin/", "/dev/", "/etc/", "/lib", "/opt/", "/proc/", "/sbin/", "/sys/", "/usr/")
_OF_A_PROCESS = regex(r"/proc/[^/]+/(?:cwd|fd|map_files|root|task)\b")
_STARTS = ("-exec", "-ok", "-fprint", "-files0", "--compress-program", "--pre")  # options that run or write something


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
    commands = list(_follow(judgement))
    shown, words = [_classify(each) for each in commands], list(list_words(judgement, line := permit.line))
    kinds = {kind for kind, _ in shown} or {"opaque"}
    is_told = not judgement.doubt or (judgement.doubt in TOLD_DOUBTS and _PLAIN_LINE.fullmatch(line))
    kinds |= {"read"} if ">" in line else set()  # what was there may stay
    root, foreign, is_host = os.path.realpath(terms.root), tracer.list_foreign(terms), target.is_host
    start = _find_inside(root, "", permit.cwd) or "."
    named = {each for each in (_find_inside(root, permit.cwd, word) for word in words) if each is not None}
    is_open = any(None in command.argv for command in judgement.commands)  # with words that a shell fills in
    if is_host and kinds & {"read", "search"}:
        leads_out = is_open and re.search(r"[$~]|\.\.|(?:^|[\s=>])/", line)
        is_told = is_told and not leads_out and not any(_is_anybodys(root, permit.cwd, each) for each in words)
    if not is_told or any(word.startswith(("/dev/tcp", "/dev/udp")) for word in words):
        kinds.add("opaque")
    hidden = [each for each in foreign if not any(_is_at(path, each) for path in (*named, start))]
    found = {each for each in named if os.path.lexists(os.path.join(root, each))}  # noqa: PTH118
    moves = [each[1:] for each in commands if each[:1] == ("cd",)]
    is_lost = any(len(each) != 1 or _find_inside(root, permit.cwd, each[0]) not in found for each in moves)
    is_lost |= bool(moves and (".." in line or "CDPATH" in line))
    is_lost |= any(_is_led_out(root, permit.cwd, word) for word in words)
    is_all = is_lost or is_open or "opaque" in kinds or any(each.strip("/") in (".", "..") for each in line.split())
    reached = dict.fromkeys([*found, *(["."] if is_all else [])], not kinds & {"opaque", "search", "read"})
    for kind, paths in shown:
        if paths is None or (not paths and kind in ("search", "walk", "names")):
            place = "." if paths is None else start
            reached[place] = kind in ("walk", "names") and reached.get(place, True)
    # nothing keeps a command on the host from looking into them
    deep = [path for path, only_names in reached.items() if is_host and (not only_names or "walk" in kinds)]
    below = [each for each in foreign if any(path == "." or _is_at(each, path) for path in deep)]
    sources = dict.fromkeys(f"file:{each}/" for each in foreign if each not in hidden or each in below)
    if "opaque" in kinds and (is_host or target.limits.network):
        sources["exec:host" if is_host else "exec:network"] = None
    look = partial(_trace_reached, tracer, terms, reached, foreign)
    sources |= dict.fromkeys(look())
    shut = (each for each in tracer.list_shut(terms) if not any(_is_at(each, folder) for folder in hidden))
    covered = tuple(f"{root}/{each}" for each in (*hidden, *shut))
    escaped = tuple(map(escape_unprintable, sources))
    later = {**dict.fromkeys(named, not kinds & {"opaque", "search", "read"}), **reached}  # what is not there yet, too
    written = "" if permit.only_reads else join_sources([*taint, *sources])
    begin = partial(tracer.begin_writing, terms)
    look = partial(_trace_reached, tracer, terms, later, foreign)
    return CommandReach(
        sources=escaped, network="opaque" in kinds, hidden=covered, written=written, begin=begin, look=look
    )


def _trace_reached(
    tracer: FileTracer, terms: Any, reached: Mapping[str, bool], known: Collection[str]
) -> tuple[str, ...]:
    """Return what the files that a command reaches go back to by now; others' folders that are not new are known."""
    new = (each for each in tracer.list_foreign(terms) if each not in known)
    found = [f"file:{each}/" for each in new if any(path == "." or _is_at(each, path) for path in reached)]
    for path, only_names in reached.items():
        if os.path.lexists(os.path.join(terms.root, path)):  # noqa: PTH118  a word may be no path, as `~` in quotes
            found += tracer.trace(terms, path, names=only_names)
    return tuple(map(escape_unprintable, found))


def ask_about_secrets(
    tracer: FileTracer, known: Any, judgement: Judgement, permit: Any, redact: Callable[[str], str] | None
) -> Judgement:
    """Return a judgement, and where it lets a command run that names and may show a file with a secret which `redact`
    would hide, the question whether it may."""
    kinds = {_classify(words)[0] for words in _follow(judgement)}
    is_unasked = known.own.rules.security == "full" or kinds <= {"silent", "names", "walk"}
    if redact is None or judgement.decision != "run" or is_unasked:
        return judgement
    open_inside, whole = partial(tracer.open_inside, known.root), os.path.realpath(known.root)
    with suppress(ToolError):  # without that folder nothing starts
        folder, _ = find_inside(open_inside, permit.cwd)
        found = look_at_files(open_inside, folder, judgement, permit.line)[0]
        places = {os.path.join(folder, path): path for path in found}  # noqa: PTH118
        back = (_find_inside(whole, permit.cwd, word) for word in list_words(judgement, permit.line))
        for place, path in (*places.items(), *((each, each) for each in back if each is not None)):
            with suppress(ToolError, ValueError):
                data = read_inside(open_inside, place, MAX_HASHED_BYTES)
                if redact(text := data.decode(errors="replace")) != text:
                    why = f"{path[:200]!r} holds a secret of this crib, which a command can show in pieces"
                    return replace(judgement, decision="ask", reason=why)
    return judgement


def _follow(judgement: Judgement) -> Iterator[tuple[str, ...]]:
    for words in follow(FoundCommand(command.argv) for command in judgement.commands):
        yield tuple(word or "" for word in words or ())


def _classify(words: tuple[str, ...]) -> tuple[str, Collection[str] | None]:
    """Return what a command shows: nothing (`silent`), `names`, also below (`walk`), contents of what it names (`read`)
    or of what is below that (`search`), or anything (`opaque`); and the paths that it names, as far as that is known:
    None where it may look at all of the workspace.
    """
    name = base_name(words[0]) if words and ("/" not in words[0] or words[0].startswith(("/usr/bin/", "/bin/"))) else ""
    args, named = words[1:], dict[str, str]()
    if not name or any(word.startswith(_STARTS) for word in args):
        return "opaque", None
    if name == "git":
        shows_content = any(re.match("-[^-]*v|--[fv]", each) for each in args)
        return "walk" if args and args[0] in _LISTING_GIT and not shows_content else "opaque", None
    if name in ("date", "du", "file", "tree") and any(re.match("-[^-]*f|--f", each) for each in args):
        return "search", None  # what they show stands in a file
    if name in READERS:
        try:
            check(name, args, lambda path: bool(named.setdefault(path, ".")))  # which takes note of it
        except UnsafeUsageError:
            return "opaque" if name in ("jq", "rg", "sed") else "search", None
    if name == "find":
        named = {word: "." for word in args[:1] if word[:1] not in ("", "-", "(", "!")}
    options = [word for word in args if word[:1] == "-"]
    if name in _SEARCHES and (name == "rg" or any("r" in word.lower() for word in options)):
        return "search", named
    if name in _LISTERS:
        return "walk" if name in _WALKERS or any("R" in word for word in options) else "names", named
    return "silent" if name in _SILENT else "read" if name in _READERS else "opaque", named


def _find_inside(root: str, folder: str, word: str) -> str | None:
    """Return where a word leads as a path, seen from a folder of the workspace; None when it leads out."""
    try:
        end = os.path.realpath(os.path.join(root, folder, word))  # noqa: PTH118
    except ValueError:
        return None
    return os.path.relpath(end, root) if end == root or end.startswith(f"{root.rstrip('/')}/") else None


def _is_led_out(root: str, folder: str, word: str) -> bool:
    """Tell whether a link leads a word out of the workspace, or by way of a process: there it may lead back in."""
    end = os.path.normpath(os.path.join(root, folder, word))  # noqa: PTH118
    is_inside = end == root or end.startswith(f"{root.rstrip('/')}/")
    return (is_inside and _find_inside(root, folder, word) is None) or _OF_A_PROCESS.match(end) is not None


def _is_anybodys(root: str, folder: str, word: str) -> bool:
    """Tell whether a word names what lies neither in the workspace nor in the system: anybody may have written it."""
    end = "" if "\0" in word else os.path.realpath(os.path.join(root, folder, word))  # noqa: PTH118
    is_inside = _find_inside(root, folder, word) is not None or end.startswith(_SYSTEM)
    return word[:1] in ("~", "$") or ("/" in word and not is_inside and os.path.lexists(end))


def _is_at(path: str | None, folder: str) -> bool:
    return path is not None and (path == folder or path.startswith(f"{folder}/"))
