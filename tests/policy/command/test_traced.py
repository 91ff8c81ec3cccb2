"""Random lines and uses, judged by the hundred thousand; what is not denied is run under strace, and nothing denied
starts; what runs unasked because it only reads neither writes, nor starts anything, nor opens what is outside.

The long form runs in shards, each in less than ten minutes: 200,000 are judged and 20,000 run, of each kind.
"""

import os
import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from toolcrib.policy.command import judge, judge_argv, look_up_in
from toolcrib.policy.command.environment import FIXED

from . import test_real_bash as shell
from . import test_real_programs as programs
from .rooms import rules_of
from .traced import trace

SHARDS, JUDGED, RUN = 8, 25_000, 2_500

world, folder = shell.world, programs.folder

RULES = {
    "full": rules_of(security="full", deny=[["evil"]], allow=[["alpha"], ["beta"]]),
    "allowlist": rules_of(deny=[["evil"]], allow=[["alpha"], ["beta"]], readOnly=["cat", "head"]),
}


def check_lines(world: Path, seed: int, judged: int, most: int) -> int:
    """Judge lines where evil is denied, run those that are not, as after a yes, and return how many ran."""
    look_up = look_up_in((f"{world}/bin",), os.path.exists)
    env = {"PATH": f"{world}/bin", "LC_ALL": "C.UTF-8", "HOME": str(world / "ws")}
    chance, ran = random.Random(seed), 0
    for line in shell.lines(seed, judged):
        name = chance.choice(sorted(RULES))
        if judge(line, RULES[name], look_up).decision == "deny" or ran >= most:
            continue
        ran += 1
        seen = trace([str(shell.BASH), "-c", line], world / "ws", env)
        assert f"{world}/bin/evil" not in seen.started, (seed, name, line)
    return ran


@pytest.mark.parametrize(
    "line",
    [
        *("{evil,a}", "alpha | {evil,a}", "beta a; {a,evil} x", "alpha &{evil,a}", "{a,e''vil}", "{alpha,x\\,e\\vil}"),
        *("{ev,x}il", "e{v,w}il a", "{e,x}{v,y}il", "{{e,a},b}vil", "evi{l..l}", "{d..f}vil", "env {A=1,evil} x"),
        *("e'v'{il,x}", "evi${x}{l,m}", "{alpha,evil} {evil,}", "evil{,}", "nice {-n,5} ev{i,o}l"),
        *("alphadeclare# c[[<(evil)eval", "alpha\\'${x}1>&2'$(evil)'\\\n", "alpha [[ <(evil) ((", "case x in (evil"),
        *(
            "cat 1>&2\xa0'$(evil)'",
            "cat 1>&2\u3000'`evil`'",
            "cat <&0\x85'$(evil)'",
            "{evil,a\xa0b}",
            "alpha {a,b}\u2003; {x\u2003,evil} y",
            "cat `evil` `evil`",
            "cat `evil``evil`\\ time",
            'cat "`evil``evil`"',
            "x=evil; $x",
            "x=evil\n${x} a",
            "`echo evil`",
        ),
    ],
)
@pytest.mark.parametrize("name", sorted(RULES))
def test_a_line_that_nobody_can_read_is_denied_where_it_names_what_is_denied(world: Path, name: str, line: str) -> None:
    assert judge(line, RULES[name], look_up_in((f"{world}/bin",), os.path.exists)).decision == "deny"


def test_no_line_that_is_not_denied_starts_what_is_also_after_a_yes(world: Path) -> None:
    assert check_lines(world, seed=11, judged=400, most=60) == 60


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(100, 100 + SHARDS))
def test_no_line_of_many_starts_what_is_denied(world: Path, seed: int) -> None:
    assert check_lines(world, seed, JUDGED, RUN) == RUN


def check_uses(folder: Path, seed: int, judged: int, most: int) -> int:
    """Judge uses of the programs that only read, run those that run unasked, and return how many ran."""
    chance, root, ran = random.Random(seed), folder.resolve(), 0
    outside = root.parent / "outside"
    env: Mapping[str, str] = {**FIXED, "PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}
    for _ in range(judged):
        argv = programs.make_argv(chance, chance.choice([*programs.PROGRAMS, "git", "git", "sed", "jq"]))
        found = judge_argv(
            argv, programs.RULES, programs.LOOK_UP, within=lambda path: (root / path).resolve().is_relative_to(root)
        )
        if found.decision != "run" or found.argv is None or ran >= most:
            continue
        ran += 1
        # without the --sandbox that would hide a slip
        seen = trace(argv if argv[0] == "sed" else found.argv, folder, env)
        more = [path for path in seen.started[1:] if not path.startswith("/usr/lib/git-core/")]
        assert not more, (seed, argv, more)
        assert not seen.changed, (seed, argv, seen.changed)
        led = [path for path in seen.opened if (root / path).resolve().is_relative_to(outside)]
        assert not led, (seed, argv, led)
        assert programs.SECRET.encode() not in seen.output, (seed, argv)
    return ran


def test_what_runs_unasked_neither_writes_nor_starts_nor_opens_what_is_outside(folder: Path) -> None:
    assert check_uses(folder, seed=12, judged=600, most=60) == 60


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(200, 200 + SHARDS))
def test_what_runs_unasked_only_reads_in_many_uses(folder: Path, seed: int) -> None:
    assert check_uses(folder, seed, JUDGED, RUN) == RUN


def test_the_trace_sees_what_is_started_written_and_opened(tmp_path: Path) -> None:
    (tmp_path / "kept").touch()
    line = "cat kept; /usr/bin/env true; echo x > made; mv kept gone; cat nowhere 2> /dev/null"
    seen = trace(["/bin/sh", "-c", line], tmp_path, {"PATH": "/usr/bin:/bin"})
    assert {"/usr/bin/env", "/usr/bin/true"} <= set(seen.started) | {
        path.replace("/bin/", "/usr/bin/", 1) for path in seen.started
    }
    assert "kept" in seen.opened
    assert "made" in seen.changed
    assert {"kept", "gone"} <= set(seen.changed)
    assert "nowhere" not in seen.opened
