"""The tools whose wire JSON is kept in tests/golden, and the command that writes it: python -m tests.adapter.golden"""

import datetime as dt
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from toolcrib.adapter import declare
from toolcrib.define.actions import actions
from toolcrib.define.context import Ctx
from toolcrib.define.tool import Tool, tool

__all__ = ["GOLDEN", "PROVIDERS", "TOOLS", "golden_path", "written"]

GOLDEN = Path(__file__).parents[1] / "golden"
PROVIDERS = ("anthropic", "gemini", "mcp", "openai")


@tool(effects=set())
def ping() -> str:
    """Answer pong."""
    return "pong"


@tool(group="web", effects={"network"}, label="Fetch a page")
async def web_fetch(
    ctx: Ctx,
    url: Annotated[str, "http(s) address of the page"],
    form: Annotated[Literal["markdown", "text"], "how to render it"] = "markdown",
    limit: Annotated[int, "cut the text after this many characters", Field(ge=1, le=100_000)] = 8000,
    since: Annotated[dt.date | None, "only when it is newer"] = None,
) -> str:
    """Fetch a web page and return its readable text. Without an address, use web_search first."""
    return f"{ctx.call.name} {url} {form} {limit} {since}"


@dataclass(frozen=True)
class Point:
    x: Annotated[float, "from the left", Field(ge=0)]
    y: Annotated[float, "from the top", Field(ge=0)]
    unit: Literal["px", "em"] = "px"


@tool(group="ui", effects={"send"})
def nested(
    points: Annotated[list[Point], "the corners, in order", Field(min_length=3)],
    labels: Annotated[dict[str, str] | None, "by language"],
    name: Annotated[str, Field(pattern="^[a-z]+$", max_length=20)] = "shape",
) -> str:
    """Draw a shape on the canvas."""
    return f"{points} {labels} {name}"


@tool(
    name="raw",
    description="Search a catalogue, «ünïcode» included.",
    parameters={
        "type": "object",
        "properties": {
            "query": {"type": "string", "minLength": 1, "examples": ["cats"]},
            "sizes": {"type": "array", "items": {"type": "integer", "multipleOf": 2}, "uniqueItems": True},
            "mail": {"type": "string", "format": "email"},
        },
        "required": ["query"],
    },
)
def raw(args: Mapping[str, Any]) -> str:
    return str(args)


def show(all: Annotated[bool, "include disabled jobs"] = False) -> str:
    """List jobs."""
    return str(all)


def remove(jobId: Annotated[str, "which job"]) -> str:  # noqa: N803  the documents' spelling
    """Remove a job."""
    return jobId


cron = actions(
    "cron", "Schedule work for later.", {"list": show, "remove": remove}, group="automation", effects={"write"}
)

TOOLS: Mapping[str, Tool] = {made.name: made for made in (ping, web_fetch, nested, raw, cron)}


def golden_path(provider: str, name: str) -> Path:
    """Return where the JSON of one tool for one provider stands."""
    return GOLDEN / provider / f"{name}.json"


def written(value: Any) -> str:
    """Return the JSON as the files hold it."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Write every golden file."""
    for provider in PROVIDERS:
        for name, made in TOOLS.items():
            path = golden_path(provider, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(written(declare(made, provider)), encoding="utf-8")


if __name__ == "__main__":
    main()
