"""gemini-input-schema on define/agent.py: the table of inputs with its six types."""

from collections.abc import Callable
from typing import Any

from toolcrib.define.agent import table_schema

Json = dict[str, Any]

ADAPTERS: dict[str, Callable[[Json], Any]] = {
    "gemini.convertInputConfigToJsonSchema@0.20": lambda args: table_schema(args["inputConfig"], "agent probe"),
}
