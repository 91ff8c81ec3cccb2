"""Agent: a subagent before it becomes a tool; and its mandate: its inputs, its prompt, how it reports that it is done.

What an agent takes and gives becomes the one JSON Schema that models are shown, however its author wrote it down.
Three ways: a dataclass, TypedDict or pydantic model; raw JSON Schema; or a table of names with one of six types each:

    {"objective": {"type": "string", "description": "what to find out", "required": True},
     "folders": {"type": "string[]"}}

In a prompt `${name}` stands for an input that was declared.
"""

import copy
import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from toolcrib.define.schema.annotations import Field, Schema, fields_of, members_of, object_schema
from toolcrib.define.schema.check import check_of_fields, check_of_model, check_of_schema
from toolcrib.define.schema.portable import Check, Shape, check_portable_schema
from toolcrib.lazy import dataclass, field, regex

from .errors import ArgumentError, DeclarationError
from .names import canonical, nearest
from .session import to_agent

_PLACEHOLDER = regex(r"\$\{([^{}]+)\}")


def fill(template: str, values: Mapping[str, Any], declared: Iterable[str]) -> str:
    """Return the template with every declared name replaced by its value; one that has no value leaves nothing behind.

    What is inserted is never looked at again, so a value cannot ask for another one.
    """
    names = frozenset(declared)
    return _PLACEHOLDER.sub(lambda found: _as_text(values.get(found[1])) if found[1] in names else found[0], template)


def placeholders(template: str) -> tuple[str, ...]:
    """Return what stands between `${` and `}`, declared or not, each once and in order."""
    return tuple(dict.fromkeys(_PLACEHOLDER.findall(template)))


def _as_text(value: Any) -> str:
    """Return a value as a prompt shows it: words as they are, anything else as JSON, what is not there as nothing."""
    plain = to_jsonable_python(value)
    if plain is None:
        return ""
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


Wanted = type | Mapping[str, Any]

SIX: Mapping[str, Schema] = {
    "string": {"type": "string"},
    "number": {"type": "number"},
    "integer": {"type": "integer"},
    "boolean": {"type": "boolean"},
    "string[]": {"type": "array", "items": {"type": "string"}},
    "number[]": {"type": "array", "items": {"type": "number"}},
}
_RANGE, _COUNT = ("enum", "minimum", "maximum"), ("minItems", "maxItems")
# What an entry may say besides its type, description, required and default: the words of JSON Schema that fit its type.
_MORE: Mapping[str, tuple[str, ...]] = {
    "string": ("enum", "minLength", "maxLength", "pattern"),
    "number": _RANGE,
    "integer": _RANGE,
    "boolean": (),
    "string[]": _COUNT,
    "number[]": _COUNT,
}
_FITS: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "string[]": lambda value: isinstance(value, list | tuple) and all(map(_FITS["string"], value)),
    "number[]": lambda value: isinstance(value, list | tuple) and all(map(_FITS["number"], value)),
}


def is_schema(wanted: Mapping[str, Any]) -> bool:
    """Tell JSON Schema from a table: in a table `type` would be the name of an input, with an entry of its own."""
    return isinstance(wanted.get("type"), str)


def schema_of(wanted: Wanted, where: str) -> Schema:
    """Return the JSON Schema of what was declared; raise DeclarationError when not every model could fill it in."""
    if isinstance(wanted, Mapping):
        if is_schema(wanted):
            check_portable_schema(wanted, where)
            return wanted
        return table_schema(wanted, where)
    return object_schema(fields_of(wanted, where))


def table_schema(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the schema of a table of inputs, or of `{"inputs": table}` around it. An empty `required` is left out."""
    inside: Any = table.get("inputs")
    is_nested = table.keys() == {"inputs"} and isinstance(inside, Mapping)
    if is_nested and all(isinstance(entry, Mapping) for entry in inside.values()):
        table = inside
    properties = {name: entry_schema(name, entry, where) for name, entry in table.items()}
    required = [name for name, entry in table.items() if entry.get("required")]
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def entry_schema(name: str, entry: Any, where: str) -> dict[str, Any]:
    """Return the schema of one row of a table; raise DeclarationError, naming the input and what would do."""
    if not name.strip():
        raise DeclarationError(f"{where}: an input has a blank name; give it one")
    if not isinstance(entry, Mapping):
        raise DeclarationError(f"{where}: input {name!r} must be a mapping with a type, not {entry!r}"[:300])
    kind = entry.get("type")
    if not isinstance(kind, str) or kind not in SIX:
        stated = "null" if kind is None and "type" in entry else kind
        has = "has no type" if stated is None else f"has the type {str(stated)[:40]!r}"
        raise DeclarationError(f"{where}: input {name!r} {has}; there are {', '.join(SIX)}")
    for word, value in entry.items():
        if complaint := _complaint(word, value, kind):
            raise DeclarationError(f"{where}: input {name!r}: {complaint}")
    stated = {word: value for word, value in entry.items() if word not in ("type", "required")}
    return {**SIX[kind], **stated}


def _complaint(word: str, value: Any, kind: str) -> str | None:
    """Say what is wrong with one word of a row, or None."""
    if word == "type":
        return None
    if word == "required":
        return None if isinstance(value, bool) else f"`required` is true or false, not {value!r}"
    if word == "description":
        return None if isinstance(value, str) else f"`description` is text, not {value!r}"
    if word == "default":
        return None if _FITS[kind](value) else f"`default` must be of type {kind}, not {value!r}"
    known = ("type", "description", "required", "default", *_MORE[kind])
    if word not in known:
        close = nearest(word, known)
        return f"{word!r} says nothing about a {kind}; " + (f"write {close[0]!r}" if close else "leave it out")
    if word == "enum":
        fits = isinstance(value, list | tuple) and bool(value) and all(map(_FITS[kind], value))
        return None if fits else f"`enum` is a list of values of type {kind}"
    if word == "pattern":
        return None if isinstance(value, str) else f"`pattern` is text, not {value!r}"
    fits = _FITS["number" if word in _RANGE else "integer"](value)
    return None if fits else f"{word!r} is a number, not {value!r}"


def shape_of(wanted: Wanted, where: str) -> Shape:
    """Return the schema of the arguments and their check; nothing but what was declared is taken."""
    if isinstance(wanted, Mapping):
        schema = {"properties": {}, "additionalProperties": False, **schema_of(wanted, where)}
        return Shape(lambda: schema, check_of_schema)
    fields = fields_of(wanted, where)
    if issubclass(wanted, BaseModel):
        return Shape(lambda: object_schema(fields), lambda schema: check_of_model(wanted, schema))
    return Shape(lambda: object_schema(fields), lambda schema: check_of_fields(fields, schema))


def defaults_of(wanted: Wanted, where: str) -> dict[str, Any]:
    """Return the defaults of the inputs that have one."""
    if isinstance(wanted, Mapping):
        properties = schema_of(wanted, where).get("properties", {})
        return {name: each["default"] for name, each in properties.items() if "default" in each}
    if issubclass(wanted, BaseModel):
        listed = zip(members_of(wanted, where) or (), wanted.model_fields.values(), strict=True)
        return {
            each.name: info.get_default(call_default_factory=True) for each, info in listed if not info.is_required()
        }
    defaults: dict[str, Any] = {}
    for each in dataclasses.fields(wanted) if dataclasses.is_dataclass(wanted) else ():
        if each.default is not dataclasses.MISSING:
            defaults[each.name] = each.default
        elif each.default_factory is not dataclasses.MISSING:
            defaults[each.name] = each.default_factory()
    return defaults


_TASK: Wanted = {"query": {"type": "string", "description": "The task for the agent.", "required": True}}
_NO_LIMIT = 1_000_000_000  # turns, tokens or seconds: out of reach, and in the range of every clock and formatter
_ARGUMENT = regex(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """A subagent as data: what it reads, what it takes, which tools it may use and how far it may go.

    `inputs` and `output` are dataclasses, pydantic models or TypedDicts within the portable subset, JSON Schema, or
    tables of six types. `prompt` is what it always knows and `query` its first message; in
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
        object.__setattr__(self, "tools", _check_tools(self.tools, where))
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
            if count is not None and count > _NO_LIMIT:
                raise DeclarationError(f"{where}: {what} must be a whole number above 0 and up to {_NO_LIMIT:,}")
        seconds: Any = self.timeout
        if type(seconds) not in (int, float) or not 0 < seconds < math.inf:
            raise DeclarationError(f"{where}: timeout must be a positive number of seconds, not {seconds!r}")
        if seconds > _NO_LIMIT:
            raise DeclarationError(f"{where}: timeout must be a positive number of seconds, {_NO_LIMIT:,} at most")


def output_schema(output: Wanted, where: str) -> Schema:
    """Return the schema of an answer. Raw JSON Schema may be of any kind; a table is a closed object."""
    if not isinstance(output, Mapping):
        return schema_of(output, where)
    if not is_schema(output):
        return {**schema_of(output, where), "additionalProperties": False}
    check_portable_schema({"type": "object", "properties": {"output": output}}, where)
    return output


def _check_tools(tools: Any, where: str) -> tuple[str, ...] | None:
    if tools is None:
        return None
    if isinstance(tools, str) or not all(isinstance(each, str) and each.strip() for each in tools):
        raise DeclarationError(f"{where}: tools is a list of names, groups and globs, each a text that is not blank")
    return tuple(tools)


COMPLETE = "complete_task"  # the tool by which a subagent says that it is done
# Noted in the log of a run as it begins and once it is known how it ended: one that has the first alone was cut off,
# whatever its turns say about themselves.
WORKING, OUTCOME = "subagent:working", "subagent:outcome"

_PLAIN: Schema = {"type": "string", "description": "The whole answer, in Markdown.", "minLength": 1}
_BEGIN = "Begin."
_CALLED = "call-"


def make_called_key(agent: str, id: str) -> str:
    """Return the key of the session of a run that its parent waits for."""
    return f"agent:{agent}:subagent:{_CALLED}{id}"


def is_called(key: str) -> bool:
    """Tell whether a session is that of a run its parent waited for: it is not listed, steered or resumed."""
    return key.rpartition(":")[2].startswith(_CALLED)


@dataclass(frozen=True, slots=True)
class Prompts:
    """What a subagent reads before its first turn: the system prompt and the first message, inputs filled in."""

    system: str
    query: str


def list_inputs(agent: Agent) -> tuple[str, ...]:
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
    given = _parse_object(task)
    if given is not None and set(given) <= set(properties):
        return shape.check(given)
    if not texts or len(required) > 1:
        names = ", ".join(properties)
        raise ArgumentError(f"{agent.name} takes {names}; write the task as a JSON object with them")
    return shape.check({texts[0]: task})


def _parse_object(text: str) -> dict[str, Any] | None:
    if not text.lstrip().startswith("{"):
        return None
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def prompts_of(agent: Agent, args: Mapping[str, Any]) -> Prompts:
    """Return what the agent reads, for arguments that were checked.

    An agent without a `query` gets those inputs in its first message that its prompt has no place for: whatever is
    passed reaches it.
    """
    declared = list_inputs(agent)
    values = {**defaults_of(agent.inputs, f"agent {agent.name}"), **args}
    query = fill(agent.query, values, declared).strip()
    if not query:
        placed = placeholders(agent.prompt)
        texts = {name: _as_text(values.get(name)) for name in declared if name not in placed}
        given = [(name, text) for name, text in texts.items() if text.strip()]
        # the only input of an agent as it is, several each under its name
        query = "\n".join(f"{name}: {text}" if len(declared) > 1 else text for name, text in given) or _BEGIN
    return Prompts(fill(agent.prompt, values, declared), query)


def completion_shape(agent: Agent) -> Shape:
    """Return the parameters of the agent's `complete_task` and their check.

    Without an output it is a text that is not blank. What a model adds beside the answer is left out: no reason to
    refuse a good one.
    """
    name, output = agent.output_name, agent.output
    if isinstance(output, type):
        fields = (Field(name, output, required=True),)
        return Shape(lambda: object_schema(fields), lambda schema: _keep_only(name, check_of_fields(fields, schema)))
    answer = _PLAIN if output is None else output_schema(output, f"agent {agent.name}")
    closed = {"type": "object", "properties": {name: answer}, "required": [name], "additionalProperties": False}

    def check(schema: Schema) -> Check:
        fitting = _keep_only(name, check_of_schema(schema))
        return fitting if output is not None else _refuse_blank(name, fitting)

    return Shape(lambda: closed, check)


def _keep_only(name: str, check: Check) -> Check:
    return lambda args: check({key: value for key, value in args.items() if key == name})


def _refuse_blank(name: str, check: Check) -> Check:
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
