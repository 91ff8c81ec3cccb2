"""Resources and prompts of other people's servers for our clients: judged, fenced, redacted, none for others."""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the package mcp is not installed")

from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    EmptyResult,
    PromptReference,
    ResourceTemplateReference,
    SubscribeRequest,
    SubscribeRequestParams,
    UnsubscribeRequest,
    UnsubscribeRequestParams,
)
from tests.backends.mcp.world import SECRET

import toolcrib
from toolcrib import OWNER, Caller, Sender, Tool
from toolcrib.app import Belt, Crib
from toolcrib.doors.mcp import BeltServer, Relay

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

GUEST = Caller(channel="telegram", group="-100", sender=Sender(id="7"))
SERVER = str(Path(__file__).with_name("conformance_server.py"))
WATCHED = "test://watched-resource"
SECONDS = 120


async def watch(client: Any) -> None:
    await client.session.send_request(SubscribeRequest(params=SubscribeRequestParams(uri=WATCHED)), EmptyResult)


@asynccontextmanager
async def crib_in(folder: Path, *servers: str, tools: dict[str, Any] | None = None) -> AsyncIterator[Crib]:
    (folder / "work").mkdir()
    one = {"command": sys.executable, "args": [SERVER], "env": {"API_KEY": SECRET}}
    config = {
        "mcpServers": dict.fromkeys(servers or ("srv",), one),
        "workspace": {"root": str(folder / "work")},
        "channels": {"telegram": {"groups": {"*": {"tools": tools or {}}}}},
    }
    async with asyncio.timeout(SECONDS), toolcrib.open(config, state=folder / "state") as crib:
        news = asyncio.Event()
        crib.mcp.on_change(news.set)
        while any(each.state != "connected" for each in crib.mcp.servers.values()):  # a busy machine may need two tries
            await news.wait()
            news.clear()
        yield crib


@asynccontextmanager
async def client_of(
    crib: Crib, caller: Caller = OWNER, profile: str | None = None, mode: str = "legacy", **more: Any
) -> AsyncIterator[Any]:
    """The official client; what it returns are unions of everything that there is."""

    def belt(extra: Sequence[Tool]) -> Belt:
        return crib.belt(caller, extra, profile=profile)

    server = BeltServer(lambda: belt(()), Relay(belt, crib.mcp_tools))
    async with Client(server, mode=mode, **more) as client:
        yield client


async def test_a_client_of_the_newest_protocol_is_answered_whatever_it_asks_for(tmp_path: Path) -> None:
    async with crib_in(tmp_path) as crib, client_of(crib, mode="auto") as client:
        listed = await client.list_resources()
        assert (listed.ttl_ms, listed.cache_scope, len(listed.resources)) == (0, "private", 3)
        assert len((await client.list_resource_templates()).resource_templates) == 1
        assert (await client.read_resource("test://static-text")).contents[0].text.startswith("<<<")
        assert "srv__test_simple_prompt" in [each.name for each in (await client.list_prompts()).prompts]
        assert (await client.get_prompt("srv__test_simple_prompt")).messages
        ref = PromptReference(type="ref/prompt", name="srv__test_prompt_with_arguments")
        told = await client.complete(ref, {"name": "arg1", "value": "par"})
        assert told.completion.values == ["paris", "park", "party"]


async def test_resources_are_listed_and_read_between_marks_and_pictures_are_pictures(tmp_path: Path) -> None:
    async with crib_in(tmp_path) as crib, client_of(crib) as client:
        listed = {str(each.uri): each for each in (await client.list_resources()).resources}
        assert sorted(listed) == ["test://static-binary", "test://static-text", "test://watched-resource"]
        assert (listed["test://static-text"].description, listed["test://static-text"].mime_type) == (
            "Some text.",
            "text/plain",
        )
        (template,) = (await client.list_resource_templates()).resource_templates
        assert template.uri_template == "test://template/{id}/data"
        (read,) = (await client.read_resource("test://static-text")).contents
        assert read.text.startswith("<<<")
        assert "Source: mcp:srv" in read.text
        assert "This is the content of the static text resource." in read.text
        picture, fence = (await client.read_resource("test://static-binary")).contents
        assert (picture.mime_type, bool(picture.blob)) == ("image/png", True)
        assert fence.text.startswith("<<<")
        (found,) = (await client.read_resource("test://template/123/data")).contents
        assert '"id": "123"' in found.text


async def test_prompts_have_names_like_tools_and_come_between_marks(tmp_path: Path) -> None:
    async with crib_in(tmp_path) as crib, client_of(crib) as client:
        listed = {each.name: each for each in (await client.list_prompts()).prompts}
        assert "srv__test_prompt_with_arguments" in listed
        asked = listed["srv__test_prompt_with_arguments"].arguments
        assert asked is not None
        assert [(each.name, each.required) for each in asked] == [("arg1", True), ("arg2", True)]
        got = await client.get_prompt("srv__test_prompt_with_arguments", {"arg1": "one", "arg2": "two"})
        (message,) = got.messages
        assert message.content.text.startswith("<<<")
        assert "arg1='one', arg2='two'" in message.content.text
        pictured = (await client.get_prompt("srv__test_prompt_with_image")).messages
        assert [each.content.type for each in pictured] == ["text", "image", "text"]
        filed = (await client.get_prompt("test_prompt_with_embedded_resource", {"resourceUri": "x://y"})).messages
        assert filed[0].content.resource.uri == "x://y"
        with pytest.raises(MCPError, match="there is no prompt 'srv__test_simple_promt'; did you mean"):
            await client.get_prompt("srv__test_simple_promt")
        with pytest.raises(MCPError, match="there is no resource 'nope://x'"):
            await client.read_resource("nope://x")


async def test_values_are_completed_by_the_server_whose_prompt_it_is(tmp_path: Path) -> None:
    async with crib_in(tmp_path) as crib, client_of(crib) as client:
        for name in ("srv__test_prompt_with_arguments", "test_prompt_with_arguments"):
            ref = PromptReference(type="ref/prompt", name=name)
            told = await client.complete(ref, {"name": "arg1", "value": "par"})
            assert told.completion.values == ["paris", "park", "party"]
        ref2 = ResourceTemplateReference(type="ref/resource", uri="test://template/{id}/data")
        assert (await client.complete(ref2, {"name": "id", "value": "1"})).completion.values


@pytest.mark.parametrize(
    "tools", [{"profile": "full", "deny": ["srv__*"]}, {"profile": "full", "deny": ["group:mcp"]}, {"allow": ["read"]}]
)
async def test_who_is_denied_a_server_sees_and_reads_nothing_of_it(tools: dict[str, Any], tmp_path: Path) -> None:
    async with crib_in(tmp_path, tools=tools) as crib:
        async with client_of(crib, GUEST) as client:
            assert (await client.list_resources()).resources == []
            assert (await client.list_prompts()).prompts == []
            with pytest.raises(MCPError, match="there is no"):
                await client.read_resource("test://static-text")
            with pytest.raises(MCPError, match="there is no"):
                await client.get_prompt("srv__test_simple_prompt")
            with pytest.raises(MCPError, match="there is no"):
                await watch(client)
        async with client_of(crib, OWNER, "coding") as client:  # a profile takes away, here as everywhere
            assert (await client.list_resources()).resources == []
            assert (await client.list_prompts()).prompts == []


async def test_a_rule_about_reading_alone_holds_for_resources_and_one_about_prompts_for_them(tmp_path: Path) -> None:
    tools = {"profile": "full", "deny": ["srv__resources__read", "srv__prompts__get"]}
    async with crib_in(tmp_path, tools=tools) as crib, client_of(crib, GUEST) as client:
        assert (await client.list_resources()).resources
        with pytest.raises(MCPError, match="there is no resource"):
            await client.read_resource("test://static-text")
        assert (await client.list_prompts()).prompts
        with pytest.raises(MCPError, match="srv__prompts__get is denied"):
            await client.get_prompt("srv__test_simple_prompt")


async def test_of_two_servers_the_first_is_asked_for_a_resource_and_a_prompt_needs_its_whole_name(
    tmp_path: Path,
) -> None:
    async with crib_in(tmp_path, "one", "two") as crib, client_of(crib) as client:
        (read,) = (await client.read_resource("test://static-text")).contents
        assert "Source: mcp:one" in read.text
        with pytest.raises(MCPError, match="there is no prompt 'test_simple_prompt'"):
            await client.get_prompt("test_simple_prompt")
        (message,) = (await client.get_prompt("two__test_simple_prompt")).messages
        assert "Source: mcp:two" in message.content.text


async def test_who_subscribed_hears_that_a_resource_changed(tmp_path: Path) -> None:
    heard: asyncio.Queue[Any] = asyncio.Queue()

    async def hear(message: Any) -> None:
        if getattr(message, "method", "") == "notifications/resources/updated":
            heard.put_nowait(str(message.params.uri))

    async with crib_in(tmp_path) as crib, client_of(crib, message_handler=hear) as client:
        await watch(client)
        await watch(client)  # the server tells of a change each time
        assert await heard.get() == "test://watched-resource"
        params = UnsubscribeRequestParams(uri=WATCHED)
        await client.session.send_request(UnsubscribeRequest(params=params), EmptyResult)
