"""Arguments against a shape: coerced where a model's spelling is clear, every complaint in one sentence.

The schema decides, whichever way a tool was declared; Python's types then make values of what fits.

Any JSON Schema will do: arguments are coerced where the spelling is clear, then checked in full, formats included.
"""

import datetime as dt
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Literal, NoReturn, NotRequired, Required, get_args, get_origin

import orjson
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, with_config
from pydantic.errors import PydanticUserError
from pydantic_core import PydanticSerializationError, SchemaError, to_jsonable_python
from typing_extensions import TypedDict

from toolcrib.define.errors import ArgumentError, DeclarationError

from .annotations import LISTS, Field, Schema, fields_of, is_field_info, members_of, without_notes
from .coerce import coerce, is_deep, refuse_deep, target_of
from .complaints import complaint_of_python, complaints_of_schema, join_complaints
from .portable import Check, Shape

_MAX_SCHEMA_NODES = 20_000  # objects and lists, references written out
_MAX_RECURSION = 64  # of values checked against a schema that contains itself
_COMPLAINT_DEPTH, _COMPLAINT_BYTES = 6, 16 * 1024  # of values that every complaint is sought in
_MAX_VALUES = 10_000  # values that any complaint is sought in
_MAY_HOLD_FLOATS = frozenset({float, dict, list, tuple})


def fit_to(schema: Schema, *, coerced: bool = False, what: str = "the arguments") -> Check:
    """Return a check that gives the arguments coerced to the schema; DeclarationError when it is no usable schema.

    `coerced` says that the arguments will come coerced already, `what` how complaints call them.
    """
    import jsonschema_rs  # noqa: PLC0415  only those who have arguments to check pay for it, and at first use

    schema = dict(schema)
    try:
        validator = jsonschema_rs.validator_for(
            schema,
            validate_formats=True,
            formats=_FORMATS,
            retriever=retrieve_nothing,
            pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=100_000),
        )
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        raise DeclarationError(f"the schema itself is not valid: {str(error).splitlines()[0]}") from error
    is_valid, is_recursive = validator.is_valid, _Unfolding(schema).is_recursive
    has_integers = "'integer'" in repr(schema)

    def fit(args: Mapping[str, Any]) -> Mapping[str, Any]:
        given = args if type(args) is dict else dict(args)
        if is_recursive:
            refuse_deep(given, what, _MAX_RECURSION)
        try:
            # 5.0 is an integer in JSON Schema and none in Python
            if is_valid(given) and not (has_integers and not _MAY_HOLD_FLOATS.isdisjoint(map(type, given.values()))):
                return given
            ready: dict[str, Any] = given if coerced else coerce(schema, given)
        except ValueError:  # values of Python's own: a caller in this process, or arguments that were checked before
            refuse_deep(given, what)
            ready = coerce(schema, _as_json(given, what))
        if is_recursive:
            refuse_deep(ready, what, _MAX_RECURSION)
        if is_valid(ready):
            return ready
        if is_recursive and is_deep(ready, _COMPLAINT_DEPTH):
            raise ArgumentError(f"{what} do not fit the parameters; send fewer levels of them to learn why")
        if _has_many(ready):
            raise ArgumentError(f"{what} do not fit the parameters; send fewer values to learn why")
        refuse_deep(ready, what)
        is_long = _is_long(ready)
        errors = _first_error(validator.validate, ready) if is_long else validator.iter_errors(ready)
        complaint = join_complaints(each for error in errors for each in complaints_of_schema(error, schema))
        raise ArgumentError(f"{complaint}; {what} are long, so there may be more of the kind" if is_long else complaint)

    return fit


def _first_error(validate: Callable[[Any], None], value: Any) -> Iterator[Any]:
    """Give the first error alone: each costs more than the value it is about, and there may be as many as values."""
    try:
        validate(value)
    except UnicodeError:
        raise ArgumentError("the arguments hold half a character, which no text does") from None
    except ValueError as error:
        yield error


def retrieve_nothing(address: str) -> NoReturn:
    """Refuse to fetch what a schema names elsewhere."""
    raise ValueError(f"a schema is written where it is used, not fetched from {address}")


def _as_json(args: Mapping[str, Any], what: str) -> dict[str, Any]:
    try:
        plain: dict[str, Any] = to_jsonable_python(args)
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise ArgumentError(f"{what} hold what JSON cannot say ({str(error).splitlines()[0]})") from None
    return plain


def _has_many(value: Any) -> bool:
    """Tell whether there are so many values that even one error about them costs too much."""
    count, left = 0, [value]
    while left and count <= _MAX_VALUES:
        inside = left.pop()
        count += len(inside)
        if count <= _MAX_VALUES:
            values = inside.values() if isinstance(inside, dict) else inside
            left += [each for each in values if isinstance(each, (dict, list, tuple))]
    return count > _MAX_VALUES


def _is_long(value: Any) -> bool:
    try:
        return len(orjson.dumps(value)) > _COMPLAINT_BYTES
    except TypeError:  # a number or a text that orjson does not write
        return True


class _Unfolding:
    """How large a schema is with its references written out, and whether it contains itself."""

    def __init__(self, schema: Schema) -> None:
        self._root, self._sizes, self.is_recursive = schema, dict[str, int](), False
        if self._size(schema) > _MAX_SCHEMA_NODES:
            raise DeclarationError(f"the schema unfolds to more than {_MAX_SCHEMA_NODES} parts; write a smaller one")

    def _size(self, node: Any) -> int:
        if isinstance(node, (list, tuple)):
            return 1 + sum(map(self._size, node))
        if not isinstance(node, dict):
            return 0
        self.is_recursive |= "$dynamicRef" in node or "$recursiveRef" in node
        return 1 + sum(map(self._size, node.values())) + self._target_size(node.get("$ref"))

    def _target_size(self, reference: Any) -> int:
        if not isinstance(reference, str):
            return 0
        if reference in self._sizes:
            self.is_recursive |= self._sizes[reference] < 0  # it is still being written out
            return max(self._sizes[reference], 1)
        self._sizes[reference] = -1
        self._sizes[reference] = self._size(target_of(reference, self._root))
        return self._sizes[reference]


_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = r"[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})?"


def _reader(pattern: str, read: Callable[[str], object]) -> Callable[[str], bool]:
    written = re.compile(pattern)

    def fits(text: str) -> bool:
        if not written.fullmatch(text):
            return False
        try:
            read(text.upper())
        except ValueError:
            return False
        return True

    return fits


# ISO 8601 as people write it: the offset and the seconds may be left out.
_FORMATS = {
    "date-time": _reader(f"{_DATE}[Tt ]{_TIME}", dt.datetime.fromisoformat),
    "date": _reader(_DATE, dt.date.fromisoformat),
    "time": _reader(_TIME, dt.time.fromisoformat),
}


_Make = Callable[[Any], Any]

_CLOSED = ConfigDict(allow_inf_nan=False, extra="forbid")
_MAX_WRONG = 1_000  # wrong values that are looked at one by one
# What pydantic and JSON Schema read alike; patterns, multiples and an author's own validators they may not.
_LIMITS = frozenset({"Ge", "Gt", "Le", "Lt", "Interval", "Len", "MinLen", "MaxLen"})


def check_of_schema(schema: Schema) -> Check:
    """Return a check against raw JSON Schema."""
    return fit_to(schema)


def shape_of_output(wanted: type | Schema, where: str) -> Shape:
    """Return the schema of what a tool gives back and its check, which takes it as it is or not at all.

    A type's schema is that of its values as JSON writes them. Clients of MCP want an object.
    """
    try:
        found = wanted if isinstance(wanted, Mapping) else _schema_of_values(wanted)
        schema = {**({"type": "object"} if "$ref" in found else {}), **found}
        fit = fit_to(schema, coerced=True, what="the values")
    except (DeclarationError, PydanticUserError, SchemaError) as error:
        raise DeclarationError(f"{where}: output: {str(error).splitlines()[0]}") from None
    if schema.get("type") != "object":
        raise DeclarationError(f"{where}: output: it is no object; put the value into one")
    return Shape(lambda: schema, lambda _: fit)


def _schema_of_values(kind: type) -> Schema:
    return TypeAdapter(kind).json_schema(mode="serialization", by_alias=False)


def check_of_fields(fields: Iterable[Field], schema: Schema) -> Check:
    """Return a check that gives each field its Python value (dataclasses, enums and dates included)."""
    listed = tuple(fields)
    exact = {field.name: _exact(field.annotation) for field in listed}
    if None in exact.values():
        return _then(fit_to(schema), _validator({field.name: field.annotation for field in listed}, listed), listed)
    validate, nulls = _validator(exact, listed), {field.name: None for field in listed if field.null}
    fit = cache(lambda: fit_to(schema, coerced=True))

    def check(args: Mapping[str, Any]) -> Mapping[str, Any]:
        checked: dict[str, Any]
        if len(args) > _MAX_WRONG:
            fit()(args)
        try:
            checked = validate(args)
        except ValidationError:
            ready = coerce(schema, args if type(args) is dict else dict(args))
            try:
                checked = validate(ready)
            except ValidationError:  # once more, for all the complaints
                checked = _construct(validate, fit()(ready))
        return {**nulls, **checked} if nulls else checked

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
    read = _then(fit_to(schema), model.model_validate, fields)

    def check(args: Mapping[str, Any]) -> Mapping[str, Any]:
        made: Any = read(args)
        return Filled({name: getattr(made, own) for name, own in names if own in made.model_fields_set}, made)

    return check


def model_from(model: type[BaseModel], args: Mapping[str, Any]) -> BaseModel:
    """Return the model that the checked arguments were read into; arguments from elsewhere are read now."""
    return args.model if isinstance(args, Filled) else model.model_validate(dict(args))


def _then(fit: Check, make: _Make, fields: Iterable[Field]) -> Check:
    """Return a check that fits the arguments to the schema and then makes Python values of them."""
    fill = _fill_object(tuple(fields))
    return lambda args: _construct(make, fill(fit(args)))


def _construct(make: _Make, fitting: Any) -> Any:
    try:
        return make(fitting)
    except ValidationError as error:
        if error.error_count() > _MAX_WRONG:
            raise ArgumentError(f"{error.error_count():,} values cannot be used; send fewer to learn why") from None
        complaints = [complaint_of_python(detail) for detail in error.errors(include_url=False)]
        raise ArgumentError(join_complaints(complaints)) from None


def _validator(annotations: Mapping[str, Any], fields: Iterable[Field]) -> _Make:
    members = {each.name: (Required if each.required else NotRequired)[annotations[each.name]] for each in fields}
    arguments = with_config(_CLOSED)(TypedDict("Arguments", members))  # type: ignore[operator]  # made at run time
    try:
        return TypeAdapter(arguments).validator.validate_python
    except (SchemaError, PydanticUserError) as error:
        raise DeclarationError(f"the parameters cannot be checked: {str(error).splitlines()[0]}") from error


def _exact(annotation: Any) -> Any:
    """Return the annotation as one that takes exact values alone, None where only the schema can tell what fits.

    Without coercion pydantic and the schema agree about scalars and lists of them, and pydantic is the faster one.
    """
    from pydantic import FailFast, Strict  # noqa: PLC0415  a tenth of a start, and only for who checks

    if get_origin(annotation) is Annotated:
        inner, *notes = get_args(annotation)
        exact = _exact(inner)
        return None if exact is None or not all(map(_is_limit, notes)) else Annotated[exact, *notes]
    bare = without_notes(annotation)
    if bare is not annotation:  # null is no value but "not given"; what else is in the union keeps its limits
        return _exact(next(part for part in get_args(annotation) if part is not type(None)))
    if bare is str or (get_origin(bare) is Literal and all(type(each) is str for each in get_args(bare))):
        return bare
    if bare in (int, float, bool):
        return Annotated[bare, Strict()]
    item = _exact(get_args(bare)[0]) if get_origin(bare) is list else None
    return None if item is None else Annotated[list[item], FailFast()]  # type: ignore[valid-type]  # made at run time


def _is_limit(note: Any) -> bool:
    if is_field_info(note):
        return all(map(_is_limit, note.metadata))
    return isinstance(note, str) or type(note).__name__ in _LIMITS


def _fill_object(fields: tuple[Field, ...]) -> _Make:
    """Return what gives a member that is optional by `| None` alone the None that Python insists on, at every depth."""
    nulls = {field.name: None for field in fields if field.null}
    inside = {field.name: inner for field in fields if (inner := _fill_inside(field.annotation))}

    def fill(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        filled = {**nulls, **value}
        for name, each in inside.items():
            if name in value:
                filled[name] = each(value[name])
        return filled

    return fill


def _fill_inside(annotation: Any) -> _Make | None:
    """Return what fills an object or a list of objects; None where there is nothing to fill."""
    bare = without_notes(annotation)
    if get_origin(bare) not in LISTS:
        members = members_of(bare, "")
        return None if members is None else _fill_object(members)
    each = _fill_inside(get_args(bare)[0])
    return None if each is None else lambda value: [each(item) for item in value]
