"""Every recorded case and attack that has an adapter, one test each; and the rows that excuse the rest."""

import os

import pytest

from tests.cases.judge import find_adapter, judge, read
from tests.cases.load import Case, folders_from_environment, load
from tests.cases.report import describe
from tests.cases.rows import problems

FOLDERS = folders_from_environment(os.environ)
CASES, ROWS = read(FOLDERS)


@pytest.mark.parametrize("case", [case for case in CASES if find_adapter(case)], ids=str)
def test_case_comes_out_as_recorded_or_as_a_row_says(case: Case) -> None:
    finding = judge(case, ROWS)
    assert finding.verdict != "failing", "\n".join(describe(finding))


@pytest.mark.parametrize("file", sorted({case.file for case in CASES}))
def test_every_function_has_an_adapter_or_a_promise(file: str) -> None:
    left = {case.fn for case in CASES if case.file == file and not find_adapter(case) and not ROWS.promise(case)}
    assert left == set()


def test_rows_are_narrow_or_quote_what_asks_for_them() -> None:
    seen = load(FOLDERS if FOLDERS.known is None else FOLDERS.known)
    assert problems(ROWS, seen, FOLDERS.documents) == []
