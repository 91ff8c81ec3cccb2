"""The pages hold true: snippets run, commands answer as shown, links lead somewhere, tables match the code.

How a fenced block is read, by its first word (and, after a blank, a file's name):

    python            runs; the blocks of a page share one namespace
    output            is what the python block before it prints
    console           `$ toolcrib ...` runs, and what stands below it is what it prints; `...` stands for any lines
    yaml              is a configuration that can be used
    LANGUAGE FILE     is part of that file of the project or, where there is none, becomes that file for the page

`python -m tests.test_docs` makes the generated parts anew (tests/pages.py).
"""

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest

import toolcrib
from tests.pages import ROOT, drawn_paths, modules, regenerated
from toolcrib.config import Config
from toolcrib.doors.cli.main import run
from toolcrib.policy.lint import FindingKind

PAGES = tuple(sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]))
RUN_BY_HAND = ("./check", ".venv/bin/python")  # what a page may show without it being run here

page = pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, the file it names, its text and the line it starts on."""

    language: str
    file: str
    text: str
    line: int


def blocks_of(path: Path) -> list[Block]:
    found, inside = [], None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.startswith("```") and inside is None:
            language, _, file = line[3:].strip().partition(" ")
            inside = (language, file, number, list[str]())
        elif line.startswith("```") and inside is not None:
            language, file, start, lines = inside
            found.append(Block(language, file, "\n".join(lines), start))
            inside = None
        elif inside is not None:
            inside[3].append(line)
    assert inside is None, f"{path.name} ends inside a block"
    return found


# Snippets and commands


@page
def test_what_a_page_shows_is_what_happens(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in ("examples", "src"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nobody"))
    monkeypatch.setenv("TOOLCRIB_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("TOOLCRIB_CONFIG", raising=False)
    for key in [name for name in os.environ if name.endswith("_API_KEY")]:
        monkeypatch.delenv(key)
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks_of(page):
        where = f"{page.name}:{block.line}"
        if block.file:
            _file(block, tmp_path, where)
        match block.language:
            case "python" if not block.file.startswith("examples/"):
                capsys.readouterr()
                exec(compile("\n" * block.line + block.text, str(page), "exec"), names)
            case "output":
                assert capsys.readouterr().out.strip() == block.text.strip(), where
            case "console":
                _console(block, where)
            case "yaml" if not block.file:
                settings = tmp_path / "block.yaml"
                settings.write_text(block.text)
                toolcrib.open(settings)


def _file(block: Block, folder: Path, where: str) -> None:
    original = ROOT / block.file
    if original.exists():
        assert block.text.strip() in original.read_text(), f"{where}: {block.file} says something else"
    else:
        made = folder / block.file
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_text(block.text)


def _console(block: Block, where: str) -> None:
    for command, shown in _commands(block.text):
        program, *args = shlex.split(command)
        if program in RUN_BY_HAND:
            continue
        assert program in ("toolcrib", "./run"), f"{where}: nobody runs {command!r}"
        screen = io.StringIO()  # both streams, as they come
        with contextlib.redirect_stdout(screen), contextlib.redirect_stderr(screen):
            code = run(args or ["tour"])
        told = screen.getvalue()
        assert code in (0, 1) or (code == 2 and shown[:1] != [] and shown[0].startswith("toolcrib: ")), told
        if shown:
            lines = [r"(?:.*\n)*?" if line.strip() == "..." else re.escape(line.rstrip()) + r"\n" for line in shown]
            as_shown = re.fullmatch("".join(lines) + r"\n*", told) is not None
            assert as_shown, f"{where}: {command} now prints\n{told}"


def _commands(text: str) -> list[tuple[str, list[str]]]:
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


# Links


@page
def test_every_link_inside_the_project_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page.name} links to {target}"
        if anchor:
            assert anchor in _anchors(file), f"{page.name} links to {target}"


def _anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


# The map


def test_the_map_shows_every_folder_and_the_list_every_module() -> None:
    folders = {path for path in modules() if path.endswith("/")}
    assert drawn_paths(_section("The tree as it is")) == folders
    assert drawn_paths((ROOT / "docs" / "modules.md").read_text()) == modules()


def test_the_map_names_as_existing_only_what_exists() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    named = set(re.findall(r"`([a-z_][\w./]*(?:\.py|/))`", text))
    homes = (ROOT / "src/toolcrib", ROOT)
    assert [path for path in sorted(named) if not any((home / path).exists() for home in homes)] == []


# The first part of a path that can only be meant as one of ours. In decisions, `a/b.py` (gone) was there once.
_HOMES = (ROOT, ROOT / "src" / "toolcrib")
_OURS = {
    path.name for home in _HOMES for path in home.iterdir() if path.is_dir() and path.name not in (".git", ".venv")
}
_GONE = re.compile(r"`[^`\n]+` \(gone\)")


def missing_paths(page: Path) -> list[str]:
    """Return what a page names in back-quotes as a file or folder of the project, and is none."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    if page.parent.name == "decisions":
        text = _GONE.sub("", text)
    named = [word.partition("::")[0] for word in re.findall(r"`([^`\s<>*]+)`", text)]
    paths = [path for path in named if re.match(r"[\w.-]+/", path)]
    ours = [path for path in paths if path.partition("/")[0] in _OURS or path.endswith(".py")]
    return [path for path in ours if not any(_exists(home, path) for home in (*_HOMES, page.parent))]


def _exists(home: Path, path: str) -> bool:
    """Tell whether this is a path, a module, or a name in a module."""
    return any((home / way).exists() for way in (path, f"{path}.py", f"{path.rpartition('.')[0]}.py"))


@page
def test_every_path_that_a_page_names_exists(page: Path) -> None:
    assert missing_paths(page) == []


def test_a_path_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    text = "`policy/scopes.py` `agent/invoke` `app/turns.Other` `bin/no` `a/b.py` (gone) `x/y`\n"
    for folder, more in (("docs", ["a/b.py"]), ("decisions", [])):
        page = tmp_path / folder / "a.md"
        page.parent.mkdir()
        page.write_text(f"{text}```\n`bin/inside`\n```\n")
        assert missing_paths(page) == ["policy/scopes.py", "bin/no", *more]


def _section(heading: str) -> str:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    found = re.search(rf"^## {re.escape(heading)}\n.*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, heading
    return found[0]


# Guarantees


def test_every_guarantee_has_its_row() -> None:
    numbers = re.findall(r"^\| G(\d+) \|", (ROOT / "docs/guarantees.md").read_text(), re.MULTILINE)
    assert [int(number) for number in numbers] == list(range(1, 38))


def test_every_guarantee_states_how_far_it_is_kept() -> None:
    rows = re.findall(r"^\| G\d+ \|.*$", (ROOT / "docs/guarantees.md").read_text(), re.MULTILINE)
    for row in rows:
        status = [cell.strip() for cell in row.strip("|").split("|")][2]
        assert re.fullmatch(r"proved|partly", status), row
        assert "::" in row, row


def test_every_test_that_a_page_names_exists() -> None:
    for path in PAGES:
        for file, function in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", path.read_text()):
            assert (ROOT / file).exists(), f"{path.name} names {file}"
            assert re.search(rf"^(async )?def {function}\(", (ROOT / file).read_text(), re.MULTILINE), (
                f"{path.name} names {file}::{function}"
            )


def test_the_page_about_policy_explains_every_finding_of_lint() -> None:
    text = (ROOT / "docs/policy.md").read_text()
    assert [kind for kind in get_args(FindingKind) if f"| `{kind}` |" not in text] == []


def test_the_newest_release_in_the_changelog_is_this_version() -> None:
    releases = re.findall(r"^## (\d\S*) - \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert releases[0] == toolcrib.__version__


# Types


def write_samples(folder: Path) -> list[str]:
    """Write the samples of each page to a file; return these files. Examples are checked where they stand."""
    for path in PAGES:
        blocks = [block for block in blocks_of(path) if block.language == "python"]
        own = [block.text for block in blocks if not block.file.startswith("examples/")]
        if own:
            name = "_".join(path.relative_to(ROOT).with_suffix("").parts).replace("-", "_")
            (folder / f"{name}.py").write_text("\n\n".join(own) + "\n")
    samples = sorted(map(str, folder.glob("*.py")))
    assert len(samples) > 10
    return samples


@pytest.mark.timeout(600)  # without the cache of the step before, all of toolcrib is read
def test_the_samples_of_the_pages_pass_strict_mypy(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mypy", *write_samples(tmp_path)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout


@pytest.mark.timeout(600)
def test_the_samples_and_examples_pass_pyright_as_editors_run_it(tmp_path: Path) -> None:
    include = [*write_samples(tmp_path), *map(str, sorted((ROOT / "examples").rglob("*.py")))]
    settings = {"include": include, "typeCheckingMode": "standard", "reportMissingImports": False}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, "--project", str(tmp_path)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout


# Generated parts


@page
def test_generated_parts_are_up_to_date(page: Path) -> None:
    assert page.read_text() == regenerated(page.read_text()), "run `python -m tests.test_docs`"


def test_every_section_of_the_configuration_has_its_table() -> None:
    text = (ROOT / "docs/configuration.md").read_text()
    shown = set(re.findall(r"<!-- generated: settings (\w+) -->", text))
    assert shown == {info.alias or name for name, info in Config.model_fields.items()}


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(regenerated(path.read_text()))
