"""telegram_chat: what a chat of Telegram is, how many are in it, and who looks after it."""

from typing import Annotated

from toolcrib import Ctx, Result, tool

from ._read import read_channel


@tool(effects={"read", "network"}, requires=("channel:telegram",), recipients=("chatId",))
async def telegram_chat(
    ctx: Ctx,
    chatId: Annotated[str | None, "the chat, like -1001234; this one when left out"] = None,  # noqa: N803  as `message` has it
) -> Result:
    """Tell what a Telegram chat is: its title, how many members, and its administrators."""
    return await read_channel(ctx, "telegram", "chat", chatId)
