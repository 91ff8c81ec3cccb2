"""What only Google's wire has: pictures inside answers, calls without ids, arguments in pieces."""

import pytest

pytest.importorskip("google.genai", reason="the package google-genai is not installed")

from google.genai import types
from tests.doors.bridges.wires import Asked, Told
from tests.doors.bridges.with_genai import gemini
from tests.doors.bridges.world import world

import toolcrib
from toolcrib.doors.bridges import genai as bridge

pytestmark = pytest.mark.anyio


def reply(*calls: types.FunctionCall, model: str = "gemini-2.5-flash") -> types.GenerateContentResponse:
    content = types.Content(role="model", parts=[types.Part(function_call=call) for call in calls])
    candidate = types.Candidate(content=content, finish_reason=types.FinishReason.STOP)
    return types.GenerateContentResponse(candidates=[candidate], model_version=model)


@pytest.mark.parametrize(("model", "contents", "inside"), [("gemini-2.5-flash", 2, 0), ("gemini-3-pro", 1, 1)])
async def test_pictures_stand_inside_the_answer_where_the_model_takes_them(
    model: str, contents: int, inside: int
) -> None:
    answers = await bridge.answers(world().belt, reply(types.FunctionCall(name="photo"), model=model))
    assert len(answers) == contents
    assert answers[0].parts
    assert answers[0].parts[0].function_response
    assert len(answers[0].parts[0].function_response.parts or ()) == inside
    heard = await gemini(world().belt, [Asked("photo")], model=model)
    assert [told.pictures for told in heard.told] == [1]


async def test_calls_without_ids_are_answered_without_ids() -> None:
    heard = await gemini(world().belt, [Asked("add", '{"a": 1}', ""), Asked("add", '{"a": 2}', "")])
    assert heard.told == [Told("", "the sum is 2"), Told("", "the sum is 3")]


async def test_a_call_whose_arguments_came_in_pieces_runs_once_they_are_whole() -> None:
    here = world()
    started = types.FunctionCall(id="c", name="add", will_continue=True)
    number = types.PartialArg(json_path="$.a", number_value=4)
    whole = types.FunctionCall(partial_args=[number])
    second = types.FunctionCall(name="add", args={"a": 1})
    [answer] = await bridge.answers(here.belt, reply(started), reply(whole), reply(second))
    responses = [part.function_response for part in answer.parts or ()]
    assert [(each.id, each.name) for each in responses if each] == [("c", "add"), (None, "add")]
    assert [each.response for each in responses if each] == [{"output": "the sum is 5"}, {"output": "the sum is 2"}]


async def test_a_call_whose_arguments_broke_off_is_answered_and_never_runs() -> None:
    here = world()
    piece = types.FunctionCall(name="photo", will_continue=True)
    [answer] = await bridge.answers(here.belt, reply(piece))
    assert answer.parts
    assert answer.parts[0].function_response
    assert answer.parts[0].function_response.response
    assert "the arguments broke off before their end" in answer.parts[0].function_response.response["error"]
    assert here.ran == []


async def test_a_belt_without_tools_is_an_empty_list_and_an_empty_reply_has_no_answers() -> None:
    belt = toolcrib.open({"tools": {"allow": []}}).belt(toolcrib.OWNER)
    assert bridge.tools(belt) == []
    assert await bridge.answers(belt, types.GenerateContentResponse()) == []
