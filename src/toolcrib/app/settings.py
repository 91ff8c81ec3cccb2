"""The configuration as it is shown and changed: every setting and where it stands, secrets left out; its schema."""

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple

import orjson
from pydantic import BaseModel

from toolcrib.adapter.trim import redact_value
from toolcrib.config.load import Loaded, SettingsInForce, list_fixed
from toolcrib.config.parse import parse_document
from toolcrib.config.positions import KeyPath
from toolcrib.config.settings import Config
from toolcrib.define.errors import ConfigError, ToolError
from toolcrib.services.feature import Difference, PreparedChange

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


class SettingsEditor:
    """Shows and changes the configuration of one crib: the file, and with it what counts."""

    def __init__(self, settings: SettingsInForce, env: Mapping[str, str]) -> None:
        self._settings, self._env = settings, env

    def show(self) -> dict[str, Any]:
        """Return what somebody set, nested as in the file, with the files and their hash."""
        shown: dict[str, Any] = {}
        for path, value, where in list_settings(self._settings.loaded, self._env):
            if where:
                at = shown
                for part in path[:-1]:
                    at = at.setdefault(str(part), {})
                at[str(path[-1])] = value
        files, problem = self._settings.document.files, self._settings.problem
        first, issues = str(files[0]) if files else None, [problem] if problem else []
        there = {"path": first, "exists": bool(files), "valid": not problem, "issues": issues}
        return {**there, "hash": self._hash(), "config": shown}

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the file."""
        return schema_for_editors()

    def prepare(self, raw: str, base: str, *, merges: bool) -> PreparedChange:
        """Return what the file would be with this text, or with this merge patch; raise ToolError when that is none."""
        path = self._find_file()
        if base != self._hash():
            what = (
                "is not that of the file as it is now; ask config.get again"
                if base
                else "is missing; config.get has it"
            )
            raise ToolError(f"baseHash {what}", code="conflict")
        try:
            value, _ = parse_document(raw, ".json5" if merges else path.suffix, "raw")
            _require_patchable(value, path if merges else None)
            if merges:
                value = _merge_patch(parse_document(path.read_text(), path.suffix, path.name)[0], value)
                raw = orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()
            with _written_beside(path, raw) as there:
                loaded = self._settings.read(there)
        except ConfigError as error:
            raise ToolError(str(error), code="bad_arguments") from None
        # against what counts and against what the file says, which may wait for a start
        differences = list(_compare(self._settings.document.value, loaded.document.value))
        differences += [each for each in _compare(self._read_file(), loaded.document.value) if each not in differences]
        return PreparedChange(raw, base, tuple(differences), tuple(list_fixed(self._settings.config, loaded.config)))

    def commit(self, change: PreparedChange) -> str:
        """Write it, keep what the file was beside it, and let it count; return the hash of what it is now."""
        path = self._find_file()
        if change.base != self._hash():
            raise ToolError("the file was changed meanwhile; ask config.get again", code="conflict")
        with _written_beside(path, change.text) as there:
            shutil.copy2(path, path.with_name(f"{path.name}.bak"))
            there.replace(path)
        if not change.fixed:
            self._settings.reload()
        return self._hash()

    def _find_file(self) -> Path:
        files = self._settings.document.files
        why = "there is no configuration file; `toolcrib init` makes one" if not files else ""
        if self._settings.loaded.foreign:
            why = "this file is OpenClaw's, and only read here"
        elif files and files[0].is_symlink():
            why = f"{files[0]} is a link; change the file that it leads to"
        if why:
            raise ToolError(why, code="unavailable")
        return files[0]

    def _read_file(self) -> Mapping[str, Any]:
        try:
            return self._settings.read().document.value
        except ConfigError:
            return {}

    def _hash(self) -> str:
        digest = hashlib.sha256()
        for file in self._settings.document.files:
            digest.update(file.read_bytes() if file.is_file() else b"")
        return digest.hexdigest()


def _require_patchable(value: Any, path: Path | None) -> None:
    """Raise ToolError when a change would write what stands for a secret, or rewrite a file that is only read."""
    if any(each == _HIDDEN for _, each in _list_leaves(value)):
        what = f"{_HIDDEN!r} stands for a secret that was left out; leave that key alone"
        raise ToolError(what, code="bad_arguments")
    if path is not None and path.suffix == ".toml":
        raise ToolError("a TOML file is not patched; send the whole with config.apply", code="bad_arguments")


@contextmanager
def _written_beside(path: Path, text: str) -> Iterator[Path]:
    """Give a file with this text, of the same kind, rights and folder; it is gone afterwards, unless it was moved."""
    there = path.with_name(f".{path.stem}-{token_hex(6)}{path.suffix}")
    try:
        there.touch(path.stat().st_mode & 0o777, exist_ok=False)
        with there.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        yield there
    except ConfigError as error:
        raise ConfigError(str(error).replace(str(there), str(path))) from None
    except OSError as error:
        raise ToolError(f"{path} cannot be written: {error.strerror}", code="unavailable") from None
    finally:
        there.unlink(missing_ok=True)


def _merge_patch(value: Any, patch: Any) -> Any:
    """Return a value as a JSON merge patch (RFC 7396) leaves it."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(value) if isinstance(value, Mapping) else {}
    for key, each in patch.items():
        merged[key] = _merge_patch(merged.get(key), each)
    return {key: each for key, each in merged.items() if each is not None or key not in patch}


def _compare(old: Any, new: Any, path: tuple[str, ...] = ()) -> Iterator[Difference]:
    """Yield where two values differ, mapping by mapping."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in {**old, **new}:
            yield from _compare(old.get(key), new.get(key), (*path, str(key)))
    elif path == ("tools",) and old is None:
        yield from _compare({}, new, path)
    elif old != new:
        yield Difference(path, old, new)


def _list_leaves(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else None
    if items is None:
        yield path, value
    else:
        for key, each in items:
            yield from _list_leaves(each, (*path, key))


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
