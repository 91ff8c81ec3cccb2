"""Requests about files that are named or pointed at: their text, and what can be told of them."""

import re
from dataclasses import replace

from toolcrib.backends.providers.offline.answers import MOST
from toolcrib.backends.providers.offline.patterns import Pattern
from toolcrib.backends.providers.offline.tasks import Compare, List, Pointing, Read, Search, Target, Task, View

from .places import glob_in, is_file, is_glob, pointed
from .symbols import COUNTED
from .words import Clause, number_of, range_of

__all__ = ["about_files", "shown"]

_SHOW = (
    r"(?:show|read|print|cat|open|display|view|output|see|type|dump|give|get|look at|look into|look inside|"
    r"inspect|examine|page|less|more|bat|tell|fetch|"
    r"load|present|head|tail|let us see|re-?read|have a look at|take a look at|peek at|check)"
)
_SHOWS = Pattern(rf"{_SHOW}\b")
_SAYS = Pattern(
    r".*\b(?:what|which)\b.*\b(?:says?|is in|is inside|are in|contains?|written|has|holds?|looks? like|"
    r"content of|contents of)\b.*|(?:the )?contents? of\b.*|what is (?:the )?(?:P\d+|Q\d+|content.*)"
)
_VIEWS: tuple[tuple[View, str], ...] = (
    ("headings", r"\b(?:headings?|headers?|headlines?|sections?|chapters?|titles?|table of contents|toc|outline)\b"),
    ("dependencies", (
        r"\b(?:depend(?:s|ed)?(?: up)?on|dependenc(?:y|ies)|depends? on|requirements|requires?|third[- ]party|"
        r"libraries)\b|\bdepend on\b"
    )),
    ("lines", (
        r"\b(?:how many|count|number of|counts?)\b.{0,25}\blines?\b|\bline ?count\b|\bhow long (?:is|are)\b|"
        r"\blines? (?:does|do|are|of code)\b|\bwc -l\b"
    )),
    ("words", r"\b(?:how many|count|number of)\b.{0,25}\bwords?\b|\bword ?count\b|\bwc -w\b|^wc\b"),
    ("characters", (
        r"\b(?:how many|count|number of)\b.{0,25}\b(?:char\w*|letters?|bytes?)\b|\bhow (?:big|large) (?:is|"
        r"are)\b|\b(?:size|length) of\b|\bwc -[cm]\b"
    )),
    ("summary", (
        r"\b(?:summar[iy]\w*|sum(?:s|med)? up|digest|describe|overview|explain|tl;?dr|tldr|gist|about|key points|"
        r"main points|in short|in brief|briefly|purpose of|abstract|outlines?)\b|\bwhat (?:does|do) [PQ]\d+ do\b|"
        r"\bwhat is [PQ]\d+ for\b"
    )),
    ("version", r"\bversion\b"),
)  # fmt: skip
_VIEW_PATTERNS = tuple((view, Pattern(pattern)) for view, pattern in _VIEWS)
_PROJECT = Pattern(
    r"\b(?:this|the|my|our|your) (?:\w+ )?(?:project|repo|repository|codebase|code base|app|application|"
    r"package|program|library|folder|directory|workspace|code)\b|\bthis(?: all)? about\b|\bwhat is (?:this|"
    r"it)\b"
)
_VERSION = Pattern(r"(?:(?:what|which|show|tell)(?: me)? (?:is )?)?(?:the )?(?:current )?version(?: number)?")
_NEXT = Pattern(
    r"(?:(?:what|how) about )?the (?:first|second|third|fourth|fifth|last)(?: (?:file|one|match|result|hit))?"
)
_DEFINITIONS = Pattern(r"\b(?:functions|classes|methods|definitions|symbols|function names|class names)\b")
_IMPORTS = Pattern(r"\bimports?\b|\bimport statements\b|^what is imported\b")
_COMPARE = Pattern(
    r"\b(?:compare|comparison|diff|differ|differs|difference|differences|different|same|identical|equal|"
    r"equals|match each other)\b"
)
_FIRST = Pattern(
    r"\b(?:first|top|initial|leading|opening)(?: (?P<count>N\d+))? (?:few )?lines?\b|\bhead (?:-n |"
    r"-)?(?P<head>N\d+|-\d+)|\b(?P<only>N\d+) lines (?:of|from)\b"
)
_LAST = Pattern(
    r"\b(?:last|final|bottom|closing|ending)(?: (?P<count>N\d+))? (?:few )?lines?\b|\btail (?:-n |"
    r"-)?(?P<head>N\d+|-\d+)"
)
_TOP = Pattern(r"\b(?:head|start|beginning|top|begin)\b(?! level)")
_END = Pattern(r"\b(?:tail|end|bottom)\b")
_LINES = Pattern(
    r"\blines? (?:(?P<range>R\d+)|(?P<one>N\d+) ?(?:to|-|–|through|thru|until|till|and|up to) ?(?:lines? "
    r")?(?P<other>N\d+)|(?:number )?(?P<only>N\d+))|\b(?:from )?line (?P<since>N\d+)"
)
_DASHED = Pattern(r"(?P<path>.+?):(?P<one>\d+)(?:-(?P<other>\d+))?")
_SEVERAL = Pattern(r"\b(?:files|folders|directories|subfolders)\b")
_LINES_WITH = Pattern(
    r"\blines? (?!(?:has|have) P\d+$)(?:(?:that|which|do|does) )?"
    r"(?:contain|mention|match|includ|have|has|with|say|start|end)\w*\b"
)
_READS = Pattern(r"(?:read|cat|print|open|dump|output)\b|.*\bcontents?\b")
_NO_NAMES = Pattern(
    r"(?:files?|folders?|director(?:y|ies)|everything|all|here|contents?|structure|tree|layout|it|more|help|me)"
)
_SOME, _FEW, _AROUND = 10, 5, 6
_NOUNS = Pattern(
    r"\b(?:files?|folders?|director(?:y|ies)|subfolders?|subdirectories|dirs?|contents?|structure|tree|"
    r"layout|everything|entries|scripts|modules|documents?|hierarchy)\b"
)


def about_files(clause: Clause) -> Task | None:
    """Return what is asked about files: their headings, length, definitions, how they differ."""
    text = clause.masked
    targets = _targets(clause)
    if _COMPARE.search(text) and (
        len(targets) > 1
        or targets == (Pointing(everything=True),)
        or re.fullmatch(r"(?:compare|diff)(?: .{0,12})?", text)
    ):
        return Compare(targets=targets or (Pointing(everything=True),))
    if _LINES_WITH.search(text):
        return None
    view = next((view for view, pattern in _VIEW_PATTERNS if pattern.search(text)), None)
    if targets and isinstance(targets[0], str) and not is_glob(targets[0]) and not targets[0].endswith("/"):
        if _DEFINITIONS.search(text) and not re.search(r"\bcalled|named\b", text):
            return Search(text="", path=targets[0], way="definitions", counted=bool(COUNTED.search(text)))
        if _IMPORTS.search(text) and is_file(targets[0]):
            return Search(text="", path=targets[0], way="imports")
    if view == "version" and not (
        targets or _PROJECT.search(text) or re.search(r"\bversion (?:is|are)\b", text) or _VERSION.fullmatch(text)
    ):
        return None
    if view is None or (not targets and view not in ("dependencies", "summary", "version")):
        return _project(text) if not targets else None
    if not targets and view == "summary" and not _PROJECT.search(text):
        return None
    if (
        not targets
        and view == "dependencies"
        and not re.match(
            r"(?:what|which|list|show|tell|print|display|get|give|the|dependencies|our|all|does|read|how many)\b", text
        )
    ):
        return None
    # `its dependencies` are those of the project, unless a file was named
    is_whole = view in ("dependencies", "version") and bool(targets) and isinstance(targets[0], Pointing)
    return Read(targets=() if is_whole else targets, view=view)


def _project(text: str) -> Task | None:
    if re.search(r"\b(?:contain|hold|have)\b", text):
        return None
    if re.fullmatch(
        r"what (?:is|does|are) (?:this|the|it|our|my)(?: \w+){0,3}(?: (?:do|for|about))?|.*\babout this\b.*|"
        r"where are we",
        text,
    ) and (_PROJECT.search(text) or text.endswith((" do", " about", " for"))):
        return Read(view="summary")
    return None


def shown(clause: Clause) -> Task | None:
    """Return the file, or the part of one, that a clause asks to see."""
    text = clause.masked
    targets = _targets(clause)
    part = _part(clause)
    is_part = part != Read()
    if not targets and (
        word := re.fullmatch(
            rf"{_SHOW}(?: me| us)?(?: the| my| our)?(?: (?:file|contents? of|content of|whole))*(?: the)? "
            rf"(?P<name>[a-z_][\w-]*)(?: (?:file|folder|directory))?",
            text,
        )
    ):
        targets = () if _NO_NAMES.fullmatch(word["name"]) else (clause.group(word, "name"),)
    if not targets or (isinstance(targets[0], str) and is_glob(targets[0]) and not _READS.match(text)):
        return None
    if (
        isinstance(targets[0], str)
        and _SEVERAL.search(text)
        and not is_part
        and len(targets) == 1
        and "." not in targets[0]
    ):
        return None
    is_bare = not re.sub(r"[PQGR]\d+|[,.?!]|\band\b|\s", "", text) or _NEXT.fullmatch(text)
    if not (_SHOWS.match(text) or _SAYS.fullmatch(text) or is_bare or is_part):
        return None
    first = targets[0]
    if isinstance(first, str):
        if first.endswith("/") or first in (".", ".."):
            return List(path=first.rstrip("/") or first)
        if (dashed := _DASHED.fullmatch(first)) and not is_part:
            one = int(dashed["one"])
            part = Read(start=max(1, one), end=int(dashed["other"] or one + _AROUND))
            targets = (dashed["path"],)
    return replace(part, targets=targets)


def _targets(clause: Clause) -> tuple[Target, ...]:
    """Return the files that a clause names, else the one it points at."""
    named = [
        token.text
        for token in clause.tokens
        if token.mask[1:].isdigit()
        and not re.search(rf"\b{token.mask} files?\b", clause.masked if token.text.startswith(".") else "")
        and (token.mask[0] in "PG" or (token.mask[0] == "Q" and _is_name(token.text)))
    ]
    if (
        not named
        and (glob := glob_in(clause))
        and re.search(r"\b(?:read|cat|print|open|summari\w+|contents)\b", clause.masked)
    ):
        named = [glob]
    if named:
        return tuple(dict.fromkeys(named))
    there = pointed(clause.masked)
    return (there,) if there else ()


def _is_name(text: str) -> bool:
    """Tell whether what was quoted may be a file: a word, or several with an ending."""
    return bool(text) and (not re.search(r"\s", text) or re.fullmatch(r"[^\n]*\S\.\w{1,8}", text) is not None)


def _part(clause: Clause) -> Read:
    """Return which lines are asked for."""
    text = clause.masked
    if found := _LINES.search(text):
        if found["range"]:
            one, other = range_of(clause.group(found, "range"))
        else:
            one = number_of(clause.group(found, "one") or clause.group(found, "only") or clause.group(found, "since"))
            other = number_of(clause.group(found, "other")) if found["other"] else _onward(one, text)
        return Read(start=max(1, min(one, other)), end=max(1, one, other))
    for name, pattern, word in (("last", _LAST, _END), ("first", _FIRST, _TOP)):
        if found := pattern.search(text):
            counts = [clause.group(found, group) for group in found.groupdict() if found[group]]
            default = 1 if found[0].endswith("line") else _FEW if "few" in found[0] else _SOME
            return _lines(name, max(1, number_of(counts[0].lstrip("-"))) if counts else default)
        if word.search(text) and not _NOUNS.search(text):
            return _lines(name, _SOME)
    return Read()


def _onward(line: int, text: str) -> int:
    """Return the last line that is meant by one number: `from line 5` goes on for a page."""
    return (
        line + MOST - 1 if re.search(r"\b(?:from|since|starting (?:at|with)|after) line\b|\bonwards?\b", text) else line
    )


def _lines(end: str, count: int) -> Read:
    return Read(last=count) if end == "last" else Read(first=count)
