"""The arguments of one call as Gemini streams them: values by their paths, texts in several pieces."""

import re
from collections.abc import Mapping
from typing import Any

from .wire import fields, items, words

__all__ = ["Pieces"]

_LONGEST = 1024 * 1024  # characters of paths and values
_DEEPEST = 64
_EACH = 16  # characters that a piece costs however short it is
_STEP = re.compile(r"""\.([^.\[\]'"\s]+)|\[([0-9]{1,6})\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]""")
_ESCAPED = re.compile(r"\\(.)")
_VALUES: Mapping[str, tuple[type, ...]] = {"stringValue": (str,), "numberValue": (int, float), "boolValue": (bool,)}

_Path = tuple[str | int, ...]


class Pieces:
    """Puts arguments together. `flaw` says why that cannot be done; then the call must not run."""

    def __init__(self) -> None:
        self.flaw = ""
        self._args: dict[str, Any] = {}
        self._size = 0
        self._open: _Path | None = None  # where a text goes on
        self._text: list[str] = []

    def add(self, called: Mapping[str, Any]) -> None:
        """Take what the next chunk says of the call."""
        for name, value in fields(called.get("args")).items():
            self._put((name,), value)
        for piece in map(fields, items(called.get("partialArgs"))):
            if not self.flaw:
                self._take(piece)

    def whole(self) -> dict[str, Any]:
        """Return the arguments; a text that was not finished is a flaw."""
        if self._open is not None:
            self._spoil(f"the text at {_written(self._open)} was not finished")
        return self._args

    def _take(self, piece: Mapping[str, Any]) -> None:
        written = words(piece.get("jsonPath"))
        path, value = _path(written), _value(piece)
        self._size += _EACH + len(written) + len(words(value))
        if path is None:
            return self._spoil(f"the place {written[:80]!r} is none in an object")
        if self._size > _LONGEST:
            return self._spoil(f"they are longer than {_LONGEST:,} characters")
        goes_on = piece.get("willContinue") is True
        if value is _NOTHING:
            if not goes_on and path == self._open:
                self._finish()
            return None
        if self._open is not None and path != self._open:
            return self._spoil(f"the text at {_written(self._open)} was not finished")
        if not isinstance(value, str):
            self._open = None
            return self._put(path, value)
        self._open = path
        self._text.append(value)
        return None if goes_on else self._finish()

    def _finish(self) -> None:
        path, text = self._open, "".join(self._text)
        self._open, self._text = None, []
        if path is not None:
            self._put(path, text)

    def _put(self, path: _Path, value: Any) -> None:
        """Set the value at a place, the objects and lists on the way made where they are not there."""
        place: Any = self._args
        for step, following in zip(path, (*path[1:], None), strict=True):
            inner = value if following is None else [] if isinstance(following, int) else {}
            if isinstance(place, dict) and isinstance(step, str):
                if following is None or step not in place:
                    place[step] = inner
                place = place[step]
            elif isinstance(place, list) and isinstance(step, int) and step <= len(place):
                if step == len(place):
                    place.append(inner)
                elif following is None:
                    place[step] = inner
                place = place[step]
            else:
                return self._spoil(f"the place {_written(path)} does not go with the others")
        return None

    def _spoil(self, why: str) -> None:
        self.flaw = self.flaw or f"the arguments came in pieces that do not fit together: {why}; make the call again"


_NOTHING: Any = object()


def _value(piece: Mapping[str, Any]) -> Any:
    """Return the value that a piece holds, if it holds one."""
    for field, kinds in _VALUES.items():
        if type(piece.get(field)) in kinds:
            return piece[field]
    return None if "nullValue" in piece else _NOTHING


def _path(written: str) -> _Path | None:
    """Return the steps of a path such as `$.points[0].x`, None for anything else."""
    if not written.startswith("$.") and not written.startswith("$["):
        return None
    steps: list[str | int] = []
    at = 1
    while at < len(written):
        step = _STEP.match(written, at)
        if step is None or len(steps) == _DEEPEST:
            return None
        name, index, *quoted = step.groups()
        steps.append(
            name if name is not None else int(index) if index else _ESCAPED.sub(r"\1", "".join(filter(None, quoted)))
        )
        at = step.end()
    return tuple(steps)


def _written(path: _Path) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)[:80].lstrip(".")
