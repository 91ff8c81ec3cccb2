"""The text of the configuration without its secrets: a mark stands for each, and is replaced by it where it stood."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from toolcrib.config.parse import parse_document
from toolcrib.config.positions import KeyPath, format_path
from toolcrib.define.errors import ConfigError, ToolError
from toolcrib.lazy import regex

_MARK = regex(r"…\d+…")
_MIN_CHARS = 4  # what is shorter stands in ordinary words, too


class MaskedText(NamedTuple):
    """A text that may be shown, and what its marks stand for."""

    text: str
    secrets: Mapping[str, str]


def mask_text(text: str, suffix: str, secrets: Iterable[str]) -> MaskedText:
    """Return a text without these secrets; raise ToolError where one of them could still be read in it."""
    hidden, masked = {line for each in secrets for line in each.splitlines()} - {""}, text
    signs = dict.fromkeys(sorted(hidden, key=lambda each: (-len(each), each)), "")
    for secret in signs:
        if secret in masked and len(secret) >= _MIN_CHARS:
            signs[secret] = f"…{len([each for each in signs.values() if each]) + 1}…"
            masked = masked.replace(secret, signs[secret])
    wanted, after = _put_signs(parse_document(text, suffix, "raw")[0], signs), None
    with suppress(ConfigError):
        after = parse_document(masked, suffix, "raw")[0]
    if wanted != after:  # a secret was not found as it stands, or only a part of it
        what = "it holds a secret that is too short, or written in a way, to be left out"
        raise ToolError(f"the file is not shown: {what}; change it where it lies", code="unavailable")
    if _MARK.search(text):
        what = "it holds what stands for a secret here, an ellipsis, a number and another ellipsis"
        raise ToolError(f"the file is not shown: {what}", code="unavailable")
    return MaskedText(masked, {sign: secret for secret, sign in signs.items() if sign})


def unmask_text(draft: str, suffix: str, base: MaskedText) -> str:
    """Return a draft of the masked text with the secrets in it; a mark counts only where it was shown."""

    def restore(text: str) -> str:
        return _MARK.sub(lambda found: base.secrets.get(found[0], found[0]), text)

    whole = restore(draft)
    shown = dict(_list_texts(parse_document(base.text, suffix, "raw")[0]))
    after = dict(_list_texts(parse_document(whole, suffix, "raw")[0])) if whole != draft else {}
    for path, value in _list_texts(parse_document(draft, suffix, "raw")[0]):
        real = tuple(restore(part) if isinstance(part, str) else part for part in path)
        for mark in _MARK.findall(value):
            secret = base.secrets.get(mark)
            if secret is None or mark not in shown.get(path, "") or secret not in after.get(real, ""):
                what = f"{mark} at {format_path(path)} stands for a secret that was left out"
                raise ToolError(f"{what}, and counts only where it stood; write the value itself", code="bad_arguments")
    if moved := _count_beside(draft, suffix) - _count_beside(base.text, suffix):
        what = f"{next(iter(moved))} in a comment stands for a secret that was left out"
        raise ToolError(f"{what}, and counts only where it stood", code="bad_arguments")
    return whole


def _count_beside(text: str, suffix: str) -> Counter[str]:
    """Return how many marks stand in no value and no key: in comments."""
    inside = [mark for _, value in _list_texts(parse_document(text, suffix, "raw")[0]) for mark in _MARK.findall(value)]
    return Counter(_MARK.findall(text)) - Counter(inside)


def _put_signs(value: Any, signs: Mapping[str, str]) -> Any:
    """Return a document with other signs for the secrets in its texts and keys."""
    if isinstance(value, Mapping):
        return {_put_signs(key, signs): _put_signs(each, signs) for key, each in value.items()}
    if isinstance(value, list):
        return [_put_signs(each, signs) for each in value]
    for secret, sign in signs.items() if isinstance(value, str) else ():
        value = value.replace(secret, sign)
    return value


def _list_texts(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """Yield every text in a document, keys too, with the path it stands at."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield (*path, str(key), "key"), str(key)
            yield from _list_texts(each, (*path, str(key)))
    elif isinstance(value, list):
        for at, each in enumerate(value):
            yield from _list_texts(each, (*path, at))
