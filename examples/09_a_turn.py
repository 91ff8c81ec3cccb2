"""A turn: a message answered with real tools, followed, kept and gone on with: python examples/09_a_turn.py

The model is the offline one, six verbs, so that this runs without a key; `model="openai:gpt-5"` is all it takes
to ask another.
"""

import asyncio
import tempfile
from pathlib import Path

import toolcrib
from toolcrib.events import TextDelta, ToolFinished, ToolStarted, TurnFinished


async def ask(crib: toolcrib.Crib, message: str) -> None:
    print(">", message)
    async with crib.turn(message, caller=toolcrib.OWNER, session="agent:main:example", model="offline:rules") as turn:
        async for event in turn:
            match event:
                case TextDelta(text=text):
                    print(text, end="")
                case ToolStarted(call=call):
                    print(f"[{call.name} {dict(call.args)}]")
                case ToolFinished(result=result):
                    print(f"[{result.status}]")
                case TurnFinished(reason=reason, steps=steps):
                    print(f"\n[{reason} after {steps} replies]\n")


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        workspace, state = Path(folder, "workspace"), Path(folder, "state")
        workspace.mkdir()
        (workspace / "shop.py").write_text("# TODO: count the nuts\nprint('nuts')\n")
        config = {"workspace": {"root": str(workspace)}, "limits": {"turns": 10, "seconds": 60}}
        async with toolcrib.open(config, state=state) as crib:
            await ask(crib, "search TODO in *.py")
        async with toolcrib.open(config, state=state) as crib:  # another day, and the session is still there
            await ask(crib, "list the files")
            (head,) = await crib.sessions.list()
            print(f"{head.key} has {head.count} lines and began with {head.title!r}")


asyncio.run(main())
