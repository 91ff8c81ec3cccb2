"""find as a model sees it."""

from pathlib import Path
from typing import Any

import pytest
from tests.cases.files import run

from toolcrib.define.errors import ToolError
from toolcrib.define.result import Text
from toolcrib.tools.fs.find import find


def said(root: Path, **args: Any) -> str:
    (part,) = run(find, root, args).content
    assert isinstance(part, Text)
    return part.text


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    for path in ("src/deep/k.json", "src/m.ts", "Zeta.md", "out/m.ts", ".env"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).touch()
    (folder / ".gitignore").write_text("out/\n")
    return folder


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({"pattern": "*.ts"}, "src/m.ts"),
        ({"pattern": "*.ts", "path": "out"}, "m.ts"),
        ({"glob": "k.json"}, "src/deep/k.json"),
        ({"pattern": "src/**/*.json"}, "src/deep/k.json"),
        ({"pattern": "deep/*.json", "path": "src"}, "deep/k.json"),
        ({"pattern": "zeta.md"}, "Zeta.md"),
        ({"pattern": "ZETA.md"}, "[nothing has such a name]"),
        ({"pattern": "deep"}, "src/deep/"),
        ({"pattern": ".e*"}, ".env"),
        (
            {"pattern": "*.{md,ts}", "limit": 1},
            "Zeta.md\n\n[1 results shown and there are more; limit=2 shows more of them]",
        ),
        ({"pattern": "*.{md,ts}", "limit": 2}, "Zeta.md\nsrc/m.ts"),
    ],
)  # fmt: skip
def test_names_are_told_relative_to_the_folder_searched(root: Path, args: dict[str, Any], text: str) -> None:
    assert said(root, **args) == text


def test_no_more_than_fits_is_shown_and_the_rest_is_told(root: Path) -> None:
    for number in range(400):
        (root / f"{'n' * 200}{number}").touch()
    text = said(root, pattern="nnn*")
    assert len(text.encode()) < 52_000
    assert text.endswith("of 400 rows; narrow the search]")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"pattern": "x", "path": "srcc"}, "did you mean 'src'?"),
        ({"pattern": "x", "path": "Zeta.md"}, "'Zeta.md' is a file, not a folder"),
        ({"pattern": "x", "path": "/"}, "outside of the workspace"),
        ({"pattern": "{x"}, "the glob '{x' has a { that nothing closes"),
        ({"pattern": " "}, "the pattern is empty"),
    ],
)
def test_what_cannot_be_searched_is_one_sentence(root: Path, args: dict[str, Any], words: str) -> None:
    with pytest.raises(ToolError) as raised:
        said(root, **args)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_it_only_reads() -> None:
    assert (find.group, sorted(find.effects), find.has_body) == ("fs", ["read"], True)
