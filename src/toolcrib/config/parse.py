"""Turns the text of one configuration file into a value and the line of every key, by the file's suffix."""

import re
import tomllib
from typing import Any

import pyjson5

from toolcrib.config.parse_yaml import parse_yaml
from toolcrib.config.places import MAX_DEPTH, KeyPath, Scan, deep, line_finder, place
from toolcrib.config.places_json5 import scan_json5
from toolcrib.config.places_toml import scan_toml
from toolcrib.define.errors import ConfigError

__all__ = ["parse"]

_OFFSET = re.compile(r"near (\d+)")
_DIGITS = re.compile(r"[0-9_]++|\Z")
_TOML_LINE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


def parse(text: str, suffix: str, file: str) -> tuple[Any, dict[KeyPath, int]]:
    """The value of `text` as its format has it, and the line of every key and list item that could be located.

    Raises `ConfigError` for syntax, duplicate keys and nesting over the limit; `file` is the name to show.
    """
    match suffix.lower():
        case ".json5" | ".json":
            return _parse_json5(text, file)
        case ".yaml" | ".yml":
            return parse_yaml(text, file)
        case ".toml":
            return _parse_toml(text, file)
    raise ConfigError(
        f"the suffix {suffix!r} is not known; use .json5, .json, .yaml, .yml or .toml", place(file, None, ())
    )


def _parse_json5(text: str, file: str) -> tuple[Any, dict[KeyPath, int]]:
    scan = scan_json5(text)
    if scan.fault:
        raise scan.fault.error(file)
    try:
        return pyjson5.decode(text, MAX_DEPTH), dict(scan.lines)
    except pyjson5.Json5DecoderException as error:
        # the decoder's own words show its insides; the scan has already passed, so only small things are left
        near = _OFFSET.search(str(error.args[0]))
        line = line_finder(text)(int(near[1])) if near else None
        what = "not valid JSON5: an escape, a number or an unquoted key here is malformed"
        raise ConfigError(what, place(file, line, _nearest(scan, line))) from None


def _parse_toml(text: str, file: str) -> tuple[Any, dict[KeyPath, int]]:
    scan = scan_toml(text)
    if scan.fault and scan.fault.kind == "deep":
        raise scan.fault.error(file)
    try:
        return tomllib.loads(text), dict(scan.lines)
    except tomllib.TOMLDecodeError as error:
        if scan.fault and scan.fault.kind == "twice":
            raise scan.fault.error(file) from None
        words = str(error)
        where = _TOML_LINE.search(words)
        line = int(where[1]) if where and where[1] else text.rstrip().count("\n") + 1
        what = f"not valid TOML: {_TOML_LINE.sub('', words)}"
        raise ConfigError(what, place(file, line, _nearest(scan, line))) from None
    except RecursionError:  # brackets that the scan did not follow
        raise deep((), scan.fault.line if scan.fault else 1).error(file) from None
    except ValueError:  # a whole number of thousands of digits, which Python will not read
        longest = max(_DIGITS.finditer(text), key=lambda match: len(match[0]))
        line = line_finder(text)(longest.start())
        what = "a whole number here does not fit 64 bits; write it in quotes if it is an id"
        raise ConfigError(what, place(file, line, _nearest(scan, line))) from None


def _nearest(scan: Scan, line: int | None) -> KeyPath:
    """The last key that starts at `line` or before it."""
    known = [path for path, start in scan.lines.items() if line and start <= line]
    return max(known, key=scan.lines.__getitem__, default=())
