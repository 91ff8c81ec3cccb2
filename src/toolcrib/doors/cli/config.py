"""toolcrib config: the configuration in force and where each setting stands, and its JSON Schema for editors."""

import os
from collections.abc import Mapping
from typing import Any, Unpack

import click

from toolcrib.app.settings import list_settings, schema_for_editors
from toolcrib.config.positions import format_path
from toolcrib.define.display import escape_controls

from ._format import print_json, print_table, truncate
from ._options import (
    CommandGroup,
    ConfigOptions,
    JsonOptions,
    config_options,
    json_options,
    load_from_options,
)

_VALUE_CHARS = 80


@click.group("config", cls=CommandGroup)
def command() -> None:
    """Show the configuration in force, and the schema that an editor checks one by."""


@command.declare("show", "config show --set", options=json_options)
@click.option("--set", "only_set", is_flag=True, help="Leave out what nobody set.")
def show(only_set: bool, **options: Unpack[JsonOptions]) -> None:
    """List every setting, its value and where it was set; what is secret or from the environment is not shown."""
    loaded = load_from_options(options, fills=True)
    chosen = (each for each in list_settings(loaded, os.environ) if each.where or not only_set)
    found = [(escape_controls(format_path(path)), value, where or "default") for path, value, where in chosen]
    files = [str(path) for path in loaded.document.files]
    if options["as_json"]:
        settings = [{"key": key, "value": value, "origin": origin} for key, value, origin in found]
        print_json({"files": files, "settings": settings})
        return
    click.echo(f"from {', '.join(map(escape_controls, files))}\n" if files else "no file: every setting is a default\n")
    rows = [(key, truncate(_render(value), _VALUE_CHARS), escape_controls(origin)) for key, value, origin in found]
    print_table(("key", "value", "where"), rows)


@command.declare("schema", "config schema > toolcrib.schema.json", options=config_options)
def schema(**_: Unpack[ConfigOptions]) -> None:
    """Print the JSON Schema of a configuration: name it in an editor, and it completes and checks keys."""
    print_json(schema_for_editors())


def _render(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case Mapping():
            return "{}"
        case list() | tuple():
            return f"[{', '.join(map(_render, value))}]"
    return escape_controls(str(value))
