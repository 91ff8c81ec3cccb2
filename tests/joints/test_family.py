"""Safe is useful, too: what `toolcrib init` writes lets a family chat, show pictures and search, and read nothing."""

from pathlib import Path
from typing import Any

import pytest
import yaml

import toolcrib
from tests.backends.models.servers import Say
from tests.joints.asking_world import person_world, until
from tests.joints.test_files_of_guests import PNG
from toolcrib import Caller, Crib, Sender
from toolcrib.channels import Attachment, HeardMessage
from toolcrib.doors.cli.init import sample_configuration

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

FAMILY = "-100family"


def family_of(whom: str) -> dict[str, Any]:
    """Return what init writes, for a channel that a test brings: only its name is another."""
    text = sample_configuration(whom).replace("telegram", "box")
    told: dict[str, Any] = yaml.safe_load(text)
    for each in told.pop("expect"):
        assert set(each) <= {"caller", "has", "lacks"}
    return told


@pytest.mark.parametrize("whom", ["me", "team"])
async def test_a_member_chats_has_a_picture_looked_at_and_searches_and_reads_nothing(whom: str, tmp_path: Path) -> None:
    told = family_of(whom)
    box = told["channels"].pop("box")
    box["groups"][FAMILY]["requireMention"] = False
    calls = (
        ("a", "image", '{"image": "private.png"}'),
        ("b", "web_search", '{"query": "cake"}'),
        ("c", "read", '{"path": "private.png"}'),
    )
    config: dict[str, Any] = {"box": box, **{name: told[name] for name in ("tools", "roles", "owners") if name in told}}
    async with person_world(tmp_path, Say(calls=calls), Say(text="hello, Mia"), config=config) as world:
        (tmp_path / "work" / "private.png").write_bytes(PNG)
        file = Attachment("f", "cat.png")
        world.box.heard.put_nowait(
            HeardMessage(
                id="p",
                chat=FAMILY,
                kind="group",
                group=FAMILY,
                is_for_us=True,
                sender=Sender(id="7"),
                text="what is this?",
                attachments=(file,),
            )
        )
        await until(lambda: world.box.posts)
        assert world.box.posts[-1].text == "hello, Mia"
        messages = world.server.asked[-1].body["messages"]
        looked, searched, read = [str(each["content"]) for each in messages if each["role"] == "tool"]
        assert "image is denied" in looked or "image is not permitted with these" in looked
        assert "denied" not in searched
        assert "permitted" not in searched
        assert "read is not permitted here" in read
        (path,) = (tmp_path / "work").rglob("*cat.png")
        path.write_bytes(PNG)
        sent = str(path.relative_to(tmp_path / "work"))
        mia = Caller(channel="box", group=FAMILY, sender=Sender(id="7"), session=f"agent:main:box:group:{FAMILY}")
        assert (await world.crib.belt(mia).call("image", {"image": sent})).status == "ok"


@pytest.mark.parametrize("whom", ["me", "team"])
def test_what_init_writes_passes_lint_and_its_own_promises(whom: str, tmp_path: Path) -> None:
    (tmp_path / "crib.yaml").write_text(sample_configuration(whom))
    crib: Crib = toolcrib.open(tmp_path / "crib.yaml", env={})
    assert crib.lint() == []
    assert any(each.caller.group == FAMILY for each in crib.config.expect)
