"""Two ways, the same answers: files searched at once or sieved before, over trees made at random."""

import os
import random
import subprocess
from pathlib import Path

import pytest

from toolcrib.backends.files.beneath import Beneath
from toolcrib.backends.files.guard import WorkspaceGuard
from toolcrib.backends.files.search import search
from toolcrib.backends.files.search.rg import find_ripgrep
from toolcrib.backends.files.search.walk import FileWalk
from toolcrib.define.files import Found, Search

pytestmark = pytest.mark.anyio

# fmt: off
NAMES = ("a", "b.txt", "build", "c.log", "Dir", ".env", "é.md", "x y", "keep.log", "-v", "[z]", "lib", "n.tmp", "src")
WORDS = (
    "foo", "Foo", "bar", "foo_bar", "слово", "слова", "café", "a.b", "(x)", "{", "\t", "12", "naïve", "ﬀ", "\r", "",
)
RULES = (
    "*.log", "!keep.log", "build/", "/lib", "lib/*.tmp", "**/a", "src/**", "Dir/b.txt", "# no", "", "\\!x", "[bc]*",
    "*.{tmp,md}",
    "!b.txt", "x y", " ", "a/", "/src/*", "!/src/a", "**/build/**", "*", "!*/", "[", "{a", "\\#b", "foo  ", "é*", "?",
)
PATTERNS = (
    "foo", "(?i)foo", r"\bfoo\b", r"\bслово\b", r"\w+", r"слов\B", r"\bcaf", "^$", "^foo", "foo$", "a.b", r"a\.b",
    "[^a-z]", r"[^\W\d]", r"\s", r"\d{2}", "x|bar", r"\(x\)", "{", r"(?:foo|bar)+_", r"\p{Cyrillic}", r"[\s\S]$", "",
    r"\Boo", "ï", r"\S+\t",
)
GLOBS = (
    None, None, "*.txt", "*.{txt,log}", "!*.log", "src/*", "**/a", "/a", "Dir/", "src/**", "[ab]*", "!build", "./b.txt",
    "*",
)
# fmt: on
OPEN = WorkspaceGuard.of("ro", (), ())
RG = find_ripgrep() or ""


def grown(root: Path, seed: int) -> random.Random:
    """Make a tree of files, folders, links and ignore files."""
    chance = random.Random(seed)
    folders = [root]
    for _ in range(chance.randint(3, 40)):
        place = chance.choice(folders) / chance.choice(NAMES)
        if place.exists() or place.is_symlink():
            continue
        kind = chance.random()
        if kind < 0.35:
            place.mkdir()
            folders.append(place)
        elif kind < 0.42:
            place.symlink_to(chance.choice(["..", "a", "/etc/hostname", "gone"]))
        else:
            place.write_bytes(content(chance))
    for folder in folders:
        for name in (".gitignore", ".ignore", ".rgignore"):
            if chance.random() < 0.15:
                (folder / name).write_text("\n".join(chance.sample(RULES, chance.randint(1, 4))) + "\n")
    if chance.random() < 0.2:
        (root / ".git").mkdir()
        (root / ".git" / "config").write_text("foo\n")
    return chance


def content(chance: random.Random) -> bytes:
    lines = (" ".join(chance.choices(WORDS, k=chance.randint(0, 4))) for _ in range(chance.randint(0, 6)))
    text = chance.choice(["\n", "\r\n"]).join(lines) + chance.choice(["", "\n"])
    return chance.choice(
        [text.encode()] * 6
        + [text.encode("utf-16"), b"\xef\xbb\xbf" + text.encode(), text.encode() + b"\0", b"\xff" + text.encode()]
    )


def asked(chance: random.Random) -> Search:
    return Search(
        pattern=chance.choice(PATTERNS),
        glob=chance.choice(GLOBS),
        ignore_case=chance.random() < 0.2,
        literal=chance.random() < 0.1,
        context=chance.choice([0, 0, 1, 3]),
        limit=chance.choice([1, 3, 100]),
    )


async def both_ways(root: Path, query: Search) -> tuple[Found, Found]:
    beneath = Beneath(str(root))
    try:
        return await search(beneath, OPEN, query, front=0), await search(beneath, OPEN, query, front=1_000)
    finally:
        beneath.close()


@pytest.mark.parametrize("seed", range(40))
async def test_sieved_or_not_the_answer_is_the_same(tmp_path: Path, seed: int) -> None:
    chance = grown(tmp_path, seed)
    for _ in range(4):
        query = asked(chance)
        sieved, at_once = await both_ways(tmp_path, query)
        assert sieved == at_once, query


@pytest.mark.parametrize("seed", range(40))
def test_the_walk_passes_over_what_ripgrep_passes_over(tmp_path: Path, seed: int) -> None:
    grown(tmp_path, seed)
    options = (
        "--no-config", "--files", "--null", "--hidden", "--no-require-git", "--no-ignore-parent", "--no-ignore-global",
        "--no-ignore-exclude", "--no-ignore-messages", "--glob=!.git/",
    )  # fmt: skip
    listed = subprocess.run([RG, *options], cwd=tmp_path, capture_output=True, check=False).stdout
    theirs = {os.fsdecode(name) for name in listed.split(b"\0") if name}
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        ours = [prefix + name for prefix, names, _ in FileWalk(fd, "").runs() for name in names]
    finally:
        os.close(fd)
    assert set(ours) == theirs
    assert [path.split("/") for path in ours] == sorted(path.split("/") for path in ours)


@pytest.mark.parametrize("seed", range(20))
async def test_a_folder_below_gets_the_rules_of_the_folders_above(tmp_path: Path, seed: int) -> None:
    chance = grown(tmp_path, seed)
    for folder in sorted(path for path in tmp_path.rglob("*") if path.is_dir() and not path.is_symlink()):
        query = Search(pattern=chance.choice(PATTERNS), path=str(folder.relative_to(tmp_path)))
        sieved, at_once = await both_ways(tmp_path, query)
        assert sieved == at_once, query
