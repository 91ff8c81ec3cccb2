"""A farm for background subagents: an agent that counts, a crib that has it, and calls that start it."""

from pathlib import Path
from typing import Any

import toolcrib
from toolcrib import Agent, Call
from toolcrib.app import Crib
from toolcrib.define.model import Request
from toolcrib.registry.sources import Offer

MAIN = "agent:main:main"


COUNTER = Agent(
    name="counter",
    description="counts animals",
    prompt="You count ${animal}.",
    query="How many ${animal} are there?",
    inputs={"animal": {"type": "string", "required": True}, "fields": {"type": "integer"}},
    output={"count": {"type": "integer", "required": True}},
    tools=("ls",),
    max_turns=2,
)


def crib_with(*agents: Agent, state: Path | None = None, **config: Any) -> Crib:
    return toolcrib.open(config, plugins=[Offer(source="plugin:farm", tools=(), agents=agents)], state=state, env={})


def spawn(task: str = "count the sheep", **more: Any) -> Call:
    return Call(f"s-{task}", "sessions_spawn", {"task": task, **more})


def is_child(request: Request) -> bool:
    return ":subagent:" in request.session
