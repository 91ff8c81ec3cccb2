"""The configuration as it is shown: every setting and where it stands, secrets left out; and its schema for editors."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel

from toolcrib.adapter.trim import redact_value
from toolcrib.config.load import Loaded
from toolcrib.config.positions import KeyPath
from toolcrib.config.settings import Config

from .secrets import redactors_for

_HIDDEN = "…"
_INCLUDE = {"type": ["string", "array"], "items": {"type": "string"}, "description": "Files whose keys stand here."}


class Setting(NamedTuple):
    """One setting: its path in the file, its value as it may be shown, and where it was set, "" for a default."""

    path: KeyPath
    value: Any
    where: str


def list_settings(loaded: Loaded, env: Mapping[str, str]) -> Iterator[Setting]:
    """Yield every setting; lists and maps without keys of ours are one setting each."""
    document, redact = loaded.document, redactors_for(loaded, env)[1] or str
    for path, value, is_secret in _leaves(loaded.config):
        own = loaded.translated.key(path)
        at = document.places.get(own)
        is_hidden = is_secret or any(each[: len(own)] == own for each in document.referenced)
        shown = _HIDDEN if is_hidden and value else redact_value(value, redact)
        where = "" if at is None else f"{at.file}:{at.line}" if at.line else at.file or "the program"
        yield Setting(own, shown, where)


def show_settings(loaded: Loaded, env: Mapping[str, str]) -> dict[str, Any]:
    """Return what somebody set, nested as in the file, with the files and their hash."""
    shown: dict[str, Any] = {}
    for path, value, where in list_settings(loaded, env):
        if where:
            at = shown
            for part in path[:-1]:
                at = at.setdefault(str(part), {})
            at[str(path[-1])] = value
    files, digest = loaded.document.files, hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    first, problems = str(files[0]) if files else None, list[str]()
    there = {"path": first, "exists": bool(files), "valid": True, "issues": problems}
    return {**there, "hash": digest.hexdigest(), "config": shown}


def schema_for_editors() -> dict[str, Any]:
    """Return the JSON Schema of a configuration as a file is read: no nulls and no titles, `$include` everywhere."""
    made = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Config.model_json_schema(by_alias=True)}
    return {**_for_editors(made), "title": "toolcrib configuration"}


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


def _for_editors(schema: Any) -> Any:
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
