"""Requests to look for something: a text in files, or a file by its name."""

import re
from dataclasses import replace

from toolcrib.backends.providers.offline.patterns import Pattern
from toolcrib.backends.providers.offline.tasks import List, Names, Search, Task, Way

from .places import Place, glob_in, is_file, is_glob, peeled
from .symbols import COUNTED, definition, name_pattern, usage
from .words import Clause

__all__ = ["RECOUNT", "searched"]

RECOUNT = Search(text="", counted=True)  # `count them`: of what was just looked for

_EXISTS = Pattern(
    r"(?:(?:is|are) there|do (?:we|you|i) have|have we(?: got)?|does|is) (?:(?:a|an|any|the) "
    r")*(?P<file>(?:files?|folders?|director(?:y|ies)) )?"
    r"(?:called |named )?(?P<name>[PGQ]\d+|\w+)(?P<kind> (?:files?|folders?|director(?:y|ies)))?(?: (?:exist|"
    r"exists|here|there|present|somewhere|anywhere))*"
)
_RECOUNT = Pattern(
    r"(?:count|how many|tell (?:me )?how many)(?: (?:the|of|all|are|is|there|them|it|those|these|matches|"
    r"results|hits|lines|occurrences|places))+"
)
_IN_THEM = Pattern(r"\bfiles? (?:(?:that|which) )?(?:have|has|with|contain\w*|mention\w*)\b.* in (?:them|it)$")
_BY_NAME = Pattern(
    r"(?:(?:find|list|show|search|look|locate|get|which|what|give|are there|me|for|all|any|the|every) )*"
    r"(?P<kind>\w+ )?(?:files?|folders?|directories|scripts?|modules?|documents?) (?:(?:that are|which are|is|are) )?"
    r"(?:(?:with|that have|having|containing|have) (?P<one>\S+) in (?:the|their|its) (?:file ?)?names?"
    r"|whose (?:file ?)?names? (?:contains?|has|have|includes?|is|are|matches|start\w* with|begin\w* with|"
    r"end\w* with) (?P<two>\S+)"
    r"|(?:named|called) (?:something )?(?:like )?(?P<three>\S+))(?: (?:in|under|inside) (?:the "
    r")?(?P<path>\S+)(?: folder| directory)?)?"
)
_WHERE_IS = Pattern(r"where (?:the )?(?:file )?(?P<name>\S+) (?:is|lives|lies|sits)(?: located)?")
_SUPERLATIVE = Pattern(
    r"\b(?:biggest|largest|newest|latest|smallest|oldest|longest|most recent(?:ly)?)\b.*\bfiles?\b"
    r"|\bfiles? (?:that are |which are )?(?:larger|bigger|greater|more) than\b"
)
_EVERY_DEFINITION = Pattern(
    r"(?:find|list|show|print|get|give)(?: me| us)? (?:all|every|the) (?:the )?(?:functions|classes|methods|"
    r"definitions)(?: (?:in|of|under|inside) (?:the |this )?.+| here)?"
)
_WHAT_DOES = Pattern(
    r"what (?:does|do|is) (?:the )?(?:function |class |method |module )?"
    r"(?!this\b|it\b|that\b|you\b|we\b|i\b|they\b|the\b)(?P<name>Q\d+|[a-z_][\w.]*(?:\(\))?) (?:do|doing|for|mean)"
)
_SHELL = Pattern(r"(?:grep|rg|ack|ag)(?P<flags>(?: -\w+)*) (?!for\b|the\b|in\b)(?P<text>\S+) (?P<path>[PGQ]\d+|\S+)")
_MARKS = Pattern(r"\b(?P<mark>todo|fixme|hack|xxx)s?\b")
_SEARCH = Pattern(
    r"(?:find|search|grep|rg|ack|ag|locate|look|scan|hunt|seek|query|lookup|check|get|fetch|show|list|give|"
    r"where is|where are)\b(?: -\w+)*(?: (?:me|us))?"
    r"(?: (?:for|up|out|through|around|at))*"
)
_STRICT = Pattern(
    r"(?:find|search|grep|rg|ack|ag|locate|look (?:for|up|through|in|inside|around)|scan|hunt|seek|query|"
    r"lookup|check for)\b"
)
_NAMED = Pattern(
    r"(?:(?:all|the|any|every|a|an|some|which|me) )*(?:files?|folders?|director(?:y|ies)|documents?|scripts?|"
    r"modules?)(?: or (?:folders?|directories))?"
    r" ?(?:(?:that (?:is|are) |which (?:is|are) )?(?:named|called|matching|like)|with (?:the |a )?names?(?: "
    r"like| of| matching)?|whose names? (?:is|are|contains?|has|matches|includes?)|:)"
    r"(?: (?:something )?like)? (?P<name>\S+)"
)
_HOLDING = Pattern(
    r"(?:(?:all|the|any|every|a|an|which|what|me|of|list|show|in|are|there) )*(?:G\d+ |\w+ )?(?:files?|"
    r"lines?|places?|documents?|scripts?|modules?|sources?)(?: (?:in|inside|of) \S+)? "
    r"(?:(?:that |which |where )?(?:contain(?:s|ing)?|mention(?:s|ing)?|includ(?:e|es|ing)|have|has|having|"
    r"us(?:e|es|ing)|say(?:s|ing)?|match(?:es|ing)?|hold(?:s|ing)?|refer(?:s|ring)? to|call(?:s|ing)?|with|"
    r"reads?)"
    r"(?: (?:the )?(?:word|text|string|phrase|term|line|pattern|regex))?) (?P<text>.+)"
)
_LEAD = Pattern(
    r"(?:(?:the|a|an|all|any|every|each|some|of|for|me|lines? with|lines? containing|exact|literal|where|"
    r"occurrences? of|instances? of|mentions? of|references? to|uses? of|usages? of|"
    r"word|text|string|phrase|term|pattern|regex|regexp|regular expression|keyword|content|contents|"
    r"expression|function call|calls? to|:) )+"
)
_REGEX = Pattern(r"\b(?:regex|regexp|regular expression)\b")
_ANY_CASE = Pattern(
    r",? ?\(?\b(?:ignor\w+ (?:the )?case|case[- ]?insensitiv\w+|(?:in )?any case|regardless of case|no "
    r"matter (?:the )?case)\)?|(?<!\w)-i\b"
)


def searched(clause: Clause) -> Task | None:
    """Return what a clause asks to be looked for."""
    if _RECOUNT.fullmatch(clause.masked):
        return RECOUNT
    if _IN_THEM.search(clause.masked):
        clause = Clause(clause.whole, clause.tokens[:-2])
    if exact := _exists(clause) or _shell(clause) or _by_name(clause):
        return exact
    if _EVERY_DEFINITION.fullmatch(clause.masked):
        _, place = peeled(clause)
        return Search(text="", path=place.path, glob=place.glob, way="definitions")
    if _SUPERLATIVE.search(clause.masked):
        return None
    any_case = bool(_ANY_CASE.search(clause.masked))
    if any_case:
        found = _ANY_CASE.search(clause.masked)
        start, end = found.span() if found else (0, 0)
        kept = clause.within(0, start).tokens + clause.within(end, len(clause.masked)).tokens
        clause = Clause(clause.whole, kept)
    if found := _WHAT_DOES.fullmatch(clause.masked):
        return Search(text=clause.group(found, "name").removesuffix("()"), way="defined")
    task = definition(clause) or usage(clause) or _marks(clause) or _looked_for(clause)
    if any_case and isinstance(task, Search):
        return replace(task, any_case=True)
    return task


def _exists(clause: Clause) -> Task | None:
    """Return the file that a clause only asks to be there."""
    found = _EXISTS.fullmatch(clause.masked.rstrip(" ?!."))
    if not found:
        return None
    name, is_kind = clause.group(found, "name"), bool(found["file"] or found["kind"])
    is_named = re.match(r"[PG]\d", found["name"]) and is_file(name)
    glob = glob_in(clause)
    if found["name"] in ("test", "tests"):
        return Names(pattern="*test*")
    return Names(pattern=glob or name_pattern(name)) if is_named or is_kind else None


def _by_name(clause: Clause) -> Task | None:
    """Return the files that have something in their names."""
    if found := _WHERE_IS.fullmatch(clause.masked):
        name = clause.group(found, "name")
        is_named = found["name"].startswith("P") and is_file(name)
        return Names(pattern=name) if is_named else Search(text=name.removesuffix("()"), way="defined")
    found = _BY_NAME.fullmatch(clause.masked)
    if not found:
        return None
    name = next(clause.group(found, each) for each in ("one", "two", "three") if found[each])
    return Names(pattern=name_pattern(name), path=(clause.group(found, "path") or ".").rstrip("/"))


def _shell(clause: Clause) -> Task | None:
    """Return a search as it is written for a shell: the pattern, then the place."""
    found = _SHELL.fullmatch(clause.masked)
    if not found or not (found["flags"] or re.match(r"[PG]\d", found["path"])):
        return None
    text, path = clause.group(found, "text"), clause.group(found, "path")
    place = Place(glob=path) if is_glob(path) else Place(path.rstrip("/") or "/")
    any_case = bool(re.search(r" -\w*i", found["flags"]))
    return Search(text=text, path=place.path, glob=place.glob, any_case=any_case)


def _marks(clause: Clause) -> Task | None:
    found = _MARKS.search(clause.masked)
    if not found or clause.marked("Q"):
        return None
    text = clause.masked
    if not (
        _SEARCH.match(text)
        or COUNTED.search(text)
        or re.match(r"(?:are|is|any|what|which|do|tell|all|open|collect|gather|print|display|see)\b", text)
        or found.start() == 0
    ):
        return None
    inner, place = peeled(clause)
    marks = "|".join(dict.fromkeys(each["mark"].upper() for each in _MARKS.finditer(text)))
    return Search(
        text=marks,
        path=place.path,
        glob=place.glob or glob_in(inner),
        way="regex" if "|" in marks else "text",
        counted=bool(COUNTED.search(text)),
        files=bool(re.search(r"\b(?:which|what) (?:\w+ )?files\b", text)),
    )


def _looked_for(clause: Clause) -> Task | None:
    if held := _holding(clause):
        return held
    strict = _STRICT.match(clause.masked)
    where = re.match(
        r"locate (?:the )?(?:file )?|where (?:is|are|can i find|do i find|could i find|would i find|to "
        r"find)(?: the)?(?: file)? ",
        clause.masked,
    )
    if not strict and not where:
        return None
    inner, place = peeled(clause)
    head = where or _SEARCH.match(inner.masked)
    if not head:
        return None
    rest = inner.within(min(head.end() + (not where), len(inner.masked)), len(inner.masked) + 1)
    if not rest:
        # `search src for foo` names the place first
        return None
    return _named(clause, rest, place) or _text(clause, rest, place, is_where=bool(where))


def _holding(clause: Clause) -> Task | None:
    head = _SEARCH.match(clause.masked)
    text = clause.within(head.end() + 1, len(clause.masked) + 1) if head else clause
    inner, place = peeled(text)
    found = _HOLDING.fullmatch(inner.masked)
    if not found or re.match(r"(?:the |an? )?(?:extension|suffix|ending|names?)\b", found["text"]):
        return None
    words = _bare(inner.within(*found.span("text")))
    glob = place.glob or glob_in(inner.within(0, found.start("text")))
    return (
        Search(text=words, path=place.path, glob=glob, files=_is_of_files(inner), way=_way(clause)) if words else None
    )


def _named(clause: Clause, rest: Clause, place: Place) -> Task | None:
    """Return the file that is looked for by its name."""
    text = rest.masked
    if found := _NAMED.fullmatch(text):
        return Names(pattern=name_pattern(rest.group(found, "name")), path=place.path)
    if re.match(r"(?:-\w+ )*(?:grep|rg|ack|ag)\b", clause.masked):
        return None
    glob = glob_in(rest)
    if glob and (
        len(rest.tokens) == 1
        or re.search(r"\b(?:files?|scripts?|modules?|code|sources?|documents?|match\w*)\b", text)
        or re.fullmatch(r"(?:(?:all|the|any|every|each) )*G\d+(?: files?)?", text)
    ):
        return Names(pattern=glob, path=place.path)
    plain = re.fullmatch(
        r"(?:(?:all|the|any|every|a|an|my|file|files|folder|directory) )*(?P<name>[PQ]\d+|\w[\w-]*)(?P<kind> "
        r"(?:files?|folder|directory|module|script))?",
        text,
    )
    if not plain:
        return (
            List(path=place.path, deep=True)
            if re.fullmatch(r"(?:(?:all|the|any|every) )*(?:files?|folders?)", text)
            else None
        )
    name = rest.group(plain, "name")
    token = rest.within(*plain.span("name")).tokens[0]
    says_file = bool(plain["kind"]) or bool(re.search(r"\b(?:file|folder|directory)\b", text))
    if says_file or (token.mask.startswith("P") and is_file(name) and not place.glob):
        return Names(pattern=name_pattern(name), path=place.path)
    return None


def _text(clause: Clause, rest: Clause, place: Place, *, is_where: bool) -> Task | None:
    split = re.fullmatch(
        r"(?:(?:in|inside|through|the|this|my|our|whole|entire|all|every|files?|folder|directory) "
        r")*(?P<place>[PGQ]\d+|\w+)(?: (?:folder|files?|directory))? for (?P<text>.+)",
        rest.masked,
    )
    if split and place == Place():
        named = rest.group(split, "place")
        here = re.fullmatch(r"(?:code|codebase|repo|repository|project|files|everything|here|it)", split["place"])
        place = Place() if here else Place(glob=named) if is_glob(named) else Place(named)
        rest = rest.within(*split.span("text"))
    words = _bare(rest)
    if not words:
        return None
    if is_where:
        is_name = re.fullmatch(r"[\w.]+(?:\(\))?", words)
        name = words.removesuffix("()")
        return Search(text=name, path=place.path, glob=place.glob, way="defined") if is_name else None
    return Search(text=words, path=place.path, glob=place.glob, way=_way(clause))


def _is_of_files(clause: Clause) -> bool:
    return bool(re.search(r"\b(?:files?|documents?|scripts?|modules?|sources?)\b", clause.masked))


def _way(clause: Clause) -> Way:
    return "regex" if _REGEX.search(clause.masked) else "text"


def _bare(rest: Clause) -> str:
    """Return the text that is searched for, without the words that only lead to it."""
    quoted = rest.marked("Q")
    if len(quoted) == 1:
        return quoted[0].text
    lead = _LEAD.match(rest.masked)
    return (rest.within(lead.end(), len(rest.masked) + 1) if lead else rest).raw.strip()
