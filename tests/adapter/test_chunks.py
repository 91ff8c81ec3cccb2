"""Whatever a provider sends, reading it raises nothing, takes no longer than its size, and ends in one whole reply."""

import os
import sys
import time
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.adapter.conversations import TARGETS
from tests.adapter.streams import STREAMS

from toolcrib.adapter import anthropic, gemini, mcp, openai, responses
from toolcrib.define.errors import ToolError
from toolcrib.define.event import CallDelta, Replied, TextDelta, ThinkingDelta
from toolcrib.define.result import Result, Text

CHUNKS: Mapping[str, Callable[..., Any]] = {
    "anthropic": anthropic.ReplyStream,
    "gemini": gemini.ReplyStream,
    "openai": openai.ReplyStream,
    "responses": responses.ReplyStream,
}
REPLY_FROM: Mapping[str, Callable[..., Replied]] = {
    "anthropic": anthropic.read_reply,
    "gemini": gemini.read_reply,
    "openai": openai.read_reply,
    "responses": responses.read_reply,
}
FULL = bool(os.environ.get("TOOLCRIB_FULL"))
FINISHES = {"stop", "calls", "length", "refused", "error", "aborted"}
_WORST = 0.05  # seconds of processor time for one input


def _words(value: Any) -> set[str]:
    """Return every key and every short text within a value."""
    if isinstance(value, dict):
        return set(value).union(*map(_words, value.values()))
    if isinstance(value, list):
        return set().union(*map(_words, value))
    return {value} if isinstance(value, str) else set()


def _junk(words: list[str]) -> st.SearchStrategy[Any]:
    """Give any JSON, written in the words of the provider."""
    texts = st.sampled_from(words) | st.text(max_size=5)
    atoms = st.none() | st.booleans() | st.integers() | st.floats() | texts | st.just("\ud83d")
    return st.recursive(
        atoms, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=4), max_leaves=12
    )


@st.composite
def _spoiled(draw: st.DrawFn, api: str) -> list[Any]:
    """Give a real stream with some of its values replaced, left out, doubled or in another order; or only junk."""
    words = sorted(_words([list(stream) for stream in STREAMS[api].values()]))
    junk = _junk(words)
    if draw(st.integers(0, 3)) == 0:
        return draw(st.lists(junk, max_size=8))
    chunks = [deepcopy(chunk) for chunk in STREAMS[api][draw(st.sampled_from(sorted(STREAMS[api])))]]
    for _ in range(draw(st.integers(0, 4))):
        _spoil(draw, chunks, junk)
    return draw(st.permutations(chunks)) if draw(st.booleans()) else chunks


def _spoil(draw: st.DrawFn, value: Any, junk: st.SearchStrategy[Any]) -> None:
    """Change one place, somewhere within a list or an object."""
    while isinstance(value, dict | list) and value:
        place = draw(st.sampled_from(sorted(value) if isinstance(value, dict) else range(len(value))))
        inner = value[place]
        if not isinstance(inner, dict | list) or not inner or draw(st.integers(0, 3)) == 0:
            if draw(st.booleans()):
                value[place] = draw(junk)
            else:
                del value[place]
            return
        value = inner


def _read(api: Any, chunks: list[Any]) -> float:
    """Read a stream and the same as whole replies; return the processor time of the slower way."""
    began = time.process_time()
    reader = CHUNKS[api](TARGETS[api])
    for chunk in chunks:
        for event in reader.feed(chunk):
            assert isinstance(event, TextDelta | ThinkingDelta | CallDelta)
    replied = reader.end()
    took = time.process_time() - began
    assert reader.end() == replied
    assert replied.message.finish in FINISHES
    assert replied.message.finish not in ("error", "refused") or isinstance(replied.error, str)
    assert (replied.message.finish == "calls") <= bool(replied.message.calls)
    for chunk in chunks[:2]:
        assert REPLY_FROM[api](chunk, TARGETS[api]).message.role == "assistant"
    return took


@pytest.mark.parametrize("api", STREAMS)
def test_reading_a_spoiled_stream_raises_nothing(api: str) -> None:
    @settings(max_examples=60)
    @given(_spoiled(api))
    def read(chunks: list[Any]) -> None:
        _read(api, chunks)

    read()


@pytest.mark.full
@pytest.mark.parametrize("api", STREAMS)
def test_reading_many_spoiled_streams_is_quick(api: str, capsys: pytest.CaptureFixture[str]) -> None:
    worst = 0.0

    @settings(max_examples=2_000)
    @given(_spoiled(api))
    def read(chunks: list[Any]) -> None:
        nonlocal worst
        worst = max(worst, min(_read(api, chunks) for _ in range(2)))

    read()
    with capsys.disabled():
        sys.stdout.write(f"\n{api}: the worst stream took {worst * 1000:.1f} ms of processor time\n")
    assert worst <= _WORST


@pytest.mark.parametrize("api", ["anthropic", "gemini"])
def test_ten_thousand_small_pieces_are_read_in_one_go(api: str) -> None:
    """The length of a reply must not be paid for once more with each of its pieces."""
    pieces = 10_000
    if api == "anthropic":
        seal = {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c"}}
        begun = {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "x"}}
        chunks = [begun, *[seal] * pieces, {"type": "content_block_stop", "index": 0}]
    else:
        chunks = [{"candidates": [{"content": {"parts": [{"text": "x", "thought": True}]}}]}] * pieces
    assert _read(api, chunks) < 5


def _results() -> st.SearchStrategy[Any]:
    words = [
        "content", "isError", "structuredContent", "type", "text", "image", "audio", "resource", "resource_link",
        "data", "mimeType", "uri", "blob", "name", "title", "size", "image/png", "iVBORw0KGgo=", "resultType",
    ]  # fmt: skip
    junk = _junk(words)
    block = st.fixed_dictionaries(
        {"type": st.sampled_from(("text", "image", "audio", "resource", "resource_link"))},
        optional={
            "text": junk, "data": st.just("iVBORw0KGgo=") | junk, "uri": junk, "mimeType": junk, "size": junk,
            "resource": st.fixed_dictionaries({"uri": junk}, optional={"text": junk, "blob": junk}) | junk,
        },
    )  # fmt: skip
    whole = st.fixed_dictionaries(
        {"content": st.lists(block | junk, max_size=4) | junk},
        optional={"isError": st.booleans() | junk, "structuredContent": junk},
    )
    return whole | junk


@settings(max_examples=2_000 if FULL else 100)
@given(_results())
def test_a_result_of_a_foreign_server_is_read_or_refused(value: Any) -> None:
    try:
        read = mcp.read_result(value, "files")
    except ToolError:
        return
    assert isinstance(read, Result)
    assert all(part.source == "mcp:files" for part in read.content if isinstance(part, Text))
    mcp.encode_result(read)
