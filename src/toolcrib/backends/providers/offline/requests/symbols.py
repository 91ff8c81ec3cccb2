"""Requests about a name in code: where it is defined, and what uses it."""

import re

from toolcrib.backends.providers.offline.patterns import Pattern
from toolcrib.backends.providers.offline.tasks import Names, Search, Task, Way

from .places import Place, glob_in, is_file, is_glob, peeled
from .words import Clause, Token, words

__all__ = ["COUNTED", "definition", "name_pattern", "usage"]

COUNTED = Pattern(r"\b(?:how many|how often|count|number of|how much)\b")
_KIND = (
    r"(?:functions?|class(?:es)?|methods?|symbols?|variables?|constants?|structs?|enums?|traits?|interfaces?|"
    r"types?|macros?|fn|def|func|"
    r"identifiers?|attributes?|decorators?|fixtures?|routes?|components?|protocols?|dataclass)"
)
_DEFINES = Pattern(
    r"\b(?:defin\w+|declar\w+|implement\w*|def of|come from|comes from|(?:code|source|body|signature) of|"
    r"assigned|initiali[sz]ed|set(?=$| (?:in|to)\b))\b"
)
_SEEK = Pattern(
    r"(?:find|locate|search|where|look|show|see|open|read|print|go|goto|jump|display|which|what|in which|"
    r"view|get|tell|grep|is there|do we have)\b"
)
_OF_KIND = Pattern(
    rf"\b{_KIND} (?:called |named )?(?!in\b|of\b|are\b|is\b|do\b|does\b|from\b|there\b|defined\b)(?:Q\d+|"
    rf"P\d+|\w+(?:\(\))?)|\b(?:Q\d+|P\d+|[\w.]+(?:\(\))?) {_KIND}\b"
)
_USES = Pattern(
    r"\b(?:us(?:e|es|ed|ing|age|ages)|call(?:s|ing|ers?)?|called(?= (?:from|by|in|within|at)\b|$)|times|"
    r"often|matches (?:for|of)|hits for|referenc\w+|refer(?:s|red)? to|mention\w*|occur\w*|appear\w*|"
    r"import(?:s|ed|ing)?|depends? on|contain\w*|include[sd]?|invoke[sd]?)\b"
)
_USED = Pattern(
    r"\b(?:us(?:e|es|ed|ing|ages?)|calls|callers?|imports?|referenc\w+|mention\w*|occur\w*|appear\w*)\b|\bcalled$"
)
_LIVES = Pattern(
    r"(?!.*(?:est|recent|recently)\b)(?:in )?(?:which|what) (?:file|module) (?:is|does|has|contains|holds)\b"
    r"(?! in\b| there\b).*"
)
# `find files that use foo` asks for files
_SEEKS_FILES = Pattern(
    r"(?:find|search|grep|rg|locate|look)\b.*\b(?:files?|lines?|documents?|scripts?|modules?)"
    r" (?:that|which|with|where|\w+ing)\b"
)
_TELLS = Pattern(r"[PQ]\d+ (?:mentions?|contains?|has|uses?|includes?|imports?|says?)\b")
_ASKS = Pattern(
    r"(?:who|where|which|what|find|show|list|is|are|does|do|how|count|search|look|grep|locate|in which|any|"
    r"all|usages?|references?|callers?|occurrences?|mentions?|number|tell|see|get)\b"
)
_FILLERS = words(
    "where is are was were be been the a an of in on at to for from by with do does did we you i they it its this "
    "that these those there here which what who whom how many much often times time file files line lines place "
    "places module modules folder code codebase repo repository project find show me us tell list locate search grep "
    "look see open read print go goto jump display view get give count number can could would should any all every "
    "each some defined define defines definition definitions definining declared declare declares declaration "
    "implemented implement implements implementation come comes located live lives used use uses using usage usages "
    "call calls called caller callers calling reference references referenced referring refer refers mention mentions "
    "mentioned occur occurs occurrence occurrences appear appears appeared import imports imported importing depend "
    "depends contain contains contained containing include includes included invoke invokes invoked written present "
    "found word text string phrase symbol symbols function functions class classes method methods variable variables "
    "constant constants struct structs enum enums trait traits interface interfaces type types macro macros fn def "
    "func identifier identifiers attribute decorator component protocol dataclass name named else up out "
    "match matches hits results result exactly anywhere "
    "everywhere somewhere and or our my your still ever actually also currently have has exist exists gets being "
    "happen happens keyword term if whether then please"
)


def definition(clause: Clause) -> Task | None:
    text = clause.masked
    if not _SEEK.match(text) and not re.match(
        r"(?:the )?(?:definition|declaration|implementation)\b|who (?:defines|declares|implements)", text
    ):
        return None
    inner, place = peeled(clause)
    if not (
        _DEFINES.search(text)
        or (_OF_KIND.search(inner.masked) and not _USED.search(text))
        or _LIVES.fullmatch(inner.masked)
    ):
        return None
    if (
        clause.marked("P")
        and isinstance(place.path, str)
        and is_file(place.path)
        and "." in place.path
        and not symbol_in(inner)
    ):
        return None
    # `the definition of foo`: what looks like a place is the symbol
    symbol = symbol_in(inner) or symbol_in(clause)
    if not symbol:
        return None
    if symbol == place.path:
        place = Place(".", place.glob)
    return Search(text=symbol, path=place.path, glob=place.glob, way="defined")


def usage(clause: Clause) -> Task | None:
    text = clause.masked
    if re.fullmatch(r"what (?:does|do)\b.*\b(?:contain|include|have)", text):
        return None
    if not _USES.search(text) or not (_ASKS.match(text) or _TELLS.match(text)) or (_SEEKS_FILES.match(text)):
        return None
    inner, place = peeled(clause)
    named = [token for token in inner.marked("P") if is_file(token.text)]
    others = [token for token in inner.tokens if token not in named]
    if place == Place() and named and symbol_in(Clause(inner.whole, tuple(others))):
        # `does README.md mention foo`: the file is where to look
        place = Place(named[0].text)
        inner = Clause(inner.whole, tuple(token for token in inner.tokens if token is not named[0]))
    symbol = symbol_in(inner) or symbol_in(clause)
    if (
        symbol
        and is_file(symbol)
        and "." in symbol
        and re.match(r"(?:in )?(?:which|what) (?:folder|directory)\b", text)
    ):
        return Names(pattern=name_pattern(symbol))
    if (
        symbol
        and is_file(symbol)
        and re.match(r"what\b", text)
        and any(token.text == symbol for token in clause.marked("P"))
    ):
        return None
    if not symbol or (is_file(symbol) and "." in symbol and re.search(r"\bimports?\b", text) and not place.glob):
        return None
    if symbol == place.path:
        place = Place(".", place.glob)
    glob = place.glob or glob_in(inner)
    way: Way = "imported" if re.search(r"\bimport", text) and " " not in symbol else "word"
    if re.search(r"\b(?:contain|mention|say|includ)", text) or not re.fullmatch(r"[\w.]+", symbol):
        way = "text"
    return Search(
        text=symbol,
        path=place.path,
        glob=glob,
        way=way,
        counted=bool(COUNTED.search(text)),
        files=bool(re.search(r"\b(?:which|what) (?:\w+ )?files?\b", text)),
    )


def symbol_in(clause: Clause) -> str:
    """Return the name a clause is about: quoted, or looking like code, or the one word that says anything."""
    quoted = clause.marked("Q")
    if quoted:
        return quoted[0].text.removesuffix("()")
    left = [
        token
        for token in clause.tokens
        if not set(token.mask.split()) <= _FILLERS
        and token.mask[:1] != "G"
        and not re.fullmatch(r"\W+|\d+|-\w+", token.text)
    ]
    if not left:
        return ""
    best = max(left, key=_codeness)
    return best.text.removesuffix("()").strip("()").removesuffix("'s")


def _codeness(token: Token) -> tuple[bool, int]:
    text = token.text
    likely = "_" in text or "(" in text or any(char.isupper() for char in text[1:]) or token.mask.startswith("P")
    return likely, -token.start


def name_pattern(name: str) -> str:
    """Return the glob for a name: as it is when it has an ending, else anything that has it in it."""
    return name if is_glob(name) or "." in name or "/" in name else f"*{name}*"
