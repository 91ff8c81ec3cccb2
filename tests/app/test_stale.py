"""An edit is made to the file that was shown, whatever a command does to its times; the same content is no change."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.commands import cribbed, said

from toolcrib import OWNER
from toolcrib.app import Belt

pytestmark = pytest.mark.anyio

PATCH = "*** Begin Patch\n*** Update File: f.txt\n@@\n-port = 8001\n+port = 8011\n*** Add File: n\n+n\n*** End Patch"
SHOWN: dict[str, dict[str, Any]] = {
    "read": {"path": "f.txt"},
    "write": {"path": "f.txt", "content": "port = 8001\n"},
    "edit": {"path": "f.txt", "oldText": "8001", "newText": "8011"},
    "apply_patch": {"input": PATCH},
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    (folder / "f.txt").write_text("port = 8001\n")
    return folder


@pytest.fixture(params=["sandbox", "host"])
async def belt(root: Path, request: pytest.FixtureRequest) -> AsyncIterator[Belt]:
    settings = {"host": request.param, "security": "full", "ask": "off"}
    async with cribbed(root, settings, caller=replace(OWNER, provider="openai", model="gpt-5")) as (belt, _):
        yield belt


async def call(belt: Belt, tool: str, **args: Any) -> str:
    result = await belt.call(tool, args)
    assert result.status == "ok", said(result)
    return said(result)


async def edit(belt: Belt) -> tuple[str, str]:
    result = await belt.call("edit", {"path": "f.txt", "oldText": "port", "newText": "PORT"})
    return result.status, said(result)


@pytest.mark.parametrize("first", SHOWN)
@pytest.mark.parametrize(
    "change",
    [
        "cp -p f.txt as && sed -i s/80.1/6666/ f.txt && touch -r as f.txt",
        "t=$(stat -c %y f.txt) && printf 'port = 6666\\n' > f.txt && touch -d \"$t\" f.txt",
        't=$(stat -c %y f.txt) && printf 6666 | dd of=f.txt bs=1 seek=7 conv=notrunc && touch -d "$t" f.txt',
        "t=$(stat -c %y f.txt) && printf 'port = 6666\\n' > f.txt && chmod 600 f.txt && touch -d \"$t\" f.txt",
        "cp -p f.txt as && printf 'port = 6666\\n' > f.txt && touch -r as f.txt && mv f.txt g && mv g f.txt",
    ],
)
async def test_a_command_cannot_change_a_file_unseen_by_putting_its_times_back(
    belt: Belt, root: Path, first: str, change: str
) -> None:
    await call(belt, first, **SHOWN[first])
    await call(belt, "exec", command=change)
    status, words = await edit(belt)
    assert (status, "changed on disk since it was read" in words) == ("error", True), words
    assert (root / "f.txt").read_text() == "port = 6666\n"
    await call(belt, "read", path="f.txt")
    assert (await edit(belt))[0] == "ok"


@pytest.mark.parametrize("first", SHOWN)
@pytest.mark.parametrize(
    "command", ["chmod +x f.txt", "touch f.txt", "mv f.txt g && mv g f.txt", "cp f.txt g && mv g f.txt", "cat f.txt"]
)
async def test_what_leaves_the_content_as_it_was_shown_is_no_change(belt: Belt, first: str, command: str) -> None:
    await call(belt, first, **SHOWN[first])
    await call(belt, "exec", command=command)
    assert (await edit(belt))[0] == "ok"


async def test_a_file_that_was_shown_in_part_is_known_whole(belt: Belt, root: Path) -> None:
    text = "".join(f"line {at}\n" for at in range(9_000))
    (root / "long.txt").write_text(text)
    await call(belt, "read", path="long.txt", offset=100, limit=5)
    await call(belt, "exec", command="chmod +x long.txt")
    await call(belt, "edit", path="long.txt", oldText="line 101\n", newText="LINE 101\n")
    await call(belt, "read", path="long.txt", offset=100, limit=5)
    await call(
        belt, "exec", command="cp -p long.txt as && sed -i 's/^line 8000$/LINE 8000/' long.txt && touch -r as long.txt"
    )
    result = await belt.call("edit", {"path": "long.txt", "oldText": "line 102\n", "newText": ""})
    assert (result.status, "changed on disk" in said(result)) == ("error", True)
