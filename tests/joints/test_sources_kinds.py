"""From where: memory goes back to what its turn had read, or to the person who said or accepted it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from tests.doors.world import ask
from toolcrib import OWNER, Ctx, Result, tool
from toolcrib.app import Crib
from toolcrib.define.event import ToolFinished
from toolcrib.define.message import Call
from toolcrib.testing import FakeApprover, ScriptedModel, call_reply, text_reply

from .sources_world import CARD, ORDER, OTHER, PAGE, Made, is_fenced, page, sources, turn, world

pytestmark = pytest.mark.anyio

MEMORY: Mapping[str, Any] = {
    "memory": {"provider": "none", "sources": ["files", "sessions"]},
    "tools": {"askAfterOutside": ["effect:write"]},
}
NOTES: list[Made] = [
    ("write", {"path": "memory/squirrels.md", "content": f"- {ORDER}\n"}),
    ("write", {"path": "MEMORY.md", "content": f"- {ORDER}\n"}),
]


def read(note: Made) -> Made:
    return "memory_get", {"path": note[1]["path"]}


async def asks(crib: Crib, *before: Made) -> bool:
    """Tell whether a write is asked about in a new session, after these calls."""
    people, session = FakeApprover(True), f"agent:main:asks-{len(before)}"
    calls = [*before, ("write", {"path": "x.txt", "content": "y"})]
    script = [call_reply(Call(f"c{at}", name, args)) for at, (name, args) in enumerate(calls)]
    model = ScriptedModel([*script, text_reply("done")], CARD)
    events = [each async for each in crib.turn("go", caller=OWNER, session=session, model=model, approver=people)]
    assert all(each.result.status == "ok" for each in events if isinstance(each, ToolFinished)), events
    return bool(people.asked)


@pytest.mark.parametrize("note", NOTES, ids=lambda note: note[1]["path"])
async def test_a_note_of_a_turn_that_read_a_page_is_from_there(tmp_path: Path, note: Made) -> None:
    async with world(tmp_path, MEMORY) as crib:
        await turn(crib, PAGE, note)
    async with world(tmp_path, MEMORY) as crib:
        results = await turn(crib, read(note), ("memory_search", {"query": "squirrel"}), session=OTHER)
        assert all("web:https://evil.test/nuts" in sources(each) for each in results), results
        assert all(is_fenced(each, "squirrel") for each in results)
        assert await asks(crib, read(note))
        assert await asks(crib) is (note[1]["path"] == "MEMORY.md")  # which stands in the prompt


@pytest.mark.parametrize("note", NOTES, ids=lambda note: note[1]["path"])
async def test_a_note_that_a_person_had_written_down_is_theirs(tmp_path: Path, note: Made) -> None:
    async with world(tmp_path, MEMORY) as crib:
        await turn(crib, note)
        edit = ("edit", {"path": note[1]["path"], "oldText": "nuts", "newText": "figs"})
        await turn(crib, read(note), edit, session="agent:main:more")
        results = await turn(crib, read(note), ("memory_search", {"query": "squirrel"}), session=OTHER)
        assert ("figs" in results[0].plain_text, [sources(each) for each in results]) == (True, ["", ""])
        assert not await asks(crib, read(note), ("memory_search", {"query": "squirrel"}))


@pytest.mark.parametrize("note", NOTES, ids=lambda note: note[1]["path"])
async def test_a_note_that_lay_there_is_a_persons_once_they_accept_it_and_not_by_an_edit(
    tmp_path: Path, note: Made, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TOOLCRIB_STATE", str(tmp_path / "state"))
    file = tmp_path / "work" / note[1]["path"]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(note[1]["content"])
    async with world(tmp_path, MEMORY) as crib:
        await turn(
            crib, ("edit", {"path": note[1]["path"], "oldText": "nuts", "newText": "figs"}), session="agent:main:m"
        )
        (result,) = await turn(crib, read(note))
        assert sources(result).startswith(f"memory:{note[1]['path']}")
        assert ask(capsys, "accept", file).code == 0
        (result,) = await turn(crib, read(note), session=OTHER)
        assert sources(result) == ""
        assert not await asks(crib, read(note))


async def test_a_session_that_is_found_has_what_was_read_in_it_and_the_owners_own_talk_has_none(tmp_path: Path) -> None:
    async with world(tmp_path, MEMORY) as crib:
        await turn(crib, PAGE, session=OTHER, says="the squirrel wants nuts")
        await turn(crib, ("ls", {}), session="agent:main:clean", says="the rabbit wants carrots")
        found = await turn(
            crib,
            ("memory_search", {"query": "squirrel"}),
            ("memory_search", {"query": "rabbit carrots", "maxResults": 1}),
            session="agent:main:third",
        )
    assert "web:https://evil.test/nuts" in sources(found[0])
    assert (found[1].details["results"][0]["path"], sources(found[1])) == ("sessions/agent:main:clean", "")


@tool
async def recall(ctx: Ctx) -> Result:
    """Look into memory, past its tools."""
    found = await ctx.rpc("memory.search", {"query": "squirrel"})
    told = await ctx.rpc("memory.get", {"path": "MEMORY.md"})
    return Result.text(found["results"][0]["snippet"] + told["text"])


async def test_a_tool_of_somebody_elses_that_looks_into_memory_has_what_it_found(tmp_path: Path) -> None:
    config = {**MEMORY, "workspace": {"root": str(tmp_path)}}
    async with toolcrib.open(config, tools=[page, recall], state=tmp_path / "state", env={}) as crib:
        await turn(crib, PAGE, NOTES[1])
        (result,) = await turn(crib, ("recall", {}), session=OTHER)
    assert "web:https://evil.test/nuts" in sources(result)
