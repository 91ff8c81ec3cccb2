"""The configuration as it is shown and changed: every setting and where it stands, secrets left out; its schema."""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import orjson
from pydantic import BaseModel

from toolcrib.adapter.trim import redact_value
from toolcrib.backends.files.stage import sync_folder
from toolcrib.config.load import Loaded, SettingsInForce, list_fixed, load
from toolcrib.config.parse import parse_document
from toolcrib.config.positions import KeyPath, format_path
from toolcrib.config.settings import Config
from toolcrib.define.errors import ConfigError, ToolError
from toolcrib.lazy import regex, replace
from toolcrib.policy.lint import Finding
from toolcrib.registry.catalog import ALIASED, Problem
from toolcrib.services.feature import Difference, PreparedChange

from .masking import MaskedText, mask_text, unmask_text
from .secrets import find_commented, find_values, find_written, must_hide, redactors_for

_HIDDEN = "…"
_REFERENCE = regex(r"(?:Bearer |Basic )?(?:\$\{\w+\})+")  # shows where a secret is, and not the secret
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

    def show(self, *, has_text: bool = False) -> dict[str, Any]:
        """Return what somebody set, nested as in the file, with the files and their hash.

        With the text of the first file comes where every setting stands; marks are in it for the secrets.
        """
        shown: dict[str, Any] = {}
        places, redact = dict[str, str](), redactors_for(self._settings.loaded, self._env)[1] or str
        for path, value, where in list_settings(self._settings.loaded, self._env):
            if where:
                places[redact(format_path(path))] = where
                *outer, last = (redact(str(part)) for part in path)
                at = shown
                for part in outer:
                    at = at.setdefault(part, {})
                at[last] = value
        files, problem = self._settings.document.files, self._settings.problem
        first, issues = str(files[0]) if files else None, [problem] if problem else []
        there = {"path": first, "exists": bool(files), "valid": not problem, "issues": issues}
        shown_file = {**there, "hash": self._hash(), "config": shown}
        return {**shown_file, "places": places, **self._show_text(files)} if has_text else shown_file

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
            raw = raw if merges else self.restore(raw)
            value, _ = parse_document(raw, ".json5" if merges else path.suffix, "raw")
            _require_patchable(value, path if merges else None)
            if merges:
                value = _merge_patch(parse_document(_read_text(path), path.suffix, path.name)[0], value)
                raw = orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()
            with _written_beside(path, raw) as there:
                loaded = self._settings.read(there)
        except ConfigError as error:
            raise ToolError(str(error), code="bad_arguments") from None
        # against what counts and against what the file says, which may wait for a start
        differences = list(_compare(self._settings.document.value, loaded.document.value))
        differences += [each for each in _compare(self._read_file(), loaded.document.value) if each not in differences]
        return PreparedChange(raw, base, tuple(differences), tuple(list_fixed(self._settings.config, loaded.config)))

    def read_draft(self, raw: str, *, merges: bool) -> Loaded:
        """Return what this text in the place of the file, or this merge patch of it, would mean; else ConfigError."""
        files = self._settings.document.files
        if merges:
            value, _ = parse_document(raw, ".json5", "raw")
            _require_patchable(value, files[0] if files else None)
            written = parse_document(_read_text(files[0]), files[0].suffix, files[0].name)[0] if files else {}
            raw = orjson.dumps(_merge_patch(written, value), option=orjson.OPT_INDENT_2).decode()
        elif files:
            raw = self.restore(raw)
        if files:
            with _written_beside(files[0], raw) as there:
                return self._settings.read(there)
        with TemporaryDirectory() as folder:
            (there := Path(folder) / "toolcrib.json5").write_text(raw)
            return load(there, self._env)

    def propose(self, path: Sequence[str], entry: Any) -> tuple[str, PreparedChange]:
        """Return the merge patch that adds an entry to a list of the file, and what comes of it: that, and no more."""
        file = self._find_file()
        if file.suffix == ".toml":
            why = f"a TOML file is not changed from here; write this into {'.'.join(path)} by hand"
            raise ToolError(f"{why}: {orjson.dumps(entry).decode()}", code="unavailable")
        written, _ = parse_document(_read_text(file), file.suffix, file.name)
        raw = orjson.dumps(_add_to_list(written, path, entry)).decode()
        change = self.prepare(raw, self._hash(), merges=True)
        now = self._settings.document.value
        if change.differences != tuple(_compare(now, _merge_patch(now, _add_to_list(now, path, entry)))):
            what = f"an entry of {'.'.join(path)} would not mean what it says in this file (a $, or an included list)"
            raise ToolError(f"{what}; write it by hand", code="unavailable")
        return raw, change

    def commit(self, change: PreparedChange) -> str:
        """Write it, keep what the file was beside it, and let it count; return the hash of what it is now."""
        path = self._find_file()
        with _written_beside(path, change.text) as there, _alone_in(path.parent):
            if change.base != self._hash():
                raise ToolError("the file was changed meanwhile; ask config.get again", code="conflict")
            shutil.copy2(path, path.with_name(f"{path.name}.bak"))
            there.replace(path)
            sync_folder(path.parent)
        if not change.fixed:
            self._settings.reload()
        return self._hash()

    def restore(self, raw: str) -> str:
        """Return a text that was made of the one that is shown, with its secrets; raise ConfigError when it is none."""
        path = self._find_file()
        return unmask_text(raw, path.suffix, self._mask(path)) if "…" in raw else raw

    def _show_text(self, files: Sequence[Path]) -> dict[str, Any]:
        try:
            return {"raw": self._mask(files[0]).text if files else "", "rawProblem": ""}
        except (ToolError, ConfigError, OSError) as error:
            return {"raw": None, "rawProblem": str(error)}

    def _mask(self, path: Path) -> MaskedText:
        loaded, text = self._settings.loaded, _read_text(path)
        written, _ = parse_document(text, path.suffix, path.name)
        secrets = {*find_values(loaded, self._env), *find_written(written), *find_commented(text)}
        for at, value, is_secret in _leaves(loaded.config):
            if is_secret and not self._is_referenced(loaded.translated.key(at)):
                every = value if isinstance(value, tuple | list) else (value,)
                secrets |= {str(each) for each in every if must_hide(at, each)}
        return mask_text(text, path.suffix, {each for each in secrets if not _REFERENCE.fullmatch(each)})

    def _is_referenced(self, path: KeyPath) -> bool:
        return any(each[: len(path)] == path for each in self._settings.document.referenced)

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


def _read_text(path: Path) -> str:
    """Return what a file says; raise ToolError when it is none, or no text: a pipe would be waited for."""
    try:
        if path.is_file():
            return path.read_text()
        why = "it is no regular file"
    except (OSError, UnicodeDecodeError) as error:
        why = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error.strerror)
    raise ToolError(f"{path} cannot be read: {why}", code="unavailable")


@contextmanager
def _written_beside(path: Path, text: str) -> Iterator[Path]:
    """Give a file with this text, of the same kind, rights and folder; it is gone afterwards, unless it was moved."""
    there = path.with_name(f".{path.stem}-{token_hex(6)}{path.suffix}")
    try:
        newline = "\r\n" if b"\r\n" in path.read_bytes() else "\n"  # lines end as they did
        there.touch(path.stat().st_mode & 0o777, exist_ok=False)
        with there.open("w", newline=newline) as file:
            file.write(text.replace("\r\n", "\n"))
            file.flush()
            os.fsync(file.fileno())
        yield there
    except ConfigError as error:
        at = replace(error.place, file=error.place.file.replace(str(there), str(path)))
        raise ConfigError(error.message.replace(str(there), str(path)), at) from None
    except OSError as error:
        raise ToolError(f"{path} cannot be written: {error.strerror}", code="unavailable") from None
    finally:
        there.unlink(missing_ok=True)


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Let no other process of ours save a file here meanwhile."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)  # given back with the descriptor
        yield
    finally:
        os.close(fd)


def _merge_patch(value: Any, patch: Any) -> Any:
    """Return a value as a JSON merge patch (RFC 7396) leaves it."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(value) if isinstance(value, Mapping) else {}
    for key, each in patch.items():
        merged[key] = _merge_patch(merged.get(key), each)
    return {key: each for key, each in merged.items() if each is not None or key not in patch}


def _add_to_list(value: Any, path: Sequence[str], entry: Any) -> dict[str, Any]:
    """Return the merge patch by which a list below a path has one more entry."""
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    patch: Any = [*(value if isinstance(value, list) else ()), entry]
    for key in reversed(path):
        patch = {key: patch}
    return dict(patch)


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
    shown = {key: _for_editors(each) for key, each in schema.items() if key not in ("title", "default")}
    if isinstance(schema.get("properties"), Mapping):
        shown["properties"] = {key: _for_editors(each) for key, each in schema["properties"].items()}
    if schema.get("type") == "object":
        shown["properties"] = {**shown.get("properties", {}), "$include": _INCLUDE}
    if "default" in schema and schema["default"] is not None and not isinstance(schema["default"], Mapping):
        shown["default"] = schema["default"]
    if "$ref" in schema:
        shown = {"$ref": schema["$ref"]}
    return shown["anyOf"][0] | shown if len(shown.get("anyOf", ())) == 1 else shown


def finding_from_problem(problem: Problem) -> Finding:
    """Return what lint says about something that was offered and not taken in."""
    if problem.source == "plugins":
        return Finding("plugin", "warning", "plugins", problem.sentence, "mend it, or take it away")
    if problem.source == "policy.shadow":
        return Finding("shadow", "warning", problem.source, problem.sentence, "mend the file, or take the key out")
    if problem.source == "agents":
        return Finding("agent", "warning", "agents", problem.sentence, "mend it, accept it, or take it away")
    if problem.source == ALIASED:
        return Finding("collision", "error", "tools.aliases", problem.sentence, "choose another")
    if problem.source == "skills":
        return Finding("skill", "warning", "skills", problem.sentence, "mend it, accept it, or take it away")
    if problem.source.partition(":")[0] == "mcp":
        return Finding("mcp", "warning", problem.source, problem.sentence, "`toolcrib mcp list` tells more")
    return Finding("collision", "error", problem.source, problem.sentence, "rename one, or leave the plugin out")
