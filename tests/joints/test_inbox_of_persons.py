"""Who is this? What a person sends is theirs: nobody else's turn finds it, by no tool, link, search or command."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from tests.backends.models.servers import Say
from tests.joints.asking_world import PersonWorld, person_world, until
from toolcrib import Caller, Sender
from toolcrib.channels import Attachment, HeardMessage

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

MAY = {"tools": {"allow": ["*"]}}
SECRET = b"the safe opens with 1234"
ALL = {"allow": ["ls *", "cat *", "grep *", "find *", "cp *"]}


def who(id: str, group: str = "") -> Caller:
    return Caller(channel="box", sender=Sender(id=id), group=group or None, session=f"agent:main:box:dm:{id}")


async def send(world: PersonWorld, id: str, group: str = "") -> str:
    """Have somebody send the file, and return where it is kept."""
    count, kind = len(world.box.posts), "group" if group else "dm"
    where: Any = {"chat": group or id, "kind": kind, "group": group, "is_for_us": True}
    file = Attachment("f", "safe.txt")
    world.box.heard.put_nowait(HeardMessage(id=f"m{id}{group}", sender=Sender(id=id), attachments=(file,), **where))
    await until(lambda: len(world.box.posts) > count)
    root = world.file.parent / "work"
    (path,) = (each for each in root.rglob("*safe.txt") if each.stat().st_size == 0)
    path.write_bytes(SECRET)
    return str(path.relative_to(root))


async def told(world: PersonWorld, caller: Caller, tool: str, **args: Any) -> str:
    return (await world.crib.belt(caller).call(tool, args)).plain_text


WAYS: dict[str, Any] = {
    "read": lambda path: {"path": path},
    "ls": lambda path: {"path": path.rpartition("/")[0]},
    "find": lambda path: {"pattern": "*safe*"},
    "grep": lambda path: {"pattern": "the safe opens"},
}


@pytest.mark.parametrize("group", ["", "-1"])
@pytest.mark.parametrize("sender", ["ann", "kim"])
@pytest.mark.parametrize("tool", WAYS)
async def test_what_somebody_sends_is_found_by_nobody_elses_turn(
    tool: str, sender: str, group: str, tmp_path: Path
) -> None:
    own = {"owners": ["id:ann"], "dmPolicy": "open", "direct": MAY, "groups": {"-1": MAY}}
    async with person_world(tmp_path, Say(text="ok"), config={"box": own}) as world:
        path = await send(world, sender, group)
        words = ("safe.txt", "opens with")
        args = WAYS[tool](path)
        seen = await told(world, who(sender, group), tool, **args)
        assert any(each in seen for each in words), seen
        for at in ("", "-1"):
            seen = await told(world, who("lee", at), tool, **args)
            seen = seen if tool == "find" else seen.replace(path, "")  # what was asked for may be said again
            assert not any(each in seen for each in words), seen


async def test_no_link_leads_there_and_nothing_is_written_or_moved(tmp_path: Path) -> None:
    own = {"owners": ["id:ann"], "dmPolicy": "open", "direct": MAY}
    async with person_world(tmp_path, Say(text="ok"), config={"box": own}) as world:
        path, root = await send(world, "kim"), tmp_path / "work"
        (root / "near").symlink_to(root / "inbox")
        (root / "nearer.txt").symlink_to(root / path)
        for each in (
            path,
            path.replace("inbox", "near"),
            "nearer.txt",
            f"./x/../{path}",
            path.replace("inbox", "INBOX"),
        ):
            assert "opens with" not in await told(world, who("lee"), "read", path=each)
            assert "opens with" not in await told(world, who("lee"), "grep", pattern="opens", path=each)
        await told(world, who("lee"), "write", path=path, content="mine")
        assert (root / path).read_bytes() == SECRET
        assert "opens with" in await told(world, who("kim"), "read", path=path)
        assert "opens with" in await told(world, toolcrib.OWNER, "read", path=path)


async def test_a_sandboxed_command_sees_its_own_persons_files_alone(tmp_path: Path) -> None:
    own = {"owners": ["id:ann"], "dmPolicy": "open", "direct": MAY}
    config = {"box": own, "tools": {"exec": {"security": "full"}}}
    async with person_world(tmp_path, Say(text="ok"), config=config) as world:
        path = await send(world, "kim")
        for line in (f"cat {path}", "cat inbox/people/*/*", "grep -r opens inbox", "grep -r opens ."):
            seen = await told(world, who("lee"), "exec", command=line)
            assert "opens with" not in seen, seen
        assert "opens with" in await told(world, who("kim"), "exec", command=f"cat {path}")


LOOKS: dict[str, Any] = {
    "read": lambda path: {"path": path},
    "grep": lambda path: {"pattern": "the safe opens"},
    "exec": lambda path: {"command": f"cat {path}"},
}


@pytest.mark.parametrize("is_above", [True, False])
@pytest.mark.parametrize("tool", LOOKS)
async def test_so_it_is_where_the_workspace_of_one_agent_lies_in_that_of_another(
    tool: str, is_above: bool, tmp_path: Path
) -> None:
    own = {"owners": ["id:ann"], "dmPolicy": "open", "direct": MAY}
    agents = {"main": {}, "other": {"workspace": str(tmp_path if is_above else tmp_path / "work" / "other")}}
    config = {"box": own, "agents": agents, "tools": {"exec": {"security": "full"}}}
    async with person_world(tmp_path, Say(text="ok"), config=config) as world:
        path = await send(world, "kim")
        kept, seen_at = tmp_path / "work" / path, f"work/{path}"
        if not is_above:
            (there := tmp_path / "work" / "other" / path).parent.mkdir(parents=True)
            kept, seen_at = kept.rename(there), f"other/{path}"
        for id in ("kim", "lee"):
            agent = "other" if is_above else "main"
            caller = replace(who(id), agent=agent, session=f"agent:{agent}:box:dm:{id}")
            seen = await told(world, caller, tool, **LOOKS[tool](seen_at))
            assert ("opens with" in seen) is (id == "kim"), seen
        assert kept.read_bytes() == SECRET
