"""What runs unasked because it only reads: random uses of the real programs write, start and show nothing else.

The words come from each program's own grammar, mixed with words that write, run or lead out. Whatever the judge lets
run is run as it was judged, in a folder whose every file is compared before and after.
"""

import os
import random
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from toolcrib.policy.command import judge_argv, look_up_in
from toolcrib.policy.command import programs as table
from toolcrib.policy.command import programs_git as git_table
from toolcrib.policy.command.environment import FIXED
from toolcrib.policy.command.options import Grammar
from toolcrib.policy.command.rules import TRUSTED

from .rooms import rules_of

SECRET = "a-secret-of-the-outside"
RULES = rules_of(readOnly=sorted(table.READERS))
LOOK_UP = look_up_in(TRUSTED, os.path.exists)
PROGRAMS = tuple(sorted(name for name in table.READERS - {"tail"} if LOOK_UP(name)))  # tail +1f has no end

# what an option that is misread would let through, and what words behind it may be
EVIL: Mapping[str, tuple[str, ...]] = {
    "git": ("--output=made", "--output=made", "--output=made", "-O./canary", "--ext-diff", "--contents=leads/secret"),
    "": (
        "-omade", "-o", "--output=made", "-i", "--in-place", "--compress-program=./canary", "-T.", "-f", "-r",
        "--from-file=leads/secret", "--files0-from=leads/secret", "leads/secret", "-l", "made",
    ),
}  # fmt: skip
PLAIN = (
    "a.txt", "b.txt", "one", "two", "HEAD", "main", "v1", "list", "show", "push", "drop", "expire", "write", "add",
    "update", "new", "1", "3", "x", "-", ".", "leads", "leads/secret", "a:b/../../outside/secret", "HEAD:a.txt", "env",
)  # fmt: skip
SED = (
    ":x", ":", "b", "tx", "T", "x", "=", "=a", ";e ./canary", ";w made", "a", ";", "}", "{", "e ./canary", "w made",
    "r leads/secret", "s/a/b/", "s/a/b/w made", "s/.*/.\\/canary/e", "\\", "\n", " ", "//", "i", "c", "p", "1", "$",
    ",", "!", "y/a/b/", "#", "W made", "R leads/secret",
)  # fmt: skip
JQ = (
    "env", "$ENV", ".", "[", "]", "{", "}", ",", ":", "|", "1", "(", ")", "path", "a", '"', "\\(", "#", "\n", " ", ".a",
    ".env", "as $x", "?//", "getpath", "@json", "$__prog_args", "input_filename", "..", "::", ";", "def f: env", "f",
)  # fmt: skip
FIND = (
    "-name", "-path", "-o", "!", "(", ")", "-newer", "-type", "f", "-print", "-printf", "%p", "-samefile", "-maxdepth",
    "-exec", "./canary", ";", "-delete", "-fprint", "-fls", "-ok", "-perm", "-size", "-1", "-follow", "-newermt",
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository with two commits, a program that leaves a trace, and a link that leads out."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text(f"{SECRET}\n")
    made = tmp_path / "ws"
    made.mkdir()
    for name in ("one", "two", "a:b"):
        (made / name).mkdir()
    for name in ("one/same", "two/same", "a.txt", "b.txt", "x", "list"):
        (made / name).write_text(f"a\nb {name}\n")
    (made / "canary").write_text(f"#!/bin/sh\necho > {made}/started\n")
    (made / "canary").chmod(0o755)
    run(made, "git", "init", "-q", "-b", "main")
    run(made, "git", "add", ".")
    for message in ("first", "second"):
        run(made, "git", "commit", "-q", "--allow-empty", "-m", message)
    run(made, "git", "tag", "v1")
    (made / "leads").symlink_to("../outside")
    (made / "one/same-link").symlink_to("../../outside/secret")
    (made / "two/same-link").write_text("a\n")
    run(made, "git", "status")
    return made


def run(folder: Path, *argv: str) -> bytes:
    env = {
        **FIXED, "PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C.UTF-8", "LENT": SECRET,
        "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b.test", "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b.test",
    }  # fmt: skip
    ended = subprocess.run(argv, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=30)
    return ended.stdout + ended.stderr


def snapshot(folder: Path) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    waiting = [str(folder)]
    while waiting:
        for each in os.scandir(waiting.pop()):
            about = each.stat(follow_symlinks=False)
            found[each.path] = (about.st_mode, about.st_size, about.st_mtime_ns, about.st_ino)
            if each.is_dir(follow_symlinks=False):
                waiting.append(each.path)
    return found


def words_of(chance: random.Random, grammar: Grammar, evil: Sequence[str]) -> Iterator[str]:
    """Yield a few options as this grammar has them, glued, apart and bare, with words that must not be options."""
    values = [f"--{name}" for name in sorted(grammar.long_values | grammar.long_maybe | grammar.long_paths)]
    values += [f"-{letter}" for letter in grammar.values + grammar.paths] + ["--"]
    flags = [f"--{name}" for name in sorted(grammar.long_flags)] + [f"-{letter}" for letter in grammar.flags]
    for _ in range(chance.randint(0, 3)):
        kind = chance.random()
        if kind < 0.5:
            name = chance.choice(values)
            yield f"{name}={chance.choice(PLAIN)}" if name[2:] and chance.random() < 0.2 else name
            if chance.random() < 0.6:
                yield chance.choice(evil)
        elif kind < 0.7 and flags:
            yield chance.choice(flags)
        else:
            yield chance.choice(("--", *PLAIN))


def pieces(*parts: str) -> Callable[[random.Random], list[str]]:
    """Return a maker of a script that is one word."""
    return lambda chance: ["".join(chance.choices(parts, k=chance.randint(1, 6)))]


SCRIPTS: Mapping[str, Callable[[random.Random], list[str]]] = {
    "sed": pieces(*SED),
    "jq": lambda chance: [*pieces(*JQ)(chance), *chance.choice(((), ("-n",), ("--", "--arg", "leads/secret", "x")))],
    "find": lambda chance: [".", *chance.choices(FIND, k=chance.randint(1, 5))],
}


def make_argv(chance: random.Random, program: str) -> list[str]:
    before: list[str] = []
    grammar: Any = getattr(table, f"_{program.upper()}", Grammar())
    if program == "git":
        name = chance.choice(sorted(git_table._SUBCOMMANDS))
        before, grammar = [name], git_table._SUBCOMMANDS[name]
    script = SCRIPTS[program](chance) if program in SCRIPTS else []
    operands = chance.choices(PLAIN, k=chance.randint(0, 2))
    return [program, *before, *words_of(chance, grammar, EVIL.get(program, EVIL[""])), *script, *operands]


def check(folder: Path, programs: Sequence[str], seed: int, count: int) -> int:
    """Judge `count` random uses, run those that may, and return how many did."""
    chance = random.Random(seed)
    root = folder.resolve()
    ran = 0
    before = snapshot(folder)
    for _ in range(count):
        argv = make_argv(chance, chance.choice(programs))
        found = judge_argv(argv, RULES, LOOK_UP, within=lambda path: (root / path).resolve().is_relative_to(root))
        if found.decision != "run" or found.argv is None:
            continue
        ran += 1
        shown = run(folder, *(argv if argv[0] == "sed" else found.argv))  # without the --sandbox that would hide a slip
        assert snapshot(folder) == before, (seed, argv, shown)
        assert SECRET.encode() not in shown, (seed, argv)
    return ran


@pytest.mark.parametrize(("programs", "count"), [(["git"], 1_500), ([*PROGRAMS, "sed", "sed", "jq"], 600)])
def test_what_runs_unasked_writes_starts_and_shows_nothing_else(
    folder: Path, programs: Sequence[str], count: int
) -> None:
    assert check(folder, programs, seed=1, count=count) > 100


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("program", PROGRAMS)
def test_what_runs_unasked_only_reads_over_many_uses(folder: Path, program: str, seed: int) -> None:
    assert check(folder, [program], seed=seed, count=12_500 if program in ("git", "sed") else 2_000) > 50
