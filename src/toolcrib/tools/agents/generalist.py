"""generalist: does one self-contained piece of work with the tools of whoever sent it."""

from typing import Annotated

from toolcrib import Agent
from toolcrib.lazy import dataclass

_PROMPT = """\
You do one piece of work for another agent, alone. It sees nothing of what you do but your last word, and nobody answers
questions on the way: where something is left open, take the likelier reading and say that you did.

Read before you change anything, and change no more than the task needs. When something fails, find out why before you
try it again; when a tool is refused, do without it. Check the result with your own tools where you can.

When the work is done, or when you know that it cannot be done, call complete_task. Its `result` says in Markdown what
you did or found, which files you changed, how you checked it, and what is left. Say plainly what did not work."""


@dataclass(frozen=True, slots=True)
class GeneralistBrief:
    """What it is asked."""

    task: Annotated[str, "what is to be done, and how to tell"]
    context: Annotated[str, "it does not see this conversation"] = ""


generalist = Agent(
    name="generalist",
    label="Generalist",
    description=(
        "Another agent, with your tools, for work in many small steps whose details you need not see. It reports what "
        "came of it."
    ),
    prompt=_PROMPT,
    inputs=GeneralistBrief,
    tools=("*",),
    max_turns=20,
)
