"""A result as the model reads it: outside text fenced, all of it bounded, a failure in one line."""

import logging

import orjson

from toolcrib.adapter.fence import new_token
from toolcrib.adapter.trim import error_text, is_long, present, text_of
from toolcrib.define.display import replace_halves
from toolcrib.define.ports import Blobs
from toolcrib.define.result import Result, Text

from .window import Window

__all__ = ["failed", "is_plain", "presented"]

log = logging.getLogger("toolcrib")


async def presented(result: Result, limit: int, blobs: Blobs | None) -> Result:
    """Return the result as the model reads it; a text too long for it is kept whole, where it can be paged through."""
    key = await _kept(result, blobs) if blobs is not None and is_long(result, limit) else ""
    return present(result, new_token(), limit, key=key)


def is_plain(result: Result, limit: int) -> bool:
    """Tell whether there is nothing to fence, to cut or to clean."""
    if len(result.content) != 1:
        return False
    part = result.content[0]
    return isinstance(part, Text) and part.source is None and len(part.text) <= limit and part.text.isascii()


def failed(name: str, message: str, code: str, window: Window) -> Result:
    """Return the failure as a model may read it: `{status, tool, error}`, one line, bounded and redacted."""
    try:
        words = error_text(message, window.redact)
    except Exception:
        log.exception("an error of %s could not be redacted", name)
        words = f"{name} failed; what it said is not shown, because it could not be cleared of secrets"
    return Result.error(words, code=code, details={"tool": name})


async def _kept(result: Result, blobs: Blobs) -> str:
    """Return the key under which the whole text is kept, "" when it could not be."""
    sources = [part.source for part in result.content if isinstance(part, Text) and part.source is not None]
    # the source goes with the text, so that every page of it is fenced again
    whole = orjson.dumps({"source": next(iter(sources), None), "text": replace_halves(text_of(result))})
    try:
        return await blobs.put(whole)
    except Exception:
        log.exception("a long result could not be kept; the model gets its beginning")
        return ""
