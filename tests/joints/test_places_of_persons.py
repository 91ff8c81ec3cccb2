"""Whose chat is it? What comes of a job reaches the chat it was made in, as whomever its author writes."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.backends.models.servers import Say
from tests.doors.talking import call
from toolcrib import OWNER, Sender
from toolcrib.channels import HeardMessage

from .asking_world import person_world, until

pytestmark = pytest.mark.anyio

JOB = {"schedule": {"kind": "every", "everyMs": 3_600_000}, "payload": {"kind": "agentTurn", "message": "look"}}
ACTS = [
    call("cron", json.dumps({"action": "add", "job": JOB})),
    *(Say(text=each) for each in ("made", "hello", "the kettle is hot")),
]
KIM: dict[str, Any] = {"dmPolicy": "open", "direct": {"tools": {"allow": ["cron", "message"]}}}


@pytest.mark.parametrize(
    "next_sender",
    [Sender(id="7", name="Kim"), Sender(id="7", name="Kim by the sea", username="kim"), Sender(id="8", name="Kim")],
    ids=["as before", "under another name", "from another address"],
)
@pytest.mark.parametrize("is_new", [False, True], ids=["", "after a restart"])
async def test_what_comes_of_a_job_reaches_the_chat_that_it_was_made_in(
    tmp_path: Path, next_sender: Sender, is_new: bool
) -> None:
    links = {"dmScope": "per-peer", "identityLinks": {"kim": ["box:id:7", "box:id:8"]}}
    async with person_world(tmp_path, *ACTS, config={"box": KIM, "session": links}) as world:

        async def write(sender: Sender, text: str) -> None:
            count, chat = len(world.box.posts), sender.id or ""
            world.box.heard.put_nowait(HeardMessage(id=f"{text}-{count}", chat=chat, sender=sender, text=text))
            await until(lambda: len(world.box.posts) > count)

        await write(Sender(id="7", name="Kim"), "look every hour")
        await write(next_sender, "hi")
        if is_new:
            world.crib.channels.talk.places = await world.crib.channels.store.places()
        (job,) = (await world.ask("cron.list", OWNER))["jobs"]
        told = await world.ask("cron.run", OWNER, id=job["id"], mode="force", wait=True)
        assert told["status"] == "ok"
        assert (world.box.posts[-1].chat, world.box.posts[-1].text) == ("7", "the kettle is hot")
