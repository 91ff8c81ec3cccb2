"""actions(...): one tool, several actions, a flat schema, each action's own parameters checked."""

from typing import Annotated, Any

import pytest

from toolcrib.define.actions import actions
from toolcrib.define.context import Ctx
from toolcrib.define.errors import ArgumentError, DeclarationError
from toolcrib.define.result import Result
from toolcrib.define.tool import Tool
from toolcrib.testing import fake_ctx

pytestmark = pytest.mark.anyio


async def show(ctx: Ctx, all: Annotated[bool, "include disabled jobs"] = False) -> Result:
    """List jobs."""
    return Result.json(await ctx.rpc("cron.list", {"all": all}))


async def remove(ctx: Ctx, jobId: Annotated[str, "which job"]) -> Result:  # noqa: N803  the documents' spelling
    """Remove a job."""
    return Result.json(await ctx.rpc("cron.remove", {"id": jobId}))


def run(jobId: str, force: bool | None) -> str:  # noqa: N803
    """Run a job now."""
    return f"{jobId} {force}"


cron = actions(
    "cron",
    "Schedule work for later.",
    {"list": show, "remove": remove, "run": run},
    group="automation",
    effects={"write"},
    timeout=5,
)


def test_the_schema_is_flat_and_tells_which_action_takes_what() -> None:
    assert cron.parameters == {
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": ["list", "remove", "run"], "description": "what to do"},
            "all": {"type": "boolean", "description": "include disabled jobs (list)", "default": False},
            "jobId": {"type": "string", "description": "which job (remove, run)"},
            "force": {"type": "boolean", "description": "(run)"},
        },
        "required": ["action"],
        "additionalProperties": False,
    }


def test_the_description_lists_the_actions_and_options_are_kept() -> None:
    assert cron.description == (
        "Schedule work for later.\n\nActions:\n- list: List jobs.\n- remove: Remove a job.\n- run: Run a job now."
    )
    assert (cron.name, cron.group, cron.effects, cron.timeout) == ("cron", "automation", frozenset({"write"}), 5)


async def test_the_action_that_was_named_runs_with_its_own_parameters() -> None:
    ctx = fake_ctx("cron", rpc={"cron.list": ["job"], "cron.remove": True})
    for args, result in (
        ({"action": "list", "all": "true"}, Result.json(["job"])),
        ({"action": "list"}, Result.json(["job"])),
        ({"action": "remove", "jobId": 7}, Result.json(True)),
        ({"action": "run", "jobId": "7"}, Result.text("7 None")),
    ):
        assert await cron.run(ctx, cron.check(args)) == result
    assert ctx.rpc.calls == [("cron.list", {"all": True}), ("cron.list", {"all": False}), ("cron.remove", {"id": "7"})]


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        ({}, "action is required; use one of list, remove, run"),
        ({"action": None}, "action is required; use one of list, remove, run"),
        ({"action": "remov"}, "there is no action 'remov'; did you mean 'remove'?"),
        ({"action": "zzz"}, "there is no action 'zzz'; use one of list, remove, run"),
        ({"action": ["list"]}, "there is no action ['list']; did you mean 'list'?"),
        ({"action": "remove"}, "action remove: jobId is required"),
        ({"action": "remove", "all": True},
         "action remove: there is no parameter 'all' (it takes jobId); jobId is required"),
        ({"action": "list", "all": "perhaps"}, "action list: all must be true or false, not 'perhaps'"),
    ],
)  # fmt: skip
def test_each_action_checks_its_own_parameters(args: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        cron.check(args)
    assert str(raised.value) == f"cron: {complaint}"


def test_a_null_for_a_parameter_of_another_action_is_not_given() -> None:
    # a model that must fill in every field of the flat schema writes null for the rest
    assert cron.check({"action": "remove", "jobId": "7", "all": None, "force": None}) == {
        "action": "remove",
        "jobId": "7",
    }


@pytest.mark.parametrize("blank", ["", 0, False, [], {}])
def test_a_blank_for_a_parameter_of_another_action_is_not_given(blank: Any) -> None:
    assert cron.check({"action": "run", "jobId": "7", "all": blank}) == {"action": "run", "jobId": "7", "force": None}


def number(n: int) -> str:
    """Take a number."""
    return str(n)


def text(n: str) -> str:
    """Take a text."""
    return n


def bounded(n: Annotated[int, "between"] = 3) -> str:
    """Take a number, or not."""
    return str(n)


def taken(action: str) -> str:
    """Take an action."""
    return action


@pytest.mark.parametrize(
    ("bodies", "complaint"),
    [
        ({}, "tool probe: needs at least one action"),
        (
            {"one": number, "two": text},
            (
                "tool probe: parameter 'n' means one thing in action 'one' and another in 'two'; "
                "give it one type or two names"
            ),
        ),
        ({"one": taken}, "tool probe, action 'one': a parameter cannot be called 'action'"),
    ],
)
def test_what_cannot_work_is_refused_when_it_is_declared(bodies: dict[str, Any], complaint: str) -> None:
    with pytest.raises(DeclarationError) as raised:
        actions("probe", "Probe.", bodies)
    assert str(raised.value) == complaint


def test_an_action_outside_the_portable_subset_is_refused_with_its_file() -> None:
    def odd(n: int | str) -> str:
        """Take anything."""
        return str(n)

    with pytest.raises(DeclarationError, match=r"tool probe \(.*test_actions\.py:\d+\): parameter 'n' is a union"):
        actions("probe", "Probe.", {"odd": odd})


def test_words_and_defaults_of_a_shared_parameter_may_differ() -> None:
    probe: Tool = actions("probe", "Probe.", {"one": number, "two": bounded})
    assert probe.parameters["properties"]["n"] == {"type": "integer", "description": "(one, two)"}
    assert probe.check({"action": "two"}) == {"action": "two"}
