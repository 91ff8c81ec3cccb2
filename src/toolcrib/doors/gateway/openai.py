"""The gateway as a model behind OpenAI's interface: chat completions and responses, streamed or not.

Every request is a turn of the crib, with its tools and under its gate. The functions of the request are tools of that
turn, which the client runs: it gets all calls that wait, and its next request brings their results. `user`, a
header or the response before name the session; without one each request has a session of its own, and the earlier
messages stand in it as the client sends them.
"""

import asyncio
import base64
import hashlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from secrets import token_hex
from typing import Any

import orjson
from starlette.types import Receive, Scope

from toolcrib.define.result import Image
from toolcrib.lazy import dataclass, field, regex

from .credentials import Principal
from .http import Gate, HttpError, HttpRoute, Raw, admit, ask, find_header, read_json, wait_until_gone

_SESSION_HEADERS = (b"x-toolcrib-session-key", b"x-openclaw-session-key")
_OWN_NAMES = ("toolcrib", "openclaw", "agent")  # toolcrib:<agent> is an agent; others are names of models
_PLAIN_USER = regex(r"[a-z0-9][a-z0-9_-]{0,63}")
_FINISHES = {"done": "stop", "refused": "content_filter"}  # else a limit was reached
_ALIVE, _ALIVE_SECONDS = b": still here\n\n", 15.0
_SPOKEN = {"user": "User", "assistant": "Assistant"}
_RESPONSE_ID = regex(r"resp_([A-Za-z0-9_-]+)_[0-9a-f]{12}")


def routes(server: Gate) -> Mapping[str, HttpRoute]:
    """Return what is answered under /v1."""
    door = OpenAiDoor(server)
    return {
        "/v1/models": HttpRoute("GET", door.models, "own"),
        "/v1/chat/completions": HttpRoute("POST", door.chat, "turn"),
        "/v1/responses": HttpRoute("POST", door.responses, "turn"),
    }


@dataclass(slots=True)
class ChatInput:
    """What a request says: before, now, and what came of calls; `system` is what the program tells the model."""

    system: list[str] = field(default_factory=list)
    before: list[dict[str, Any]] = field(default_factory=list)
    content: list[dict[str, Any]] = field(default_factory=list)
    results: list[dict[str, Any]] = field(default_factory=list)


class OpenAiDoor:
    """Turns requests into those of the crib, and what comes of them into answers."""

    def __init__(self, server: Gate) -> None:
        self._server = server

    async def models(self, scope: Scope, receive: Receive) -> tuple[int, Any]:
        """List the agents and the models that may be asked for."""
        principal = admit(self._server, scope, "models.list", "read")
        named = [each["id"] for each in (await ask(self._server, principal, "models.list", {}))["models"]]
        agents = [f"toolcrib:{each}" for each in await self._agents(principal)]
        rows = [{"id": each, "object": "model", "created": 0, "owned_by": "toolcrib"} for each in (*agents, *named)]
        return 200, {"object": "list", "data": rows}

    async def chat(self, scope: Scope, receive: Receive) -> tuple[int, Any]:
        """Answer as chat completions do."""
        principal = admit(self._server, scope, "chat.complete", "write")
        body = await read_json(scope, receive)
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            raise HttpError(400, "invalid_request", "messages is a list with at least one message")
        _refuse_unsupported(body)
        params = await self._params(principal, scope, body, _read_messages(messages), str(body.get("user") or ""))
        parts = _Parts(self._server, principal, params, receive)
        head = {"id": f"chatcmpl-{token_hex(12)}", "created": int(time.time()), "model": str(body.get("model") or "")}
        if body.get("stream"):
            await parts.begin()
            options = body.get("stream_options")
            has_usage = isinstance(options, dict) and bool(options.get("include_usage"))
            return 200, Raw("text/event-stream", _stream_chat(parts, head, has_usage=has_usage))
        result = await parts.end()
        message = {"role": "assistant", "content": result["text"] or None, "refusal": None}
        if result["calls"]:
            message["tool_calls"] = [_chat_call(call) for call in result["calls"]]
        choice = {"index": 0, "message": message, "finish_reason": _finish(result), "logprobs": None}
        return 200, {**head, "object": "chat.completion", "choices": [choice], "usage": _chat_usage(result)}

    async def responses(self, scope: Scope, receive: Receive) -> tuple[int, Any]:
        """Answer as responses do."""
        principal = admit(self._server, scope, "chat.complete", "write")
        body = await read_json(scope, receive)
        given = body.get("input")
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        if not isinstance(items, list) or not items:
            raise HttpError(400, "invalid_request", "input is text, or a list of items")
        _refuse_unsupported(body)
        chat_input = _read_messages([_message_from(item) for item in items])
        if isinstance(instructions := body.get("instructions"), str):
            chat_input.system.insert(0, instructions)
        params = await self._params(principal, scope, body, chat_input, str(body.get("user") or ""))
        if previous := body.get("previous_response_id"):
            params |= {"sessionKey": _session_from(previous), "before": []}
        parts = _Parts(self._server, principal, params, receive)
        head = {
            "object": "response", "created_at": int(time.time()), "model": str(body.get("model") or ""),
            "parallel_tool_calls": True, "tool_choice": "auto", "tools": body.get("tools") or [], "error": None,
            "incomplete_details": None, "instructions": instructions, "metadata": body.get("metadata") or {},
        }  # fmt: skip
        began = await parts.begin()
        session = base64.urlsafe_b64encode(began["sessionKey"].encode()).decode().rstrip("=")
        head["id"] = f"resp_{session}_{token_hex(6)}"
        if body.get("stream"):
            return 200, Raw("text/event-stream", _stream_response(parts, head))
        return 200, _response(head, await parts.end())

    async def _params(
        self, principal: Principal, scope: Scope, body: Mapping[str, Any], chat_input: ChatInput, user: str
    ) -> dict[str, Any]:
        """Return what the crib is asked: as the credential's caller, in a session of its own or below it."""
        word = str(body.get("model") or "toolcrib")
        prefix, _, agent = word.partition(":")
        is_agent = prefix in _OWN_NAMES
        agents = await self._agents(principal) if is_agent and agent else ["main"]
        if is_agent and (agent or "main") not in agents:
            raise HttpError(404, "model_not_found", f"there is no agent {agent[:64]!r}; GET /v1/models lists them")
        named = [value.decode("latin-1") for name, value in scope["headers"] if name in _SESSION_HEADERS]
        home = principal.caller.session or f"agent:{(is_agent and agent) or 'main'}"
        slug = user if _PLAIN_USER.fullmatch(user) else f"u-{hashlib.sha256(user.encode()).hexdigest()[:32]}"
        key = named[0] if named else f"{home}:openai:{slug if user else token_hex(8)}"
        if chat_input.content or not chat_input.results:
            system = "\n\n".join(chat_input.system)
            blocks = [{"type": "text", "text": f"[The program that asks says:]\n{system}\n\n"}] if system else []
            chat_input.content = [*blocks, *chat_input.content]
        return {
            "content": chat_input.content,
            "before": [] if named or user else chat_input.before,
            "results": chat_input.results,
            "tools": [] if body.get("tool_choice") == "none" else body.get("tools") or [],
            "sessionKey": key,
            "model": "" if is_agent else word,
            "idempotencyKey": find_header(scope, b"idempotency-key"),
        }

    async def _agents(self, principal: Principal) -> list[str]:
        """Return the agents that a caller may ask: a guest has the one whose guest it is."""
        if not principal.is_owner:
            return ["main"]
        return [each["agentId"] for each in (await ask(self._server, principal, "health", {}))["agents"]]


class _Parts:
    """What a turn says, piece by piece; whoever asked and goes away stops it."""

    def __init__(self, server: Gate, principal: Principal, params: Mapping[str, Any], receive: Receive) -> None:
        self._queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        asking = ask(server, principal, "chat.complete", params, self._queue.put_nowait)
        self._asking = asyncio.ensure_future(asking)
        self._asking.add_done_callback(lambda _: self._queue.put_nowait(None))
        self._gone = asyncio.ensure_future(wait_until_gone(receive))
        self._gone.add_done_callback(lambda gone: gone.cancelled() or self._asking.cancel())

    async def begin(self) -> dict[str, Any]:
        """Wait until the turn has begun; raise what speaks against it."""
        return await self._queue.get() or await self.end()

    async def end(self) -> dict[str, Any]:
        """Wait for what it comes to."""
        try:
            await asyncio.wait([self._asking])
            if self._asking.cancelled():
                raise HttpError(499, "client_closed_request", "whoever asked has gone")
            result: dict[str, Any] = self._asking.result()
        finally:
            self.close()
        if result["status"] == "error":
            raise HttpError(502, "turn_failed", result["error"] or "the turn failed")
        return result

    async def pieces(self) -> AsyncIterator[str]:
        """Yield the words as they come, and "" now and then while none do."""
        while True:
            try:
                async with asyncio.timeout(_ALIVE_SECONDS):
                    part = await self._queue.get()
            except TimeoutError:
                yield ""
                continue
            if part is None:
                return
            if "delta" in part:
                yield part["delta"]

    def close(self) -> None:
        """Let go of it."""
        self._gone.cancel()
        self._asking.cancel()


async def _stream_chat(parts: _Parts, head: Mapping[str, Any], *, has_usage: bool) -> AsyncGenerator[bytes]:
    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return _sse({**head, "object": "chat.completion.chunk", "choices": [choice]})

    try:
        yield chunk({"role": "assistant", "content": ""})
        async for piece in parts.pieces():
            yield chunk({"content": piece}) if piece else _ALIVE
        result = await parts.end()
        for index, call in enumerate(result["calls"]):
            yield chunk({"tool_calls": [{"index": index, **_chat_call(call)}]})
        yield chunk({}, _finish(result))
        if has_usage:
            yield _sse({**head, "object": "chat.completion.chunk", "choices": [], "usage": _chat_usage(result)})
        yield b"data: [DONE]\n\n"
    except HttpError as error:
        yield _sse(error.to_json())
    finally:
        parts.close()


async def _stream_response(parts: _Parts, head: Mapping[str, Any]) -> AsyncGenerator[bytes]:
    number = iter(range(1_000_000_000))

    def event(kind: str, **more: Any) -> bytes:
        return _sse({"type": kind, "sequence_number": next(number), **more}, kind)

    begun = {**head, "status": "in_progress", "output": [], "usage": None}
    item, text = _message_item("", "in_progress"), ""
    position = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    try:
        yield event("response.created", response=begun)
        yield event("response.in_progress", response=begun)
        async for piece in parts.pieces():
            if piece and not text:
                yield event("response.output_item.added", output_index=0, item={**item, "content": []})
                yield event("response.content_part.added", **position, part=_text_part(""))
            text += piece
            yield event("response.output_text.delta", **position, delta=piece, logprobs=[]) if piece else _ALIVE
        result = await parts.end()
        done = _message_item(text, "completed", item["id"])
        if text:
            yield event("response.output_text.done", **position, text=text, logprobs=[])
            yield event("response.content_part.done", **position, part=done["content"][0])
            yield event("response.output_item.done", output_index=0, item=done)
        calls = [_call_item(call) for call in result["calls"]]
        for place, call in enumerate(calls, 1 if text else 0):
            where = {"item_id": call["id"], "output_index": place}
            yield event("response.output_item.added", output_index=place, item={**call, "arguments": ""})
            yield event("response.function_call_arguments.delta", **where, delta=call["arguments"])
            yield event(
                "response.function_call_arguments.done", **where, arguments=call["arguments"], name=call["name"]
            )
            yield event("response.output_item.done", output_index=place, item=call)
        whole = _response(head, result) | {"output": [*([done] if text else []), *calls]}
        yield event(f"response.{whole['status']}", response=whole)
    except HttpError as error:
        failed = {**begun, "status": "failed", "error": {"code": "server_error", "message": str(error)}}
        yield event("response.failed", response=failed)
    finally:
        parts.close()


def _response(head: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
    output = [_message_item(result["text"], "completed")] if result["text"] else []
    is_whole = _finish(result) in ("stop", "tool_calls")
    used = result["usage"]
    return {
        **head,
        "status": "completed" if is_whole else "incomplete",
        "incomplete_details": None if is_whole else {"reason": "max_output_tokens"},
        "output": [*output, *map(_call_item, result["calls"])],
        "usage": {
            "input_tokens": used["input"], "output_tokens": used["output"],
            "total_tokens": used["input"] + used["output"],
            "input_tokens_details": {"cached_tokens": used["cached"], "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }  # fmt: skip


def _message_item(text: str, status: str, id: str = "") -> dict[str, Any]:
    own = {"id": id or f"msg_{token_hex(12)}", "type": "message", "role": "assistant", "status": status}
    return {**own, "content": [_text_part(text)]}


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _call_item(call: Mapping[str, Any]) -> dict[str, Any]:
    own = {"id": f"fc_{call['id']}", "call_id": call["id"], "type": "function_call", "status": "completed"}
    return {**own, "name": call["name"], "arguments": orjson.dumps(call["args"]).decode()}


def _chat_call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": call["name"], "arguments": orjson.dumps(call["args"]).decode()}
    return {"id": call["id"], "type": "function", "function": function}


def _chat_usage(result: Mapping[str, Any]) -> dict[str, Any]:
    used = result["usage"]
    counted = {"prompt_tokens": used["input"], "completion_tokens": used["output"]}
    return {
        **counted,
        "total_tokens": sum(counted.values()),
        "prompt_tokens_details": {"cached_tokens": used["cached"]},
    }


def _finish(result: Mapping[str, Any]) -> str:
    return "tool_calls" if result["calls"] else _FINISHES.get(result["reason"], "length")


def _sse(value: Any, event: str = "") -> bytes:
    return (f"event: {event}\n".encode() if event else b"") + b"data: " + orjson.dumps(value, default=str) + b"\n\n"


def _refuse_unsupported(body: Mapping[str, Any]) -> None:
    """Refuse what would be left undone without a word."""
    choice = body.get("tool_choice", "auto")
    if choice not in ("auto", "none", None):
        raise HttpError(400, "unsupported", "tool_choice is auto or none: the model decides which tools it calls")
    if body.get("n", 1) not in (1, None):
        raise HttpError(400, "unsupported", "n is 1: a request is one turn")
    text = body.get("text")
    form = body.get("response_format") or (text.get("format") if isinstance(text, dict) else None)
    if isinstance(form, dict) and form.get("type") != "text":
        raise HttpError(400, "unsupported", "an answer is text; ask for JSON in words")


def _read_messages(messages: Iterable[Any]) -> ChatInput:
    """Return the input of a turn: all messages after the last reply, with those before it as context."""
    chat_input, now = ChatInput(), list[dict[str, Any]]()
    for message in messages:
        role = message.get("role") if isinstance(message, dict) else None
        if role in ("system", "developer"):
            chat_input.system.append("".join(block["text"] for block in _blocks(message) if block["type"] == "text"))
        elif role in ("user", "function", "tool"):
            now.append(message)
        elif role == "assistant":
            chat_input.before += [block for each in (*now, message) for block in _tell_before(each)]
            now = []
        else:
            raise HttpError(400, "invalid_request", f"a message has a role we know, not {str(role)[:32]!r}")
    for message in now:
        if message["role"] == "user":
            chat_input.content += _blocks(message)
        else:
            text = "".join(block["text"] for block in _blocks(message) if block["type"] == "text")
            chat_input.results.append({"id": str(message.get("tool_call_id") or ""), "text": text})
    if chat_input.before:
        chat_input.before.insert(0, {"type": "text", "text": "[What was said before, as the program tells it:]\n"})
        chat_input.before.append({"type": "text", "text": "[Now:]\n"})
    return chat_input


def _tell_before(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    spoken = _SPOKEN.get(str(message["role"]))
    for block in _blocks(message):
        if spoken is None:  # what came of a call is from outside
            yield {**block, "source": "client:before"}
        elif block["type"] == "text":
            yield {**block, "text": f"{spoken}: {block['text']}\n"}
        else:
            yield block


def _blocks(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the content of a message: its words, and pictures that stand in it."""
    content = message.get("content")
    if not isinstance(content, str | list | None):
        raise HttpError(400, "invalid_request", "the content of a message is text, or a list of parts")
    for part in [{"type": "text", "text": content}] if isinstance(content, str) else content or []:
        match part:
            case {"type": "text" | "input_text" | "output_text", "text": str(text)}:
                yield {"type": "text", "text": text}
            case {"type": "refusal", "refusal": str(text)}:
                yield {"type": "text", "text": text}
            case {"type": "image_url", "image_url": {"url": str(url)}} | {"type": "input_image", "image_url": str(url)}:
                yield _picture(url)
            case _:
                kind = part.get("type") if isinstance(part, dict) else type(part).__name__
                raise HttpError(400, "unsupported", f"content is text and pictures, not {str(kind)[:32]!r}")


def _picture(url: str) -> dict[str, Any]:
    head, _, data = url.partition(";base64,")
    if not head.startswith("data:") or (picture := Image.from_base64(data)) is None:
        raise HttpError(400, "invalid_request", "a picture is a data: address with a PNG, JPEG, GIF or WebP in base64")
    return {"type": "image", "data": data, "mimeType": picture.mime}


def _message_from(item: Any) -> Any:
    """Return an item of a response's input as a message of a chat."""
    match item:
        case {"type": "function_call"}:
            return {"role": "assistant", "content": ""}
        case {"type": "function_call_output", "call_id": str(id), "output": output}:
            return {"role": "tool", "tool_call_id": id, "content": output}
        case {"type": "reasoning"}:
            return {"role": "assistant", "content": ""}
        case {"type": str(kind)} if kind != "message":
            raise HttpError(400, "unsupported", f"an item of input is a message or a function's, not {kind[:32]!r}")
    return item


def _session_from(id: Any) -> str:
    """Return the session that a response was in: its id says it, and the crib whether the caller may see it."""
    found = _RESPONSE_ID.fullmatch(id) if isinstance(id, str) else None
    try:
        packed = found[1] if found else ""
        session = base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4)).decode()
    except ValueError:
        session = ""
    if not session:
        raise HttpError(404, "not_found", f"there is no response {str(id)[:64]!r}")
    return session
