"""A gateway on Discord and on Slack that is killed between a message and its answer: it is answered once."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from tests.backends.channels.discord_world import TOKEN, discord
from tests.backends.channels.slack_world import APP_TOKEN, BOT_TOKEN, slack
from tests.backends.exec.shells import until
from tests.doors.chat.test_far import gateway_in
from tests.doors.talking import Say, call, crib_with, talking

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

KEYS = {"discord": f"token: {TOKEN}", "slack": f"botToken: {BOT_TOKEN}, appToken: {APP_TOKEN}"}


@pytest.mark.parametrize(
    ("name", "world", "ann", "chat"), [("discord", discord(), "1", "71"), ("slack", slack(), "UANN", "DUANN")]
)
async def test_a_message_that_a_kill_left_unanswered_is_answered_once(
    tmp_path: Path, name: str, world: AbstractAsyncContextManager[Any], ann: str, chat: str
) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    slow = call("exec", '{"command": "echo begun > begun; sleep 600"}')
    async with world as there:
        own = f"channels: {{{name}: {{apiBase: '{there.base}', owners: ['id:{ann}'], {KEYS[name]}}}}}"
        with talking(slow, Say(text="It is done.")) as server:
            crib = crib_with(server, tmp_path, f"{own}\ntools: {{exec: {{ask: off, security: full}}}}")
            with gateway_in(folder, crib) as process:
                await until(lambda: bool(there.sockets), 120)
                await there.say("do it", by=ann)
                await until(lambda: (folder / "begun").exists(), 120)
                process.kill()
            with gateway_in(folder, crib):
                await until(lambda: "It is done." in there.said(chat), 120)
                await there.say("/status", by=ann)
                await until(lambda: any("messages" in each for each in there.said(chat)), 120)
            assert there.said(chat).count("It is done.") == 1
            assert len(server.asked) == 2
