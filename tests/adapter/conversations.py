"""Conversations written once and sent to every provider: tests/golden/<provider>/conversations has what each is sent.

A conversation is a function of the model it goes to, because only what that very model said keeps its marks.
"""

from collections.abc import Callable, Mapping

from toolcrib.adapter.cards import Api, Target
from toolcrib.define.message import Call, Message, Thinking
from toolcrib.define.result import Image, Text

__all__ = ["CONVERSATIONS", "PIXEL", "TARGETS", "Conversation", "answered", "asked", "said"]

Conversation = Callable[[Target], list[Message]]

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f64540"
    "0000000049454e44ae426082"
)
TARGETS: Mapping[Api, Target] = {
    api: Target(api=api, model="a-model") for api in ("openai", "responses", "anthropic", "gemini")
}
# What each provider wants back with a thought, and with a call.
_MARKS: Mapping[Api, tuple[str, str]] = {
    "openai": ("reasoning_content", '{"google":{"thought_signature":"c2ln"}}'),
    "responses": ('{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"c2VhbA=="}', "fc_1"),
    "anthropic": ("c2ln", ""),
    "gemini": ("c2ln", "c2ln"),
}


def asked(text: str) -> Message:
    """Return what a user said."""
    return Message(role="user", content=(Text(text),))


def said(*content: Text | Image | Thinking | str, calls: tuple[Call, ...] = (), **more: str) -> Message:
    """Return a reply."""
    parts = tuple(Text(part) if isinstance(part, str) else part for part in content)
    finish = more.pop("finish", "calls" if calls else "stop")
    return Message(role="assistant", content=parts, calls=calls, finish=finish, **more)  # type: ignore[arg-type]  # words


def answered(call_id: str, *content: Text | Image | str, status: str = "ok") -> Message:
    """Return the answer to a call."""
    parts = tuple(Text(part) if isinstance(part, str) else part for part in content)
    return Message(role="tool", content=parts, call_id=call_id, status=status)  # type: ignore[arg-type]  # a status


def _call(call_id: str, name: str = "read", **args: object) -> Call:
    return Call(id=call_id, name=name, args=args or {"path": "a.txt"})


def _plain(target: Target) -> list[Message]:
    return [Message(role="system", content=(Text("Be brief."),)), asked("hi"), said("hello"), asked("bye")]


def _round(target: Target) -> list[Message]:
    return [
        asked("read both"),
        said("I will.", calls=(_call("c1"), _call("c2", path="b.txt", limit=3))),
        answered("c1", "one", "two"),
        answered("c2"),
    ]


def _own(target: Target) -> list[Message]:
    thought, mark = _MARKS[target.api]
    call = Call(id="c1", name="read", args={"path": "a.txt"}, signature=mark)
    return [
        asked("read it"),
        said(Thinking("I should read it.", thought), "Reading.", calls=(call,), by=target.by),
        answered("c1", "one"),
    ]


def _foreign(target: Target) -> list[Message]:
    call = Call(id="c1", name="read", args={"path": "a.txt"}, signature="theirs")
    return [
        asked("read it"),
        said(Thinking("Let me think.", "theirs"), Thinking("", "sealed"), calls=(call,), by="another/model"),
        answered("c1", "one"),
        said(Thinking("Done, I think.", "theirs"), by="another/model"),
        asked("and?"),
    ]


def _errors(target: Target) -> list[Message]:
    return [
        asked("read it"),
        said(calls=(_call("c1"), _call("c2"), _call("c3"), _call("c4"))),
        answered("c1", "no file 'a.txt'", status="error"),
        answered("c2", "Error: no file 'a.txt'", status="error"),
        answered("c3", status="error"),
        answered("c4", "asked; the answer comes later", status="pending"),
    ]


def _images(target: Target) -> list[Message]:
    picture = Image(PIXEL, "image/jpeg")  # a PNG, whatever it was called
    return [
        Message(role="user", content=(Text("what is this?"), picture, Image(b"", "image/png"))),
        said(Image(PIXEL, "image/png"), calls=(_call("c1", "shoot"), _call("c2", "shoot"), _call("c3", "shoot"))),
        answered("c1", "the page", picture, picture),
        answered("c2", picture),
        answered("c3", picture, status="error"),
        asked("thanks"),
    ]


def _open(target: Target) -> list[Message]:
    return [
        answered("c0", "nobody asked"),
        asked("go"),
        said(calls=(_call("c1"), _call("c2"))),
        asked("hurry"),
        answered("c2", "late"),
        answered("c2", "again"),
        said("I go on.", calls=(_call("c3"),)),
    ]


def _broken(target: Target) -> list[Message]:
    return [
        asked("go"),
        said("I was about to", calls=(_call("c1"),), finish="length"),
        asked("go on"),
        said(Thinking("half a thou"), calls=(_call("c2"),), finish="aborted", by=target.by),
        asked("again"),
        said("two", calls=(_call("c3"), _call("c4")), finish="error"),
        answered("c4", "it ran"),
    ]


def _ids(target: Target) -> list[Message]:
    long = "call_" + "a" * 70
    return [
        asked("go"),
        said(calls=(_call(f"{long}1"), _call(f"{long}2"), _call("toolu:1/2 3"), _call(""))),
        *(answered(each, str(at)) for at, each in enumerate((f"{long}1", f"{long}2", "toolu:1/2 3", ""))),
        said(calls=(_call("c1"), _call("c1"))),
        answered("c1", "first"),
        answered("c1", "second"),
        said(calls=(_call("c1"),)),
        answered("c1", "third"),
    ]


def _odd(target: Target) -> list[Message]:
    args = {"text": "half \ud83d", "big": 2**70, "deep": [[{"\udc00": None}]]}
    return [
        asked("a\ud83db \ud83d\ude00"),
        asked(""),
        asked("   "),
        said("", "  ", calls=(Call(id="c1", name="functions.read file", args=args), Call(id="c2", name=""))),
        answered("c1", "", "x\udc00"),
        answered("c2", "no tool ''", status="error"),
    ]


CONVERSATIONS: Mapping[str, Conversation] = {
    "plain": _plain,
    "round": _round,
    "own": _own,
    "foreign": _foreign,
    "errors": _errors,
    "images": _images,
    "open": _open,
    "broken": _broken,
    "ids": _ids,
    "odd": _odd,
}
