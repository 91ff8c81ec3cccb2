"""A2UI: user interfaces as JSON, one message a line, checked line by line. Versions 0.8 and 0.9 are known."""

from typing import Any, NamedTuple

import orjson

from .errors import ToolError

MAX_PUSH_CHARS = 1_000_000

_BEGINS = {"beginRendering": "v0.8", "surfaceUpdate": "v0.8", "dataModelUpdate": "v0.8"}
_BEGINS |= {"createSurface": "v0.9", "updateComponents": "v0.9", "updateDataModel": "v0.9"}
_ACTIONS = (*_BEGINS, "deleteSurface")  # the last is the same in both
_MAX_FAULTS = 10


class A2uiPush(NamedTuple):
    """What is to be shown: messages of one version of A2UI."""

    version: str
    messages: tuple[dict[str, Any], ...]


def read_a2ui(jsonl: str) -> A2uiPush:
    """Return the messages, one a line; raise ToolError with the number of every line that is none."""
    if len(jsonl) > MAX_PUSH_CHARS:
        raise ToolError(f"A2UI of {len(jsonl):,} characters; push at most {MAX_PUSH_CHARS:,}", code="too_large")
    messages, faults, versions = list[dict[str, Any]](), list[str](), dict[str, int]()
    for number, line in enumerate(jsonl.split("\n"), start=1):
        if not line.strip():
            continue
        found = _read_line(line)
        if isinstance(found, str):
            faults.append(f"line {number}: {found}")
            continue
        messages.append(found)
        if version := next((_BEGINS[key] for key in found if key in _BEGINS), ""):
            versions.setdefault(version, number)
    if len(versions) > 1:
        first, other = sorted(versions, key=versions.__getitem__)
        faults.append(f"line {versions[other]}: this is {other}, but line {versions[first]} is {first}")
    if faults:
        more = [f"and {len(faults) - _MAX_FAULTS} more"] if len(faults) > _MAX_FAULTS else []
        raise ToolError(f"this is no A2UI; {'; '.join([*faults[:_MAX_FAULTS], *more])}", code="bad_arguments")
    if not messages:
        raise ToolError("there is no A2UI message here; write one JSON object a line", code="bad_arguments")
    return A2uiPush(next(iter(versions), "v0.8"), tuple(messages))


def _read_line(line: str) -> dict[str, Any] | str:
    """Return the message of a line, or what is wrong with it."""
    try:
        value = orjson.loads(line)
    except ValueError as error:
        return f"no JSON ({error})"
    if not isinstance(value, dict):
        return "expected a JSON object"
    actions = [key for key in value if key in _ACTIONS]
    if len(actions) != 1:
        return f"expected exactly one of {', '.join(_ACTIONS)}"
    if not isinstance(value[actions[0]], dict):
        return f"{actions[0]} is an object"
    return value


def write_a2ui_text(text: str) -> str:
    """Return the JSONL that shows a text and nothing else."""
    column = {"Column": {"children": {"explicitList": ["text"]}}}
    words = {"Text": {"text": {"literalString": text}, "usageHint": "body"}}
    components = [{"id": "root", "component": column}, {"id": "text", "component": words}]
    lines: list[dict[str, Any]] = [
        {"surfaceUpdate": {"surfaceId": "main", "components": components}},
        {"beginRendering": {"surfaceId": "main", "root": "root"}},
    ]
    return "\n".join(orjson.dumps(line).decode() for line in lines)
