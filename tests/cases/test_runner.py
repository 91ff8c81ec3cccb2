"""The runner itself: what it calls same, different, later, noted, new and failing, and what it approves."""

import io
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.attacks import ssrf
from tests.cases.__main__ import main
from tests.cases.answers import diff
from tests.cases.judge import Find, Finding, Known, judge, read, recorded, side_by_side
from tests.cases.judge import run as judge_all
from tests.cases.load import Case, Folders, folders_from_environment, load
from tests.cases.milder import is_milder
from tests.cases.outcome import LATER, Adapter, Refused, UnknownWordError, broken, compare, is_same, kept
from tests.cases.rows import Later, Rows
from toolcrib.define.errors import ArgumentError

WHY = "G2: it is twice as much"


def world(
    folder: Path, cases: list[Any], *, answers: str = "", later: str = "", attacks: list[Any] | None = None
) -> Folders:
    """Write a folder of everything a run reads."""
    for name in ("cases", "attacks", "rows/answers"):
        (folder / name).mkdir(parents=True)
    (folder / "cases" / "f.json").write_text(json.dumps(cases))
    profiles = {"cases": attacks or [], "profiles": {"p": {"limit": 3}}}
    (folder / "attacks" / "a.json").write_text(json.dumps(profiles))
    if answers:
        (folder / "rows" / "answers" / "f.json").write_text(answers)
    (folder / "rows" / "later.toml").write_text(later)
    return Folders(folder / "cases", folder / "attacks", folder / "rows")


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


def test_a_crash_fails_only_its_case(tmp_path: Path) -> None:
    code, text = run(world(tmp_path, doubling(2)), find=find(lambda args: 0 // args["n"]))
    assert code == 1
    assert counts(text) == [0, 0, 0, 0, 1, 1]
    assert "d-0: crashed: ZeroDivisionError" in text


def attack(file: str, kind: str, **parts: Any) -> Case:
    body = {"id": "x", "class": kind, "setup": {}, "input": {}, "must": {}, **parts}
    return Case(file=file, fn=kind, id="x", args=body["input"], expected=body["must"], body=body)


def counts(text: str, line: int = 1) -> list[int]:
    return [int(each) for each in text.splitlines()[line].split()[1:]]


def approve(folders: Folders, *more: str, find: Find = find()) -> str:
    _, text = run(folders, "--approve", "--because", WHY, *more, find=find)
    return text


def test_an_approved_difference_is_one_until_our_answer_changes(tmp_path: Path) -> None:
    folders = world(tmp_path, doubling(10, wrong=3))
    code, text = run(folders)
    assert (code, counts(text)) == (1, [8, 0, 0, 0, 2, 0])
    assert 'new: f:double:d-1: the values differ\n  args      {"n": 1}' in text
    assert '"result": -1}\n  ours      {"ours": 2}\n   {\n  - "ours": -1\n  + "ours": 2' in text
    assert f'approved: f:double:d-1: {WHY}\n  -{{}}\n  +{{\n  + "ours": 2\n  +}}' in approve(folders)
    code, text = run(folders, "--verbose")
    assert (code, counts(text)) == (0, [8, 2, 0, 0, 0, 0])
    assert f"different: f:double:d-1: {WHY}" in text
    code, text = run(folders, find=find(lambda args: 3 if args["n"] == 1 else 2 * args["n"]))
    assert (code, counts(text)) == (1, [8, 1, 0, 0, 0, 1])
    assert "failing: f:double:d-1: ours is not the approved answer" in text
    assert '  - "ours": 2\n  + "ours": 3' in text
    assert list(diff({"ours": "a\n--b"}, {"ours": "a\nc"}))[1:3] == ['---b"', '+c"']


def test_a_difference_that_is_gone_fails_until_its_answer_is_dropped(tmp_path: Path) -> None:
    folders = world(tmp_path, doubling(10, wrong=2))
    approve(folders)
    as_recorded = find(lambda args: -1 if args["n"] == 1 else 2 * args["n"])
    code, text = run(folders, find=as_recorded)
    assert (code, "d-1: it is as recorded, and another answer is approved" in text) == (1, True)
    assert "dropped: f:double:d-1: it is as recorded now" in approve(folders, find=as_recorded)
    assert run(folders, find=as_recorded)[0] == 0
    assert run(folders)[0] == 1


def test_approving_tells_everything_and_writes_the_same_bytes_again(tmp_path: Path) -> None:
    def answer(args: dict[str, Any]) -> Any:
        return 0 // args["n"] if args["n"] < 2 else 2 * int(args["n"])

    folders = world(tmp_path, doubling(4, wrong=4))
    code, text = run(folders, "--approve", find=find(answer))
    assert code == 1
    assert "not approved: f:double:d-0: crashed: ZeroDivisionError" in text
    assert "not approved: f:double:d-2: say why with --because 'G2: one sentence'" in text
    approve(folders)
    path = folders.answers / "answers" / "f.json"
    written = path.read_bytes()
    assert approve(folders) == "0 answers changed, 0 cases not approved\n"
    assert path.read_bytes() == written
    (folders.cases / "f.json").write_text(json.dumps(doubling(3, wrong=3)))
    assert "an answer is approved for f:d-3, and there is no such case" in run(folders)[1]
    gone = "dropped: f:d-3: there is no such case\n1 answers changed, 0 cases not approved\n"
    assert approve(folders) == gone


def test_an_answer_is_approved_for_one_row_and_not_for_another_of_its_id(tmp_path: Path) -> None:
    folders = world(tmp_path, doubling(3, wrong=2))
    approve(folders)
    assert run(folders)[0] == 0
    (folders.cases / "f.json").write_text(json.dumps([{**row, "note": "again"} for row in doubling(3, wrong=2)]))
    assert counts(run(folders)[1]) == [2, 0, 0, 0, 1, 0]


def test_nothing_is_approved_for_the_cases_of_somebody_else(tmp_path: Path) -> None:
    folders = replace(world(tmp_path, doubling(3, wrong=2)), is_foreign=True)
    assert run(folders, "--approve", "--because", WHY)[0] == 2
    assert not (folders.answers / "answers" / "f.json").exists()
    assert counts(run(folders)[1]) == [2, 0, 0, 0, 1, 0]


def test_a_reason_names_a_guarantee(tmp_path: Path) -> None:
    folders = world(tmp_path, doubling(3, wrong=2))
    for reason in ("why", "G99: why", "G2: "):
        assert run(folders, "--approve", "--because", reason) == (
            2,
            f"a reason is `G2: one sentence`, not {reason!r}\n",
        )


def test_an_approved_answer_has_nothing_that_is_drawn_by_lot(tmp_path: Path) -> None:
    def marked(drawn: str, end: str = "") -> Find:
        begin = f'<<<EXTERNAL_UNTRUSTED_CONTENT id="{drawn}">>>'
        return find(lambda args: f'{begin}{args["n"]}<<<END_EXTERNAL_UNTRUSTED_CONTENT id="{end or drawn}">>>')

    folders = world(tmp_path, doubling(3, wrong=2))
    approve(folders, find=marked("0123456789abcdef"))
    assert run(folders, find=marked("fedcba9876543210"))[0] == 0
    assert run(folders, find=marked("fedcba9876543210", "0123456789abcdef"))[0] == 1


def test_true_is_not_the_approved_one(tmp_path: Path) -> None:
    folders = world(tmp_path, doubling(3, wrong=2))
    approve(folders, find=find(lambda args: 1 if args["n"] == 1 else 2 * args["n"]))
    assert run(folders, find=find(lambda args: args["n"] == 1 or 2 * args["n"]))[0] == 1


def test_one_dead_process_fails_its_own_case_only(tmp_path: Path) -> None:
    def look(case: Case) -> Finding:
        if case.id in ("d-3", "d-7"):
            os.kill(os.getpid(), signal.SIGKILL)
        return Finding(case, "same")

    cases = load(world(tmp_path, doubling(25)))
    told = side_by_side(cases, look, 2)
    assert [each.case for each in told] == cases
    dead = {each.case.id: each.why for each in told if each.verdict == "failing"}
    assert dead == dict.fromkeys(("d-3", "d-7"), "the process that ran it ended with -9")


def test_a_dead_helper_of_an_adapter_fails_its_own_case_only() -> None:
    first, second = [case for case in load(Folders()) if case.file == "attacks/ssrf"][:2]
    deadly = replace(first, body={**first.body, "setup": "none"})
    told = [judge(case, Known()) for case in (first, deadly, second)]
    ssrf.end_world()
    assert [each.verdict for each in told] == ["same", "failing", "same"], told


@pytest.mark.parametrize(
    ("theirs", "ours", "milder"),
    [
        ({"ok": False, "error": "no"}, {"ours": 1}, True),
        ({"ok": False, "error": "no"}, {"error": "never"}, False),
        ({"decision": "deny"}, {"ours": {"decision": "ask_user"}}, True),
        ({"decision": "ask_user"}, {"ours": {"decision": "deny"}}, False),
        ({"allowed": False}, {"ours": {"allowed": True}}, True),
        ({"isError": True}, {"ours": {"isError": False}}, True),
        ([{"blocked": True}], {"ours": [{"blocked": False}]}, True),
        (3, {"ours": 4}, False),
        (3, {"absent": "nothing of the kind"}, False),
    ],
)
def test_what_is_milder_than_recorded_is_listed(theirs: Any, ours: Any, *, milder: bool) -> None:
    assert is_milder(Finding(case_of(theirs), "different", "why", ours, theirs)) is milder


def test_the_report_lists_what_is_milder(tmp_path: Path) -> None:
    refused = {"id": "d", "fn": "double", "args": {"n": 4}, "expected": {"ok": False, "error": "four"}}
    folders = world(tmp_path, [refused])
    assert "approved, MILDER than recorded: f:double:d: G2" in approve(folders)
    code, text = run(folders)
    assert (code, "1 are milder than recorded:\nmilder: f:double:d: G2" in text) == (0, True)


def test_a_word_that_an_adapter_does_not_read_fails_its_case(tmp_path: Path) -> None:
    def answer(args: dict[str, Any]) -> Any:
        raise UnknownWordError("the way north")

    assert "d-0: unknown word: the way north" in run(world(tmp_path, doubling(1)), find=find(answer))[1]


@pytest.mark.parametrize("is_deaf", [False, True])
def test_a_case_that_never_ends_fails_by_its_id_and_the_others_are_run(tmp_path: Path, *, is_deaf: bool) -> None:
    def hang(case: Case) -> Any:
        while case.id == "d-1":
            with suppress(Exception if is_deaf else ZeroDivisionError):
                threading.Event().wait()
        return kept()

    cases = load(world(tmp_path, doubling(3)))
    told = [judge(case, Known(), lambda _: hang, seconds=0.05) for case in cases]
    assert [(each.verdict, each.why) for each in told] == [
        ("same", ""),
        ("failing", "it was not done after 0.05 s, or 60 s of work"),
        ("same", ""),
    ]


def test_a_later_row_is_a_promise(tmp_path: Path) -> None:
    later = '[[later]]\nfile = "f"\nfn = ["double"]\nargs = { n = ["[1-9]"] }\nstep = "after 7"\nbecause = "not yet"\n'
    folders = world(tmp_path, doubling(3, wrong=2), later=later)
    code, text = run(folders, find=lambda case: None)
    assert (code, counts(text)) == (1, [0, 0, 2, 0, 0, 1])
    code, text = run(folders)
    assert (code, counts(text)) == (0, [2, 0, 1, 0, 0, 0])


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
    assert (code, counts(text)) == (1, [1, 0, 0, 0, 0, 1])
    assert "failing: attacks/a:size:a-5: too long" in text


@pytest.mark.parametrize(
    ("outcome", "promised", "verdict"),
    [(LATER, True, "later"), (LATER, False, "failing"), (broken("let through"), True, "failing")],
)
def test_an_attack_on_what_is_built_is_no_promise(outcome: Any, verdict: str, *, promised: bool) -> None:
    rows = [Later(file="attacks/ssrf", fn=["dns"], step=7, because="not yet")]
    known = Known(rows=Rows(later=rows if promised else ()))
    assert judge(attack("attacks/ssrf", "dns"), known, lambda _: lambda _: outcome).verdict == verdict


def test_file_and_function_choose_cases(tmp_path: Path) -> None:
    folders = world(tmp_path, [*doubling(2), {"id": "x", "fn": "other", "args": {}, "expected": 1}])
    assert run(folders)[0] == 1
    assert run(folders, "--fn", "double", "--file", "f.json")[0] == 0
    assert run(folders, "--fn", "absent") == (2, "no case of file * and function absent\n")


def test_json_is_one_document(tmp_path: Path) -> None:
    code, text = run(world(tmp_path, doubling(2, wrong=2)), "--json")
    document = json.loads(text)
    assert code == 1
    assert document["files"]["f"] == {"same": 1, "different": 0, "later": 0, "noted": 0, "new": 1, "failing": 0}
    assert [entry["case"] for entry in document["new"]] == ["f:double:d-1"]


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
    "answers",
    [
        "[{",
        "[3]",
        '[{"because": ["why"], "answers": {"d-1": {"row": "1", "ours": 2}}}]',
        '[{"because": ["G2: why"], "answers": {"d-1": {"ours": 2}}}]',
        '[{"because": ["G2: a"], "answers": {"d": {"row": "1"}}}, {"because": [], "answers": {"d": {"row": "1"}}}]',
    ],
)
def test_answers_that_are_none_stop_the_run(tmp_path: Path, answers: str) -> None:
    code, text = run(world(tmp_path, doubling(1), answers=answers))
    assert (code, "f.json holds no approved answers" in text) == (2, True)


def test_a_row_of_what_is_later_names_its_functions(tmp_path: Path) -> None:
    folders = world(tmp_path, doubling(1), later='[[later]]\nfile = "f"\nfn = "*"\nstep = 2\nbecause = "not yet"\n')
    code, text = run(folders)
    assert (code, "row 1 (f *): fn is a list" in text) == (2, True)


def test_the_environment_replaces_the_folders() -> None:
    own = folders_from_environment({})
    replaced = folders_from_environment({"TOOLCRIB_CASES": "/c", "TOOLCRIB_ATTACKS": "/a"})
    assert own == Folders(has_own=True)
    assert replaced == Folders(cases=Path("/c"), attacks=Path("/a"), is_foreign=True)
    assert folders_from_environment({"TOOLCRIB_CASES": "/c"}) == Folders(cases=Path("/c"), is_foreign=True)


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
    assert (code, counts(text)) == (1, [3, 0, 0, 0, 0, 1])
    assert f"failing: f:?:[3]: this is no case: {why}" in text


def test_a_file_that_nobody_knows_fails_and_the_others_are_run(tmp_path: Path) -> None:
    folders = world(tmp_path, doubling(3))
    (folders.cases / "new.json").write_text(json.dumps([{"id": "n-1", "fn": "triple", "args": {"n": 1}}]))
    (folders.cases / "table.json").write_text('{"rows": []}')
    code, text = run(folders)
    assert (code, counts(text)) == (1, [3, 0, 0, 0, 0, 0])
    assert "new:triple:n-1: new triple has neither an adapter nor a row in later.toml" in text
    assert "table:?:[0]: this is no case: the file is no list of cases" in text


def test_many_cases_are_judged_side_by_side_and_told_in_their_order() -> None:
    cases = [case for case in load(Folders()) if case.file in ("openclaw-param-readers", "openclaw-session-keys")]
    _, known = read(Folders())
    assert len(cases) > 200
    told = judge_all(cases, known, processes=2).findings
    assert told == [judge(case, known) for case in cases]


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
    finding = judge(case, Known(rows=rows), lambda _: lambda _: kept())
    assert (finding.verdict, finding.why) == (("failing", f"unknown word: {word}") if word else ("same", ""))


def test_a_control_of_our_own_is_good_when_it_is_found_out() -> None:
    def found(outcome: Any) -> str:
        return judge(replace(recorded_case(), fails="heavy"), Known(), lambda _: lambda _: outcome).verdict

    told = [found(each) for each in (broken("too heavy"), broken("too large"), kept())]
    assert told == ["same", "failing", "failing"]


def test_work_of_a_processor_is_bounded_and_waiting_for_one_is_not() -> None:
    def spin(_: Case) -> Any:
        until = time.process_time() + 30
        while time.process_time() < until:
            pass
        return kept()

    assert "0.2 s of work" in judge(recorded_case(), Known(), lambda _: spin, work=0.2).why


def test_a_noted_case_that_comes_out_the_same_is_new_until_somebody_says_why(tmp_path: Path) -> None:
    folders = world(tmp_path, doubling(3, note="BUG: it doubles"))
    code, text = run(folders)
    assert (code, counts(text)) == (1, [0, 0, 0, 0, 3, 0])
    assert "a better system differs, and we do not" in text
    approve(folders)
    assert counts(run(folders)[1]) == [3, 0, 0, 0, 0, 0]
    assert counts(run(folders, find=find(lambda args: 9))[1]) == [0, 0, 0, 0, 0, 3]


def test_a_refusal_of_the_adapter_is_no_answer(tmp_path: Path) -> None:
    def refuse(args: dict[str, Any]) -> int:
        raise ArgumentError(f"n {args['n']}")

    cases = [{"id": "d", "fn": "double", "args": {"n": 7}, "expected": {"ok": False, "error": "n 7"}}]
    code, text = run(world(tmp_path, cases), find=find(refuse))
    assert (code, "the adapter alone refuses it: n 7" in text) == (1, True)


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
