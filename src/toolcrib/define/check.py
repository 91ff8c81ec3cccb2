"""Arguments against a shape: coerced where a model's spelling is clear, every complaint in one sentence.

The schema decides, whichever way a tool was declared; Python's types then make values of what fits.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Annotated, Any, Literal, NotRequired, Required, get_args, get_origin

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, with_config
from pydantic.errors import PydanticUserError
from pydantic_core import SchemaError
from typing_extensions import TypedDict

from .coerce import coerce
from .complaints import complaint_of_python, join_complaints
from .errors import ArgumentError, DeclarationError
from .fields import LISTS, Field, is_field_info, members_of, without_notes
from .fit import fit_to
from .schema import Schema, fields_of
from .shape import Check

__all__ = ["Filled", "check_of_fields", "check_of_model", "check_of_schema", "join_complaints", "model_from"]

_Make = Callable[[Any], Any]

_CLOSED = ConfigDict(allow_inf_nan=False, extra="forbid")
_MOST_TOLD = 1_000  # wrong values that are looked at one by one
# What pydantic and JSON Schema read alike; patterns, multiples and an author's own validators they may not.
_LIMITS = frozenset({"Ge", "Gt", "Le", "Lt", "Interval", "Len", "MinLen", "MaxLen"})


def check_of_schema(schema: Schema) -> Check:
    """Return a check against raw JSON Schema."""
    return fit_to(schema)


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
        if len(args) > _MOST_TOLD:
            fit()(args)
        try:
            checked = validate(args)
        except ValidationError:
            ready = coerce(schema, args if type(args) is dict else dict(args))
            try:
                checked = validate(ready)
            except ValidationError:  # once more, for all the complaints
                checked = _made(validate, fit()(ready))
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
    return lambda args: _made(make, fill(fit(args)))


def _made(make: _Make, fitting: Any) -> Any:
    try:
        return make(fitting)
    except ValidationError as error:
        if error.error_count() > _MOST_TOLD:
            raise ArgumentError(f"{error.error_count():,} values cannot be used; send fewer to learn why") from None
        said = [complaint_of_python(detail) for detail in error.errors(include_url=False)]
        raise ArgumentError(join_complaints(said)) from None


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
    if bare is not annotation:  # null is no value but "not given"
        return _exact(bare)
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
