"""Entries of the record as JSON: secrets taken out, long arguments cut, odd values named by their type."""

import hashlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from decimal import Decimal
from functools import lru_cache
from pathlib import PurePath
from typing import Any
from uuid import UUID

import orjson
from pydantic import BaseModel

from toolcrib.define.caller import Caller
from toolcrib.define.grounds import Grounds
from toolcrib.define.message import Call
from toolcrib.define.record import Answered, Decided, Entry, Finished, Granted, Revoked, Started
from toolcrib.define.verdict import Verdict

__all__ = ["LONGEST", "Redact", "body_of", "opened"]

LONGEST = 4096  # characters of arguments that are kept; of longer ones the digest says which they were
_LONGEST_WORD = 256
_MOST_PARTS = 10_000
_DEEPEST = 64
_WIDEST_INT = 1 << 63
_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS

Redact = Callable[[str], str]


def body_of(entry: Entry, redact: Redact | None = None, longest: int = LONGEST) -> tuple[str, str]:
    """Return the kind of an entry and its JSON; `redact` takes secrets out of a text."""
    kind, body = _told(entry, redact, longest)
    return kind, _json(body, redact).decode()


def opened(grounds: Grounds, redact: Redact | None = None) -> str:
    """Return the JSON of what decisions are made from, whole: they are derived from it again."""
    text: str | bytes = grounds.text
    if redact is not None and redact(plain := json.dumps(told := json.loads(text), ensure_ascii=False)) != plain:
        text = orjson.dumps(_Plain(redact, sys.maxsize).told(told))
    return orjson.dumps({"digest": grounds.digest, "grounds": orjson.Fragment(text)}).decode()


def _told(entry: Entry, redact: Redact | None, longest: int) -> tuple[str, dict[str, Any]]:
    match entry:
        case Decided(call, caller, verdict, reason, grounds):
            body: dict[str, Any] = {"call": _call(call, redact, longest), "caller": _caller(caller)}
            body |= {"verdict": _verdict(verdict)} if verdict else {"reason": reason}
            return "decided", body | ({"under": grounds.digest} if grounds else {})
        case Started(call, tool):
            args = _bounded(call.args, redact, longest)
            return "started", {"call": {**_named(call, redact), "args": args}, "tool": tool}
        case Finished(call, tool, status, code, ran):
            return "finished", {
                "call": _named(call, redact), "tool": tool, "status": status, "code": code[:_LONGEST_WORD], "ran": ran,
            }  # fmt: skip
        case Answered(call):
            return "answered", {**entry._asdict(), "call": _named(call, redact)}
        case Granted():
            return "granted", {**entry._asdict(), "shown": _bounded(entry.shown, redact, longest)}
        case Revoked():
            return "revoked", entry._asdict()


def _named(call: Call, redact: Redact | None) -> dict[str, Any]:
    return {"id": _bounded(call.id, redact, _LONGEST_WORD), "key": call.key or call.id[:_LONGEST_WORD]}


def _call(call: Call, redact: Redact | None, longest: int) -> dict[str, Any]:
    told = {**_named(call, redact), "name": _bounded(call.name, redact, _LONGEST_WORD)}
    told["args"] = _bounded(call.args, redact, longest)
    return told | ({"flaw": _bounded(call.flaw, redact, _LONGEST_WORD)} if call.flaw else {})


@lru_cache(maxsize=1024)  # the same few callers and verdicts come again and again
def _caller(caller: Caller) -> orjson.Fragment:
    """Return what is known of a caller; what is not said has its default."""
    told = {field.name: value for field in fields(caller) if (value := getattr(caller, field.name)) != field.default}
    if caller.sender is not None:
        told["sender"] = {field.name: getattr(caller.sender, field.name) for field in fields(caller.sender)}
    return orjson.Fragment(_json(told, None))


@lru_cache(maxsize=1024)
def _verdict(verdict: Verdict) -> orjson.Fragment:
    return orjson.Fragment(_json({field.name: getattr(verdict, field.name) for field in fields(verdict)}, None))


def _bounded(value: Any, redact: Redact | None, longest: int) -> Any:
    """Return a value as it is kept: whole, or its beginning with its length and the digest of all of it."""
    if isinstance(value, str) and len(value) <= longest:
        return value
    text = _json(value, redact)
    if len(text) <= longest:
        return orjson.Fragment(text)
    shown = text[:longest].decode(errors="ignore")
    return {"cut": shown, "length": len(text), "sha256": hashlib.sha256(text).hexdigest()}


def _json(value: Any, redact: Redact | None) -> bytes:
    try:
        text = orjson.dumps(value, _known, _OPTIONS)
    except (TypeError, ValueError):  # too deep, too big a number, half a character
        text = orjson.dumps(_Plain(str).told(value), None, _OPTIONS)
    if redact is not None and (shown := text.decode()) != redact(shown):
        text = orjson.dumps(_Plain(redact).told(orjson.loads(text)), None, _OPTIONS)
    return text


def _known(value: Any) -> Any:
    """Return a value that JSON does not know as one that it does."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, BaseModel):
        return dict(value)
    if isinstance(value, Set):
        return sorted(value, key=repr)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"<{len(value)} bytes>"
    return str(value) if isinstance(value, (PurePath, UUID, Decimal)) else f"<{type(value).__name__}>"


class _Plain:
    """Makes a value plain, part by part, however odd it is; each text as `redact` leaves it."""

    def __init__(self, redact: Redact, most: int = _MOST_PARTS) -> None:
        self._redact, self._left = redact, most

    def told(self, value: Any, depth: int = 0) -> Any:
        self._left -= 1
        if self._left < 0 or depth > _DEEPEST:
            return "<more>"
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, (int, float)):
            text = repr(value)
            is_plain = self._redact(text) == text and (isinstance(value, float) or abs(value) < _WIDEST_INT)
            return value if is_plain else self._text(text)
        if isinstance(value, Mapping):
            return {self._text(str(name)): self.told(each, depth + 1) for name, each in value.items()}
        if isinstance(value, (Sequence, Set)) and not isinstance(value, (bytes, bytearray, memoryview)):
            return [self.told(each, depth + 1) for each in value]
        if is_dataclass(value) and not isinstance(value, type):
            return {each.name: self.told(getattr(value, each.name), depth + 1) for each in fields(value)}
        known = _known(value)
        return self._text(known) if isinstance(known, str) else self.told(known, depth + 1)

    def _text(self, text: str) -> str:
        return self._redact(text.encode(errors="replace").decode())
