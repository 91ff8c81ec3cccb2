"""The adapter on its own: one tool, four providers, and what one of them cannot be told.

python examples/03_adapter_alone.py
"""

import json
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from toolcrib import ToolError, tool
from toolcrib.models import PROVIDERS, declare, losses


@dataclass(frozen=True)
class Size:
    width: Annotated[int, "in millimetres", Field(ge=1, le=2000)]
    unit: Literal["mm", "inch"] = "mm"


@tool(effects={"write"})
def cut(
    board: Annotated[str, "which board", Field(pattern="^B[0-9]+$")],
    sizes: Annotated[list[Size], "the pieces, in order", Field(min_length=1)],
    note: str | None = None,
) -> str:
    """Cut a board into pieces."""
    return f"{board}: {len(sizes)} pieces {note or ''}"


for provider in PROVIDERS:
    print(f"{provider}: {json.dumps(declare(cut, provider))}")

# what a provider cannot be told is reported, and checked here all the same
print("gemini is not told:", "; ".join(losses(cut, "gemini")))
try:
    cut.check({"board": "plank", "sizes": [{"width": 0}], "color": "red"})
except ToolError as error:
    print("refused:", error)
