"""8,000 characters of text, 400 of error: what models and watchers get to read of a result."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, TypeVar

import orjson

from toolcrib.define.args import trim
from toolcrib.define.display import is_encodable, replace_halves, strip
from toolcrib.define.marks import defuse
from toolcrib.define.result import Content, Embed, Image, Result, Text

from .cut import cut, shorten
from .fence import cut_fenced, fence

_P = TypeVar("_P")

RESULT_CHARS = 8_000
ERROR_CHARS = 400

# An error is read from its beginning; a body that is longer than this is data, not an error in JSON.
_MAX_JSON_CHARS = 65_536


def present(result: Result, token: str, limit: int = RESULT_CHARS, *, key: str = "", notice: str = "") -> Result:
    """Return a result as the model reads it: every text with a source fenced, `limit` characters of text in all.

    The cut lies inside the fence. A picture with a source stands behind a fence that says so.
    A last text says what was left out and, when the whole is kept as a blob, its `key`.
    The `notice` stands before the first fence.
    """
    parts, note = _fit(_merge_texts(result.content), limit, key)
    shown: list[Content] = []
    for part in parts:
        if not part.source:
            own = part._replace(source=None)
            if isinstance(own, Text) and not is_encodable(own.text):
                own = own._replace(text=replace_halves(own.text))
            shown.append(own)
            continue
        words = part.text if isinstance(part, Text) else f"[{part.mime}, {len(part.data):,} bytes: the picture below]"
        fenced = fence(words, part.source, token, notice=notice)
        shown.append(part._replace(text=fenced) if isinstance(part, Text) else Text(fenced, part.source))
        if isinstance(part, Image):
            shown.append(part)
        notice = ""
    content = (*shown, *note)
    if content == result.content:
        return result
    offers = (*result.offers, "result_get") if key and note else result.offers
    return result._replace(content=content, end="" if note else result.end, offers=offers)


def redact_result(result: Result, redact: Callable[[str], str]) -> Result:
    """Return a result without the secrets that `redact` knows, also in its details and in what people are shown."""
    details, plain = result.details, str(result.details)
    if redact(plain) != plain:
        details = redact_value(details, redact)
    shown = redact(str(result.display)) if result.display else ""
    head, end, for_model = (redact(words) if words else "" for words in (result.head, result.end, result.for_model))
    content = redact_parts(result.content, redact)
    return result._replace(content=content, details=details, display=shown, head=head, end=end, for_model=for_model)


def redact_parts(parts: Iterable[_P], redact: Callable[[str], str]) -> tuple[_P, ...]:
    """Return the parts of a message without secrets in their words."""
    return tuple(
        part._replace(text=redact(part.text), embed=_redact_embed(part.embed, redact))
        if isinstance(part, Text)
        else part
        for part in parts
    )


def _redact_embed(embed: Embed | None, redact: Callable[[str], str]) -> Embed | None:
    """Return what words stand for as it is, or not at all where it holds a secret."""
    plain = "" if embed is None else "\n".join((embed.mime, embed.uri, embed.data.decode("latin-1")))
    return embed if redact(plain) == plain else None


def redact_value(value: Any, redact: Callable[[str], str]) -> Any:
    """Return a JSON value without the secrets that `redact` knows."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {redact_value(key, redact): redact_value(each, redact) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [redact_value(each, redact) for each in value]
    return value


def for_watchers(result: Result, limit: int = RESULT_CHARS) -> Result:
    """Return a result as events show it: `limit` characters of text in all, no controls, pictures in words."""
    if len(result.content) == 1 and result.display == "" and _is_shown_as_it_is(result.content[0], limit):
        return result
    described = [
        part if isinstance(part, Text) else Text(f"[{part.mime}, {len(part.data):,} bytes]", part.source)
        for part in result.content
    ]
    parts, note = _fit(described, limit, cut_text=cut_fenced)  # the marks stand in it already
    shown = [Text(strip(part.text), part.source) for part in parts if isinstance(part, Text)]
    display = str(result.display)
    if (whole := len(display)) > limit:
        display = cut(display, limit - _NOTE_CHARS)
        display += f"\n{_cut_note(len(display), whole, _LEFT_OUT)}"
    return result._replace(content=(*shown, *note), display=strip(display))


def _is_shown_as_it_is(part: Content, limit: int) -> bool:
    return type(part) is Text and part.embed is None and len(part.text) <= limit and strip(part.text) is part.text


_CUT, _LEFT_OUT, _NOTE_CHARS = "[cut: ", "the rest was left out", 100


def is_cut_note(line: str) -> bool:
    """Tell whether a line of a result says that the rest of it is not there."""
    return line.startswith(_CUT)


def _cut_note(kept: int, whole: int, rest: str) -> str:
    return f"{_CUT}{kept:,} of {whole:,} characters are shown; {rest}]"


def is_long(result: Result, limit: int = RESULT_CHARS) -> bool:
    """Tell whether `present` would cut: then the whole is worth keeping as a blob."""
    return _length(_merge_texts(result.content)) > limit


def error_text(message: str, redact: Callable[[str], str] = str) -> str:
    """Return the first line of a failure as a model may read it: redacted, harmless, 400 characters at most."""
    # a secret may hold a control character, and may show only once those around it are gone
    whole = redact(strip(redact(trim(message[:_MAX_JSON_CHARS]))))
    line = next((line for line in whole.splitlines() if line.strip()), "it failed and did not say why")
    return shorten(defuse(line.replace("\t", " ").strip()), ERROR_CHARS)


def is_failure(result: Result) -> bool:
    """Tell whether a result is a failure, also where only its details say so: `status: error` or `status: timeout`."""
    if (details := result.details) is None or result.status == "error":
        return result.status == "error"
    status = details.get("status") if isinstance(details, Mapping) else None
    return isinstance(status, str) and status.strip().lower() in ("error", "timeout")


def reason(result: Result) -> str | None:
    """Return the sentence in which a result of any make says what went wrong: in its details, else in its text."""
    words = result_text(result)
    value = parse_object(words) if len(words) <= _MAX_JSON_CHARS else None
    return _complaint(result.details) or _complaint(value) or _sentence(words)


def result_text(result: Result) -> str:
    """Return the words of a result without its pictures, one text a line."""
    texts = (trim(part.text) for part in result.content if isinstance(part, Text))
    return "\n".join(text for text in texts if text)


def _fit(
    parts: Sequence[Content], limit: int, key: str = "", cut_text: Callable[[str, int], str] = cut
) -> tuple[Sequence[Content], tuple[Text, ...]]:
    """Return the parts until `limit` characters of text are spent, and a text about the rest; pictures do not count."""
    whole = _length(parts)
    if whole <= limit:
        return parts, ()
    kept: list[Content] = []
    left = limit
    for part in parts:
        if isinstance(part, Image):
            kept.append(part)
            continue
        fits = len(part.text) <= left
        piece = part.text if fits else cut_text(part.text, left)
        if piece or not part.text:
            kept.append(Text(piece, part.source))
        left = left - len(piece) if fits else 0
    rest = f"result_get with key {key!r} gives the rest" if key else _LEFT_OUT
    return kept, (Text(_cut_note(_length(kept), whole, rest)),)


def _merge_texts(content: Sequence[Content]) -> Sequence[Content]:
    """Join neighbours from one source: a thousand small texts need one fence, not a thousand."""
    if len(content) < 2:
        return content
    merged: list[Content] = []
    for (source, embed), group in groupby(content, lambda part: part[1:] if isinstance(part, Text) else (None, None)):
        if source is None or embed is not None:
            merged += group
        else:
            merged.append(Text("\n".join(part.text for part in group if isinstance(part, Text)), source))
    return merged


def _length(parts: Iterable[Content]) -> int:
    return sum(len(part.text) for part in parts if isinstance(part, Text))


def _complaint(value: Any) -> str | None:
    """Return what a JSON object says under `error`, `message`, `reason` or `status`."""
    if not isinstance(value, Mapping):
        return None
    for name in ("error", "message", "reason"):
        problem = value.get(name)
        if isinstance(problem, Mapping):
            problem = next((problem[key] for key in ("message", "error") if isinstance(problem.get(key), str)), None)
        if sentence := _sentence(problem):
            return sentence
    return _sentence(value.get("status"))


def _sentence(text: Any) -> str | None:
    line = trim(text[:_MAX_JSON_CHARS]).partition("\n")[0] if isinstance(text, str) else ""
    return shorten(trim(strip(line)), ERROR_CHARS) or None


def parse_object(text: str) -> Any:
    """Return the JSON object that a text is, None for anything else."""
    try:
        return orjson.loads(text) if text.lstrip().startswith("{") else None
    except orjson.JSONDecodeError:
        return None
