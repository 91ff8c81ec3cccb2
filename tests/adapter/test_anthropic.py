"""What Anthropic is sent beyond the golden conversations, and the names it is shown."""

from typing import Any

import pytest

from toolcrib.adapter import anthropic
from toolcrib.adapter.cards import Target
from toolcrib.adapter.names import assign_names, claude_names, name_for
from toolcrib.define.message import Call, Message, Thinking
from toolcrib.define.names import canonical
from toolcrib.define.result import Image, Text
from toolcrib.define.tool import Tool
from toolcrib.tools import SHELF

PLAIN = Target(api="anthropic", model="claude-x")
CLAUDE_CODE = Target(api="anthropic", model="claude-x", claude_code=True)
PNG = b"\x89PNG\r\n\x1a\nrest"


def user(*texts: str) -> Message:
    return Message(role="user", content=tuple(map(Text, texts)))


def sent(*messages: Message, target: Target = PLAIN) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = anthropic.request(messages, [], target)["messages"]
    return made


def test_an_empty_request_has_only_messages() -> None:
    assert anthropic.request([], [], PLAIN) == {"messages": []}


def test_all_that_the_system_says_is_one_text_wherever_it_stands() -> None:
    system = [Message(role="system", content=(Text(text),)) for text in ("Be brief.", "Be kind.")]
    made = anthropic.request([system[0], user("q"), system[1]], [], PLAIN)
    assert made == {"system": "Be brief.\n\nBe kind.", "messages": [{"role": "user", "content": "q"}]}


def test_turns_alternate_and_the_first_is_the_users() -> None:
    said = Message(role="assistant", content=(Text("Welcome."),))
    assert [turn["role"] for turn in sent(said, said, user("a"), user("b"))] == ["user", "assistant", "user"]
    assert sent(said, user("a"), user("b"))[2] == {
        "role": "user",
        "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
    }


def test_thoughts_go_back_as_they_came() -> None:
    thoughts = (Thinking("hm", "sig"), Thinking("", "redacted:cipher"), Thinking("", "seal"), Thinking("cut off"))
    said = Message(role="assistant", content=(*thoughts, Text("ok")), by=PLAIN.by)
    assert sent(user("q"), said, user("r"))[1]["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "cipher"},
        {"type": "thinking", "thinking": "", "signature": "seal"},
        {"type": "text", "text": "cut off"},
        {"type": "text", "text": "ok"},
    ]


def test_a_failure_without_words_says_that_it_has_none() -> None:
    asked = Message(role="assistant", calls=(Call(id="c1", name="read"),), finish="calls")
    told = sent(user("q"), asked, Message(role="tool", call_id="c1", status="error"))[2]["content"]
    assert told == [
        {
            "type": "tool_result",
            "tool_use_id": "c1",
            "content": "it failed and did not say why",
            "is_error": True,
        }
    ]


def test_pictures_of_a_failure_stand_beside_all_results() -> None:
    asked = Message(role="assistant", calls=(Call(id="c1", name="read"), Call(id="c2", name="read")), finish="calls")
    broken = Message(role="tool", content=(Text("no"), Image(PNG, "image/png")), call_id="c1", status="error")
    fine = Message(role="tool", content=(Text("yes"),), call_id="c2")
    content = sent(user("q"), asked, broken, fine)[2]["content"]
    assert [block["type"] for block in content] == ["tool_result", "tool_result", "text", "image"]
    assert [block["content"] for block in content[:2]] == ["no", "yes"]


@pytest.mark.parametrize(
    ("own", "shown"),
    [
        ("read", "Read"),
        ("write", "Write"),
        ("edit", "Edit"),
        ("exec", "Bash"),
        ("grep", "Grep"),
        ("find", "Glob"),
        ("web_fetch", "WebFetch"),
        ("web-search", "WebSearch"),
        ("todowrite", "TodoWrite"),
        ("ls", "ls"),
        ("my_tool", "my_tool"),
    ],
)
def test_a_tool_is_shown_as_claude_code_calls_it(own: str, shown: str) -> None:
    assert assign_names([own], claude_names) == {own: shown}


def test_every_shown_name_leads_back_to_its_tool() -> None:
    foreign = [Tool.declared(name, "A tool.") for name in ("webfetch", "web-fetch", "task", "glob")]
    tools = (*SHELF, *foreign)
    own = anthropic.own_names(tools, CLAUDE_CODE)
    shown = [tool["name"] for tool in anthropic.request([], tools, CLAUDE_CODE)["tools"]]
    assert [own[name] for name in shown] == [tool.name for tool in tools]
    assert own["WebFetch"] == "web_fetch"
    assert own["webfetch"] == "webfetch"


def test_a_call_of_the_past_is_named_as_its_tool_is_shown_now() -> None:
    names = ("exec", "bash", "BASH ", "read", "task", "gone")
    asked = Message(
        role="assistant", calls=tuple(Call(id=f"c{at}", name=name) for at, name in enumerate(names)), finish="calls"
    )
    made = anthropic.request([user("q"), asked], SHELF, CLAUDE_CODE)
    shown = [block["name"] for block in made["messages"][1]["content"]]
    assert shown[:2] == ["Bash", "Bash"]
    assert shown[3:] == ["Read", "Task", "gone"]


def test_a_tool_that_is_gone_never_passes_for_another() -> None:
    known = assign_names(["webfetch"], claude_names)
    assert known == {"webfetch": "WebFetch"}
    assert name_for("web_fetch", known, claude_names) == "web_fetch"


def test_what_is_shown_is_a_name_that_we_would_understand() -> None:
    for tool in SHELF:
        shown = assign_names([tool.name], claude_names)[tool.name]
        assert canonical(shown) is not None
