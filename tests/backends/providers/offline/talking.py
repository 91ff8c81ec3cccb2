"""A conversation with the offline model over the real tools of a folder."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.commands import OPEN, belt_in

from toolcrib.adapter.conversation import answer
from toolcrib.app import Belt
from toolcrib.backends.providers.offline import OfflineModel
from toolcrib.define.event import CallDelta, Replied, TextDelta
from toolcrib.define.history import History
from toolcrib.define.message import Call, Message
from toolcrib.define.model import Request
from toolcrib.define.result import Text
from toolcrib.define.tool import Tool

MOST_STEPS = 14  # one more than the model allows itself, and one for its last word

FILES = {
    "README.md": "# Demo\n\nA small demo.\n\n## Install\n\nRun it.\n\n### Deep\n\n## Use\n",
    "a.txt": "one\ntwo\nthree\n",
    "b.txt": "one\n2\nthree\n",
    "pyproject.toml": '[project]\nname = "demo"\nversion = "1.2"\ndependencies = ["httpx>=1", "rich"]\n',
    "src/app.py": '"""App."""\nimport os\n\n# TODO tidy\nclass Foo:\n    def bar(self):\n        return helper(1)\n\n\n'
    "def helper(x):\n    return x\n",
    "src/util/names.py": "MAX_SIZE = 3\n\n# TODO later\n",
    "docs/guide.md": "# Guide\n\nSee helper.\n",
}


def said(text: str) -> Message:
    """Return what a person says."""
    return Message(role="user", content=(Text(text),))


def folder(root: Path, files: Mapping[str, str] = FILES) -> Path:
    """Fill a folder and return it."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


async def reply(history: History, tools: Iterable[Tool], **options: Any) -> Message:
    """Ask the model once; whatever it streams comes to what it says in the end."""
    words, pieces, replied = "", dict[int, str](), None
    async for event in OfflineModel().reply(Request(history=history, tools=tuple(tools), **options)):
        assert replied is None, "Replied is the last event"
        match event:
            case TextDelta(text=text):
                words += text
            case CallDelta(at=at, text=text):
                pieces[at] = pieces.get(at, "") + text
            case Replied():
                replied = event
    assert replied is not None
    assert not replied.error
    message = replied.message
    assert words == text_of(message)
    assert len(pieces) == len(message.calls)
    assert replied.usage.output > 0
    return message


def text_of(message: Message) -> str:
    return "".join(part.text for part in message.content if isinstance(part, Text))


class Talk:
    """A session: what was said stays in its history, and nothing else does."""

    def __init__(self, belt: Belt, tools: Iterable[Tool] | None = None) -> None:
        self.belt, self.history = belt, History()
        self.tools = tuple(belt.tools.values() if tools is None else tools)
        self.calls: list[Call] = []

    async def ask(self, text: str) -> str:
        """Say something and return the answer; `calls` are those that it took."""
        self.history.append(said(text))
        self.calls = []
        for _ in range(MOST_STEPS):
            message = await reply(self.history, self.tools)
            self.history.append(message)
            if not message.calls:
                return text_of(message)
            await self.run(message)
        raise AssertionError(f"no answer to {text!r} after {MOST_STEPS} steps")

    async def run(self, message: Message) -> None:
        """Make the calls of a reply."""
        self.calls += message.calls
        results = await self.belt.call_all(message.calls)
        for call, result in zip(message.calls, results, strict=True):
            self.history.append(answer(call, result))

    @property
    def took(self) -> list[str]:
        return [call.name for call in self.calls]


@asynccontextmanager
async def talking(root: Path, exec: Mapping[str, Any] = OPEN) -> AsyncIterator[Talk]:
    """Give a session over a folder."""
    async with belt_in(root, exec) as belt:
        yield Talk(belt)
