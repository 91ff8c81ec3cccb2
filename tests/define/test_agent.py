"""Agent: three ways to say what it takes, one mandate derived from them; what cannot work is refused in a sentence."""

import json
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from pydantic import BaseModel
from pydantic import Field as Described
from typing_extensions import TypedDict

from toolcrib.define.agent import Agent, Prompts, answer_text, completion_shape, inputs_shape, prompts_of, table_schema
from toolcrib.define.errors import ArgumentError, DeclarationError


@dataclass(frozen=True)
class ByDataclass:
    objective: Annotated[str, "what"]
    depth: int = 2
    folders: list[str] = field(default_factory=lambda: ["src"])


class ByModel(BaseModel):
    objective: str = Described(description="what")
    depth: int = 2
    folders: list[str] = Described(default_factory=lambda: ["src"])


class ByDict(TypedDict, total=False):
    objective: str


TABLE = {
    "objective": {"type": "string", "description": "what", "required": True},
    "depth": {"type": "integer", "default": 2},
    "folders": {"type": "string[]", "default": ["src"]},
}
SCHEMA = {
    "type": "object",
    "properties": {
        "objective": {"type": "string", "description": "what"},
        "depth": {"type": "integer", "default": 2},
        "folders": {"type": "array", "items": {"type": "string"}, "default": ["src"]},
    },
    "required": ["objective"],
}


def agent(**changes: Any) -> Agent:
    plain = {"name": "probe", "description": "Probes.", "prompt": "Probe.", "inputs": TABLE}
    return Agent(**{**plain, **changes})


@pytest.mark.parametrize("inputs", [ByDataclass, ByModel, TABLE, {"inputs": TABLE}, SCHEMA])
def test_every_way_to_declare_inputs_gives_the_same_parameters_and_prompts(inputs: Any) -> None:
    one = agent(inputs=inputs, prompt="${objective} ${depth} ${folders}")
    shape = inputs_shape(one)
    assert {name: each["type"] for name, each in shape.schema["properties"].items()} == {
        "objective": "string",
        "depth": "integer",
        "folders": "array",
    }
    assert (shape.schema["required"], shape.schema["additionalProperties"]) == (["objective"], False)
    assert prompts_of(one, shape.check({"objective": "x", "depth": "3"})).system == 'x 3 ["src"]'
    for wrong in ({}, {"objective": "x", "more": 1}, {"objective": "x", "depth": "deep"}):
        with pytest.raises(ArgumentError):
            shape.check(wrong)


def test_a_typed_dict_has_no_defaults_to_tell() -> None:
    one = agent(inputs=ByDict, prompt="<${objective}>")
    assert prompts_of(one, inputs_shape(one).check({})) == Prompts("<>", "Begin.")


def test_all_six_types_become_json_schema_and_an_empty_required_is_left_out() -> None:
    kinds = ["string", "number", "integer", "boolean", "string[]", "number[]"]
    assert table_schema({kind: {"type": kind} for kind in kinds}, "agent probe") == {
        "type": "object",
        "properties": {
            "string": {"type": "string"},
            "number": {"type": "number"},
            "integer": {"type": "integer"},
            "boolean": {"type": "boolean"},
            "string[]": {"type": "array", "items": {"type": "string"}},
            "number[]": {"type": "array", "items": {"type": "number"}},
        },
    }


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"type": "date"}, "input 'a' has the type 'date'; there are string, number, integer, boolean, string[], num"),
        ({"type": None}, "input 'a' has the type 'null'; there are string"),
        ({}, "input 'a' has no type; there are string"),
        ("string", "input 'a' must be a mapping with a type, not 'string'"),
        ({"type": "string", "required": "yes"}, "input 'a': `required` is true or false, not 'yes'"),
        ({"type": "string", "description": 5}, "input 'a': `description` is text, not 5"),
        ({"type": "integer", "default": 1.5}, "input 'a': `default` must be of type integer, not 1.5"),
        ({"type": "number", "default": True}, "input 'a': `default` must be of type number, not True"),
        ({"type": "string", "enum": []}, "input 'a': `enum` is a list of values of type string"),
        ({"type": "boolean", "minimum": 1}, "input 'a': 'minimum' says nothing about a boolean; leave it out"),
        ({"type": "string", "requierd": True}, "input 'a': 'requierd' says nothing about a string; write 'required'"),
        ({"type": "string", "minLength": "x"}, "input 'a': 'minLength' is a number, not 'x'"),
    ],
)
def test_a_row_that_means_nothing_is_refused_with_what_would_do(row: Any, complaint: str) -> None:
    with pytest.raises(DeclarationError) as raised:
        agent(inputs={"a": row})
    assert str(raised.value).startswith(f"agent probe: {complaint}")


def test_what_a_row_says_besides_its_type_is_in_force() -> None:
    shape = inputs_shape(agent(inputs={"size": {"type": "string", "enum": ["s", "m"], "required": True}}))
    assert shape.check({"size": "m"}) == {"size": "m"}
    with pytest.raises(ArgumentError, match="size"):
        shape.check({"size": "xl"})


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"description": " "}, "agent probe: the description is blank; write one"),
        ({"prompt": "\n"}, "agent probe: the prompt is blank; write one"),
        ({"tools": "read"}, "agent probe: tools is a list of names, groups and globs"),
        ({"tools": ["read", ""]}, "agent probe: tools is a list of names, groups and globs"),
        ({"max_turns": 0}, "agent probe: max_turns must be a whole number above 0, not 0"),
        ({"max_turns": 10**5000}, "agent probe: max_turns must be a whole number above 0 and up to 1,000,000,000"),
        ({"max_turns": True}, "agent probe: max_turns must be a whole number above 0, not True"),
        ({"max_tokens": 1.5}, "agent probe: max_tokens must be a whole number above 0, not 1.5"),
        ({"timeout": 0}, "agent probe: timeout must be a positive number of seconds, not 0"),
        ({"timeout": 10**400}, "agent probe: timeout must be a positive number of seconds, 1,000,000,000 at most"),
        ({"name": "-probe"}, "agent '-probe': a name is 1 to 64 of a-z, 0-9, _ and -, and - is not its first or last"),
        ({"name": "_probe-"}, "agent '_probe-': a name is"),
        ({"timeout": float("inf")}, "agent probe: timeout must be a positive number of seconds, not inf"),
        ({"output_name": "my answer"}, "agent probe: output_name 'my answer' is no name of an argument"),
        ({"inputs": {"type": "string"}}, "agent probe: the schema's root must be"),
        ({"output": {"type": "null"}}, "agent probe: parameter 'output' has type 'null'"),
        ({"output": {"a": {"type": "date"}}}, "agent probe: input 'a' has the type 'date'"),
    ],
)
def test_an_agent_that_cannot_work_is_refused_in_one_sentence(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(DeclarationError) as raised:
        agent(**changes)
    assert str(raised.value).startswith(complaint)
    assert len(str(raised.value).splitlines()) == 1


def test_a_model_that_is_inherited_is_none_and_lists_become_tuples() -> None:
    one = agent(model="inherit", tools=["read", "group:fs"])
    assert (one.model, one.tools, agent().tools, agent(tools=()).tools) == (None, ("read", "group:fs"), None, ())


def test_what_an_author_changes_later_changes_nothing() -> None:
    table: dict[str, Any] = {"a": {"type": "string"}}
    one = agent(inputs=table)
    table["a"]["type"] = "date"
    assert inputs_shape(one).schema["properties"] == {"a": {"type": "string"}}


def test_undeclared_names_in_a_prompt_are_left_alone() -> None:
    one = agent(prompt="cd ${HOME} && ls ${objective}", query="${objective} ${USER}")
    assert prompts_of(one, {"objective": "${HOME}"}) == Prompts("cd ${HOME} && ls ${HOME}", "${HOME} ${USER}")


@pytest.mark.parametrize(
    ("prompt", "args", "query"),
    [
        ("Probe.", {"objective": "x"}, 'objective: x\ndepth: 2\nfolders: ["src"]'),
        ("Find ${objective}.", {"objective": "x", "depth": 7}, 'depth: 7\nfolders: ["src"]'),
        ("${objective} ${depth} ${folders}", {"objective": "x"}, "Begin."),
    ],
)
def test_inputs_that_the_prompt_has_no_place_for_reach_the_agent_in_its_first_message(
    prompt: str, args: dict[str, Any], query: str
) -> None:
    assert prompts_of(agent(prompt=prompt), args).query == query


def test_the_only_input_is_the_first_message() -> None:
    one = agent(inputs={"task": {"type": "string", "required": True}})
    assert prompts_of(one, {"task": "mend it"}).query == "mend it"
    assert prompts_of(agent(inputs={}), {}).query == "Begin."


def test_without_an_output_an_answer_is_a_text_that_is_not_blank() -> None:
    shape = completion_shape(agent())
    assert (shape.schema["required"], shape.schema["additionalProperties"]) == (["result"], False)
    assert shape.check({"result": "done", "more": 1}) == {"result": "done"}
    for wrong in ({}, {"result": ""}, {"result": " \n"}, {"result": {"a": 1}}):
        with pytest.raises(ArgumentError, match="result"):
            shape.check(wrong)
    assert answer_text(agent(), {"result": "# done"}) == "# done"


@dataclass(frozen=True)
class Place:
    path: str
    line: int


@dataclass(frozen=True)
class Report:
    summary: str
    places: list[Place] = field(default_factory=list)


def test_an_answer_is_checked_against_its_output_and_given_as_its_type() -> None:
    one = agent(output=Report, output_name="report")
    shape = completion_shape(one)
    args = shape.check({"report": {"summary": "s", "places": [{"path": "a.py", "line": "3"}]}})
    assert args == {"report": Report("s", [Place("a.py", 3)])}
    assert json.loads(answer_text(one, args)) == {"summary": "s", "places": [{"path": "a.py", "line": 3}]}
    for wrong, word in (
        ({"result": {"summary": "s"}}, "report"),
        ({"report": {"summary": "s", "more": 1}}, "more"),
        ({"report": {"summary": "s", "places": [{"path": "a.py"}]}}, "line"),
    ):
        with pytest.raises(ArgumentError, match=word):
            shape.check(wrong)


def test_an_answer_may_be_a_table_or_any_kind_of_schema() -> None:
    table = completion_shape(agent(output={"score": {"type": "number", "required": True}}))
    assert table.check({"result": {"score": 1}}) == {"result": {"score": 1}}
    with pytest.raises(ArgumentError, match="more"):
        table.check({"result": {"score": 1, "more": 2}})
    text = completion_shape(agent(output={"type": "string", "minLength": 3}, output_name="answer"))
    assert text.check({"answer": "abc"}) == {"answer": "abc"}
    with pytest.raises(ArgumentError, match="answer"):
        text.check({"answer": "ab"})


def test_an_author_may_say_how_an_answer_reads() -> None:
    def read(report: Report) -> str:
        return f"<<{report.summary}>>"

    one = agent(output=Report, render=read)
    assert answer_text(one, completion_shape(one).check({"result": {"summary": "s"}})) == "<<s>>"
