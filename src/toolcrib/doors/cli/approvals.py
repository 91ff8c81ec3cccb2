"""toolcrib approvals: questions that wait for a person, and what was granted; and the terminal as a place to ask."""

import asyncio
import logging
import os
import sys
import termios
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, Unpack

import click

from toolcrib.config.values import parse_length
from toolcrib.define.approval import Question, State
from toolcrib.define.caller import OWNER, Caller
from toolcrib.define.display import escape
from toolcrib.define.errors import CribError, ToolError
from toolcrib.services.approvals import QuestionListener
from toolcrib.threads import settle_future

from ._format import format_time, print_json, print_table
from ._options import CommandGroup, JsonOptions, ask_owner, parse_args

if TYPE_CHECKING:
    from toolcrib.client import GatewayClient

log = logging.getLogger("toolcrib")

_Ask = Callable[[str], Awaitable[str]]
Say = Callable[[str], None]

_CLOCK = "%Y-%m-%d %H:%M:%S"  # a question may wait for a day
_DEFAULT_DURATION = "10m"
_LINE_BYTES = 4096


@click.group("approvals", cls=CommandGroup)
def command() -> None:
    """Answer questions about calls, and see what was granted for longer."""


@command.declare("list", "approvals list --json")
def list_(**options: Unpack[JsonOptions]) -> None:
    """Show every call that waits for an answer, in full."""
    questions = ask_owner(options, "approvals.list", warn=True)
    if options["as_json"]:
        print_json({"questions": questions})
        return
    for question in questions:
        click.secho(f"{question['id']}  until {format_time(question['expiresAt'], _CLOCK)}", bold=True)
        click.echo(question["shown"])
        for index, shown in enumerate(question["lasting"]):
            click.echo(f"  --for TIME --which {index}: {shown}")
    if not questions:
        click.echo("nothing waits for an answer")


@command.declare("allow", "approvals allow 3f9c2a7b10de44c1 --for 10m --times 5")
@click.argument("id")
@click.option("--for", "length", metavar="TIME", help="Allow it for this long, like 30s, 10m or 2h, not just once.")
@click.option("--session", is_flag=True, help="Allow it as long as its session is there.")
@click.option("--times", default=0, help="Allow it so often at most, this call counted; by itself, within a day.")
@click.option("--which", default=0, show_default=True, help="What to allow for that time, as `list` numbers it.")
@click.option(
    "--when", metavar="JSON", help="Allow every call for that time that meets this, like the `when` of a rule."
)
def allow(
    id: str, length: str | None, session: bool, times: int, which: int, when: str | None, **options: Unpack[JsonOptions]
) -> int:
    """Say yes to the question with this ID: once, for a time, for so many calls, or for its session."""
    if session and length:
        raise CribError("--for and --session exclude each other; choose one")
    params: dict[str, Any] = {"id": id, "answer": "once"}
    if session or length or times or when:
        params |= {"answer": "lasting", "which": which, "calls": times}
        params |= {"when": parse_args(when)} if when else {}
        params |= {"answer": "session"} if session else {"seconds": seconds_from(length or "1d")}
    return _send_answer(options, params)


@command.declare("always", "approvals always 3f9c2a7b10de44c1 --save")
@click.argument("id")
@click.option("--save", is_flag=True, help="Write it to the configuration, and say yes to the call that waits.")
def always(id: str, save: bool, **options: Unpack[JsonOptions]) -> int:
    """Show what the configuration would have to say for the call of this question never to be asked about again."""
    proposal = ask_owner(options, "approvals.propose", {"id": id}, warn=True)
    print_json(proposal) if options["as_json"] else click.echo(proposal["diff"])
    if not save:
        how = "the whole file anew, as JSON without comments, and keeps the one of now beside it (.bak)"
        click.echo(f"nothing is changed; --save writes {how}", err=True)
        return 0
    ask_owner(options, "config.patch", {"raw": proposal["raw"], "baseHash": proposal["baseHash"]}, warn=True)
    ask_owner(options, "approvals.answer", {"id": id, "answer": "once"}, warn=True)
    click.echo("saved; the call that waits may run", err=True)
    return 0


@command.declare("deny", "approvals deny 3f9c2a7b10de44c1")
@click.argument("id")
def deny(id: str, **options: Unpack[JsonOptions]) -> int:
    """Say no to the question with this ID."""
    return _send_answer(options, {"id": id, "answer": "no"})


@command.declare("grants", "approvals grants")
def grants(**options: Unpack[JsonOptions]) -> None:
    """List what is allowed for longer than one call, how long, how often and by whom."""
    held = ask_owner(options, "approvals.grants", warn=True)
    if options["as_json"]:
        print_json({"grants": held})
    elif held:
        rows = [(g["id"], *_describe_term(g), g["by"], " ".join(g["shown"].split("\n"))) for g in held]
        print_table(("id", "until", "calls left", "by", "what"), rows)
    else:
        click.echo("nothing is granted")


@command.declare("revoke", "approvals revoke 81c0a4f25b7d9e36")
@click.argument("id")
def revoke(id: str, **options: Unpack[JsonOptions]) -> None:
    """Take back the grant with this ID."""
    gone = ask_owner(options, "approvals.revoke", {"id": id}, warn=True)
    print_json(gone) if options["as_json"] else click.echo(f"{id} is revoked")


def _describe_term(grant: Mapping[str, Any]) -> tuple[str, str]:
    """Return until when a grant holds, and for how many calls; a gateway of before may not say."""
    left = grant.get("callsLeft")
    until = f"the end of {grant['session']}" if grant.get("session") else format_time(grant["until"], _CLOCK)
    return until, "-" if left is None else str(left)


def seconds_from(text: str) -> int:
    """Return the seconds meant by `90`, `30s`, `10m`, `2h` or `1d`."""
    seconds = parse_length(text)
    if seconds is None:
        raise CribError(f"{text[:64]!r} is no length of time; write one like 30s, 10m or 2h")
    return seconds


def _send_answer(options: JsonOptions, params: Mapping[str, Any]) -> int:
    settled = ask_owner(options, "approvals.answer", params, warn=True)
    print_json(settled) if options["as_json"] else click.echo(f"{settled['tool']} is {settled['state']}")
    return 0


# the terminal as a door


class ApprovalPrompts(Protocol):
    """Where questions come from and answers go to: the approvals of a crib, or those of a gateway."""

    def on_question(self, listener: QuestionListener, /) -> Callable[[], None]: ...
    @property
    def answer(self) -> Callable[..., Awaitable[Any]]: ...


class RemoteApprovals:
    """The questions of a gateway, as far as they are for who is connected to it."""

    def __init__(self, gateway: "GatewayClient") -> None:
        self._gateway = gateway
        self._known: dict[str, Question] = {}

    def on_question(self, listener: QuestionListener) -> Callable[[], None]:
        """Tell of every question that waits or comes, and again when it is settled; returns what ends that."""
        listening = asyncio.ensure_future(self._listen(listener))

        def end() -> None:
            listening.cancel()

        return end

    async def answer(self, caller: Caller, id: str, answer: Any, **how: Any) -> Any:
        """Answer a question; the gateway knows by its own means who does."""
        return await self._gateway.ask("approvals.answer", {"id": id, "answer": answer, **how})

    async def _listen(self, listener: QuestionListener) -> None:
        events = self._gateway.events()  # before the first look, so that nothing falls between
        try:
            await self._look(listener)
            async for event, payload in events:
                if event == "exec.approval.resolved":
                    self._settle(
                        listener, payload["id"], "withdrawn" if payload["decision"] == "withdrawn" else "spent"
                    )
                elif event in ("exec.approval.requested", "reconnected"):
                    await self._look(listener)
        except CribError as error:  # who follows the turn hears of it, too
            log.warning("questions of the gateway are not asked here any more: %s", error)

    async def _look(self, listener: QuestionListener) -> None:
        waiting = {row["id"]: row for row in await self._gateway.ask("approvals.list")}
        for id in [id for id in self._known if id not in waiting]:
            self._settle(listener, id, "expired")
        for id, row in waiting.items():
            if id not in self._known:
                self._known[id] = Question.from_json(row)
                listener(self._known[id])

    def _settle(self, listener: QuestionListener, id: str, state: State) -> None:
        if question := self._known.pop(id, None):
            listener(replace(question, state=state))


@asynccontextmanager
async def ask_at_terminal(
    approvals: ApprovalPrompts, ask: _Ask | None = None, say: Say | None = None
) -> AsyncIterator[None]:
    """Attach this terminal: while it lasts, the person here is shown every question, one after another.

    `ask` shows a prompt and returns what was typed, `say` shows what needs no answer.
    """
    desk = _TerminalPrompter(approvals, ask or read_terminal_line, say or _say)
    detach = approvals.on_question(desk.hear)
    serving = asyncio.create_task(desk.serve())
    try:
        yield
    finally:
        detach()
        await _cancel_and_wait(serving)


class _TerminalPrompter:
    """Puts questions to the person at the terminal; what is settled elsewhere needs no answer here any more."""

    def __init__(self, approvals: ApprovalPrompts, ask: _Ask, say: Say) -> None:
        self._approvals, self._ask, self._say = approvals, ask, say
        self._line: asyncio.Queue[Question] = asyncio.Queue()
        self._settled: dict[str, asyncio.Future[State]] = {}  # the questions that were heard and not dealt with yet

    def hear(self, question: Question) -> None:
        """Take a question in, or take note that one is settled."""
        if question.state == "pending":
            self._settled[question.id] = asyncio.get_running_loop().create_future()
            self._line.put_nowait(question)
        elif settled := self._settled.get(question.id):
            settle_future(settled, question.state, None)

    async def serve(self) -> None:
        """Ask one question after another."""
        while True:
            question = await self._line.get()
            settled = self._settled[question.id]
            if not settled.done():
                await self._ask_one(question, settled)
            del self._settled[question.id]

    async def _ask_one(self, question: Question, settled: "asyncio.Future[State]") -> None:
        talk = asyncio.create_task(self._talk(question))
        either: list[asyncio.Future[Any]] = [talk, settled]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not talk.done():
                # a call that was stopped says so itself
                is_withdrawn = settled.result() == "withdrawn"
                self._say("" if is_withdrawn else f"\n{question.tool} needs no answer here any more")
        finally:
            await _cancel_and_wait(talk)

    async def _talk(self, question: Question) -> None:
        self._say(question.shown)
        try:
            answer = await self._ask_choice(question)
        except (OSError, EOFError) as error:
            self._say(f"nobody can be asked here any more ({error}), so the answer is no")
            answer = {"answer": "no"}
        try:
            await self._approvals.answer(OWNER, question.id, **answer)
        except ToolError as error:
            self._say(str(error))

    async def _ask_choice(self, question: Question) -> dict[str, Any]:
        """Return what the person says; whatever is no answer is asked about again."""
        words = "[y]es once, [s]ession, [t]ime, [n]o" if question.lasting else "[y]es once, [n]o"
        if not question.lasting:
            self._say(f"(only once: {question.once})")
        verb = "Change" if question.tool in ("write", "edit", "apply_patch") else "Run"
        while True:
            match (await self._ask(f"{verb} it? {words}: ")).strip().lower():
                case "y" | "yes":
                    return {"answer": "once"}
                case "t" | "time" | "s" | "session" as choice if question.lasting:
                    if (lasting := await self._ask_lasting(question, for_session=choice[0] == "s")) is not None:
                        return lasting
                case "" | "n" | "no":
                    return {"answer": "no"}
                case _:
                    self._say(f"answer with {words}")

    async def _ask_lasting(self, question: Question, *, for_session: bool) -> dict[str, Any] | None:
        which = 0
        if len(question.lasting) > 1:
            for number, each in enumerate(question.lasting, 1):
                self._say(f"  {number}  {each.shown}")
            reply = (await self._ask("For which? [1]: ")).strip() or "1"
            if not reply.isascii() or not reply.isdigit() or not 1 <= int(reply) <= len(question.lasting):
                self._say(f"{escape(reply[:64])} is none of these")
                return None
            which = int(reply) - 1
        if for_session:
            return {"answer": "session", "which": which}
        reply = (
            await self._ask(f"For how long, like 30s or 2h, or how often, like 5x? [{_DEFAULT_DURATION}]: ")
        ).strip()
        if (often := reply.lower().removesuffix("x")) != reply.lower() and often.isascii() and often.isdigit():
            return {"answer": "lasting", "seconds": seconds_from("1d"), "calls": int(often[:9]), "which": which}
        try:
            seconds = seconds_from(reply or _DEFAULT_DURATION)
        except CribError as error:
            self._say(str(error))
            return None
        return {"answer": "lasting", "seconds": seconds, "which": which}


def _say(text: str) -> None:
    click.echo(text, err=True)


async def _cancel_and_wait(task: "asyncio.Task[Any]") -> None:
    task.cancel()
    await asyncio.wait([task])  # not `await task`: its cancellation would look like our own, and ours like its
    if not task.cancelled() and (failure := task.exception()):
        raise failure


async def read_terminal_line(prompt: str) -> str:
    """Return the line that the person types after the prompt, "" at the end of input; the loop goes on meanwhile."""
    loop, fd = asyncio.get_running_loop(), sys.stdin.fileno()
    typed: asyncio.Future[None] = loop.create_future()
    termios.tcflush(fd, termios.TCIFLUSH)  # what was typed before is no answer to this
    click.echo(prompt, err=True, nl=False)
    loop.add_reader(fd, settle_future, typed, None, None)
    try:
        await typed
    finally:
        loop.remove_reader(fd)
    return os.read(fd, _LINE_BYTES).decode(errors="replace")
