"""result_get: page through a result that was cut."""

import re

import pytest

import toolcrib
from toolcrib import Result, Text, tool


def words(result: Result) -> str:
    return "".join(part.text for part in result.content if isinstance(part, Text))


@pytest.mark.anyio
@pytest.mark.parametrize("source", [None, "web:https://a.test"])
async def test_a_cut_result_can_be_read_to_its_end(source: str | None) -> None:
    whole = "".join(f"line {n}\n" for n in range(3_000))

    @tool(name="long", effects=set())
    async def long_one() -> Result:
        """Say a lot."""
        return Result.text(whole, source=source)

    belt = toolcrib.open({}).belt(toolcrib.OWNER, extra=[long_one])
    first = words(await belt.call("long"))
    key = re.findall(r"[0-9a-f]{64}", first)[0]
    seen, offset = "", 0
    while True:
        page = await belt.call("result_get", {"key": key, "offset": offset})
        assert page.status == "ok"
        body = words(page)
        told = re.search(r"\[(\d+) characters are left; go on with offset (\d+)\]", body)
        seen += body
        if told is None:
            break
        offset = int(told[2])
    assert "line 2999" in seen
    assert ("UNTRUSTED" in seen) is (source is not None)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("args", "code"),
    [({"key": "0" * 64}, "not_found"), ({"key": "x", "offset": -1}, "bad_arguments"), ({}, "bad_arguments")],
)
async def test_what_cannot_be_read_is_told(args: dict[str, object], code: str) -> None:
    result = await toolcrib.open({}).belt(toolcrib.OWNER).call("result_get", args)
    assert (result.status, result.details["code"]) == ("error", code)


@pytest.mark.anyio
async def test_without_the_tool_on_the_belt_no_key_is_told() -> None:
    @tool(name="long", effects=set())
    async def long_one() -> str:
        """Say a lot."""
        return "x" * 20_000

    belt = toolcrib.open({"tools": {"deny": ["result_get"]}}).belt(toolcrib.OWNER, extra=[long_one])
    assert re.findall(r"[0-9a-f]{64}", words(await belt.call("long"))) == []
