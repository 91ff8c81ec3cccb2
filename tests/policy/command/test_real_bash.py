"""What is judged is what bash would run: lines that may run are run by a real bash whose programs only take notes."""

import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolcrib.policy.command import Judgement, judge, look_up_in

from .rooms import rules_of

BASH = Path("/bin/bash")
PROGRAMS = ("alpha", "beta", "cat", "head", "evil")
RULES = rules_of(allow=[["alpha"], ["beta"]], readOnly=["cat", "head"])
PIECES = (
    "alpha", "beta", "evil", "cat", " ", " ", " ", "  ", "\t", "\n", "\\\n", "\\", "'", "'", '"', '"', "$", "$x",
    "${x}", "$(evil)", "`evil`", "$((1))", "|", "||", "&&", ";", "&", ">", "<", "2>&1", ">/dev/null", "2>/dev/null",
    "<<", "<<<", "EOF", "(", ")", "{", "}", "{a,b}", "{1..3}", "*", "?", "[a]", "~", "~root", "#", "# c", "!", "=",
    "a=b", "X=1", "FOO=1 ", "-n", "5", "--", "-x", "a.txt", "é", "\u00a0", "\u2028", "\r", "%", "^", "@", "+", ",",
    "..", ":", "$'a'", "$'\\x41'", '$"b"', "\\$", '\\"', "\\'", "\\ ", "if", "then", "for", "do", "time", "exec",
    "eval", "[[", "[", "1", '"a b"', "'a b'", '"$x"', '"a$"', "'$(evil)'", "|&", "&>", ">|", "<(evil)", "f(){",
    "ev\\\nil", "$\\\n(evil)", "{evil,a}", "{ev,x}il", "evi{l..l}", "x=evil", "sh", "alias", "declare", "((", "))",
    "coproc", "!!", "\x85", "日本", "--a=*", "x=~/y", ";;", "1>&2", "--foo='*.py'", "--bar={a,b}",
)  # fmt: skip
STARTS = ("alpha ", "beta ", "", "alpha", "cat ", "alpha a; ", "alpha | ")

pytestmark = pytest.mark.skipif(not BASH.exists(), reason="this machine has no bash")


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """A folder of programs that write down their words, a workspace, and an empty one for the notes."""
    for name in ("bin", "ws", "notes"):
        (tmp_path / name).mkdir()
    for name in PROGRAMS:
        path = tmp_path / "bin" / name
        path.write_text(f'#!/bin/sh\nprintf "%s\\0" {name} "$@" > {tmp_path}/notes/$$\n')
        path.chmod(0o755)
    for name in ("a.txt", "-x", "b"):
        (tmp_path / "ws" / name).touch()
    return tmp_path


def lines(seed: int, count: int) -> Iterator[str]:
    chance = random.Random(seed)
    for _ in range(count):
        yield chance.choice(STARTS) + "".join(chance.choices(PIECES, k=chance.randint(1, 8)))


def noted(world: Path, *command: str) -> tuple[list[tuple[str, ...]], int]:
    """Run a command whose programs are all notes; return the words of everything it started, and its exit code."""
    for note in (world / "notes").iterdir():
        note.unlink()
    env = {"PATH": f"{world}/bin", "LC_ALL": "C.UTF-8", "HOME": "/root"}
    ended = subprocess.run(
        command, cwd=world / "ws", env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=60
    )
    texts = [note.read_bytes().decode().split("\0")[:-1] for note in (world / "notes").iterdir()]
    return sorted(tuple(text) for text in texts), ended.returncode


def judged(world: Path, line: str) -> Judgement:
    return judge(line, RULES, look_up_in((f"{world}/bin",), os.path.exists))


def check(world: Path, seed: int, count: int) -> int:
    ran = 0
    for line in lines(seed, count):
        found = judged(world, line)
        if found.decision != "run":
            continue
        ran += 1
        assert found.script is not None
        wanted = sorted(tuple(word or "" for word in command.argv) for command in found.commands)
        seen, code = noted(world, str(BASH), "-c", line)
        if "&&" in line or "||" in line:
            assert set(seen) <= set(wanted), (seed, line)
        else:
            assert seen == wanted, (seed, line)
        assert noted(world, "/bin/sh", "-c", found.script) == (seen, code), (seed, line)
    return ran


def test_what_may_run_is_what_bash_starts_and_nothing_else(world: Path) -> None:
    assert check(world, seed=7, count=3_000) > 100


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(8))
def test_what_may_run_is_what_bash_starts_over_many_lines(world: Path, seed: int) -> None:
    assert check(world, seed=seed, count=50_000) > 2_000


def check_denial(world: Path, seed: int, count: int) -> int:
    """Run what may run where everything may but evil, and return how many lines did."""
    rules = rules_of(security="full", deny=[["evil"]], allow=[["alpha"], ["beta"]])
    ran = 0
    for line in lines(seed, count):
        found = judge(line, rules, look_up_in((f"{world}/bin",), os.path.exists))
        if found.decision == "run":
            ran += 1
            assert "evil" not in [words[0] for words in noted(world, str(BASH), "-c", line)[0]], (seed, line)
    return ran


def test_no_line_that_may_run_starts_what_is_denied(world: Path) -> None:
    assert check_denial(world, seed=3, count=1_000) > 100


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(8))
def test_no_line_that_may_run_starts_what_is_denied_over_many(world: Path, seed: int) -> None:
    assert check_denial(world, seed=seed, count=25_000) > 2_000


@pytest.mark.parametrize(
    "line",
    [
        "alpha 'a b' \"c d\" e\\ f g#h i{j '' \"\" \"$\" k$ --l=* 'm'\\''n'",
        "alpha \"a\\\"b\\\\c\\$d\\`e\\f\" $'x\\ty\\x41\\102\\'z'",
        "alpha тест 🎈 日本 'a\nb' \"c\nd\"",
        "alpha \\\n  beta \\\n  c # d",
        "alpha @{u} HEAD~1 a^ b=c --d=e,f {} {a} a..b ! %s +1 :x a=b:c",
    ],
)
def test_words_come_out_as_bash_reads_them(world: Path, line: str) -> None:
    found = judged(world, line)
    assert found.decision == "run", found.reason
    assert noted(world, str(BASH), "-c", line)[0] == [found.argv]
