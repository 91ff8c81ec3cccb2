"""The runner itself: what it calls failing, different, later and noted, and what it refuses."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cases.__main__ import main
from tests.cases.judge import Find, judge, recorded
from tests.cases.judge import run as judge_all
from tests.cases.load import BadInputError, Case, Folders, expand, folders_from_environment, load
from tests.cases.outcome import LATER, Adapter, Refused, alternatives, broken, compare, is_same, kept, mentions
from tests.cases.rows import read_rows
from toolcrib.define.errors import ArgumentError

DOUBLE = """
[[difference]]
file = "f"
fn = "double"
when = '{when}'
ours = '{ours}'
guarantee = "G2"
because = "why"
"""


def world(
    folder: Path, cases: list[Any], *, differences: str = "", later: str = "", attacks: list[Any] | None = None
) -> Folders:
    """Write a folder of everything a run reads."""
    for name in ("cases", "attacks", "rows/differences", "documents"):
        (folder / name).mkdir(parents=True)
    (folder / "cases" / "f.json").write_text(json.dumps(cases))
    profiles = {"cases": attacks or [], "profiles": {"p": {"limit": 3}}}
    (folder / "attacks" / "a.json").write_text(json.dumps(profiles))
    (folder / "rows" / "differences" / "f.toml").write_text(differences)
    (folder / "rows" / "later.toml").write_text(later)
    (folder / "documents" / "guarantees.md").write_text("Absent means\n  unrestricted at that layer.")
    return Folders(folder / "cases", folder / "attacks", folder / "rows", folder / "documents")


def doubling(count: int, *, wrong: int = 0, **more: Any) -> list[Any]:
    """Cases of a function that doubles; the first `wrong` of them were recorded with another answer."""
    results = [0 - number if number < wrong else 2 * number for number in range(count)]
    return [
        {"id": f"d-{n}", "fn": "double", "args": {"n": n}, "expected": {"ok": True, "result": results[n]}, **more}
        for n in range(count)
    ]


def find(answer: Callable[[dict[str, Any]], Any] = lambda args: 2 * args["n"]) -> Find:
    return lambda case: recorded(answer) if case.fn == "double" else None


def run(folders: Folders, *arguments: str, find: Find = find()) -> tuple[int, str]:
    out = io.StringIO()
    return main(arguments, folders, out, find), out.getvalue()


def case_of(expected: Any, args: Any = None) -> Case:
    return Case(file="f", fn="x", id="x-1", args=args, expected=expected, body={})


def test_a_case_that_comes_out_as_recorded_is_the_same(tmp_path: Path) -> None:
    code, text = run(world(tmp_path, doubling(3)))
    assert code == 0
    assert text.splitlines()[1].split() == ["f", "3", "0", "0", "0", "0"]


def test_a_case_that_comes_out_otherwise_fails_and_is_shown(tmp_path: Path) -> None:
    code, text = run(world(tmp_path, doubling(12)), find=find(lambda args: min(2 * args["n"], 20)))
    assert code == 1
    assert 'failing: f:double:d-11: the values differ\n  args      {"n": 11}' in text
    assert '  expected  {"ok": true, "result": 22}\n  ours      20' in text


def test_a_crash_fails_only_its_case(tmp_path: Path) -> None:
    code, text = run(world(tmp_path, doubling(2)), find=find(lambda args: 0 // args["n"]))
    assert code == 1
    assert text.splitlines()[1].split() == ["f", "0", "0", "0", "0", "2"]
    assert "d-0: crashed: ZeroDivisionError" in text


def test_a_case_without_adapter_and_promise_fails(tmp_path: Path) -> None:
    code, text = run(world(tmp_path, doubling(1)), find=lambda case: None)
    assert code == 1
    assert "f double has neither an adapter nor a row in later.toml" in text


def test_a_row_explains_a_difference_and_its_answer_is_asserted(tmp_path: Path) -> None:
    row = DOUBLE.format(when='args["n"] == 1', ours='2 * args["n"]')
    code, text = run(world(tmp_path, doubling(10, wrong=2), differences=row), "--verbose")
    assert code == 0
    assert text.splitlines()[1].split() == ["f", "9", "1", "0", "0", "0"]
    assert "different: f:double:d-1: why" in text


def test_a_row_with_a_wrong_answer_fails(tmp_path: Path) -> None:
    row = DOUBLE.format(when='args["n"] == 1', ours='3 * args["n"]')
    code, text = run(world(tmp_path, doubling(10, wrong=2), differences=row))
    assert code == 1
    assert "failing: f:double:d-1: the row says that ours is 3" in text


def test_a_row_that_cannot_be_evaluated_fails(tmp_path: Path) -> None:
    row = DOUBLE.format(when='args["n"] == 1', ours="nobody")
    code, text = run(world(tmp_path, doubling(10), differences=row))
    assert code == 1
    assert "`ours` of the row cannot be evaluated: NameError" in text


def test_a_row_about_arguments_that_a_case_lacks_does_not_catch_it(tmp_path: Path) -> None:
    row = DOUBLE.format(when='args["deep"]["key"] == 1', ours="1")
    assert run(world(tmp_path, doubling(10), differences=row))[0] == 0


def test_a_row_cannot_look_at_ids_or_recorded_answers(tmp_path: Path) -> None:
    row = DOUBLE.format(when='case["id"] == "d-1" or case["expected"]', ours="1")
    code, text = run(world(tmp_path, doubling(10, wrong=2), differences=row))
    assert code == 1
    assert "d-1: the values differ" in text


def test_a_row_may_assert_an_error(tmp_path: Path) -> None:
    def refuse(args: dict[str, Any]) -> int:
        if args["n"] == 1:
            raise ArgumentError("n is odd")
        return 2 * int(args["n"])

    row = DOUBLE.format(when='args["n"] == 1', ours='error("odd")')
    assert run(world(tmp_path / "a", doubling(10), differences=row), find=find(refuse))[0] == 0
    row = DOUBLE.format(when='args["n"] == 1', ours='error("even")')
    assert run(world(tmp_path / "b", doubling(10), differences=row), find=find(refuse))[0] == 1


def test_a_row_that_catches_more_than_a_fifth_fails(tmp_path: Path) -> None:
    row = DOUBLE.format(when='args["n"] < 3', ours='2 * args["n"]')
    code, text = run(world(tmp_path, doubling(14, wrong=3), differences=row))
    assert code == 1
    assert "catches 3 of 14 cases of double, more than a fifth" in text
    assert run(world(tmp_path / "more", doubling(15, wrong=3), differences=row))[0] == 0


def test_a_row_for_a_small_function_needs_a_sentence(tmp_path: Path) -> None:
    row = DOUBLE.format(when='args["n"] == 1', ours='2 * args["n"]')
    code, text = run(world(tmp_path, doubling(9, wrong=2), differences=row))
    assert code == 1
    assert "double has 9 cases; below ten a row names the sentence" in text


def test_a_sentence_of_the_documents_lifts_the_limits(tmp_path: Path) -> None:
    row = DOUBLE.format(when='args["n"] < 8', ours='2 * args["n"]')
    quoted = row + 'sentence = "Absent means unrestricted at that layer."\n'
    assert run(world(tmp_path / "small", doubling(9, wrong=8), differences=quoted))[0] == 0
    assert run(world(tmp_path / "large", doubling(14, wrong=8), differences=quoted))[0] == 0


def test_a_sentence_that_nobody_wrote_fails(tmp_path: Path) -> None:
    row = DOUBLE.format(when='args["n"] == 1', ours='2 * args["n"]') + 'sentence = "Anything goes."\n'
    code, text = run(world(tmp_path, doubling(10), differences=row))
    assert code == 1
    assert "'Anything goes.' stands in none of interfaces.md, design.md, guarantees.md" in text


def test_a_row_that_catches_nothing_is_fine(tmp_path: Path) -> None:
    row = DOUBLE.format(when='args["n"] == 77', ours="0")
    assert run(world(tmp_path, doubling(3), differences=row))[0] == 0


def test_a_later_row_is_a_promise(tmp_path: Path) -> None:
    later = '[[later]]\nfile = "f"\nwhen = \'args["n"] > 0\'\nstep = "after 7"\nbecause = "not yet"\n'
    folders = world(tmp_path, doubling(3, wrong=2), later=later)
    code, text = run(folders, find=lambda case: None)
    assert (code, text.splitlines()[1].split()) == (1, ["f", "0", "0", "2", "0", "1"])
    code, text = run(folders)
    assert (code, text.splitlines()[1].split()) == (0, ["f", "2", "0", "1", "0", "0"])


@pytest.mark.parametrize("word", ["BUG", "SECURITY", "GAP", "SURPRISE"])
def test_a_noted_case_need_not_match(tmp_path: Path, word: str) -> None:
    code, text = run(world(tmp_path, doubling(3, wrong=2, note=f"{word}: it drops half")))
    assert (code, text.splitlines()[1].split()) == (0, ["f", "2", "0", "0", "1", "0"])


def test_an_ordinary_note_excuses_nothing(tmp_path: Path) -> None:
    assert run(world(tmp_path, doubling(3, wrong=2, note="a remark about a BUG")))[0] == 1


def test_attacks_are_judged_with_their_profiles(tmp_path: Path) -> None:
    def judge(case: Case) -> Any:
        return kept() if len(case.args["text"]) <= case.profiles["p"]["limit"] else broken("too long", seen="grown")

    attacks = [
        {"id": f"a-{n}", "class": "size", "input": {"text": {"$concat": ["x", {"$repeat": ["y", n]}]}}, "must": {}}
        for n in (1, 5)
    ]
    folders = world(tmp_path, doubling(1), attacks=attacks)

    def both(case: Case) -> Adapter | None:
        return judge if case.file == "attacks/a" else find()(case)

    code, text = run(folders, "--file", "attacks/a", find=both)
    assert code == 1
    assert text.splitlines()[1].split() == ["attacks/a", "1", "0", "0", "0", "1"]
    assert "failing: attacks/a:size:a-5: too long" in text


def test_an_attack_on_what_is_built_is_no_promise(tmp_path: Path) -> None:
    later = '[[later]]\nfile = "attacks/a"\nstep = 7\nbecause = "not yet"\n'
    attacks = [{"id": "a-1", "class": "size", "input": {}, "must": {}}]
    folders = world(tmp_path, doubling(1), attacks=attacks, later=later)
    assert run(folders, "--file", "attacks/a", find=lambda case: lambda case: LATER)[0] == 0
    assert run(folders, "--file", "attacks/a", find=lambda case: lambda case: broken("let through"))[0] == 1


def test_an_adapter_that_says_later_needs_a_promise(tmp_path: Path) -> None:
    later = '[[later]]\nfile = "f"\nfn = "double"\nstep = 2\nbecause = "not yet"\n'
    assert run(world(tmp_path / "a", doubling(1)), find=lambda case: lambda case: LATER)[0] == 1
    assert run(world(tmp_path / "b", doubling(1), later=later), find=lambda case: lambda case: LATER)[0] == 0


def test_file_and_function_choose_cases(tmp_path: Path) -> None:
    folders = world(tmp_path, [*doubling(2), {"id": "x", "fn": "other", "args": {}, "expected": 1}])
    assert run(folders)[0] == 1
    assert run(folders, "--fn", "double", "--file", "f.json")[0] == 0
    assert run(folders, "--fn", "absent") == (2, "no case of file * and function absent\n")


def test_json_is_one_document(tmp_path: Path) -> None:
    code, text = run(world(tmp_path, doubling(2, wrong=2)), "--json")
    document = json.loads(text)
    assert code == 1
    assert document["files"]["f"] == {"same": 1, "different": 0, "later": 0, "noted": 0, "failing": 1}
    assert [entry["case"] for entry in document["failing"]] == ["f:double:d-1"]


def test_lone_surrogates_can_be_printed(tmp_path: Path) -> None:
    cases = [{"id": "s", "fn": "double", "args": {"n": "\ud800"}, "expected": {"ok": True, "result": "\udfff"}}]
    _, text = run(world(tmp_path, cases))
    assert text.isascii()
    assert "\\ud800" in text


def test_a_missing_folder_is_said_in_one_sentence(tmp_path: Path) -> None:
    folders = world(tmp_path, doubling(1))
    gone = Folders(tmp_path / "gone", folders.attacks, folders.rows, folders.documents)
    code, text = run(gone)
    assert code == 2
    assert text == f"no folder {str(tmp_path / 'gone')!r} with recorded cases; name one that exists\n"


def test_an_empty_folder_and_a_broken_file_are_said_in_one_sentence(tmp_path: Path) -> None:
    folders = world(tmp_path, doubling(1))
    (folders.cases / "f.json").write_text("[{")
    assert run(folders)[0] == 2
    assert "f.json is not JSON" in run(folders)[1]
    (folders.cases / "f.json").unlink()
    assert run(folders)[1].startswith("no *.json file in ")


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("[[difference]]\nfile = 3", "row 1"),
        ("[[difference", "is not TOML"),
        (DOUBLE.format(when="args[", ours="1"), "row 1 (f double)"),
        (DOUBLE.format(when="True", ours="1").replace("G2", "G99"), "guarantee is G1 to G33, not 'G99'"),
        (DOUBLE.format(when="True", ours="1").replace('"why"', '""'), "because says in one sentence why"),
        (DOUBLE.format(when="True", ours="1") + "colour = 1", "colour"),
    ],
)
def test_a_row_that_is_none_stops_the_run(tmp_path: Path, row: str, complaint: str) -> None:
    code, text = run(world(tmp_path, doubling(1), differences=row))
    assert code == 2
    assert complaint in text


def test_a_later_row_names_a_step_that_exists(tmp_path: Path) -> None:
    later = '[[later]]\nfile = "f"\nstep = 9\nbecause = "never"\n'
    with pytest.raises(BadInputError, match="step is one of 2, 3, 4, 5, 6, 7, after 7, not 9"):
        read_rows(world(tmp_path, doubling(1), later=later).rows)


def test_rows_see_a_few_safe_names_only(tmp_path: Path) -> None:
    row = DOUBLE.format(when="args", ours='__import__("os").getpid()')
    code, text = run(world(tmp_path, doubling(10), differences=row))
    assert code == 1
    assert "NameError" in text


def test_the_environment_replaces_the_folders() -> None:
    own = folders_from_environment({})
    replaced = folders_from_environment({"TOOLCRIB_CASES": "/c", "TOOLCRIB_ATTACKS": "/a"})
    assert own == Folders()
    assert replaced == Folders(cases=Path("/c"), attacks=Path("/a"), known=own)
    assert folders_from_environment({"TOOLCRIB_CASES": "/c"}) == Folders(cases=Path("/c"), known=own)


def test_a_row_is_as_broad_as_it_is_among_the_cases_that_its_author_could_see(tmp_path: Path) -> None:
    row = DOUBLE.format(when='args["n"] == 1', ours='2 * args["n"]')
    seen = world(tmp_path / "seen", doubling(10, wrong=2), differences=row)
    unseen = world(tmp_path / "unseen", doubling(2, wrong=2), differences=row)
    assert run(unseen)[0] == 1
    assert run(replace(unseen, known=seen)) == (0, run(unseen)[1].split("wrong row")[0])


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("text", "it is no object"),
        ({"id": "d-9", "args": {"n": 9}}, "it has no fn"),
        ({"args": {"n": 9}}, "it has no id, fn"),
    ],
)
def test_a_row_that_is_no_case_fails_alone(tmp_path: Path, row: Any, why: str) -> None:
    code, text = run(world(tmp_path, [*doubling(3), row]))
    assert code == 1
    assert text.splitlines()[1].split() == ["f", "3", "0", "0", "0", "1"]
    assert f"failing: f:?:[3]: this is no case: {why}" in text


def test_an_attack_that_is_none_fails_alone(tmp_path: Path) -> None:
    attacks = [{"id": "a-1", "class": "c", "input": {}}, {"id": "a-2", "class": "c", "input": {"$repeat": [1]}}]
    code, text = run(world(tmp_path, doubling(3), attacks=attacks))
    assert code == 1
    assert "attacks/a:?:[0]: this is no case: it has no must" in text
    assert "attacks/a:?:[1]: this is no case: a text in it cannot be put together" in text


def test_a_file_that_nobody_knows_fails_and_the_others_are_run(tmp_path: Path) -> None:
    folders = world(tmp_path, doubling(3))
    (folders.cases / "new.json").write_text(json.dumps([{"id": "n-1", "fn": "triple", "args": {"n": 1}}]))
    (folders.cases / "table.json").write_text('{"rows": []}')
    code, text = run(folders)
    assert code == 1
    assert text.splitlines()[1].split() == ["f", "3", "0", "0", "0", "0"]
    assert "new:triple:n-1: new triple has neither an adapter nor a row in later.toml" in text
    assert "table:?:[0]: this is no case: the file is no list of cases" in text


def test_a_predicate_that_breaks_fails_its_case_and_not_the_run(tmp_path: Path) -> None:
    row = DOUBLE.format(when='1 // args["n"]', ours="1")
    code, text = run(world(tmp_path, doubling(12), differences=row))
    assert code == 1
    assert "d-0: `when` of a row cannot be evaluated: ZeroDivisionError" in text


def test_rows_may_use_the_words_of_a_module(tmp_path: Path) -> None:
    row = DOUBLE.format(when='args["n"] == 1', ours='len(filled({"template": "ab", "inputs": {}}))')
    head = 'words = "foretold_template"\n'
    code, _ = run(world(tmp_path / "known", doubling(10, wrong=2), differences=head + row))
    assert code == 0
    code, text = run(world(tmp_path / "unknown", doubling(10), differences='words = "nowhere"\n' + row))
    assert code == 2
    assert "no words in 'nowhere'" in text


def test_what_a_row_says_may_be_alike_where_that_is_more_than_equal(tmp_path: Path) -> None:
    row = DOUBLE.format(when='args["n"] == 1', ours="12")
    folders = world(tmp_path, doubling(10, wrong=2), differences=row)

    def far(alike: Any) -> Find:
        return lambda case: recorded(lambda args: 2 * args["n"], alike=alike)

    assert run(folders, find=far(None))[0] == 1
    assert run(folders, find=far(lambda ours, other: ours == other % 10))[0] == 0


def test_many_cases_are_judged_side_by_side_and_told_in_their_order() -> None:
    cases = [case for case in load(Folders()) if case.file in ("openclaw-param-readers", "openclaw-session-keys")]
    rows = read_rows(Folders().rows)
    assert len(cases) > 200
    told = judge_all(cases, rows, Folders()).findings
    assert told == [judge(case, rows) for case in cases]


def test_our_own_copies_are_complete() -> None:
    cases = load(Folders())
    assert len({case.file for case in cases}) == 56
    assert len({str(case) for case in cases}) == len(cases)


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [
        (5, 5.0, True),
        (True, 1, False),
        (False, 0, False),
        (None, False, False),
        (("a",), ["a"], True),
        ({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}, True),
        ({"a": 1}, {"a": 1, "b": None}, False),
        ([1, 2], [2, 1], False),
        ("ab", ["a", "b"], False),
    ],
)
def test_json_values_are_compared_as_json(ours: Any, theirs: Any, same: bool) -> None:
    assert is_same(ours, theirs) is same


def test_an_error_must_mention_names_and_numbers() -> None:
    args = {"params": {"path": "x"}, "options": {"label": "Kay"}}
    assert mentions("Kay required, at most 64 (path).", args) == ["Kay", "64", "path"]


@pytest.mark.parametrize(
    ("expected", "ours", "why"),
    [
        ({"ok": True, "result": None}, None, ""),
        ({"ok": True, "value": 3}, 3, ""),
        ([1], (1,), ""),
        ({"ok": True, "result": 1}, Refused("no"), "ours is an error: no"),
        ({"ok": False, "error": {"message": "k required"}}, Refused("k is missing"), ""),
        ({"ok": False, "error": "k required"}, Refused("gone"), "our error does not mention 'k'"),
        ({"ok": False, "error": "k required"}, "k", "recorded is an error, ours is not"),
        ({"ok": True, "text": "a"}, {"ok": True, "text": "a"}, ""),
    ],
)
def test_answers_are_compared_with_the_recorded_shape(expected: Any, ours: Any, why: str) -> None:
    assert compare(case_of(expected, {"k": 1}), ours) == why


def test_long_texts_of_attacks_are_joined() -> None:
    assert expand({"a": [{"$concat": ["<", {"$repeat": ["ab", 2]}, ">"]}]}) == {"a": ["<abab>"]}


def test_any_of_gives_every_set_of_demands() -> None:
    assert alternatives({"hidden": ["x"]}) == [{"hidden": ["x"]}]
    assert alternatives({"any_of": [{"a": 1}, {"b": 2}], "c": 3}) == [{"c": 3, "a": 1}, {"c": 3, "b": 2}]
