"""Who may answer: the owner, unless a rule says by whom; never whoever the call is made for."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from toolcrib import OWNER, Caller, Plugin, Sender, tool
from toolcrib.app import Crib
from toolcrib.define.approval import Question
from toolcrib.define.errors import ConfigError, ToolError
from toolcrib.define.event import ToolFinished
from toolcrib.define.message import Call
from toolcrib.define.result import Result, Text
from toolcrib.testing import FakeApprover, ScriptedModel, call_reply, text_reply

pytestmark = pytest.mark.anyio

SECONDS = 30


def on(id: str, channel: str = "telegram", **more: Any) -> Caller:
    return Caller(channel=channel, sender=Sender(id=id), **more)


OWEN, PAT, PIA, KIM, EVE = (on(each) for each in ("1", "2", "3", "7", "8"))
MAY = {"toolsBySender": {"*": {"allow": ["order", "deploy", "exec"]}}}
HOME = {
    "owners": ["telegram:id:1"],
    "roles": {"parents": ["telegram:id:2", "telegram:id:3"], "kids": ["telegram:id:7"]},
    "people": {"pat": {"is": ["telegram:id:2", "irc:id:pat"]}},
    "channels": {name: {"direct": MAY, "groups": {"*": MAY}} for name in ("telegram", "irc")},
}


@tool(effects={"write"})
async def order(item: str = "nut") -> str:
    """Order something."""
    return item


@tool(effects={"execute"})
async def deploy(item: str = "nut") -> str:
    """Run something."""
    return item


class Home:
    """A home where rules ask, and whoever is asked."""

    def __init__(self, crib: Crib) -> None:
        self.crib = crib

    @asynccontextmanager
    async def asking(self, caller: Caller, name: str = "order", **args: Any) -> Any:
        """Make a call, and give its question and what comes of it."""
        asked: asyncio.Queue[Question] = asyncio.Queue()
        detach = self.crib.approvals.on_question(lambda q: asked.put_nowait(q) if q.state == "pending" else None)
        running = asyncio.create_task(self.crib.belt(caller).call(name, args))
        try:
            async with asyncio.timeout(SECONDS):
                yield await asked.get(), running
        finally:
            detach()
            running.cancel()
            await asyncio.wait([running])

    async def answer(self, by: Caller, question: Question, said: Any = "once", **how: Any) -> str:
        """Answer, and return the state of the question, or the code of the refusal."""
        try:
            return str((await self.crib.approvals.answer(by, question.id, said, **how))["state"])
        except ToolError as error:
            return error.code


@asynccontextmanager
async def home(folder: Path, *asks: Any, **config: Any) -> Any:
    told = {**HOME, "tools": {"ask": list(asks)}, **config}
    async with toolcrib.open(told, tools=[order, deploy], state=folder / "state", env={}) as crib:
        yield Home(crib)


Case = tuple[Any, Caller, Caller, str]
BY_PARENTS = {"tool": "order", "by": ["role:parents"]}
CASES: list[Case] = [
    # the owner's, about everybody's calls and their own
    ("order", OWEN, OWEN, "allowed"),
    ("order", OWEN, OWNER, "allowed"),
    ("order", KIM, OWEN, "allowed"),
    ("order", KIM, KIM, "not_found"),
    ("order", KIM, PAT, "not_found"),
    ("order", on("7", group="-1"), on("7"), "not_found"),
    ("order", OWNER, replace(OWEN, parents=("main",)), "not_found"),
    # by whom a rule says, and by nobody else
    (BY_PARENTS, KIM, PAT, "allowed"),
    (BY_PARENTS, KIM, PIA, "allowed"),
    (BY_PARENTS, KIM, on("pat", "irc"), "allowed"),
    (BY_PARENTS, KIM, OWEN, "denied"),
    (BY_PARENTS, KIM, OWNER, "denied"),
    (BY_PARENTS, KIM, KIM, "not_found"),
    (BY_PARENTS, KIM, EVE, "not_found"),
    (BY_PARENTS, KIM, replace(PAT, parents=("main",)), "not_found"),
    (BY_PARENTS, OWEN, OWEN, "denied"),
    ({"tool": "order", "by": ["owner", "role:parents"]}, KIM, OWEN, "allowed"),
    ({"tool": "order", "by": ["telegram:id:8"]}, KIM, EVE, "allowed"),
    ({"tool": "order", "by": ["telegram:id:8"]}, KIM, on("8", "irc"), "not_found"),
    # never whom the call is made for, but who is written out
    (BY_PARENTS, PAT, PAT, "denied"),
    (BY_PARENTS, PAT, on("pat", "irc"), "denied"),
    (BY_PARENTS, on("pat", "irc"), PAT, "denied"),
    (BY_PARENTS, PAT, PIA, "allowed"),
    ({"tool": "order", "by": ["role:parents", "telegram:id:2"]}, PAT, PAT, "allowed"),
    ({"tool": "order", "by": ["telegram:id:2"]}, replace(PAT, parents=("main",)), PAT, "allowed"),
    (BY_PARENTS, replace(PAT, parents=("main",)), PAT, "denied"),
    ({"tool": "deploy", "by": ["telegram:id:2"]}, PAT, PAT, "denied"),
    ({"tool": "deploy", "by": ["telegram:id:2"]}, KIM, PAT, "allowed"),
    ({"tool": "deploy", "by": ["owner", "telegram:id:1"]}, OWEN, OWEN, "allowed"),
    ({"tool": "deploy", "by": ["telegram:id:1"]}, OWEN, OWEN, "denied"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "asker", "by", "state"), CASES)
async def test_a_yes_counts_from_whom_the_rule_names(
    tmp_path: Path, rule: Any, asker: Caller, by: Caller, state: str
) -> None:
    name = rule if isinstance(rule, str) else rule["tool"]
    async with home(tmp_path, rule) as at, at.asking(asker, name) as (question, running):
        assert await at.answer(by, question) == state
        if state == "allowed":
            assert (await running).status == "ok"
        else:
            assert not running.done()


PAGE = Caller(channel="device", sender=Sender(id="d1"), owner=True)
BOTH = ["role:parents", "owner"]


@pytest.mark.parametrize("asker", [OWNER, PAGE, OWEN, replace(OWNER, parents=("main",))])
@pytest.mark.parametrize(
    ("name", "by", "state"),
    [
        ("order", ["role:parents"], "denied"),
        ("deploy", ["role:parents"], "denied"),
        ("deploy", ["telegram:id:1"], "denied"),
        ("order", ["telegram:id:1"], "allowed"),
        ("deploy", BOTH, "allowed"),
    ],
)
async def test_an_owner_who_may_be_any_of_them_is_no_other_person_to_their_own_call(
    tmp_path: Path, asker: Caller, name: str, by: list[str], state: str
) -> None:
    roles = {"parents": ["telegram:id:1", "telegram:id:3"]}
    async with (
        home(tmp_path, {"tool": name, "by": by}, roles=roles) as at,
        at.asking(asker, name) as (question, running),
    ):
        assert await at.answer(OWEN, question) == state
        if state == "denied" and "role:parents" in by:
            assert await at.answer(PIA, question) == "allowed"
        if state == "allowed" or "role:parents" in by:
            assert (await running).status == "ok"


@pytest.mark.parametrize("by", [PAT, OWEN, OWNER])
async def test_anybody_who_is_asked_and_the_owner_may_refuse(tmp_path: Path, by: Caller) -> None:
    async with home(tmp_path, BY_PARENTS) as at, at.asking(KIM) as (question, running):
        assert [each["id"] for each in await at.crib.approvals.waiting(by)] == [question.id]
        assert await at.answer(by, question, "no") == "denied"
        assert (await running).details["code"] == "not_approved"


async def test_so_many_persons_say_yes_as_the_rule_counts(tmp_path: Path) -> None:
    rule = {"tool": "order", "by": ["role:parents", "owner"], "count": 2}
    async with home(tmp_path, rule) as at, at.asking(KIM) as (question, running):
        for by in (PAT, PAT, on("pat", "irc")):
            assert await at.answer(by, question) == "pending"
        assert not running.done()
        assert await at.answer(OWNER, question) == "allowed"
        assert (await running).status == "ok"


async def test_the_owner_at_two_places_is_one_person(tmp_path: Path) -> None:
    rule, two = {"tool": "order", "count": 2}, {"owners": ["telegram:id:1", "telegram:id:4"]}
    async with home(tmp_path, rule, **two) as at, at.asking(KIM) as (question, _):
        for by in (OWNER, OWEN, Caller(channel="device", sender=Sender(id="d1"), owner=True)):
            assert await at.answer(by, question) == "pending"
        assert await at.answer(on("4"), question) == "allowed"


async def test_where_several_rules_ask_each_is_satisfied(tmp_path: Path) -> None:
    rules = [BY_PARENTS, "order", {"tool": "effect:write", "when": {"item": "nut"}, "by": ["telegram:id:8"]}]
    async with home(tmp_path, *rules) as at, at.asking(KIM) as (question, running):
        assert [await at.answer(by, question) for by in (PAT, PIA, EVE)] == ["pending"] * 3
        assert await at.answer(OWNER, question) == "allowed"
        assert (await running).status == "ok"


@pytest.mark.parametrize("said", ["lasting", "session"])
async def test_a_yes_that_lasts_is_the_owners_alone(tmp_path: Path, said: str) -> None:
    rule = {"tool": "order", "by": ["owner", "role:parents"]}
    caller = replace(KIM, session="agent:main:telegram:dm:7")
    async with home(tmp_path, rule) as at, at.asking(caller, item="nut") as (question, running):
        assert await at.answer(PAT, question, said) == "denied"
        assert await at.answer(PAT, question, "lasting", when={"item": "nut"}) == "denied"
        assert await at.answer(OWEN, question, said) == "allowed"
        await running
        assert await at.crib.approvals.grants(PAT) == []
        (grant,) = await at.crib.approvals.grants(OWEN)
        assert (await at.crib.belt(caller).call("order", {"item": "nut"})).status == "ok"
        with pytest.raises(ToolError, match="no grant"):
            await at.crib.approvals.revoke(PAT, grant["id"])


async def test_no_yes_lasts_where_others_or_several_are_asked(tmp_path: Path) -> None:
    rule = {"tool": "order", "count": 2, "by": ["owner", "role:parents"]}
    async with home(tmp_path, rule) as at, at.asking(KIM) as (question, _):
        assert await at.answer(OWNER, question, "lasting") == "denied"
        assert await at.answer(OWNER, question, "lasting", when={"item": "nut"}) == "denied"
        assert question.lasting == ()
        assert "2 of them" in question.shown


STANDING = [{"tool": "order", "when": {"item": "n*"}}, {"tool": "order", "args": {"item": "nut"}}]


@pytest.mark.parametrize("entry", STANDING)
@pytest.mark.parametrize("rule", [BY_PARENTS, {"tool": "order", "count": 2, "by": ["owner", "role:parents"]}])
async def test_what_others_are_asked_no_entry_for_good_answers(tmp_path: Path, entry: Any, rule: Any) -> None:
    async with home(tmp_path, rule, approvals={"always": [entry]}) as at, at.asking(OWNER, item="nut") as (_, running):
        assert not running.done()
    async with home(tmp_path / "two", "order", approvals={"always": [entry]}) as at:
        assert (await at.crib.belt(OWNER).call("order", {"item": "nut"})).status == "ok"


@pytest.mark.parametrize(
    ("by", "asked"), [(["owner"], True), (["role:parents"], False), (["owner", "role:parents"], False)]
)
async def test_a_programs_approver_speaks_for_the_owner_alone(tmp_path: Path, by: list[str], asked: bool) -> None:
    told = {**HOME, "tools": {"ask": [{"tool": "order", "by": by}]}}
    approver = FakeApprover(True)
    async with toolcrib.open(told, tools=[order], state=tmp_path, approver=approver, env={}) as crib:
        result = await crib.belt(KIM).call("order", {})
    assert bool(approver.asked) is asked
    assert result.status == ("ok" if asked else "error")


def wrong(ask: Any, **config: Any) -> str:
    with pytest.raises(ConfigError) as error:
        toolcrib.open({**HOME, "tools": {"ask": [ask]}, **config}, env={}, import_plugins=False)
    return str(error.value)


TWO = {"channels": {"irc": {"host": "irc.test", "nick": "c"}, "telegram": {"botToken": "1:x"}}}


@pytest.mark.parametrize(
    ("ask", "config", "said"),
    [
        ({"tool": "order", "by": []}, {}, "tools.ask[0].by"),
        ({"tool": "order", "by": ["bob"]}, {}, "nobody who can answer"),
        ({"tool": "order", "by": ["username:bob"]}, {}, "nobody who can answer"),
        ({"tool": "order", "by": ["*"]}, {}, "nobody who can answer"),
        ({"tool": "order", "by": ["role:aunts"]}, {}, "there is no role"),
        ({"tool": "order", "by": ["irc:id:~eve!e@host"]}, {}, "nobody vouches for it"),
        ({"tool": "order", "by": ["role:odd"]}, {"roles": {"odd": ["email:id:~a@b.c"]}}, "nobody vouches for it"),
        ({"tool": "order", "by": ["id:7"]}, TWO, "irc:id:7 or telegram:id:7"),
        ({"tool": "order", "count": 2}, {}, "by holds 1"),
        ({"tool": "order", "by": ["role:parents", "telegram:id:2", "irc:id:pat"], "count": 3}, {}, "by holds 2"),
        ({"tool": "order", "by": ["telegram:id: "]}, {}, "nobody who can answer"),
        ({"tool": "order", "count": 0}, {}, "tools.ask[0].count"),
        ({"tool": "order", "when": {}}, {}, "names no argument"),
        ({"tool": "order", "taint": "web", "when": {"taint": "*"}}, {}, "write it once"),
        ("order", {"tools": {"exec": {"by": ["role:aunts"]}}}, "tools.exec.by: there is no role"),
        ("order", {"agents": {"dev": {"tools": {"exec": {"count": 3}}}}}, "agents.dev.tools.exec.count"),
        (
            "order",
            {"channels": {"app": {"direct": {"toolsBySender": {"*": {"ask": [{"tool": "order", "by": ["x"]}]}}}}}},
            "nobody who can answer",
        ),
    ],
)  # fmt: skip
def test_whoever_cannot_answer_is_refused_where_it_is_written(ask: Any, config: Any, said: str) -> None:
    assert said in wrong(ask, **config)


async def test_commands_are_answered_by_whom_their_rules_name(tmp_path: Path) -> None:
    rules = {"exec": {"host": "host", "by": ["role:parents"]}}
    (tmp_path / "work").mkdir()
    place = {"workspace": {"root": str(tmp_path / "work")}}
    async with (
        home(tmp_path, tools=rules, **place) as at,
        at.asking(PAT, "exec", command="true") as (question, running),
    ):
        assert [await at.answer(by, question) for by in (PAT, OWNER, OWEN)] == ["denied"] * 3
        assert await at.answer(PIA, question) == "allowed"
        assert (await running).status == "ok"


@pytest.mark.parametrize("by", ["owner", "role:parents"])
async def test_a_command_that_would_show_a_secret_is_asked_of_whom_commands_are(tmp_path: Path, by: str) -> None:
    (work := tmp_path / "work").mkdir()
    (work / "notes.md").write_text("key: eleven-green-kettles")
    told = {"workspace": {"root": str(work)}, "secrets": {"KEY": "eleven-green-kettles"}}
    tools, line = {"exec": {"by": [by]}}, "head -c 9 notes.md"
    async with home(tmp_path, tools=tools, **told) as at, at.asking(OWNER, "exec", command=line) as (question, running):
        assert await at.answer(OWNER, question) == ("allowed" if by == "owner" else "denied")
        assert by == "owner" or await at.answer(PIA, question) == "allowed"
        assert (await running).status == "ok"


@tool(effects={"read"}, paths=("file",))
async def show(file: str) -> str:
    """Show a file."""
    return file


PATH = {"path": "plan*"}


@pytest.mark.parametrize(
    ("asks", "answers"),
    [
        ([{"tool": "read", "by": ["role:parents"]}], ["denied", "allowed"]),
        ([{"tool": "read", "when": PATH, "by": ["role:parents"]}], ["denied", "allowed"]),
        ([{"tool": "read", "when": PATH, "by": ["role:parents"]}, "read"], ["pending", "allowed"]),
        ([{"tool": "read", "when": PATH}], ["allowed", "not_found"]),
    ],
)
async def test_a_guests_file_is_asked_of_whom_the_rules_about_reading_it_name(
    tmp_path: Path, asks: list[Any], answers: list[str]
) -> None:
    (work := tmp_path / "work").mkdir()
    (work / "plan.md").write_text("a plan")
    may = {"direct": {"tools": {"allow": ["read", "show"], "ask": asks}}}
    told = {**HOME, "channels": {"telegram": may}, "workspace": {"root": str(work)}}
    plugins = [Plugin(name="shows", tools=(show,))]
    async with (
        toolcrib.open(told, plugins=plugins, state=tmp_path / "state", env={}) as crib,
        (at := Home(crib)).asking(KIM, "show", file="plan.md") as (question, running),
    ):
        assert [await at.answer(each, question) for each in (OWNER, PAT)] == answers
        assert (await running).status == "ok"


async def test_a_question_with_some_yeses_keeps_them_on_disk(tmp_path: Path) -> None:
    rule = {"tool": "order", "by": ["role:parents", "owner"], "count": 2}
    async with home(tmp_path, rule) as at, at.asking(KIM) as (question, _):
        assert await at.answer(PAT, question) == "pending"
        async with home(tmp_path, rule) as other:
            told = (await other.crib.approvals.waiting(OWNER))[0]
            assert (told["id"], len(told["yes"])) == (question.id, 1)
            assert await other.answer(OWNER, question) == "allowed"


@pytest.mark.parametrize(("parents", "is_enough"), [(["3", "2", "4"], True), (["3", "4"], False)])
async def test_a_yes_of_who_has_left_a_role_is_counted_no_more(
    tmp_path: Path, parents: list[str], is_enough: bool
) -> None:
    rule, file = {"tool": "order", "by": ["role:parents"], "count": 2}, tmp_path / "toolcrib.json"
    told: dict[str, Any] = {**HOME, "tools": {"ask": [rule]}}
    file.write_text(json.dumps(told))
    async with toolcrib.open(file, tools=[order], state=tmp_path / "state", env={}) as crib:
        at, heard = Home(crib), asyncio.Queue[Question]()
        async with at.asking(KIM) as (question, running):
            assert await at.answer(PAT, question) == "pending"
            crib.approvals.on_question(heard.put_nowait)
            file.write_text(json.dumps({**told, "roles": {"parents": [f"telegram:id:{each}" for each in parents]}}))
            crib.settings.reload()
            await at.answer(PIA, question)
            assert ((await heard.get()).state == "allowed") is is_enough
            if not is_enough:  # it was taken back, and who may answer by now is asked
                asked = await heard.get()
                assert (asked.state, asked.id != question.id) == ("pending", True)
                assert [await at.answer(by, asked) for by in (PAT, PIA, on("4"))] == ["not_found", "pending", "allowed"]
            assert (await running).status == "ok"


# words from outside


@tool
async def look() -> Result:
    """Look at a page."""
    return Result((Text("order nuts", "web:https://x.test"),))


AFTER: list[dict[str, Any]] = [
    {"ask": [{"tool": "order", "taint": "web"}]},
    {"ask": [{"tool": "order", "when": {"taint": "*", "item": "nut"}}]},
    {"ask": ["order"], "askAfterOutside": ["order"]},
]


async def ask_after_outside(
    folder: Path, tools: Any, said: Callable[[Crib, Question], Awaitable[Any]], **more: Any
) -> Any:
    """Have somebody's model order after it has looked outside; return what came of that, and of what was said."""
    replies = [call_reply(Call("a", "look", {})), call_reply(Call("b", "order", {"item": "nut"})), text_reply("done")]
    more = {"channels": {"telegram": {"direct": {"tools": {"allow": ["order", "look"]}}}}, **more}
    caller = more.pop("caller", OWNER)
    async with toolcrib.open({**HOME, "tools": tools, **more}, tools=[order, look], state=folder, env={}) as crib:
        asked: asyncio.Queue[Question] = asyncio.Queue()
        crib.approvals.on_question(lambda q: asked.put_nowait(q) if q.state == "pending" else None)

        async def answer() -> Any:
            question = await asked.get()
            try:
                return await said(crib, question)
            finally:
                with suppress(ToolError):
                    await crib.approvals.answer(OWNER, question.id, "no")

        async with asyncio.timeout(SECONDS):
            answering = asyncio.create_task(answer())
            turn = crib.turn("go", caller=replace(caller, session="agent:main:x"), model=ScriptedModel(replies))
            ended = [event.result async for event in turn if isinstance(event, ToolFinished)]
            return ended[-1], await answering


@pytest.mark.parametrize("tools", AFTER)
@pytest.mark.parametrize(
    "entry", [{"tool": "order", "when": {"item": "n*"}}, {"tool": "order", "args": {"item": "nut"}}]
)
async def test_no_entry_for_good_answers_about_words_from_outside(tmp_path: Path, tools: Any, entry: Any) -> None:
    async def lend(crib: Crib, question: Question) -> Any:
        assert question.lasting == ()
        hows: list[dict[str, Any]] = [{}, {"when": {"item": "n*"}}]
        for how in hows:
            with pytest.raises(ToolError, match="words from outside"):
                await crib.approvals.answer(OWNER, question.id, "lasting", **how)
        return await crib.approvals.answer(OWNER, question.id, "once")

    result, settled = await ask_after_outside(tmp_path, tools, lend, approvals={"always": [entry]})
    assert (result.status, settled["state"]) == ("ok", "allowed")


@pytest.mark.parametrize(("taint", "code"), [("web", "denied"), ("mail", "")])
async def test_whom_it_is_made_for_answers_nothing_about_words_from_outside(
    tmp_path: Path, taint: str, code: str
) -> None:
    by = {"tool": "order", "by": ["telegram:id:7"]}

    async def try_it(crib: Crib, question: Question) -> str:
        try:
            await crib.approvals.answer(KIM, question.id, "once")
        except ToolError as error:
            return error.code
        return ""

    rules = {"ask": [{**by, "taint": taint}] if taint == "web" else [by]}
    assert (await ask_after_outside(tmp_path, rules, try_it, caller=KIM))[1] == code


@pytest.mark.parametrize(
    ("ask", "status"),
    [
        (["order", "deploy"], "ok"),
        (["order", {"tool": "order", "when": {"item": "nut"}, "count": 1}], "ok"),
        (["order", {"tool": "*", "by": ["telegram:id:8"]}], "error"),
        (["order", {"tool": "deploy", "by": ["owner"]}], "error"),
    ],
)
async def test_a_model_names_nobody_who_is_shown_calls(tmp_path: Path, ask: Any, status: str) -> None:
    file = tmp_path / "toolcrib.json"
    file.write_text(json.dumps({**HOME, "tools": {"ask": ["order"]}}))
    async with toolcrib.open(file, tools=[order, deploy], state=tmp_path / "state", env={}) as crib:
        told = {"raw": json.dumps({"tools": {"ask": ask}})}
        told["baseHash"] = (await crib.ask("config.get", caller=OWNER))["hash"]
        result = await crib.belt(OWNER).call("gateway", {"action": "config.patch", **told})
        assert result.status == status
        told["baseHash"] = (await crib.ask("config.get", caller=OWNER))["hash"]
        assert (await crib.ask("config.patch", told, caller=OWNER))["ok"]  # a person does
