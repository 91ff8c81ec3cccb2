"""Lines of a log as JSON: every kind comes back as it was, and what is not known is never skipped."""

import json
from types import MappingProxyType
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.backends.stores.sessions_json import from_text, line_from_json, line_to_json, read_log, to_text, write_log
from toolcrib.define.errors import ToolError
from toolcrib.define.event import Ending, Usage
from toolcrib.define.log import (
    Began,
    Body,
    Ended,
    Labelled,
    Line,
    Noted,
    Said,
    SessionHead,
    Shortened,
    Switched,
)  # fmt: skip
from toolcrib.define.message import Call, Finish, Message, Role, Thinking
from toolcrib.define.result import Image, Status, Text

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
HEAD = SessionHead(key="agent:main:main", made_at=1.5, changed_at=9.5, parents=("a", "b"), title="T", model="p:m")
CALL = Call("c1", "exec", {"command": "ls", "deep": [{"x": None}, 1.5, 2**70]}, "k1", "mark", "flaw")
REPLY = Message(
    role="assistant", content=(Thinking("hm", "seal"), Thinking("h"), Text("hello")), calls=(CALL, Call("c2", "ls")),
    finish="calls", by="p/m", at=2.5,
)  # fmt: skip
ANSWER = Message(
    role="tool", content=(Text("out", "web:x"), Text(""), Image(PNG, "image/png")), call_id="c1", status="error"
)
BODIES: tuple[Body, ...] = (
    Said(Message(role="user", content=(Text("hello"),))),
    Said(REPLY, Usage(1, 2, 3, 4), 0.25),
    Said(REPLY, Usage(), 0.0),
    Began(CALL),
    Said(ANSWER),
    Shortened("sum", "l1", 7),
    Switched("p:m"),
    Switched(""),
    Noted("plugin", {"a": [1, None, True]}),
    Noted("plugin", None),
    Labelled("title"),
    Ended("done", "", Usage(5, 6), None),
    Ended("cost", "too much", Usage(), 1.5),
)


def chained(bodies: tuple[Body, ...]) -> tuple[Line, ...]:
    return tuple(Line(f"l{at}", f"l{at - 1}" if at else None, 1.0 + at, body) for at, body in enumerate(bodies))


def shelf() -> tuple[dict[str, bytes], Any]:
    kept: dict[str, bytes] = {}

    def keep(data: bytes) -> str:
        kept[str(len(kept))] = data
        return str(len(kept) - 1)

    return kept, keep


@pytest.mark.parametrize("line", chained(BODIES), ids=lambda line: f"{type(line.body).__name__}-{line.id}")
def test_every_kind_of_line_comes_back(line: Line) -> None:
    kept, keep = shelf()
    text = to_text(line_to_json(line, keep))
    assert "\n" not in text
    assert line_from_json(from_text(text), kept.__getitem__) == line
    assert line_from_json(from_text(to_text(line_to_json(line)))) == line


def test_a_picture_is_kept_beside_its_line_and_stands_within_an_export() -> None:
    line = Line("l1", None, 1.0, Said(ANSWER))
    kept, keep = shelf()
    assert line_to_json(line, keep)["message"]["content"][2] == {"blob": "0", "mime": "image/png"}
    assert kept == {"0": PNG}
    assert line_to_json(line)["message"]["content"][2]["data"].startswith("iVBOR")
    with pytest.raises(ToolError, match="has no 'data'"):
        line_from_json(line_to_json(line, keep))


def test_a_whole_session_comes_back_from_a_file() -> None:
    texts = list(write_log(HEAD, chained(BODIES)))
    assert json.loads(texts[0])["version"] == 1
    assert read_log(texts) == (HEAD, chained(BODIES))
    assert read_log(list(write_log(HEAD, ()))) == (HEAD, ())


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
calls = st.builds(
    Call, st.text(), st.text(), st.dictionaries(st.text(), json_values, max_size=3), st.text(), st.text(), st.text()
)
parts = (
    st.builds(Text, st.text(), st.none() | st.text(), st.none())
    | st.builds(Thinking, st.text(), st.text())
    | st.builds(Image, st.binary(max_size=40), st.text())
)
times = st.floats(allow_nan=False, allow_infinity=False)
counts = st.integers(min_value=0, max_value=2**62)
usages = st.builds(Usage, counts, counts, counts, counts)
messages = st.builds(
    Message, role=st.sampled_from(get_args(Role)), content=st.lists(parts, max_size=3).map(tuple),
    calls=st.lists(calls, max_size=2).map(tuple), call_id=st.none() | st.text(), by=st.text(), at=times,
    status=st.sampled_from(get_args(Status)), finish=st.sampled_from(get_args(Finish)),
)  # fmt: skip
bodies = (
    st.builds(Said, messages, st.none() | usages, st.none() | times)
    | st.builds(Began, calls)
    | st.builds(Shortened, st.text(), st.text(), counts)
    | st.builds(Switched, st.text())
    | st.builds(Noted, st.text(), json_values)
    | st.builds(Labelled, st.text())
    | st.builds(Ended, st.sampled_from(get_args(Ending)), st.text(), usages, st.none() | times)
)


@given(st.builds(Line, st.text(), st.none() | st.text(), times, bodies))
def test_any_line_comes_back(line: Line) -> None:
    text = to_text(line_to_json(line))
    assert line_from_json(from_text(text.encode().decode())) == line


@given(st.text(st.characters(codec=None), max_size=5), st.integers(0xD800, 0xDFFF), st.text(max_size=3))
def test_half_a_character_comes_back(before: str, half: int, after: str) -> None:
    whole = (before + chr(half)).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass") + after
    line = Line(
        "l", None, 1.0, Said(Message(role="tool", content=(Text(whole),), calls=(Call("c", "n", {whole: whole}),)))
    )
    text = to_text(line_to_json(line)).encode().decode()
    assert line_from_json(from_text(text)) == line


def test_two_halves_side_by_side_come_back_as_the_character_they_are() -> None:
    line = Line("l", None, 1.0, Labelled("\ud83d\ude00"))
    assert line_from_json(from_text(to_text(line_to_json(line)))).body == Labelled("\U0001f600")


def test_arguments_that_cannot_be_changed_are_written_too() -> None:
    line = Line("l", None, 1.0, Began(Call("c", "n", MappingProxyType({"x": MappingProxyType({"y": (1, 2)})}))))
    assert line_to_json(line)["call"]["args"] == {"x": {"y": [1, 2]}}


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "body",
    [
        Noted("n", {1: 2}), Noted("n", {"x": float("nan")}), Noted("n", [float("inf")]), Noted("n", {1, 2}),
        Noted("n", b"x"), Noted("n", object()), Noted("n", deep(5_000)), Noted("n", 10**5_000),
        Began(Call("c", "n", {"x": float("nan")})), Ended("done", "", Usage(), float("nan")),
        Said(Message(role="user", at=float("inf"))), Said(Message(role="user"), None, float("inf")),
    ],
    ids=lambda body: type(body).__name__,
)  # fmt: skip
def test_what_is_no_json_is_refused_and_never_bent(body: Body) -> None:
    with pytest.raises(ToolError, match="cannot be kept in a session, only plain JSON can"):
        to_text(line_to_json(Line("l", None, 1.0, body)))


SAID = line_to_json(Line("l1", None, 1.0, Said(REPLY, Usage(1, 2), 0.5)))
MESSAGE = SAID["message"]


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ([], "a line is no object"),
        ({}, "a line has no 'type'"),
        ({**SAID, "type": "dreamt"}, "it has the unknown type 'dreamt'"),
        ({**SAID, "mood": "good"}, "a line has the unknown 'mood'"),
        ({**SAID, "id": 7}, "'id' of a line is of another kind"),
        ({**SAID, "at": "now"}, "'at' of a line is of another kind"),
        ({**SAID, "at": True}, "'at' of a line is of another kind"),
        ({key: value for key, value in SAID.items() if key != "parent"}, "a line has no 'parent'"),
        ({**SAID, "usage": {"input": 1, "dreamt": 2}}, "a usage has the unknown 'dreamt'"),
        ({**SAID, "usage": {"input": 1.5}}, "'input' of a usage is of another kind"),
        ({**SAID, "usage": None}, "a usage is no object"),
        ({**SAID, "message": {**MESSAGE, "role": "ghost"}}, "'role' of a message is 'ghost', which is not known"),
        ({**SAID, "message": {**MESSAGE, "finish": "soon"}}, "'finish' of a message is 'soon'"),
        ({**SAID, "message": {**MESSAGE, "mood": 1}}, "a message has the unknown 'mood'"),
        ({**SAID, "message": {**MESSAGE, "content": "text"}}, "'content' of a message is of another kind"),
        ({**SAID, "message": {**MESSAGE, "content": [{"sound": "x"}]}}, "a part of a message has no 'text'"),
        ({**SAID, "message": {**MESSAGE, "content": [{"data": "?", "mime": "x"}]}}, "data is not base64"),
        ({**SAID, "message": {**MESSAGE, "content": [{"text": "x", "bold": 1}]}}, "has the unknown 'bold'"),
        ({**SAID, "message": {**MESSAGE, "calls": [{"id": "x"}]}}, "a call has no 'name'"),
        ({**SAID, "message": {**MESSAGE, "calls": [{"id": "x", "name": "n", "args": []}]}}, "'args' of a call"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_what_is_not_known_is_told(value: Any, complaint: str) -> None:
    with pytest.raises(ToolError, match=complaint) as refused:
        line_from_json(value)
    assert refused.value.code == "bad_line"


FIRST, SECOND, *_ = write_log(HEAD, chained(BODIES))


@pytest.mark.parametrize(
    ("texts", "complaint"),
    [
        ([], "there is no session in it"),
        ([""], "line 1: it is not JSON"),
        ([SECOND], "line 1: a session begins with its head"),
        ([FIRST.replace('"version":1', '"version":2')], "line 1: it is of version 2, and 1 is known"),
        ([FIRST.replace('"title"', '"dreams"')], "line 1: the head has the unknown 'dreams'"),
        ([FIRST, SECOND[:-5]], "line 2: it is not JSON"),
        ([FIRST, SECOND, SECOND], "line 3: there is a line 'l0' already"),
        ([FIRST, SECOND.replace("null", '"l9"')], "line 2: the line 'l0' names a line 'l9' that is not before it"),
        ([FIRST, SECOND, "NaN"], "line 3: NaN cannot be kept"),
        ([FIRST, SECOND, '{"a":1,"a":2}'], "line 3: a name is given twice"),
        ([FIRST, "[" * 100_000], "line 2: it is nested too deep"),
        ([FIRST, SECOND.replace('"l0"', '"l 0"')], "line 2: 'l 0' is no id of a line"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_file_is_read_whole_or_told_where_it_is_wrong(texts: list[str], complaint: str) -> None:
    with pytest.raises(ToolError, match=complaint) as refused:
        read_log(texts)
    assert refused.value.code == "bad_line"
