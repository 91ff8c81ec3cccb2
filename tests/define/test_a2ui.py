"""A2UI is checked line by line, and every fault says its line."""

import json

import pytest

from toolcrib import ToolError
from toolcrib.define.a2ui import MAX_PUSH_CHARS, read_a2ui, write_a2ui_text

UPDATE = '{"surfaceUpdate": {"surfaceId": "main", "components": []}}'
BEGIN = '{"beginRendering": {"surfaceId": "main", "root": "root"}}'
CREATE = '{"version": "v0.9", "createSurface": {"surfaceId": "main"}}'
DELETE = '{"deleteSurface": {"surfaceId": "main"}}'


@pytest.mark.parametrize(
    ("jsonl", "version", "count"),
    [
        (f"{UPDATE}\n{BEGIN}", "v0.8", 2),
        (f"\n{UPDATE}\r\n\n  {BEGIN}  \n", "v0.8", 2),
        (DELETE, "v0.8", 1),
        (CREATE, "v0.9", 1),
        (f'{CREATE}\n{{"updateComponents": {{}}}}\n{{"updateDataModel": {{}}}}\n{DELETE}', "v0.9", 4),
        (UPDATE.replace("main", "\u2028 line"), "v0.8", 1),
    ],
)
def test_messages_of_one_version_are_taken(jsonl: str, version: str, count: int) -> None:
    found = read_a2ui(jsonl)
    assert (found.version, len(found.messages)) == (version, count)


@pytest.mark.parametrize(
    ("jsonl", "faults"),
    [
        ("{nope", ["line 1: no JSON"]),
        (f"{UPDATE}\n\n[]\nnull\n7", ["line 3: expected a JSON object", "line 4", "line 5"]),
        (f"{UPDATE[:-1]}, {BEGIN[1:]}", ["line 1: expected exactly one of"]),
        ('{"x": 1}', ["line 1: expected exactly one of"]),
        ('{"surfaceUpdate": null}', ["line 1: surfaceUpdate is an object"]),
        (f"{UPDATE}\n{CREATE}", ["line 2: this is v0.9, but line 1 is v0.8"]),
        ("NaN", ["line 1: no JSON"]),
        ("[" * 5_000, ["line 1: no JSON"]),
        ('{"surfaceUpdate": {}}{"beginRendering": {}}', ["line 1: no JSON"]),
        (f"{UPDATE}\x0b{BEGIN}", ["line 1: no JSON"]),
        ("\ufeff" + UPDATE, ["line 1: no JSON"]),
        (" \n \n", ["there is no A2UI message here"]),
        ("", ["there is no A2UI message here"]),
    ],
)
def test_every_fault_says_its_line(jsonl: str, faults: list[str]) -> None:
    with pytest.raises(ToolError) as refused:
        read_a2ui(jsonl)
    assert [each for each in faults if each not in str(refused.value)] == []


def test_of_many_faults_the_first_are_told_and_the_others_counted() -> None:
    with pytest.raises(ToolError, match=r"line 10: (?s:.)*and 490 more\Z") as refused:
        read_a2ui("[]\n" * 500)
    assert "line 11" not in str(refused.value)


def test_what_is_too_long_is_not_read() -> None:
    with pytest.raises(ToolError, match="push at most 1,000,000"):
        read_a2ui("x" * (MAX_PUSH_CHARS + 1))


def test_a_text_becomes_a_surface_that_shows_it() -> None:
    words = 'say "hello"\n</script>'
    update, begin = (json.loads(line) for line in write_a2ui_text(words).split("\n"))
    assert update["surfaceUpdate"]["components"][1]["component"]["Text"]["text"] == {"literalString": words}
    assert begin == {"beginRendering": {"surfaceId": "main", "root": "root"}}
    assert read_a2ui(write_a2ui_text(words)).version == "v0.8"
