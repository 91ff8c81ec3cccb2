"""The judge: attacks are asked about or denied, ordinary work runs, and what is judged is what runs."""

from collections.abc import Mapping
from typing import Any

import pytest

from toolcrib.policy.command import CommandRules, Judgement, judge, judge_argv, look_up_in

from .lines import ASKED, BESIDE_A_DENIAL, DENIED, FILTER_ASKED, FILTER_RUNS, HIDDEN, RUNS
from .rooms import DEV, FILTERS, LOOK_UP, rules_of


@pytest.mark.parametrize("line", RUNS)
def test_ordinary_work_runs_unasked(line: str) -> None:
    found = judge(line, DEV, LOOK_UP)
    assert (found.decision, found.doubt) == ("run", ""), found.reason


@pytest.mark.parametrize("line", ASKED)
def test_what_is_more_than_the_lists_permit_is_asked(line: str) -> None:
    found = judge(line, DEV, LOOK_UP)
    assert found.decision == "ask"
    assert found.reason


@pytest.mark.parametrize("line", DENIED)
def test_a_denial_reaches_wherever_the_program_hides(line: str) -> None:
    assert judge(line, DEV, LOOK_UP).decision == "deny"


@pytest.mark.parametrize("line", FILTER_RUNS)
def test_a_filter_of_its_standard_input_runs(line: str) -> None:
    found = judge(line, FILTERS, LOOK_UP)
    assert found.decision == "run", found.reason


@pytest.mark.parametrize("line", FILTER_ASKED)
def test_a_filter_that_names_a_file_a_program_or_the_environment_is_asked(line: str) -> None:
    assert judge(line, FILTERS, LOOK_UP).decision == "ask"


@pytest.mark.parametrize("line", [*ASKED, *FILTER_ASKED])
def test_with_nobody_to_ask_the_answer_is_no(line: str) -> None:
    silent = rules_of(ask="off", readOnly=["ls"], allow=[["echo"]])
    assert judge(line, silent, LOOK_UP).decision == "deny"


def test_one_plain_command_comes_back_as_its_words() -> None:
    found = judge("  git log --grep='a; b' \"c d\" e\\ f;", DEV, LOOK_UP)
    held = ("--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty")
    assert found.argv == ("git", "log", *held, "--grep=a; b", "c d", "e f")
    assert found.commands[0].program == "/usr/bin/git"
    assert (found.rule, found.origin) == ("readOnly git", "tools.exec.readOnly[9]")


@pytest.mark.parametrize(
    ("line", "rules", "script"),
    [
        ("sed -n 1p a", DEV, "/usr/bin/sed --sandbox -n 1p a"),
        ("sed p", FILTERS, "/usr/bin/sed --sandbox p"),
        ("diff -r a b", DEV, "/usr/bin/diff --no-dereference -r a b"),
        ("sed p a | diff a b", DEV, "/usr/bin/sed --sandbox p a | /usr/bin/diff --no-dereference a b"),
        ("sed -n 1p a", rules_of(allow=[["sed"]], readOnly=["sed"]), "/usr/bin/sed -n 1p a"),
    ],
)
def test_what_may_only_read_is_held_to_it_by_its_own_options(line: str, rules: CommandRules, script: str) -> None:
    found = judge(line, rules, LOOK_UP)
    assert (found.decision, found.script) == ("run", script)
    if found.argv is not None:
        assert " ".join(found.argv) == script.removeprefix("/usr/bin/")


def test_variables_set_for_one_command_come_with_it() -> None:
    found = judge("LC_ALL=C CI='a b' sort words.txt", DEV, LOOK_UP)
    assert (found.decision, found.argv) == ("run", ("sort", "words.txt"))
    assert found.commands[0].sets == {"LC_ALL": "C", "CI": "a b"}
    assert found.script == "LC_ALL=C CI='a b' /usr/bin/sort words.txt"


@pytest.mark.parametrize(
    ("line", "script"),
    [
        ("ls src | head -n 1 && echo 'it'\\''s'", "/usr/bin/ls src | /usr/bin/head -n 1 && /usr/bin/echo 'it'\\''s'"),
        ("ls 2>/dev/null\ncat a # b", "/usr/bin/ls 2>/dev/null ; /usr/bin/cat a"),
        ("ls &> /dev/null; pwd", "/usr/bin/ls > /dev/null 2>&1 ; /usr/bin/pwd"),
        ("echo '$(id)' \"*\" ''", "/usr/bin/echo '$(id)' '*' ''"),
    ],
)
def test_several_commands_come_back_as_a_script_of_quoted_words_and_whole_paths(line: str, script: str) -> None:
    found = judge(line, DEV, LOOK_UP)
    assert (found.decision, found.script) == ("run", script)


def test_a_line_that_is_not_plain_has_neither_words_nor_script() -> None:
    found = judge("echo $HOME", DEV, LOOK_UP)
    assert (found.decision, found.argv, found.script) == ("ask", None, None)
    assert found.reason == "what it would run cannot be known in advance: it holds a variable"


def test_words_that_no_shell_reads_are_judged_as_they_are() -> None:
    found = judge_argv(["echo", "$(id)", "; touch x"], DEV, LOOK_UP)
    assert (found.decision, found.argv) == ("run", ("echo", "$(id)", "; touch x"))
    assert judge_argv(["touch", "x"], DEV, LOOK_UP).decision == "deny"
    assert judge_argv(["sh", "-c", "touch x"], DEV, LOOK_UP).decision == "deny"
    for words in ([], ["", "x"], [" "]):
        assert judge_argv(words, DEV, LOOK_UP).reason == "there is no command in it; write one"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "there is no command"),
        (" \n\t", "there is no command"),
        ("git status\0; ls", "a NUL character"),
        ("echo \udcff", "half a character"),
        ("echo " + "a" * 40_000, "40,005 bytes"),
    ],
)
def test_what_nothing_could_run_is_refused_with_the_reason(line: str, words: str) -> None:
    found = judge(line, DEV, LOOK_UP)
    assert found.decision == "deny"
    assert words in found.reason


@pytest.mark.parametrize(
    ("security", "ask", "line", "decision"),
    [
        ("deny", "off", "ls", "deny"),
        ("deny", "always", "ls", "deny"),
        ("allowlist", "off", "ls", "run"),
        ("allowlist", "off", "cp a b", "deny"),
        ("allowlist", "on-miss", "cp a b", "ask"),
        ("allowlist", "always", "ls", "ask"),
        ("full", "off", "cp a b", "run"),
        ("full", "on-miss", "for f in *; do cp $f x; done", "run"),
        ("full", "always", "ls", "ask"),
        ("full", "off", "curl x", "deny"),
        ("full", "off", "$X y", "deny"),
        ("full", "on-miss", "$X y", "ask"),
        ("full", "on-miss", 'bash -c "$X"', "ask"),
        ("full", "on-miss", "env $X", "ask"),
    ],
)
def test_security_and_ask_decide_together(security: str, ask: str, line: str, decision: str) -> None:
    rules = rules_of(security=security, ask=ask, readOnly=["ls"], deny=[["curl"]])
    assert judge(line, rules, LOOK_UP).decision == decision


def test_a_program_outside_the_trusted_folders_is_nobody() -> None:
    look_up = look_up_in(("/opt/tools",), {"/opt/tools/ls"}.__contains__)
    assert judge("ls", DEV, look_up).argv == ("ls",)
    assert judge("ls", DEV, look_up).commands[0].program == "/opt/tools/ls"
    for line in ("cat a", "./ls", "/usr/bin/ls", "/opt/tools/../tools/ls", "/opt/tools/sub/ls", "opt/tools/ls"):
        assert judge(line, DEV, look_up).decision == "ask"


def test_paths_are_judge_with_what_the_caller_knows_about_them() -> None:
    assert judge("cat /ws/a", DEV, LOOK_UP, within=lambda path: path == "/ws/a").decision == "run"
    assert judge("cat link", DEV, LOOK_UP, within=lambda path: path != "link").decision == "ask"


def test_a_denied_subcommand_is_found_behind_options() -> None:
    for line in ("git push", "git -C . push origin", "git --no-pager -c a=b push", "/usr/bin/git push"):
        assert judge(line, DEV, LOOK_UP).origin == "tools.exec.deny[2]"
    assert judge("git log push", DEV, LOOK_UP).decision == "run"


@pytest.mark.parametrize("security", ["allowlist", "full"])
@pytest.mark.parametrize("count", [1, 16, 17, 200, 1_500])
def test_no_count_of_options_hides_a_denied_subcommand(security: str, count: int) -> None:
    rules = rules_of(
        security=security, ask="off", allow=[["git"], ["docker"]], deny=[["git", "push"], ["docker", "a", "b"]]
    )
    many = "--no-pager " * count
    for line in (
        f"git {many}push",
        f"docker {many}a {many}b",
        f"find . -exec git {many}push ;",
        f"unshare git {many}push",
    ):
        assert judge_argv(line.split(), rules, LOOK_UP).decision == "deny", line[:40]


@pytest.mark.parametrize("security", ["allowlist", "full"])
@pytest.mark.parametrize(
    "line",
    [
        "git -c alias.p=push p",
        "git -c include.path=./aliases p",
        "git --config-env=alias.p=P p",
        "git --config-env alias.p=P status",
        "git --exec-path=. p",
        "git p",
        "git -C sub p",
        "env A=1 git -c alias.status=push status",
        "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.p GIT_CONFIG_VALUE_0=push git p",
        "hg --config alias.p=push p",
    ],
)
def test_a_denied_subcommand_under_another_name_is_asked_about(security: str, line: str) -> None:
    lists: Mapping[str, Any] = {"allow": [["git"], ["hg"], ["env"]], "deny": [["git", "push"], ["hg", "push"]]}
    assert judge(line, rules_of(security=security, **lists), LOOK_UP).decision == "ask"
    assert judge(line, rules_of(security=security, ask="off", **lists), LOOK_UP).decision == "deny"


def test_other_subcommands_run_beside_a_denied_one() -> None:
    rules = rules_of(allow=[["git"]], deny=[["git", "push"], ["git", "remote", "add"]])
    for line in ("git commit -m push", "git -c user.name=me commit", "git -C sub log", "git remote -v", "git"):
        assert judge(line, rules, LOOK_UP).decision == "run", line


@pytest.mark.parametrize("line", HIDDEN)
def test_a_line_that_may_start_what_is_denied_never_runs_unasked(line: str) -> None:
    for security in ("full", "allowlist"):
        lists: Mapping[str, Any] = {"security": security, "allow": [["echo"]], "deny": [["touch"]]}
        found = judge(line, rules_of(**lists), LOOK_UP)
        assert found.decision == "deny" or (found.decision, "denied" in found.reason) == ("ask", True), found.reason
        assert judge(line, rules_of(ask="off", **lists), LOOK_UP).decision == "deny"


@pytest.mark.parametrize("line", BESIDE_A_DENIAL)
def test_under_a_deny_list_what_starts_nothing_else_runs_freely(line: str) -> None:
    rules = rules_of(security="full", deny=[["touch"]], allow=[["make"], ["python3"]])
    found = judge(line, rules, LOOK_UP)
    assert found.decision == "run", found.reason


def _may_last(line: str) -> bool:
    found: Judgement = judge(line, DEV, LOOK_UP)
    return found.may_last


def test_no_yes_lasts_for_what_can_run_something_else() -> None:
    assert _may_last("id -u")
    assert _may_last("cp a b && ls")
    for line in (
        "bash -c ls",
        "env FOO=1 ls",
        "python3.11 x.py",
        "./run",
        "id $X",
        "git commit",
        "sudo id",
        "npm test",
        "split --filter=ls a",
        "sqlite3 a.db",
        "csh x",
        "m4 x",
        "dc x",
        "gpg x",
        "/opt/x/ls",
        "sed p a",
        "sort a",
        "anything",
        "rm a",
    ):
        assert not _may_last(line)
