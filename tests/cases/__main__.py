"""`python -m tests.cases`: run every recorded case and print what became of it."""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TextIO

from .judge import Find, find_adapter, read, run
from .load import BadInputError, Folders, folders_from_environment
from .report import ascii_text, document, lines


def main(arguments: Sequence[str], folders: Folders, out: TextIO, find: Find = find_adapter) -> int:
    """Run the cases and write the report; 0 good, 1 something fails, 2 the run cannot start."""
    options = _options().parse_args(arguments)
    try:
        cases, rows = read(folders)
    except BadInputError as error:
        out.write(f"{ascii_text(str(error))}\n")
        return 2
    file = options.file.removesuffix(".json")
    chosen = [case for case in cases if file in ("", case.file) and options.fn in ("", case.fn)]
    if not chosen:
        out.write(f"no case of file {options.file or '*'} and function {options.fn or '*'}\n")
        return 2
    outcome = run(chosen, rows, folders, find)
    report = [document(outcome)] if options.json else lines(outcome, verbose=options.verbose)
    out.writelines(f"{line}\n" for line in report)
    return 1 if outcome.failing or outcome.problems else 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="check cases", description="Run the recorded cases and the attacks.")
    parser.add_argument("--file", default="", help="only this file, such as openclaw-policy or attacks/policy")
    parser.add_argument("--fn", default="", help="only this recorded function (of attacks: this class)")
    parser.add_argument("--verbose", action="store_true", help="list the differences and the noted cases with reasons")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of the table")
    return parser


def _start(environment: Mapping[str, str]) -> int:
    return main(sys.argv[1:], folders_from_environment(environment), sys.stdout)


if __name__ == "__main__":
    sys.exit(_start(os.environ))
