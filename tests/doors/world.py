"""What the tests of the command line stand on: one command run in process, files and plugins to run it on."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from toolcrib.backends.plugins import MANIFEST
from toolcrib.doors.cli.main import run

__all__ = ["DICE", "Answer", "ask", "crib_file", "plugin_folder", "refused"]

DICE = '''\
from toolcrib import Plugin, tool


@tool(effects=set())
def dice(sides: int = 6) -> str:
    """Roll."""
    return f"{sides} sides"


plugin = Plugin(name="dice", tools=(dice,))
'''


@dataclass(frozen=True)
class Answer:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Stdout as the one JSON document it must be."""
        return json.loads(self.out)


def ask(capsys: pytest.CaptureFixture[str], *args: str | Path) -> Answer:
    """Run one command in this process."""
    capsys.readouterr()
    code = run([str(arg) for arg in args])
    out, err = capsys.readouterr()
    return Answer(code, out, err)


def refused(answer: Answer) -> str:
    """Return the one sentence of a refusal, after making sure that it is one and that nothing else was said."""
    assert answer.code == 2, answer
    assert answer.out == ""
    assert answer.err.startswith("toolcrib: "), answer.err
    assert answer.err.endswith("\n")
    sentence = answer.err.removeprefix("toolcrib: ")[:-1]
    assert len(sentence.splitlines()) == 1, sentence
    assert sentence.isprintable(), sentence
    assert "Traceback" not in sentence
    assert len(sentence) < 1000, len(sentence)
    return sentence


def crib_file(folder: Path, text: str | bytes, name: str = "crib.yaml") -> Path:
    """Return a configuration file that nobody else can read."""
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(0o600)
    return path


def plugin_folder(
    folder: Path, code: str = DICE, *, id: str = "dice", manifest: Mapping[str, Any] | str | None = None
) -> Path:
    """Return a folder that holds one plugin; `manifest` adds to an ordinary one, or is the whole text."""
    own = folder / id
    own.mkdir(parents=True)
    ordinary = {"id": id, "configSchema": {}, "tools": [{"name": "dice", "description": "Roll.", "effects": []}]}
    text = manifest if isinstance(manifest, str) else json.dumps({**ordinary, **(manifest or {})})
    (own / MANIFEST).write_text(text)
    (own / "plugin.py").write_text(code)
    return folder
