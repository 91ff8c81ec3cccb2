"""toolcrib chat: a talk at the terminal, with tools; kept, so that it can go on."""

import contextlib
import os
import sys
from pathlib import Path
from typing import Unpack

import click

from toolcrib.define.errors import CribError
from toolcrib.doors.cli._format import Formatter, columns
from toolcrib.doors.cli._log import state_folder
from toolcrib.doors.cli._loop import run_loop
from toolcrib.doors.cli._options import (
    CallerOptions,
    caller_options,
    config_options,
    gateway_options,
    headed_option,
)
from toolcrib.doors.cli._talk import Talk

from .commands import HELP, ChatCompleter
from .loop import ChatLoop
from .session import ChatSession, SessionLock
from .terminal import PlainTerminal, PromptTerminal

_EXAMPLES = """\b
Examples:
  toolcrib chat
  toolcrib chat --new
  toolcrib chat --agent docs --model openai:gpt-5
  toolcrib chat --session agent:main:run:3f9c2a7b10de
  toolcrib chat --plain
  toolcrib chat --gateway ws://127.0.0.1:18789 --token-file token
  printf 'list the files\\n' | toolcrib chat --new
"""

_TRIES = 20  # to reach a gateway again that was lost: about five minutes


@click.command("chat", epilog=_EXAMPLES)
@config_options
@gateway_options
@caller_options
@click.option("--new", "anew", is_flag=True, help="Begin a new session.")
@click.option("--plain", is_flag=True, help="Lines only: no colours, and the cursor never moves back.")
@headed_option
def command(anew: bool, plain: bool, headed: bool, **options: Unpack[CallerOptions]) -> int:
    """Talk at the terminal, with the tools you may use.

    It goes on with the latest chat of the agent in this folder. Without a model's key the offline model answers, which
    knows six verbs. `/help` lists the commands of the chat itself.
    """
    if anew and options["session"]:
        raise CribError("--new and --session both say which session it is; leave one of them out")
    return run_loop(_run_chat(Talk(options, _TRIES, headed=headed), options["model"], anew=anew, plain=plain))


async def _run_chat(talk: Talk, model: str | None, *, anew: bool, plain: bool) -> int:
    has_terminal = all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))
    plain = plain or not has_terminal or os.environ.get("TERM", "dumb") in ("", "dumb", "unknown")
    colour = not plain and not os.environ.get("NO_COLOR")
    async with talk:
        with contextlib.closing(SessionLock(state_folder() / "chats.lock")) as lock:
            chat = ChatSession(talk.ask, talk.caller, Path.cwd(), model, lock)
            loop = ChatLoop(chat, talk, at_terminal=has_terminal)
            surface = PlainTerminal() if plain else _terminal(chat, loop, colour=colour)
            return await loop.run(surface, Formatter(columns, plain=plain, colour=colour), anew=anew)


def _terminal(chat: ChatSession, loop: ChatLoop, *, colour: bool) -> PromptTerminal:
    takes = {"why": lambda: chat.tools, "model": lambda: (*chat.models, "default"), "agent": lambda: chat.agents}
    completer = ChatCompleter({name: takes.get(name, tuple) for name in HELP}, chat.folder)
    history = state_folder() / "chat_history"
    return PromptTerminal(
        history=history, completer=completer, live=loop.live_lines, stop=loop.interrupt, colour=colour
    )
