"""Grounds: what verdicts are made from, so that they can be made again."""

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

__all__ = ["Grounds"]


class Grounds:
    """The settings, the tools and the host, told as JSON when somebody asks.

    Whoever has them can derive every decision again. `digest` is their name: the same grounds have the same one.
    """

    def __init__(self, tell: Callable[[], Mapping[str, Any]]) -> None:
        self._tell = tell

    @cached_property
    def text(self) -> str:
        """The grounds as JSON, spelled in the one way that the digest is of."""
        return json.dumps(self._tell(), separators=(",", ":"))

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()
