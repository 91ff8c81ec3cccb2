"""Every example runs and prints what it promises; the example plugin answers the three `tools` commands."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import prestarted
from toolcrib.backends.plugins import find_plugins

EXAMPLES = Path(__file__).parents[1] / "examples"
CONFIG = str(EXAMPLES / "crib.yaml")


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run Python as a user would, with this source tree on its path and no configuration of the user's."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TOOLCRIB_")}
    env = {**inherited, "PYTHONPATH": os.pathsep.join(sys.path), "NO_COLOR": "1"}
    return prestarted.run(
        [sys.executable, *command], env=env, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL
    )


def tools(*args: str) -> subprocess.CompletedProcess[str]:
    return run("-m", "toolcrib.doors.cli.main", "tools", *args, "--config", CONFIG)


SCRIPTS = {
    "01_one_tool.py": [
        "ok | Hello Ann! Hello Ann!",
        "error | greet: there is no parameter 'nmae' (did you mean 'name'?); name is required",
    ],
    "02_policy_alone.py": [
        "a clerk: search, order",
        "a human is asked for effect:write (house-rules.toml)",
        "deny has 'refund' (house-rules.toml)",
        "a clerk with a tiny model: search",
        "not in allow (tools.byProvider.tiny)",
        "refund is denied at the global layer: deny has 'group:money' (tools)",
    ],
    "03_adapter_alone.py": [
        'anthropic: {"name": "cut"',
        'openai: {"type": "function"',
        "gemini is not told: board: pattern; ",
        "refused: cut: board must match ^B[0-9]+$, not 'plank'; sizes[0].width must be at least 1, not 0; there is no ",
    ],
    "04_who_gets_what.py": [
        "the owner has ",
        "a stranger has 2 of ",
        "not in allow (channels.telegram.groups.*.toolsBySender.*)",
        "Source: weather-service",
        "It is fine in Kyiv.",
        "calling gateway: error gateway is denied at the owner layer",
    ],
    "05_inside_openai.py": [
        "told: 4 x nut: 12 euros",
        "told: error: Refused: exec is not permitted here.",
        "said: Four nuts cost 12 euros.",
    ],
    "06_inside_anthropic.py": [
        "{'type': 'tool_result', 'tool_use_id': 'a', 'content': '3 euros', 'is_error': False}",
        "no 'moon' in the shop; there are nuts\", 'is_error': True}",
        "said: A nut costs 3 euros; the moon is not for sale.",
    ],
    "07_inside_genai.py": [
        "Source: weather-service",
        "It is fine in Kyiv.",
        "said: The weather in Kyiv is fine.",
    ],
    "08_inside_pydantic_ai.py": [
        "1000 has discount: True",
        "7 has discount: False",
        '7 is told: {"price":"a: 3 euros"}',
    ],
    "09_a_turn.py": [
        "[grep {'pattern': 'TODO', 'glob': '*.py'}]\n[ok]\n",
        "shop.py:1: # TODO: count the nuts",
        "[done after 2 replies]",
        "[ls {'path': '.'}]\n[ok]\n",
        "agent:main:example has 12 lines and began with 'search TODO in *.py'",
    ],
    "10_your_own_model.py": [
        "done | I asked, and heard: 4 x nut: 12 euros",
        "tool | Refused: exec is not permitted here.",
    ],
    "11_a_subagent.py": [
        "ok, goal: Found 1 line, first `shop.py:1`:",
        "accepted, finder works in the background\nfinder done: Found 1 line, first `shop.py:1`:",
        "exec is denied at the subagent layer: not in allow (agent finder)",
        "read is denied at the global-provider layer: deny has 'read' (tools.byProvider.offline)",
        "kept: agent:finder:subagent under agent:main:example",
    ],
}


CLIENTS = ["12_a_client.py"]  # of a gateway: tests/doors/gateway/test_client_examples.py runs them


def test_every_example_is_run_here() -> None:
    assert sorted(path.name for path in EXAMPLES.glob("*.py")) == sorted([*SCRIPTS, *CLIENTS])


@pytest.mark.parametrize(("script", "lines"), SCRIPTS.items())
def test_an_example_prints_what_it_promises(script: str, lines: list[str]) -> None:
    ran = run(str(EXAMPLES / script))
    assert (ran.returncode, ran.stderr) == (0, "")
    for line in lines:
        assert line in ran.stdout


def test_the_example_plugin_is_declared_as_it_is() -> None:
    found, broken = find_plugins([EXAMPLES])
    assert broken == []
    shop = found["shop"]
    assert [tool.name for tool in shop.load().tools] == ["dice", "word_count"]  # type: ignore[union-attr]  # no factories


def test_the_tools_of_the_plugin_are_listed() -> None:
    ran = tools("list", "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    listed = {tool["name"]: tool for tool in json.loads(ran.stdout)["tools"]}
    assert [listed[name]["source"] for name in ("dice", "word_count", "read")] == ["plugin:shop", "plugin:shop", "core"]
    assert listed["dice"]["kind"] == "think"
    assert listed["dice"]["runs"] is True


def test_a_tool_of_the_plugin_is_shown() -> None:
    ran = tools("show", "dice")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "Roll dice and tell each roll and the total." in ran.stdout
    assert '"sides"' in ran.stdout


def test_a_tool_of_the_plugin_is_called() -> None:
    first, again = (tools("call", "dice", '{"sides": 6, "count": 3, "seed": 1}') for _ in range(2))
    assert (first.returncode, first.stderr, first.stdout) == (0, "", again.stdout)
    rolled = json.loads(first.stdout)
    assert rolled == {"rolls": [2, 5, 1], "total": 8}


@pytest.mark.parametrize(
    ("args", "counted"),
    [
        ({"text": "one two\nthree"}, {"words": 3, "lines": 2, "characters": 13}),
        ({"text": "A cat, a hat.", "top": 1}, {"words": 4, "lines": 1, "characters": 13, "top": {"a": 2}}),
    ],
)
def test_an_optional_parameter_may_be_left_out(args: dict[str, object], counted: dict[str, object]) -> None:
    ran = tools("call", "word_count", json.dumps(args), "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    answer = json.loads(ran.stdout)
    assert (answer["details"], answer["status"], answer["verdict"]["decision"]) == (counted, "ok", "allow")


@pytest.mark.parametrize(
    ("args", "code", "sentence"),
    [
        (("dice", '{"side": 6}'), 1, "dice: there is no parameter 'side' (did you mean 'sides'?); sides is required\n"),
        (("dice", '{"sides": 1}'), 1, "dice: sides must be at least 2, not 1\n"),
        (("dicee", "{}"), 1, "there is no tool 'dicee'; the nearest are dice"),
        (("dice", "{"), 2, "toolcrib: the arguments are no JSON"),
        (("dice", "[]"), 2, "toolcrib: the arguments must be a JSON object"),
    ],
)
def test_a_bad_call_says_what_to_mend(args: tuple[str, str], code: int, sentence: str) -> None:
    ran = tools("call", *args)
    assert (ran.returncode, ran.stdout) == (code, "")
    assert ran.stderr.startswith(sentence)
    assert len(ran.stderr.splitlines()) == 1
