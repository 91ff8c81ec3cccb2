"""What will this call reach? For a guest, a path that any tool takes is judged as `read` or `write` of it."""

import base64
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from tests.backends.models.servers import Say
from tests.doors.gateway.world import client_of, device, gateway_of
from tests.joints.asking_world import Box, person_world, until
from toolcrib import OWNER, Args, Caller, Crib, Ctx, Plugin, Result, Sender, ToolError, tool
from toolcrib.channels import Abilities, Attachment, ChannelKind, HeardMessage

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

Json = Mapping[str, Any]
KIM = Caller(channel="box", sender=Sender(id="kim"), session="agent:main:box:dm:kim")
LEE = replace(KIM, sender=Sender(id="lee"), session="agent:main:box:dm:lee")
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGD4DwABBAEAX+XDSwAAAABJRU5ErkJggg=="
)
NO_FILES = ["messaging", "image", "canvas", "nodes", "browser", "open_it", "keep_it"]


@tool(effects={"read"}, parameters={"type": "object", "properties": {}, "additionalProperties": True})
async def open_it(ctx: Ctx, args: Args) -> Result:
    """Open a file, and say of no argument what it is."""
    return Result.text((await ctx.workspace.read(args["what"])).decode("latin-1"))


@tool(effects={"write"}, parameters={"type": "object", "properties": {}, "additionalProperties": True})
async def keep_it(ctx: Ctx, args: Args) -> Result:
    """Write a file, or move it."""
    if args.get("to"):
        await ctx.workspace.move(args["what"], args["to"])
    else:
        await ctx.workspace.write(args["what"], b"mine")
    return Result.text("done")


@tool(effects={"read"}, paths=("path",))
async def price_list(ctx: Ctx, path: str) -> str:
    """Return a price list of the shop."""
    return (await ctx.workspace.read(path)).decode("latin-1")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "ws" / "private").mkdir(parents=True)
    (tmp_path / "ws" / "public").mkdir()
    for name in ("private/a.png", "public/a.png", "private/index.html", "private/a.jsonl"):
        (tmp_path / "ws" / name).write_bytes(PNG)
    (tmp_path / "ws" / "near").symlink_to("private")
    return tmp_path / "ws"


def opened(root: Path, **tools: Any) -> Crib:
    kind = ChannelKind(Abilities(actions=("send",), media=True), lambda settings, way_out: Box())
    shop = Plugin(name="shop", tools=(open_it, keep_it), channels={"box": kind})
    config: dict[str, Any] = {"workspace": {"root": str(root)}, "tools": {"guests": NO_FILES, **tools}}
    config |= {"channels": {"box": {"options": {"at": "x"}}}, "browser": {"enabled": True}}
    return toolcrib.open(config, plugins=[shop], tools=[price_list], env={}, state=root.parent / "state")


WAYS: dict[str, tuple[str, Json]] = {
    "attached": ("message", {"action": "send", "message": "x", "path": "private/a.png"}),
    "attached by another name": ("message", {"action": "send", "message": "x", "media": "FILE:private/a.png"}),
    "looked at": ("image", {"image": "private/a.png"}),
    "looked at by a link": ("image", {"image": "@near/a.png"}),
    "looked at by an address": ("image", {"image": "file:private/a.png"}),
    "looked at beside others": ("image", {"image": "public/a.png", "images": ["./public/../private/a.png"]}),
    "shown": ("canvas", {"action": "present", "target": "private/index.html"}),
    "shown by another argument": ("canvas", {"action": "present", "url": "private/index.html"}),
    "pushed": ("canvas", {"action": "a2ui_push", "jsonlPath": "private/a.jsonl"}),
    "uploaded": ("browser", {"action": "upload", "paths": ["private/a.png"]}),
    "written over": ("nodes", {"action": "camera_clip", "node": "n", "outPath": "private/a.png"}),
    "begun": ("nodes", {"action": "camera_clip", "node": "n", "outPath": "private/new.mp4"}),
    "opened by a plugin": ("open_it", {"what": "private/a.png"}),
    "written by a plugin": ("keep_it", {"what": "private/a.png"}),
    "moved by a plugin": ("keep_it", {"what": "private/a.png", "to": "mine.png"}),
}


async def code_of(crib: Crib, caller: Caller, way: str, **more: Any) -> str:
    name, args = WAYS[way]
    result = await crib.belt(caller, **more).call(name, args)
    return str(result.details.get("code", "")) if result.status == "error" else result.status


async def test_who_may_neither_read_nor_write_reaches_no_file_of_the_owners(root: Path) -> None:
    async with opened(root) as crib:
        for caller in (KIM, replace(KIM, group="-1"), replace(KIM, parents=("main",))):
            assert {way: await code_of(crib, caller, way) for way in WAYS} == dict.fromkeys(WAYS, "denied")
    assert (root / "private/a.png").read_bytes() == PNG
    assert not (root / "private/new.mp4").exists()


@pytest.mark.parametrize(
    ("caller", "tools"),
    [(KIM, {"guests": [*NO_FILES, "read", "write"]}), (OWNER, {"deny": ["group:fs"]})],
)
async def test_the_owner_and_who_may_read_and_write_reach_what_they_reached(
    caller: Caller, tools: Any, root: Path
) -> None:
    async with opened(root, **tools) as crib:
        assert "denied" not in [await code_of(crib, caller, way) for way in WAYS]


@pytest.mark.parametrize(
    "tools",
    [
        {"guests": [*NO_FILES, {"tool": "read", "when": {"path": "public/**"}}]},
        {"guests": [*NO_FILES, "read", "write"], "deny": [{"tool": "*", "when": {"path": "private/**"}}]},
        {"guests": [*NO_FILES, "read"], "deny": [{"tool": "read", "when": {"path": "private/**"}}]},
    ],
)
async def test_rules_about_paths_of_read_hold_for_every_tool(tools: Json, root: Path) -> None:
    async with opened(root, **tools) as crib:
        belt = crib.belt(KIM)
        for name, here in (("image", "image"), ("open_it", "what")):
            denied = await belt.call(name, {here: "private/a.png"})
            assert (denied.status, denied.details["code"]) == ("error", "denied")
            assert (await belt.call(name, {here: "public/a.png"})).status == "ok"


class Human:
    """Says yes, or no, and keeps what was asked."""

    def __init__(self, word: bool) -> None:
        self.word, self.asked = word, list[str]()

    async def approve(self, caller: Any, call: Any, reason: str, binding: Any) -> bool:
        self.asked.append(reason)
        return self.word


@pytest.mark.parametrize("word", [True, False])
async def test_where_reading_asks_first_another_tool_asks_too(word: bool, root: Path) -> None:
    async with opened(root, guests=[*NO_FILES, "read"], ask=["read"]) as crib:
        human = Human(word)
        told = await crib.belt(KIM, approver=human).call("image", {"image": "private/a.png"})
        assert (told.status == "ok", len(human.asked)) == (word, 1)
        assert "private/a.png" in human.asked[0]
        assert (await crib.belt(KIM).call("image", {"image": "private/a.png"})).status == "error"


async def test_the_refusal_names_the_rule_is_explained_alike_and_stands_in_a_sound_record(root: Path) -> None:
    async with opened(root) as crib:
        told = await crib.belt(KIM).call("image", {"image": "private/a.png"})
        for words in ("'private/a.png'", "to read it", "tools.guests", "channels.box.direct.tools"):
            assert words in told.details["error"]
        (said,) = (await crib.belt(KIM).judge_call("image", {"image": "private/a.png"}, crib.way_out)).found
        assert said.reason in told.details["error"]
        assert (await crib.belt(KIM).judge_call("image", {"image": "private/a.png"}, crib.way_out)).found[0] == said
        assert (await crib.belt(OWNER).judge_call("image", {"image": "private/a.png"}, crib.way_out)).found == []
        checked = await crib.ask("audit.verify", {"replay": True}, caller=OWNER)
        assert not checked["findings"]


async def test_what_a_persons_own_calls_made_is_theirs_until_others_write_there(root: Path) -> None:
    async with opened(root, guests=[*NO_FILES, "write"]) as crib:
        await crib.belt(KIM).call("write", {"path": "notes/own.txt", "content": "first"})
        await crib.belt(KIM).call("keep_it", {"what": "made.txt"})
        for path in ("notes/own.txt", "made.txt"):
            assert (await crib.belt(KIM).call("open_it", {"what": path})).status == "ok"
            assert (await crib.belt(LEE).call("open_it", {"what": path})).details["code"] == "denied"
        (root / "made.txt").write_text("private by now")
        await crib.belt(OWNER).call("write", {"path": "notes/own.txt", "content": "private by now"})
        for path in ("notes/own.txt", "made.txt"):
            assert (await crib.belt(KIM).call("open_it", {"what": path})).details["code"] == "denied"
    async with opened(root, guests=[*NO_FILES, "write"]) as crib:
        await crib.belt(KIM).call("write", {"path": "notes/kept.txt", "content": "mine"})
    async with opened(root) as crib:  # after a restart, too
        assert (await crib.belt(KIM).call("open_it", {"what": "notes/kept.txt"})).plain_text == "mine"


async def test_what_a_program_hands_over_is_meant_for_its_callers(root: Path) -> None:
    async with opened(root) as crib:
        assert (await crib.belt(KIM).call("price_list", {"path": "public/a.png"})).status == "ok"


async def test_a_canvas_serves_what_its_person_may_reach(root: Path) -> None:
    async with opened(root, guests=[*NO_FILES, "write"]) as crib:
        crib.canvases.host = lambda seen: "http://here.test"
        await crib.belt(KIM).call("write", {"path": "private/own.html", "content": "<p>mine</p>"})
        told = await crib.belt(KIM).call("canvas", {"action": "present", "target": "private/own.html"})
        canvas = crib.canvases.find_page(told.plain_text.partition("/c/")[2].partition("/")[0])
        assert canvas is not None
        assert b"mine" in (await crib.canvases.read_file(canvas, "own.html")).body
        with pytest.raises(ToolError):
            await crib.canvases.read_file(canvas, "index.html")


async def test_a_turn_looks_at_the_picture_that_its_person_sent_and_at_no_other(tmp_path: Path) -> None:
    look = Say(calls=(("c", "image", '{"image": "private.png"}'),))
    own = {"dmPolicy": "open", "allowFrom": ["*"], "direct": {"tools": {"allow": ["image"]}}}
    async with person_world(tmp_path, look, Say(text="no"), config={"box": own}) as world:
        (tmp_path / "work" / "private.png").write_bytes(PNG)
        world.box.put("kim", "look at private.png")
        await until(lambda: world.box.posts)
        (told,) = (each["content"] for each in world.server.asked[-1].body["messages"] if each["role"] == "tool")
        assert "not permitted with these arguments" in str(told)
        file = Attachment("f", "cat.png")
        world.box.heard.put_nowait(
            HeardMessage(id="p", chat="kim", sender=Sender(id="kim"), text="and this?", attachments=(file,))
        )
        await until(lambda: len(world.box.posts) > 1)
        (path,) = (tmp_path / "work").rglob("*cat.png")
        path.write_bytes(PNG)
        sent = str(path.relative_to(tmp_path / "work"))
        assert (await world.crib.belt(KIM).call("image", {"image": sent})).status == "ok"
        assert (await world.crib.belt(LEE).call("image", {"image": sent})).status == "error"


async def test_a_device_and_a_client_of_the_gateway_are_judged_alike(tmp_path: Path) -> None:
    (work := tmp_path / "work").mkdir()
    (work / "private.png").write_bytes(PNG)
    config = {
        "workspace": {"root": str(work)},
        "models": {"default": "offline:rules"},
        "tools": {"guests": ["messaging", "image"]},
    }
    token = "dt-1111-dt-1111-dt"
    phone = device("p", token, "operator.write")
    serving = gateway_of(config, state=tmp_path / "state", devices=[phone])
    async with serving as world, client_of(world, token) as guest, client_of(world) as owner:
        call = {"tool": "image", "args": {"image": "private.png"}}
        assert (await guest.get("tools.call", call))["status"] == "error"
        assert (await owner.get("tools.call", call))["status"] == "ok"
