"""Plans that run commands: the one that was given, or the one that fits the project."""

import re
import shlex

from toolcrib.backends.providers.offline.answers import Answer, Outcome, fenced, rows_of
from toolcrib.backends.providers.offline.patterns import Pattern
from toolcrib.backends.providers.offline.tasks import Run

from .desk import Asking, Desk, Plan, call, failure, resolved

__all__ = ["run"]

_STILL = Pattern(r"The command is still running as (?P<name>\S+) \(pid")
_RUNS = Pattern(r"(?P<name>\S+) is still running\.")
_ENDED = Pattern(r"(?:The command|\S+) (?P<how>(?:exited with|was|timed out|ended|ran|could not)[^\n]*)\.?$")
_KEEPING = ("mv -nv ", "cp -nv ")  # they say what they did, and nothing when they did nothing
_WAITS = (20_000, 40_000, 60_000)  # milliseconds
_MISSING = Pattern(r"No module named \S*pytest|command not found|not found$|No such file or directory", re.MULTILINE)

_RUNNERS = {"py": "python3", "sh": "sh", "bash": "bash", "js": "node", "mjs": "node", "rb": "ruby", "pl": "perl"}

# Which file or folder gives a project away, and what does the job there; more than one when the first may be missing.
_JOBS: dict[str, tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]] = {
    "test": (
        (("check",), ("./check",)),
        (("Cargo.toml",), ("cargo test",)),
        (("go.mod",), ("go test ./...",)),
        (("package.json",), ("npm test",)),
        (
            ("pyproject.toml", "pytest.ini", "tox.ini", "setup.py", "setup.cfg", "conftest.py", "tests/", "test/"),
            ("python3 -m pytest -q", "pytest -q"),
        ),
        (("Makefile", "makefile"), ("make test",)),
        (("pom.xml",), ("mvn test",)),
        (("build.gradle",), ("gradle test",)),
    ),
    "build": (
        (("Cargo.toml",), ("cargo build",)),
        (("go.mod",), ("go build ./...",)),
        (("package.json",), ("npm run build",)),
        (("Makefile", "makefile"), ("make",)),
        (("pyproject.toml",), ("python3 -m build",)),
    ),
    "lint": (
        (("Cargo.toml",), ("cargo clippy",)),
        (("go.mod",), ("go vet ./...",)),
        (("package.json",), ("npm run lint",)),
        (("pyproject.toml", "setup.py", "ruff.toml"), ("ruff check .",)),
        (("Makefile", "makefile"), ("make lint",)),
    ),
}


def run(task: Run, desk: Desk) -> Plan:
    if task.job:
        return (yield from _job(task, desk))
    command = task.command
    if task.file:
        name = resolved(task.file, desk)
        if not name:
            return Answer("I do not know which file you mean; name it, please.")
        runner = _RUNNERS.get(name.rpartition(".")[2], "")
        command = f"{runner} {shlex.quote(name)}" if runner else shlex.quote(name if "/" in name else f"./{name}")
    if task.command == "date" and not desk.has("exec"):
        return Answer("I have no clock: the tool `exec`, which could ask the system for the date, is not on this belt.")
    outcome = yield from _waited(command, task.path, desk)
    if task.command == "date" and outcome.ok:
        return Answer(f"The system says: {outcome.text.strip()}")
    return told(command, outcome)


def _job(task: Run, desk: Desk) -> Plan:
    listed = yield from call("ls", path=".")
    rows = set(rows_of(listed)[0]) if listed.ok else set()
    commands = next((commands for signs, commands in _JOBS[task.job] if rows & set(signs)), ())
    if not commands and task.job == "test" and any(re.fullmatch(r"test_.*\.py|.*_test\.py", row) for row in rows):
        commands = ("python3 -m pytest -q", "pytest -q")
    if not commands:
        signs = ", ".join(f"`{signs[0]}`" for signs, _ in _JOBS[task.job])
        why = f" ({listed.text.strip()})" if not listed.ok else ""
        return Answer(
            f"I cannot tell how to {task.job} this project{why}: I look for {signs}. Name the command: run `...`."
        )
    if ".venv/" in rows and commands[0].startswith("python3"):
        commands = (commands[0].replace("python3", ".venv/bin/python"), *commands)
    tried: list[str] = []
    answer = Answer("")
    for command in commands:
        full = f"{command} {shlex.quote(task.path)}" if task.path and "pytest" in command else command
        outcome = yield from _waited(full, "", desk)
        answer = told(full, outcome)
        tried.append(full)
        if outcome.ok or not _MISSING.search(outcome.text):
            break
    before = f"(`{'`, `'.join(tried[:-1])}` is not there.)\n\n" if len(tried) > 1 else ""
    return Answer(before + answer.text)


def _waited(command: str, path: str, desk: Desk) -> Asking[Outcome]:
    """Run a command, and follow it for a while when it goes to the background."""
    outcome = yield from call("exec", command=command, workdir=path or None)
    found = _STILL.match(outcome.text)
    for wait in _WAITS:
        if not found or not desk.has("process"):
            break
        polled = yield from call("process", action="poll", sessionId=found["name"], timeoutMs=wait)
        if not polled.ok:
            break
        ended = _ENDED.search(polled.text.strip())
        if not _RUNS.search(polled.text):
            ok = bool(ended and ended["how"].startswith("exited with code 0"))
            return Outcome(polled.text, ok)
    return outcome


def told(command: str, outcome: Outcome) -> Answer:
    """Say what a command printed, and how it ended."""
    text = outcome.text.strip("\n")
    if outcome.ok:
        if found := _STILL.match(text):
            return Answer(f"`{command}` is still running, as {found['name']}; it has not ended yet.")
        if text == "(no output)" and command.startswith(_KEEPING):
            return Answer("Nothing was done: something of that name is there already, and I overwrite nothing.")
        if text == "(no output)":
            return Answer(f"`{command}` ended well and printed nothing.")
        return Answer(f"`{command}` ended well:\n\n{fenced(text, tail=True)}")
    lines = text.split("\n")
    ended = next((at for at in range(len(lines) - 1, -1, -1) if _ENDED.fullmatch(lines[at])), None)
    if ended is None:
        return failure(f"run `{command}`", outcome)
    how = lines[ended].removeprefix("The command ").rstrip(".")
    printed = "\n".join(lines[:ended]).strip("\n")
    block = (
        f":\n\n{fenced(printed, tail=True)}" if printed and printed != "(no output)" else ", and it printed nothing."
    )
    return Answer(f"`{command}` failed: it {how}{block}")
