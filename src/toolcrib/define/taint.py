"""Where content from outside came from: a kind, mostly with what it was exactly, as in `web:https://shop.test/nuts`.

The words of a reader of outside content may go back to any of it: `agent:clerk after web:https://… and mcp:shop`.
"""

import fnmatch
import re
from collections.abc import Iterable, Mapping

from toolcrib.lazy import regex

from .message import Message, Thinking
from .names import fold_name

SOURCE_KINDS: Mapping[str, str] = {
    "web": "a page that was fetched or seen in the browser, by its address",
    "web_search": "results of a search, by the provider",
    "browser": "the browser, where no page is open",
    "message": "a message of another person than the owner, or in a group, by the channel",
    "mcp": "an MCP server, by its name",
    "plugin": "a tool of a plugin that declares the effect network, or no effects at all, by the plugin",
    "client": "a connected program that runs tools itself, by who it is",
    "hook": "a webhook, by its name",
    "node": "a paired device, by the beginning of its id",
    "nodes": "the list of paired devices",
    "canvas": "what a person did or wrote in a canvas",
    "image": "what stands in a picture, by its path or the model that looked",
    "memory": "notes that are not accepted, by their path",
    "voice": "a provider of speech",
    "jobs": "what jobs of others say",
    "cron": "a job, by its id",
    "heartbeat": "what an agent found when it looked by itself",
    "agent": "an agent or its session, after what it read",
    "subagent": "a subagent in the background, after what it read",
    "subagents": "several of them",
    "file": "a file that came with a message or from a page, or that was written after something from outside was read",
    "exec": "a command that had a network, or that ran on the host and may have read anything",
    "file names": "names of files that could pass for marks",
}
_OTHERS = "others"  # than are named: any pattern may mean one of them
MAX_SOURCES = 8  # that are named, of one that goes back to many, or of a call
_JOINTS = regex(" (?:after|and) ")


def sources_of(messages: Iterable[Message]) -> dict[str, None]:
    """Return where what these messages hold came from, as far as it is outside, each once and in order."""
    parts = (part for message in messages for part in message.content)
    return {part.source: None for part in parts if not isinstance(part, Thinking) and part.source}


def join_sources(sources: Iterable[str]) -> str:
    """Return several sources as one, "" for none; of very many some are named, and that there are others."""
    parts = dict.fromkeys(part for source in sources for part in _JOINTS.split(source) if part)
    named = [part for part in parts if part != _OTHERS]
    has_others = len(named) > MAX_SOURCES or len(named) < len(parts)
    return " and ".join([*named[:MAX_SOURCES], *([_OTHERS] if has_others else [])])


def split_sources(sources: Iterable[str]) -> set[str]:
    """Return each source that these name or go back to."""
    return {part for source in sources for part in _JOINTS.split(source) if part}


def source_after(who: str, sources: Iterable[str]) -> str | None:
    """Return the source of words written after reading these, None after reading none."""
    return f"{who} after {joined}" if (joined := join_sources(sources)) else None


def matches_source(pattern: str, source: str) -> bool:
    """Tell whether a pattern means a source or one that it goes back to: `web:*.test/*`, or a kind alone, `mcp`.

    `*` stands for any run of characters, and nothing else is special. An unknown source matches.
    """
    glob, whole = re.sub(r"([?\[])", r"[\1]", fold_name(pattern)), fold_name(source)
    ways = (way for part in (whole, *_JOINTS.split(whole)) for way in (part, part.partition(":")[0]))
    return any(way == _OTHERS or fnmatch.fnmatchcase(way, glob) for way in ways)


def is_known_kind(pattern: str) -> bool:
    """Tell whether there is a kind of source that a pattern can mean."""
    kind = fold_name(pattern).partition(":")[0]
    return any(fnmatch.fnmatchcase(each, kind) for each in SOURCE_KINDS)
