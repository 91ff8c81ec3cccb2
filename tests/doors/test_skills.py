"""toolcrib skills and toolcrib plugins: listed, shown, added from an archive whole or not at all, and removed."""

import io
import json
import tarfile
import zipfile
from pathlib import Path

import pytest

from .world import DICE, ask, crib_file, refused

Capture = pytest.CaptureFixture[str]
SKILL = "---\nname: pdf-forms\ndescription: Fill in PDF forms.\nallowed-tools: read\n---\nRead forms.md.\n"
MANIFEST = json.dumps(
    {"id": "dice", "configSchema": {}, "description": "Rolls.", "tools": [{"name": "dice", "effects": []}]}
)


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TOOLCRIB_STATE", str(tmp_path / "state"))
    return tmp_path / "home" / "toolcrib"


def zipped(path: Path, files: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def taped(path: Path, files: dict[str, str]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return path


def test_a_skill_is_added_listed_shown_and_removed(tmp_path: Path, own: Path, capsys: Capture) -> None:
    file = taped(tmp_path / "x.tgz", {"pdf-main/SKILL.md": SKILL, "pdf-main/forms.md": "# Forms"})
    added = ask(capsys, "skills", "add", file, "--json").json
    assert (added["name"], added["path"]) == ("pdf-forms", str(own / "skills" / "pdf-forms"))
    listed = ask(capsys, "skills", "list", "--json").json
    assert listed == {
        "skills": [
            {
                "name": "pdf-forms", "description": "Fill in PDF forms.", "source": "user", "path": added["path"],
                "digest": added["digest"], "allowedTools": ["read"], "files": ["SKILL.md", "forms.md"],
            }
        ],
        "problems": [],
    }  # fmt: skip
    assert ask(capsys, "skills", "list").out.splitlines()[1].split() == [
        "pdf-forms",
        "user",
        *["Fill", "in", "PDF", "forms."],
    ]
    assert "Read forms.md." in ask(capsys, "skills", "show", "pdf-forms").out
    assert ask(capsys, "skills", "show", "pdf-forms", "--json").json["text"] == "Read forms.md."
    assert [row["digest"] for row in ask(capsys, "accept", "--list", "--json").json["accepted"]] == [added["digest"]]
    assert "is there already; remove it first" in refused(ask(capsys, "skills", "add", file))
    assert ask(capsys, "skills", "rm", "pdf-forms").code == 0
    assert ask(capsys, "skills", "list", "--json").json["skills"] == []
    assert ask(capsys, "accept", "--list", "--json").json["accepted"] == []
    assert [*(own / "skills").iterdir()] == []


def test_a_plugin_is_added_turned_on_by_name_and_removed(tmp_path: Path, own: Path, capsys: Capture) -> None:
    file = zipped(tmp_path / "x.zip", {"toolcrib.plugin.json": MANIFEST, "plugin.py": DICE})
    assert "turn it on, name 'dice' in plugins.allow" in ask(capsys, "plugins", "add", file).out
    config = crib_file(tmp_path, "plugins: { allow: [dice] }")
    found = list[tuple[bool, list[str]]]()
    for more in ((), ("--config", config)):
        rows = ask(capsys, "plugins", "list", "--json", *more).json["plugins"]
        found += [(row["enabled"], row["tools"]) for row in rows if row["name"] == "dice"]
    assert found == [(False, ["dice"]), (True, ["dice"])]
    called = ask(capsys, "tools", "call", "dice", '{"sides": 4}', "--config", config)
    assert (called.out, called.code) == ("4 sides\n", 0)
    assert ask(capsys, "plugins", "rm", "dice", "--json").json["name"] == "dice"
    assert "no plugin of that name is here" in refused(ask(capsys, "tools", "list", "--config", config))


def test_what_is_added_is_accepted_also_where_it_lies_in_a_workspace(
    tmp_path: Path, own: Path, capsys: Capture
) -> None:
    config = crib_file(tmp_path, f"workspace: {{ root: {tmp_path} }}\nplugins: {{ allow: [dice] }}")
    ask(capsys, "skills", "add", zipped(tmp_path / "a.zip", {"SKILL.md": SKILL}))
    ask(capsys, "plugins", "add", zipped(tmp_path / "b.zip", {"toolcrib.plugin.json": MANIFEST, "plugin.py": DICE}))
    listed = ask(capsys, "skills", "list", "--json", "--config", config).json
    assert ([row["name"] for row in listed["skills"]], listed["problems"]) == (["pdf-forms"], [])
    assert ask(capsys, "tools", "call", "dice", "{}", "--config", config).out == "6 sides\n"
    (own / "skills/pdf-forms/SKILL.md").write_text(SKILL.replace("Read", "Send"))
    changed = ask(capsys, "skills", "list", "--json", "--config", config).json
    assert (changed["skills"], "it changed since it was accepted" in changed["problems"][0]) == ([], True)


@pytest.mark.parametrize(
    ("kind", "files", "why"),
    [
        ("skills", {"README.md": "x"}, "holds no skill: there is no SKILL.md at its top, or in its one folder"),
        ("skills", {"a/b/SKILL.md": SKILL}, "holds no skill"),
        ("skills", {"SKILL.md": "x"}, "x.zip: SKILL.md:1: a file of a skill starts with ---"),
        ("skills", {"SKILL.md": SKILL, "../x": "x"}, "'../x' leads out of the folder"),
        ("plugins", {"SKILL.md": SKILL}, "holds no plugin: there is no toolcrib.plugin.json"),
        ("plugins", {"toolcrib.plugin.json": "{"}, "toolcrib.plugin.json:1 is no JSON"),
        ("plugins", {"toolcrib.plugin.json": '{"id": "../x", "configSchema": {}}'}, "leads out of the folder"),
        ("plugins", {"toolcrib.plugin.json": '{"id": "a/b", "configSchema": {}}'}, "is no name for a folder"),
    ],
)
def test_what_is_none_is_told_in_one_sentence_and_leaves_nothing(
    tmp_path: Path, own: Path, capsys: Capture, kind: str, files: dict[str, str], why: str
) -> None:
    assert why in refused(ask(capsys, kind, "add", zipped(tmp_path / "x.zip", files)))
    assert [*(own / kind).iterdir()] == []
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["skills", "add", "gone.zip"], "gone.zip cannot be unpacked: there is no such file"),
        (["skills", "add", "."], ". cannot be unpacked: there is no such file"),
        (["skills", "rm", "nope"], "there is no skill 'nope' in"),
        (["skills", "rm", "../x"], "there is no skill '../x' in"),
        (["plugins", "rm", ""], "there is no plugin '' in"),
        (["skills", "show", "nope"], "there is no skill 'nope'; `toolcrib skills list` shows which there are"),
        (["skills", "ad"], "there is no command 'ad'; did you mean 'add'?"),
        (["plugins", "list", "--config", "gone.yaml"], "gone.yaml"),
    ],
)
def test_wrong_words_get_a_sentence(capsys: Capture, words: list[str], why: str) -> None:
    assert why in refused(ask(capsys, *words))


def test_where_the_yes_cannot_be_kept_nothing_is_added(tmp_path: Path, own: Path, capsys: Capture) -> None:
    (tmp_path / "state").write_text("a file")
    assert "the yes could not be kept" in refused(
        ask(capsys, "skills", "add", zipped(tmp_path / "x.zip", {"SKILL.md": SKILL}))
    )
    assert [*(own / "skills").iterdir()] == []
