"""What is wrong with a configuration, in one sentence with its place and the nearest known key."""

import json
import types
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from toolcrib.define.display import escape_unprintable
from toolcrib.define.errors import ConfigError, ConfigLocation
from toolcrib.define.names import nearest
from toolcrib.lazy import regex

from .openclaw import Translated
from .positions import KeyPath
from .read import Document
from .settings import Config

# pydantic's words for a wrong type, in ours
_WORDS = {
    "string_type": "should be text",
    "tuple_type": "should be a list",
    "bool_type": "should be true or false",
    "int_type": "should be a whole number",
    "mapping_type": "should be a mapping",
    "model_type": "should be a mapping",
    "dict_type": "should be a mapping",
    "missing": "is missing; write it",
    "too_short": "is empty; write something in it",
}
_FORMS = {"<text>": "text", "<list>": "a list", "<map>": "a mapping"}
_MAX_CHARS, _TAIL = 300, 100
_MIN_HIDDEN_CHARS = 4  # anything shorter stands in ordinary words, too
_QUOTED = regex(r"""(["']).*\1""")
_POINTS = regex(r": | (?=is empty)")


def complaint(error: ValidationError, translated: Translated) -> ConfigError:
    """Return the first thing wrong, by line, as an error; how many more there are stands at its end."""
    found = [
        (each["type"], *_explain(each, translated)) for each in error.errors(include_url=False, include_input=False)
    ]
    # what is missing may stand there under a wrong name, which is reported first
    _, at, sentence = min(found, key=lambda each: (each[0] == "missing", each[1].line or 1 << 30))
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    match translated.value:
        case {"agents": {"list": [*_]}}:
            more += "; this reads like an OpenClaw file: add --from openclaw"
    return ConfigError(conceal(_shorten(sentence), translated.document) + more, at)


def unknown_keys(error: ValidationError) -> list[KeyPath]:
    """Return the paths of the keys that no section knows."""
    return [_key(detail) for detail in error.errors(include_url=False) if detail["type"] == "extra_forbidden"]


def failing_keys(error: ValidationError) -> list[KeyPath]:
    """Return the paths of everything that is wrong."""
    return [_key(detail) for detail in error.errors(include_url=False)]


def environment_values(document: Document) -> set[str]:
    """Return what came from the environment and may be a secret, however plain it looks."""
    values = {_at(document.value, path) for path in document.referenced}
    return {value for value in values if isinstance(value, str) and len(value.strip()) >= _MIN_HIDDEN_CHARS}


def conceal(text: str, document: Document) -> str:
    """Return `text` without anything that came from the environment."""
    values = environment_values(document)
    ways = {way for value in values for way in (value, repr(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1])}
    for way in sorted(ways, key=len, reverse=True):
        text = text.replace(way, "…")
    return text


def _explain(detail: ErrorDetails, translated: Translated) -> tuple[ConfigLocation, str]:
    key, sentence = _move_key(_key(detail), _sentence(detail), translated.value)
    if detail["type"] == "value_error" and translated.key(key) in translated.document.referenced:
        sentence = _without_value(sentence)
    return translated.place(key), sentence


def _without_value(sentence: str) -> str:
    """Return a sentence that may show a value as one that does not."""
    if not _QUOTED.search(sentence):
        return sentence
    remedy = sentence.partition("; ")[2]
    fits = remedy if remedy and not _QUOTED.search(remedy) else "set it to something that does"
    return f"what the environment variable holds does not fit here; {fits}"


def _shorten(sentence: str) -> str:
    clean = escape_unprintable(sentence)
    return clean if len(clean) <= _MAX_CHARS else f"{clean[: _MAX_CHARS - _TAIL]}…{clean[-_TAIL:]}"


def _at(value: Any, path: KeyPath) -> Any:
    for part in path:
        value = value[part]
    return value


def _key(detail: ErrorDetails) -> KeyPath:
    """Return the path in the file: pydantic's own, without its words for variants and keys."""
    return tuple(part for part in detail["loc"] if not (isinstance(part, str) and (part in _FORMS or part == "[key]")))


def _move_key(key: KeyPath, sentence: str, whole: Any) -> tuple[KeyPath, str]:
    """Return key and sentence; a key of the section that the sentence begins with is moved over."""
    try:
        section = _at(whole, key)
    except (KeyError, IndexError, TypeError):
        return key, sentence
    for mark in _POINTS.finditer(sentence):
        name = sentence[: mark.start()]
        if isinstance(section, Mapping) and name in section:
            return (*key, name), sentence[mark.end() :]
        if isinstance(section, list | tuple) and name.isdecimal():
            return (*key, int(name)), sentence[mark.end() :]
    return key, sentence


def _sentence(detail: ErrorDetails) -> str:
    kind, key = detail["type"], _key(detail)
    if kind == "extra_forbidden":
        return _unknown(key)
    if kind == "union_tag_invalid":
        known = (word for form, word in _FORMS.items() if form in detail["ctx"]["expected_tags"])
        return f"should be {' or '.join(known)}"
    if kind in _WORDS:
        return _WORDS[kind]
    message = detail["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return message if detail["type"] == "value_error" else message[:1].lower() + message[1:]


def _unknown(key: KeyPath) -> str:
    known = {name.lower(): name for name in sorted(_keys_at(Config, key[:-1]))}
    meant = nearest(str(key[-1]), known)
    if meant:
        return f"unknown key; did you mean {known[meant[0]]!r}?"
    return f"unknown key; known here: {', '.join(known.values()) or 'none'}"


def _keys_at(kind: Any, path: KeyPath) -> set[str]:
    """Return the keys that the section at `path` knows, where `kind` is what stands at the path's beginning."""
    found: set[str] = set()
    for each in _alternatives(kind):
        origin, args = get_origin(each), get_args(each)
        if isinstance(each, type) and issubclass(each, BaseModel):
            fields = {info.alias or name: info.annotation for name, info in each.model_fields.items()}
            found |= _keys_at(fields.get(str(path[0])), path[1:]) if path else fields.keys()
        elif path and isinstance(origin, type) and issubclass(origin, (tuple, Mapping)):
            found |= _keys_at(args[0] if origin is tuple else args[1], path[1:])
    return found


def _alternatives(kind: Any) -> Iterator[Any]:
    if get_origin(kind) is Annotated:
        yield from _alternatives(get_args(kind)[0])
    elif get_origin(kind) in (Union, types.UnionType):
        for each in get_args(kind):
            yield from _alternatives(each)
    else:
        yield kind
