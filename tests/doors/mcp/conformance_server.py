"""What the conformance suite asks of a server besides tools: resources, prompts, completion; run over stdio.

It is an MCP server of somebody else's, which our server serves along.
"""

import base64
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.prompts.base import Message, UserMessage
from mcp_types import (
    Completion,
    EmbeddedResource,
    EmptyResult,
    ImageContent,
    SubscribeRequestParams,
    TextContent,
    TextResourceContents,
    UnsubscribeRequestParams,
)

PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

server = MCPServer("conformance")


@server.resource("test://static-text", mime_type="text/plain", description="Some text.")
def static_text() -> str:
    return "This is the content of the static text resource."


@server.resource("test://static-binary", mime_type="image/png", description="A picture.")
def static_binary() -> bytes:
    return base64.b64decode(PICTURE)


@server.resource("test://watched-resource", mime_type="text/plain", description="A text that changes.")
def watched() -> str:
    return "as it is now"


@server.resource("test://template/{id}/data", mime_type="application/json", description="Data of one id.")
def template(id: str) -> str:
    return f'{{"id": "{id}", "templateTest": true, "data": "Data for ID: {id}"}}'


@server.prompt(description="A prompt without arguments.")
def test_simple_prompt() -> str:
    return "This is a simple prompt for testing."


@server.prompt(description="A prompt with two arguments.")
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.prompt(description="A prompt with a file.")
def test_prompt_with_embedded_resource(resourceUri: str) -> list[Message]:  # noqa: N803  as the suite calls it
    held = TextResourceContents(uri=resourceUri, mime_type="text/plain", text="Embedded resource content for testing.")
    file = EmbeddedResource(type="resource", resource=held)
    return [
        UserMessage(file),
        UserMessage(TextContent(type="text", text="Please process the embedded resource above.")),
    ]


@server.prompt(description="A prompt with a picture.")
def test_prompt_with_image() -> list[Message]:
    picture = ImageContent(type="image", data=PICTURE, mime_type="image/png")
    return [UserMessage(picture), UserMessage(TextContent(type="text", text="Please analyze the image above."))]


@server.completion()  # type: ignore[no-untyped-call, untyped-decorator]  # the SDK's own
async def complete(ref: Any, argument: Any, context: Any) -> Completion:
    return Completion(values=["paris", "park", "party"], total=3, has_more=False)


async def subscribe(ctx: Any, params: SubscribeRequestParams) -> EmptyResult:
    await ctx.session.send_resource_updated(params.uri)
    return EmptyResult()


async def unsubscribe(ctx: Any, params: UnsubscribeRequestParams) -> EmptyResult:
    return EmptyResult()


if __name__ == "__main__":
    low = server._lowlevel_server
    low.add_request_handler("resources/subscribe", SubscribeRequestParams, subscribe)
    low.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, unsubscribe)
    server.run("stdio")
