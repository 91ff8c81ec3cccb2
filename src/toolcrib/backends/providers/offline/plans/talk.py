"""What is only said: who this is, what it can do, and how to connect a model that understands more."""

import re
from collections.abc import Sequence
from textwrap import fill

from toolcrib.backends.providers.offline.answers import Answer, clipped, rows_of
from toolcrib.backends.providers.offline.tasks import Talk

from .desk import Asking, Desk, Plan, call

__all__ = ["CONNECT", "FOOTER", "talk"]

CONNECT = (
    "To connect a real model, set `OPENAI_API_KEY`, `ANTHROPIC_API_KEY` or\n"
    "`GEMINI_API_KEY`; for a local server, set `models.default` in the\n"
    "configuration or use `--model ollama:qwen3`."
)
FOOTER = "(Offline rules, not a language model; OPENAI_API_KEY or --model connects one.)"
_WHO = (
    "I am the offline model of toolcrib: not a language model, but a small set of\n"
    "rules that turns plain requests into calls of the real tools on this belt."
)
_CAN = (
    "I can list and find files, search their text, tell where something is defined,\n"
    "read, summarise and compare files, write, append and replace text, and run\n"
    "commands, the tests and git; several steps at once are fine."
)
_WIDTH = 78
_SAID = {
    "hello": "Hello.",
    "thanks": "You are welcome.",
    "bye": "Goodbye.",
    "nothing": "All right. Ask me for something: `help` says what I can do.",
    "undo": (
        "I cannot take a change back myself. In `toolcrib chat`, `/undo` takes back the\n"
        "last change of a file; elsewhere, `run git diff` shows what changed."
    ),
    "quit": "`/quit` or Ctrl-D leaves the chat; it is kept, and goes on the next time.",
    "stop": "Stopped; nothing more is done for that request.",
}


def talk(task: Talk, desk: Desk) -> Plan:
    match task.topic:
        case "thanks" | "bye" | "nothing" | "stop" | "undo" | "quit":
            yield from ()
            return Answer(_SAID[task.topic])
        case "missed":
            return Answer(_filled(f"I did not follow “{clipped(' '.join(task.text.split()))}”."))
        case "needs":
            return Answer(f"I run commands only as they are written. Say: run `{task.text}`.")
        case "sum":
            return Answer(f"{task.text}.")
        case "tools":
            return Answer(_tools(desk))
        case "connect":
            return Answer(f"{_WHO}\n\n{CONNECT}")
    tries = _tries((yield from _folder(desk)), desk)
    match task.topic:
        case "hello":
            return Answer(f"{_filled(f'Hello! {_WHO}')}\n\nTry:\n\n{tries}")
        case "who":
            return Answer(f"{_WHO}\n\n{CONNECT}")
        case "help":
            return Answer(f"{_CAN}\n\nTry:\n\n{tries}\n\n{CONNECT}")
    what = f"I did not understand “{clipped(' '.join(task.text.split()))}”." if task.text else ""
    head = _filled(f"{what} I am not a language model, only a small set of rules for plain English. {_CAN}")
    return Answer(f"{head}\n\nTry:\n\n{tries}\n\n{CONNECT}")


def _filled(text: str) -> str:
    return fill(" ".join(text.split()), _WIDTH, break_long_words=False, break_on_hyphens=False)


def _folder(desk: Desk) -> Asking[list[str]]:
    if not desk.has("ls"):
        return []
    outcome = yield from call("ls", path=".")
    return rows_of(outcome)[0] if outcome.ok else []


def _tries(rows: Sequence[str], desk: Desk) -> str:
    """Return three requests that fit the folder."""
    plain = [row for row in rows if re.fullmatch(r"[\w.][\w.+-]*/?", row)]
    files = [row for row in plain if not row.endswith("/")]
    folders = [row.rstrip("/") for row in plain if row.endswith("/") and not row.startswith(".")]
    endings = [name.rpartition(".")[2] for name in files if "." in name[1:]]
    readme = next((name for name in files if name.lower().startswith("readme")), "")
    most = max(dict.fromkeys(endings), key=endings.count, default="py")
    tried = [
        f"read {readme} and tell its headings"
        if readme
        else f"summarise {files[0]}"
        if files
        else "create notes.txt with hello",
        f"list the files in {folders[0]}" if folders else "list the files",
        f"find TODO in *.{'py' if 'py' in endings or folders else most}",
    ]
    if any(
        name in rows for name in ("pyproject.toml", "package.json", "Cargo.toml", "Makefile", "tests/")
    ) and desk.has("exec"):
        tried[1] = "run the tests"
    return "\n".join(f"- {each}" for each in tried)


def _tools(desk: Desk) -> str:
    if not desk.tools:
        return "There are no tools on this belt."
    rows = [f"- `{name}`: {_first(tool.description)}" for name, tool in desk.tools.items()]
    return (
        f"{len(rows)} tools are on this belt:\n\n" + "\n".join(rows)
        if len(rows) > 1
        else f"One tool is on this belt:\n\n{rows[0]}"
    )


def _first(text: str) -> str:
    sentence = " ".join(text.split()).partition(". ")[0].rstrip(".")
    return sentence if len(sentence) <= 60 else f"{sentence[:59]}…"
