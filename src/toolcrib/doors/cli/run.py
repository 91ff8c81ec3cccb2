"""toolcrib run: one message answered, with the tools of a caller, in a session that is kept."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from secrets import token_hex
from types import FrameType
from typing import Any, Self, Unpack

import click

from toolcrib.define.caller import OWNER
from toolcrib.define.errors import CribError
from toolcrib.define.event import Event, ToolFinished, TurnFinished, TurnStarted
from toolcrib.define.session import agent_from_key, check_key, to_agent
from toolcrib.policy.resolve import mark_terminal_owner

from . import EXIT_INTERRUPTED
from ._loop import run_loop
from ._options import (
    AskService,
    CallerOptions,
    caller_options,
    config_options,
    gateway_options,
    headed_option,
    is_attended,
    nearest_session,
    wait_for_servers,
)
from ._talk import AskedTurn, Talk, read_attachment
from ._turn import JsonLines, RunScreen
from .approvals import ask_at_terminal

log = logging.getLogger("toolcrib")

_EXAMPLES = """\b
Examples:
  toolcrib run "list the files in src"
  toolcrib run "find TODO in *.py and show the first file"
  toolcrib run "and now in *.md" --continue
  toolcrib run "what is wrong here?" --image screenshot.png
  toolcrib run "run the tests" --model openai:gpt-5
  toolcrib run "mend the first one" --session agent:main:run:3f9c2a7b10de
  git diff | toolcrib run - --json
"""
_MESSAGE_BYTES = 1024 * 1024  # bytes of a message from stdin

_Surface = JsonLines | RunScreen


@click.command("run", epilog=_EXAMPLES)
@click.argument("words", metavar="MESSAGE", nargs=-1, required=True)
@config_options
@gateway_options
@caller_options
@click.option("--continue", "-c", "last", is_flag=True, help="Go on with the agent's latest session.")
@click.option("--image", "images", multiple=True, metavar="FILE", help="Show a picture with it; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line and nothing else.")
@click.option("--verbose", "-v", is_flag=True, help="Show thoughts and the whole of results, too.")
@headed_option
def command(
    words: tuple[str, ...], images: tuple[str, ...], last: bool, as_json: bool, verbose: bool, headed: bool,
    **options: Unpack[CallerOptions],
) -> int:  # fmt: skip
    """Answer MESSAGE, one word or many, with the tools you may use; `-` reads it from stdin.

    The session is kept: `--session KEY` goes on with one. Without a model's key the offline model answers, which knows
    six verbs. Ctrl-C stops it and keeps what was done; once more leaves at once.

    Exit codes: 0 done; 1 ended by a limit, a refusal or a failure, or a call was refused or failed on the way; 2 bad
    input or configuration; 130 interrupted.
    """
    if last and options["session"]:
        raise CribError("--continue and --session both say which session it is; leave one of them out")
    text = _from_stdin() if words == ("-",) else _check_message(" ".join(words))
    query: dict[str, Any] = {"message": text, "model": options["model"] or ""}
    query["attachments"] = [read_attachment(Path(each).expanduser()) for each in images]
    # whoever does not see the question cannot answer it
    attended = is_attended() and sys.stderr is not None and sys.stderr.isatty() and not as_json
    talk, shows = Talk(options, headed=headed), JsonLines() if as_json else RunScreen(verbose=verbose)
    try:
        # what a tool prints is not part of the answer
        with contextlib.redirect_stdout(sys.stderr):
            return run_loop(_answer(talk, query, shows, attended=attended, last=last))
    except asyncio.CancelledError:  # before the turn began
        raise KeyboardInterrupt from None


async def _answer(talk: Talk, query: Mapping[str, Any], shows: _Surface, *, attended: bool, last: bool) -> int:
    """Answer, in the latest session when it is to be the `last`, and return the exit code."""
    with _CtrlC() as ctrl_c:
        async with talk, ask_at_terminal(talk.questions) if attended else contextlib.nullcontext():
            agent = to_agent(talk.caller.agent or "main")
            session, news = await _choose_session(partial(talk.ask, OWNER), agent, talk.caller.session, last=last)
            session = session or f"agent:{agent}:run:{token_hex(6)}"
            if talk.crib is not None:
                await wait_for_servers(talk.crib, lambda words: click.echo(f"toolcrib: {words}", err=True))
            caller = mark_terminal_owner(replace(talk.caller, session=session))
            turn = AskedTurn(partial(talk.ask, caller), session, {**query, "agentId": agent})
            ctrl_c.stop, ctrl_c.tell = turn.stop, shows.break_line
            is_good = await _show(aiter(turn), shows, news)
    if ctrl_c.presses:
        return EXIT_INTERRUPTED
    return 0 if is_good else 1


async def _show(turn: AsyncIterator[Event], shows: _Surface, news: str) -> bool:
    """Show a turn; tell whether it came to its end and every call in it was made and did not fail."""
    end: TurnFinished | None = None
    failures = 0
    try:
        async for event in turn:
            if news and isinstance(event, TurnStarted):
                click.echo(f"toolcrib: {news}", err=True)
            end = event if isinstance(event, TurnFinished) else end
            failures += isinstance(event, ToolFinished) and event.result.status == "error"
            shows.show(event)
    except (CribError, OSError):
        raise
    except Exception:  # a door: a turn that began has shown its end, and the log has the rest
        log.exception("a turn failed unexpectedly")
        if end is None:
            click.echo("toolcrib: the turn failed unexpectedly; the log has the details", err=True)
    return end is not None and end.reason == "done" and not failures


async def _choose_session(ask: AskService, agent: str, key: str | None, *, last: bool) -> tuple[str, str]:
    """Return the session to go on with, "" for a new one, and a sentence when it begins though it was named."""
    if key is None and not last:
        return "", ""
    rows = (await ask("sessions.list", {"limit": 10_000}))["sessions"]
    if last:
        own = (row["key"] for row in rows if agent_from_key(row["key"]) == agent and not row["parents"])
        if (found := next(own, None)) is None:
            raise CribError(f"the agent {agent!r} has no session to go on with; leave --continue out to begin one")
        return str(found), ""
    keys, key = [row["key"] for row in rows], check_key(key or "")
    if key in keys:
        return key, ""
    near = nearest_session(key, keys)
    return key, f"there was no session {key!r}, so it begins here" + (f"; did you mean {near!r}?" if near else "")


class _CtrlC:
    """Stops what runs when Ctrl-C is pressed, and leaves at once when it is pressed again."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        self.stop: Callable[[], object] = task.cancel if task else self._loop.stop
        self.tell: Callable[[], object] = bool
        self.presses = 0

    def _press(self, number: int, frame: FrameType | None) -> None:
        self.presses += 1
        if self.presses > 1:
            # whatever is still being put away: commands end with us, and the next turn finds what was left open
            os._exit(EXIT_INTERRUPTED)
        self._loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        self.tell()
        self.stop()

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._press)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)


def _from_stdin() -> str:
    if sys.stdin is None:
        raise CribError("there is no stdin to read the message from; write it instead of `-`")
    if is_attended():
        click.echo("(type the message; Ctrl-D on an empty line ends it)", err=True)
    data = sys.stdin.buffer.read(_MESSAGE_BYTES + 1)
    if len(data) > _MESSAGE_BYTES:
        limit = f"{_MESSAGE_BYTES:,} bytes"
        raise CribError(f"the message on stdin is longer than {limit}; put it into a file and name that")
    return _check_message(data.decode(errors="surrogateescape"))


def _check_message(text: str) -> str:
    if not text.strip():
        raise CribError("the message is blank; say what is to be done")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise CribError(f"the message is not UTF-8 (character {error.start + 1}); write it as such") from None
    return text
