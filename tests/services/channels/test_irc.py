"""An assistant on a real IRC server, and one with accounts: strangers get a code only, groups their own belts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.backends.channels.irc_world import irc_server, person
from tests.backends.exec.shells import until
from tests.joints.test_whose_chat import IrcNet
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


@asynccontextmanager
async def accounts_of(folder: Path, **own: Any) -> AsyncIterator[IrcNet]:
    """Open an assistant where Ann, who owns it, and Bob have an account, and Mallory has Ann's for a nick."""
    net = IrcNet(accounts={"ann": "ann.a", "bob": "bob.b"})
    for nick, who in (("ann", "ann"), ("bob", "bob"), ("ann.a", "mallory")):
        net.take(nick, who, f"{who}@home.test")
    server = await asyncio.start_server(net.serve, "127.0.0.1", 0)
    async with server, assistant(folder, server.sockets[0].getsockname()[1], owners=["id:ann.a"], **own):
        yield net


async def until_told(net: IrcNet, to: str, *words: str) -> str:
    """Return the first line to somebody that holds these words."""

    def told() -> list[str]:
        return [text for whom, text in net.said if whom == to and all(word in text for word in words)]

    await until(lambda: bool(told()))
    return told()[0]


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


async def test_who_is_let_in_is_known_by_id_and_never_by_a_nick(tmp_path: Path) -> None:
    own = {"allowFrom": [f"id:{ANN}"], "dmPolicy": "allowlist"}
    with irc_server(tmp_path) as port:
        async with person(port, "ann") as ann, person(port, "ann_") as twin, assistant(tmp_path, port, **own):
            ann.say("crib", "/why exec")
            assert "exec: deny" in (await ann.hears("exec")).params[1]
            twin.say("crib", "/why exec")
            await until_answered(tmp_path, 2)
            assert await twin.is_silent()


async def test_the_owner_is_known_by_account_and_never_by_a_nick(tmp_path: Path) -> None:
    async with accounts_of(tmp_path, dmPolicy="allowlist") as net:
        net.say("ann", "/why exec")
        assert "exec: allow" in await until_told(net, "ann", "exec:")
        net.say("ann.a", "/why exec")
        await until_answered(tmp_path, 2)
        assert {whom for whom, _ in net.said} == {"ann"}


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


async def test_a_question_of_a_group_is_asked_in_the_owners_own_chat_and_only_they_answer_it(tmp_path: Path) -> None:
    async with accounts_of(tmp_path, groups={"#shop": {"tools": {"allow": ["exec"]}}}) as net:
        net.say("ann", "/status")
        await until_told(net, "ann", "messages")
        net.say("bob", "crib: run touch made", "#shop")
        id = (await until_told(net, "ann", "/approve")).rpartition(" ")[2]
        await until_told(net, "#shop", "The owner is asked")
        net.say("ann.a", f"crib: /approve {id}", "#shop")
        await until_told(net, "#shop", "no question")
        net.say("ann", f"crib: /approve {id}", "#shop")
        await until_told(net, "#shop", "not shown here in full")
        assert not (tmp_path / "work" / "made").exists()
        net.say("ann", f"/approve {id}")
        await until_told(net, "ann", "exec: allowed")
        await until(lambda: (tmp_path / "work" / "made").exists())
        assert not any("touch" in text for whom, text in net.said if whom != "ann")
        await until_answered(tmp_path, 5)


async def test_a_message_that_came_before_a_restart_is_answered_after_it_and_once(tmp_path: Path) -> None:
    early = HeardMessage(id="1", chat="ann", sender=Sender(id=ANN), text="hello")
    own = {"allowFrom": [f"id:{ANN}"]}
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
