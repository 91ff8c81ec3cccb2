"""Requests that change files: write, append, replace, copy, rename; and what is refused, to delete."""

import re
import shlex

from toolcrib.backends.providers.offline.patterns import Pattern
from toolcrib.backends.providers.offline.tasks import Pointing, Refuse, Replace, Run, Target, Task, Write

from .commands import refusal
from .words import Clause, number_of, range_of

__all__ = ["change"]

_PATH = r"(?P<path>[PQ]\d+|it|that file|the file|the same file)"
_FILE = (
    r"(?:(?:a|an|the|another|my|this|some) )?(?:new |existing )?(?:empty |blank )?(?:text |markdown |python |"
    r"json |config |plain )?(?:file ?)?(?:(?:called|named|with (?:the )?name|at|,|:) )?"
)
_KIND = (
    r"(?:(?:the|a|an|this|these|some|only|just|as|its|new|another|single) )*(?:following )?(?:single "
    r")?(?:content|text|line|word|"
    r"string|message|body|sentence|phrase|words|lines|contents)?(?: (?:of|saying|that says|reading|is))?(?: ?:)? "
    r"?"
)
_WITH = (
    r"(?:with|containing|contains|holding|having|saying|(?:that|which) (?:says?|contains?|reads?|has|have|"
    r"holds?|states?|just says|only says)|whose (?:content|text|body|contents) (?:is|are|should be)"
    r"|and (?:put|write|add|place|insert)|:|=)"
)
_APPEND = (
    Pattern(
        rf"(?:append|add|attach|insert) {_KIND}(?P<text>.+?) (?:to|into|at|onto|in) (?:the )?(?:(?:very "
        rf")?(?:end|bottom|tail) )?(?:of )?(?:the )?(?:file )?{_PATH}(?: file)?"
    ),
    Pattern(
        rf"(?:append|add) (?:to|at) (?:the )?(?:(?:end|bottom) )?(?:of )?(?:the )?(?:file )?{_PATH}(?: "
        rf"?[:,])? {_KIND}(?P<text>.+)"
    ),
    Pattern(
        rf"(?:to|at) (?:the )?(?:(?:end|bottom) )?(?:of )?(?:the )?(?:file )?{_PATH} ,? ?(?:append|add) "
        rf"{_KIND}(?P<text>.+)"
    ),
)
_PUT = Pattern(
    rf"(?:write|put|save|store|place|dump|echo|output|insert|enter) {_KIND}(?P<text>.+?) (?:in|into|to|as|"
    rf"inside|under|>|on) {_FILE}{_PATH}(?: file)?(?: (?:and |then )?(?:overwrite|replace) .{{0,20}})?"
)
_CREATE = Pattern(
    rf"(?:create|make|write|generate|add|start|save|produce|set up|build|overwrite|prepare|open|fill|new|"
    rf"touch)(?: me| us)? {_FILE}{_PATH}(?: file)? ?,? ?{_WITH} ?{_KIND}(?P<text>.+?)(?: (?:in|inside) (?:it|"
    rf"there))?"
)
_INTO = Pattern(
    rf"(?:write|put|save|store|place)(?: (?:this|that|the following))?(?: text| content)? (?:in|into|to) "
    rf"{_FILE}{_PATH} ?[:,]? {_KIND}(?P<text>.+)"
)
_EMPTY = Pattern(
    rf"(?:create|make|touch|add|new|start|generate|write)(?: me)? {_FILE}{_PATH}(?: file)?(?: (?:that is |"
    rf"and leave it )?(?:empty|blank))?"
)

_SWAP = r"(?:replace|substitute|swap|exchange|change|rename|turn|convert|update|correct|modify|alter|switch|sed|fix)"
_EVERY = (
    r"(?:(?:all|every|each|any)(?: (?:the|of the))?(?: (?:occurrences?|instances?|places?|uses?|mentions?))?(?: "
    r"of)? )?(?:the )?(?P<once>(?:first |only )(?:occurrence of |place of |one )?|one )?(?:occurrences? of "
    r")?(?:word |text |string |line |name |phrase |variable |function |passage |typo |number |value )?"
)
_TO = r"(?:with|by|to|into|for|as|->|=>|→|through)(?: (?:the )?(?:word|text|string|line|phrase))?"
_REPLACE = (
    Pattern(rf"{_SWAP} {_EVERY}(?P<old>.+?) (?:in|inside) (?:the )?(?:file )?{_PATH}(?: file)? {_TO} (?P<new>.+)"),
    Pattern(
        rf"{_SWAP} {_EVERY}(?P<old>.+?) {_TO} (?P<new>.+?) ,? ?(?:everywhere )?(?:in|inside|within|"
        rf"throughout|of|across)(?: all of)? (?:the )?(?:file )?{_PATH}(?: file)?"
    ),
    Pattern(
        rf"(?:in|inside|within) (?:the )?(?:file )?{_PATH} ?[,:]? ?(?:please )?{_SWAP} {_EVERY}(?P<old>.+?) "
        rf"{_TO} (?P<new>.+)"
    ),
    Pattern(
        rf"(?:edit|update|change|modify|open|fix|take) (?:the )?(?:file )?{_PATH} ?[,:]? ?(?:(?:and|by|so "
        rf"that|to) )?(?:{_SWAP}|replacing|changing|swapping|substituting) {_EVERY}(?P<old>.+?) {_TO} "
        rf"(?P<new>.+)"
    ),
    Pattern(rf"{_SWAP} (?:in|inside) {_PATH} {_EVERY}(?P<old>.+?) {_TO} (?P<new>.+)"),
)
_CUT = Pattern(
    rf"(?:delete|remove|cut|erase|strip|drop) {_EVERY}(?P<old>.+?) (?:from|in|out of) (?:the )?(?:file "
    rf")?{_PATH}(?: file)?"
)
_CUT_LINES = Pattern(
    r"(?:delete|remove|cut|erase|drop) (?:the )?lines? (?:number )?(?P<one>[NR]\d+)(?: ?(?:to|-|and|through) ?"
    r"(?P<other>N\d+))? (?:from|in|of|out of) (?:the )?(?:file )?(?P<path>P\d+)(?: file)?"
)
_DELETE = Pattern(
    r"(?:delete|remove|rm|erase|unlink|trash|get rid of|wipe|throw away|destroy|del|drop)(?: -\w+)* (?:the |"
    r"all |my |this |that |every )*(?:file |files |folder |directory )?(?P<path>[PQG]\d+|it|them|[\w-]+)(?: "
    r"(?:file|folder|directory|files))?(?: .{0,40})?"
)
_MOVE = Pattern(
    r"(?P<verb>move|mv|rename|copy|cp|duplicate|clone) (?:the )?(?:file |folder )?(?P<one>[PQ]\d+)(?: (?:to|"
    r"as|into|in|under))?(?: (?:the )?(?:file |folder )?(?P<other>[PQ]\d+|[\w-]+))?(?: (?:folder|directory))?"
)


def change(clause: Clause) -> Task | None:
    """Return the change to a file that a clause asks for."""
    text = clause.masked
    for pattern in _REPLACE:
        if found := pattern.fullmatch(text):
            old, new = clause.group(found, "old"), clause.group(found, "new")
            return Replace(path=_target(clause, found), old=old, new=new, once=bool(found["once"]))
    if found := _MOVE.fullmatch(text):
        return _moved(clause, found)
    if found := _CUT_LINES.fullmatch(text):
        return _cut(clause, found)
    if (
        (found := _CUT.fullmatch(text))
        and not re.match(r"P\d+$", found["old"])
        and re.search(r"Q\d|\b(?:line|word|text|string|phrase)\b", text)
    ):
        return Replace(path=_target(clause, found), old=clause.group(found, "old"), new="")
    if found := _DELETE.fullmatch(text):
        is_named = found["path"] not in ("everything", "all", "it", "them", "files")
        return refusal(clause.group(found, "path") if is_named else "NAME")
    return _written(clause)


def _moved(clause: Clause, found: re.Match[str]) -> Task | None:
    """Return the command that gives a file another name or another place; what is there already stays."""
    program = "mv" if found["verb"] in ("move", "mv", "rename") else "cp"
    if not found["other"]:
        return Refuse(what=found["verb"], command=f"{program} {shlex.quote(clause.group(found, 'one'))} NEW_NAME")
    names = " ".join(shlex.quote(clause.group(found, name)) for name in ("one", "other"))
    return Run(command=f"{program} -nv {names}")


def _cut(clause: Clause, found: re.Match[str]) -> Refuse:
    one = clause.group(found, "one")
    if found["one"].startswith("R"):
        first, last = range_of(one)
    else:
        first = number_of(one)
        last = number_of(clause.group(found, "other")) if found["other"] else first
    lines = f"{first}d" if first == last else f"{first},{last}d"
    return Refuse(what="remove lines of", command=f"sed -i {lines} {shlex.quote(clause.group(found, 'path'))}")


def _written(clause: Clause) -> Task | None:
    text = clause.masked
    for pattern in _APPEND:
        if found := pattern.fullmatch(text):
            return Write(path=_target(clause, found), content=clause.group(found, "text"), append=True)
    for pattern in (_INTO, _CREATE, _PUT):
        if found := pattern.fullmatch(text):
            return Write(path=_target(clause, found), content=clause.group(found, "text"))
    if found := _EMPTY.fullmatch(text):
        return Write(path=_target(clause, found), content="")
    return None


def _target(clause: Clause, found: re.Match[str]) -> Target:
    named = clause.group(found, "path")
    return named if re.match(r"[PQ]\d", found["path"]) else Pointing()
