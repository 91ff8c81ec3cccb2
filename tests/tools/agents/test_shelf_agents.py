"""The agents of the shelf: what they take, what they are told, what they give."""

import pytest

from toolcrib import Agent
from toolcrib.define.agent import answer_text, completion_shape, inputs_shape, list_inputs, placeholders, prompts_of
from toolcrib.define.errors import ArgumentError
from toolcrib.tools import AGENTS
from toolcrib.tools.agents.codebase_investigator import codebase_investigator
from toolcrib.tools.agents.generalist import generalist


def test_an_investigator_reads_and_nothing_else() -> None:
    assert codebase_investigator.tools == ("read", "grep", "find", "ls")


def test_an_investigator_is_told_its_objective_and_its_bound() -> None:
    shape = inputs_shape(codebase_investigator)
    prompts = prompts_of(codebase_investigator, shape.check({"objective": "where is Belt defined?"}))
    assert prompts.query == "where is Belt defined?"
    assert "Look into 20 files at the most." in prompts.system
    with pytest.raises(ArgumentError, match="max_files"):
        shape.check({"objective": "x", "max_files": 201})
    assert shape.check({"objective": "x", "max_files": 0}) == {"objective": "x"}  # a blank is not given


def test_a_report_is_structured_and_reads_as_markdown() -> None:
    shape = completion_shape(codebase_investigator)
    report = {
        "summary": "Belt stands in verdict.py.",
        "locations": [{"path": "src/verdict.py", "line": 12, "why": "the class"}],
        "trace": ["grep class Belt", "read src/verdict.py"],
    }
    assert answer_text(codebase_investigator, shape.check({"report": report})) == (
        "Belt stands in verdict.py.\n\n- `src/verdict.py:12` the class\n\n"
        "How it was found:\n\n1. grep class Belt\n2. read src/verdict.py"
    )
    wrongs: list[dict[str, object]] = [{}, {"report": {}}, {"report": {**report, "locations": [{"path": "a"}]}}]
    for wrong in wrongs:
        with pytest.raises(ArgumentError):
            shape.check(wrong)


def test_a_generalist_has_what_its_parent_has_and_is_told_everything() -> None:
    args = inputs_shape(generalist).check({"task": "mend the build", "context": "it broke today"})
    assert generalist.tools == ("*",)
    assert prompts_of(generalist, args).query == "task: mend the build\ncontext: it broke today"


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_no_prompt_of_the_shelf_has_a_placeholder_that_nothing_fills(agent: Agent) -> None:
    assert set(placeholders(agent.prompt + agent.query)) <= set(list_inputs(agent))
