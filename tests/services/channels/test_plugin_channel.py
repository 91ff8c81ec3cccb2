"""A plugin that brings a channel: letters in a folder, with a manifest, its own options, and the gate before all."""

import json
from pathlib import Path

import pytest

import toolcrib
from tests.backends.exec.shells import until
from toolcrib.define.errors import CribError, PluginError

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

CODE = '''
import asyncio
import json
from pathlib import Path

from toolcrib import Plugin, Sender, ToolError
from toolcrib.channels import Abilities, ChannelKind, HeardMessage


class Letters:
    """Letters are files; what was heard is known by how many there were."""

    abilities = Abilities(actions=("send",), longest=500, knows_keys=True)

    def __init__(self, folder):
        self.folder = Path(folder)

    async def listen(self, hear, cursor, ready):
        if not self.folder.is_dir():
            raise ToolError(f"there is no folder {str(self.folder)!r}")
        ready()
        known = int(cursor or 0)
        while True:
            files = sorted((self.folder / "in").glob("*.json"))
            letters = [json.loads(each.read_text()) for each in files[known:]]
            if letters:
                known = len(files)
                await hear([
                    HeardMessage(id=each["id"], chat=each["from"], sender=Sender(id=each["from"]), text=each["text"])
                    for each in letters
                ], str(known))
            await asyncio.sleep(0.02)

    async def post(self, post, key):
        name = key.replace("/", "-")
        (self.folder / "out" / f"{name}.txt").write_text(f"{post.chat}: {post.text}")
        return name

    async def act(self, action, chat, params):
        raise ToolError(f"letters cannot {action}", code="unsupported")

    async def fetch(self, attachment, most):
        raise ToolError("letters carry no files", code="unsupported")

    async def show_typing(self, chat, thread): ...
    async def close(self): ...


def make(settings, way_out):
    if "folder" not in settings.options:
        raise ToolError("letters need options.folder")
    return Letters(settings.options["folder"])


plugin = Plugin(name="post", channels={NAME: ChannelKind(Letters.abilities, make)})
'''


def write_plugin(folder: Path, name: str = "letters", declared: str = "letters") -> None:
    (folder / "post").mkdir(parents=True)
    (folder / "post" / "plugin.py").write_text(CODE.replace("NAME", repr(name)))
    manifest = {"id": "post", "configSchema": {}, "tools": [], "channels": [declared]}
    (folder / "post" / "toolcrib.plugin.json").write_text(json.dumps(manifest))


async def test_a_channel_of_a_plugin_is_answered_like_ours(tmp_path: Path) -> None:
    write_plugin(tmp_path / "plugins")
    for name in ("in", "out"):
        (tmp_path / "box" / name).mkdir(parents=True)
    config = {
        "plugins": {"folders": [str(tmp_path / "plugins")], "allow": ["post"]},
        "channels": {"letters": {"options": {"folder": str(tmp_path / "box")}, "owners": ["id:ann"]}},
    }

    def letter(number: int, who: str, text: str) -> None:
        ready = tmp_path / f"{number}"
        ready.write_text(json.dumps({"id": str(number), "from": who, "text": text}))
        ready.rename(tmp_path / "box" / "in" / f"{number}.json")

    def said() -> str:
        return "\n".join(each.read_text() for each in sorted((tmp_path / "box" / "out").iterdir()))

    async with toolcrib.open(config, state=tmp_path / "state") as crib:
        rows = {row["channel"]: row for row in (await crib.ask("channels.list", {}, caller=toolcrib.OWNER))["channels"]}
        assert rows["letters"] == {
            "channel": "letters", "configured": True, "actions": ["send"],
            "buttons": False, "cards": False, "media": False, "typing": False,
        }  # fmt: skip
        await crib.channels.open()
        letter(1, "ann", "/why exec")
        letter(2, "bob", "hello")
        await until(lambda: "ann: exec: " in said() and "bob: I do not know you yet" in said())
    async with toolcrib.open(config, state=tmp_path / "state") as crib:
        await crib.channels.open()
        letter(3, "ann", "/why read")
        await until(lambda: "ann: read: " in said())
        assert said().count("exec: ") == 1


async def test_what_a_channel_of_a_plugin_lacks_is_told(tmp_path: Path) -> None:
    write_plugin(tmp_path / "plugins")
    config = {
        "plugins": {"folders": [str(tmp_path / "plugins")], "allow": ["post"]},
        "channels": {"letters": {"options": {"place": "x"}}},
    }
    async with toolcrib.open(config, state=tmp_path / "state") as crib:
        await crib.channels.open()
        (row,) = (await crib.channels.status())["channels"]
        assert row["problem"] == "letters need options.folder"


def test_a_channel_that_the_manifest_does_not_declare_is_refused(tmp_path: Path) -> None:
    write_plugin(tmp_path / "plugins", declared="pigeons")
    config = {"plugins": {"folders": [str(tmp_path / "plugins")], "allow": ["post"]}}
    with pytest.raises(PluginError, match="brings a channel 'letters' that its manifest does not declare"):
        toolcrib.open(config, state=tmp_path / "state")


async def test_no_plugin_takes_the_name_of_a_channel_of_ours(tmp_path: Path) -> None:
    write_plugin(tmp_path / "plugins", name="irc", declared="irc")
    config = {
        "plugins": {"folders": [str(tmp_path / "plugins")], "allow": ["post"]},
        "channels": {"irc": {"host": "127.0.0.1", "nick": "crib"}},
    }
    async with toolcrib.open(config, state=tmp_path / "state") as crib:
        assert type(crib.channels.make("irc")).__name__ == "IrcChannel"


def test_our_own_channels_take_no_options(tmp_path: Path) -> None:
    with pytest.raises(CribError, match="irc has no such key; it takes host"):
        toolcrib.open({"channels": {"irc": {"options": {"a": 1}}}}, state=tmp_path)
