"""gemini-template on define/agent.py: the inputs that are given are those that are declared."""

from collections.abc import Callable
from typing import Any

from toolcrib.define.agent import fill

Json = dict[str, Any]

ADAPTERS: dict[str, Callable[[Json], Any]] = {
    "gemini.templateString": lambda args: fill(args["template"], args["inputs"], args["inputs"]),
}
