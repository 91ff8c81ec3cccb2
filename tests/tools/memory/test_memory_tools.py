"""What a model reads of a search in memory and of a file of it, and what programs find beside it."""

from typing import Any

import pytest

from toolcrib import Result, Text, ToolError
from toolcrib.testing import call, fake_ctx
from toolcrib.tools.memory.memory_get import memory_get
from toolcrib.tools.memory.memory_search import memory_search

pytestmark = pytest.mark.anyio

PASSAGE = {"path": "memory/a.md", "startLine": 3, "endLine": 5, "score": 0.5, "snippet": "Tea.", "source": "memory"}
FOUND = {"results": [PASSAGE], "provider": "local", "model": "m"}


async def search(answer: Any, **args: Any) -> tuple[Result, list[tuple[str, dict[str, Any]]]]:
    ctx = fake_ctx(rpc={"memory.search": answer})
    return await call(memory_search, {"query": "tea", **args}, ctx), ctx.rpc.calls


async def test_each_passage_is_outside_text_with_its_place_and_how_it_was_found_is_said() -> None:
    told, calls = await search(FOUND, maxResults=3, minScore=0.2)
    assert told.content == (Text("memory/a.md, lines 3 to 5:\nTea.", "memory:memory/a.md"),)
    assert told.head == "Found by words and meaning, the best first; memory_get reads more of a file:"
    assert told.details == FOUND
    assert calls == [("memory.search", {"query": "tea", "maxResults": 3, "minScore": 0.2})]
    words, _ = await search({**FOUND, "provider": "none", "fallback": "no vectors"})
    assert words.head.startswith("Found by words alone")


async def test_nothing_found_is_said_in_our_own_words() -> None:
    told, _ = await search({**FOUND, "results": []})
    assert (told.status, told.plain_text) == ("ok", "Nothing was found in memory (by words and meaning).")
    told, _ = await search({**FOUND, "results": [], "provider": "none"})
    assert told.plain_text == "Nothing was found in memory (by words alone); try the words that a note would have."


async def test_a_memory_that_is_not_there_is_told_in_the_shape_that_programs_know() -> None:
    told, _ = await search(ToolError("switched off", code="unavailable"))
    assert (told.status, told.plain_text) == ("error", "switched off")
    assert told.details["results"] == []
    assert (told.details["disabled"], told.details["error"]) == (True, "switched off")
    told, _ = await search(ToolError("the disk is full"))
    assert "disabled" not in told.details


@pytest.mark.parametrize("args", [{"query": ""}, {"maxResults": -1}, {"maxResults": 51}, {"minScore": 2}, {"page": 2}])
async def test_arguments_that_do_not_fit_are_refused(args: dict[str, Any]) -> None:
    told, calls = await search(FOUND, **args)
    assert (told.status, calls) == ("error", [])


async def test_a_file_is_read_from_a_line_on() -> None:
    ctx = fake_ctx(rpc={"memory.get": {"path": "MEMORY.md", "text": "Tea.\n", "next": 3}})
    told = await call(memory_get, {"path": "MEMORY.md", "from": 2, "lines": 1}, ctx)
    assert told.content == (Text("Tea.\n", "memory:MEMORY.md"),)
    assert told.end == "More follows from line 3."
    assert ctx.rpc.calls == [("memory.get", {"path": "MEMORY.md", "first": 2, "lines": 1})]
    off = await call(memory_get, {"path": "x.md"}, fake_ctx(rpc={"memory.get": ToolError("off", code="unavailable")}))
    assert {key: off.details[key] for key in ("path", "text", "disabled", "error")} == {
        "path": "x.md", "text": "", "disabled": True, "error": "off",
    }  # fmt: skip
