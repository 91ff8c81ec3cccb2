"""Agent: a subagent before it becomes a tool."""

import copy
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .agent_inputs import Wanted, is_schema, schema_of
from .errors import DeclarationError
from .names import canonical
from .portable import check_portable_schema
from .schema import Schema
from .session import to_agent

__all__ = ["Agent", "output_schema"]

_TASK: Wanted = {"query": {"type": "string", "description": "The task for the agent.", "required": True}}
_MOST = 1_000_000_000  # turns, tokens or seconds: what nobody reaches, and every clock and every printer can take
_ARGUMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """A subagent as data: what it is told, what it takes, which tools it may use and how far it may go.

    `inputs` and `output` are dataclasses, pydantic models or TypedDicts within the portable subset, JSON Schema, or
    tables of six types (`define/agent_inputs.py`). `prompt` is what it always knows and `query` its first message; in
    both `${name}` stands for a declared input. Without `inputs` it takes `query`, and that is its first message.
    `tools` is an allow list of names, groups and globs: without one it has what its parent has, with an empty one
    nothing. `model` None (or `inherit`) is the parent's. `timeout` is seconds, `max_tokens` those of the whole run.
    `output_name` is what `complete_task` calls the answer, `render` what makes Markdown of it.
    """

    name: str
    description: str
    prompt: str
    inputs: Wanted = field(default_factory=lambda: _TASK)
    output: Wanted | None = None
    tools: tuple[str, ...] | None = None
    label: str = ""
    model: str | None = None
    max_turns: int = 30
    timeout: float = 600.0
    max_tokens: int | None = None
    query: str = ""
    output_name: str = "result"
    render: Callable[[Any], str] | None = None

    def __post_init__(self) -> None:
        if canonical(self.name) != self.name:
            raise DeclarationError(f"agent {self.name!r}: a name is 1 to 64 of a-z, 0-9, _ and -")
        if to_agent(self.name) != self.name:  # policy would take it for another agent, the one without the dash
            words = "a name is 1 to 64 of a-z, 0-9, _ and -, and - is not its first or last"
            raise DeclarationError(f"agent {self.name!r}: {words}")
        where = f"agent {self.name}"
        if self.inputs is _TASK:
            object.__setattr__(self, "query", self.query or "${query}")
        for what, text in (("description", self.description), ("prompt", self.prompt)):
            if not text.strip():
                raise DeclarationError(f"{where}: the {what} is blank; write one")
        object.__setattr__(self, "tools", _entries(self.tools, where))
        if self.model is not None:
            object.__setattr__(self, "model", None if self.model.strip() in ("", "inherit") else self.model)
        self._check_limits(where)
        # an author's dict is not ours to hold: what was checked must stay what it was
        for name in ("inputs", "output"):
            if isinstance(given := getattr(self, name), Mapping):
                object.__setattr__(self, name, copy.deepcopy(dict(given)))
        schema_of(self.inputs, where)
        if not _ARGUMENT.fullmatch(self.output_name):
            raise DeclarationError(
                f"{where}: output_name {self.output_name!r} is no name of an argument; write `result`"
            )
        if self.output is not None:
            output_schema(self.output, where)

    def _check_limits(self, where: str) -> None:
        counts: tuple[tuple[str, Any], ...] = (("max_turns", self.max_turns), ("max_tokens", self.max_tokens))
        for what, count in counts:
            if count is not None and (type(count) is not int or count < 1):
                raise DeclarationError(f"{where}: {what} must be a whole number above 0, not {count!r}")
            if count is not None and count > _MOST:
                raise DeclarationError(f"{where}: {what} must be a whole number above 0 and up to {_MOST:,}")
        seconds: Any = self.timeout
        if type(seconds) not in (int, float) or not 0 < seconds < math.inf:
            raise DeclarationError(f"{where}: timeout must be a positive number of seconds, not {seconds!r}")
        if seconds > _MOST:
            raise DeclarationError(f"{where}: timeout must be a positive number of seconds, {_MOST:,} at most")


def output_schema(output: Wanted, where: str) -> Schema:
    """Return the schema of an answer. Raw JSON Schema may be of any kind; a table is a closed object."""
    if not isinstance(output, Mapping):
        return schema_of(output, where)
    if not is_schema(output):
        return {**schema_of(output, where), "additionalProperties": False}
    check_portable_schema({"type": "object", "properties": {"output": output}}, where)
    return output


def _entries(tools: Any, where: str) -> tuple[str, ...] | None:
    if tools is None:
        return None
    if isinstance(tools, str) or not all(isinstance(each, str) and each.strip() for each in tools):
        raise DeclarationError(f"{where}: tools is a list of names, groups and globs, each a text that is not blank")
    return tuple(tools)
