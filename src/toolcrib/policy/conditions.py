"""Conditions on one value: a value, a pattern, or a mapping of `in`, `min`, `max`, `matches`, `host` and `under`.

In a list that takes away, text and paths are compared as the most forgiving reader takes them, and one value of several
is enough; in a list that gives, they are compared as they are.
"""

import fnmatch
import json
import math
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Literal

import re2

from toolcrib.define.display import strip_invisible
from toolcrib.define.egress import decode_fully, is_network, names_host, read_host, read_url
from toolcrib.define.errors import ToolError
from toolcrib.define.files import fold_path
from toolcrib.define.names import fold_name
from toolcrib.define.taint import matches_source
from toolcrib.lazy import regex

Place = Literal["path", "url", "source", ""]
Holds = Callable[[Any], bool]
Roots = Sequence[str]

MAX_CONDITION_CHARS = 256

_NUMBERS = frozenset({int, float})
_SPECIAL = frozenset("*/.")  # in a word that is more than a word
_HOST_CHARS = frozenset(".:")
_ADDRESS = regex(r"\s*https?://\S+\s*", re.IGNORECASE)
_WHOLE = regex(r"\s*(?:/[^*]|~)")  # how a path begins that says where it lies
_WORDS = regex(r"[\w ,.-]*[\w,-]", re.ASCII)
_SCHEME = regex(r"[a-z][a-z0-9+.-]*:/*|/{2,}", re.IGNORECASE)
_DROPPED = regex(r"[\x00-\x1f\x7f]")
_MAX_SCHEMES, _ADDRESS_CHARS = 4, 4_096
_GLOB = regex(r"/\*\*\Z|\*\*/|\*\*|\*")
_GLOB_MEANS = {"/**": "(?:/.*)?", "**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}


class UnjudgedError(Exception):
    """A value that a condition cannot be held against."""


def dump_when(when: Mapping[str, Any]) -> str:
    """Return a condition in its one spelling."""
    return json.dumps(dict(when), ensure_ascii=False, sort_keys=True)


def check_when(when: Mapping[str, Any]) -> None:
    """Raise ValueError that says what is wrong with a condition."""
    if not when:
        raise ValueError("when: names no argument; write {argument: pattern}, or the tool's name alone")
    for name, wanted in when.items():
        if not name.strip():
            raise ValueError("when: an argument without a name; write {argument: pattern}")
        _check_wanted(name, wanted)


def _check_wanted(name: str, wanted: Any) -> None:
    if isinstance(wanted, Mapping):
        if not wanted or (strange := wanted.keys() - _OPERATORS.keys()):
            found = f"no condition {min(strange)!r}" if wanted else "an empty condition"
            raise ValueError(f"when: {name} has {found}; there are {', '.join(sorted(_OPERATORS))}")
        for operator, value in wanted.items():
            _check_operand(f"{name}.{operator}", operator, value)
    elif isinstance(wanted, (list, tuple)):
        raise ValueError(f"when: {name} is a list; write {{in: [..]}}")  # noqa: TRY004  pydantic's word
    else:
        _check_operand(name, "", wanted)


def _check_operand(name: str, operator: str, value: Any) -> None:
    """Raise ValueError unless a value fits its operator."""
    many = operator == "in" or (operator == "host" and isinstance(value, (list, tuple)))
    if many and not isinstance(value, (list, tuple)):
        raise ValueError(f"when: {name} should be a list")
    for each in value if many else (value,):
        is_number = isinstance(each, (int, float)) and not isinstance(each, bool) and math.isfinite(each)
        if operator in ("min", "max"):
            if not is_number:
                raise ValueError(f"when: {name} should be a number")
        elif not isinstance(each, str) and (operator not in ("", "in") or not (is_number or isinstance(each, bool))):
            raise ValueError(f"when: {name} should be {'text' if operator else 'text, a number or true or false'}")
        elif isinstance(each, str) and (not each.strip() or len(each) > MAX_CONDITION_CHARS):
            raise ValueError(f"when: {name} should have 1 to {MAX_CONDITION_CHARS} characters")
        elif operator == "" and "://" in str(each) and not str(each).isascii():
            raise ValueError(
                f"when: {name} is an address with letters that are dialled otherwise; write xn--.. and %.."
            )
        elif operator == "matches":
            _compile(each, name)
        elif operator == "host":
            try:
                if not is_network(each):
                    read_host(each.removeprefix("*."))
            except ToolError:
                raise ValueError(
                    f"when: {name} is no host, address or network; write example.com, *.example.com or 10.0.0.0/8"
                ) from None


def _compile(pattern: str, name: str = "", *, any_case: bool = False) -> Any:
    options = re2.Options()
    options.log_errors, options.dot_nl, options.case_sensitive = False, True, not any_case
    try:
        return re2.compile(pattern, options)
    except re2.error:
        raise ValueError(f"when: {name} is no regular expression that runs in linear time") from None


# One condition, ready to be held against a value


def make_test(wanted: Any, place: Place, *, takes: bool, roots: Roots = ()) -> Holds:
    """Return what says whether a value is meant; `takes` is for lists that take away, `roots` spell the workspace."""
    if isinstance(wanted, Mapping):
        tests = [_OPERATORS[name](value, place, takes, roots) for name, value in wanted.items()]
        return tests[0] if len(tests) == 1 else lambda value: all(test(value) for test in tests)
    if not isinstance(wanted, str):
        return _equal_to(wanted)
    if place == "source":
        return _from_source(wanted, takes=takes)
    if place == "url":
        return _at_host(wanted, place, takes) if "://" not in wanted else _at_url(wanted, takes=takes)
    is_path = place == "path" or ("/" in wanted and "://" not in wanted)
    test = _beneath(wanted, place, roots, takes=takes) if is_path else _like(wanted, takes=takes)
    is_host = place == "" and (wanted.lower() == "localhost" or not _HOST_CHARS.isdisjoint(wanted))
    return _at_host_or_like(wanted, test, takes=takes) if is_host else test


def _equal_to(wanted: float | bool) -> Holds:
    is_flag = isinstance(wanted, bool)

    def holds(value: Any) -> bool:
        if isinstance(value, bool) is not is_flag or not isinstance(value, (int, float)):
            raise UnjudgedError
        return value == wanted

    return holds


def _like(wanted: str, *, takes: bool) -> Holds:
    """Return what compares text, `*` standing for any run of characters."""
    meant = _fold(wanted) if takes else wanted
    if "*" not in wanted:

        def equals(value: Any) -> bool:
            text = _text(value)
            return text == wanted or (takes and _fold(text) == meant)

        return equals
    # no star but the last goes back over what it took, so that this is linear, and it takes a tenth of re2's time
    fits = re.compile(fnmatch.translate(re.sub(r"([?\[])", r"[\1]", meant))).match
    return lambda value: fits(_fold(_text(value)) if takes else _text(value)) is not None


def _from_source(wanted: str, *, takes: bool) -> Holds:
    """Return what compares where content is from: what takes away means all that goes back to a source, too."""
    if takes:
        return lambda value: matches_source(wanted, _text(value))
    like, kind = _like(wanted, takes=takes), f"{wanted}:"
    return lambda value: like(value) or _text(value).startswith(kind)


def _beneath(glob: str, place: Place, roots: Roots, *, takes: bool) -> Holds:
    """Return what compares paths: a glob without `/` holds at any depth, `x/**` and `x/` are a folder and all in it.

    One that begins with `/` or `~` may also begin with where the workspace lies.
    """
    plain = re.sub(r"/(?:\.?/)+", "/", glob.strip()).removeprefix("./")
    ahead = ["", *(f"{root.strip('/')}/" for root in roots)] if _WHOLE.match(plain) and place == "path" else [""]
    is_anywhere, is_whole = "/" not in plain.rstrip("/"), plain.startswith("/")
    plain += "**" * plain.endswith("/")
    plain = plain.rstrip("/") or plain if place == "" else plain.strip("/")
    plain = f"**/{plain}" if is_anywhere and place == "path" else plain
    plain = fold_path(plain) if takes else plain
    at, pieces = 0, list[str]()
    for found in _GLOB.finditer(plain):
        pieces += [re.escape(plain[at : found.start()]), _GLOB_MEANS[found[0]]]
        at = found.end()
    fits = _compile("".join(pieces) + re.escape(plain[at:])).fullmatch

    def holds(value: Any) -> bool:
        path = _text(value) if place == "path" else _spell(_text(value), is_whole=plain.startswith("/"))
        if takes and is_whole and place == "path":  # of this machine, where a command names it so
            path = path.lstrip("/")
        return any(fits(_readable(fold_path(each + path) if takes else each + path)) for each in ahead)

    return holds


def _under(folder: str, place: Place, takes: bool, roots: Roots) -> Holds:
    plain = folder.strip().removeprefix("./").rstrip("/") or "."
    if plain == "." and place == "path":
        return lambda value: bool(_text(value))
    anchored = f"/{plain.lstrip('/')}/**" if place == "path" else f"{plain}/**"
    return _beneath(anchored, place, roots if _WHOLE.match(folder) else (), takes=takes)


def _at_host(entry: str, place: Place, takes: bool) -> Holds:
    if not is_network(entry):
        try:  # a name as it is dialled
            entry = "*." * entry.startswith("*.") + read_host(entry.removeprefix("*."))
        except ToolError as error:
            return partial(_raise, error)
    return lambda value: names_host(entry, read_url(_text(value)).host)


def _raise(error: ToolError, value: Any) -> bool:
    raise error


def _at_hosts(entries: Any, place: Place, takes: bool, _: Roots) -> Holds:
    tests = [_at_host(each, place, takes) for each in ([entries] if isinstance(entries, str) else entries)]
    return lambda value: any(test(value) for test in tests)


def _at_url(glob: str, *, takes: bool) -> Holds:
    """Return what compares whole addresses: what takes away as a server may read them, too."""
    try:
        glob = read_url(glob).url
    except ToolError:  # its host is a pattern, or it is none that could be met
        glob += "/" * (not glob.endswith("*") and "/" not in glob.partition("://")[2])
    test, test_plain = _like(glob, takes=takes), _like(decode_fully(glob), takes=takes)

    def holds(value: Any) -> bool:
        found = read_url(_text(value))
        path, mark, query = found.target.partition("?")
        plain = decode_fully(path).replace("\\", "/")
        if not takes:
            return test(found.url) and ".." not in plain.split("/")
        level = f"/{posixpath.normpath(plain).strip('/')}"
        level += "/" * (plain.endswith("/") and level != "/")
        decoded = f"{found.url.removesuffix(found.target)}{level}{mark}{decode_fully(query)}"
        return test(found.url) or test(decoded) or test_plain(decoded)

    return holds


def _at_host_or_like(wanted: str, otherwise: Holds, *, takes: bool) -> Holds:
    """Return what compares an argument that may be an address, though its tool does not say so, as one then."""
    is_whole, is_range = "://" in wanted, is_network(wanted)
    try:
        test = _at_url(wanted, takes=takes) if is_whole else _at_host(wanted, "url", takes)
        if not (is_whole or is_range):
            read_host(wanted.removeprefix("*."))
    except ToolError:
        return otherwise

    def holds(value: Any) -> bool:
        text = _text(value)
        if not is_range and _WORDS.fullmatch(text):
            return otherwise(text)
        if _ADDRESS.fullmatch(text) or (is_whole and not takes):
            return test(text) or (takes and otherwise(text))
        found = map(test, list_addresses(text))
        return any(found) or otherwise(text) if takes else otherwise(text) and all(found)

    return holds


def is_whole_address(text: str) -> bool:
    """Tell whether a text is written as the whole address of a page."""
    return _ADDRESS.fullmatch(text) is not None


def list_addresses(text: str) -> Iterator[str]:
    """Yield the addresses that a forgiving client may read in a text: no scheme, `\\` for `/`, tabs anywhere."""
    rest = _DROPPED.sub("", strip_invisible(text)).strip(" <>\"'").replace("\\", "/")
    for index in range(_MAX_SCHEMES):
        authority = re.split("[/?#]", rest, maxsplit=1)[0]
        place = authority.rpartition("@")[2] + rest[len(authority) :][:_ADDRESS_CHARS]
        host, _, way = place.partition(":")
        # an address without its brackets, and a host before a path, as ssh takes it
        for each in (place, f"[{place.partition('%')[0]}]" if is_network(place.partition("%")[0]) else f"{host}/{way}"):
            with suppress(ToolError):
                if index or not _HOST_CHARS.isdisjoint(
                    read_url(f"http://{each}").host
                ):  # a word is a host behind a scheme
                    yield from (read_url(f"{scheme}://{each}").url for scheme in ("http", "https"))
        if (scheme := _SCHEME.match(rest)) is None:
            return
        rest = rest[scheme.end() :]


def _one_of(wanted: Sequence[Any], place: Place, takes: bool, roots: Roots) -> Holds:
    if place == "" and wanted and all(isinstance(each, str) and not _SPECIAL.intersection(each) for each in wanted):
        words = frozenset(wanted).union(map(_fold, wanted) if takes else ())
        return lambda value: _text(value) in words or (takes and _fold(value) in words)
    tests = [make_test(each, place, takes=takes, roots=roots) for each in wanted]

    def holds(value: Any) -> bool:
        judged = 0
        for test in tests:  # a list may mix kinds: one of them must be the value's
            try:
                if test(value):
                    return True
                judged += 1
            except UnjudgedError:
                continue
        if tests and not judged:
            raise UnjudgedError
        return False

    return holds


def _matching(pattern: str, _place: Place, takes: bool, _: Roots) -> Holds:
    search = _compile(pattern).search
    if not takes:
        return lambda value: search(_readable(_text(value))) is not None
    search_folded = _compile(pattern, any_case=True).search

    def holds(value: Any) -> bool:
        text = _text(value)
        return search(_readable(text)) is not None or search_folded(_readable(_fold(f"|{text}|")[1:-1])) is not None

    return holds


_OPERATORS: Mapping[str, Callable[[Any, Place, bool, Roots], Holds]] = {
    "in": _one_of,
    "min": lambda least, *_: _between(least, math.inf),
    "max": lambda maximum, *_: _between(-math.inf, maximum),
    "matches": _matching,
    "host": _at_hosts,
    "under": _under,
}


def _between(minimum: float, maximum: float) -> Holds:
    def holds(value: Any) -> bool:
        if type(value) not in _NUMBERS or value != value:  # NaN is within no limit
            raise UnjudgedError
        return minimum <= value <= maximum  # type: ignore[no-any-return]  # numbers

    return holds


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise UnjudgedError
    return value


def _fold(text: str) -> str:
    return fold_name(strip_invisible(text))


def _readable(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")  # re2 finds in bytes twice as fast as in text


def _spell(path: str, *, is_whole: bool) -> str:
    """Return a path whose tool does not say that it is one; where it leads is not known, so `..` leads anywhere.

    Nor is it known where a whole path or an address of a file stands to one that is not, or whose folder `~` is.
    """
    parts = path.strip().replace("\\", "/").split("/")
    if (
        parts[0].lower().startswith("file:")
        or ".." in parts
        or (not parts[0] and len(parts) > 1) is not is_whole
        or parts[0].startswith("~")
    ):
        raise UnjudgedError
    return "/" * is_whole + "/".join(part for part in parts if part not in ("", "."))
