"""A cassette: calls of tools recorded once, replayed without their bodies, and never with a secret in them."""

import json
from pathlib import Path

import pytest

import toolcrib
from toolcrib import OWNER, Call, Crib, Ctx, Image, Result, ToolError, tool
from toolcrib.testing import ScriptedModel, call_reply, cassette

pytestmark = pytest.mark.anyio

SECRET = "sk-4711-very-secret"
BODIES_RUN: list[str] = []


@tool(effects={"network"})
async def weather(ctx: Ctx, city: str, key: str = "") -> Result:
    """Look up the weather."""
    BODIES_RUN.append(city)
    if city == "Atlantis":
        raise ToolError("there is no Atlantis", code="not_found", source="web:weather")
    return Result.text(f"{city}: rain {len(BODIES_RUN)}, asked with {SECRET}", source="web:weather")


@tool(effects={"read"})
def shot() -> Image:
    """Take a picture."""
    return Image(b"\x89PNG", "image/png")


def opened() -> Crib:
    BODIES_RUN.clear()
    return toolcrib.open({"secrets": {"WEATHER": SECRET}, "tools": {"deny": ["exec"]}}, tools=[weather, shot])


async def ask(crib: Crib, *cities: str) -> list[Result]:
    belt = crib.belt(OWNER)
    return [await belt.call("weather", {"city": city, "key": SECRET}) for city in cities]


def words(results: list[Result]) -> list[tuple[str, str]]:
    return [(each.status, each.plain_text.split("\n")[1] if "rain" in each.plain_text else "") for each in results]


async def test_calls_are_recorded_and_replayed_in_order_without_their_bodies(tmp_path: Path) -> None:
    tape, cities = tmp_path / "calls.json", ("Kyiv", "Lviv", "Kyiv", "Atlantis")
    with cassette(tape, crib := opened()):
        first = await ask(crib, *cities)
        picture = await crib.belt(OWNER).call("shot")
    assert tuple(BODIES_RUN) == cities
    assert SECRET not in tape.read_text()
    assert [each["tool"] for each in json.loads(tape.read_text())["calls"]] == ["weather"] * 4 + ["shot"]

    crib = opened()
    belt = crib.belt(OWNER)  # made before: it is covered all the same
    with cassette(tape, crib):
        again = await ask(crib, *cities)
        assert await belt.call("shot") == picture
    assert BODIES_RUN == []
    assert words(again) == words(first)
    assert again[3].details["code"] == "not_found"
    assert {part.source for each in again for part in each.content} == {"web:weather"}
    await ask(crib, "Kyiv")
    assert BODIES_RUN == ["Kyiv"]


async def test_the_gate_and_the_check_of_arguments_stay(tmp_path: Path) -> None:
    with cassette(tmp_path / "calls.json", crib := opened()):
        assert (await crib.belt(OWNER).call("exec", {"command": "date"})).details["code"] == "denied"
        assert (await crib.belt(OWNER).call("weather", {})).details["code"] == "bad_arguments"
    assert json.loads((tmp_path / "calls.json").read_text()) == {"calls": []}


async def test_a_call_that_was_not_recorded_is_refused_and_fails_the_test(tmp_path: Path) -> None:
    tape = tmp_path / "calls.json"
    with cassette(tape, crib := opened()):
        await ask(crib, "Kyiv")
    sentence = (
        rf"weather \{{.*Oslo.*\}} is not among the calls that '{tape}' has left \(of weather: .*Kyiv.*\); record=True"
    )
    with pytest.raises(AssertionError, match=sentence), cassette(tape, crib := opened()):
        told = await ask(crib, "Oslo")
    assert told[0].details["code"] == "not_recorded"
    assert BODIES_RUN == []
    with cassette(tape, crib, record=True):
        await ask(crib, "Oslo")
    with cassette(tape, crib := opened(), record=False):
        assert (await ask(crib, "Oslo"))[0].status == "ok"
    assert BODIES_RUN == []


async def test_a_whole_turn_is_replayed(tmp_path: Path) -> None:
    for _ in range(2):
        model = ScriptedModel([call_reply(Call(id="1", name="weather", args={"city": "Kyiv"})), "It rains."])
        with cassette(tmp_path / "calls.json", crib := opened()):
            ended = await crib.turn("weather?", caller=OWNER, model=model).end()
        assert ended.text == "It rains."
        assert "Kyiv: rain 1" in model.asked[1].messages[-1].plain_text
    assert BODIES_RUN == []


async def test_nothing_is_written_when_the_test_fails(tmp_path: Path) -> None:
    crib = opened()
    with pytest.raises(ZeroDivisionError), cassette(tmp_path / "calls.json", crib):
        assert 1 / (len(await ask(crib, "Kyiv")) - 1)
    assert not (tmp_path / "calls.json").exists()
    assert crib.bodies.between is None


@pytest.mark.parametrize("text", ["", "[]", '{"calls": [{}]}', '{"calls": 1}', '{"calls": ["a"]}', "\udcff"])
def test_a_file_that_is_no_cassette_is_told_in_one_sentence(tmp_path: Path, text: str) -> None:
    tape = tmp_path / "calls.json"
    tape.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(toolcrib.CribError, match=r"calls.json' is no cassette; delete it, and it is recorded anew$"):
        cassette(tape, opened()).__enter__()


def test_a_cassette_that_must_be_there_and_is_not(tmp_path: Path) -> None:
    with pytest.raises(toolcrib.CribError, match=r"there is no cassette '.*/calls.json'; leave out record=False"):
        cassette(tmp_path / "calls.json", opened(), record=False).__enter__()
