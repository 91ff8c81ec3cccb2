"""Names of tools: one canonical spelling, judged the same on both sides of every rule.

A name is folded (NFKC, case, surrounding blanks), aliases are replaced, and whatever then falls outside
`[a-z0-9_-]{1,64}` is no name: look-alikes and invisible characters are refused rather than guessed at.

Tools that MCP servers bring are called `server__tool`, so that no two tools ever share a name.
The part before the first `__` is the server's, which never holds `__`; the rest is the tool's. A tool whose own name is
plain (a-z, 0-9, - and single _) keeps it: the name can be read back. Any other (capitals, dots, too long) is written
`server__readable__digest`: what it was called in full is in the digest, and three parts are never two. A server's own
prefix is not doubled: `git_log` of `git` is `git__log`, unless that server has a `log` as well.

Rules are about what a tool is called by its server: an entry `github__deleteRepo` means `github__deleterepo__1a2b3c`,
and `git__git_log` means `git__log`.
"""

import hashlib
import unicodedata
from collections.abc import Container, Iterable
from difflib import get_close_matches

from toolcrib.lazy import regex

ALIASES = {"bash": "exec", "apply-patch": "apply_patch"}

_NAME = regex(r"[a-z0-9_-]{1,64}")


def fold_name(text: str) -> str:
    """Return `text` without the differences that must not matter: compatibility forms, case, outer blanks."""
    if text.isascii():
        return text.strip().lower()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).strip()


def is_name(text: str) -> bool:
    """Tell whether `text`, already folded, can name a tool."""
    return _NAME.fullmatch(text) is not None


def canonical(text: str) -> str | None:
    """Return the canonical name meant by `text`, or None when it cannot name any tool."""
    folded = fold_name(text)
    name = ALIASES.get(folded, folded)
    return name if is_name(name) else None


def nearest(word: str, known: Iterable[str], count: int = 1) -> list[str]:
    """Return the known words a person most likely meant by `word`, the likeliest first."""
    return get_close_matches(fold_name(word), list(known), n=count, cutoff=0.6)


def suggest(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return the end of a sentence about an unknown word: the nearest known one; when none is near, `otherwise`."""
    close = nearest(word[:_MAX_NAME_CHARS], known)
    hint = f"did you mean {close[0]!r}?" if close else otherwise
    return f"; {hint}" if hint else ""


RESOURCES_LIST, RESOURCES_READ = "resources__list", "resources__read"  # ours; no tool of a server can be called so

_MAX_NAME_CHARS = 64
_MAX_SERVER_CHARS = 24
_DIGITS = 6
_PLAIN_SERVER = regex(r"[a-z0-9-]+(?:_[a-z0-9-]+)*")
_PLAIN_TOOL = regex(r"_?[a-z0-9-]+(?:_[a-z0-9-]+)*_?")
_ODD = regex(r"[^a-z0-9-]+")
_UNDERSCORES = regex(r"__+")
_DIGESTED = regex(r"(.+?__.+)__[0-9a-f]{6}")


def server_part(server: str) -> str:
    """Return what the names of a server's tools begin with, without the `__`; the server's own name if that will do.

    Two servers that an operator calls nearly the same may meet here (`A b`, `a_b`): the reader of the settings refuses
    the second.
    """
    if _PLAIN_SERVER.fullmatch(server) and len(server) <= _MAX_SERVER_CHARS:
        return server
    readable = _to_readable(server, _MAX_SERVER_CHARS)
    if readable and len(fold_name(server)) <= _MAX_SERVER_CHARS:
        return readable
    return f"{_to_readable(server, _MAX_SERVER_CHARS - _DIGITS - 1) or 'mcp'}-{_digest(server)}"


def tool_name(server: str, tool: str, beside: Container[str] = ()) -> str:
    """Return the name of a server's tool: always one of ours, and of this tool alone `beside` the server's others."""
    part = server_part(server)
    short = _drop_prefix(part, tool)
    if short in beside:
        short = tool
    plain = f"{part}__{short}"
    if _PLAIN_TOOL.fullmatch(short) and is_name(plain):
        return plain
    readable = _to_readable(short, _MAX_NAME_CHARS - len(part) - _DIGITS - 4) or "tool"
    return f"{part}__{readable}__{_digest(tool)}"


def beginning_of(source: str) -> str:
    """Return what the names of all tools from an MCP server begin with, "" for every other source."""
    kind, _, server = source.partition(":")
    return f"{server_part(server)}__" if kind == "mcp" else ""


def mcp_name(name: str, source: str) -> str | None:
    """Return how a rule may also call the tool of this name: as its server does, folded. None for all other tools."""
    if not source.startswith("mcp:"):
        return None
    found = _DIGESTED.fullmatch(name)  # `srv__facade` has two parts, and no digest
    return found[1] if found else name


def mcp_spellings(name: str, source: str, own: str) -> set[str]:
    """Return how else a rule may call the tool of an MCP server that calls it `own`: with its prefix, and without."""
    begin = beginning_of(source)
    found = {mcp_name(name, source) or name}
    if own:
        found |= {mcp_entry(begin + fold_name(each)) for each in (own, _drop_prefix(begin[:-2], own))}
    return found - {name}


def mcp_entry(entry: str) -> str:
    """Return an entry of a rule, folded, with the tool's part written as `mcp_name` has it; a star stays a star."""
    server, _, tool = entry.partition("__")
    if not tool:
        return entry
    max_chars = _MAX_NAME_CHARS - len(server) - _DIGITS - 4
    return f"{server}__{_UNDERSCORES.sub('_', tool) if '*' in tool or '*' in server else _to_readable(tool, max_chars)}"


def _drop_prefix(part: str, tool: str) -> str:
    """Return what a server calls a tool without the server's own name before it; the whole where nothing would stay."""
    short = tool.removeprefix(f"{part}_")
    return tool if short.startswith("_") else short or tool


def _to_readable(text: str, max_chars: int) -> str:
    return _ODD.sub("_", fold_name(text))[:max_chars].strip("_")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
