"""Random conversations and random JSON: whatever a store, a user, a model or a server may come up with."""

from hypothesis import strategies as st

from toolcrib.adapter.cards import Target
from toolcrib.define.message import Call, Message, Thinking
from toolcrib.define.result import Image, Text

from .conversations import PIXEL, TARGETS

__all__ = ["BY", "histories", "targets", "values"]

BY = ("", "another/model", *(target.by for target in TARGETS.values()))

_texts = st.one_of(st.sampled_from(("", " ", "ok", "a\ud83db", "\ud83d\ude00", "error: no")), st.text(max_size=8))
_ids = st.one_of(
    st.sampled_from(("", "c1", "c2", "c1_2", "call", "x" * 70, "x" * 70 + "y", "toolu:1/2 3", "\ud83d")),
    st.text(max_size=5),
)
_marks = st.one_of(st.just(""), st.sampled_from(("sig", "{}", '{"type":"reasoning","id":"rs","summary":[]}')))
_images = st.builds(Image, st.sampled_from((b"", b"ABC", PIXEL)), st.sampled_from(("image/png", "image/bmp", "\ud83d")))
_parts = st.one_of(
    st.builds(Text, _texts), st.builds(Text, _texts, st.just("web:x")), _images, st.builds(Thinking, _texts, _marks)
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), _texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_texts, inner, max_size=3)),
    max_leaves=6,
)
_calls = st.builds(
    Call,
    id=_ids,
    name=st.one_of(st.sampled_from(("read", "", "functions.read", "x" * 80)), _texts),
    args=st.dictionaries(_texts, values, max_size=3),
    signature=_marks,
)
_messages = st.one_of(
    st.builds(
        Message,
        role=st.just("assistant"),
        content=st.lists(_parts, max_size=3).map(tuple),
        calls=st.lists(_calls, max_size=4).map(tuple),
        finish=st.sampled_from(("stop", "calls", "length", "refused", "error", "aborted")),
        by=st.sampled_from(BY),
    ),
    st.builds(
        Message,
        role=st.just("tool"),
        content=st.lists(_parts, max_size=3).map(tuple),
        call_id=st.one_of(st.none(), _ids),
        status=st.sampled_from(("ok", "error", "pending")),
    ),
    st.builds(
        Message,
        role=st.sampled_from(("user", "system")),
        content=st.lists(_parts, max_size=3).map(tuple),
        calls=st.just(()),
    ),
)
histories = st.lists(_messages, max_size=10)
targets = st.builds(
    Target,
    api=st.sampled_from(tuple(TARGETS)),
    model=st.sampled_from(("a-model", "mistral-large")),
    sees=st.booleans(),
)
