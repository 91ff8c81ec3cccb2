"""toolcrib say: speak a text aloud, or into a file."""

import base64
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Unpack

import click

from toolcrib.define.display import escape
from toolcrib.define.errors import CribError, ToolError

from ._format import print_json
from ._options import JsonOptions, ask_owner, service_options, show_examples

_FORMATS = {".ogg": "opus", ".opus": "opus", ".mp3": "mp3", ".wav": "wav"}
_PLAYERS = (
    ("aplay", "-q", "-"),
    ("paplay", "/dev/stdin"),
    ("ffplay", "-nodisp", "-autoexit", "-loglevel", "error", "-"),
    ("afplay", "/dev/stdin"),
)


@click.command(
    "say",
    epilog=show_examples(
        'say "the build is green"',
        'say -o hello.mp3 "hello"',
        'say --voice de "guten Morgen"',
        'say --provider piper --format wav -o hello.wav --json "hello"',
        "say - < letter.txt",
    ),
)
@click.argument("text")
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Write it there; else play it.")
@click.option("--voice", default="", help="Whose voice, as its provider calls it, like de or alloy.")
@click.option("--provider", type=click.Choice(["espeak", "piper", "openai", "elevenlabs"]), help="Who speaks.")
@click.option("--format", type=click.Choice(["opus", "mp3", "wav"]), help="Of the file; else as its name ends.")
@service_options
def command(
    text: str, output: Path | None, voice: str, provider: str | None, format: str | None, **options: Unpack[JsonOptions]
) -> int:
    """Speak TEXT aloud, or into a file; - reads it from stdin. Nothing is sent to anybody who is not named."""
    player = None if output else next((words for words in _PLAYERS if shutil.which(words[0])), None)
    if output is None and player is None:
        names = ", ".join(words[0] for words in _PLAYERS)
        raise CribError(f"nothing here plays sound ({names}); install one, or write a file with -o FILE")
    if output is not None and output.is_dir():
        raise CribError(f"{str(output)!r} is a folder; name a file")
    form = format or (_FORMATS.get(output.suffix.lower(), "mp3") if output else "wav")
    if player is not None and form != "wav":
        raise CribError(f"--format {form} is for files; name one with -o FILE")
    given = {"text": sys.stdin.read() if text == "-" else text, "format": form, "voice": voice, "keep": False}
    try:
        answer = ask_owner(options, "tts.convert", given | ({"provider": provider} if provider else {}))
        sound = base64.b64decode(answer.pop("base64"))
        if output is not None:
            output.write_bytes(sound)
        elif player is not None:
            _play(player, sound)
    except ToolError as error:
        click.echo(f"toolcrib: {error}", err=True)
        return 1
    _report(answer, output, len(sound), as_json=options["as_json"])
    return 0


def _play(player: tuple[str, ...], sound: bytes) -> None:
    ended = subprocess.run(player, input=sound, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, check=False)  # noqa: S603  one of ours
    if ended.returncode or b"failed" in ended.stderr:  # ffplay leaves with 0 where there is no sound
        lines = ended.stderr.decode(errors="replace").strip().splitlines()
        why = f" ({escape(lines[-1][:200])})" if lines else ""
        raise ToolError(f"{player[0]} could not play it{why}; write it to a file with -o FILE")


def _report(answer: dict[str, Any], output: Path | None, size: int, *, as_json: bool) -> None:
    if as_json:
        about = {"file": str(output) if output else None, "bytes": size, "format": answer["outputFormat"]}
        print_json(about | {key: answer[key] for key in ("provider", "seconds", "note") if key in answer})
        return
    if "note" in answer:
        click.echo(f"toolcrib: {escape(answer['note'])}", err=True)
    if output is not None:
        lasts = f", {answer['seconds']} seconds" if "seconds" in answer else ""
        click.echo(f"{output}: {size:,} bytes{lasts}, spoken by {answer['provider']}", err=True)
