"""How a path within a workspace may be spelled: one reading for every workspace. Nothing is looked up here."""

import re

from .errors import ToolError

__all__ = ["joined", "outside", "parts_of", "plain"]

_LONGEST_NAME, _LONGEST_PATH = 255, 4_096  # bytes, as every file system we know has them
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_HOME = re.compile(r"~[A-Za-z0-9_.-]*\Z")


def parts_of(path: str, *roots: str) -> tuple[str, ...]:
    """Return the names along a path, `..` kept as spelled; an absolute path must begin with one of the roots."""
    _check(path)
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    if path.startswith("/"):
        return _beneath(path, parts, roots)
    if parts and _HOME.fullmatch(parts[0]) and (len(parts) > 1 or parts[0] == "~"):
        raise ToolError(
            f"{_shown(path)} is in a home folder, not in the workspace; give a path inside it", code="denied"
        )
    return parts


def plain(parts: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the parts without `..`, taken by spelling alone; None when they lead out."""
    kept: list[str] = []
    for part in parts:
        if part != "..":
            kept.append(part)
        elif kept:
            kept.pop()
        else:
            return None
    return tuple(kept)


def joined(parts: tuple[str, ...]) -> str:
    """Return the path of these parts; the root is `.`."""
    return "/".join(parts) or "."


def outside(path: str) -> ToolError:
    """Return the refusal of a path that leads out."""
    return ToolError(f"{_shown(path)} leads out of the workspace; give a path inside it", code="denied")


def _check(path: str) -> None:
    if not path:
        raise ToolError("the path is empty; the workspace itself is '.'", code="bad_path")
    if "\0" in path:
        raise ToolError(f"{_shown(path)} holds a NUL character; no file has such a name", code="bad_path")
    if _ADDRESS.match(path):
        raise ToolError(f"{_shown(path)} is an address; give the plain path of a file in the workspace", code="denied")
    try:
        raw = path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise ToolError(f"{_shown(path)} holds half a character; no file has such a name", code="bad_path") from None
    if len(raw) >= _LONGEST_PATH or max(map(len, raw.split(b"/"))) > _LONGEST_NAME:
        raise ToolError(
            f"{_shown(path)} is too long: a name has at most {_LONGEST_NAME} bytes, a path {_LONGEST_PATH}",
            code="bad_path",
        )


def _beneath(path: str, parts: tuple[str, ...], roots: tuple[str, ...]) -> tuple[str, ...]:
    for root in roots:
        prefix = tuple(part for part in root.split("/") if part)
        if parts[: len(prefix)] == prefix:
            return parts[len(prefix) :]
    raise ToolError(f"{_shown(path)} is outside of the workspace; give a path relative to it", code="denied")


def _shown(path: str) -> str:
    return repr(path if len(path) <= 200 else f"{path[:200]}…")
