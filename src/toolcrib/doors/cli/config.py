"""toolcrib config: the configuration in force and where each setting stands, and its JSON Schema for editors."""

import os
from collections.abc import Iterator, Mapping
from typing import Any, Unpack

import click
from pydantic import BaseModel

from toolcrib.adapter.trim import redact_value
from toolcrib.app.secrets import redactors_for
from toolcrib.config.load import Loaded
from toolcrib.config.positions import KeyPath, format_path
from toolcrib.config.settings import Config
from toolcrib.define.display import escape_controls

from ._format import print_json, print_table, truncate
from ._options import (
    CommandGroup,
    ConfigOptions,
    JsonOptions,
    config_options,
    json_options,
    load_from_options,
    show_examples,
)

_HIDDEN = "…"
_DEFAULT = "default"
_VALUE_CHARS = 80


@click.group("config", cls=CommandGroup)
def command() -> None:
    """Show the configuration in force, and the schema that an editor checks one by."""


@command.command("show", epilog=show_examples("config show --set"))
@click.option("--set", "only_set", is_flag=True, help="Leave out what nobody set.")
@json_options
def show(only_set: bool, **options: Unpack[JsonOptions]) -> None:
    """List every setting, its value and where it was set; what is secret or from the environment is not shown."""
    loaded = load_from_options(options, fills=True)
    found = [each for each in _list_settings(loaded) if not only_set or each[2] != _DEFAULT]
    files = [str(path) for path in loaded.document.files]
    if options["as_json"]:
        settings = [{"key": key, "value": value, "origin": origin} for key, value, origin in found]
        print_json({"files": files, "settings": settings})
        return
    click.echo(f"from {', '.join(map(escape_controls, files))}\n" if files else "no file: every setting is a default\n")
    rows = [(key, truncate(_render(value), _VALUE_CHARS), escape_controls(origin)) for key, value, origin in found]
    print_table(("key", "value", "where"), rows)


@command.command("schema", epilog=show_examples("config schema > toolcrib.schema.json"))
@config_options
def schema(**_: Unpack[ConfigOptions]) -> None:
    """Print the JSON Schema of a configuration: name it in an editor, and it completes and checks keys."""
    made = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Config.model_json_schema(by_alias=True)}
    print_json({**_for_editors(made), "title": "toolcrib configuration"})


def _list_settings(loaded: Loaded) -> Iterator[tuple[str, Any, str]]:
    """Yield key, value and place of every setting; lists and maps without keys of ours are one setting each."""
    document, redact = loaded.document, redactors_for(loaded, os.environ)[1] or str
    for path, value, is_secret in _leaves(loaded.config):
        own = loaded.translated.key(path)
        at = document.places.get(own)
        is_hidden = is_secret or any(each[: len(own)] == own for each in document.referenced)
        shown = _HIDDEN if is_hidden and value else redact_value(value, redact)
        where = _DEFAULT if at is None else f"{at.file}:{at.line}" if at.line else at.file or "the program"
        yield escape_controls(format_path(own)), shown, where


def _leaves(value: Any, path: KeyPath = (), *, is_secret: bool = False) -> Iterator[tuple[KeyPath, Any, bool]]:
    """Yield what stands in the settings; fields that are kept out of a `repr` are secret."""
    if isinstance(value, BaseModel):
        for name, info in type(value).model_fields.items():
            hides = is_secret or info.repr is False
            yield from _leaves(getattr(value, name), (*path, info.alias or name), is_secret=hides)
    elif isinstance(value, Mapping) and value:
        for key, each in value.items():
            yield from _leaves(each, (*path, str(key)), is_secret=is_secret)
    elif isinstance(value, tuple) and any(isinstance(each, BaseModel) for each in value):
        for at, each in enumerate(value):
            yield from _leaves(each, (*path, at), is_secret=is_secret)
    elif value is not None:
        yield path, value, is_secret


def _render(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case Mapping():
            return "{}"
        case list() | tuple():
            return f"[{', '.join(map(_render, value))}]"
    return escape_controls(str(value))


def _for_editors(schema: Any) -> Any:
    """Return a schema as the file is read: no nulls and no titles, and `$include` in every mapping."""
    if isinstance(schema, list):
        return [_for_editors(each) for each in schema if each != {"type": "null"}]
    if not isinstance(schema, Mapping):
        return schema
    told = {key: _for_editors(each) for key, each in schema.items() if key not in ("title", "default")}
    if isinstance(schema.get("properties"), Mapping):
        told["properties"] = {key: _for_editors(each) for key, each in schema["properties"].items()}
    if schema.get("type") == "object":
        told["properties"] = {**told.get("properties", {}), "$include": _INCLUDE}
    if "default" in schema and schema["default"] is not None and not isinstance(schema["default"], Mapping):
        told["default"] = schema["default"]
    if "$ref" in schema:
        told = {"$ref": schema["$ref"]}
    return told["anyOf"][0] | told if len(told.get("anyOf", ())) == 1 else told


_INCLUDE = {"type": ["string", "array"], "items": {"type": "string"}, "description": "Files whose keys stand here."}
