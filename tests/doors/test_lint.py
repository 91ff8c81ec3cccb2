"""toolcrib lint: exit 0 without warnings, 1 with some, 2 when there is nothing to lint."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import toolcrib

from .world import ask, crib_file, plugin_folder, refused

Capture = pytest.CaptureFixture[str]


def test_nothing_to_complain_about(tmp_path: Path, capsys: Capture) -> None:
    crib = crib_file(tmp_path, "tools: {deny: [exec]}")
    assert ask(capsys, "lint", "--config", crib).out == "nothing to complain about\n"
    answer = ask(capsys, "lint", "--config", crib, "--json")
    assert (answer.code, answer.json, answer.err) == (0, {"findings": [], "failing": 0}, "")


SHOP = """
from toolcrib import tool

print("loading")

@tool(group="shop")
def price(item: str) -> str:
    "Say what an item costs."
    return item

def refund(item: str) -> str:
    "Pay back."
    return item

TOOLS = [price, refund]
ODD = [price, 3]
NAME = "price"
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that somebody stands in, with a module of tools; which of its names is taken is forgotten after."""
    (tmp_path / "nutshop.py").write_text(SHOP)
    (tmp_path / "brokenshop.py").write_text("raise SystemExit('closed\\nfor good')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    sys.modules.pop("nutshop", None)


def test_rules_about_a_programs_own_tools_are_judged(shop: Path, capsys: Capture) -> None:
    crib = crib_file(shop, "{tools: {deny: [refund], ask: [group:shop]}, expect: [{has: [price], lacks: [refund]}]}")
    assert ask(capsys, "lint", "--config", crib).code == 1
    answer = ask(capsys, "lint", "--config", crib, "--tools", "nutshop:TOOLS", "--json")
    assert (answer.code, answer.json, answer.err) == (0, {"findings": [], "failing": 0}, "loading\n")
    assert str(shop) not in sys.path
    explained = ask(capsys, "explain", "refund", "--config", crib, "--tools", "nutshop:TOOLS")
    assert explained.out.startswith("refund is denied at the global layer: deny has 'refund' (tools)")
    assert toolcrib.open(crib).lint(tools=sys.modules["nutshop"].TOOLS) == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("nutshop", "--tools 'nutshop' is not MODULE:LIST; write shop.tools:TOOLS, for example"),
        (":TOOLS", "--tools ':TOOLS' is not MODULE:LIST; write shop.tools:TOOLS, for example"),
        ("nutshp:TOOLS", "--tools nutshp:TOOLS: cannot be imported (ModuleNotFoundError: No module named 'nutshp')"),
        ("brokenshop:TOOLS", "--tools brokenshop:TOOLS: cannot be imported (SystemExit: closed)"),
        ("nutshop:T", "--tools nutshop:T: cannot be imported (AttributeError: module 'nutshop' has no attribute 'T')"),
        ("nutshop:NAME", "--tools nutshop:NAME: is of type str; name a list of tools or functions"),
        ("nutshop:ODD", "3 is no tool; give a function, or what @tool made of one"),
        (" ", "--tools is blank; write a value, or leave it out"),
    ],
)  # fmt: skip
def test_tools_that_cannot_be_had_are_told_in_one_sentence(
    shop: Path, capsys: Capture, text: str, sentence: str
) -> None:
    answer = ask(capsys, "lint", "--config", crib_file(shop, "{}"), "--tools", text)
    assert (answer.code, answer.out, answer.err.removeprefix("loading\n")) == (2, "", f"toolcrib: {sentence}\n")


def test_a_note_alone_does_not_fail(tmp_path: Path, capsys: Capture) -> None:
    answer = ask(capsys, "lint", "--config", crib_file(tmp_path, "people: {ann: {is: [id:7], owner: true}}"), "--json")
    assert answer.code == 0
    assert answer.json == {
        "findings": [
            {
                "kind": "unused",
                "level": "note",
                "origin": "people.ann.owner",
                "message": "checked, but not used by this version yet",
                "remedy": "to make them an owner write their ids into owners",
            }
        ],
        "failing": 0,
    }


@pytest.mark.parametrize(
    ("text", "kind", "level", "origin"),
    [
        ("tools: {deny: [exce]}", "unknown", "warning", "tools.deny"),
        ("tools: {allow: []}", "empty", "warning", "tools.allow"),
        ("tools: {allow: [exec], deny: [exec]}", "dead", "warning", "tools.allow"),
        ("expect: [{has: [exec]}, {caller: {parents: [main]}, has: [cron]}]", "expect", "error", "expect[1]"),
        ("expect: [{has: [exce]}]", "expect", "error", "expect[0]"),
        ("channels: {telegram: {dmPolicy: open}}", "widening", "warning", "channels.telegram.allowFrom"),
    ],
)
def test_a_finding_fails_and_names_its_place(
    tmp_path: Path, capsys: Capture, text: str, kind: str, level: str, origin: str
) -> None:
    crib = crib_file(tmp_path, text)
    answer = ask(capsys, "lint", "--config", crib, "--json")
    assert answer.code == 1
    (finding,) = [each for each in answer.json["findings"] if each["level"] != "note"]
    assert (finding["kind"], finding["level"], finding["origin"]) == (kind, level, origin)
    assert answer.json["failing"] == 1
    table = ask(capsys, "lint", "--config", crib)
    header, row, *_ = table.out.splitlines()
    assert (table.code, header.split()) == (1, ["level", "kind", "where", "what"])
    assert row.split(maxsplit=3) == [level, kind, origin, f"{finding['message']}; {finding['remedy']}"]


def test_a_provider_adds_what_it_cannot_be_told(tmp_path: Path, capsys: Capture) -> None:
    crib = crib_file(tmp_path, "")
    plain = ask(capsys, "lint", "--config", crib, "--json").json["findings"]
    gemini = ask(capsys, "lint", "--config", crib, "--provider", "gemini", "--json")
    assert plain == []
    assert {finding["kind"] for finding in gemini.json["findings"]} == {"loss"}
    assert gemini.code == 0


def test_an_unknown_provider_is_bad_input(capsys: Capture) -> None:
    assert refused(ask(capsys, "lint", "--provider", "gemni")) == "no adapter for 'gemni'; did you mean 'gemini'?"


def test_a_plugin_that_was_left_out_is_a_finding(tmp_path: Path, capsys: Capture) -> None:
    folder = plugin_folder(tmp_path / "plugins", manifest={"tools": [{"name": "read", "description": "Mine."}]})
    answer = ask(capsys, "lint", "--config", crib_file(tmp_path, f"plugins: {{folders: ['{folder}'], allow: [dice]}}"))
    assert (answer.code, answer.err) == (1, "")
    assert "plugin:dice offers a tool 'read', which core has; it was left out" in answer.out


def test_a_broken_plugin_that_nobody_wants_is_a_warning(tmp_path: Path, capsys: Capture) -> None:
    folder = plugin_folder(tmp_path / "plugins", manifest="{")
    answer = ask(
        capsys, "lint", "--json", "--config", crib_file(tmp_path, f"plugins: {{folders: ['{folder}', /nowhere]}}")
    )
    assert [(finding["kind"], finding["level"]) for finding in answer.json["findings"]] == [("plugin", "warning")] * 2


def test_a_file_that_cannot_be_read_is_bad_input(tmp_path: Path, capsys: Capture) -> None:
    assert refused(ask(capsys, "lint", "--config", tmp_path / "gone.yaml")).endswith("create it or name another")


def test_secrets_in_a_file_that_others_can_read_are_told(tmp_path: Path, capsys: Capture) -> None:
    crib = crib_file(tmp_path, "web: {search: {apiKey: BSA-0123456789}}")
    crib.chmod(0o644)
    answer = ask(capsys, "lint", "--config", crib, "--json")
    (finding,) = [each for each in answer.json["findings"] if each["kind"] == "permissions"]
    assert (answer.code, finding["remedy"]) == (1, f"chmod 600 {crib}")
