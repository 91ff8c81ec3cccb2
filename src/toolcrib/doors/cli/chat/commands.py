"""The commands of the chat itself: lines that begin with a slash."""

import asyncio
import os
import textwrap
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Literal

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from toolcrib.config.settings import ExecSettings
from toolcrib.define.display import escape
from toolcrib.define.errors import CribError, ToolError
from toolcrib.define.names import nearest
from toolcrib.define.session import check_key
from toolcrib.define.verdict import Decision, Verdict
from toolcrib.doors.cli._format import Style, flatten
from toolcrib.doors.cli._options import require_tool
from toolcrib.doors.cli._talk import AskedTurn
from toolcrib.policy.explain import explain_sentence

from .screen import ChatScreen
from .session import ChatSession
from .undo import Undo

HELP = {
    "tools": ("", "which tools you have, which are asked about or denied, and why"),
    "why": ("TOOL [LINE]", "why a tool is allowed, asked about or denied; for exec, a command line"),
    "model": ("[NAME]", "which model answers, or let another one"),
    "agent": ("[ID]", "which agent this is, or talk to another one"),
    "session": ("[KEY]", "which session this is and what it took, or go on with another one"),
    "status": ("", "model, session, configuration, tools and where commands run, at a glance"),
    "new": ("", "begin a new session"),
    "image": ("FILE", "show a picture with your next message"),
    "undo": ("", "take back the last change of files by write, edit or apply_patch"),
    "stop": ("", "stop the turn that runs (or press Ctrl-C)"),
    "help": ("", "this list"),
    "quit": ("", "leave (or press Ctrl-D); the session is kept"),
}
_KEY_HELP = (
    "Enter sends; Alt-Enter, or a backslash at the end of a line, begins another line; Tab completes commands and "
    "paths; Up brings back what you typed before. What you type while a turn runs is heard by it. Ctrl-C stops the "
    "turn, and leaves when pressed again. A message may begin with a blank and a slash."
)
_STYLES: dict[Decision, Style] = {"allow": "good", "ask": "ask", "deny": "bad"}
_LINES = {"allow": "would run", "ask": "would be asked about", "deny": "would never run"}
_MODEL_KEY_HELP = "OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY connects one, /model ollama:qwen3 a local one"
_IDLE_ONLY, _IDLE_ONLY_WITH_WORD = ("new", "undo"), ("agent", "session")  # not while a turn runs
_WORDS: dict[Decision, str] = {"allow": "yours", "ask": "asked about", "deny": "denied"}

After = Literal["go on", "leave", "switched"]
_Command = Callable[[str], Awaitable[After | None]]


class ChatCommands:
    """Carries out commands; `turn` returns the turn that runs."""

    def __init__(
        self, chat: ChatSession, screen: ChatScreen, undo: Undo | None, turn: Callable[[], AskedTurn | None]
    ) -> None:
        self._chat, self._screen, self._undo, self._turn = chat, screen, undo, turn
        self._known: dict[str, _Command] = {
            "tools": self._tools, "why": self._why, "model": self._model, "agent": self._agent, "new": self._new,
            "session": self._session, "undo": self._undo_change, "stop": self._stop_turn, "help": self._help,
            "quit": self._quit, "exit": self._quit, "status": self._status, "image": self._image,
        }  # fmt: skip

    async def run(self, line: str) -> After:
        """Carry out a line that begins with a slash; what is wrong with it is a CribError."""
        name, _, rest = line[1:].partition(" ")
        name = name.lower() or "help"
        command = self._known.get(name)
        if command is None:
            near = nearest(name[:64], list(self._known))
            hint = f"did you mean /{near[0]}?" if near else "/help shows what there is"
            raise CribError(f"there is no command /{escape(name[:64])}; {hint}")
        if self._turn() and (name in _IDLE_ONLY or (name in _IDLE_ONLY_WITH_WORD and rest.strip())):
            raise CribError(f"a turn runs; /stop ends it, and then /{name} can be done")
        return await command(rest.strip()) or "go on"

    async def _tools(self, rest: str) -> None:
        rows = (await self._chat.verdicts())["tools"]
        built = {tool["name"] for tool in (await self._chat.ask_owner("tools.registered", {}))["tools"] if tool["runs"]}
        for decision, style in _STYLES.items():
            found = [row for row in rows if row["decision"] == decision]
            if not found:
                continue
            if decision == "allow":
                runs = [row["tool"] for row in found if row["tool"] in built]
                later = [row["tool"] for row in found if row["tool"] not in built]
                self._say_names(f"{_WORDS[decision]} ({len(runs)})", runs, style)
                self._say_names(f"yours as soon as they are built ({len(later)})", later, "dim")
            else:
                self._screen.say(f"{_WORDS[decision]} ({len(found)})", style)
                for row in found:
                    because = f"{row['tool']}: {row['reason']}"
                    self._screen.put(self._screen.formatter.remark(because, indent=2, max_lines=2))
        self._screen.say("/why TOOL says more about one of them", "dim")

    def _say_names(self, head: str, names: Sequence[str], style: Style) -> None:
        formatter = self._screen.formatter
        if names:
            self._screen.say(head, style)
            wrapped = textwrap.wrap(", ".join(names), formatter.width - 3, break_on_hyphens=False)
            self._screen.put(formatter.lines(wrapped, indent=2))

    async def _image(self, rest: str) -> None:
        if not rest:
            raise CribError("say which file it is, like /image photo.jpg")
        await asyncio.to_thread(self._chat.attach, rest)
        self._screen.say(f"{flatten(rest)} goes with your next message.", "dim")

    async def _why(self, rest: str) -> None:
        name, _, line = rest.partition(" ")
        if not name:
            raise CribError("say which tool it is about, like /why exec")
        formatter, known = self._screen.formatter, [row["tool"] for row in (await self._chat.verdicts())["tools"]]
        report = await self._chat.verdicts(require_tool(name, known))
        verdict = Verdict(**{each.name: report[each.name] for each in fields(Verdict)})
        self._screen.say(f"{explain_sentence(verdict)}.", _STYLES[verdict.decision])
        steps = [step for step in report["steps"] if step["rule"] or step["decision"] != "allow"]
        for step in steps:
            rule = f"{step['rule']!r} in " if step["rule"] else ""
            where = f"{rule}{step['origin'] or 'no list'}"
            self._screen.put(formatter.remark(f"{step['layer']}: {step['decision']}, {where}", "dim", indent=2))
        if not steps:
            self._screen.put(formatter.remark("no layer says anything about it", "dim", indent=2))
        if verdict.tool == "exec" and verdict.decision != "deny":
            if line.strip():
                await self._why_line(line.strip())
            else:
                self._screen.say("Each command line is judged by itself: /why exec git push says how.", "dim")

    async def _why_line(self, line: str) -> None:
        tried = {"tool": "exec", "args": {"command": line}, "sessionKey": self._chat.session, "dryRun": True}
        judged = (await self._chat.ask("tools.call", tried))["verdict"]
        self._screen.say(f"{line} {_LINES[judged['decision']]}: {judged['reason']}.", _STYLES[judged["decision"]])

    async def _model(self, rest: str) -> None:
        if rest:
            await self._chat.switch_model(rest)
            self._screen.say(f"{await self._chat.model()} answers from your next message on, in this chat.")
            return
        self._screen.say(f"{await self._chat.model()} answers.")
        others = _others(self._chat.models, await self._chat.model())
        self._screen.say(f"Others: {others or f'none yet; {_MODEL_KEY_HELP}'}", "dim")
        self._screen.say("/model PROVIDER:MODEL lets another one answer, /model default the configured one.", "dim")

    async def _agent(self, rest: str) -> After | None:
        if rest:
            await self._chat.switch_agent(rest)
            return "switched"
        self._screen.say(f"This is the agent {self._chat.agent}.")
        others = _others(self._chat.agents, self._chat.agent)
        self._screen.say(f"Others: {others or 'none; the section agents of the configuration makes some'}", "dim")
        return None

    async def _session(self, rest: str) -> After | None:
        chat = self._chat
        try:
            status = await chat.ask_owner("sessions.status", {"key": check_key(rest or chat.session)})
        except ToolError as error:
            if error.code != "not_found":
                raise
            status = None
        if rest:
            if status is None:
                raise CribError(f"there is no session {rest[:200]!r}; `toolcrib sessions list` shows what there is")
            await chat.switch_session(rest)
            return "switched"
        self._screen.say(f"This is the session {chat.session}.")
        if status is None:
            self._screen.say("It has no messages yet.", "dim")
            return None
        cost = f", ${status['cost']:.4f}" if status["cost"] else ""
        tokens = f"{status['input'] + status['output']:,} tokens{cost}"
        self._screen.say(f"{status['messages']} messages, {tokens}, answered by {await chat.model()}.", "dim")
        self._screen.say(f"From elsewhere: toolcrib chat --session {chat.session}", "dim")
        return None

    async def _status(self, rest: str) -> None:
        chat, answer = self._chat, await self._chat.ask_owner("config.get", {})
        commands = ExecSettings.model_validate(answer["config"].get("tools", {}).get("exec", {}))
        verdicts = [row["decision"] for row in (await chat.verdicts())["tools"]]
        self._screen.say(
            f"{chat.agent}, answered by {await chat.model()}; {'a turn' if self._turn() else 'nothing'} runs"
        )
        for line in (
            f"folder: {chat.folder}",
            f"configuration: {answer['path'] or 'none, every setting is a default'}",
            f"tools: {', '.join(f'{verdicts.count(each)} {words}' for each, words in _WORDS.items())} (/tools, /why)",
            f"commands: {commands.host}, {commands.security}, ask {commands.ask}",
        ):
            self._screen.put(self._screen.formatter.remark(line, "dim", indent=2))
        await self._session("")

    async def _new(self, rest: str) -> After:
        await self._chat.open(anew=True)
        return "switched"

    async def _undo_change(self, rest: str) -> None:
        if self._undo is None:
            raise CribError("files are changed by the gateway, and can be taken back only where a chat runs without it")
        self._screen.say(f"Undone: {await self._undo.undo()}.", "good")

    async def _stop_turn(self, rest: str) -> None:
        if turn := self._turn():
            turn.stop()
        else:
            self._screen.say("Nothing runs.", "dim")

    async def _help(self, rest: str) -> None:
        formatter = self._screen.formatter
        for name, (takes, words) in HELP.items():
            head = f"/{name} {takes}".ljust(20)
            wrapped = textwrap.wrap(words, formatter.width - 24)
            rows = [f"  {formatter.style(head, 'bold')}{wrapped[0]}", *(f"{' ' * 22}{line}" for line in wrapped[1:])]
            self._screen.put("".join(f"{row}\n" for row in rows))
        self._screen.say(_KEY_HELP, "dim")

    async def _quit(self, rest: str) -> After:
        return "leave"


def _others(all: Sequence[str], this: str) -> str:
    return ", ".join(flatten(each) for each in all if each != this)


_MAX_PATHS = 200  # paths that are offered

_Words = Callable[[], Sequence[str]]


class ChatCompleter(Completer):
    """Completes `/` at the beginning of a line to commands, behind one to what it takes, any other word to a path."""

    def __init__(self, commands: Mapping[str, _Words], folder: Path) -> None:
        self._commands, self._folder = commands, folder

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Give what the word before the cursor may become."""
        before = document.text_before_cursor
        word = before.rpartition(" ")[2].rpartition("\n")[2]
        if before.startswith("/") and "\n" not in before:
            name, blank, rest = before.partition(" ")
            if not blank:
                yield from _matching(word, (f"/{each}" for each in self._commands))
                return
            if " " not in rest and name != "/image":
                yield from _matching(word, self._commands.get(name[1:], tuple)())
                return
        yield from self._paths(word)

    def _paths(self, word: str) -> Iterable[Completion]:
        if not word:
            return
        folder, _, start = word.rpartition("/")
        within = Path(os.path.expanduser(folder)) if folder else Path("/") if word.startswith("/") else Path()  # noqa: PTH111  Path's own raises for a user who is not there
        try:
            with os.scandir(self._folder / within) as entries:
                names = [
                    f"{entry.name}/" if entry.is_dir() else entry.name
                    for entry in entries
                    if entry.name.startswith(start) and entry.name.isprintable()
                ]
        except OSError:
            return  # there is no such folder, or none we may look into
        shown = (name for name in sorted(names) if start.startswith(".") or not name.startswith("."))
        for name, _ in zip(shown, range(_MAX_PATHS), strict=False):
            yield Completion(name, start_position=-len(start))


def _matching(word: str, words: Iterable[str]) -> Iterable[Completion]:
    return (Completion(each, start_position=-len(word)) for each in words if each.startswith(word))
