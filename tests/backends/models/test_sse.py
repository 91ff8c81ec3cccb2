"""Events are the same however their bytes were cut, and none is without measure."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.backends.models.answer import EventReader, ServerEvent, TooLongError

STREAM = (
    b"\xef\xbb\xbf: a comment\n"
    b"event: greeting\ndata: na\xc3\xafve\n\n"
    b"data:one\ndata: two\ndata\nid: 7\nretry: 10\n\n"
    b"event: nothing\n\n"
    b'error: {"code": 500}\n\n'
    b"data: [DONE]\n\n"
)
SENT = [
    ServerEvent("greeting", "naïve".encode()),
    ServerEvent("", b"one\ntwo\n"),
    ServerEvent("error", b'{"code": 500}'),
    ServerEvent("", b"[DONE]"),
]


def read(*pieces: bytes, longest: int = 1_000) -> list[ServerEvent]:
    events = EventReader(longest)
    return [*(sent for piece in pieces for sent in events.feed(piece)), *events.close()]


@given(st.lists(st.integers(0, 2 * len(STREAM)), max_size=30), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_events_do_not_depend_on_where_the_bytes_are_cut(cuts: list[int], end: bytes) -> None:
    stream = STREAM.replace(b"\n", end)
    places = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    assert read(*(stream[a:b] for a, b in pairwise(places))) == SENT


def test_the_last_event_needs_no_empty_line() -> None:
    assert read(b"data: a\n\ndata: b\n") == [ServerEvent("", b"a"), ServerEvent("", b"b")]
    assert read(b"data: a\n\ndata: b") == [ServerEvent("", b"a"), ServerEvent("", b"b")]
    assert read(b"data: a\n\nevent: b") == [ServerEvent("", b"a")]


@pytest.mark.parametrize("pieces", [[b"data: "] + [b"x" * 100] * 20, [b"data: x\n"] * 2_000, [b"data\n"] * 2_000])
def test_an_event_without_end_is_refused(pieces: list[bytes]) -> None:
    with pytest.raises(TooLongError):
        read(*pieces)


@given(st.lists(st.binary(max_size=200), max_size=20))
def test_no_bytes_break_it(pieces: list[bytes]) -> None:
    for sent in read(*pieces, longest=10_000):
        assert sent.data is not None
