"""toolcrib say: a text aloud, or in a file."""

import os
import stat
from pathlib import Path

import pytest
from tests.backends.voices.voice_world import measure

from .world import ask, crib_file


@pytest.fixture(autouse=True)
def no_keys_of_yours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TOOLCRIB_STATE", str(tmp_path / "state"))
    for name in list(os.environ):
        if name.endswith("_API_KEY"):
            monkeypatch.delenv(name)


@pytest.mark.parametrize(("name", "head"), [("a.mp3", b"ID3"), ("a.OGG", b"OggS"), ("a.wav", b"RIFF"), ("a", b"ID3")])
def test_a_text_is_written_in_the_form_that_the_name_says(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, head: bytes
) -> None:
    told = ask(capsys, "say", "the build is green", "-o", tmp_path / name, "--json")
    assert told.code == 0, told.err
    sound = (tmp_path / name).read_bytes()
    assert sound.startswith(head)
    assert (told.json["bytes"], told.json["provider"]) == (len(sound), "espeak")
    assert abs(measure(sound)[0] - told.json["seconds"]) < 0.2


def test_it_is_played_by_whatever_plays_here(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    player = tmp_path / "bin" / "aplay"
    player.parent.mkdir()
    player.write_text(f'#!/bin/sh\n/bin/cat > "{tmp_path}/played"\n')
    player.chmod(player.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(player.parent))
    assert ask(capsys, "say", "hello").code == 0
    assert (tmp_path / "played").read_bytes().startswith(b"RIFF")
    player.write_text("#!/bin/sh\necho 'no such device' >&2; exit 1\n")
    told = ask(capsys, "say", "hello")
    wanted = "toolcrib: aplay could not play it (no such device); write it to a file with -o FILE\n"
    assert (told.code, told.err) == (1, wanted)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "nothing here plays sound" in ask(capsys, "say", "hello").err


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("--provider", "openai", "-o", "a.mp3", "hi"), 1, "openai needs an API key: set media.tts.apiKey or OPENAI"),
        (("--voice", "zz", "-o", "a.mp3", "hi"), 1, "voice does not exist"),
        (("-o", "a.mp3", " "), 1, "text is blank; say what to speak"),
        (("-o", ".", "hi"), 2, "'.' is a folder; name a file"),
        (("-o", "no/such/a.mp3", "hi"), 2, "no/such/a.mp3: No such file or directory"),
        (("-o", "a.mp3"), 2, "missing argument 'TEXT'"),
    ],
)
def test_what_cannot_be_said_is_one_sentence(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    code: int,
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = ask(capsys, "say", *words)
    assert (answer.code, answer.out) == (code, "")
    assert told in answer.err
    assert answer.err.count("\n") == 1
    assert not (tmp_path / "a.mp3").exists()


def test_who_stood_in_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    crib = crib_file(tmp_path, "media: {tts: {provider: elevenlabs}}")
    told = ask(capsys, "say", "hello", "-o", tmp_path / "a.mp3", "--config", crib)
    assert told.code == 0
    assert "elevenlabs needs an API key" in told.err
    assert "; espeak spoke instead\n" in told.err
