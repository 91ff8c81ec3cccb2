"""Requests about folders: what is in them."""

import re
from typing import Literal

from toolcrib.backends.providers.offline.patterns import Pattern
from toolcrib.backends.providers.offline.tasks import List, Task

from .places import glob_in, is_glob, peeled
from .symbols import COUNTED
from .words import Clause, number_of

__all__ = ["listed"]

_SHOW = (
    r"(?:show|read|print|cat|open|display|view|output|see|type|dump|give|get|look at|look into|look inside|"
    r"inspect|examine|page|less|more|bat|tell|fetch|"
    r"load|present|head|tail|let us see|re-?read|have a look at|take a look at|peek at|check)"
)
_NOUNS = Pattern(
    r"\b(?:files?|folders?|director(?:y|ies)|subfolders?|subdirectories|dirs?|contents?|structure|tree|"
    r"layout|listing|everything|entries|scripts|modules|documents?|hierarchy)\b"
)
_LISTS = Pattern(r"(?:list|ls|dir|tree|enumerate|ll|la)\b")
_ASKS = Pattern(
    rf"(?:what|which|how many|count|number of|{_SHOW}|are there|is there|any|all|name|where|do we have|"
    rf"display|find|the|files|most)\b"
)
_HERE = Pattern(
    r"(?:what|who|anything|something) (?:is|are|do (?:we|you|i) (?:have|see)|have (?:we|you)(?: got)?|lies|"
    r"can you see)(?: (?:there|here|in here|around|this))*|look around|(?:show|list)(?: me)? everything|"
    r"everything|ls|list|dir|tree|ll"
)
_INSIDE = Pattern(
    r"(?:(?:show|list|see|tell|display|print)(?: me| us)? )?(?:what|anything|something|everything|all|which)"
    r"(?: (?:is|are|do|does|we|you|i|can|have|has|lies|lives|find|see|there|exists?|got|stuff|things|that))*"
    r" (?:in|inside|under|within|below) (?:(?:the|my|our|folder|directory) )*(?P<path>P\d+|Q\d+|[a-z_][\w-]*)"
    r"(?: (?:folder|directory|dir|package|subfolder))?"
)
_CONTAINS = Pattern(
    r"(?:what|which) (?:files |(?P<folders>folders |subfolders |directories )|is )?(?:does|do|are|is)? ?(?:the )?"
    r"(?!we\b|you\b|i\b|it\b|they\b)(?P<path>[PQ]\d+|[a-z_][\w-]*)(?: folder| directory| dir)? (?:contain|"
    r"have|hold|include)"
)
_DEEP = Pattern(
    r"\b(?:recursive\w*|recursion|tree|structure|layout|hierarchy|nested|sub ?folders too|(?:including|and|"
    r"with) (?:all )?(?:sub\w+|nested)\b.*|all levels|everything (?:under|below|beneath)|whole|entire|"
    r"deep\w*|-r|at any depth)\b"
)
_SIZE = Pattern(
    r"\b(?:biggest|largest|heaviest|longest|fattest|by size|sizes|most space|(?:larger|bigger|greater|more) than)\b"
)
_TIME = Pattern(
    r"\b(?:newest|latest|most recent(?:ly)?|recent(?:ly)?|last (?:changed|modified|edited|touched)|"
    r"(?:changed|modified|edited|touched) (?:today|yesterday|lately|this \w+)|by "
    r"(?:date|time|age))\b"
)
_FOLDERS = Pattern(r"\b(?:folders?|director(?:y|ies)|dirs|subfolders?|subdirectories)\b")
_FILES = Pattern(r"\bfiles?\b")
_MANNER = Pattern(
    r" ?(?:recursively|only|alphabetically|sorted|by name|one per line|in (?:alphabetical )?order|(?:sorted |"
    r"ordered )?by (?:size|date|time)|there|too)$"
)


def listed(clause: Clause) -> Task | None:
    """Return the folder that a clause asks to see."""
    text, bare = clause.masked, clause
    if found := _CONTAINS.fullmatch(text.rstrip(" ?!.")):
        only: Literal["", "files", "folders"] = "folders" if found["folders"] else ""
        return List(path=clause.group(found, "path"), only=only)
    if text.startswith("recursively "):
        bare = clause.within(len("recursively "), len(text) + 1)
    while (found := _MANNER.search(bare.masked)) and found.start():
        bare = bare.within(0, found.start())
    inner, place = peeled(bare)
    glob = place.glob or glob_in(inner)
    lists, about = _LISTS.match(bare.masked), _NOUNS.search(inner.masked) or _NOUNS.search(text)
    if (
        not lists
        and not (about and _ASKS.match(text))
        and not (glob and (_ASKS.match(text) or inner.masked[1:].isdigit()))
        and not re.fullmatch(r"(?:(?:all|the|\w+est) )*(?:files?|folders?)", inner.masked)
    ):
        if _HERE.fullmatch(inner.masked) and not place.glob:
            return List(path=place.path)
        found = _INSIDE.fullmatch(text)
        return List(path=clause.group(found, "path").rstrip("/")) if found else None
    path = place.path
    if path == "." and (named := _folder(inner)):
        path = named
    if isinstance(path, str) and is_glob(path):
        path, glob = ".", path
    is_named = path == _word(inner) or "contents" in text  # `the docs folder` asks for what is in it
    is_of_folders = _FOLDERS.search(inner.masked) and not _FILES.search(inner.masked)
    only = "folders" if is_of_folders and not glob and not is_named else ""
    numbers = [number_of(token.text) for token in inner.marked("N")]
    by: Literal["", "size", "time"] = "size" if _SIZE.search(text) else "time" if _TIME.search(text) else ""
    single = bool(by) and not re.search(r"\bfiles\b|\bfolders\b", text)
    return List(
        path=path, glob=glob, only=only, deep=bool(_DEEP.search(text)), counted=bool(COUNTED.search(text)),
        by=by, most=numbers[0] if numbers else 1 if single else 0,
    )  # fmt: skip


def _folder(inner: Clause) -> str:
    """Return the folder behind `list` or `ls`, or the one path that is named anywhere."""
    for token in inner.marked("P"):
        if not token.text.startswith(".") or token.text.startswith(("./", "..")):
            return token.text.rstrip("/") or "/"
    return _word(inner)


def _word(inner: Clause) -> str:
    found = re.fullmatch(
        r"(?:list|ls|dir|tree)(?: -\w+)*(?: me)?(?: the)?(?: (?:contents? of|folder|directory))?(?: the)? "
        r"(?P<name>[a-z_][\w-]*)(?: (?:folder|directory|dir))?",
        inner.masked,
    )
    if (
        not found
        or _NOUNS.fullmatch(found["name"])
        or found["name"] in ("all", "here", "everything", "recursively", "it", "them")
    ):
        return ""
    return inner.group(found, "name")
