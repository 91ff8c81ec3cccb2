"""grep as a model sees it."""

from pathlib import Path
from typing import Any

import pytest
from tests.cases.files import run

from toolcrib.define.errors import ToolError
from toolcrib.define.result import Text
from toolcrib.tools.fs.grep import grep

MORE = "2 matches shown and there are more; limit=4 shows more of them"


def said(root: Path, **args: Any) -> str:
    (part,) = run(grep, root, args).content
    assert isinstance(part, Text)
    return part.text


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    (folder / "src").mkdir(parents=True)
    (folder / "a.py").write_text('import os\nprint("hello")\nHELLO = 1\n')
    (folder / "src/m.ts").write_text("const x = 1;\n// TODO: fix\nexport { x };\n")
    (folder / "long.txt").write_text("y" * 600)
    return folder


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({"pattern": "hello"}, 'a.py:2: print("hello")'),
        ({"pattern": "hello", "ignoreCase": True}, 'a.py:2: print("hello")\na.py:3: HELLO = 1'),
        ({"pattern": "hello", "-i": True}, 'a.py:2: print("hello")\na.py:3: HELLO = 1'),
        ({"pattern": 'print("hello")', "literal": True}, 'a.py:2: print("hello")'),
        ({"pattern": "TODO", "path": "src"}, "m.ts:2: // TODO: fix"),
        ({"pattern": "TODO", "path": "src/m.ts"}, "m.ts:2: // TODO: fix"),
        (
            {"pattern": "TODO", "file_path": "src/m.ts", "-C": 1},
            "m.ts-1- const x = 1;\nm.ts:2: // TODO: fix\nm.ts-3- export { x };",
        ),
        ({"pattern": "o", "glob": "*.ts"}, "src/m.ts:1: const x = 1;\nsrc/m.ts:3: export { x };"),
        ({"pattern": "nowhere"}, "[no matches]"),
        (
            {"pattern": "x", "context": -1, "path": "src", "limit": 2},
            f"m.ts:1: const x = 1;\nm.ts:2: // TODO: fix\n\n[{MORE}]",
        ),
        (
            {"pattern": "yy"},
            f"long.txt:1: {'y' * 500}… [cut]\n\n[some lines are cut after 500 characters; read shows them whole]",
        ),
    ],
)  # fmt: skip
def test_matches_are_told_with_their_place(root: Path, args: dict[str, Any], text: str) -> None:
    assert said(root, **args) == text


def test_no_more_than_fits_is_shown_and_the_rest_is_told(root: Path) -> None:
    (root / "big.txt").write_text(("row " + "." * 200 + "\n") * 400)
    text = said(root, pattern="row", limit=1_000)
    assert len(text.encode()) < 52_000
    assert text.endswith("[50.0KB shown, 235 of 400 rows; narrow the search]")


def test_hard_linked_files_are_counted(root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hello CANARY")
    (root / "b").hardlink_to(tmp_path / "secret")
    assert said(root, pattern="hello") == (
        'a.py:2: print("hello")\n\n[hard-linked files with matches that were left out: 1]'
    )


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"pattern": "x", "path": "srv"}, "did you mean 'src'?"),
        ({"pattern": "x", "path": "../.."}, "leads out of the workspace"),
        ({"pattern": "(x"}, "unclosed group"),
        ({"pattern": "x(?=y)"}, "look-around"),
        ({"pattern": "x", "glob": "[x"}, "the glob '[x' has a [ that nothing closes"),
        ({}, "pattern"),
    ],
)
def test_what_cannot_be_searched_is_one_sentence(root: Path, args: dict[str, Any], words: str) -> None:
    with pytest.raises(ToolError) as raised:
        said(root, **args)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_it_only_reads() -> None:
    assert (grep.group, sorted(grep.effects), grep.has_body) == ("fs", ["read"], True)
