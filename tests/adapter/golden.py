"""What is kept in tests/golden, and the command that writes it: python -m tests.adapter.golden

<provider>/<tool>.json                     a tool as it is declared
<provider>/conversations/<name>.json       a conversation of conversations.py as it is sent
<provider>/streams/<name>.json             what is made of a streamed reply of streams.py
"""

import datetime as dt
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from toolcrib.adapter import anthropic, declare, gemini, openai, responses
from toolcrib.adapter.cards import Target
from toolcrib.define.actions import actions
from toolcrib.define.context import Ctx
from toolcrib.define.tool import Tool, tool

from .conversations import CONVERSATIONS, TARGETS
from .streams import STREAMS

__all__ = ["GOLDEN", "PROVIDERS", "REQUESTS", "TOOLS", "golden_files", "written"]

GOLDEN = Path(__file__).parents[1] / "golden"
PROVIDERS = ("anthropic", "gemini", "mcp", "openai", "responses")
REQUESTS = {
    "anthropic": anthropic.request,
    "gemini": gemini.request,
    "openai": openai.request,
    "responses": responses.request,
}
CHUNKS: Mapping[str, Callable[[Target], Any]] = {
    "anthropic": anthropic.ReplyStream,
    "gemini": gemini.ReplyStream,
    "openai": openai.ReplyStream,
    "responses": responses.ReplyStream,
}


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


def golden_files() -> Iterator[tuple[str, Any]]:
    """Return the path of every golden file and what it holds."""
    for provider in PROVIDERS:
        for name, made in TOOLS.items():
            yield f"{provider}/{name}.json", declare(made, provider)
    for api, target in TARGETS.items():
        for name, conversation in CONVERSATIONS.items():
            yield f"{api}/conversations/{name}.json", REQUESTS[api](conversation(target), [], target)
        for name, stream in STREAMS.get(api, {}).items():
            chunks = CHUNKS[api](target)
            events = [event for chunk in stream for event in chunks.feed(chunk)]
            told = [f"{type(event).__name__} {' '.join(map(repr, asdict(event).values()))}" for event in events]
            yield f"{api}/streams/{name}.json", {"events": told, "replied": _plain(chunks.end())}


def _plain(value: Any) -> Any:
    """Return dataclasses as JSON, fields that say nothing left out."""
    match value:
        case Mapping():
            return dict(value)
        case tuple() if hasattr(value, "_asdict"):
            return _plain_fields(value._asdict())
        case tuple():
            return [_plain(each) for each in value]
        case _ if is_dataclass(value):
            return _plain_fields({field.name: getattr(value, field.name) for field in fields(value)})
    return value


def _plain_fields(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _plain(value) for name, value in given.items() if value not in ("", (), None, 0)}


def written(value: Any) -> str:
    """Return the JSON as the files hold it."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Write every golden file."""
    for name, value in golden_files():
        path = GOLDEN / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(written(value), encoding="utf-8")


if __name__ == "__main__":
    main()
