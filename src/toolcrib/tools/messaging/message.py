"""message: sends and acts in chats. A model is shown what the configured channels can do, and no more."""

import base64
import mimetypes
from collections.abc import Mapping
from typing import Any

from toolcrib import Args, Caller, Ctx, Result, ToolError, tool
from toolcrib.tools._parameters import describe_number as _number
from toolcrib.tools._parameters import describe_text as _text

_MAX_BYTES = 20 << 20
_SAY = "send broadcast reply thread-reply sendAttachment sendWithEffect"
_FILES = ("path", "buffer", "filename", "contentType", "asVoice")
_BUTTON = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "callback_data": {"type": "string"}},
    "required": ["text", "callback_data"],
    "additionalProperties": False,
}
_FLAG = {"type": "boolean"}


def _plain(words: str, kind: str = "string") -> dict[str, Any]:
    """Return parameters whose names say what they are."""
    return {name: {"type": kind} for name in words.split()}


def _list(words: str, about: str = "") -> dict[str, Any]:
    more = {"description": about} if about else {}
    return {name: {"type": "array", "items": {"type": "string"}, **more} for name in words.split()}


# parameters, and the actions that take them: one that nobody here can do brings none
_FAMILIES: tuple[tuple[str, Mapping[str, Any]], ...] = (
    (f"{_SAY} edit thread-create", {"message": _text("the words")}),
    ("broadcast", _list("targets", "ids of chats (broadcast)")),
    ("reply react reactions read edit unsend delete pin unpin", {"messageId": _text("which message is meant")}),
    (
        f"{_SAY} setGroupIcon emoji-upload sticker-upload",
        {
            "path": _text("file of the workspace to send"),
            "buffer": _text("or the file itself, as base64 or a data: URL"),
            **_plain("filename contentType"),
        },
    ),
    (
        _SAY,
        {
            "asVoice": {"type": "boolean", "description": "send a recording as a voice note"},
            **_plain("replyTo threadId"),
            **_plain("silent bestEffort", "boolean"),
            "buttons": {"type": "array", "items": {"type": "array", "items": _BUTTON}, "description": "rows of them"},
            "card": {"type": "object", "additionalProperties": True, "description": "as this channel writes cards"},
        },
    ),
    ("sendWithEffect", _plain("effect effectId")),
    ("react", {**_plain("emoji targetAuthor targetAuthorUuid"), "remove": _FLAG}),
    (
        "poll",
        {
            **_plain("pollQuestion"), **_list("pollOption", "2 to 12"), "pollMulti": _FLAG,
            "pollDurationHours": _number("(poll)"),
        },
    ),
    (
        "read reactions list-pins search thread-list event-list",
        {**_plain("limit", "number"), **_plain("before after around"), **_plain("fromMe includeArchived", "boolean")},
    ),
    ("search sticker-search", {**_plain("query guildId channelId authorId"), **_list("channelIds authorIds")}),
    ("permissions member-info voice-status", _plain("guildId userId")),
    ("role-info role-add role-remove", {**_plain("guildId userId roleId"), **_list("roleIds")}),
    ("addParticipant removeParticipant", _plain("participant")),
    ("renameGroup", _plain("name")),
    ("sticker sticker-search sticker-upload", {**_plain("stickerName stickerDesc stickerTags"), **_list("stickerId")}),
    ("emoji-list emoji-upload sticker-upload", {**_plain("guildId emojiName"), **_list("roleIds")}),
    ("thread-create thread-list", {**_plain("threadName guildId channelId"), **_plain("autoArchiveMin", "number")}),
    ("event-list event-create", _plain("guildId eventName eventType startTime endTime desc location channelId")),
    ("timeout kick ban", {**_plain("guildId userId reason until"), **_plain("durationMin deleteDays", "number")}),
    (
        "channel-list channel-create channel-edit channel-move category-create category-edit category-delete",
        {
            **_plain("guildId name parentId topic categoryId"), **_plain("type position rateLimitPerUser", "number"),
            **_plain("nsfw clearParent", "boolean"),
        },
    ),
)  # fmt: skip
_ALWAYS = {
    "action": _text("what to do"),
    "channel": _text("which service; this chat's where it is left out"),
    "target": _text("id of a chat or a person; this chat where it is left out"),
    "dryRun": {"type": "boolean", "description": "only tell what would be sent"},
}
_PARAMETERS = {
    "type": "object",
    "properties": {**_ALWAYS, **{name: each for _, family in _FAMILIES for name, each in family.items()}},
    "required": ["action"],
    "additionalProperties": False,
}
_ALIASES = {
    "to": "target", "text": "message", "caption": "message", "filePath": "path", "media": "path", "mediaUrl": "path",
    "mimeType": "contentType", "chatId": "target", "chatGuid": "target", "chatIdentifier": "target",
}  # fmt: skip


def show_what_channels_can(schema: Mapping[str, Any], caller: Caller, channels: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the parameters of what these channels can do; buttons, cards and files are about the current one."""
    can = dict.fromkeys(action for each in channels.values() for action in each.actions) or {"send": None}
    current = [each for name, each in channels.items() if caller.channel in (None, name)]
    taken = {name for actions, family in _FAMILIES if not can.keys().isdisjoint(actions.split()) for name in family}
    taken |= _ALWAYS.keys() - ({"channel"} if len(channels) < 2 else set())
    for names, is_shown in (
        (("buttons",), any(each.buttons for each in current)),
        (("card",), any(each.cards for each in current)),
        (_FILES, any(each.media for each in channels.values())),
    ):
        taken -= set() if is_shown else set(names)
    kept = {name: each for name, each in schema["properties"].items() if name in taken}
    return {**schema, "properties": {**kept, "action": {**kept["action"], "enum": list(can)}}}


_WHERE = ("target", "targets", "channelId", "channelIds", "guildId")
_RECIPIENTS = (*_WHERE, "participant", "userId", "threadId")


def _read_places(args: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return every chat and person that a call names; where it says none, "" for the chat it comes from."""
    recipients = {name: args[name] for name in _RECIPIENTS if args.get(name)}
    here = [] if any(name in recipients for name in _WHERE) else [""]
    named = [each for value in recipients.values() for each in (value if isinstance(value, list) else [value])]
    files = [_find_path(args["path"])] if args.get("path") else []
    return {"to": [*here, *(str(each).strip() for each in named)], "path": files}


@tool(
    group="messaging",
    effects={"send"},
    parameters=_PARAMETERS,
    aliases=_ALIASES,
    narrow=show_what_channels_can,
    paths=("path",),
    recipients=_RECIPIENTS,
    read_places=_read_places,
)
async def message(ctx: Ctx, args: Args) -> Result:
    """Say or do something in a chat, also in another one, or send a file. A plain answer in this chat needs no call."""
    params = {name: args[name] for name in args if name not in (*_ALWAYS, *_FILES[:-1]) and args[name] is not None}
    asked = {"action": args["action"], "key": ctx.call.key, "params": params, "dryRun": args.get("dryRun") is True}
    if target := args.get("target"):
        params["target"] = target
    if channel := args.get("channel"):
        asked["channel"] = channel
    if (data := await _read_file(ctx, args)) is not None:
        asked["file"] = {"name": _name_file(args), "base64": base64.b64encode(data).decode()}
    answer = await ctx.rpc("channels.message", asked)
    # what a channel answers to other actions are words of people
    is_own = args["action"] in _SAY.split() or asked["dryRun"] or answer.keys() <= {"ok", "channel", "to", "messageId"}
    return Result.json(answer) if is_own else Result.json(answer, source=f"message:{answer.get('channel', '')}")


async def _read_file(ctx: Ctx, args: Args) -> bytes | None:
    """Return the file that is to be sent, as it is now; None where there is none."""
    path, buffer = args.get("path"), args.get("buffer")
    if path and buffer:
        raise ToolError("give path or buffer, not both", code="bad_arguments")
    if buffer:
        text = buffer.partition(",")[2] if buffer[:5].lower() == "data:" else buffer
        if len(text) > _MAX_BYTES * 4 // 3 + 4:  # before it is decoded
            raise ToolError(f"buffer is too large; {_MAX_BYTES:,} bytes is the most", code="too_large")
        try:
            return base64.b64decode("".join(text.split()), validate=True)
        except ValueError:
            raise ToolError("buffer is no base64", code="bad_arguments") from None
    if not path:
        return None
    path = _find_path(path)
    if "://" in path:
        raise ToolError("path is a file of the workspace, no URL; fetch it there first", code="bad_arguments")
    if (size := (await ctx.workspace.stat(path)).size) > _MAX_BYTES:
        raise ToolError(f"{path!r} has {size:,} bytes, and {_MAX_BYTES:,} is the most", code="too_large")
    return await ctx.workspace.read(path)


def _find_path(text: str) -> str:
    return text.removeprefix("MEDIA:").removeprefix("FILE:").strip()


def _name_file(args: Args) -> str:
    name = str(args.get("filename") or args.get("path") or "")
    return name or f"file{mimetypes.guess_extension(str(args.get('contentType') or '')) or ''}"
