"""Every commit that changed tests/limits.toml, and what is not committed yet, kept the rules of its head."""

import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.limits import FILE, find_raises, format_limits
from tests.pages import ROOT
from tests.test_limits import RECORDS, limits

LIMITS, DECISIONS = FILE.relative_to(ROOT).as_posix(), "docs/decisions"


def git(root: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=True).stdout


def show(root: Path, revision: str, path: str) -> str | None:
    """Return a file as it was (`WORK`: as it is), or None where it was not, or a shallow clone does not reach."""
    if revision == "WORK":
        return (root / path).read_text(encoding="utf-8")
    ran = subprocess.run(["git", "-C", str(root), "show", f"{revision}:{path}"], capture_output=True, text=True)
    return ran.stdout if ran.returncode == 0 else None


def find_faults(root: Path) -> list[str]:
    """Return what the history of the limits below `root` has against their rules, with the commit it was done in."""
    diff = ("diff", "--name-only", "--diff-filter=d")
    untracked = git(root, "ls-files", "--others", "--exclude-standard", "--", DECISIONS).split()
    steps = [("HEAD", "WORK", [*git(root, *diff, "HEAD", "--", DECISIONS).split(), *untracked])]
    for commit in git(root, "log", "--first-parent", "--format=%H", "--", LIMITS).split():
        if show(root, f"{commit}^", LIMITS) is not None:
            changed = git(root, *diff, f"{commit}^", commit, "--", DECISIONS).split()
            steps.append((f"{commit}^", commit, changed))
    faults = []
    for before, after, changed in steps:
        records = {Path(path).name[:4]: show(root, after, path) or "" for path in changed}
        was, has = (tomllib.loads(show(root, revision, LIMITS) or "") for revision in (before, after))
        faults += [f"{after}: {each}" for each in (find_raises(was, has, records) if was else [])]
    return faults


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="impossible here: this tree has no history")
def test_no_commit_took_a_limit_up_against_the_rules() -> None:
    assert find_faults(ROOT) == []


def test_a_commit_that_takes_a_limit_up_needs_its_record_in_it(tmp_path: Path) -> None:
    record = tmp_path / DECISIONS / "0001-more.md"
    record.parent.mkdir(parents=True)
    (tmp_path / LIMITS).parent.mkdir()
    git(tmp_path, "init", "-q")

    def write(lines: int, by: str, *, commits: bool = True) -> list[str]:
        (tmp_path / LIMITS).write_text(format_limits(limits(lines=lines, by=by)))
        if commits:
            git(tmp_path, "add", "--all")
            git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", str(lines))
        return find_faults(tmp_path)

    assert write(500, "") == []
    record.write_text(RECORDS["0001"])
    assert write(550, "0001", commits=False) == []
    assert write(550, "0001") == []
    fault = "rooms.agent.lines goes up to 600 without a record that names `agent`"
    assert write(600, "0001", commits=False) == [f"WORK: {fault}"]
    assert [each.partition(": ")[2] for each in write(600, "0001")] == [fault]
