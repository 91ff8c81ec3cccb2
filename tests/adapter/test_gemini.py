"""What Gemini is sent beyond the golden conversations."""

from typing import Any

import pytest

from toolcrib.adapter import gemini
from toolcrib.adapter.cards import Target
from toolcrib.define.message import Call, Message, Thinking
from toolcrib.define.result import Image, Text
from toolcrib.define.tool import Tool

SECOND = Target(api="gemini", model="gemini-2.5-pro")
THIRD = Target(api="gemini", model="models/gemini-3-pro-preview")
PNG = b"\x89PNG\r\n\x1a\nrest"
SKIP = "skip_thought_signature_validator"
QUESTION = Message(role="user", content=(Text("q"),))


def sent(*messages: Message, target: Target = THIRD) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = gemini.request(messages, [], target)["contents"]
    return made


def called(*marks: str, by: str = "") -> Message:
    calls = tuple(Call(id=f"c{at}", name="shoot", signature=mark) for at, mark in enumerate(marks))
    return Message(role="assistant", calls=calls, finish="calls", by=by)


def test_an_empty_request_has_only_contents() -> None:
    assert gemini.request([], [], SECOND) == {"contents": []}


@pytest.mark.parametrize(
    ("model", "signed"),
    [
        ("gemini-2.5-pro", False),
        ("gemini-3-pro", True),
        ("models/gemini-3.1-flash", True),
        ("gemini-10-pro", True),
        ("gemini-flash-latest", False),
        ("gemma-3", False),
    ],
)
def test_calls_of_other_models_are_marked_where_signatures_are_wanted(model: str, signed: bool) -> None:
    parts = sent(QUESTION, called("", ""), target=Target(api="gemini", model=model))[1]["parts"]
    assert [part.get("thoughtSignature") for part in parts] == [SKIP if signed else None] * 2


def test_one_signature_is_enough_for_the_calls_of_one_reply() -> None:
    parts = sent(QUESTION, called("c2ln", "", by=THIRD.by))[1]["parts"]
    assert [part.get("thoughtSignature") for part in parts] == ["c2ln", None]


def test_calls_go_back_under_the_ids_their_model_gave_and_so_do_answers() -> None:
    answer = Message(role="tool", content=(Text("r"),), call_id="c0")
    own, foreign = (sent(QUESTION, called("c2ln", by=by), answer) for by in (THIRD.by, "another/model"))
    assert own[1]["parts"][0]["functionCall"] == {"id": "c0", "name": "shoot", "args": {}}
    assert own[2]["parts"][0]["functionResponse"] == {"id": "c0", "name": "shoot", "response": {"output": "r"}}
    assert foreign[1]["parts"][0]["functionCall"] == {"name": "shoot", "args": {}}


def test_pictures_stand_in_the_answer_since_the_third_and_after_all_answers_before() -> None:
    answers = [
        Message(role="tool", content=(Text("one"), Image(PNG, "image/png")), call_id="c0"),
        Message(role="tool", content=(Image(PNG, "image/png"), Image(b"GIF89a", "image/gif")), call_id="c1"),
    ]
    inside = sent(QUESTION, called("", ""), *answers)[2:]
    assert [len(part["functionResponse"]["parts"]) for part in inside[0]["parts"]] == [1, 1]
    assert len(inside) == 1
    beside = sent(QUESTION, called("", ""), *answers, target=SECOND)[2:]
    assert [list(part) for turn in beside for part in turn["parts"]] == [
        ["functionResponse"],
        ["functionResponse"],
        ["text"],
        ["inlineData"],
        ["text"],
        ["inlineData"],
    ]
    assert "image/gif" in beside[0]["parts"][1]["functionResponse"]["response"]["output"]


def test_a_failure_says_so_even_without_words() -> None:
    told = sent(QUESTION, called("c2ln"), Message(role="tool", call_id="c0", status="error"))[2]
    assert told["parts"][0]["functionResponse"]["response"] == {"error": "it failed and did not say why"}


def test_a_reply_never_opens_the_conversation_and_two_are_one_turn() -> None:
    said = Message(role="assistant", content=(Text("Welcome."),))
    turns = sent(said, said, QUESTION)
    assert [turn["role"] for turn in turns] == ["user", "model", "user"]
    assert turns[1]["parts"] == [{"text": "Welcome."}] * 2


def test_thoughts_and_the_seals_on_words_go_back_in_their_places() -> None:
    content = (Thinking("hm", "b25l"), Text("words"), Thinking("", "dHdv"))
    calls = (Call(id="c0", name="shoot", signature="dGhyZWU="),)
    said = Message(role="assistant", content=content, calls=calls, finish="calls", by=THIRD.by)
    assert sent(QUESTION, said)[1]["parts"] == [
        {"text": "hm", "thought": True, "thoughtSignature": "b25l"},
        {"text": "words"},
        {"text": "", "thoughtSignature": "dHdv"},
        {"functionCall": {"id": "c0", "name": "shoot", "args": {}}, "thoughtSignature": "dGhyZWU="},
    ]


def test_names_begin_with_a_letter_and_lead_back() -> None:
    tools = [Tool.declared(name, "A tool.") for name in ("3d", "_3d", "-x", "read")]
    own = gemini.own_names(tools)
    offered = gemini.request([], tools, THIRD)["tools"][0]["functionDeclarations"]
    assert [declared["name"] for declared in offered] == ["_3d_2", "_3d", "_-x", "read"]
    assert [own[declared["name"]] for declared in offered] == [tool.name for tool in tools]
