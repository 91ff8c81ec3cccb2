"""exec: what the service answers, told to the model."""

from typing import Any

import pytest

from toolcrib import Text
from toolcrib.define.errors import ArgumentError, ToolError
from toolcrib.testing import fake_ctx
from toolcrib.tools.runtime.exec import exec

pytestmark = pytest.mark.anyio

ENDED: dict[str, Any] = {
    "status": "completed", "sessionId": "calm-otter-001", "pid": 7, "startedAt": 0, "cwd": ".", "exitCode": 0,
    "signal": None, "timedOut": False, "durationMs": 3, "limit": "", "left": 0, "bytes": 3, "cut": False, "key": "",
    "reason": "exit", "sentence": "exited with code 0", "text": "hi\n", "lines": 1, "totalLines": 1, "notices": [],
}  # fmt: skip
RUNNING = {**ENDED, "status": "running", "name": "make", "tail": "so far"}


async def told(state: Any, **args: Any) -> Any:
    ctx = fake_ctx("exec", rpc={"process.start": state})
    return await exec.run(ctx, exec.check({"command": "make", **args}))


def words(result: Any) -> str:
    return "".join(part.text for part in result.content if isinstance(part, Text))


async def test_what_a_command_prints_is_returned() -> None:
    result = await told(ENDED)
    assert (words(result), result.status, result.details["exitCode"]) == ("hi", "ok", 0)


async def test_silence_is_told() -> None:
    assert words(await told({**ENDED, "text": ""})) == "(no output)"


async def test_a_failure_is_an_error_that_keeps_the_output() -> None:
    failed = {**ENDED, "status": "failed", "exitCode": 7, "sentence": "exited with code 7"}
    result = await told(failed)
    assert (words(result), result.status) == ("hi\n\nThe command exited with code 7.", "error")
    assert (result.details["status"], result.details["code"]) == ("failed", "exit")


async def test_what_was_left_out_is_told_where_it_was() -> None:
    result = await told({**ENDED, "cut": True, "lines": 2_000, "totalLines": 2_500, "key": "abc"})
    notice = "[the last 2,000 of 2,500 lines are shown; result_get with key 'abc' gives the output from its beginning]"
    assert words(result) == f"{notice}\nhi"
    result = await told({**ENDED, "cut": True, "totalLines": None, "bytes": 10**8})
    assert words(result) == "[the last lines of 100,000,000 bytes are shown]\nhi"


async def test_a_command_in_the_background_is_named() -> None:
    result = await told(RUNNING)
    assert "still running as calm-otter-001 (pid 7)" in words(result)
    assert (result.status, result.details["tail"]) == ("ok", "so far")


async def test_what_ended_meanwhile_is_told() -> None:
    notice = {"sessionId": "wild-fox-002", "name": "make test", "sentence": "exited with code 2"}
    assert words(await told({**ENDED, "notices": [notice]})) == "hi\n\n[wild-fox-002 (make test) exited with code 2]"


async def test_the_service_is_asked_for_what_was_permitted_under_the_call() -> None:
    ctx = fake_ctx("exec", rpc={"process.start": ENDED})
    await exec.run(ctx, exec.check({"command": "ls", "yieldMs": 500, "background": True, "timeout": 3, "pty": True}))
    asked = {"call": "call_1", "wait": 0.5, "background": True, "seconds": 3.0, "pty": True}
    assert ctx.rpc.calls == [("process.start", asked)]


async def test_a_wait_of_zero_is_not_given_so_that_a_short_command_ends_in_its_call() -> None:
    ctx = fake_ctx("exec", rpc={"process.start": ENDED})
    blanks = {"command": "ls", "workdir": "", "env": {}, "yieldMs": 0, "background": False, "timeout": 0, "pty": False}
    await exec.run(ctx, exec.check(blanks))
    asked = {"call": "call_1", "wait": None, "background": False, "seconds": 0.0, "pty": False}
    assert ctx.rpc.calls == [("process.start", asked)]


async def test_progress_is_shown() -> None:
    ctx = fake_ctx("exec", rpc={"process.start": ENDED})
    ctx.rpc.parts["process.start"] = [{"sessionId": "a", "pid": 1, "tail": "half"}]
    await exec.run(ctx, {"command": "ls"})
    assert [words(part) for part in ctx.shown] == ["half"]


async def test_what_the_service_refuses_is_the_tools_error() -> None:
    with pytest.raises(ToolError, match="no program"):
        await told(ToolError("no program 'x' here", code="not_found"))


@pytest.mark.parametrize("name", ["host", "security", "ask", "elevated", "node", "approved"])
def test_a_call_cannot_say_how_freely_it_runs(name: str) -> None:
    with pytest.raises(ArgumentError, match=name):
        exec.check({"command": "ls", name: "full"})
