"""The fakes that are shipped: each does what its port promises, and keeps what was done."""

from typing import Literal

import pytest

from toolcrib.define.caller import Caller, Sender
from toolcrib.define.context import Ctx
from toolcrib.define.errors import ToolError
from toolcrib.define.message import Call
from toolcrib.define.ports import Approver, Blobs, Rpc, Workspace
from toolcrib.define.result import Result
from toolcrib.define.tool import tool
from toolcrib.define.web import Http
from toolcrib.testing import FakeApprover, FakeHttp, FakePage, FakeRpc, MemoryBlobs, MemoryWorkspace, call, fake_ctx

pytestmark = pytest.mark.anyio


def test_the_fakes_are_the_ports_they_stand_for() -> None:
    # checked by mypy: each assignment is one promise
    workspace: Workspace = MemoryWorkspace()
    http: Http = FakeHttp()
    rpc: Rpc = FakeRpc()
    blobs: Blobs = MemoryBlobs()
    approver: Approver = FakeApprover()
    ctx: Ctx = fake_ctx()
    assert all((workspace, http, rpc, blobs, approver, ctx))


def test_a_fake_context_is_one_call_by_one_caller() -> None:
    caller = Caller(sender=Sender(id="7"))
    ctx = fake_ctx("read", {"path": "a"}, caller=caller)
    assert ctx.call == Call(id="call_1", name="read", args={"path": "a"}, key="call_1")
    assert ctx.caller is caller
    assert fake_ctx().call == Call(id="call_1", name="tool", key="call_1")
    assert fake_ctx().caller == Caller()


async def test_a_memory_workspace_reads_and_writes_by_one_spelling_of_a_path() -> None:
    ctx = fake_ctx(files={"a/b.txt": "hello", "c.bin": b"\x00"})
    assert await ctx.workspace.read("./a//b.txt") == b"hello"
    await ctx.workspace.write("a/../d.txt", b"new")
    assert ctx.workspace.files == {"a/b.txt": b"hello", "c.bin": b"\x00", "d.txt": b"new"}


async def test_a_missing_file_is_named_with_those_there_are() -> None:
    with pytest.raises(ToolError, match=r"^no file 'x'; there are a, b$"):
        await MemoryWorkspace({"b": "", "a": ""}).read("x")
    with pytest.raises(ToolError, match=r"^no file 'x'; there are none$"):
        await MemoryWorkspace().read("x")


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", ".."])
async def test_no_path_leads_out_of_a_memory_workspace(path: str) -> None:
    with pytest.raises(ToolError, match=r"out(side)? of the workspace") as raised:
        await MemoryWorkspace().write(path, b"")
    assert raised.value.code == "denied"


async def test_a_fake_web_answers_its_pages_and_keeps_what_was_asked() -> None:
    ctx = fake_ctx(pages={"https://a.test": "hello", "https://gone.test": FakePage("", status=410)})
    assert (await ctx.http.get("https://a.test")).text == "hello"
    assert (await ctx.http.get("https://gone.test")).status == 410
    with pytest.raises(ToolError, match=r"^https://b.test does not answer; there are https://a.test, https://gone"):
        await ctx.http.get("https://b.test")
    assert ctx.http.asked == ["https://a.test", "https://gone.test", "https://b.test"]


async def test_a_fake_gateway_answers_raises_or_computes() -> None:
    ctx = fake_ctx(rpc={"a.list": [1], "a.add": lambda params: params["n"] + 1, "a.fail": ToolError("no")})
    assert await ctx.rpc("a.list", {}) == [1]
    assert await ctx.rpc("a.add", {"n": 1}) == 2
    with pytest.raises(ToolError, match=r"^no$"):
        await ctx.rpc("a.fail", {})
    with pytest.raises(ToolError, match=r"^no method 'a.remove'; there are a.add, a.fail, a.list$"):
        await ctx.rpc("a.remove", {"n": 2})
    assert ctx.rpc.calls == [("a.list", {}), ("a.add", {"n": 1}), ("a.fail", {}), ("a.remove", {"n": 2})]


async def test_memory_blobs_are_found_by_their_content() -> None:
    blobs = MemoryBlobs()
    key = await blobs.put(b"big")
    assert key == await blobs.put(b"big")
    assert await blobs.get(key) == b"big"
    assert list(blobs.values) == [key]
    with pytest.raises(ToolError, match=r"^no blob 'x'$"):
        await blobs.get("x")


async def test_a_fake_human_gives_prepared_answers_and_fails_when_asked_too_often() -> None:
    approver, caller, call = FakeApprover([True, False]), Caller(), Call(id="1", name="exec")
    assert [await approver.approve(caller, call, "why") for _ in range(2)] == [True, False]
    assert approver.asked == [(caller, call, "why"), (caller, call, "why")]
    with pytest.raises(AssertionError, match="nobody expected to be asked about exec: why"):
        await approver.approve(caller, call, "why")


async def test_a_fake_human_who_always_says_the_same() -> None:
    for answer in (True, False):
        approver = FakeApprover(answer)
        assert [await approver.approve(Caller(), Call(id="1", name="exec"), "why") for _ in range(3)] == [answer] * 3


@tool
def add(ctx: Ctx, number: int, word: Literal["a", "b"] = "a") -> str:
    """Add."""
    if number > 9:
        raise ToolError("too many", code="full")
    return f"{ctx.call.args} {number + 1 // (number + 1)}"


async def test_a_call_checks_its_arguments_as_a_real_one_does() -> None:
    assert await call(add, {"number": "3"}) == Result.text("{'number': 3} 3")
    assert (await call(add, {"number": 1}, fake_ctx(args={"mine": 1}))).plain_text == "{'mine': 1} 1"
    assert (await call(add)).plain_text == "add: number is required"
    wrong = await call(add, {"number": 1, "word": "c"})
    assert (wrong.status, wrong.details["code"]) == ("error", "bad_arguments")
    assert await call(add, {"number": 10}) == Result.error("too many", code="full")
    with pytest.raises(ZeroDivisionError):
        await call(add, {"number": -1})


async def test_a_plain_function_can_be_called() -> None:
    def double(number: int) -> int:
        """Double."""
        return 2 * number

    assert await call(double, {"number": "4"}) == Result.json(8)


def test_secrets_and_progress() -> None:
    ctx = fake_ctx(secrets={"KEY": "value"})
    assert ctx.secret("KEY") == "value"
    with pytest.raises(ToolError, match=r"^this crib holds no secret 'OTHER'$"):
        ctx.secret("OTHER")
    ctx.progress(Result.text("half"))
    assert ctx.shown == [Result.text("half")]


@tool(effects=set())
async def rename(ctx: Ctx) -> str:
    """Rename the cat."""
    form = await ctx.ask("What is it called?", {"type": "object", "properties": {"name": {"type": "string"}}})
    return "no name" if form is None else form["name"]


async def test_a_person_answers_what_a_body_asks_in_their_order() -> None:
    ctx = fake_ctx(answers=[{"name": "Tom"}, None, {"name": 1}])
    said = [await call(rename, ctx=ctx) for _ in range(3)]
    assert [(each.status, each.plain_text) for each in said[:2]] == [("ok", "Tom"), ("ok", "no name")]
    with pytest.raises(AssertionError, match=r"nobody expected to be asked: What is it called\?"):
        await call(rename, ctx=ctx)
    assert "nobody can be asked here" in (await call(rename)).plain_text
