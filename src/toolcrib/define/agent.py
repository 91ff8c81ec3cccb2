"""Agent: a subagent before it becomes a tool."""

from dataclasses import dataclass

from .errors import DeclarationError
from .names import canonical
from .schema import fields_of

__all__ = ["Agent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """A subagent as data: what it is told, what it takes, which tools it may use and how far it may go.

    `inputs` and `output` are dataclasses, pydantic models or TypedDicts within the portable subset.
    """

    name: str
    description: str
    prompt: str
    inputs: type
    output: type | None = None
    tools: tuple[str, ...] = ()
    label: str = ""
    model: str | None = None
    max_turns: int = 30
    timeout: float = 300.0
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        if canonical(self.name) != self.name:
            raise DeclarationError(f"agent {self.name!r}: a name is 1 to 64 of a-z, 0-9, _ and -")
        for shape in (self.inputs, self.output):
            if shape is not None:
                fields_of(shape, f"agent {self.name}")
