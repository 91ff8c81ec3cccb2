"""The offline model: six verbs that drive the real tools where no language model is connected.

A request names what is to be done in its first word:

    list [FOLDER]                 read FILE              run COMMAND
    find GLOB [in FOLDER]         search TEXT [in PATH]  write TEXT to FILE
    ask AGENT: REQUEST            NAME {ARGUMENTS} or {"name": NAME, "arguments": {...}}

Every request becomes one call, and what came of it is shown as it is. Nothing else is understood. As a subagent it does
the same and hands what came of it in with `complete_task`.
"""

import re
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from toolcrib.adapter.cut import shorten
from toolcrib.define.agent import COMPLETE
from toolcrib.define.errors import ArgumentError
from toolcrib.define.event import CallDelta, Replied, ReplyEvent, TextDelta, Usage
from toolcrib.define.message import Call, Finish, Message
from toolcrib.define.model import History, ModelCard, Price, Request, estimate
from toolcrib.define.result import Text
from toolcrib.define.tool import Tool
from toolcrib.lazy import dataclass, regex

CARD = ModelCard(provider="offline", model="rules", window=1_000_000, price=Price(input=0, output=0))

CONNECT = (
    "To connect a model, set `OPENAI_API_KEY`, `ANTHROPIC_API_KEY` or `GEMINI_API_KEY`,\n"
    "or use `--model ollama:qwen3`, or `--model local` for a small one of this machine."
)
FOOTER = "(Offline rules, not a language model; OPENAI_API_KEY or --model connects one.)"
_HELP = (
    "I am not a language model; I know six verbs, and I call the tool that each stands for:\n\n"
    "- `list src`\n- `read README.md`\n- `find *.py in src`\n- `search TODO in *.py`\n- `run git status`\n"
    "- `write hello to a.txt`\n\n"
    'Any other tool is called by its name and its arguments: `edit {"path": "a.txt", ...}`.'
)
_DELTA_CHARS = 24
_ANSWER_LINES = 40
_LINE_CHARS = 160
_QUOTE_CHARS = 60
_MAX_LOCATIONS = 20
_PRINTS = frozenset({"ls", "read", "find", "grep", "exec"})  # what they answer is shown as it is, letter by letter
_ROW = regex(r"(?P<path>[^\n:]+):(?P<line>\d+): (?P<text>[^\n]*)")


@dataclass(frozen=True, slots=True)
class _Step:
    """A call that is wanted."""

    name: str
    args: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Outcome:
    """A call, and what came of it."""

    call: Call
    text: str
    is_ok: bool


class OfflineModel:
    """A model that needs no key and no network, because it is none: six verbs."""

    def __init__(self, new_id: Callable[[], str] = lambda: f"call_{secrets.token_hex(6)}") -> None:
        self.card = CARD
        self._new_id = new_id

    async def reply(self, request: Request, /) -> AsyncIterator[ReplyEvent]:
        """Show what came of the calls made last, and call what was asked for since."""
        text, steps = _respond(request)
        for piece in _split(text):
            yield TextDelta(piece)
        calls = tuple(Call(id=self._new_id(), name=step.name, args=dict(step.args)) for step in steps)
        for index, call in enumerate(calls):
            for piece in _split(orjson.dumps(call.args).decode()):
                yield CallDelta(index, call.name, piece)
        content = (Text(text),) if text else ()
        finish: Finish = "calls" if calls else "stop"
        message = Message(role="assistant", content=content, calls=calls, finish=finish, by=CARD.name)
        yield Replied(message, Usage(input=request.history.tokens, output=estimate(message)))

    async def close(self) -> None:
        """Do nothing: nothing is held."""


def _respond(request: Request) -> tuple[str, list[_Step]]:
    tools = {} if request.choice == "none" else {tool.name: tool for tool in request.tools}
    if COMPLETE in tools:
        return _respond_as_subagent(request.history, tools)
    tail = _since_reply(request.history)
    parts = [_show(each, tools) for each in _outcomes(request.history, tail)]
    steps: list[_Step] = []
    for text in _requests(tail):
        parsed = _parse(text, tools) if tools else ""
        if isinstance(parsed, _Step):
            steps.append(parsed)
        else:
            parts.append(parsed or "No tool may be used now.")
    if not steps and not any(each.role == "assistant" and not each.calls for each in request.history):
        parts.append(CONNECT if _HELP in "".join(parts) else FOOTER)
    return "\n\n".join(parts) or ("" if steps else "There is nothing to do."), steps


def _respond_as_subagent(history: History, tools: Mapping[str, Tool]) -> tuple[str, list[_Step]]:
    """Return the text and the calls of a subagent: it hands in its outcome once."""
    outcomes = list(_outcomes(history, list(history)))
    tail = _since_reply(history)
    if outcomes and outcomes[-1].call.name == COMPLETE and tail and tail[-1].role == "tool":
        return ("Done." if outcomes[-1].is_ok else outcomes[-1].text), []
    parsed = [_parse(_task(text), tools) for text in _requests(tail)]
    wanted = [each for each in parsed if isinstance(each, _Step)]
    if steps := [each for each in wanted if each.name in tools]:
        return "", steps
    found = [each for each in outcomes if each.call.name != COMPLETE]
    words = [each for each in parsed if isinstance(each, str)]
    parts = [f"{_lead(each)}\n\n{_show(each, tools)}" for each in found] or words
    parts += [f"`{each.name}` is not among my tools." for each in wanted]
    text = "\n\n".join(parts) or "There is nothing to do."
    step = _complete(tools[COMPLETE], text, found)
    return ("", [step]) if step else (text, [])


# ---- what was asked


def _since_reply(history: History) -> list[Message]:
    """Return the messages behind the last reply: the results of its calls, and what came since."""
    index = len(history)
    while index and history[index - 1].role != "assistant":
        index -= 1
    return history.since(index)


def _requests(messages: Iterable[Message]) -> Iterator[str]:
    for message in messages:
        texts = [part.text for part in message.content if isinstance(part, Text)]  # who wrote it may stand before it
        if message.role == "user" and texts and (text := texts[-1].strip()):
            yield text


def _task(text: str) -> str:
    """Return what a subagent is to do: with several inputs, the first by name."""
    found = re.search(r"(?im)^(?:task|objective|query|question|request): (?P<words>.+)$", text)
    return str(found["words"]) if found else text


def _parse(text: str, tools: Mapping[str, Tool]) -> _Step | str:
    """Return the call that a request asks for, or why none was understood."""
    if step := _parse_json(text) or _parse_verb(text) or _parse_agent(text, tools):
        return step
    words = " ".join(text[: 4 * _QUOTE_CHARS].split())
    return f"I did not understand “{shorten(words, _QUOTE_CHARS)}”.\n\n{_HELP}"


def _parse_json(text: str) -> _Step | None:
    """Return a call that is written out: `NAME {...}`, or an object that names the tool."""
    found = re.fullmatch(r"(?s)(?P<name>[\w.-]*)\s*(?P<value>\{.*\})", text)
    try:
        value = orjson.loads(found["value"]) if found else None
    except orjson.JSONDecodeError:
        return None
    if not found or not isinstance(value, dict):
        return None
    if found["name"]:
        return _Step(found["name"], value)
    args: Any = next((value[key] for key in ("arguments", "args", "input") if key in value), {})
    name = value.get("name") or value.get("tool")
    return _Step(name, args) if isinstance(name, str) and isinstance(args, dict) else None


def _parse_verb(text: str) -> _Step | None:
    verb, _, rest = text.partition(" ")
    rest = rest.strip()
    match verb.lower():
        case "list":
            words = " ".join(rest.split())
            found = re.fullmatch(r"(?:(?:the )?files\b)? ?(?:(?:in|of)\b)? ?(?P<path>\S*)", words)
            return _Step("ls", {"path": _unquote(found["path"]) or "."}) if found else None
        case "read" if rest:
            return _Step("read", {"path": _unquote(rest)})
        case "find" if rest:
            pattern, path = _split_last(rest, " in ")
            return _Step("find", {"pattern": _unquote(pattern), **({"path": _unquote(path)} if path else {})})
        case "search" if rest:
            words, where = _split_last(rest.removeprefix("for "), " in ")
            pattern, where = _unquote(words), _unquote(where)
            literal = {"literal": True} if re.search(r"[\\^$.|?*+()\[\]{}]", pattern) else {}
            place = {"glob" if "*" in where else "path": where} if where else {}
            return _Step("grep", {"pattern": pattern, **literal, **place})
        case "run" if rest:
            return _Step("exec", {"command": _unquote(rest)})
        case "write":
            words, path = _split_last(rest, " to ")
            return _Step("write", {"path": _unquote(path), "content": f"{_unquote(words)}\n"}) if path else None
    return None


def _split_last(text: str, link: str) -> tuple[str, str]:
    """Return what stands before and behind the last link; all of it before, where it is none or ends in quotes."""
    before, found, behind = text.rpartition(link)
    is_one = not found or not before.strip() or not behind.strip() or _unquote(text) != text.strip()
    return (text.strip(), "") if is_one else (before.strip(), behind.strip())


def _unquote(text: str) -> str:
    """Return a text without the quotation marks around all of it."""
    text = text.strip()
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'`" and text[0] not in text[1:-1]
    return text[1:-1] if is_quoted else text


def _parse_agent(text: str, tools: Mapping[str, Tool]) -> _Step | None:
    """Return the call of an agent that a request names: `ask the codebase investigator to ...`."""
    if text[:4].lower() != "ask ":
        return None
    rest = re.sub(r"(?i)^the\s+", "", text[4:].strip())
    for name, tool in tools.items():
        spelled = "[ _-]".join(map(re.escape, re.split("[_-]", name)))
        found = re.match(rf"(?i){spelled}\b\s*(?:to\b|[:,])?\s*", rest)
        words = rest[found.end() :].strip() if found else ""
        if tool.source == "agent" and words and (takes := _text_input(tool)):
            return _Step(name, {takes: words})
    return None


def _text_input(tool: Tool) -> str:
    """Return the input of an agent that takes words, "" when it needs more than words."""
    required, properties = tool.parameters.get("required", ()), tool.parameters.get("properties", {})
    texts = [each for each in (*required, *properties) if properties[each].get("type") == "string"]
    return texts[0] if texts and len(required) <= 1 else ""


# ---- what came of it


def _outcomes(history: History, messages: Sequence[Message]) -> Iterator[_Outcome]:
    """Yield the answers to calls among these messages; a failure before the newest message is past."""
    calls = {call.id: call for message in history if message.role == "assistant" for call in message.calls}
    for index, message in enumerate(messages):
        call = calls.get(message.call_id or "") if message.role == "tool" else None
        is_past = message.status != "ok" and any(each.role == "user" for each in messages[index:])
        if call and not is_past:
            yield _Outcome(call, _without_frame(message), message.status == "ok")


def _without_frame(message: Message) -> str:
    """Return what a call gave, without notices for the model and what only a person sees."""
    parts = [part.text for part in message.content if isinstance(part, Text)]
    if len(parts) > 1:
        first = int(parts[0].endswith(":"))
        parts = parts[first : -1 if parts[-1].startswith(("That is all", "The change:")) else None]
    return "\n".join(parts)


def _show(outcome: _Outcome, tools: Mapping[str, Tool]) -> str:
    name, text = outcome.call.name, outcome.text.rstrip()
    if not outcome.is_ok:
        return f"`{name}` did not work: {text}"
    if not text:
        return f"`{name}` printed nothing."
    is_answer = name in tools and tools[name].source == "agent"
    return text if is_answer or (name not in _PRINTS and "\n" not in text) else _indent(text)


def _indent(text: str) -> str:
    """Return a text as a block of code, which nothing in it can end, cut to its first lines."""
    lines = text.split("\n")
    kept = [line if len(line) <= _LINE_CHARS else f"{line[:_LINE_CHARS]}…" for line in lines[:_ANSWER_LINES]]
    left = len(lines) - len(kept)
    more = [f"\n({left:,} more line{'s' if left > 1 else ''} not shown here)"] if left else []
    return "\n".join([*(f"    {line}".rstrip() for line in kept), *more])


def _split(text: str) -> Iterator[str]:
    """Yield a text in small pieces, cut behind blanks where there are any."""
    start = 0
    while start < len(text):
        end = text.find(" ", start + _DELTA_CHARS // 2, start + _DELTA_CHARS) + 1 or start + _DELTA_CHARS
        yield text[start:end]
        start = end


# ---- what a subagent hands in


def _complete(tool: Tool, text: str, outcomes: Sequence[_Outcome]) -> _Step | None:
    """Return the call that hands an answer in, None when its schema cannot be met."""
    rows = [row for each in outcomes if each.call.name == "grep" for row in _rows(each)][:_MAX_LOCATIONS]
    trace = [f"{each.call.name} {orjson.dumps(dict(each.call.args)).decode()}" for each in outcomes]
    args = _fill(tool.parameters, text, rows, trace)
    try:
        tool.check(args)
    except ArgumentError:
        return None
    return _Step(tool.name, args)


def _lead(outcome: _Outcome) -> str:
    rows = list(_rows(outcome)) if outcome.call.name == "grep" else []
    if not rows:
        return f"This is what `{outcome.call.name}` gave:"
    return f"Found {len(rows)} line{'s' if len(rows) > 1 else ''}, first `{rows[0]['path']}:{rows[0]['line']}`:"


def _rows(outcome: _Outcome) -> Iterator[dict[str, Any]]:
    """Yield the lines that a search found, with paths as the workspace knows them."""
    searched = str(outcome.call.args.get("path") or ".").rstrip("/")
    for found in map(_ROW.fullmatch, outcome.text.split("\n")):
        if found and outcome.is_ok:
            is_file = searched.rpartition("/")[2] == found["path"]
            path = searched if is_file else found["path"] if searched == "." else f"{searched}/{found['path']}"
            yield {"path": path, "line": int(found["line"]), "text": found["text"].strip()}


def _fill(schema: Mapping[str, Any], text: str, rows: Sequence[Mapping[str, Any]], trace: Sequence[str]) -> Any:
    """Return a value that a schema asks for: words are the answer, objects of a list the lines that were found."""
    if choices := schema.get("enum"):
        return choices[0]
    match schema.get("type"):
        case "object":
            properties = schema.get("properties", {})
            return {name: _fill(each, text, rows, trace) for name, each in properties.items()}
        case "array":
            items = schema.get("items", {})
            return [_fill_row(items, row) for row in rows] if items.get("type") == "object" else list(trace)
        case "boolean":
            return True
        case "integer" | "number":
            return rows[0]["line"] if rows else schema.get("minimum", 0)
    return text


def _fill_row(schema: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a found line as an object: numbers are its line, `path` or `file` its file, other words its text."""
    filled: dict[str, Any] = {}
    by_type = {"integer": row["line"], "number": row["line"], "boolean": True, "array": []}
    for name, each in schema.get("properties", {}).items():
        words = row["path"] if re.search(r"path|file", name.lower()) else row["text"]
        filled[name] = by_type.get(each.get("type"), words)
    return filled
