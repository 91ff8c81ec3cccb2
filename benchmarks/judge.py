"""The judge of command lines against a bare parse: the same typical lines, by the same grammar, and nothing else.

Lines as agents write them, one command or a few, most of them permitted; the rules hold every kind of list.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import tree_sitter_bash
from tree_sitter import Language, Parser

from toolcrib.config.settings import ExecSettings
from toolcrib.policy.command import judge, look_up_in, rules_from

from . import Row, Work, interleaved

__all__ = ["LINES", "measure", "rows_from"]

BAR = 5.0

RULES: Mapping[str, Any] = {
    "allow": [["python3", "-m", "pytest"], ["npm", "test"], ["echo"]],
    "allowExact": [["make", "test"]],
    "readOnly": ["ls", "cat", "head", "tail", "wc", "find", "rg", "grep", "sed", "git", "sort", "uniq"],
    "deny": [["curl"], ["rm", "-rf"], ["git", "push"]],
}
LINES = (
    "git status --short && git diff --stat HEAD~1 -- src tests",
    "sed -n '120,180p' src/toolcrib/policy/gate.py",
    "grep -rn \"def load\" src tests --include='*.py' | head -n 20",
    "git log --oneline -n 20 -- src/toolcrib/app.py",
    "find . -name '*.py' -not -path './.venv/*' -type f | sort | head -n 50",
    "python3 -m pytest -q tests/test_app.py tests/policy -k 'not slow' 2>&1 | tail -n 40",
    "rg -n 'class \\w+Error' src --glob '*.py' --max-count 5",
    "cat README.md docs/start.md | wc -l; ls -la src/toolcrib",
    "npm test -- --reporter dot 2>&1 | tail -n 30 && git diff --check",
)


def measure(rounds: int) -> list[Row]:
    """Return the row of the judge, measured here and now."""
    parser = Parser(Language(tree_sitter_bash.language()))
    sources = [line.encode() for line in LINES]
    rules = rules_from(ExecSettings.model_validate(RULES, by_alias=True, by_name=False))
    look_up = look_up_in(rules.trusted)
    works: dict[str, Work] = {
        "parse": lambda: [parser.parse(source) for source in sources],
        "judge": lambda: [judge(line, rules, look_up) for line in LINES],
    }
    # the time of this process alone: others want the processor too
    return rows_from(interleaved(works, rounds, time.process_time))


def rows_from(taken: Mapping[str, Sequence[float]]) -> list[Row]:
    """Return the promise about `taken`, the seconds of `parse` and `judge` for all lines together."""
    what = f"{len(LINES)} command lines judged"
    return [Row(what=what, ours=taken["judge"], against="bare parse", floor=taken["parse"], bar=BAR)]
