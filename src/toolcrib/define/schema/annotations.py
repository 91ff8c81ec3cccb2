"""From annotations to the portable JSON Schema subset: what every provider takes and every author may use.

Scalars, flat enums, lists, nested objects and maps from strings to scalars. Ranges, lengths, patterns and formats
are kept. A default or `| None` makes a parameter optional. Everything else is refused when the tool is declared,
naming the parameter.

Fields are what a function, a dataclass, a TypedDict or a pydantic model takes.
"""

import dataclasses
import datetime as dt
import enum
import inspect
import math
import re
import sys
import textwrap
import types
import typing
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, Required, Union, get_args, get_origin

from pydantic_core import PydanticUndefined
from typing_extensions import is_typeddict

from toolcrib.define.errors import DeclarationError
from toolcrib.lazy import regex

SUBSET = "use str, int, float, bool, Literal, Enum, list[...], dict[str, scalar], a dataclass, TypedDict or model"
LISTS = (list, tuple, set, frozenset, Sequence)

JsonObject = NewType("JsonObject", dict[str, Any])
"""Any object at all: for methods of services, whose parameters no model fills in."""
JsonValue = NewType("JsonValue", object)
"""Any JSON at all, likewise."""

ABSENT = inspect.Parameter.empty
_NO_WORDS: Mapping[str, str] = {}
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Field(NamedTuple):
    """One parameter: its annotation with `| None` and `Annotated` still on it, and what stands behind the `=`.

    `null` says that it is optional by `| None` alone: when it is absent, None has to be passed for it.
    """

    name: str
    annotation: Any
    required: bool
    default: Any = None
    description: str = ""
    null: bool = False


class Parameter(NamedTuple):
    """One parameter of a function as it was written; ABSENT stands for what was not."""

    name: str
    annotation: Any
    default: Any
    by_name: bool = True


def parameters_of(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    """Return the parameters of a function, in order.

    Plain functions are read from their code: that is a third of what `inspect.signature` takes, and most tools are
    plain functions.
    """
    code = getattr(function, "__code__", None)
    if (
        type(function) is not types.FunctionType
        or code is None
        or code.co_posonlyargcount
        or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
        or function.__dict__  # wrapped, or with a signature of its own
    ):
        listed = inspect.signature(function).parameters.values()
        return tuple(Parameter(each.name, each.annotation, each.default, each.kind in _BY_NAME) for each in listed)
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    values, annotations = function.__defaults__ or (), function.__annotations__
    defaults = dict(zip(names[code.co_argcount - len(values) : code.co_argcount], values, strict=True))
    defaults |= function.__kwdefaults__ or {}
    return tuple(Parameter(name, annotations.get(name, ABSENT), defaults.get(name, ABSENT)) for name in names)


# Sections about parameters as Google and NumPy write them, their entries, and Sphinx's fields. A line of a section is
# indented or blank (Google), or not followed by a line of dashes (NumPy).
_GOOGLE = regex(r"^(?:Args|Arguments|Params|Parameters):[ ]*\n((?:[ ]+\S.*(?:\n|\Z)|[ ]*\n)+)", re.MULTILINE)
_NUMPY = regex(r"^Parameters[ ]*\n-{3,}[ ]*\n((?:(?!.*\n-{3,}[ ]*$).*(?:\n|(?<=.)\Z))+)", re.MULTILINE)
_GOOGLE_ENTRY = regex(r"^(\w+)(?: *\(.*?\))?:(.*\n(?:[ ]+.*\n|\n)*)", re.MULTILINE)
_NUMPY_ENTRY = regex(r"^(\w+)(?: *:.*)?\n((?:[ ]+.*\n|\n)*)", re.MULTILINE)
_SPHINX = regex(r"^:(?:param (?:[^:\n]* )?|type )(\w+):(.*(?:\n[ ]+.*)*)(?:\n|\Z)", re.MULTILINE)


def read_docstring(function: Callable[..., Any]) -> tuple[str, Mapping[str, str]]:
    """Return a docstring without its words about parameters, and those by parameter."""
    text, found = inspect.getdoc(function) or "", dict[str, str]()
    if "\n" not in text:
        return text, found
    names = {each.name for each in parameters_of(function)}

    def take(entry: re.Match[str]) -> str:
        if entry[1] not in names:
            return entry[0]
        if not entry[0].startswith(":type "):
            found[entry[1]] = " ".join(entry[2].split())
        return ""

    def take_section(entries: re.Pattern[str], section: re.Match[str]) -> str:
        left = entries.sub(take, textwrap.dedent(f"{section[1]}\n"))
        return section[0] if left.strip() else ""  # about something else, too: it stays whole

    text = _GOOGLE.sub(partial(take_section, _GOOGLE_ENTRY), text)
    text = _NUMPY.sub(partial(take_section, _NUMPY_ENTRY), text)
    return _SPHINX.sub(take, text).strip(), found


def fields_of_function(
    function: Callable[..., Any], parameters: Iterable[Parameter], where: str, words: Mapping[str, str] = _NO_WORDS
) -> tuple[Field, ...]:
    """Return the parameters as fields; refuse what cannot be passed by name. `words` are what a docstring says."""
    fields = []
    for name, annotation, default, by_name in parameters:
        if not by_name:
            raise DeclarationError(
                f"{where}: parameter {name!r} cannot be passed by name; write it as an ordinary parameter"
            )
        if annotation is ABSENT:
            raise DeclarationError(f"{where}: parameter {name!r} has no annotation; {SUBSET}")
        if isinstance(annotation, str):
            annotation = _resolve(annotation, function, f"{where}: parameter {name!r}")
        if complaint := _explain_field(annotation, default):
            raise DeclarationError(f"{where}: parameter {name!r} {complaint}")
        bare = default is ABSENT
        made = _field(name, annotation, bare=bare, default=None if bare else default)
        fields.append(made._replace(description=words[name]) if name in words else made)
    return tuple(fields)


def members_of(shape: Any, where: str) -> tuple[Field, ...] | None:
    """Return the fields of an object type, or None when `shape` is no such type."""
    read = getattr(shape, "__pydantic_fields__", None) if isinstance(shape, type) else None
    if read is not None:
        return tuple(_model_field(name, info) for name, info in read.items())
    if dataclasses.is_dataclass(shape) and isinstance(shape, type):
        hints = _hints(shape, where)
        listed = [field for field in dataclasses.fields(shape) if field.init]
        for field in listed:
            if complaint := _explain_field(None, field.default):
                raise DeclarationError(f"{where}: field {field.name!r} {complaint}")
        return tuple(_dataclass_field(field, hints[field.name]) for field in listed)
    if is_typeddict(shape):
        if sys.version_info < (3, 12) and type(shape).__module__ == "typing":
            raise DeclarationError(
                f"{where} is a typing.TypedDict, whose fields Python 3.11 cannot tell apart; "
                "import TypedDict from typing_extensions"
            )
        hints, needed = _hints(shape, where), shape.__required_keys__
        return tuple(_field(name, _bare(hint), bare=name in needed) for name, hint in hints.items())
    return None


def is_field_info(note: Any) -> bool:
    """Tell whether `note` is pydantic's `Field(...)`.

    Unless pydantic.fields is imported there can be none, and importing it just to check costs a tenth of a start.
    """
    module = sys.modules.get("pydantic.fields")
    return module is not None and isinstance(note, module.FieldInfo)


def without_notes(annotation: Any) -> Any:
    """Return the type that the annotation is about, without `Annotated` and `| None` around it."""
    if get_origin(annotation) is Annotated:
        return without_notes(get_args(annotation)[0])
    if _is_union(annotation):
        return without_notes(next(arg for arg in get_args(annotation) if arg is not type(None)))
    return annotation


def _field(name: str, annotation: Any, *, bare: bool, default: Any = None) -> Field:
    optional = not isinstance(annotation, type) and _admits_none(annotation)
    return Field(name, annotation, bare and not optional, default, null=bare and optional)


def _model_field(name: str, info: Any) -> Field:
    annotation = Annotated[info.annotation, info] if info.metadata else info.annotation
    default = None if info.default is PydanticUndefined else info.default
    known_as = info.validation_alias if isinstance(info.validation_alias, str) else info.alias or name
    made = _field(known_as, annotation, bare=info.is_required(), default=default)
    return made._replace(description=info.description or "")


def _dataclass_field(field: dataclasses.Field[Any], annotation: Any) -> Field:
    bare = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    default = None if field.default is dataclasses.MISSING else field.default
    return _field(field.name, annotation, bare=bare, default=default)


def _explain_field(annotation: Any, default: Any) -> str:
    """Say what is wrong where pydantic's `Field` would be taken for a value, or says what only Python can say."""
    if is_field_info(default):
        return "has a Field for a default; write Annotated[..., Field(...)] = value"
    if not isinstance(annotation, type) and get_origin(annotation) is Annotated:
        for note in get_args(annotation)[1:]:
            if is_field_info(note) and not (note.is_required() and note.validation_alias is None):
                return "has a default or an alias in its Field; write `= value` and its own name"
    return ""


def _hints(shape: type, where: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(shape, include_extras=True)
    except (NameError, TypeError) as error:
        raise DeclarationError(f"{where}: {shape.__name__} has an annotation that cannot be read ({error})") from error


def _resolve(annotation: str, function: Callable[..., Any], where: str) -> Any:
    """Return the annotation itself where `from __future__ import annotations` left its text."""
    plain = inspect.unwrap(function)
    try:
        return eval(annotation, getattr(plain, "__globals__", {}), _names_around(plain))  # noqa: S307  the author's own source text
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        raise DeclarationError(f"{where}: annotation {annotation!r} cannot be read ({error})") from error


def _names_around(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the names that a function declared inside another one sees there; the outer one is still running."""
    names = dict(inspect.getclosurevars(function).nonlocals) if getattr(function, "__closure__", None) else {}
    outer, inside, _ = getattr(function, "__qualname__", "").rpartition(".<locals>.")
    frame = inspect.currentframe() if inside else None
    while frame is not None:
        if frame.f_code.co_qualname == outer and frame.f_globals is getattr(function, "__globals__", None):
            return {**frame.f_locals, **names}
        frame = frame.f_back
    return names


def _bare(hint: Any) -> Any:
    """Return the hint of a TypedDict's member without `Required` or `NotRequired`."""
    return _bare(get_args(hint)[0]) if get_origin(hint) in (Required, NotRequired) else hint


def _is_union(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, types.UnionType)


def _admits_none(annotation: Any) -> bool:
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return _is_union(annotation) and type(None) in get_args(annotation)


Schema = Mapping[str, Any]

_SCALARS: Mapping[Any, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    dt.datetime: {"type": "string", "format": "date-time"},
    dt.date: {"type": "string", "format": "date"},
    dt.time: {"type": "string", "format": "time"},
    uuid.UUID: {"type": "string", "format": "uuid"},
}
_MAPS = (dict, Mapping)
_JSON_TYPES: Mapping[type, str] = {str: "string", bool: "boolean", int: "integer", float: "number"}

# pydantic and annotated-types constraints by attribute: the keyword of JSON Schema and the types it is about.
_NUMBERS = ("integer", "number")
_LIMITS = {
    "ge": ("minimum", _NUMBERS),
    "gt": ("exclusiveMinimum", _NUMBERS),
    "le": ("maximum", _NUMBERS),
    "lt": ("exclusiveMaximum", _NUMBERS),
    "multiple_of": ("multipleOf", _NUMBERS),
    "pattern": ("pattern", ("string",)),
}
_LENGTHS = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}


def fields_of(shape: type, where: str) -> tuple[Field, ...]:
    """Return the fields of a dataclass, pydantic model or TypedDict, each checked to be portable."""
    found = members_of(shape, where)
    if found is None:
        raise DeclarationError(f"{where}: {shape!r} is no dataclass, TypedDict or pydantic model")
    check_portable(found, f"{where}: {shape.__name__}")
    return found


def check_portable(fields: Iterable[Field], where: str) -> None:
    """Raise DeclarationError, naming the parameter, unless every field is within the portable subset."""
    for field in fields:
        try:
            _is_portable(field.annotation)
        except (DeclarationError, TypeError):  # refused, or of a kind that cannot be remembered
            _schema(field.annotation, f"{where}: parameter {field.name!r}", ())


@lru_cache(maxsize=1024)
def _is_portable(annotation: Any) -> bool:
    """Remember annotations that are within the subset: a thousand functions mostly share a few dozen."""
    _schema(annotation, "", ())
    return True


def object_schema(fields: Iterable[Field]) -> dict[str, Any]:
    """Return the schema of an object with these fields. An empty `required` is left out."""
    return _object(tuple(fields), "", ())


def _object(fields: tuple[Field, ...], where: str, seen: tuple[type, ...]) -> dict[str, Any]:
    properties = {}
    for field in fields:
        made = _schema(field.annotation, f"{where}.{field.name}" if where else field.name, seen)
        if field.description and "description" not in made:  # what the annotation says wins
            made = {**made, "description": field.description}
        default = field.default.value if isinstance(field.default, enum.Enum) else field.default
        if isinstance(default, (str, int)) or (isinstance(default, float) and math.isfinite(default)):
            made = {**made, "default": default}
        properties[field.name] = made
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    required = [field.name for field in fields if field.required]
    if required:
        schema["required"] = required
    schema["additionalProperties"] = False
    return schema


def _schema(annotation: Any, where: str, seen: tuple[type, ...]) -> dict[str, Any]:
    """Return the portable schema of one annotation; `seen` are the objects around it, to refuse a cycle."""
    scalar = _SCALARS.get(annotation) if isinstance(annotation, type) else None
    if scalar is not None:
        return dict(scalar)
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _annotation_schema(args[0], args[1:], where, seen)
    if origin is Union or origin is types.UnionType:
        rest = [arg for arg in args if arg is not type(None)]
        if len(rest) != 1:
            raise DeclarationError(f"{where} is a union ({annotation}); only `X | None` is portable")
        return _schema(rest[0], where, seen)
    if origin is Literal:
        return _enum(args, where)
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return _enum([member.value for member in annotation], where)
    if annotation is JsonObject or annotation is JsonValue:
        return {"type": "object"} if annotation is JsonObject else {}
    if origin in LISTS or annotation in LISTS:
        return _list(annotation, args, where, seen)
    if origin in _MAPS or annotation in _MAPS:
        return _map(args, where)
    members = members_of(annotation, where) if isinstance(annotation, type) else None
    if members is None:
        name = annotation.__name__ if isinstance(annotation, type) else str(annotation)
        raise DeclarationError(f"{where} is {name}, which not every model can fill in; {SUBSET}")
    if annotation in seen:
        raise DeclarationError(f"{where} contains itself ({annotation.__name__}); a schema cannot be endless")
    return _object(members, where, (*seen, annotation))


def _annotation_schema(inner: Any, notes: tuple[Any, ...], where: str, seen: tuple[type, ...]) -> dict[str, Any]:
    schema = _schema(inner, where, seen)
    for note in notes:
        if isinstance(note, str):
            schema["description"] = note
        elif is_field_info(note):
            if note.description:
                schema["description"] = note.description
            for limit in note.metadata:
                _limit(schema, limit, where)
        else:
            _limit(schema, note, where)
    return schema


def _limit(schema: dict[str, Any], limit: Any, where: str) -> None:
    """Write one constraint into `schema`; what is no constraint (a validator, say) stays pydantic's business."""
    for attribute, (keyword, kinds) in _LIMITS.items():
        value = getattr(limit, attribute, None)
        # the earliest date, say, cannot be written in JSON Schema; pydantic knows it all the same
        if value is None or "format" in schema:
            continue
        _refuse_misfit(schema, attribute, kinds, where)
        schema[keyword] = value.pattern if isinstance(value, re.Pattern) else value
    for index, attribute in enumerate(("min_length", "max_length")):
        value = getattr(limit, attribute, None)
        if value is not None:
            _refuse_misfit(schema, attribute, tuple(_LENGTHS), where)
            schema[_LENGTHS[schema["type"]][index]] = value


def _refuse_misfit(schema: Schema, attribute: str, kinds: tuple[str, ...], where: str) -> None:
    if schema["type"] not in kinds:
        raise DeclarationError(f"{where} is of type {schema['type']}, which has no {attribute}; leave it out")


def _enum(values: Iterable[Any], where: str) -> dict[str, Any]:
    listed = [value.value if isinstance(value, enum.Enum) else value for value in values]
    kinds = {_JSON_TYPES.get(type(value)) for value in listed}
    if len(kinds) != 1 or None in kinds:
        raise DeclarationError(f"{where} mixes kinds of values ({listed}); a flat enum has values of one kind")
    return {"type": kinds.pop(), "enum": listed}


def _list(annotation: Any, args: tuple[Any, ...], where: str, seen: tuple[type, ...]) -> dict[str, Any]:
    items = [arg for arg in args if arg is not Ellipsis]
    if len(items) != 1 or (get_origin(annotation) is tuple and len(args) != 2):
        raise DeclarationError(f"{where} is a list without one kind of item; write list[str], for example")
    return {"type": "array", "items": _schema(items[0], f"{where}[]", seen)}


def _map(args: tuple[Any, ...], where: str) -> dict[str, Any]:
    if len(args) != 2 or args[0] is not str or args[1] not in _JSON_TYPES:
        raise DeclarationError(f"{where} is a map; only maps from str to str, int, float or bool are portable")
    return {"type": "object", "additionalProperties": dict(_SCALARS[args[1]])}
