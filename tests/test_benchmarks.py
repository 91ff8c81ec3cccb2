"""The benchmarks measure what they say: the floor keeps what the gate keeps, and a row over its bar fails the run."""

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import get_args

import pytest
from benchmarks import Row, Work, interleaved, policy, startup
from benchmarks.__main__ import main, table
from benchmarks.adapter import worlds_from

from toolcrib.define.verdict import LayerName

FAST = Row(what="50 tools", ours=(120e-6,), against="bare filter", floor=(100e-6,), bar=1.5)
SLOW = replace(FAST, what="1,000 tools", ours=(160e-6,))


@pytest.mark.parametrize("size", [10, 50, 1_000, pytest.param(10_000, marks=pytest.mark.full)])
def test_the_floor_keeps_exactly_what_the_gate_keeps(size: int) -> None:
    world = policy.world_of(size)
    kept, verdicts = list(world.belt().tools), world.verdicts()
    assert kept == world.floor()
    assert 0 < len(kept) < size == len(verdicts)
    assert [name for name, verdict in verdicts.items() if verdict.decision != "deny"] == kept


def test_all_nine_layers_are_set_and_every_one_denies_something() -> None:
    scopes = {f"{name}{part}" for name in ("global", "agent") for part in ("", "-provider")}
    nine = scopes | {"profile", "provider-profile", "group", "sandbox", "subagent"}
    assert nine < set(get_args(LayerName))
    world = policy.world_of(1_000)
    assert world.set_layers == nine
    belt = world.belt()
    steps = (step for name in world.names for step in belt.steps(name))
    assert {step.layer for step in steps if step.decision == "deny"} == nine


def test_the_lists_hold_names_groups_plugins_and_globs_on_both_sides() -> None:
    world = policy.world_of(50)
    allowed = {entry for allow, _ in world.lists for entry in allow or ()}
    denied = {entry for _, deny in world.lists for entry in deny}
    assert {"read", "group:fs", "group:plugins", "web_*"} <= allowed
    assert {"canvas", "crm6", "crm1_*", "crm2_*_1*"} <= denied


def test_an_unchanged_belt_is_not_made_again() -> None:
    world = policy.world_of(10)
    belts = world.belts()
    assert belts.belt_for(replace(world.caller)) is belts.belt_for(world.caller)


def test_the_harness_s_tools_are_judged_as_its_own_floor_judges_them() -> None:
    document = {
        "config": {
            "tools": {
                "profile": "coding",
                "alsoAllow": ["group:plugins", "web_fetch", "message"],
                "deny": ["p1_*", "canvas"],
                "byProvider": {"openai": {"allow": ["group:fs", "group:plugins", "web_*"], "profile": "full"}},
            },
            "agents": {"list": [{"id": "main", "tools": {"deny": ["p2_*"]}}]},
            "group": {"deny": ["exec", "p3_*"]},
            "sandbox": {"allow": ["group:fs", "group:web", "group:plugins"], "deny": ["p4_*"]},
            "subagent": {"deny": ["p5_*"]},
        },
        "tools": {
            "12": [
                *({"name": name} for name in ("read", "apply_patch", "exec", "grep", "message", "web_fetch")),
                *({"name": f"p{at}_find", "plugin": f"plugin-{at}"} for at in range(1, 7)),
            ]
        },
    }
    worlds = worlds_from(document)
    assert [*worlds["12"].belt().tools] == ["read", "apply_patch", "web_fetch", "p6_find"]
    assert worlds["12"].floor() == ["read", "apply_patch", "web_fetch", "p6_find"]


def test_the_policy_rows_compare_each_size_with_its_floor_and_the_largest_with_its_parts() -> None:
    seconds = {"floor": 1.0, "belt": 1.2, "verdicts": 2.5}
    taken = {f"{work} {size}": [each * size * 1e-6] for work, each in seconds.items() for size in policy.SIZES}
    taken |= {f"unchanged {size}": [policy.ASKED * 1e-6] for size in policy.SIZES}
    taken |= {"belt in parts": [0.008], "verdicts in parts": [0.010]}
    rows = [(row.what, round(row.ratio, 3), row.bar, row.over) for row in policy.rows_from(taken)]
    assert rows == [
        ("50 tools, verdicts on demand", 1.2, 1.5, False),
        ("50 tools, all verdicts rendered", 2.5, 3.0, False),
        ("50 tools, unchanged", 0.1, 1.0, False),
        ("1,000 tools, verdicts on demand", 1.2, 1.5, False),
        ("1,000 tools, all verdicts rendered", 2.5, 3.0, False),
        ("1,000 tools, unchanged", 0.1, 1.0, False),
        ("10,000 tools, verdicts on demand", 1.2, 1.5, False),
        ("10,000 tools, all verdicts rendered", 2.5, 3.0, False),
        ("10,000 tools, unchanged", 0.1, 1.0, False),
        ("10,000 tools, verdicts on demand", 1.5, 2.0, False),
        ("10,000 tools, all verdicts rendered", 2.5, 2.0, True),
    ]


def test_an_import_is_compared_without_the_interpreter_s_own_start() -> None:
    taken = {
        "nothing": [0.02],
        "pydantic": [0.12],
        "toolcrib": [0.03],
        "author": [0.16],
        "click": [0.06],
        "version": [0.075],
        "needs": [0.5],
        "chat": [0.6],
    }
    rows = [(row.what, round(row.ratio, 3), row.bar, row.over) for row in startup.rows_from(taken, "python -m")]
    assert rows == [
        ("import toolcrib", 0.1, 1.3, False),
        ("from toolcrib import tool, Tool, Result", 1.4, 1.3, True),
        ("toolcrib --version, by python -m", 1.25, 1.5, False),
        ("toolcrib chat, ready", 1.2, 1.3, False),
    ]


def test_the_console_script_is_preferred_to_the_module(tmp_path: Path) -> None:
    python = tmp_path / "python"
    assert startup.console_command(python) == ([str(python), "-P", "-m", "toolcrib.doors.cli.main"], "python -m")
    (tmp_path / "toolcrib").touch()
    assert startup.console_command(python) == ([str(tmp_path / "toolcrib")], "console script")


def test_the_ratio_is_the_median_of_the_rounds_so_that_a_slow_spell_does_not_count() -> None:
    row = replace(FAST, ours=(1.0, 9.0, 1.2), floor=(1.0, 6.0, 0.1))
    assert row.ratio == 1.5
    assert not row.over


def test_the_table_tells_ours_the_floor_the_ratio_and_the_bar() -> None:
    unchanged = Row(what="unchanged", ours=(7.2e-7,), against="fixed", floor=(10e-6,), bar=1.0)
    assert table({"policy": [FAST, SLOW], "startup": [unchanged]}) == (
        "                 ours   floor               ratio  bar\n"
        "policy\n"
        "  50 tools     120 us  100 us  bare filter   1.20  1.5  ok\n"
        "  1,000 tools  160 us  100 us  bare filter   1.60  1.5  over\n"
        "startup\n"
        "  unchanged    720 ns   10 us  fixed         0.07    1  ok\n"
    )


@pytest.mark.parametrize(("rows", "code"), [([FAST], 0), ([FAST, SLOW], 1), ([], 0)])
def test_a_row_over_its_bar_fails_the_run(rows: list[Row], code: int) -> None:
    assert main(["--rounds", "1"], StringIO(), {"policy": lambda rounds: rows}) == code


def test_only_the_measure_that_was_named_is_run() -> None:
    out = StringIO()
    code = main(
        ["policy", "--json", "--rounds", "3"], out, {"policy": lambda rounds: [FAST] * rounds, "startup": _never}
    )
    answer = json.loads(out.getvalue())
    assert (code, answer["rounds"], len(answer["rows"])) == (0, 3, 3)
    assert answer["rows"][0] == {
        "measure": "policy",
        "what": "50 tools",
        "ours": [120e-6],
        "floor": [100e-6],
        "against": "bare filter",
        "ratio": FAST.ratio,
        "bar": 1.5,
        "ok": True,
    }


@pytest.mark.parametrize("arguments", [["--rounds", "0"], ["speed"]])
def test_what_cannot_be_measured_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments, StringIO(), {"policy": _never})
    assert left.value.code == 2
    assert arguments[-1] in capsys.readouterr().err


def test_all_works_take_turns_and_the_least_time_of_a_round_counts() -> None:
    done: list[str] = []
    now = 0.0

    def work(name: str, *times: float) -> Work:
        left = iter(times)

        def do() -> None:
            nonlocal now
            done.append(name)
            now += next(left)

        return do

    works = {"a": work("a", 5, 4, 3, 4, 5, 9, 8, 7, 8, 9), "b": work("b", *[2] * 10)}
    assert interleaved(works, 2, lambda: now) == {"a": [3, 7], "b": [2, 2]}
    assert all(sorted(done[at : at + 2]) == ["a", "b"] for at in range(0, 20, 2))


def _never(rounds: int) -> list[Row]:
    raise AssertionError("was not asked for")
