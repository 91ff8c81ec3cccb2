"""Requests that name an agent on the belt, which is then asked; and what an agent looks for that was asked itself.

A person says `ask the codebase investigator where X is defined`, `generalist: list the files` or `investigate X`. What
belongs to whom can be told only by somebody who knows the belt, so this is no part of the requests.
"""

from collections.abc import Iterable, Iterator, Mapping

from toolcrib.define.tool import Tool

from .patterns import Pattern
from .requests import understood
from .tasks import Delegate, Search, Talk, Task

__all__ = ["tasks_of"]

_POLITE = r"(?:please|kindly|hey|now|then|can you|could you|would you|i want you to|let's)"
_VERB = r"(?:ask|use|let|have|tell|run|start|call|get|consult|send)"
_LINK = r"(?:\s*[:,]\s*|\s+(?:agent|subagent|tool)\b|\s+(?:to|and|for|about|with|on|that)\b)*\s*"
_BY_VERB = Pattern(rf"(?is)(?:{_POLITE},?\s+)*{_VERB}\s+(?:the\s+)?(?P<rest>.+)")
_BEHIND = Pattern(r"(?is)(?P<words>.+?),?\s+(?:with|using|through|via)\s+(?:the\s+)?(?P<rest>[\w -]+?)[.!?]*")
_INVESTIGATE = Pattern(rf"(?is)(?:{_POLITE},?\s+)*investigate\s+(?P<words>.+)")
_DEFINED = Pattern(r"(?i)\b(?:defin|declar|implement|live[sd]?\b|locat|come[s]? from|introduc)")
_NAMES = Pattern(r"`(?P<quoted>[^`\s]+)`|\b(?P<plain>_*[A-Za-z]\w*(?:_\w+|[a-z0-9][A-Z]\w*)|[A-Z][a-z0-9]+[A-Z]\w*)\b")
_KIND = Pattern(r"(?i)\b(?:class|function|method|constant|variable|symbol|type|def)\s+`?(?P<name>\w+)`?")
_ASKED = Pattern(r"(?im)^(?:task|objective|query|question|request): (?P<words>.+)$")
_WORDS = frozenset({"is", "are", "was", "and", "or", "called", "named", "of", "in", "that"})


def tasks_of(said: Iterable[str], tools: Mapping[str, Tool], *, is_child: bool) -> list[Task]:
    """Return what all messages of a request ask for; one that nobody can follow is not told twice."""
    agents = {} if is_child else {name: tool for name, tool in tools.items() if tool.source == "agent"}
    tasks: list[Task] = []
    for text in said:
        asked = _delegated(text, agents)
        tasks += [asked] if asked else _looked_for(text) if is_child else understood(text)
    return list(dict.fromkeys(tasks)) or [Talk(topic="unknown")]


def _delegated(text: str, agents: Mapping[str, Tool]) -> Delegate | None:
    """Return whom a text names, and what is left of it for them."""
    text = text.strip()
    for name, tool in agents.items():
        if words := _left(text, name):
            schema = tool.parameters
            required, properties = schema.get("required", ()), schema.get("properties", {})
            texts = [each for each in (*required, *properties) if properties[each].get("type") == "string"]
            if texts and len(required) <= 1:
                return Delegate(agent=name, takes=texts[0], words=words)
    return None


def _left(text: str, name: str) -> str:
    """Return what a text asks the agent of this name for, "" when it does not."""
    called = Pattern(rf"(?is){'[ _-]'.join(name.replace('-', '_').split('_'))}\b{_LINK}(?P<words>.*)")
    if found := called.fullmatch(text):
        return str(found["words"]).strip()
    if (verb := _BY_VERB.fullmatch(text)) and (found := called.fullmatch(verb["rest"])):
        return str(found["words"]).strip()
    if (behind := _BEHIND.fullmatch(text)) and (found := called.fullmatch(behind["rest"])) and not found["words"]:
        return str(behind["words"]).strip()
    if name.endswith("investigator") and (asked := _INVESTIGATE.fullmatch(text)):
        return str(asked["words"]).strip()
    return ""


def _looked_for(text: str) -> Iterable[Task]:
    """Return what an agent does about its objective: what is understood, else what its names are defined by."""
    if asked := _ASKED.search(text):  # an agent of several inputs is told each under its name
        text = asked["words"]
    tasks = understood(text)
    is_defined = any(isinstance(task, Search) and task.way in ("defined", "definitions") for task in tasks)
    is_lost = all(isinstance(task, Talk) for task in tasks)
    if is_defined or not (is_lost or _DEFINED.search(text)):
        return tasks
    return [Search(text=name, way="defined") for name in dict.fromkeys(_names(text))][:3] or tasks


def _names(text: str) -> Iterator[str]:
    """Yield what looks like names of code: in backticks, behind a word like `class`, or written as only code is."""
    for found in (*_NAMES.finditer(text), *_KIND.finditer(text)):
        name = next(each for each in found.groups() if each).rpartition(".")[2].rstrip("()")
        if name.isidentifier() and name.lower() not in _WORDS:
            yield name
