"""The mandate of a subagent, derived from its Agent: what it takes, what it is told, how it says that it is done."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_jsonable_python

from .agent import Agent, output_schema
from .agent_inputs import defaults_of, schema_of, shape_of
from .check import check_of_fields, check_of_schema
from .errors import ArgumentError
from .fields import Field
from .schema import Schema, object_schema
from .shape import Check, Shape
from .template import as_text, fill, placeholders

__all__ = [
    "COMPLETE", "OUTCOME", "WORKING", "Prompts", "answer_text", "called_key", "completion_shape", "declared_inputs",
    "inputs_from", "inputs_shape", "is_called", "prompts_of",
]  # fmt: skip

COMPLETE = "complete_task"  # the tool by which a subagent says that it is done
# Noted in the log of a run as it begins and once it is known how it ended: one that has the first alone was cut off,
# whatever its turns say about themselves.
WORKING, OUTCOME = "subagent:working", "subagent:outcome"

_PLAIN: Schema = {"type": "string", "description": "The whole answer, in Markdown.", "minLength": 1}
_BEGIN = "Begin."


_CALLED = "call-"


def called_key(agent: str, id: str) -> str:
    """Return the key of the session of a run that its parent waits for."""
    return f"agent:{agent}:subagent:{_CALLED}{id}"


def is_called(key: str) -> bool:
    """Tell whether a session is that of a run its parent waited for: nobody lists, steers or goes on with it."""
    return key.rpartition(":")[2].startswith(_CALLED)


@dataclass(frozen=True, slots=True)
class Prompts:
    """What a subagent reads before its first turn: the system prompt and the first message, inputs filled in."""

    system: str
    query: str


def declared_inputs(agent: Agent) -> tuple[str, ...]:
    """Return the names that may stand as placeholders in the agent's prompts."""
    return tuple(schema_of(agent.inputs, f"agent {agent.name}").get("properties", {}))


def inputs_shape(agent: Agent) -> Shape:
    """Return the parameters of the agent's tool and the check of its arguments."""
    return shape_of(agent.inputs, f"agent {agent.name}")


def inputs_from(agent: Agent, task: str) -> Mapping[str, Any]:
    """Return the checked inputs of an agent that is asked in plain words, or in a JSON object of its inputs.

    Words go to the one text that has to be there, else to the first that may be. Raises ArgumentError when they cannot
    be all that it takes.
    """
    shape = inputs_shape(agent)
    properties, required = shape.schema.get("properties", {}), shape.schema.get("required", ())
    texts = [name for name in (*required, *properties) if properties[name].get("type") == "string"]
    if not properties:
        return shape.check({})
    given = _object(task)
    if given is not None and set(given) <= set(properties):
        return shape.check(given)
    if not texts or len(required) > 1:
        names = ", ".join(properties)
        raise ArgumentError(f"{agent.name} takes {names}; write the task as a JSON object with them")
    return shape.check({texts[0]: task})


def _object(text: str) -> dict[str, Any] | None:
    if not text.lstrip().startswith("{"):
        return None
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def prompts_of(agent: Agent, args: Mapping[str, Any]) -> Prompts:
    """Return what the agent reads, for arguments that were checked.

    An agent without a `query` is told those inputs in its first message that its prompt has no place for: whatever is
    passed reaches it.
    """
    declared = declared_inputs(agent)
    values = {**defaults_of(agent.inputs, f"agent {agent.name}"), **args}
    query = fill(agent.query, values, declared).strip()
    if not query:
        placed = placeholders(agent.prompt)
        query = _told(
            {name: as_text(values.get(name)) for name in declared if name not in placed}, named=len(declared) > 1
        )
    return Prompts(fill(agent.prompt, values, declared), query)


def _told(inputs: Mapping[str, str], *, named: bool) -> str:
    """Return inputs as a first message: the only one of an agent as it is, several each under its name."""
    given = {name: text for name, text in inputs.items() if text.strip()}
    return "\n".join(f"{name}: {text}" if named else text for name, text in given.items()) or _BEGIN


def completion_shape(agent: Agent) -> Shape:
    """Return the parameters of the agent's `complete_task` and their check.

    Without an output it is a text that is not blank. What a model adds beside the answer is left out: no reason to
    refuse a good one.
    """
    name, output = agent.output_name, agent.output
    if isinstance(output, type):
        fields = (Field(name, output, required=True),)
        return Shape(lambda: object_schema(fields), lambda schema: _alone(name, check_of_fields(fields, schema)))
    answer = _PLAIN if output is None else output_schema(output, f"agent {agent.name}")
    closed = {"type": "object", "properties": {name: answer}, "required": [name], "additionalProperties": False}

    def check(schema: Schema) -> Check:
        fitting = _alone(name, check_of_schema(schema))
        return fitting if output is not None else _not_blank(name, fitting)

    return Shape(lambda: closed, check)


def _alone(name: str, check: Check) -> Check:
    return lambda args: check({key: value for key, value in args.items() if key == name})


def _not_blank(name: str, check: Check) -> Check:
    def checked(args: Mapping[str, Any]) -> Mapping[str, Any]:
        fitting = check(args)
        if not fitting[name].strip():
            raise ArgumentError(f"{name} is blank; write the answer")
        return fitting

    return checked


def answer_text(agent: Agent, args: Mapping[str, Any]) -> str:
    """Return the answer in checked arguments of `complete_task` as Markdown: rendered, or text, or indented JSON."""
    answer = args[agent.output_name]
    if agent.render is not None:
        return agent.render(answer)
    plain = to_jsonable_python(answer)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False, indent=2)
