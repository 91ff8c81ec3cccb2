"""process: every action asks one method and tells what it answered."""

from typing import Any

import pytest

from toolcrib import Text
from toolcrib.define.errors import ArgumentError, ToolError
from toolcrib.testing import fake_ctx
from toolcrib.tools.runtime.process import process

pytestmark = pytest.mark.anyio

ROW: dict[str, Any] = {
    "sessionId": "calm-otter-001", "status": "running", "runtime": "1m05s", "name": "make test", "text": "new\n",
    "left": 0, "missed": 0, "key": "", "truncated": False, "first": 4, "count": 1, "totalLines": 5, "bytes": 3,
    "warnings": [], "sentence": "",
}  # fmt: skip
ENDED = {**ROW, "status": "failed", "sentence": "exited with code 2"}


async def told(answer: Any, method: str, **args: Any) -> str:
    ctx = fake_ctx("process", rpc={f"process.{method}": answer})
    result = await process.run(ctx, process.check(args))
    return "".join(part.text for part in result.content if isinstance(part, Text))


@pytest.mark.parametrize(
    ("answer", "method", "args", "words"),
    [
        ({"sessions": [ROW]}, "list", {"action": "list"}, "calm-otter-001  running      1m05s  make test"),
        ({"sessions": []}, "list", {"action": "list"}, "No commands are in the background."),
        (ROW, "poll", {"action": "poll"}, "new\n\ncalm-otter-001 is still running."),
        ({**ENDED, "text": ""}, "poll", {"action": "poll"}, "(no new output)\n\ncalm-otter-001 exited with code 2."),
        (
            {**ROW, "missed": 9, "left": 1_000},
            "poll",
            {"action": "poll"},
            "[9 bytes before this are not kept any more]\n[1,000 characters before this are not shown; see log]\nnew\n",
        ),
        (ROW, "log", {"action": "log"}, "[lines 4 to 4 of 5]\nnew\n\ncalm-otter-001 is still running."),
        (ROW, "write", {"action": "write", "data": "x", "eof": True}, "Wrote 3 bytes to calm-otter-001 and closed"),
        ({**ROW, "warnings": ["odd"]}, "keys", {"action": "send-keys", "keys": ["Up"]}, "calm-otter-001.\nodd"),
        (ROW, "submit", {"action": "submit", "data": "y"}, "Submitted to calm-otter-001."),
        (ROW, "paste", {"action": "paste", "text": "y"}, "Pasted 3 bytes into calm-otter-001."),
        (ENDED, "kill", {"action": "kill"}, "calm-otter-001 exited with code 2."),
        (ROW, "kill", {"action": "kill", "signal": "INT"}, "Sent INT to calm-otter-001, which is still running."),
        (ENDED, "clear", {"action": "clear"}, "calm-otter-001 is forgotten."),
        (ENDED, "remove", {"action": "remove"}, "calm-otter-001 is ended and forgotten."),
    ],
)
async def test_each_action_says_what_came_of_it(answer: Any, method: str, args: dict[str, Any], words: str) -> None:
    named = args if args["action"] == "list" else {**args, "sessionId": "calm-otter-001"}
    assert words in await told(answer, method, **named)


async def test_a_command_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ToolError, match="no command"):
        await told(
            ToolError("no command 'x' in the background", code="not_found"), "poll", action="poll", sessionId="x"
        )


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        ({"action": "poll"}, "sessionId"),
        ({"action": "poll", "sessionId": "x", "data": "y"}, "data"),
        ({"action": "pol", "sessionId": "x"}, "did you mean 'poll'"),
        ({"action": "log", "sessionId": "x", "limit": -1}, "limit"),
    ],
)
def test_each_action_takes_its_own_parameters(args: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ArgumentError, match=complaint):
        process.check(args)


async def test_blanks_of_other_actions_and_of_its_own_are_not_given() -> None:
    blanks = {"timeoutMs": 0, "offset": 0, "limit": 0, "data": "", "eof": False, "keys": [], "hex": [], "text": ""}
    assert process.check({"action": "poll", "sessionId": "a", **blanks}) == {
        "action": "poll",
        "sessionId": "a",
        "timeoutMs": 0,
    }
    assert process.check({"action": "log", "sessionId": "a", **blanks}) == {
        "action": "log",
        "sessionId": "a",
        "offset": 0,
    }
