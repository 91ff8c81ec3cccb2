"""A turn on a disk that is full in the middle of it, told on stdout. Run as a program: FOLDER, and WHEN it is full."""

import asyncio
import errno
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import toolcrib
from toolcrib.agent.session_log import recall
from toolcrib.app.stores import STATE_FILE, audit_in
from toolcrib.define.errors import ToolError
from toolcrib.define.event import Replied, ToolFinished, TurnFinished
from toolcrib.define.message import Call, Part
from toolcrib.define.model import Request
from toolcrib.define.result import Text
from toolcrib.define.tool import tool
from toolcrib.testing.models import FunctionModel, call_reply, text_reply

KEY = "agent:main:run:crowded"


def fill(path: Path) -> None:
    """Leave no room for anything else."""
    with path.open("ab", buffering=0) as file:
        for size in (65_536, 4_096, 512, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise


def _words(content: Iterable[Part]) -> str:
    return "".join(part.text for part in content if isinstance(part, Text))


async def main(folder: Path, when: str) -> None:
    """Take a good turn, one that runs out of room, and another good one."""
    filler = folder / "filler"

    def tell(word: str, what: object) -> None:
        os.write(1, f"{word}: {what}\n".encode())

    @tool(effects=set())
    async def pay(text: str) -> str:
        """Pay."""
        tell("ran", "pay")
        if when == "in the body":
            fill(filler)
        return text

    def answer(request: Request) -> Replied:
        words = _words(request.history[-1].content)
        if words == "2":
            if when == "before the body":
                fill(filler)
            return call_reply(Call("c", "pay", {"text": "x" * 7_000}))
        for message in request.history:
            if words == "3" and message.role == "tool":
                tell("told", _words(message.content).partition(";")[0])
        return text_reply(f"fine {words}")

    async with toolcrib.open({}, state=folder / "state", env={}) as crib:
        for text in "123":
            if text == "2" and when == "before the message":
                fill(filler)
            try:
                async for event in crib.turn(
                    text, caller=toolcrib.OWNER, session=KEY, model=FunctionModel(answer), extra=[pay]
                ):
                    match event:
                        case ToolFinished(result=result):
                            tell(f"tool {result.status}", _words(result.content))
                        case TurnFinished(reason=reason):
                            tell(f"turn {reason}", event.sentence or event.text)
            except ToolError as error:
                tell("refused", error)
            found = recall(await crib.sessions.lines(KEY))
            tell("kept", f"{' '.join(message.role for message in found.history)}; {len(found.uncertain)} uncertain")
            filler.unlink(missing_ok=True)
        report = await audit_in(folder / "state" / STATE_FILE, crib.loaded).verify(replay=True)
        tell("record", f"{len(report.findings)} findings, {len(report.uncertain)} uncertain")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
