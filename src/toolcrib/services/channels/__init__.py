"""Channels: the services on which people write to the assistant, each kept at work, and what goes out through them."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import PurePath
from secrets import token_hex
from typing import Annotated, Any

from pydantic import Field

from toolcrib.config.channels import list_abilities
from toolcrib.define.approval import Question
from toolcrib.define.caller import OWNER, Caller
from toolcrib.define.channel import (
    Abilities,
    Channel,
    ChannelKind,
    InboundAnswer,
    InboundRequest,
    MessageStore,
    Post,
    Receiver,
)
from toolcrib.define.display import quote_short
from toolcrib.define.errors import ToolError
from toolcrib.define.names import fold_name
from toolcrib.define.ports import Workspace, rpc, work_of
from toolcrib.services.approvals import Approvals
from toolcrib.services.feature import Feature, TurnCore
from toolcrib.services.revocation import CHANNEL_DOOR, Revocations
from toolcrib.services.voice import OpenWorkspaces, Voice

from .actions import ChannelActions
from .admission import Admission
from .asking import ChatQuestions
from .inbox import FileIntake
from .login import ChannelLogins
from .outbox import Outbox
from .responder import ChannelResponder, split_text
from .targets import CurrentChat, check_context
from .webchat import WEBCHAT, WebchatChannel
from .worker import ChannelWorker, wait_until_sent

log = logging.getLogger("toolcrib")

ChannelName = Annotated[str, Field(min_length=1, max_length=64)]

MAX_POSTS = 20  # that say one thing
_CLOSE_SECONDS = 5.0
_OWNERS_ACTIONS = ("channel-list", "thread-list")  # they name chats that not everybody is in
_CHAT_KEYS = ("channelId", "channelIds", "guildId", "threadId")  # parameters that may lead out of a chat
_NOTHING: Mapping[str, Any] = {}


def mount(core: TurnCore, *, workspaces: Callable[[], OpenWorkspaces]) -> Feature:
    """Mount the channels that the configuration names."""
    opened = workspaces()

    def open_workspace(caller: Caller) -> Workspace:
        return opened.open(core.terms_of(caller), caller.session or "")

    inbox = FileIntake(
        open_workspace, core.find(Voice).hear, lambda: core.config.media.max_mb,
        lambda caller: str(core.terms_of(caller).inbox),
    )  # fmt: skip
    service = Channels(core, core.stores.messages, core.channel_kinds, inbox)

    async def close() -> None:
        await service.close()
        opened.close()

    desk = ChannelActions(service)
    core.find(Approvals).answerers.refuse = desk.refuse_elsewhere
    return Feature(services=(service, desk, ChannelLogins(core, service)), close=close)


class Channels:
    """The channels of one crib. They work while a gateway runs: `open` starts them."""

    def __init__(
        self, core: TurnCore, store: MessageStore, kinds: Mapping[str, ChannelKind], inbox: FileIntake
    ) -> None:
        self.core, self.store, self._kinds, self.outbox = core, store, kinds, Outbox(core.state)
        self.admission, self._revocations = (
            Admission(core.settings, store, core.stores.sessions, lambda who: core.view_of(None).explain_refusal(who)),
            core.find(Revocations),
        )
        self._revocations.add_door(CHANNEL_DOOR, self.admission.explain_refusal)
        self._lines: dict[str, ChannelWorker] = {}
        questions = ChatQuestions(
            core.find(Approvals), store, self.admission.explain_refusal, self._lines, self._run_beside
        )
        self.talk = ChannelResponder(core, questions, self.admission, inbox)
        self._problems: dict[str, str] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._detach: Callable[[], None] | None = None
        self._off = set[str]()  # what was ended because it was switched off
        self._is_open = False

    def list_missing(self) -> dict[str, str]:
        """Return the channels that nothing brings and that are connected, or all but called as one is: that, or ""."""
        found = dict[str, str]()
        for name, each in self.core.config.channels.items():
            near = "".join(get_close_matches(fold_name(name), self._kinds, 1, 0.8))  # `web` is a program's own word
            if each.enabled and name not in self._kinds and (each.connects or near not in ("", fold_name(name))):
                found[name] = near
        return found

    async def open(self) -> None:
        """Start what the configuration names."""
        self._is_open = True
        self.talk.places |= await self.store.places()
        names = self.core.config.channels
        waiting = {kept.post.media for name in (*names, WEBCHAT) for kept in await self.store.outgoing(name)}
        await self.outbox.sweep(waiting)
        for name, settings in names.items():
            if settings.enabled and settings.connects:
                self.start(name)
        if await self.store.outgoing(WEBCHAT):
            self.start(WEBCHAT)
        approvals = self.core.find(Approvals)
        self._detach = approvals.on_question(self._show_question)
        approvals.answerers.list_reached = self.talk.questions.list_reached

    def start(self, name: str) -> None:
        """Start a configured channel; `status` reports what is wrong with it."""
        try:
            channel = self.make(name)
        except ToolError as error:
            self._problems[name] = str(error)
            log.warning("channels.%s: %s", name, error)
            return
        answer, urgent = partial(self.talk.answer, name, channel), self.talk.is_command
        line = ChannelWorker(
            name, channel, self.store, answer, is_urgent=urgent, release=self.outbox.drop,
            find_principal=partial(self.admission.find_principal, name),
        )  # fmt: skip
        self._lines[name] = line
        self._tasks[name] = asyncio.create_task(self._keep_going(line))

    async def stop(self, name: str) -> bool:
        """End a channel; False where it is not at work."""
        line, task = self._lines.pop(name, None), self._tasks.pop(name, None)
        if line is None or task is None:
            return False
        await _end(line, task)
        return True

    def follow_settings(self) -> None:
        """End a channel that the configuration has switched off, and start it again where it is on."""
        written = self.core.config.channels
        on = {name for name, each in written.items() if each.enabled and each.connects}
        for name in [each for each in self._lines if each not in (WEBCHAT, *on)]:
            self._off.add(name)
            ending = _end(self._lines.pop(name), self._tasks.pop(name))
            self._tasks[f"end {name}"] = asyncio.get_running_loop().create_task(ending)
        for name in self._off & on if self._is_open else ():
            self._off.discard(name)
            self.start(name)

    @property
    def lines(self) -> tuple[ChannelWorker, ...]:
        """The channels that are at work."""
        return tuple(self._lines.values())

    def lines_for(self, caller: Caller) -> tuple[ChannelWorker, ...]:
        """Return the channels at work on which a caller may say something: a guest's own, unless more is permitted."""
        is_all = self.core.is_owner(caller) or self.core.config.tools.message.cross_context.allow_across_providers
        return tuple(line for line in self.lines if is_all or line.name == caller.channel)

    @property
    def is_open(self) -> bool:
        """Whether a gateway runs, so that channels work."""
        return self._is_open

    async def receive(self, name: str, request: InboundRequest) -> InboundAnswer | None:
        """Hand a request to the channel that it is for; None where no channel at work takes any."""
        line = self._lines.get(name)
        return await line.channel.receive(request) if line and isinstance(line.channel, Receiver) else None

    async def close(self) -> None:
        """End every channel."""
        self._is_open = False
        if self._detach is not None:
            self._detach()
        tasks, self._tasks = list(self._tasks.values()), {}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSE_SECONDS)
        for line in self._lines.values():
            await line.channel.close()
        self._lines.clear()

    @rpc("channels.status", clients="read", why="own")
    async def status(self, caller: Caller = OWNER) -> dict[str, Any]:
        """Tell how every channel of the configuration stands; to a guest, whether the one they write on works."""
        rows = list[dict[str, Any]]()
        for name, settings in self.core.config.channels.items():
            line = self._lines.get(name)
            if not self.core.is_owner(caller):
                if name == caller.channel:
                    rows.append({"channel": name, "state": line.to_json()["state"] if line else "off"})
                continue
            row = line.to_json() if line else {"channel": name, "state": "off" if not settings.enabled else "stopped"}
            if settings.enabled and not settings.connects:
                row["problem"] = f"nothing says how to reach it; there are {', '.join(self._kinds)} (docs/channels.md)"
            if name in self._problems:
                row |= {"state": "failed", "problem": self._problems[name]}
            waiting = self.talk.list_invitations(name)
            rows.append({**row, "dmPolicy": settings.dm_policy, **({"invitations": waiting} if waiting else {})})
        return {"channels": rows}

    @rpc("channels.people", clients="pair")
    async def people(self) -> dict[str, Any]:
        """List who was let in by a code, and who waits with one."""
        return {"people": await self.admission.list_people()}

    @rpc("channels.pair", clients="pair")
    async def pair(self, code: ChannelName) -> dict[str, Any]:
        """Admit the sender who was given this code."""
        known = await self.admission.admit(code)
        if (line := self._lines.get(known.channel)) is not None:
            if line.channel.abilities.invitations:
                await line.channel.act("join", known.chat, {})
                self.talk.invitations.pop((known.channel, known.chat), None)
            await self._say(known.channel, Post(chat=known.chat, text="You are let in now. Say what is to be done."))
        return {"channel": known.channel, "sender": known.sender, "name": known.name}

    @rpc("channels.unpair", clients="pair")
    async def unpair(self, channel: ChannelName, sender: Annotated[str, Field(max_length=256)]) -> dict[str, Any]:
        """Let somebody in no more; what goes on for them ends."""
        await self.admission.revoke(channel, sender)
        await self._revocations.review()
        return {"channel": channel, "sender": sender}

    @rpc(
        "send",
        clients="write",
        as_tool=work_of("message", {"to": "target", "media": "filename"}, by_hand=True, action="send"),
    )
    async def send(  # noqa: PLR0913  as the protocol spells it
        self,
        caller: Caller,
        to: Annotated[str, Field(min_length=1, max_length=1_024)],
        message: Annotated[str, Field(min_length=1, max_length=100_000)],
        idempotencyKey: Annotated[str, Field(max_length=256)] = "",  # noqa: N803  as the protocol spells it
        channel: str = "",
        threadId: str = "",  # noqa: N803
        replyTo: str = "",  # noqa: N803
        media: str = "",
    ) -> dict[str, Any]:
        """Send a message to a chat; the same key again sends nothing twice. `media` is a file of the outbox."""
        line = self.find_line(channel, caller)
        self.check_reach(caller, "send", line, to)
        pieces = split_text(message, line.channel.abilities.longest)
        posts = [Post(chat=to, text=piece, thread=threadId, reply_to=replyTo) for piece in pieces]
        if media:
            file = self.outbox.check(media)
            posts.append(Post(chat=to, thread=threadId, media=file, filename=PurePath(file).name))
        return await self.say(line, f"send-{idempotencyKey or token_hex(12)}", posts)

    async def say(self, line: ChannelWorker, key: str, posts: Sequence[Post]) -> dict[str, Any]:
        """Send posts to one chat, once for a key, and return the state of the last; ToolError where one failed."""
        if len(posts) > MAX_POSTS:
            raise ToolError(f"that takes {len(posts)} messages, and {MAX_POSTS} is the most", code="too_large")
        await self.store.say(line.name, key, posts)
        line.wake()
        state, detail = await wait_until_sent(self.store, line.name, key)
        if state in ("failed", "uncertain"):
            why = "was refused" if state == "failed" else "may or may not have arrived"
            raise ToolError(f"the message {why}: {detail}", code="failed" if state == "failed" else "uncertain")
        return {"channel": line.name, "to": posts[0].chat, "status": state, "messageId": detail}

    def check_reach(
        self, caller: Caller, action: str, line: ChannelWorker, to: str, params: Mapping[str, Any] = _NOTHING
    ) -> bool:
        """Return whether an action goes to another chat than the caller's own; raise ToolError where it must not."""
        place, rules = self.talk.find_place(caller), self.core.config.tools.message
        current = None if place is None else CurrentChat(place.channel, place.chat)
        if not (is_owner := self.core.is_owner(caller)):
            own = (None, "", place.chat, place.thread) if place else (None, "")
            if place is None or action in _OWNERS_ACTIONS or any(params.get(name) not in own for name in _CHAT_KEYS):
                raise ToolError("only the owner reaches other chats than the one that you are in", code="denied")
        return check_context(action, line.name, to, current, rules, owner=is_owner)

    def abilities_of(self, line: ChannelWorker) -> Abilities:
        """Return what a channel can do, without what is switched off."""
        config = self.core.config
        is_on = config.tools.message.broadcast.enabled
        return list_abilities(config.channels, self._kinds, broadcasts=is_on).get(line.name, line.channel.abilities)

    def find_line(self, channel: str, caller: Caller = OWNER) -> ChannelWorker:
        """Return the channel by name, or the only one. An error lists the channels that the caller may use."""
        named = [line for name, line in self._lines.items() if name != WEBCHAT]
        if not channel and len(named) == 1:
            return named[0]
        if channel == WEBCHAT and WEBCHAT not in self._lines and self._is_open:
            self.start(WEBCHAT)
        if (line := self._lines.get(channel)) is not None:
            return line
        what = f"no channel {quote_short(channel)} is at work" if channel else "name the channel"
        if self._lines or not self.core.is_owner(caller):
            known = ", ".join(line.name for line in self.lines_for(caller))
            raise ToolError(f"{what}; there are: {known}" if known else what, code="not_found")
        written = [name for name, each in self.core.config.channels.items() if each.enabled and each.connects]
        step = "" if written else "write one under channels (docs/channels.md), and "
        whom = f", which connects {', '.join(written)}" if written else ""
        raise ToolError(f"no channel is at work here; {step}start `toolcrib gateway`{whom}", code="unavailable")

    def make(self, name: str) -> Channel:
        """Return a new channel as the configuration says; ToolError in one sentence where it cannot be made."""
        if name == WEBCHAT:
            return WebchatChannel(self.core)
        kind, settings = self._kinds.get(name), self.core.config.channels.get(name)
        if kind is None:
            raise ToolError(f"there is no channel {quote_short(name)}; there are {', '.join(self._kinds)}")
        if settings is None or not settings.connects:
            raise ToolError(f"nothing says how to reach {name}: write channels.{name} (docs/channels.md)")
        return kind.make(settings, self.core.way_out)

    async def _keep_going(self, line: ChannelWorker) -> None:
        while True:
            try:
                await line.run()
            except* Exception:  # the store was full or busy; what was acknowledged is in it
                log.exception("channel %s stopped; it is started again", line.name)
                await asyncio.sleep(1.0)

    async def _say(self, channel: str, post: Post) -> None:
        await self.store.say(channel, f"own-{token_hex(12)}", (post,))
        self._lines[channel].wake()

    def _show_question(self, question: Question) -> None:
        if question.asker and (place := self.talk.find_place(question.asker)) and place.channel in self._lines:
            self._lines[place.channel].give_back(place.chat, place.thread)
        if question.state == "pending":
            self._run_beside(self.talk.questions.ask(question, self.talk.find_origin(question)))

    def _run_beside(self, asking: Coroutine[Any, Any, None]) -> None:
        name = f"ask {token_hex(4)}"
        self._tasks[name] = task = asyncio.create_task(asking)
        task.add_done_callback(lambda _: self._tasks.pop(name, None))


async def _end(line: ChannelWorker, task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait((task,), timeout=_CLOSE_SECONDS)
    await line.channel.close()
