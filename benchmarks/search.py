"""grep and find over 20,000 files and about 260 MB: against ripgrep itself, and against a bare scandir walk.

The rare word makes every file be read; the common one is found a hundred times in the first files. A tenth of the files
lies in a folder that an ignore file names, which ripgrep passes over as well.
"""

import asyncio
import os
import random
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from toolcrib.backends.files.beneath import Beneath
from toolcrib.backends.files.guard import WorkspaceGuard
from toolcrib.backends.files.search import find_names, search
from toolcrib.backends.files.search.rg import find_ripgrep
from toolcrib.define.files import Find, Search

from . import Row, Work, interleaved

__all__ = ["grow", "measure", "rows_from"]

RARE_BAR, EARLY_BAR, FIND_BAR = 1.25, 1 / 3, 2.0
FILES = 20_000
RARE, COMMON = "NEEDLE_TOKEN", "kalomi"


def measure(rounds: int) -> list[Row]:
    """Return the rows of searching, measured here and now; none where there is no ripgrep to compare with."""
    rg = find_ripgrep()
    if rg is None:
        return []
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        grow(root, FILES)
        beneath, guard = Beneath(name), WorkspaceGuard.of("ro", (), ())
        loop = asyncio.new_event_loop()
        try:
            works: dict[str, Work] = {
                "rg": lambda: _bare(rg, root, RARE),
                "rare": lambda: loop.run_until_complete(search(beneath, guard, Search(pattern=RARE))),
                "early": lambda: loop.run_until_complete(search(beneath, guard, Search(pattern=COMMON))),
                "scandir": lambda: _walked(root),
                "find": lambda: loop.run_until_complete(find_names(beneath, guard, Find(pattern="*.go", limit=FILES))),
            }
            for work in works.values():
                work()
            return rows_from(interleaved(works, rounds, time.perf_counter))
        finally:
            loop.close()
            beneath.close()


def rows_from(taken: Mapping[str, Sequence[float]]) -> list[Row]:
    """Return the promises about `taken`."""
    rg, scandir = taken["rg"], taken["scandir"]
    return [
        Row(what="grep, a rare word", ours=taken["rare"], against="rg", floor=rg, bar=RARE_BAR),
        Row(what="grep, a common word", ours=taken["early"], against="rg, all files", floor=rg, bar=EARLY_BAR),
        Row(what="find *.go", ours=taken["find"], against="scandir walk", floor=scandir, bar=FIND_BAR),
    ]


def grow(root: Path, count: int) -> None:
    """Make so many files of words, 13 kB each on average, in folders three deep."""
    chance = random.Random(4)
    words = ["".join(chance.choices("kalomirentasvodelsunpra", k=chance.randint(2, 9))) for _ in range(5_000)]
    lines = [" ".join(chance.choices(words, k=chance.randint(12, 90))) for _ in range(4_000)]
    lines[:20] = [f"{line} {COMMON}" for line in lines[:20]]
    (root / ".gitignore").write_text("node_modules/\n*.log\n")
    (root / ".git").mkdir()
    endings = (".py", ".ts", ".md", ".json", ".txt", ".go", ".css", ".html")
    for at in range(count):
        folder = f"node_modules/pkg{at % 60}" if at % 10 == 9 else f"src{at % 20}/mod{at // 20 % 20}/sub{at % 3}"
        place = root / folder
        place.mkdir(parents=True, exist_ok=True)
        size, body = min(400_000, int(chance.paretovariate(1.3) * 3_600)), []
        while size > 0:
            body.append(lines[int(chance.random() * len(lines))])
            size -= len(body[-1]) + 1
        if at % 500 == 7:
            body.insert(len(body) // 2, f"def needle_{at}(self): return {RARE}")
        (place / f"file{at}{endings[at % 8]}").write_text("\n".join(body) + "\n")


def _bare(rg: str, root: Path, word: str) -> None:
    command = [rg, "-n", "--no-heading", "--max-count", "100", "-e", word, str(root)]
    subprocess.run(command, check=True, stdout=subprocess.PIPE)


def _walked(root: Path) -> int:
    found, stack = 0, [str(root)]
    while stack:
        with os.scandir(stack.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    stack.append(entry.path)
                else:
                    found += entry.name.endswith(".go")
    return found
