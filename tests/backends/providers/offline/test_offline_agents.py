"""The offline model and agents: whom a person names is asked, and an agent that is asked looks for names of code."""

from pathlib import Path
from typing import Any

import pytest

import toolcrib
from toolcrib import Agent, Caller
from toolcrib.define.history import History
from toolcrib.registry.sources import Offer

from .talking import folder, reply, said

pytestmark = pytest.mark.anyio

ASKED = "codebase_investigator"
TWO: dict[str, Any] = {
    "left": {"type": "string", "required": True},
    "right": {"type": "string", "required": True},
}
JUDGE = Agent(name="judge", description="Compares.", prompt="Compare.", inputs=TWO)


@pytest.mark.parametrize(
    ("text", "agent", "words"),
    [
        ("ask the codebase investigator where helper is defined", ASKED, "where helper is defined"),
        ("use codebase_investigator to find out where helper is", ASKED, "find out where helper is"),
        ("Codebase-Investigator: where is helper defined?", ASKED, "where is helper defined?"),
        ("please let the codebase investigator agent find helper", ASKED, "find helper"),
        ("find helper with the codebase investigator.", ASKED, "find helper"),
        ("investigate where helper comes from", ASKED, "where helper comes from"),
        ("could you have generalist list the files", "generalist", "list the files"),
        ("generalist, count the lines of README.md", "generalist", "count the lines of README.md"),
    ],
)
async def test_an_agent_that_is_named_is_asked(text: str, agent: str, words: str) -> None:
    async with toolcrib.open({}, env={}) as crib:
        message = await reply(History([said(text)]), crib.belt(Caller()).tools.values())
    (call,) = message.calls
    assert call.name == agent
    assert list(call.args.values()) == [words]


@pytest.mark.parametrize(
    "text",
    [
        "where is codebase_investigator defined?",
        "find generalist in *.py",
        "codebase_investigator",
        "ask judge about this",
        "read README.md with care",
    ],
)
async def test_nobody_is_asked_who_was_only_mentioned_or_takes_more_than_words(text: str) -> None:
    crew = Offer(source="plugin:crew", tools=(), agents=(JUDGE,))
    async with toolcrib.open({}, plugins=[crew], env={}) as crib:
        message = await reply(History([said(text)]), crib.belt(Caller()).tools.values())
    assert not {call.name for call in message.calls} & {ASKED, "generalist", "judge"}


async def test_who_is_not_on_the_belt_is_not_asked() -> None:
    async with toolcrib.open({"tools": {"deny": ["group:agents"]}}, env={}) as crib:
        message = await reply(History([said("investigate where helper is")]), crib.belt(Caller()).tools.values())
    assert ASKED not in {call.name for call in message.calls}


@pytest.mark.parametrize(
    "objective",
    [
        "Where is `helper` defined?",
        "I would like to learn about the symbol helper: where is it defined?",
        "Give me the file and line where the function helper is defined, and explain it.",
        "The whereabouts of `pkg.helper()`, if you please",
    ],
)
async def test_an_investigator_finds_the_names_of_its_objective(objective: str, tmp_path: Path) -> None:
    root = folder(
        tmp_path, {"pkg/app.py": "import os\n\n\ndef helper() -> int:\n    return 1\n", "use.py": "helper()\n"}
    )
    async with toolcrib.open({"workspace": {"root": str(root)}}, env={}) as crib:
        result = await crib.belt(Caller(session="agent:main:main")).call(ASKED, {"objective": objective})
    assert result.details["reason"] == "goal"
    assert [(each["path"], each["line"]) for each in result.details["output"]["locations"]] == [("pkg/app.py", 4)]
