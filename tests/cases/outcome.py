"""What an adapter found out about one case, and how answers are compared."""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .load import Case

Form = Callable[[Any], Any]


def as_it_is(value: Any) -> Any:
    """Return the form of an answer that means nothing but itself."""
    return value


@dataclass(frozen=True, slots=True)
class Refused:
    """Our answer was an error; the sentence it said."""

    message: str


class UnknownWordError(Exception):
    """A case uses a word that its adapter does not read; what it asks for would be left out."""


class SaidError(Exception):
    """The product refused in these words, in a result or a list of problems, and raised nothing."""


@dataclass(frozen=True, slots=True)
class Absent:
    """We have nothing of the kind, so that the product cannot be asked; never the same as what was recorded."""

    message: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether a case came out as recorded (or an attack as it must), what was seen, and why not.

    `later` says that the part of toolcrib the case is about does not exist yet; later.toml must agree.
    `theirs` is what was recorded, in the shape of our answer; `form` makes two answers equal that mean the same.
    """

    ok: bool
    seen: Any = None
    why: str = ""
    later: bool = False
    theirs: Callable[[], Any] = lambda: None
    form: "Form" = as_it_is


Adapter = Callable[[Case], Outcome]
Same = Callable[[Case, Any], str]
Theirs = Callable[[Case], Any]

LATER = Outcome(ok=False, why="not built yet", later=True)


def kept(seen: Any = None) -> Outcome:
    """Return the outcome of an attack case that came out as it must."""
    return Outcome(ok=True, seen=seen)


def broken(why: str, seen: Any = None) -> Outcome:
    """Return the outcome of an attack case that did not come out as it must, with the reason in one sentence."""
    return Outcome(ok=False, seen=seen, why=why)


def alternatives(must: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return every set of demands that would do: one, or those under `any_of` (each with what stands beside it)."""
    beside = {key: value for key, value in must.items() if key != "any_of"}
    return [{**beside, **each} for each in must.get("any_of", [{}])]


def check_keys(given: Mapping[str, Any] | None, known: str, what: str) -> None:
    """Raise where a recording says what the adapter has no meaning for, instead of waiting for what never comes.

    Whatever is called an abort is known: it stops the call it stands at.
    """
    unknown = {key for key in given or () if key not in known.split() and "abort" not in key.lower()}
    if unknown:
        raise UnknownWordError(f"{', '.join(sorted(unknown))} of {what}; known: {known}")


def is_same(ours: Any, recorded: Any) -> bool:
    """Tell whether two JSON values are equal: 5 and 5.0 are, true and 1 are not, tuples are lists."""
    if isinstance(ours, bool) or isinstance(recorded, bool):
        return ours is recorded
    if isinstance(ours, str) and isinstance(recorded, Mapping):
        digest = recorded.get("digest", recorded)  # how a long text is recorded
        return bool(hashlib.sha256(ours.encode("utf-8", "surrogatepass")).hexdigest() == digest.get("sha256"))
    if isinstance(recorded, Mapping) and isinstance(ours, Mapping):
        return ours.keys() == recorded.keys() and all(is_same(ours[key], recorded[key]) for key in recorded)
    if _is_list(recorded) and _is_list(ours):
        return len(ours) == len(recorded) and all(map(is_same, ours, recorded))
    return bool(ours == recorded)


def mentions(message: str, args: Any) -> list[str]:
    """Return what an error of ours must mention: the numbers, and the names from the arguments, of the recorded one."""
    known = _words(args)
    plain = re.sub(r"(?:\{ROOT\}|<CWD>)/", "", message)
    tokens = [token.rstrip(".,:;") for token in re.findall(r"[\w./@#+:,;-]+", plain)]
    return [token for token in dict.fromkeys(tokens) if token in known or token.isdigit()]


def compare(case: Case, ours: Any, theirs: "Theirs | None" = None, form: Form = as_it_is) -> str:
    """Return "" when our answer is the recorded one, else why not."""
    expected = case.expected
    if isinstance(expected, Mapping) and expected.get("ok") is False and "error" in expected:
        return _compare_error(case, ours)
    if isinstance(ours, Refused):
        return f"ours is an error: {ours.message}"
    if isinstance(ours, Absent):
        return f"there is nothing of the kind: {ours.message}"
    if isinstance(expected, Mapping) and expected.keys() in ({"ok", "result"}, {"ok", "value"}) and not expected["ok"]:
        return "what was recorded is neither an answer nor an error"
    return "" if is_same(form(ours), form((theirs or answer_in)(case))) else "the values differ"


def answer_in(case: Case) -> Any:
    """Return what was recorded, without the words that say it was an answer."""
    expected = case.expected
    if isinstance(expected, Mapping) and expected.keys() in ({"ok", "result"}, {"ok", "value"}):
        return expected["result"] if "result" in expected else expected["value"]
    return expected


def _compare_error(case: Case, ours: Any) -> str:
    error = case.expected["error"]
    return compare_refusals(error.get("message", "") if isinstance(error, Mapping) else str(error), ours, case.args)


def compare_refusals(message: str, ours: Any, args: Any) -> str:
    """Return "" when ours is refused for the recorded reason, else why not.

    It mentions what the recorded sentence says of the arguments. Where that says nothing of them, both sentences are
    of one kind: that both refuse is not enough.
    """
    if not isinstance(ours, Refused):
        return "recorded is an error, ours is not"
    wanted = mentions(message, args)
    missing = [word for word in wanted if word not in ours.message]
    if wanted:
        return f"our error does not mention {', '.join(map(repr, missing))}" if missing else ""
    kinds = {name: mine for name, (theirs, mine) in _KINDS.items() if re.search(theirs, message, re.IGNORECASE)}
    if any(re.search(mine, ours.message, re.IGNORECASE) for mine in kinds.values()):
        return ""
    return f"both refuse, and ours ({ours.message}) is not known to be about the same: {sorted(kinds) or message}"


# What a refusal is about: how the recorded systems say it, and how we do.
_KINDS = {
    "aborted": ("abort|cancel", "abort|cancel"),
    "an empty text": (
        "empty|blank|no command|no files|at least 1|provide a command",
        "empty|blank|at least 1|changes no",
    ),
    "broken text": (
        "invalid|malformed|syntax|parse|not valid|unexpected|first line|last line|begin patch|frontmatter|header",
        "broken|is no |is none|not the beginning|must be|starts with|begins with|line \\d|is not JSON",
    ),
    "a folder": ("EISDIR|directory|not a file|ENOTDIR|EEXIST", "folder"),
    "missing": (
        "ENOENT|not (found|exist)|no such|must have|(could not|cannot|failed to) find|missing|require|mandatory|undef",
        "does not exist|is missing|is required|does not fit|there is no|is no object|one JSON object|starts with",
    ),
    "not permitted": (
        "not available|disabled|denied|not allowed|forbidden|unsupported|not supported|mutually|only one|both",
        "there is no|refused|not allowed|are not run|may not|cannot",
    ),
    "outside": ("escape|outside|traversal|sandbox root", "out of the workspace|outside"),
    "several": ("occurrences|unique|multiple|more than one|ambiguous|duplicate", "times|twice|more than one|several"),
    "the wrong type": (
        "must be|must match|must not (have|be)|expected|should be|invalid|not a |no object|parameters for",
        "must (be|have|fit|match)|should be|is no |is none|not an? |are not|own business|does not match|not allowed",
    ),
}


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _words(value: Any) -> set[str]:
    if isinstance(value, str):
        return {value}
    if isinstance(value, Mapping):
        return set(value).union(*map(_words, value.values()))
    return set().union(*map(_words, value)) if _is_list(value) else set()
