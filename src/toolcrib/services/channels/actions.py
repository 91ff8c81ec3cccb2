"""What is done in chats for the tool `message`, for channels' own tools and for programs: found, judged, done once."""

import asyncio
import base64
import binascii
import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Annotated, Any, NamedTuple, Protocol

from pydantic import Field

from toolcrib.define.caller import Caller
from toolcrib.define.channel import Abilities, Button, ChatPlace, Post, refuse_action
from toolcrib.define.display import quote_short, strip_to_line
from toolcrib.define.errors import ToolError
from toolcrib.define.message import Call
from toolcrib.define.ports import ToolWork, rpc
from toolcrib.define.schema.annotations import JsonObject
from toolcrib.define.taint import join_sources, sources_of
from toolcrib.lazy import regex, replace
from toolcrib.services.feature import TurnCore

from .asking import PRESSED
from .outbox import FILE_BYTES, Outbox
from .responder import ChannelResponder, split_text
from .targets import take_target
from .worker import ChannelWorker

IdempotencyKey = Annotated[str, Field(min_length=1, max_length=256)]
PollChoice = Annotated[str, Field(min_length=1, max_length=100)]

_POSTED = ("send", "reply", "thread-reply", "sendAttachment")
_CHANGES = ("edit", "delete", "unsend")  # what people are shown no more as it was
_MAX_ACTIONS = 50  # of a broadcast
_MAX_BUTTONS, _BUTTON_CHARS, _DATA_BYTES = 50, 64, 64
_MAX_OPTIONS, _OPTION_CHARS, _QUESTION_CHARS = 12, 100, 300
_SHOWN = regex(r"(?i)image|thumb|icon|video|photo|avatar|media|file")
_ADDRESS = regex(r"(?i)\s*(https?:|//)")
_INTERACTIVE = regex(
    "action|button|select|input|picker|checkbox|radio|overflow|submit|toggle|component|custom_?id|callback",
    re.IGNORECASE,
)
_CAPTION_CHARS = 1_000  # a file with more words goes before them
_NAME_CHARS = 100
_KEPT_ANSWERS = 1_000
_NOT_PLANNED = ("action", "channel", "dryRun", "path", "buffer")


class SentFile(NamedTuple):
    """A file that goes out, and what people are shown as its name."""

    name: str
    data: bytes


class ChannelAction(NamedTuple):
    """One permitted action: posts to send, or an action with its parameters."""

    line: ChannelWorker
    action: str
    to: str
    posts: tuple[Post, ...] = ()
    params: Mapping[str, Any] = {}

    def to_json(self) -> dict[str, Any]:
        """Return exactly what would be sent."""
        target = {"channel": self.line.name, "action": self.action, "to": self.to}
        if not self.posts:
            return {**target, "params": dict(self.params)}
        return {
            **target,
            "posts": [{key: value for key, value in each.to_json().items() if value} for each in self.posts],
        }


class ChannelDirectory(Protocol):
    """The channels that are at work, and who may reach what through them."""

    @property
    def core(self) -> TurnCore: ...
    @property
    def talk(self) -> ChannelResponder: ...
    @property
    def outbox(self) -> Outbox: ...
    def lines_for(self, caller: Caller, /) -> tuple[ChannelWorker, ...]: ...
    def find_line(self, channel: str, caller: Caller, /) -> ChannelWorker: ...
    def abilities_of(self, line: ChannelWorker, /) -> Abilities: ...
    def check_reach(
        self, caller: Caller, action: str, line: ChannelWorker, to: str, params: Mapping[str, Any], /
    ) -> bool: ...
    async def say(self, line: ChannelWorker, key: str, posts: Sequence[Post], /) -> dict[str, Any]: ...


def _to_message_call(params: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    given = {name: params[name] for name in ("action", "channel", "dryRun") if params.get(name)}
    file = {"filename": str(params["file"].get("name"))} if isinstance(params.get("file"), Mapping) else {}
    return "message", {**(params.get("params") or {}), **file, **given}


_READERS = {
    ("discord", "members"): "discord_members", ("discord", "read"): "discord_history",
    ("slack", "members"): "slack_members", ("slack", "read"): "slack_history", ("telegram", "chat"): "telegram_chat",
}  # fmt: skip


def _to_channel_call(params: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the call of the channel's own tool that does this, else the one of `message`."""
    reader, to = _READERS.get((str(params.get("channel")), str(params.get("action")))), params.get("to")
    if reader is None:
        return _to_message_call(
            {**params, "params": {**(params.get("params") or {}), **({"target": to} if to else {})}}
        )
    chat = "chatId" if reader == "telegram_chat" else "channelId"
    return reader, {**(params.get("params") or {}), **({chat: to} if to else {})}


class ChannelActions:
    """Does what callers may do in chats; what a call has done is not done again for the same call."""

    def __init__(self, channels: ChannelDirectory) -> None:
        self._channels, self._core = channels, channels.core
        self._answers = OrderedDict[str, dict[str, Any]]()  # of actions, by key

    @rpc("channels.message", clients="write", as_tool=ToolWork(_to_message_call))
    async def perform(  # noqa: PLR0913  the parameters of a method are its interface
        self,
        caller: Caller,
        action: Annotated[str, Field(min_length=1, max_length=64)],
        key: IdempotencyKey,
        channel: Annotated[str, Field(max_length=64)] = "",
        params: JsonObject | None = None,
        file: JsonObject | None = None,
        dryRun: bool = False,  # noqa: N803  as the tool spells it
    ) -> dict[str, Any]:
        """Do an action of the tool `message`, once for a key; with `dryRun` return what it would do."""
        given = dict(params or {})
        is_lenient = given.pop("bestEffort", False) is True
        sent = _read_file(file) if file else None
        try:
            actions = self._plan(caller, action, channel, given, sent)
            if dryRun:
                planned = [each if isinstance(each, dict) else each.to_json() for each in actions]
                return {"dryRun": True, "verdict": "allow", "would": planned}
            if action == "broadcast":
                results = [self._try(each, f"{key}-{index}", sent) for index, each in enumerate(actions)]
                return {"results": await asyncio.gather(*results)}
            return await self._do(actions[0], key, sent)
        except ToolError as error:
            if dryRun:
                return {"dryRun": True, "verdict": "deny", "reason": str(error)}
            if not is_lenient:
                raise
            return {"ok": False, "error": str(error)}

    @rpc("channels.act", clients="write", as_tool=ToolWork(_to_channel_call))
    async def act(
        self,
        caller: Caller,
        channel: Annotated[str, Field(max_length=64)],
        action: Annotated[str, Field(min_length=1, max_length=64)],
        to: Annotated[str, Field(max_length=1_024)] = "",
        params: JsonObject | None = None,
    ) -> dict[str, Any]:
        """Have a channel do an action, also one that only its own tools ask for, where the caller may."""
        line = self._channels.find_line(channel, caller)
        own = line.channel.abilities.own_actions
        place, given = self._channels.talk.find_place(caller), {**(params or {}), **({"target": to} if to else {})}
        self._channels.check_reach(caller, action, line, to or (place.chat if place else ""), given)
        if action not in own:
            return await self._do_action(self._plan_one(caller, place, action, line, given, None))
        if not to and place is not None and place.channel == line.name:
            given |= {"target": place.chat, **({"threadId": place.thread} if place.thread else {})}
        target, rest = take_target(action, given) if given.get("target") else ("", given)
        self._channels.check_reach(caller, action, line, target, rest)
        return await self._do_action(ChannelAction(line, action, target, params=rest))

    @rpc("poll", clients="admin")
    async def poll(  # noqa: PLR0913  as the protocol spells it
        self,
        caller: Caller,
        to: Annotated[str, Field(min_length=1, max_length=1_024)],
        question: Annotated[str, Field(min_length=1, max_length=_QUESTION_CHARS)],
        options: Annotated[list[PollChoice], Field(min_length=2, max_length=_MAX_OPTIONS)],
        idempotencyKey: IdempotencyKey,  # noqa: N803  as the protocol spells it
        maxSelections: Annotated[int, Field(ge=1, le=_MAX_OPTIONS)] = 1,  # noqa: N803
        durationHours: Annotated[int, Field(ge=1)] | None = None,  # noqa: N803
        channel: Annotated[str, Field(max_length=64)] = "",
    ) -> dict[str, Any]:
        """Ask the members of a chat, once for a key."""
        asked: dict[str, Any] = {"target": to, "pollQuestion": question, "pollOption": options}
        asked |= {"pollMulti": maxSelections > 1, **({"pollDurationHours": durationHours} if durationHours else {})}
        return await self.perform(caller, "poll", f"poll-{idempotencyKey}", channel, JsonObject(asked))

    def refuse_elsewhere(self, caller: Caller, call: Call) -> None:
        """Raise ToolError for what this caller may not do in that chat anyway: nobody need be asked about it."""
        if call.name != "message" or self._core.is_owner(caller):
            return
        given = {name: each for name, each in call.args.items() if name not in _NOT_PLANNED and each is not None}
        try:
            self._plan(caller, str(call.args["action"]), call.args.get("channel") or "", given, None)
        except ToolError as error:
            if error.code == "denied":
                raise

    # What is to be done

    def _plan(
        self, caller: Caller, action: str, channel: str, params: Mapping[str, Any], file: SentFile | None
    ) -> list[Any]:
        """Return the actions to perform; for a broadcast also the refused ones, as their JSON rows."""
        place = self._channels.talk.find_place(caller)
        if action != "broadcast":
            line = self._channels.find_line(channel or (place.channel if place else ""), caller)
            return [self._plan_one(caller, place, action, line, params, file)]
        if not self._core.config.tools.message.broadcast.enabled:
            raise ToolError("broadcast is switched off; tools.message.broadcast.enabled switches it on", code="denied")
        take_target(action, params)  # it takes none: who is meant stands in targets
        targets = [str(each) for each in params.get("targets") or ()]
        lines = () if channel else self._channels.lines_for(caller)
        lines = lines or (self._channels.find_line(channel, caller),)
        if not targets or len(targets) * len(lines) > _MAX_ACTIONS:
            raise ToolError(f"broadcast needs targets, for {_MAX_ACTIONS} messages at most", code="bad_arguments")
        rest = {key: value for key, value in params.items() if key != "targets"}
        actions = list[Any]()
        for line in lines:
            for target in dict.fromkeys(targets):
                try:
                    actions.append(self._plan_one(caller, place, "send", line, {**rest, "target": target}, file))
                except ToolError as error:
                    actions.append({"channel": line.name, "to": target, "ok": False, "error": str(error)})
        return actions

    def _plan_one(
        self,
        caller: Caller,
        place: ChatPlace | None,
        action: str,
        line: ChannelWorker,
        params: Mapping[str, Any],
        file: SentFile | None,
    ) -> ChannelAction:
        abilities = self._channels.abilities_of(line)
        if action not in abilities.actions:
            raise refuse_action(line.name, action, abilities)
        is_here = place is not None and place.channel == line.name
        to, rest = take_target(action, params, place.chat if place and is_here else "")
        is_other = self._channels.check_reach(caller, action, line, to, rest)
        if action in _POSTED:
            thread = place.thread if place and is_here and not is_other else ""
            words = _read_words(rest, "message") or _read_words(rest, "caption")
            marker = self._core.config.tools.message.cross_context.marker
            if is_other and place is not None and words and marker.enabled:
                words = f"{marker.prefix}{words}{marker.suffix}".replace("{channel}", place.channel)
            first = _write_post(action, to, {"threadId": thread, **rest}, abilities, file)
            first = replace(first, source=join_sources(sources_of([self._core.host.message(caller, "")])))
            return ChannelAction(line, action, to, cut_post(first, words, abilities))
        if action == "poll":
            _check_poll(rest)
        if file is not None:
            rest = {**rest, "filename": file.name, "base64": base64.b64encode(file.data).decode()}
        return ChannelAction(line, action, to, params=rest)

    # What is done

    async def _try(self, planned: Any, key: str, file: SentFile | None) -> dict[str, Any]:
        if isinstance(planned, dict):
            return planned
        target = {"channel": planned.line.name, "to": planned.to}
        try:
            return {**target, "ok": True, "result": await self._do(planned, key, file)}
        except ToolError as error:
            return {**target, "ok": False, "error": str(error)}

    async def _do(self, planned: ChannelAction, key: str, file: SentFile | None) -> dict[str, Any]:
        if not planned.posts:
            if (known := self._answers.get(key)) is None:
                known = self._answers[key] = await self._do_action(planned)
                while len(self._answers) > _KEPT_ANSWERS:
                    self._answers.popitem(last=False)
            return known
        posts: Sequence[Post] = planned.posts
        if file is not None:
            path = await self._channels.outbox.put(f"{planned.line.name}/{key}", file.name, file.data)
            posts = (replace(posts[0], media=path), *posts[1:])
        return {"ok": True, **await self._channels.say(planned.line, f"call-{key}", posts)}

    async def _do_action(self, planned: ChannelAction) -> dict[str, Any]:
        id = str(planned.params.get("messageId") or "")
        if planned.action in _CHANGES and id and await self._channels.talk.questions.shows(planned.line.name, id):
            raise ToolError("that message shows a question that waits; it stays as it is", code="denied")
        try:
            result = await planned.line.channel.act(planned.action, planned.to, planned.params)
        except (OSError, TimeoutError) as error:
            why = str(error) or type(error).__name__
            raise ToolError(f"nobody knows whether {planned.line.name} did it: {why}", code="uncertain") from None
        return {"channel": planned.line.name, **({"to": planned.to} if planned.to else {}), **result}


def _read_file(file: Mapping[str, Any]) -> SentFile:
    text = str(file.get("base64", ""))
    if len(text) > FILE_BYTES * 4 // 3 + 4:  # before it is decoded
        raise ToolError(f"the file is too large; {FILE_BYTES:,} bytes is the most", code="too_large")
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ToolError("the file is no base64", code="bad_arguments") from None
    name = strip_to_line(PurePath(str(file.get("name") or "")).name)[-_NAME_CHARS:]
    return SentFile(name or "file", data)


def _write_post(action: str, to: str, params: Mapping[str, Any], can: Abilities, file: SentFile | None) -> Post:
    """Return a post without its words."""
    buttons, card = _read_buttons(params.get("buttons") or ()), params.get("card")
    for what, is_wanted, is_able in (("buttons", buttons, can.buttons), ("cards", card, can.cards)):
        if is_wanted and not is_able:
            raise ToolError(f"there are no {what} on this channel; leave them out", code="unsupported")
    if file is not None and not can.media:
        raise ToolError("this channel carries no files; say it in words", code="unsupported")
    if _is_interactive(card):
        raise ToolError("a card with buttons, menus or fields is not sent; use buttons, or plain blocks", code="denied")
    if _has_fetched(card):
        raise ToolError(
            "a card with a picture at an address is not sent: it would be fetched; send a file", code="denied"
        )
    if action == "sendAttachment" and file is None:
        raise ToolError("sendAttachment needs a path or a buffer", code="bad_arguments")
    reply_to = _read_words(params, "replyTo") or (_read_words(params, "messageId") if action == "reply" else "")
    thread = _read_words(params, "threadId")
    if (action == "reply" and not reply_to) or (action == "thread-reply" and not thread):
        missing = "messageId: which message is answered" if action == "reply" else "threadId"
        raise ToolError(f"{action} needs {missing}", code="bad_arguments")
    return Post(
        chat=to,
        thread=thread,
        reply_to=reply_to,
        buttons=buttons,
        card=card if isinstance(card, Mapping) else None,
        filename=file.name if file else "",
        is_voice=params.get("asVoice") is True and file is not None,
        silent=params.get("silent") is True,
    )


def _is_interactive(card: Any) -> bool:
    """Tell whether something in a card can be pressed, chosen or filled in."""
    if isinstance(card, Mapping):
        kind = card.get("type", "")
        has_sign = not isinstance(kind, str) or _INTERACTIVE.search(kind) is not None
        return has_sign or any(_INTERACTIVE.search(str(name)) or _is_interactive(each) for name, each in card.items())
    return isinstance(card, (list, tuple)) and any(map(_is_interactive, card))


def _has_fetched(card: Any, *, is_shown: bool = False) -> bool:
    """Tell whether a service would fetch something of a card to show it: what is at the address of a picture."""
    if isinstance(card, Mapping):
        named = ((is_shown or _SHOWN.search(str(name)) is not None, each) for name, each in card.items())
        return any(_has_fetched(each, is_shown=shown) for shown, each in named)
    if isinstance(card, (list, tuple)):
        return any(_has_fetched(each, is_shown=is_shown) for each in card)
    return is_shown and isinstance(card, str) and _ADDRESS.match(card) is not None


def _read_buttons(rows: Any) -> tuple[tuple[Button, ...], ...]:
    """Return rows of buttons. None of them is a command: who presses it must not be made to say /approve."""
    try:
        read = tuple(tuple(Button(str(button["text"]), str(button["callback_data"])) for button in row) for row in rows)
    except (KeyError, TypeError):
        raise ToolError("buttons are rows of {text, callback_data}", code="bad_arguments") from None
    flat = [button for row in read for button in row]
    for button in flat:
        size = len(button.data.encode())
        if not button.text.strip() or len(button.text) > _BUTTON_CHARS or not 0 < size <= _DATA_BYTES:
            limits = f"{_BUTTON_CHARS} characters and {_DATA_BYTES} bytes of callback_data at most"
            raise ToolError(
                f"the button {quote_short(button.text)} has too much or nothing; {limits}", code="bad_arguments"
            )
        if button.data.strip().startswith(("/", PRESSED)):
            raise ToolError("callback_data cannot begin with a slash, or as buttons of ours do", code="denied")
    if len(flat) > _MAX_BUTTONS or not all(read):
        raise ToolError(f"{_MAX_BUTTONS} buttons are the most, and no row is empty", code="bad_arguments")
    return read


def _check_poll(params: Mapping[str, Any]) -> None:
    question, options = _read_words(params, "pollQuestion"), params.get("pollOption") or ()
    if not 0 < len(question) <= _QUESTION_CHARS:
        raise ToolError(f"poll needs pollQuestion, of {_QUESTION_CHARS} characters at most", code="bad_arguments")
    words = [str(each).strip() for each in options]
    if not 2 <= len(set(words)) == len(words) <= _MAX_OPTIONS or not all(
        0 < len(each) <= _OPTION_CHARS for each in words
    ):
        limits = f"2 to {_MAX_OPTIONS} that differ, of {_OPTION_CHARS} characters at most"
        raise ToolError(f"poll needs pollOption: {limits}", code="bad_arguments")


def _read_words(params: Mapping[str, Any], name: str) -> str:
    value = params.get(name)
    return value.strip() if isinstance(value, str) else ""


def cut_post(first: Post, words: str, abilities: Abilities) -> tuple[Post, ...]:
    """Return the posts that say these words: what is answered and the file come first, buttons last."""
    pieces = split_text(words, abilities.longest)
    if first.filename and (len(words) > _CAPTION_CHARS or not pieces):
        pieces = ["", *pieces]
    if not pieces and first.card is None:
        raise ToolError("there is nothing to say: give message, or a file", code="bad_arguments")
    plain = replace(first, reply_to="", filename="", is_voice=False, card=None, buttons=())
    posts = [replace(first, text=pieces[0] if pieces else "", buttons=())]
    posts += [replace(plain, text=each) for each in pieces[1:]]
    posts[-1] = replace(posts[-1], buttons=first.buttons)
    return tuple(posts)
