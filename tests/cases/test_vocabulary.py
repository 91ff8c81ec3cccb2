"""Every word that a case may use is shown by a case here, a recorded one or one of our own; and somebody answers it."""

from collections.abc import Iterator

import pytest

from tests.cases import MODULES
from tests.cases.judge import find_adapter
from tests.cases.load import Case, Folders, load, load_own
from tests.cases.rows import read_rows
from tests.cases.vocabulary import CHOICES, RECORDS, places, read_words

CASES = [*load(Folders()), *load_own()]
ROWS = read_rows(Folders().answers)
BUILT = sorted(file for file in read_words() if file.startswith("attacks/") and file in MODULES)
RECORDED = sorted(file for file in read_words() if not file.startswith("attacks/") and file in MODULES)


def named(case: Case) -> Iterator[tuple[str, object]]:
    for part in ("setup", "input", "must"):
        yield from places(part, case.body.get(part, {}))


@pytest.mark.parametrize("file", BUILT)
def test_every_class_key_and_choice_of_an_attack_is_shown_by_a_case(file: str) -> None:
    words, cases = read_words()[file], [case for case in CASES if case.file == file]
    used = [each for case in cases for each in named(case)]
    assert words.classes - {case.fn for case in cases} == set()
    keys = {key for key in words.keys if key.rpartition(".")[0] in RECORDS and not key.endswith("$concat")}
    assert keys - {place for place, _ in used} == set()
    values = {(place, value) for place in CHOICES & words.keys.keys() for value in words.keys[place]}
    assert values - {(place, value) for place, value in used if isinstance(value, str)} == set()


@pytest.mark.parametrize("file", sorted(set(read_words()) - set(BUILT)))
def test_every_function_or_class_has_an_adapter_or_a_promise_that_names_it(file: str) -> None:
    words = read_words()[file]
    promised = {fn for row in ROWS.later if row.file == file for fn in row.fn}
    answered = {
        fn
        for fn in words.functions
        if find_adapter(Case(file=file, fn=fn, id="", args={}, expected=None, body={})) is not None
    }
    left = ({*words.functions} | words.classes) - promised - answered - {"fixture"}
    assert left == set()


@pytest.mark.parametrize("file", RECORDED)
def test_every_argument_of_a_function_that_is_answered_is_shown_by_a_case(file: str) -> None:
    promised = {fn for row in ROWS.later if row.file == file and not row.args for fn in row.fn}
    used: dict[str, set[str]] = {}
    for case in CASES:
        if case.file == file and isinstance(case.args, dict):
            used.setdefault(case.fn, set()).update(case.args)
    left = {
        f"{fn}: {key}"
        for fn, keys in read_words()[file].functions.items()
        for key in keys - used.get(fn, set())
        if fn not in promised
    }
    assert left == set()
