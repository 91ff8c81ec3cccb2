"""jq: a program is read word by word; what looks at the environment or loads a module is found by its name."""

import re

from .options import OddUseError

__all__ = ["check_jq_program"]

_READS_ELSEWHERE = frozenset({"env", "ENV", "import", "include", "modulemeta", "get_search_list"})
_WORDS = re.compile(
    r"""(?P<string>"(?:[^"\\]|\\.)*")|(?P<comment>\#[^\n]*)|(?P<field>\.\s*)?(?P<name>[A-Za-z_]\w*)""", re.DOTALL
)


def check_jq_program(program: str) -> None:
    """Raise OddUseError when a program looks at more than its input."""
    # a string may hold code, and what follows one that is left open is anybody's guess: then nothing is skipped
    skips = "\\(" not in program and program.count('"') % 2 == 0 and "\\" not in program
    for found in _WORDS.finditer(program):
        if found["string"] or found["comment"]:
            if not skips and (odd := _first_odd(found[0])):
                raise OddUseError(f"its program may use {odd!r}")
        elif found["name"] in _READS_ELSEWHERE and not _is_field(program, found):
            raise OddUseError(f"its program uses {found['name']!r}, which is more than its input")


def _first_odd(text: str) -> str:
    return next((word for word in re.findall(r"[A-Za-z_]\w*", text) if word in _READS_ELSEWHERE), "")


def _is_field(program: str, found: re.Match[str]) -> bool:
    """Tell whether a name is a field: `.env`, or the key of an object that is written out, `{env: 1}`."""
    if found["field"] == ".":
        return not program[: found.start()].endswith(".")
    rest = program[found.end() :].lstrip()
    before = program[: found.start()].rstrip()
    return rest.startswith(":") and before.endswith(("{", ",")) and not before.endswith("$")
