"""Where an action of `message` goes: which have a target, how it is named, and what is another chat. Pure functions.

chat      the action is done in a chat: send, react, pin
room      it is about a room, and done to it: channel-edit
none      it takes no target: search, kick
"""

from collections.abc import Mapping
from math import isfinite
from typing import Any, Literal, NamedTuple

from toolcrib.config.settings import MessageSettings
from toolcrib.define.display import quote_short
from toolcrib.define.errors import ToolError

TargetMode = Literal["chat", "room", "none"]

_MODES: Mapping[TargetMode, str] = {
    "chat": """
        send poll react reactions read edit unsend reply sendWithEffect renameGroup setGroupIcon addParticipant
        removeParticipant leaveGroup sendAttachment delete pin unpin list-pins permissions thread-create thread-reply
        sticker""",
    "room": "channel-info channel-edit channel-delete channel-move",
    "none": """
        broadcast thread-list search sticker-search member-info role-info emoji-list emoji-upload sticker-upload
        role-add role-remove channel-list channel-create category-create category-edit category-delete voice-status
        event-list event-create timeout kick ban""",
}
ACTIONS: Mapping[str, TargetMode] = {name: mode for mode, names in _MODES.items() for name in names.split()}
_CHAT_NAMES = ("chatGuid", "chatIdentifier", "chatId")
_GROUP_ACTIONS = ("react", "renameGroup", "setGroupIcon", "addParticipant", "removeParticipant", "leaveGroup")
_ALIASES = {"edit": ("messageId",), "unsend": ("messageId",), **dict.fromkeys(_GROUP_ACTIONS, _CHAT_NAMES)}
_TARGET_CHARS = 1_024


class CurrentChat(NamedTuple):
    """The chat in which a turn is answered."""

    channel: str
    chat: str


def needs_target(action: str) -> bool:
    """Tell whether an action is done somewhere; one that nobody knows is."""
    return ACTIONS.get(action) != "none"


def has_target(action: str, params: Mapping[str, Any]) -> bool:
    """Tell whether the parameters say where."""
    if any(_read_words(params.get(name)) for name in ("to", "channelId")):
        return True
    values = (params.get(name) for name in _ALIASES.get(action, ()))
    return any(_read_words(each) or _is_number(each) for each in values)


def apply_target(action: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters with `target` under the name that the action reads: `to`, or `channelId` of a room."""
    mode = ACTIONS.get(action, "none")
    if isinstance(params.get("to"), str) or (mode != "none" and isinstance(params.get("channelId"), str)):
        raise ToolError("say where in target, and nowhere else", code="bad_arguments")
    target = _read_words(params.get("target"))
    if not target:
        return dict(params)
    if mode == "none":
        raise ToolError(f"{action} takes no target: leave it out", code="bad_arguments")
    return {**params, "to" if mode == "chat" else "channelId": target}


def take_target(action: str, params: Mapping[str, Any], current: str = "") -> tuple[str, dict[str, Any]]:
    """Return where an action goes, "" where it takes no target, and its other parameters; else it is `current`."""
    if not needs_target(action):
        return "", {key: value for key, value in apply_target(action, params).items() if key != "target"}
    names = ("target", "to", "channelId", *_CHAT_NAMES)
    given = next((str(params[name]).strip() for name in names if str(params.get(name) or "").strip()), "")
    target = given or current
    if not target:
        raise ToolError(f"{action} needs a target: the id of a chat", code="bad_arguments")
    if not target.isprintable() or " " in target or target == "*" or len(target) > _TARGET_CHARS:
        raise ToolError(f"{quote_short(target)} is no chat; target is the id of one", code="bad_arguments")
    return target, {key: value for key, value in params.items() if key not in names}


def check_context(
    action: str,
    channel: str,
    target: str,
    current: CurrentChat | None,
    settings: MessageSettings,
    *,
    owner: bool = True,
) -> bool:
    """Return whether an action goes to another chat than the current one; raise ToolError where it must not.

    Whoever is not the owner stays in their own chat, unless the configuration says otherwise in so many words.
    """
    rules = settings.cross_context
    if current is None:
        if owner:
            return False
        raise ToolError(f"{action} is refused: only the owner writes to people from outside of a chat", code="denied")
    if (channel, target) == current:
        return False
    is_far, within = channel != current.channel, rules.allow_within_provider
    if owner and (settings.allow_cross_context_send or (not is_far and within is not False)):
        return True
    if is_far and not rules.allow_across_providers:
        what = f"the action {action} on {channel} is refused to a chat on {current.channel}"
        raise ToolError(f"{what}; tools.message.crossContext.allowAcrossProviders permits it", code="denied")
    if within or (is_far and owner):
        return True
    what = f"the action {action}{f' in {quote_short(target)}' if target else ''} is refused"
    where = f"a conversation in {quote_short(current.chat)} on the channel {current.channel} stays there"
    raise ToolError(f"{what}: {where}; tools.message.crossContext.allowWithinProvider permits more", code="denied")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _read_words(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""
