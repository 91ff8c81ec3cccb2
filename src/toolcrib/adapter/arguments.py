"""The arguments of a call as a model wrote them: read exactly before it runs, read tolerantly while they stream in."""

import json
import re
from collections.abc import Iterable
from typing import Any

import orjson
from pydantic_core import from_json

from toolcrib.define.errors import ArgumentError
from toolcrib.lazy import regex

MAX_ARGUMENT_BYTES = 1024 * 1024  # bytes of one call's arguments
MAX_ARGUMENT_DEPTH = 64  # objects and lists inside each other

_MAX_PARTIAL_CHARS = 64 * 1024  # characters that are read again with every piece that streams in
_EXACT_LIMIT = 2.0**63  # orjson reads a whole number beyond 64 bits as a float of about its size
_MIN_INT, _MAX_INT = -(2**63), 2**64 - 1
_TOO_LONG = f"the arguments are longer than {MAX_ARGUMENT_BYTES} bytes; write less, or in several calls"
_NAME_CHARS = 40  # characters of a name that a complaint repeats


def parse_arguments(text: str) -> dict[str, Any]:
    """Return the arguments that `text` spells, {} for blanks; raise ArgumentError unless it is one clear JSON object.

    Clear means that no name is given twice, every number is the one that was written, and no character is half of one.
    """
    if len(text) > MAX_ARGUMENT_BYTES // 4 and len(text.encode(errors="surrogatepass")) > MAX_ARGUMENT_BYTES:
        raise ArgumentError(_TOO_LONG)
    try:
        args = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if not text or text.isspace():
            return {}
        place = f"at line {error.lineno}, column {error.colno}"
        raise ArgumentError(f"the arguments are not valid JSON {place} ({error.msg}); write one JSON object") from None
    if type(args) is not dict:
        raise ArgumentError(f"the arguments are {_KINDS[type(args)]}; write one JSON object")
    names = len(args)
    for value in args.values():
        if type(value) in _IN_DEPTH:
            names = _count_names(args)
            break
    # every name has its colon: if there are no more of them, no name was given twice
    if names != text.count(":") and not _has_each_once(text, names):
        json.loads(text, object_pairs_hook=_refuse_duplicates, parse_int=_refuse_inexact)
    return args


def check_argument_size(args: dict[str, Any]) -> dict[str, Any]:
    """Return arguments that came as an object; raise ArgumentError where they are larger than written ones may be."""
    _count_names(args)
    try:
        size = len(orjson.dumps(args))
    except TypeError:  # a number beyond 64 bits, or half of a character
        raise ArgumentError(
            "the arguments are not exact JSON; write numbers within 64 bits, and whole characters"
        ) from None
    if size > MAX_ARGUMENT_BYTES:
        raise ArgumentError(_TOO_LONG)
    return args


def parse_partial_arguments(text: str) -> dict[str, Any]:
    """Return what can be shown of arguments still streaming in, {} when that is nothing; a call never runs with it."""
    text = text[:_MAX_PARTIAL_CHARS]
    if text.replace("\\\\", "").replace('\\"', "").count('"') % 2 == 0:  # it ends outside of a string
        text = _WORD.sub(_finish_word, _EXPONENT.sub("", text.rstrip()))
    args = _parse_partly(text)
    if args is None:
        args = _parse_partly(_COMMA.sub(r"\1", text))
    return args if isinstance(args, dict) else {}


_IN_DEPTH = frozenset({dict, list, float})  # what holds further names, or may have lost digits
_KINDS = {list: "a list", str: "a text", bool: "true or false", int: "a number", float: "a number", type(None): "null"}


def _count_names(args: dict[str, Any]) -> int:
    """Return how many names there are in the object and in all it holds, -1 when a number may have lost its digits."""
    names, lossy = len(args), False
    level: list[Iterable[Any]] = [args.values()]
    for _ in range(MAX_ARGUMENT_DEPTH):
        inside: list[Iterable[Any]] = []
        for values in level:
            for value in values:
                kind = type(value)
                if kind is dict:
                    names += len(value)
                    inside.append(value.values())
                elif kind is list:
                    inside.append(value)
                elif kind is float and not -_EXACT_LIMIT < value < _EXACT_LIMIT:
                    lossy = True
        if not inside:
            return -1 if lossy else names
        level = inside
    raise ArgumentError(f"the arguments are nested more than {MAX_ARGUMENT_DEPTH} deep; write them flatter")


def _has_each_once(text: str, names: int) -> bool:
    """Tell whether `text` has no more keys than `names`: each has its colon, and none stands apart from it."""
    loose = " :" in text or "\n:" in text or "\t:" in text or "\r:" in text
    return not loose and text.count('":') == names


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            shown = name if len(name) <= _NAME_CHARS else f"{name[:_NAME_CHARS]}…"
            raise ArgumentError(f"{shown!r} is given twice in one object; give it once")
        seen.add(name)


def _refuse_inexact(digits: str) -> None:
    if not _MIN_INT <= int(digits) <= _MAX_INT:
        raise ArgumentError(f"the number {digits[:_NAME_CHARS]} is too large to be exact; write it as text")


# What follows repairs the end of a text that is still arriving, as far as its rest is certain.

_WORD = regex(r"(?<=[:,\[\s])(?:t|tr|tru|f|fa|fal|fals|n|nu|nul)$")
_EXPONENT = regex(r"(?<=[0-9])[eE][+-]?$")
_COMMA = regex(r'("(?:[^"\\]|\\.)*+"?)|,(?=\s*[}\]])', re.DOTALL)


def _finish_word(found: re.Match[str]) -> str:
    return next(word for word in ("true", "false", "null") if word.startswith(found[0]))


def _parse_partly(text: str) -> Any:
    try:
        return from_json(text, allow_partial="trailing-strings")
    except (ValueError, TypeError):  # not JSON even so far, or half of a character
        return None
