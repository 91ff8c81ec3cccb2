"""Whether a reply failed because the conversation no longer fits into the model: then it is shortened, not repeated."""

import re

from toolcrib.define.event import Replied

__all__ = ["is_overflow"]

_READ = 4_000  # characters of an error
# How providers and servers say it; each has its own words.
_SAYINGS = re.compile(
    r"(?:prompt|input|request) is too long"
    r"|exceeds? (?:the |this )?(?:model'?s? )?(?:available |maximum )?(?:context|token)[ _](?:window|size|length|limit)"
    r"|input token count[^\n]{0,80}exceeds"
    r"|maximum (?:prompt|context|input) length"
    r"|(?:reduce|shorten) the length of (?:the|your) (?:messages|prompt|input)"
    r"|exceeds the limit of \d+"
    r"|(?:greater|longer|larger) than the (?:model'?s? )?(?:maximum )?context"
    r"|context[ _](?:window|length|size)[ _](?:exceeds?|exceeded|limit|is full)"
    r"|exceeded (?:the )?(?:model )?(?:token|context) limit"
    r"|too many (?:input )?tokens"
    r"|token limit (?:was )?exceeded"
    r"|\A4(?:00|13) *(?:status code)? *\(no body\)",
    re.IGNORECASE,
)
# The same words about tokens are used for too many of them in a minute.
_HASTE = re.compile(r"rate.?limit|thrott|per (?:second|minute|day)|\b429\b|quota|please wait", re.IGNORECASE)


def is_overflow(reply: Replied, window: int = 0) -> bool:
    """Tell whether the conversation was too long for the model; `window` is how many tokens it takes, if known.

    Some providers answer all the same and leave out what does not fit: then the tokens tell.
    """
    if reply.message.finish in ("error", "length") and reply.error:
        said = reply.error[:_READ]
        return _SAYINGS.search(said) is not None and not _HASTE.search(said)
    return 0 < window < reply.usage.input and reply.message.finish in ("stop", "calls")
