"""Every recorded case and attack that has an adapter, one test each; and the lists and answers that belong to them."""

import os

import pytest

from tests.cases.judge import find_adapter, judge, read
from tests.cases.load import Case, folders_from_environment
from tests.cases.report import describe

FOLDERS = folders_from_environment(os.environ)
CASES, KNOWN = read(FOLDERS)


@pytest.mark.parametrize("case", [case for case in CASES if find_adapter(case)], ids=str)
def test_case_comes_out_as_recorded_or_as_approved(case: Case) -> None:
    finding = judge(case, KNOWN)
    assert finding.verdict not in ("new", "failing"), "\n".join(describe(finding))


@pytest.mark.parametrize("file", sorted({case.file for case in CASES}))
def test_every_function_has_an_adapter_or_a_promise(file: str) -> None:
    left = {case.fn for case in CASES if case.file == file and not find_adapter(case) and not KNOWN.rows.promise(case)}
    assert left == set()


def test_every_approved_answer_is_for_a_case() -> None:
    assert FOLDERS.is_foreign or KNOWN.answers.without_case(CASES) == []
