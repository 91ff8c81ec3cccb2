"""Where a question goes: to the direct chat of each who may answer, whole; anywhere else only that one is asked."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.backends.models.servers import Say
from tests.doors.talking import call
from toolcrib import OWNER
from toolcrib.backends.channels import ShippedChannels
from toolcrib.channels import Abilities, Post
from toolcrib.define.errors import ToolError

from .asking_world import PersonWorld, person_world, until

pytestmark = pytest.mark.anyio

OWEN, KIM, PAT, EVE = "1", "7", "2", "8"
GROUP = "-100"
BOX: dict[str, Any] = {
    "owners": ["id:1"],
    "dmPolicy": "open",
    "direct": {"tools": {"allow": ["hold"]}},
    "groups": {"*": {"tools": {"allow": ["hold"]}}},
}


@asynccontextmanager
async def world(folder: Path, *acts: Say, ask: Any = "hold", **config: Any) -> AsyncIterator[PersonWorld]:
    told = {"tools": {"ask": [ask]}, "box": BOX, "roles": {"parents": ["box:id:2"]}, **config}
    async with person_world(folder, *acts, config=told) as at:
        at.held.go.set()
        at.box.abilities = Abilities(actions=("send",), longest=200, knows_keys=True, buttons=True, cards=True)
        yield at


def hold(what: str = "secret.txt") -> Say:
    return call("hold", json.dumps({"what": what}))


def text(said: str) -> Say:
    return Say(text=said)


def said(at: PersonWorld, chat: str) -> list[str]:
    return [each.text for each in at.box.posts if each.chat == chat]


async def asked(at: PersonWorld, chat: str) -> tuple[str, Post]:
    """Return the id of the question that is shown in a chat, and its last post."""
    await until(lambda: any("May it run?" in each for each in said(at, chat)))
    post = next(each for each in reversed(at.box.posts) if each.chat == chat and "May it run?" in each.text)
    return post.text.rpartition(" ")[2], post


async def meet(at: PersonWorld, who: str) -> None:
    """Have somebody write directly, so that there is a place for them."""
    before = len(said(at, who))
    at.box.put(who, "/status")
    await until(lambda: len(said(at, who)) > before)


@pytest.mark.parametrize("group", ["", GROUP])
async def test_the_owner_is_asked_directly_and_nobody_else_reads_what(tmp_path: Path, group: str) -> None:
    async with world(tmp_path, hold(), text("done")) as at:
        await meet(at, OWEN)
        at.box.put(KIM, "go", group)
        id, _ = await asked(at, OWEN)
        await until(lambda: "The owner is asked." in said(at, group or KIM))
        at.box.put(KIM, f"/approve {id}", group)
        at.box.put(OWEN, "/approve", GROUP)
        at.box.put(KIM, "/status", group)
        await until(lambda: sum("is asked" in each for each in said(at, group or KIM)) >= 2)
        assert not any("secret" in each or "hold" in each for each in (*said(at, KIM), *said(at, GROUP)))
        at.box.put(OWEN, f"/approve {id}", GROUP)  # it was not shown there
        await until(lambda: any("not shown here in full" in each for each in said(at, GROUP)))
        assert at.held.begun == 0
        at.box.put(OWEN, f"/approve {id}")
        await until(lambda: at.held.done == 1)


async def test_who_a_rule_names_is_asked_where_they_write_and_the_owner_is_not(tmp_path: Path) -> None:
    async with world(tmp_path, hold(), text("done"), ask={"tool": "hold", "by": ["role:parents"]}) as at:
        await meet(at, OWEN)
        await meet(at, PAT)
        at.box.put(KIM, "go")
        id, _ = await asked(at, PAT)
        assert not any("May it run?" in each for each in said(at, OWEN))
        at.box.put(OWEN, f"/approve {id}")
        at.box.put(PAT, f"/approve {id}")
        await until(lambda: at.held.done == 1)


@pytest.mark.parametrize("first", ["hello", "/status", "/approve {}"])
@pytest.mark.parametrize("who", [OWEN, PAT])
async def test_who_first_writes_after_it_was_asked_is_shown_it_then(tmp_path: Path, who: str, first: str) -> None:
    ask = {"tool": "hold", "by": ["owner", "role:parents"]}
    async with world(tmp_path, hold(), *[text("hello")] * 2, text("done"), ask=ask) as at:
        at.box.put(KIM, "go")
        await until(lambda: "The owner is asked." in said(at, KIM))
        (waiting,) = await at.crib.ask("approvals.list", caller=OWNER)
        at.box.put(EVE, "hello")  # who is not asked
        at.box.put(who, first.format(waiting["id"]))
        id, _ = await asked(at, who)
        assert at.held.begun == 0  # nobody answers what they have not seen
        assert sum("secret.txt" in each for each in said(at, who)) == 1
        at.box.put(who, f"/approve {id}")
        await until(lambda: at.held.done == 1)
        await until(lambda: said(at, EVE))
        assert not any("May it run?" in each for each in said(at, EVE))


@pytest.mark.parametrize("left", [False, True])
async def test_whom_no_chat_reaches_is_not_waited_for(tmp_path: Path, left: bool) -> None:
    async with world(tmp_path, hold(), text("refused"), ask={"tool": "hold", "by": ["role:parents"]}) as at:
        if left:  # who was there, and may not write any more
            await meet(at, PAT)
            at.reload(dmPolicy="allowlist", allowFrom=["id:7"])
        at.box.put(KIM, "go")
        await until(lambda: "refused" in said(at, KIM))
        assert at.held.begun == 0


TWO = ["box:id:2", "box:id:7"]
FEW: list[tuple[list[str], int, list[str], bool]] = [
    (TWO, 2, [PAT], False),
    (["owner", "box:id:2"], 2, [OWEN], False),  # at the terminal and in a chat they are one
    (["device:id:gone"], 1, [PAT], False),
    (TWO, 2, [PAT, KIM], True),
    (["owner", "box:id:2"], 2, [PAT], True),
]


@pytest.mark.parametrize(("by", "count", "met", "are_enough"), FEW)
async def test_only_where_enough_can_be_asked_it_is_waited_for(
    by: list[str], count: int, met: list[str], are_enough: bool, tmp_path: Path
) -> None:
    async with world(tmp_path, hold(), text("refused"), ask={"tool": "hold", "by": by, "count": count}) as at:
        for who in met:
            await meet(at, who)
        at.box.put(EVE, "go")
        if not are_enough:
            await until(lambda: "refused" in said(at, EVE))
            assert at.held.begun == 0
            return
        for who in met:
            id, _ = await asked(at, who)
            at.box.put(who, f"/approve {id}")
        if "owner" in by:
            await until(lambda: any(": pending" in each for each in said(at, PAT)))
            await at.crib.ask("approvals.answer", {"id": id, "answer": "once"}, caller=OWNER)
        await until(lambda: at.held.done == 1)


async def test_a_question_is_shown_whole_and_the_buttons_come_last(tmp_path: Path) -> None:
    what = "\n".join(f"line {at} of what would be done" for at in range(40)) + "\nrm -rf /"
    async with world(tmp_path, hold(what), text("done")) as at:
        await meet(at, OWEN)
        at.box.put(KIM, "go")
        id, last = await asked(at, OWEN)
        posts = [each for each in at.box.posts if each.chat == OWEN]
        assert "rm -rf /" in "".join(each.text for each in posts)
        assert all(len(each.text) <= 200 for each in posts)
        assert [each for each in posts if each.buttons] == [last]
        at.box.put(OWEN, f"/approve {id}")
        await until(lambda: at.held.done == 1)


@pytest.mark.parametrize("bad", ["rm -rf", "line 3 "])
async def test_where_not_all_was_shown_one_can_only_refuse(tmp_path: Path, bad: str) -> None:
    what = "\n".join(f"line {at} of what would be done" for at in range(20)) + "\nrm -rf /"
    async with world(tmp_path, hold(what), text("refused")) as at:
        send = at.box.post

        async def refuse(post: Post, key: str) -> str:
            if bad in post.text:
                raise ToolError("the service refused it", code="failed")
            return await send(post, key)

        at.box.post = refuse  # type: ignore[method-assign]  # a service that does not take every post
        await meet(at, OWEN)
        at.box.put(KIM, "go")
        id, last = await asked(at, OWEN)
        await until(lambda: any("could not be shown here in full" in each for each in said(at, OWEN)))
        at.box.put(OWEN, f"/approve {id}")
        at.box.press(OWEN, last.buttons[0][0].data)
        await until(lambda: sum("not shown here in full" in each for each in said(at, OWEN)) == 2)
        assert at.held.begun == 0
        at.box.press(OWEN, last.buttons[0][1].data)
        await until(lambda: "refused" in said(at, KIM))


async def test_an_answer_may_have_a_signature_below_it(tmp_path: Path) -> None:
    async with world(tmp_path, hold(), text("done")) as at:
        await meet(at, OWEN)
        at.box.put(KIM, "go")
        id, _ = await asked(at, OWEN)
        at.box.put(OWEN, f"/approve {id}\n\nSent from my phone")
        await until(lambda: at.held.done == 1)


async def test_a_button_of_a_question_answers_it_and_any_other_is_text(tmp_path: Path) -> None:
    async with world(tmp_path, hold(), *[text("heard")] * 4, text("done")) as at:
        await meet(at, OWEN)
        at.box.put(KIM, "go")
        id, last = await asked(at, OWEN)
        yes = last.buttons[0][0].data
        assert len(yes.encode()) <= 64
        forged = (f"/approve {id}", f"/approve {id} 1440m", yes.replace(yes.split(":")[2], "0" * 16), "/stop")
        for at_, each in enumerate(forged):
            at.box.press(OWEN, each)
            await until(lambda count=at_ + 1: said(at, OWEN).count("heard") == count)  # type: ignore[misc]
        assert at.held.begun == 0
        at.box.press(KIM, yes)
        at.box.press(OWEN, yes)
        await until(lambda: at.held.done == 1)


@pytest.mark.parametrize(
    "card",
    [
        {"blocks": [{"type": "actions", "elements": [{"type": "button", "value": "/approve 1"}]}]},
        {"blocks": [{"type": "section", "accessory": {"type": "button", "value": "x"}}]},
        {"blocks": [{"type": "section", "accessory": {"type": "static_select", "options": []}}]},
        {"blocks": [{"type": "input", "element": {"type": "plain_text_input"}}]},
        {"blocks": [{"type": "section", "accessory": {"type": "datepicker"}}]},
        {"blocks": [{"type": "context", "elements": [{"type": "overflow", "options": []}]}]},
        {"components": [{"type": 1, "components": [{"type": 2, "custom_id": "/approve"}]}]},
        {"title": "x", "fields": [{"type": 2}]},
    ],
)
async def test_a_card_that_can_be_pressed_is_not_sent(tmp_path: Path, card: Any) -> None:
    async with world(tmp_path) as at:
        for shown in (card, {"title": "a recipe", "blocks": [{"type": "section", "text": {"type": "mrkdwn"}}]}):
            params = {"target": OWEN, "message": "look", "card": shown}
            told = at.crib.ask("channels.message", {"action": "send", "key": str(shown)[:200], "channel": "box",
                               "params": params, "dryRun": True}, caller=OWNER)  # fmt: skip
            assert (await told)["verdict"] == ("deny" if shown is card else "allow")


@pytest.mark.parametrize("spell", ["{}", " {}", "00{}", "x/{}"])
@pytest.mark.parametrize("action", ["edit", "delete"])
async def test_what_shows_a_question_that_waits_is_not_changed(tmp_path: Path, action: str, spell: str) -> None:
    async with world(tmp_path, hold(), text("done")) as at:
        actions, done = ("send", "edit", "delete"), list[str]()

        async def act(action: str, chat: str, params: Any) -> dict[str, Any]:
            done.append(params["messageId"])
            return {}

        async def post(post: Post, key: str) -> str:
            at.box.posts.append(post)
            return str(len(at.box.posts))

        at.box.abilities = Abilities(actions=actions, longest=200, buttons=True)
        at.box.act, at.box.post = act, post  # type: ignore[method-assign]  # a service that numbers and changes posts

        async def change(message: int) -> None:
            params = {"target": OWEN, "messageId": spell.format(message), "message": "May ls run?"}
            asked = {"action": action, "key": f"{message}-{len(done)}", "channel": "box", "params": params}
            await at.crib.ask("channels.message", asked, caller=OWNER)

        await meet(at, OWEN)
        at.box.put(KIM, "go")
        id, _ = await asked(at, OWEN)
        at.box.put(OWEN, "/status")  # behind the question
        await until(lambda: any("at work" in each or "idle" in each for each in said(at, OWEN)[3:]))
        shown = [n for n, each in enumerate(at.box.posts, 1) if each.chat == OWEN and "messages, " not in each.text]
        for message in shown:
            with pytest.raises(ToolError, match="shows a question that waits"):
                await change(message)
        await change(1)  # what was said before
        at.box.put(OWEN, f"/approve {id}")
        await until(lambda: at.held.done == 1)
        await change(shown[0])
        assert len(done) == 2


async def test_where_signs_are_markup_a_question_stands_between_marks_that_nothing_in_it_ends(tmp_path: Path) -> None:
    what = "||rm -rf /|| [ls](https://x.test) ```\n~~not~~ ````"
    async with world(tmp_path, hold(what), text("done")) as at:
        at.box.abilities = Abilities(longest=2_000, knows_keys=True, buttons=True, markup=True)
        await meet(at, OWEN)
        at.box.put(KIM, "go")
        await asked(at, OWEN)
        parts = [each for each in said(at, OWEN)[1:] if "May it run?" not in each]
        inner = [each.removeprefix("```\n").removesuffix("\n```") for each in parts]
        assert [each for each in parts if each[:4] + each[-4:] != "```\n\n```"] == []
        assert "```" not in " ".join(inner)
        assert "||rm -rf /|| [ls](https://x.test) ```" in "".join(inner)


@pytest.mark.parametrize("name", ["discord", "slack", "whatsapp", "telegram", "irc", "matrix", "xmpp", "email"])
def test_which_services_read_signs_as_markup_is_known(name: str) -> None:
    assert ShippedChannels()[name].abilities.markup is (name in ("discord", "slack", "whatsapp"))


async def test_a_group_is_not_told_who_has_answered(tmp_path: Path) -> None:
    async with world(tmp_path, hold(), text("done")) as at:
        await meet(at, OWEN)
        at.box.put(KIM, "go", GROUP)
        id, _ = await asked(at, OWEN)
        at.box.put(OWEN, f"/approve {id}")
        await until(lambda: at.held.done == 1)
        at.box.put(OWEN, f"/deny {id}", GROUP)
        await until(lambda: "that question is settled already" in said(at, GROUP))
        at.box.put(OWEN, f"/deny {id}")
        await until(lambda: any("settled already: spent by" in each for each in said(at, OWEN)))


@pytest.mark.parametrize("data", ["toolcrib:0123456789abcdef:0123456789abcdef:approve", "toolcrib:x", " toolcrib:"])
async def test_no_button_of_a_model_looks_like_one_of_ours(tmp_path: Path, data: str) -> None:
    async with world(tmp_path) as at:
        params = {"target": OWEN, "message": "look", "buttons": [[{"text": "a", "callback_data": data}]]}
        asked = {"action": "send", "key": "k", "channel": "box", "params": params, "dryRun": True}
        assert (await at.crib.ask("channels.message", asked, caller=OWNER))["verdict"] == "deny"


async def test_in_a_group_everybody_stops_what_is_theirs_and_the_owner_begins_anew(tmp_path: Path) -> None:
    async with world(tmp_path, hold(), text("done"), text("done"), ask="exec") as at:
        at.held.go.clear()
        at.box.put(KIM, "go", GROUP)
        await until(lambda: at.held.begun == 1)
        at.box.put(EVE, "/new", GROUP)
        await until(lambda: any("only the owner" in each for each in said(at, GROUP)))
        at.box.put(EVE, "/stop", GROUP)
        await until(lambda: "nothing runs here" in said(at, GROUP))
        assert at.held.stopped == 0
        at.box.put(KIM, "/stop", GROUP)
        await until(lambda: at.held.stopped == 1)


async def test_a_command_for_another_bot_is_none(tmp_path: Path) -> None:
    async with world(tmp_path, hold(), text("done"), text("heard"), ask="exec") as at:
        at.held.go.clear()
        at.box.put(KIM, "go", GROUP)
        await until(lambda: at.held.begun == 1)
        at.box.put(KIM, "/stop@otherbot", GROUP)
        at.box.put(KIM, "/status", GROUP)
        await until(lambda: any("at work" in each for each in said(at, GROUP)))
        assert at.held.stopped == 0
        at.held.go.set()
        await until(lambda: at.held.done == 1)


async def test_a_place_is_known_after_a_restart(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    async with world(folder) as at:
        await meet(at, OWEN)
        known = await at.crib.channels.store.list_direct()
    assert [(each.channel, each.id, each.chat) for each in known] == [("box", OWEN, OWEN)]
