"""Arguments against a shape: coerced where a model's spelling is clear, complaints in one sentence."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn, NotRequired, Required, get_args, get_origin

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, with_config
from pydantic_core import ErrorDetails
from typing_extensions import TypedDict

from .errors import ArgumentError, DeclarationError
from .fields import LISTS, Field, members_of, without_notes
from .names import nearest
from .schema import Schema, fields_of
from .shape import Check

__all__ = ["Filled", "check_of_fields", "check_of_model", "check_of_schema", "join_complaints", "model_from"]

# Takes a value, its path and a list for complaints; returns the value tidied.
_Tidy = Callable[[Any, str, list[str]], Any]

_CLOSED = ConfigDict(allow_inf_nan=False, extra="forbid")
_SHOWN = 40  # characters of a wrong value that a complaint repeats


def check_of_fields(fields: Iterable[Field], schema: Schema) -> Check:
    """Return a check that gives each field its Python value (dataclasses, enums and dates included)."""
    listed = tuple(fields)
    members = {f.name: (Required if f.required else NotRequired)[f.annotation] for f in listed}
    arguments = with_config(_CLOSED)(TypedDict("Arguments", members))  # type: ignore[operator]  # made at run time
    validate, tidy = TypeAdapter(arguments).validator.validate_python, _tidy_object(listed)
    # what pydantic takes as it is needs no readying, unless it would overlook something inside or leave a None out
    is_flat = not any(field.null or _tidy_inside(field.annotation) for field in listed)

    def check(args: Mapping[str, Any]) -> Mapping[str, Any]:
        checked: dict[str, Any]
        try:
            checked = validate(args) if is_flat else _checked(validate, schema, tidy, args)
        except ValidationError:
            checked = _checked(validate, schema, tidy, args)  # once more, with coercion and our words
        return checked

    return check


class Filled(dict[str, Any]):
    """Checked arguments that remember the model they were read into, so that its validators run only once."""

    def __init__(self, values: Mapping[str, Any], model: BaseModel) -> None:
        super().__init__(values)
        self.model = model


def check_of_model(model: type[BaseModel], schema: Schema) -> Check:
    """Return a check against a pydantic model; values come back under the names the model is filled in by."""
    fields = fields_of(model, model.__name__)
    names = tuple(zip((field.name for field in fields), model.model_fields, strict=True))
    tidy = _tidy_object(fields)

    def check(args: Mapping[str, Any]) -> Mapping[str, Any]:
        made: BaseModel = _checked(model.model_validate, schema, tidy, args)
        return Filled({name: getattr(made, own) for name, own in names if own in made.model_fields_set}, made)

    return check


def model_from(model: type[BaseModel], args: Mapping[str, Any]) -> BaseModel:
    """Return the model that the checked arguments were read into; arguments from elsewhere are read now."""
    return args.model if isinstance(args, Filled) else model.model_validate(dict(args))


def _checked(validate: Callable[[Any], Any], schema: Schema, tidy: _Tidy, args: Mapping[str, Any]) -> Any:
    complaints: list[str] = []
    ready = coerce(schema, tidy(args, "", complaints))
    try:
        checked = validate(ready)
    except ValidationError as error:
        complaints += [_complaint(detail) for detail in error.errors(include_url=False)]
    if complaints:
        raise ArgumentError(join_complaints(complaints))
    return checked


def _tidy_object(fields: Iterable[Field]) -> _Tidy:
    """Return what readies an object for pydantic, and the objects inside it.

    Unknown names are complained about. Nulls of optional members go: models that must fill in every field write null
    for "not given". A member that is optional by `| None` alone gets the None that Python insists on.
    """
    listed = tuple(fields)
    known = tuple(field.name for field in listed)
    optional = frozenset(field.name for field in listed if not field.required)
    nulls = {field.name: None for field in listed if field.null}
    inside = {field.name: inner for field in listed if (inner := _tidy_inside(field.annotation))}

    def tidy(value: Any, where: str, complaints: list[str]) -> Any:
        if not isinstance(value, Mapping):
            return value
        complaints += [_no_such(name, known, where) for name in value if name not in known]
        kept = {name: each for name, each in without_nulls(value, optional).items() if name in known}
        for name, inner in inside.items():
            if name in kept:
                kept[name] = inner(kept[name], f"{where}.{name}" if where else name, complaints)
        return {**nulls, **kept}

    return tidy


def _tidy_inside(annotation: Any) -> _Tidy | None:
    """Return what readies an object or a list of objects; None where there is nothing to ready."""
    bare = without_notes(annotation)
    if get_origin(bare) not in LISTS:
        members = members_of(bare, "")
        return None if members is None else _tidy_object(members)
    each = _tidy_inside(get_args(bare)[0])
    if each is None:
        return None

    def tidy(value: Any, where: str, complaints: list[str]) -> Any:
        if not isinstance(value, (list, tuple)):
            return value
        return [each(item, f"{where}[{at}]", complaints) for at, item in enumerate(value)]

    return tidy


def check_of_schema(schema: Schema) -> Check:
    """Return a check against raw JSON Schema, with a small coercion of scalars before it."""
    import jsonschema_rs  # noqa: PLC0415  only tools with a raw schema pay for it, and at first use

    try:
        validator = jsonschema_rs.validator_for(dict(schema), validate_formats=True, retriever=_retrieve_nothing)
    except (jsonschema_rs.ValidationError, ValueError) as error:
        raise DeclarationError(f"the schema itself is not valid: {str(error).splitlines()[0]}") from error
    known = tuple(schema.get("properties", ()))
    optional = frozenset(known) - frozenset(schema.get("required", ()))

    def check(args: Mapping[str, Any]) -> Mapping[str, Any]:
        coerced: Any = coerce(schema, without_nulls(args, optional))
        complaints = [said for error in validator.iter_errors(coerced) for said in _schema_complaints(error, known)]
        if complaints:
            raise ArgumentError(join_complaints(complaints))
        checked: Mapping[str, Any] = coerced
        return checked

    return check


def _retrieve_nothing(address: str) -> NoReturn:
    raise ValueError(f"a schema is written where it is used, not fetched from {address}")


def without_nulls(args: Mapping[str, Any], optional: frozenset[str]) -> dict[str, Any]:
    """Return the arguments without the nulls of optional parameters."""
    return {name: value for name, value in args.items() if value is not None or name not in optional}


def coerce(schema: Any, value: Any) -> Any:
    """Return `value` with scalars turned into the type the schema wants, where the spelling leaves no doubt."""
    if not isinstance(schema, Mapping):
        return value
    kind = schema.get("type")
    if kind == "object" and isinstance(value, Mapping):
        properties, extra = schema.get("properties", {}), schema.get("additionalProperties")
        return {name: coerce(properties.get(name, extra), inner) for name, inner in value.items()}
    if kind == "array" and isinstance(value, (list, tuple)):
        return [coerce(schema.get("items"), inner) for inner in value]
    return _coerce_scalar(kind, value)


def _coerce_scalar(kind: Any, value: Any) -> Any:
    match kind, value:
        case "string", bool():
            return value
        case "string", int() | float():
            return str(value)
        case "boolean", "true" | "false":
            return value == "true"
        case "integer" | "number", str():
            return _number(value, whole=kind == "integer")
        case "integer", float() if value.is_integer():
            return int(value)
    return value


def _number(text: str, *, whole: bool) -> Any:
    try:
        number = float(text)
        if not math.isfinite(number) and not text.strip().lstrip("+-").isdigit():
            return text
        if not whole:
            return int(text) if text.strip().lstrip("+-").isdigit() else number
        return int(text) if text.strip().lstrip("+-").isdigit() else int(number) if number.is_integer() else text
    except (ValueError, OverflowError):
        return text


def join_complaints(complaints: Iterable[str]) -> str:
    """Return the complaints as one sentence, each said once, ten at the most."""
    said = list(dict.fromkeys(complaints))
    more = f"; and {len(said) - 10} more" if len(said) > 10 else ""
    return "; ".join(said[:10]) + more


def _complaint(detail: ErrorDetails) -> str:
    where = _dotted(detail["loc"])
    if detail["type"] == "missing":
        return f"{where} is required"
    message = detail["msg"].removeprefix("Input ").removeprefix("Value error, ")
    if not where:  # the model as a whole; its own validator says what is wrong
        return message
    return f"{where} {message[:1].lower()}{message[1:]}, not {_shown(detail['input'])}"


def _schema_complaints(error: Any, known: Iterable[str]) -> list[str]:
    """Return what one jsonschema_rs.ValidationError says."""
    where, kind = _dotted(error.instance_path), error.kind
    match kind.name:
        case "required":
            return [f"{_dotted([*error.instance_path, kind.property])} is required"]
        case "additionalProperties":
            return [_no_such(name, () if where else known, where) for name in kind.unexpected]
        case "falseSchema":
            return [f"{where or 'the object'} takes no members; leave it empty"]
    message = _cut(error.message.splitlines()[0])
    return [f"{where}: {message}" if where else message]


def _no_such(name: Any, known: Iterable[str], where: str = "") -> str:
    listed = tuple(known)
    meant = nearest(str(name), listed)
    hint = f"did you mean {meant[0]!r}?" if meant else f"it takes {', '.join(listed)}" if listed else "leave it out"
    return f"there is no parameter {_shown(name)}{f' in {where}' if where else ''} ({hint})"


def _dotted(path: Iterable[str | int]) -> str:
    """Return the path as `a.b[0].c`; a key that a model made up may be anything, so it is shown like a value then."""
    parts = (f".{p}" if isinstance(p, str) and p.isprintable() and len(p) <= _SHOWN else f"[{_shown(p)}]" for p in path)
    return "".join(parts).lstrip(".")


def _shown(value: Any) -> str:
    return _cut(repr(value), _SHOWN)


def _cut(text: str, limit: int = 160) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
