"""Where something is to be done: folders, kinds of files, and files that are only pointed at."""

import re
from dataclasses import dataclass

from toolcrib.backends.providers.offline.patterns import Pattern
from toolcrib.backends.providers.offline.tasks import Pointing, Target

from .words import FILE_ENDINGS, Clause, words

__all__ = ["KINDS", "Place", "glob_in", "is_file", "is_glob", "peeled", "pointed"]

_LANGUAGES = {
    "python": "*.py", "markdown": "*.md", "javascript": "*.js", "typescript": "*.ts", "rust": "*.rs", "golang": "*.go",
    "ruby": "*.rb", "shell": "*.sh", "bash": "*.sh", "text": "*.txt", "yaml": "*.{yaml,yml}", "java": "*.java",
    "kotlin": "*.kt", "swift": "*.swift", "php": "*.php", "notebook": "*.ipynb", "jupyter": "*.ipynb",
    "html": "*.{html,htm}", "c++": "*.{cpp,cc,hpp,h}", "cpp": "*.{cpp,cc,hpp}",
    "image": "*.{png,jpg,jpeg,gif,webp,svg}",
    "picture": "*.{png,jpg,jpeg,gif,webp,svg}", "config": "*.{toml,yaml,yml,json,ini,cfg,conf}",
    "configuration": "*.{toml,yaml,yml,json,ini,cfg,conf}", "documentation": "*.{md,rst,txt}", "doc": "*.{md,rst,txt}",
    "test": "*test*",
}  # fmt: skip
_ONE_LETTER = frozenset({"c", "h", "r", "go"})
_LIKELY = frozenset(FILE_ENDINGS - {"in", "out", "text", "example", "sample", "template", "env", "lock", "log", "r"})
_LANGUAGE = "|".join(sorted((re.escape(each) for each in (*_LANGUAGES, *_LIKELY, *_ONE_LETTER)), key=len, reverse=True))

_FILES = r"(?:source |code |text )?(?:files?|sources?|modules?|scripts?|code|documents?|docs?|notebooks?|ones?)"
KINDS = Pattern(rf"\b(?P<kind>{_LANGUAGE})(?:s|-)? {_FILES}(?! (?:named|called)\b)|(?P<dotted>P\d+) files?\b")
_ENDING = Pattern(
    r"(?:\bfiles? )?\b(?:(?:that |which )?end(?:ing|s)? (?:in|with|on)|(?:with|having|of|by) (?:the |an? )?"
    r"(?:file )?(?:extension|suffix|ending|type))(?: of| is)? (?P<ending>[PGQ]\d+|\w+)"
)
_OPENING = Pattern(
    r"(?:\bfiles? )?\b(?:that |which |whose names? )?(?:start(?:ing|s)?|begin(?:ning|s)?) with "
    r"(?P<opening>[PGQ]\d+|\w+)"
)

_ORDINALS = {
    "first": 0,
    "1st": 0,
    "top": 0,
    "second": 1,
    "2nd": 1,
    "third": 2,
    "3rd": 2,
    "fourth": 3,
    "fifth": 4,
    "last": -1,
}
_THINGS = r"(?:file|one|match|result|hit|entry|place|item|line|script|document)"
_POINTED = Pattern(
    rf"\bthe (?P<nth>{'|'.join(_ORDINALS)})(?: of (?:them|these|those))?(?: (?P<thing>{_THINGS}|of (?:them|"
    rf"these|those))\b)?"
    r"|\b(?P<all>them|these(?: files| ones)?|those(?: files| ones)?|both(?: files)?|(?:all|each|every one) "
    r"of (?:them|these|those)|the two(?: files)?|the results)\b"
    rf"|\b(?P<one>it|its|this {_THINGS}|that {_THINGS}|the same (?:file|one)|the file|the code|the "
    rf"definition|the result|the match)\b"
)

_ARTICLES = r"(?:(?:the|this|that|my|our|your|all|of|every|any|each|whole|entire|current|these|those|a|an) )*"
_NOUNS = r"(?:folder|directory|dir|path|package|subfolder|subdirectory|sub-folder)"
_HERE = (
    r"(?:here|(?:working |root |project |source |git )?(?:folder|directory|dir|repo|repository|project|"
    r"codebase|code base|"
    r"workspace|tree|checkout|package|code|sources?)|source code|source tree|everywhere|anywhere|everything|files|root)"
)
_NAME = r"(?:[PQG]\d+|[a-z_][\w-]*)"
_NO_FOLDERS = words(
    "here order general detail details total particular short english brief git it them there case mind "
    "which what that "
    "this parallel reverse full depth python a the an and or use"
)
_PLACE = Pattern(
    rf"(?P<before>.*) ?\b(?:in|inside|under|underneath|within|from|of|below|beneath|at|through|throughout|"
    rf"across|into|over|on)"
    rf" {_ARTICLES}(?:(?P<here>{_HERE})|(?:(?P<language>{_LANGUAGE})s?(?: {_FILES})|(?P<dotted>P\d+) files?)"
    rf"|(?P<pointing>it|them|(?:same |first |second |last )?(?:file|one))"
    rf"|(?:(?:{_NOUNS}|files?|module) (?:called |named )?)?(?P<name>{_NAME})(?: (?:{_NOUNS}|files?|module))?)$"
)

_IS_ENDING = Pattern(r"\b(?:end(?:ing|s)?|start(?:ing|s)?|begin(?:ning|s)?) ?$")


@dataclass(frozen=True, slots=True)
class Place:
    """A folder or file, and which files in it."""

    path: Target = "."
    glob: str = ""


def is_glob(text: str) -> bool:
    """Tell whether a name stands for several."""
    return any(mark in text for mark in "*?[{")


def is_file(text: str) -> bool:
    """Tell whether a text looks like the name of a file rather than like code with dots in it."""
    name = text.rpartition("/")[2]
    bare, dot, ending = name.partition(":")[0].rpartition(".")
    return "/" in text or not dot or ending.lower() in FILE_ENDINGS or not bare


def peeled(clause: Clause) -> tuple[Clause, Place]:
    """Return the clause without the places named at its end, and what they come to."""
    path: Target = "."
    glob = ""
    while found := _PLACE.fullmatch(clause.masked):
        name = clause.group(found, "name")
        if (name and found["name"] in _NO_FOLDERS) or _IS_ENDING.search(found["before"]):
            break
        if found["language"]:
            glob = glob or glob_of(found["language"])
        elif found["dotted"]:
            kind = clause.group(found, "dotted")
            path, glob = (path, glob or glob_of(kind)) if kind.startswith(".") else (kind, glob)
        elif found["pointing"]:
            path = pointed(f"the {found['pointing']}" if " " in found["pointing"] else found["pointing"]) or Pointing()
        elif name and is_glob(name):
            folder, _, last = name.rpartition("/")
            if folder and not is_glob(folder):
                path, glob = folder, last
            else:
                glob = name
        elif name:
            path = name if path == "." else path
        clause = clause.within(0, len(found["before"]))
    return clause, Place(path.rstrip("/") or "/" if isinstance(path, str) else path, glob)


def glob_of(word: str) -> str:
    """Return the glob for a language, or for the ending of a name."""
    low = word.lower().lstrip("*.")
    return _LANGUAGES.get(low) or f"*.{low}"


def glob_in(clause: Clause) -> str:
    """Return the glob that a clause names anywhere, empty when there is none."""
    for token in clause.marked("G"):
        return token.text
    text = clause.masked
    if found := _ENDING.search(text):
        return glob_of(clause.group(found, "ending"))
    if found := _OPENING.search(text):
        return f"{clause.group(found, 'opening')}*"
    if found := KINDS.search(text):
        kind = found["kind"] or clause.group(found, "dotted")
        return glob_of(kind) if found["kind"] or kind.startswith(".") else ""
    return ""


def pointed(text: str) -> Pointing | None:
    """Return what a masked text points at without naming it."""
    found = _POINTED.search(text)
    if not found:
        return None
    if found["all"]:
        return Pointing(everything=True)
    if found["nth"]:
        return Pointing(at=_ORDINALS[found["nth"]], whole=found["thing"] in ("file", "script", "document"))
    return Pointing()
