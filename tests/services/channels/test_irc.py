"""An assistant on a real IRC server: strangers get a code and nothing else, guests and groups their own belts."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.backends.channels.irc_world import irc_server, person
from tests.backends.exec.shells import until
from toolcrib.app import Crib
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.define.caller import Sender
from toolcrib.define.channel import HeardMessage
from toolcrib.define.errors import ToolError

from .assistants import assistant_on

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

SHOP = {"join": ["#shop"], "groups": {"#shop": {"tools": {"allow": ["read", "ls"]}}}}
ANN = "~ann!~ann@127.0.0.1"  # as the server itself calls her


def assistant(folder: Path, port: int, **own: Any) -> AbstractAsyncContextManager[Crib]:
    settings = {"host": "127.0.0.1", "port": port, "tls": False, "nick": "crib", **own}
    return assistant_on("irc", folder, settings)


async def test_a_stranger_gets_a_code_once_and_a_paired_person_is_answered(tmp_path: Path) -> None:
    with irc_server(tmp_path) as port:
        async with person(port, "ann") as ann, assistant(tmp_path, port) as crib:
            ann.say("crib", "list .")
            told = await ann.hears("with the code")
            ann.say("crib", "list .")
            (waits,) = (await crib.channels.people())["people"]
            assert waits["sender"] == ANN
            assert waits["code"] in told.params[1]
            await crib.channels.pair(waits["code"])
            await ann.hears("You are let in now")
            ann.say("crib", "hello")
            await ann.hears("I know six verbs")
            await crib.channels.unpair("irc", ANN)
            ann.say("crib", "hello")
            await ann.hears("with the code")


async def test_a_code_is_spent_by_its_first_use_and_no_other_is_taken(tmp_path: Path) -> None:
    with irc_server(tmp_path) as port:
        async with person(port, "ann") as ann, assistant(tmp_path, port) as crib:
            ann.say("crib", "hello")
            await ann.hears("with the code")
            (waits,) = (await crib.channels.people())["people"]
            with pytest.raises(ToolError, match="nobody waits with the code"):
                await crib.channels.pair("AAAAAAAA")
            await crib.channels.pair(waits["code"].lower())
            with pytest.raises(ToolError, match="nobody waits with the code"):
                await crib.channels.pair(waits["code"])


@pytest.mark.parametrize("own", [{"dmPolicy": "disabled"}, {"dmPolicy": "allowlist", "allowFrom": ["bob"]}])
async def test_whoever_is_not_let_in_hears_nothing(tmp_path: Path, own: dict[str, Any]) -> None:
    with irc_server(tmp_path) as port:
        async with person(port, "ann") as ann, person(port, "bob") as bob, assistant(tmp_path, port, **own):
            ann.say("crib", "hello")
            bob.say("crib", "hello")  # a nick that is like the id of somebody who is listed
            await until_answered(tmp_path, 2)
            assert await ann.is_silent()
            assert await bob.is_silent()


async def test_the_owner_is_known_by_id_and_never_by_a_nick(tmp_path: Path) -> None:
    own = {"owners": [f"id:{ANN}"], "dmPolicy": "allowlist"}
    with irc_server(tmp_path) as port:
        async with person(port, "ann") as ann, person(port, "ann_") as twin, assistant(tmp_path, port, **own):
            ann.say("crib", "/why exec")
            assert "exec: allow" in (await ann.hears("exec")).params[1]
            twin.say("crib", "/why exec")
            await until_answered(tmp_path, 2)
            assert await twin.is_silent()


async def test_a_group_is_answered_when_it_is_spoken_to_and_has_its_own_belt(tmp_path: Path) -> None:
    with irc_server(tmp_path) as port:
        async with person(port, "ann", "#shop") as ann, assistant(tmp_path, port, **SHOP):
            await ann.hears("#shop", verb="JOIN")
            ann.say("#shop", "just talking")
            ann.say("#shop", "crib: list .")
            assert (await ann.hears()).params[0] == "#shop"
            ann.say("#shop", "crib: /why exec")
            assert "exec: deny" in (await ann.hears("exec:")).params[1]
            await until_answered(tmp_path, 3)


async def test_a_group_that_nobody_listed_is_not_answered(tmp_path: Path) -> None:
    with irc_server(tmp_path) as port:
        async with person(port, "ann", "#den") as ann, assistant(tmp_path, port, join=["#den"]):
            await ann.hears("#den", verb="JOIN")
            ann.say("#den", "crib: hello")
            await until_answered(tmp_path, 1)
            assert await ann.is_silent()


async def test_a_question_is_asked_in_the_chat_and_only_the_right_person_answers_it(tmp_path: Path) -> None:
    own = {**SHOP, "owners": [f"id:{ANN}"], "groups": {"#shop": {"tools": {"allow": ["exec"]}}}}
    with irc_server(tmp_path) as port:
        async with (
            person(port, "ann", "#shop") as ann,
            person(port, "bob", "#shop") as bob,
            assistant(tmp_path, port, **own),
        ):
            await bob.hears("#shop", verb="JOIN")
            bob.say("#shop", "crib: run touch made")
            id = (await bob.hears("/approve")).params[1].rpartition(" ")[2]
            mallory = f"crib: /approve {id}"
            async with person(port, "mallory", "#shop") as stranger:
                stranger.say("#shop", mallory)
                assert "no question" in (await stranger.hears("question")).params[1]
            ann.say("#shop", f"crib: /approve {id}")
            await ann.hears("exec: allowed")
            await until(lambda: (tmp_path / "work" / "made").exists())
            await until_answered(tmp_path, 3)


async def test_a_message_that_came_before_a_restart_is_answered_after_it_and_once(tmp_path: Path) -> None:
    early = HeardMessage(id="1", chat="ann", sender=Sender(id=ANN), text="hello")
    own = {"owners": [f"id:{ANN}"]}
    with irc_server(tmp_path) as port:
        async with person(port, "ann") as ann:
            async with assistant(tmp_path, port, **own) as crib:
                await crib.channels.close()
                assert await crib.channels.store.hear("irc", [early, early], "") == 1
            async with assistant(tmp_path, port, **own) as crib:
                await ann.hears("I know six verbs")
                await until_answered(tmp_path, 1)
                await until_said(tmp_path)
            async with assistant(tmp_path, port, **own) as crib:
                assert await crib.channels.store.hear("irc", [early], "") == 0
                ann.say("crib", "/status")
                while "messages" not in (line := (await ann.hears()).params[1]):
                    assert "I know six verbs" not in line


def ask(folder: Path, sql: str) -> int:
    file = SqliteFile(folder / "state" / "crib.db", check=False)
    try:
        return int(str(file.transact(lambda db: db.execute(sql).fetchall(), writes=False)[0][0]))
    finally:
        file.close()


async def until_answered(folder: Path, count: int) -> None:
    """Wait until so many messages are done with, answered or not."""
    await until(lambda: ask(folder, "SELECT count(*) FROM heard WHERE answered = 1") >= count)


async def until_said(folder: Path) -> None:
    """Wait until all that was to be said is said."""
    await until(lambda: ask(folder, "SELECT count(*) FROM posts WHERE state != 'sent'") == 0)
