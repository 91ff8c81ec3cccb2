"""`python -m tests.cases`: run every recorded case and print what became of it, or approve what differs."""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TextIO

from .answers import check_reason
from .approve import Approval
from .judge import PROCESSES, Find, Known, Run, find_adapter, read, run
from .load import BadInputError, Folders, folders_from_environment
from .report import ascii_text, document, lines


def main(arguments: Sequence[str], folders: Folders, out: TextIO, find: Find = find_adapter) -> int:
    """Run the cases and write the report; 0 good, 1 something fails, 2 the run cannot start."""
    options = _options().parse_args(arguments)
    try:
        if options.because:
            check_reason(options.because)
        if options.approve and folders.is_foreign:
            raise BadInputError("answers are approved for the cases in this tree, not for those of another folder")
        cases, known = read(folders)
    except (BadInputError, ValueError) as error:
        out.write(f"{ascii_text(str(error))}\n")
        return 2
    file = options.file.removesuffix(".json")
    chosen = [case for case in cases if file in ("", case.file) and options.fn in ("", case.fn)]
    if not chosen:
        out.write(f"no case of file {options.file or '*'} and function {options.fn or '*'}\n")
        return 2
    outcome = run(chosen, known, find, options.processes)
    if not folders.is_foreign:
        outcome = replace(outcome, without_case=known.answers.without_case(cases))
    if options.approve:
        return _approve(outcome, known, folders, options.because, out)
    report = [document(outcome)] if options.json else lines(outcome, verbose=options.verbose)
    out.writelines(f"{line}\n" for line in report)
    return 0 if outcome.is_good else 1


def _approve(outcome: Run, known: Known, folders: Folders, reason: str, out: TextIO) -> int:
    approval = Approval(known.answers, reason)
    out.writelines(f"{line}\n" for line in approval.take(outcome.findings, outcome.without_case))
    approval.write(folders.answers)
    out.write(f"{approval.changed} answers changed, {approval.left} cases not approved\n")
    return 1 if approval.left else 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="check cases", description="Run the recorded cases and the attacks.")
    parser.add_argument("--file", default="", help="only this file, such as openclaw-policy or attacks/policy")
    parser.add_argument("--fn", default="", help="only this recorded function (of attacks: this class)")
    parser.add_argument("--verbose", action="store_true", help="list the differences and the noted cases with reasons")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of the table")
    parser.add_argument("--approve", action="store_true", help="approve what differs, and print what changed")
    parser.add_argument("--because", default="", help="with --approve, why new differences are so: 'G2: one sentence'")
    parser.add_argument("--processes", type=int, default=PROCESSES, help="how many run side by side")
    return parser


def _start(environment: Mapping[str, str]) -> int:
    return main(sys.argv[1:], folders_from_environment(environment), sys.stdout)


if __name__ == "__main__":
    sys.exit(_start(os.environ))
