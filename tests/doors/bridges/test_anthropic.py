"""What only Anthropic's wire has: tools under the names that Claude Code has for them."""

import pytest

pytest.importorskip("anthropic", reason="the package anthropic is not installed")

from tests.doors.bridges.wires import Asked
from tests.doors.bridges.with_anthropic import messages
from tests.doors.bridges.world import world

pytestmark = pytest.mark.anyio


async def test_tools_may_be_called_by_the_names_of_claude_code() -> None:
    here = world()
    heard = await messages(here.belt, [Asked("Grep"), Asked("add", '{"a": 1}', "call_2")], claude_code=True)
    assert {"Read", "Grep", "add"} <= set(heard.offered)
    assert {"read", "grep"}.isdisjoint(heard.offered)
    assert [told.id for told in heard.told] == ["call_1", "call_2"]
    assert [entry[1] for entry in here.record if entry[0] == "finished"] == ["grep", "add"]


async def test_a_denied_tool_under_such_a_name_is_refused() -> None:
    here = world()
    heard = await messages(here.belt, [Asked("Glob", '{"pattern": "*"}')], claude_code=True)
    assert "Glob" not in heard.offered
    assert [told.failed for told in heard.told] == [True]
    assert heard.told[0].text.startswith("Refused: find is not permitted here.")
