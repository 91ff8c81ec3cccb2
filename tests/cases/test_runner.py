"""The runner itself: what it calls failing, different, later and noted, and what it refuses."""

import io
import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cases.__main__ import main
from tests.cases.judge import Find, judge, recorded
from tests.cases.judge import run as judge_all
from tests.cases.load import Case, Folders, folders_from_environment, load
from tests.cases.outcome import LATER, Adapter, Refused, broken, changes, compare, is_same, kept
from tests.cases.rows import Later, Rows, read_rows
from toolcrib.adapter.arguments import parse_arguments
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


def test_a_row_explains_a_difference_and_its_answer_is_asserted(tmp_path: Path) -> None:
    row = DOUBLE.format(when='args["n"] == 1', ours='2 * args["n"]')
    code, text = run(world(tmp_path, doubling(10, wrong=2), differences=row), "--verbose")
    assert code == 0
    assert text.splitlines()[1].split() == ["f", "9", "1", "0", "0", "0"]
    assert "different: f:double:d-1: why" in text


SQUARE = """
[let]
small = 'args["n"] < 3'

[[difference]]
file = "f"
fn = ["double", "triple"]
when = 'small'
but = ["size", "twice.*"]
holds = 'ours["twice"][0] == 2 * recorded["twice"][0]'
guarantee = "G2"
because = "it is twice as much"
sentence = "Absent means unrestricted at that layer."
"""


@pytest.mark.parametrize(
    ("ours", "why"),
    [
        ({"name": "n", "size": 9, "twice": [4]}, ""),
        ({"name": "n", "twice": [4]}, ""),
        ({"name": "n", "size": 1, "twice": [3]}, "it does not hold that it is twice as much"),
        ({"name": "m", "size": 1, "twice": [4]}, "ours differs besides in name"),
        ({"name": "n", "size": 1, "twice": [4], "more": 1}, "ours differs besides in more"),
        ({"name": "n", "size": 1, "twice": 4}, "ours differs besides in twice"),
    ],
)
def test_a_row_says_in_which_places_ours_differs_and_what_holds_of_it(tmp_path: Path, ours: Any, why: str) -> None:
    answer = {"name": "n", "size": 1, "twice": [2]}
    cases = [{"id": f"d-{n}", "fn": "double", "args": {"n": n}, "expected": answer} for n in (2, 3)]
    code, text = run(
        world(tmp_path, cases, differences=SQUARE), find=find(lambda args: ours if args["n"] < 3 else answer)
    )
    assert code == bool(why)
    assert why in text


def test_every_row_about_a_case_holds_and_names_its_places(tmp_path: Path) -> None:
    cases = [{"id": "d", "fn": "double", "args": {"n": 1}, "expected": {"size": 1, "twice": [2], "name": "n"}}]
    ours = {"size": 2, "twice": [4], "name": "m"}
    other = (
        SQUARE.split("[[difference]]")[1]
        .replace('"size", "twice.*"', '"name"')
        .replace("2 * recorded", "{} * recorded")
    )
    for factor, code in (("2", 0), ("3", 1)):
        rows = f"{SQUARE}\n[[difference]]{other.format(factor)}"
        folders = world(tmp_path / factor, cases, differences=rows)
        assert run(folders, find=find(lambda args: ours))[0] == code


@pytest.mark.parametrize(
    ("ours", "recorded", "places"),
    [
        ({"a": [1, 2, 3]}, {"a": [1, 3]}, ["a.+"]),
        ({"a": [1, 3]}, {"a": [1, 2, 3]}, ["a.-"]),
        ([{"b": 1}, 2], [{"b": 2}, 2], ["0.b"]),
        ({"a": 1}, {"b": 1}, ["b", "a"]),
        ("x", ["x"], [""]),
    ],
)
def test_differences_have_places(ours: Any, recorded: Any, places: list[str]) -> None:
    assert list(changes(ours, recorded)) == places


@pytest.mark.parametrize("is_deaf", [False, True])
def test_a_case_that_never_ends_fails_by_its_id_and_the_others_are_run(tmp_path: Path, *, is_deaf: bool) -> None:
    def hang(case: Case) -> Any:
        while case.id == "d-1":
            with suppress(Exception if is_deaf else ZeroDivisionError):
                threading.Event().wait()
        return kept()

    cases = load(world(tmp_path, doubling(3)))
    told = [judge(case, Rows(), lambda _: hang, seconds=0.05) for case in cases]
    assert [(each.verdict, each.why) for each in told] == [
        ("same", ""),
        ("failing", "it was not done after 0.05 s, or 60 s of work"),
        ("same", ""),
    ]


def test_a_row_that_cannot_be_evaluated_fails(tmp_path: Path) -> None:
    row = DOUBLE.format(when='args["n"] == 1', ours="nobody")
    code, text = run(world(tmp_path, doubling(10), differences=row))
    assert code == 1
    assert "the row cannot be evaluated: NameError" in text


def test_a_row_about_arguments_that_a_case_lacks_does_not_catch_it(tmp_path: Path) -> None:
    row = DOUBLE.format(when='args["deep"]["key"] == 1', ours="1")
    assert run(world(tmp_path, doubling(10), differences=row))[0] == 0


def test_a_row_cannot_look_at_ids_or_recorded_answers(tmp_path: Path) -> None:
    row = DOUBLE.format(when='case["id"] == "d-1" or case["expected"]', ours="1")
    code, text = run(world(tmp_path, doubling(10, wrong=2), differences=row))
    assert code == 1
    assert "d-1: the values differ" in text


def test_a_row_may_assert_an_error(tmp_path: Path) -> None:
    def refuse(args: dict[str, Any]) -> Any:
        return parse_arguments("[]") if args["n"] == 1 else 2 * int(args["n"])

    row = DOUBLE.format(when='args["n"] == 1', ours='error("object")')
    assert run(world(tmp_path / "a", doubling(10), differences=row), find=find(refuse))[0] == 0
    row = DOUBLE.format(when='args["n"] == 1', ours='error("even")')
    assert run(world(tmp_path / "b", doubling(10), differences=row), find=find(refuse))[0] == 1


def test_a_row_that_catches_more_than_a_fifth_fails(tmp_path: Path) -> None:
    row = DOUBLE.format(when='args["n"] < 3', ours='2 * args["n"]')
    code, text = run(world(tmp_path, doubling(14, wrong=3), differences=row))
    assert code == 1
    assert "catches 3 of 14 cases of double, more than a fifth" in text
    assert run(world(tmp_path / "more", doubling(15, wrong=3), differences=row))[0] == 0


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


def test_a_later_row_is_a_promise(tmp_path: Path) -> None:
    later = '[[later]]\nfile = "f"\nfn = ["double"]\nwhen = \'args["n"] > 0\'\nstep = "after 7"\nbecause = "not yet"\n'
    folders = world(tmp_path, doubling(3, wrong=2), later=later)
    code, text = run(folders, find=lambda case: None)
    assert (code, text.splitlines()[1].split()) == (1, ["f", "0", "0", "2", "0", "1"])
    code, text = run(folders)
    assert (code, text.splitlines()[1].split()) == (0, ["f", "2", "0", "1", "0", "0"])


@pytest.mark.parametrize(
    ("note", "code"), [("BUG: it drops half", 0), ("SECURITY: a hole", 0), ("a remark about a BUG", 1)]
)
def test_a_noted_case_need_not_match(tmp_path: Path, note: str, code: int) -> None:
    assert run(world(tmp_path, doubling(3, wrong=3, note=note)[1:]))[0] == code


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
    later = '[[later]]\nfile = "attacks/a"\nfn = ["size"]\nstep = 7\nbecause = "not yet"\n'
    attacks = [{"id": "a-1", "class": "size", "input": {}, "must": {}}]
    folders = world(tmp_path, doubling(1), attacks=attacks, later=later)
    assert run(folders, "--file", "attacks/a", find=lambda case: lambda case: LATER)[0] == 0
    assert run(folders, "--file", "attacks/a", find=lambda case: lambda case: broken("let through"))[0] == 1


def test_an_adapter_that_says_later_needs_a_promise(tmp_path: Path) -> None:
    later = '[[later]]\nfile = "f"\nfn = ["double"]\nstep = 2\nbecause = "not yet"\n'
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


def test_the_environment_replaces_the_folders() -> None:
    own = folders_from_environment({})
    replaced = folders_from_environment({"TOOLCRIB_CASES": "/c", "TOOLCRIB_ATTACKS": "/a"})
    assert own == Folders(has_own=True)
    assert replaced == Folders(cases=Path("/c"), attacks=Path("/a"), known=Folders())
    assert folders_from_environment({"TOOLCRIB_CASES": "/c"}) == Folders(cases=Path("/c"), known=Folders())


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


def test_many_cases_are_judged_side_by_side_and_told_in_their_order() -> None:
    cases = [case for case in load(Folders()) if case.file in ("openclaw-param-readers", "openclaw-session-keys")]
    rows = read_rows(Folders().rows)
    assert len(cases) > 200
    told = judge_all(cases, rows, Folders()).findings
    assert told == [judge(case, rows) for case in cases]


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


def recorded_case(**more: Any) -> Case:
    body = {"id": "x", "fn": "formatSize", "args": {"bytes": 1}, "expected": {"ok": True, "result": "1B"}, **more}
    return Case(
        file="openclaw-read-tool", fn=body["fn"], id="x", args=body["args"], expected=body["expected"], body=body
    )


def attack(file: str, kind: str, **parts: Any) -> Case:
    body = {"id": "x", "class": kind, "setup": {}, "input": {}, "must": {}, **parts}
    return Case(file=file, fn=kind, id="x", args=body["input"], expected=body["must"], body=body)


@pytest.mark.parametrize(
    ("case", "word"),
    [
        (recorded_case(), ""),
        (recorded_case(fn="formatWeight"), "the function formatWeight"),
        (recorded_case(args={"bytes": 1, "unit": "kB"}), "the argument unit of formatSize"),
        (recorded_case(expected_0_99={}), "the key expected_0_99 of a row"),
        (attack("attacks/policy", "list", input={"op": "list"}, must={"any_of": [{"hidden": []}]}), ""),
        (attack("attacks/policy", "list", input={"op": "lists"}), "input.op 'lists'"),
        (attack("attacks/policy", "lists"), "the class lists"),
        (attack("attacks/policy", "list", must={"any_of": [{"hides": []}]}), "must.hides"),
        (attack("attacks/policy", "list", setup={"context": {"mood": "good"}}), "setup.context.mood"),
        (attack("attacks/policy", "list", setup={"config": {"mood": "good"}}), ""),
        (attack("attacks/paths", "read", must={"verdict": "perhaps"}), "must.verdict 'perhaps'"),
        (attack("attacks/resources", "json", input={"args_gen": {"weight": 3}}), "input.args_gen.weight"),
        (attack("attacks/gateway", "auth", input={"http": {"verb": "GET"}}), "input.http.verb"),
        (attack("attacks/ssrf", "dns", input={"colour": "red"}), "input.colour"),
    ],
    ids=str,
)
def test_a_word_that_nobody_knows_fails_its_case_also_where_all_is_later(case: Case, word: str) -> None:
    rows = Rows(later=[Later(file=case.file, fn=[case.fn], step="after 7", because="not yet")])
    finding = judge(case, rows, lambda _: lambda _: kept())
    assert (finding.verdict, finding.why) == (("failing", f"nobody knows what {word} means") if word else ("same", ""))


def test_a_control_of_our_own_is_good_when_it_is_found_out() -> None:
    def found(outcome: Any) -> str:
        return judge(replace(recorded_case(), fails="heavy"), Rows(), lambda _: lambda _: outcome).verdict

    told = [found(each) for each in (broken("too heavy"), broken("too large"), kept())]
    assert told == ["same", "failing", "failing"]


def test_work_of_a_processor_is_bounded_and_waiting_for_one_is_not() -> None:
    def spin(_: Case) -> Any:
        until = time.process_time() + 30
        while time.process_time() < until:
            pass
        return kept()

    assert "0.2 s of work" in judge(recorded_case(), Rows(), lambda _: spin, work=0.2).why


def test_a_noted_case_that_comes_out_the_same_fails_unless_a_row_says_why(tmp_path: Path) -> None:
    folders = world(tmp_path, doubling(3, note="BUG: it doubles"))
    code, text = run(folders)
    assert (code, text.splitlines()[1].split()) == (1, ["f", "0", "0", "0", "0", "3"])
    assert "a better system differs, and we do not" in text
    row = '[[agreed]]\nfile = "f"\nfn = "double"\nholds = "ours < 4"\nbecause = "small numbers do no harm"\n'
    (folders.rows / "agreed.toml").write_text(row)
    assert run(folders)[1].splitlines()[1].split() == ["f", "2", "0", "0", "0", "1"]


def test_a_refusal_of_the_adapter_is_no_answer(tmp_path: Path) -> None:
    def refuse(args: dict[str, Any]) -> int:
        raise ArgumentError(f"n {args['n']}")

    cases = [{"id": "d", "fn": "double", "args": {"n": 7}, "expected": {"ok": False, "error": "n 7"}}]
    code, text = run(world(tmp_path / "a", cases), find=find(refuse))
    assert (code, "the adapter alone refuses it: n 7" in text) == (1, True)
    row = DOUBLE.format(when="True", ours='nothing("n")') + 'sentence = "Absent means unrestricted at that layer."\n'
    assert run(world(tmp_path / "b", cases, differences=row), find=find(refuse))[0] == 0


@pytest.mark.parametrize(
    ("recorded", "ours", "is_same"),
    [
        ("ENOENT: no such file, open '{ROOT}/a.txt'", "'a.txt' does not exist", True),
        ("ENOENT: no such file, open '{ROOT}/a.txt'", "'b.txt' does not exist", False),
        ("ENOENT: no such file", "'b.txt' does not exist", True),
        ("ENOENT: no such file", "the moon is full", False),
        ("something else", "anything", False),
    ],
)
def test_two_refusals_are_the_same_only_for_the_same_reason(recorded: str, ours: str, *, is_same: bool) -> None:
    case = case_of({"ok": False, "error": recorded}, {"path": "a.txt"})
    assert (compare(case, Refused(ours)) == "") is is_same


def test_no_row_accepts_any_refusal(tmp_path: Path) -> None:
    cases = [{"id": "d", "fn": "double", "args": {"n": 1}, "expected": 3}]
    row = DOUBLE.format(when="True", ours="error()") + 'sentence = "Absent means unrestricted at that layer."\n'
    code, text = run(world(tmp_path, cases, differences=row), find=find(lambda args: parse_arguments("[]")))
    assert code == 1
    assert "the row says that ours is Refusal(words=()" in text
