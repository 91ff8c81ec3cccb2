"""Frames too long for one message travel in parts: pieces of their text in order, each in a frame of its own."""

import orjson

PARTS = "parts"  # what a client says in `caps` that takes them
MAX_FRAME_BYTES = 524_288
MAX_REQUEST_BYTES = 16 * 1024 * 1024  # of a request in parts
MAX_WHOLE_BYTES = 25 * 1024 * 1024  # of what a client is sent that takes none
MAX_JOINED_BYTES = 256 * 1024 * 1024  # of what one is sent that does
_PART_CHARS = 120_000  # each at most four bytes when it is written
_HEAD = '{"type":"part",'


def split_frame(text: str) -> list[str]:
    """Return a frame as it travels: as it is, or in parts."""
    if len(text) <= _PART_CHARS:
        return [text]
    ends = range(_PART_CHARS, len(text) + _PART_CHARS, _PART_CHARS)
    parts = ({"type": "part", "text": text[end - _PART_CHARS : end], "more": end < len(text)} for end in ends)
    return [orjson.dumps(each).decode() for each in parts]


class FrameAssembler:
    """Puts the parts of one frame after the other together again."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes, self._pieces, self._length = max_bytes, list[str](), 0

    def take(self, text: str) -> str | None:
        """Return the frame that is whole with this message, None for none yet; raise ValueError when it is too long."""
        if not text.startswith(_HEAD):
            return text
        part = orjson.loads(text)
        self._pieces.append(str(part.get("text")))
        self._length += len(self._pieces[-1])
        if self._length > self._max_bytes:
            raise ValueError(f"a frame in parts has at most {self._max_bytes:,} bytes")
        if part.get("more"):
            return None
        whole, self._pieces, self._length = "".join(self._pieces), [], 0
        return whole
