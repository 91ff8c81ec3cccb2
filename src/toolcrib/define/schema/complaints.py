"""What is wrong with arguments: where, what was expected and what was given, in words that a model can act on."""

import reprlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic_core import ErrorDetails

from toolcrib.define.names import nearest

from .annotations import Schema

_SHOWN = 40  # characters of a wrong value that a complaint repeats
_MAX_EXPECTED_CHARS = 160  # characters of what was expected
_MAX_COMPLAINTS = 20  # options, or unknown names

_KINDS = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_FORMATS = {
    "date-time": "a date and time such as 2026-02-01T10:00:00Z",
    "date": "a date such as 2026-02-01",
    "time": "a time such as 10:30:00",
}


def join_complaints(complaints: Iterable[str]) -> str:
    """Return the complaints as one sentence, without duplicates, ten at most."""
    distinct = list(dict.fromkeys(complaints))
    more = f"; and {len(distinct) - 10} more" if len(distinct) > 10 else ""
    return "; ".join(distinct[:10]) + more


def complaint_of_python(detail: ErrorDetails) -> str:
    """Return what pydantic says about a value that fits the schema and still cannot be used."""
    where = _write_path(detail["loc"])
    if detail["type"] == "missing":
        return f"{where} is required"
    message = _cut(detail["msg"].removeprefix("Input ").removeprefix("Value error, "))
    if not where:  # the model as a whole; its own validator says what is wrong
        return message
    return f"{where} {message[:1].lower()}{message[1:]}, not {_quote(detail['input'])}"


def complaints_of_schema(error: Any, schema: Schema) -> list[str]:
    """Return what one jsonschema_rs.ValidationError says, about arguments that were checked against `schema`."""
    where, kind = _write_path(error.instance_path), error.kind
    match kind.name:
        case "required":
            return [f"{_write_path([*error.instance_path, kind.property])} is required"]
        case "additionalProperties" | "unevaluatedProperties":
            known = _member_names(schema, error.schema_path[:-1])
            return [_no_such(name, known, where) for name in kind.unexpected[:_MAX_COMPLAINTS]]
        case "falseSchema":
            return [f"{where or 'the object'} takes no members; leave it empty"]
        case "anyOf" | "oneOf":
            # of the forms that take a value of this kind, the only one is the one that was meant
            meant = [errors for errors in kind.context if not any(_is_about(each, error) for each in errors)]
            # and of several objects the one whose constants, such as an `action`, are those of the value
            meant = [
                errors for errors in meant if not any(each.kind.name in ("const", "enum") for each in errors)
            ] or meant
            if len(meant) == 1 and meant[0]:
                return [complaint for each in meant[0] for complaint in complaints_of_schema(each, schema)]
    wanted = _demand(kind)
    if wanted is None:
        message = _cut(error.message.splitlines()[0])
        return [f"{where}: {message}" if where else message]
    return [f"{where or 'the whole'} must {wanted}, not {_describe(kind.name, error.instance)}"]


def _is_about(inner: Any, outer: Any) -> bool:
    """Tell whether an error inside a union is about the kind of the value itself."""
    return bool(inner.kind.name == "type" and inner.instance_path == outer.instance_path)


def _demand(kind: Any) -> str | None:
    """Return what a value must be or have, None for keywords that speak for themselves."""
    sentence = _LIMITS.get(kind.name)
    if sentence is not None:
        return sentence.format(kind.limit, "" if kind.limit == 1 else "s")
    match kind.name:
        case "type":
            return f"be {_either([_KINDS.get(each, each) for each in kind.types])}"
        case "enum":
            return f"be {_either([_quote(option) for option in kind.options[:_MAX_COMPLAINTS]])}"
        case "const":
            return f"be {_quote(kind.expected_value)}"
        case "multipleOf":
            return f"be a multiple of {kind.multiple_of}"
        case "pattern":
            return f"match {_cut(kind.pattern)}"
        case "format":
            return f"be {_FORMATS.get(kind.format, f'a valid {_cut(kind.format, _SHOWN)}')}"
        case "uniqueItems":
            return "hold each item once"
        case "anyOf" | "oneOf":
            return _forms(kind.context)
    return None


def _forms(branches: Sequence[Sequence[Any]]) -> str:
    firsts = [errors[0].kind for errors in branches if errors]
    kinds = [_KINDS.get(each, each) for first in firsts if first.name == "type" for each in first.types]
    if len(firsts) == len(branches) and all(first.name == "type" for first in firsts):
        return f"be {_either(list(dict.fromkeys(kinds)))}"
    return f"fit one of its {len(branches)} forms{'' if len(firsts) == len(branches) else ' only'}"


def _describe(keyword: str, value: Any) -> str:
    is_counted = keyword.endswith(("Length", "Items", "Properties")) and keyword != "uniqueItems"
    return str(len(value)) if is_counted else _quote(value)


_LIMITS: Mapping[str, str] = {
    "minimum": "be at least {}",
    "maximum": "be at most {}",
    "exclusiveMinimum": "be more than {}",
    "exclusiveMaximum": "be less than {}",
    "minLength": "have at least {} character{}",
    "maxLength": "have at most {} character{}",
    "minItems": "have at least {} item{}",
    "maxItems": "have at most {} item{}",
    "minProperties": "have at least {} member{}",
    "maxProperties": "have at most {} member{}",
}


def _member_names(schema: Any, path: Iterable[str | int]) -> tuple[str, ...]:
    """Return the names of the members that the schema at this place lists."""
    for part in path:
        schema = schema.get(part) if isinstance(schema, Mapping) else schema[part] if isinstance(part, int) else None
    properties = schema.get("properties", ()) if isinstance(schema, Mapping) else ()
    return tuple(properties)


def _no_such(name: Any, known: Sequence[str], where: str) -> str:
    meant = nearest(str(name)[:_MAX_EXPECTED_CHARS], known)
    listed = f"it takes {_cut(', '.join(known))}" if known else "leave it out"
    hint = f"did you mean {meant[0]!r}?" if meant else listed
    return f"there is no parameter {_quote(name)}{f' in {where}' if where else ''} ({hint})"


def _write_path(path: Iterable[str | int]) -> str:
    """Return the path as `a.b[0].c`; a key that a model made up may be anything, so it is shown like a value then."""
    parts = (f".{p}" if isinstance(p, str) and p.isprintable() and len(p) <= _SHOWN else f"[{_quote(p)}]" for p in path)
    return "".join(parts).lstrip(".")


def _either(words: Sequence[str]) -> str:
    if len(words) < 2:
        return "".join(words)
    return f"{_cut(', '.join(words[:-1]))} or {words[-1]}"


class _Quoter(reprlib.Repr):
    """Values as a complaint shows them: a glimpse of the large ones, and JSON's words where Python has its own."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxother, self.maxlong = 2, _SHOWN, _SHOWN, _SHOWN

    def repr_bool(self, value: bool, level: int) -> str:
        return "true" if value else "false"

    def repr_NoneType(self, value: None, level: int) -> str:  # noqa: N802  the name is reprlib's
        return "null"


_quoter = _Quoter()


def _quote(value: Any) -> str:
    return _cut(_quoter.repr(value), _SHOWN)


def _cut(text: str, limit: int = _MAX_EXPECTED_CHARS) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
