"""A subagent: an agent that its parent sees as a tool, waited for and in the background: examples/11_a_subagent.py

The model is the offline one, six verbs, so that this runs without a key.
"""

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import toolcrib
from toolcrib import Agent, Caller, Plugin, Result, Text
from toolcrib.policy import explain_sentence

MAIN = "agent:main:example"


@dataclass(frozen=True)
class Question:
    """What the finder is asked: these are the parameters of its tool."""

    what: Annotated[str, "what to find, and where you think it is"]


finder = Agent(
    name="finder",
    description="Finds things in the files of the shop.",
    prompt="You find things in files. You change nothing.",
    query="${what}",
    inputs=Question,
    tools=("grep", "read", "ls"),
    max_turns=6,
    timeout=60,
)


def words(result: Result) -> str:
    return "".join(part.text for part in result.content if isinstance(part, Text)).splitlines()[0]


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        workspace, state = Path(folder, "workspace"), Path(folder, "state")
        workspace.mkdir()
        (workspace / "shop.py").write_text("def price(item: str) -> int:\n    return 3\n")
        config = {"workspace": {"root": str(workspace)}, "tools": {"byProvider": {"offline": {"deny": ["read"]}}}}
        crew = Plugin(name="crew", agents=(finder,))
        async with toolcrib.open(config, plugins=[crew], state=state, env={}) as crib:
            belt = crib.belt(Caller(session=MAIN, owner=True))
            result = await belt.call("finder", {"what": "search def price in *.py"})
            print(f"{result.status}, {result.details['reason']}: {words(result)}")

            started = await belt.call("sessions_spawn", {"task": "search def price in *.py", "agentId": "finder"})
            print(f"{started.details['status']}, {started.details['agentId']} works in the background")
            await crib.subagents.idle()
            (run,) = (await belt.call("subagents", {"action": "list"})).details["subagents"]
            print(f"{run['agentId']} {run['state']}: {run['text'].splitlines()[0]}")

            child = Caller(agent="finder", parents=(MAIN,), provider="offline", model="rules", owner=True)
            for name in ("exec", "read"):
                print(explain_sentence(crib.belt(child).verdicts[name]))
            for head in await crib.sessions.list():
                print(f"kept: {' under '.join((head.key.rpartition(':')[0], *head.parents))}")


asyncio.run(main())
