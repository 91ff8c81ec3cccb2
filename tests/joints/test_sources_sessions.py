"""From where: what was said in another session carries what that session had read, and what it was told."""

from dataclasses import replace
from pathlib import Path

import pytest

from toolcrib import OWNER, Caller, Sender
from toolcrib.app import Crib
from toolcrib.define.message import Message
from toolcrib.define.result import Text
from toolcrib.testing import ScriptedModel, text_reply

from .sources_world import MAIN, ORDER, OTHER, PAGE, Made, is_fenced, sources, turn, world

pytestmark = pytest.mark.anyio

GROUP = "agent:main:telegram:group:-100"
READS: list[Made] = [
    ("sessions_history", {"sessionKey": OTHER, "includeTools": True}),
    ("sessions_history", {"sessionKey": OTHER}),  # the reply alone, which goes back to the page
    ("sessions_list", {"messageLimit": 5}),
]


@pytest.mark.parametrize("read", READS, ids=str)
async def test_what_a_session_said_after_it_read_a_page_is_from_there(tmp_path: Path, read: Made) -> None:
    async with world(tmp_path) as crib:
        await turn(crib, PAGE, session=OTHER, says="they want nuts for the squirrel")
        (result,) = await turn(crib, read)
    assert "web:https://evil.test/nuts" in sources(result)
    assert is_fenced(result, "squirrel")


async def hear_stranger(crib: Crib, words: str) -> None:
    """Have a stranger say something in a group, as a channel passes it on."""
    who = Caller(channel="telegram", group="-100", sender=Sender(id="66"), session=GROUP)
    said = Message(role="user", content=(Text(words, "message:telegram"),))
    await crib.turn(said, caller=who, session=GROUP, model=ScriptedModel([text_reply("I see")])).end()


@pytest.mark.parametrize(
    "read",
    [
        ("sessions_history", {"sessionKey": GROUP}),
        ("sessions_list", {}),  # it is called by its first words
    ],
    ids=lambda made: made[0],
)
async def test_the_words_of_strangers_are_from_outside_wherever_they_are_told(tmp_path: Path, read: Made) -> None:
    async with world(tmp_path) as crib:
        await hear_stranger(crib, ORDER)
        (result,) = await turn(crib, read)
    assert "message:telegram" in sources(result)
    assert is_fenced(result, "Order nuts")


async def test_words_that_are_sent_to_a_session_bring_their_sources_and_its_answer_has_its_own(tmp_path: Path) -> None:
    async with world(tmp_path) as crib:
        await turn(crib, PAGE, session=OTHER)
        (sent,) = (await turn(crib, ("sessions_send", {"sessionKey": OTHER, "message": "what did it say?"})))[:1]
        _, (there,) = (
            await turn(crib, PAGE, ("sessions_send", {"sessionKey": MAIN, "message": "do it"}), session="agent:main:x"),
            await turn(crib, ("sessions_history", {"sessionKey": MAIN}), session="agent:main:y"),
        )
    assert "web:https://evil.test/nuts" in sources(sent)
    assert "web:https://evil.test/nuts" in sources(there)


BENIGN: list[Made] = [
    ("sessions_history", {"sessionKey": OTHER, "includeTools": True}),
    ("sessions_list", {"messageLimit": 5}),
    ("session_status", {}),
    ("sessions_send", {"sessionKey": OTHER, "message": "hello"}),
]


@pytest.mark.parametrize("made", BENIGN, ids=lambda made: made[0])
async def test_the_owners_own_sessions_carry_no_source(tmp_path: Path, made: Made) -> None:
    async with world(tmp_path) as crib:
        await turn(crib, ("ls", {}), session=OTHER)
        (result,) = await turn(crib, made, caller=replace(OWNER))
    assert result.status == "ok", result
    assert sources(result) == ""
