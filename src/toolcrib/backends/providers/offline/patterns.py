"""Patterns that are compiled when they are first used: a program that never asks the offline model pays for none."""

import re
from collections.abc import Iterator
from functools import cached_property

__all__ = ["Pattern"]


class Pattern:
    """A regular expression, not looked at before it is needed."""

    def __init__(self, text: str, flags: re.RegexFlag = re.NOFLAG) -> None:
        self._text, self._flags = text, flags

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self._text, self._flags)

    def match(self, text: str) -> re.Match[str] | None:
        return self._compiled.match(text)

    def fullmatch(self, text: str) -> re.Match[str] | None:
        return self._compiled.fullmatch(text)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        return self._compiled.finditer(text)

    def search(self, text: str) -> re.Match[str] | None:
        return self._compiled.search(text)
