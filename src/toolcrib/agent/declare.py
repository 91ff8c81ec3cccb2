"""Which tools a model sees: what it needs at once, and the rest once there is something for it.

    read, edit, exec, ... find_tools    -> a result offers process ->    read, edit, exec, ... find_tools, process

A declaration costs a model attention and its owner money in every request. What comes later is appended and stays for
the session, so that what was read before need not be read again. Nothing here permits anything: a tool that a model was
not shown is on its belt, or it is not.
"""

import re
from collections.abc import Iterable
from dataclasses import replace

import orjson

from toolcrib.define.model import ModelCard
from toolcrib.define.tool import Tool
from toolcrib.define.verdict import FIND_TOOLS, Selection

_FOUND, _ASKED = f"{FIND_TOOLS} has found it", "a message asks for it"
_AT_ONCE = frozenset({FIND_TOOLS, "skill"})
_ASIDE = frozenset({"web", "ui", "memory", "messaging", "media"})
_ON_DEMAND = frozenset({"sessions", "automation", "nodes", None})
_ROOMY = 64_000  # tokens of a window that has room for all of our own tools
_OTHERS_CHARS = 4_000  # of tools that others bring, where nobody knows the window
_CONFIGURED = frozenset({"global", "global-provider", "agent", "agent-provider", "group", "direct"})
_MAX_LISTED, _MAX_FOUND = 24, 8  # names
_TELLING_CHARS = 8  # of a word that stands for more than a turn of phrase


class Declarations:
    """The tools of a belt as one model sees them; `later` says of those it does not see at once when it will.

    Where a window is small or not known, what everyday work does without waits: subagents, sessions and what is the
    owner's alone until a message asks for it, the rest behind find_tools. So does what others bring, where it takes
    more than a tenth of the window. What an allow list names is shown at once.
    """

    def __init__(self, belt: Selection, card: ModelCard) -> None:
        self._shown = {name: tool for name, tool in belt.tools.items() if tool.has_body}
        self.later = {name: tool.late for name, tool in self._shown.items() if tool.late}
        if FIND_TOOLS in self._shown:
            aside = _list_aside(self._shown.values(), card)
            self.later = {name: when for name, when in aside if not _is_named(belt, name)} | self.later
            self._describe_search([name for name, when in self.later.items() if when is _FOUND])
        self._first = tuple(tool for name, tool in self._shown.items() if name not in self.later)

    def choose(self, offered: Iterable[str] = ()) -> tuple[Tool, ...]:
        """Return the tools of a request: those shown at once, then those that results offered, in their order."""
        found = [self._shown[name] for name in offered if name in self.later]
        return (*self._first, *found) if found else self._first

    def search(self, query: str) -> list[Tool]:
        """Return the tools that can be found and have words of the query, the best first; some when none has."""
        wanted = _list_words(query)
        kept = [self._shown[name] for name, when in self.later.items() if when in (_FOUND, _ASKED)]
        best = sorted(((_score(tool, wanted), tool) for tool in kept), key=lambda each: -each[0])
        return [tool for score, tool in best if score][:_MAX_FOUND] or [tool for _, tool in best][:_MAX_FOUND]

    def list_asked(self, message: str) -> tuple[str, ...]:
        """Return the tools that a user's words ask for: by name, or by a word that tells what they do."""
        sentence, words = f" {' '.join(message.lower().split())} ", _list_telling_words(message)
        return tuple(
            name
            for name, when in self.later.items()
            if when is _ASKED
            and (
                name in sentence
                or name.replace("_", " ") in sentence
                or words & _list_telling_words(self._describe(name))
            )
        )

    def _describe(self, name: str) -> str:
        return f"{name} {self._shown[name].description}"

    def _describe_search(self, names: list[str]) -> None:
        """Name what can be found, so that a model knows what to look for; with nothing to find there is no search."""
        if not names:
            self.later[FIND_TOOLS] = "some tools are not shown at once"
            return
        more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
        find = self._shown[FIND_TOOLS]
        words = f"{find.description} There are {', '.join(names[:_MAX_LISTED])}{more}."
        self._shown[FIND_TOOLS] = replace(find, description=words)


def _list_aside(tools: Iterable[Tool], card: ModelCard) -> Iterable[tuple[str, str]]:
    """Return the tools that can wait, and until when."""
    is_known, others = card.is_window_known, list[Tool]()
    is_roomy = is_known and card.window >= _ROOMY
    for tool in tools:
        if tool.source not in ("core", "agent"):
            others.append(tool)
        elif not is_roomy and tool.name not in _AT_ONCE:
            if tool.source == "agent" or tool.group in _ON_DEMAND or tool.owner_only:
                yield tool.name, _ASKED
            elif tool.group in _ASIDE:
                yield tool.name, _FOUND
    sizes = (len(each.name) + len(each.description) + len(orjson.dumps(each.parameters)) for each in others)
    if sum(sizes) > (card.window * 4 // 10 if is_known else _OTHERS_CHARS):
        yield from ((tool.name, _FOUND) for tool in others)


def _is_named(belt: Selection, name: str) -> bool:
    steps = (step for step in belt.steps(name) if step.layer in _CONFIGURED and step.decision != "deny")
    return any(step.rule and step.rule.strip() != "*" for step in steps)


def _score(tool: Tool, wanted: set[str]) -> int:
    named, described = _list_words(tool.name), _list_words(tool.description)
    return sum(3 * any(each.startswith(word) for each in named) + (word in described) for word in wanted)


def _list_words(text: str) -> set[str]:
    return {word.removesuffix("s") for word in re.findall(r"[^\W_]{2,}", text.lower())}


def _list_telling_words(text: str) -> set[str]:
    return {word for word in _list_words(text) if len(word) >= _TELLING_CHARS}
