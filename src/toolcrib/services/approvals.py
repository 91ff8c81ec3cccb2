"""Approvals: ask a human about one call, wait, spend the answer once, remember what was granted for longer."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from secrets import token_hex
from typing import Annotated, Any, Literal, TypeVar

from toolcrib.define import approval
from toolcrib.define.caller import Caller
from toolcrib.define.display import escape, quote
from toolcrib.define.errors import ArgumentError, ToolError, make_unasked_error
from toolcrib.define.message import Call
from toolcrib.define.ports import rpc
from toolcrib.define.record import Answered, Granted, Record, RecordEntry, Revoked
from toolcrib.define.schema.annotations import JsonObject
from toolcrib.define.tool import Tool
from toolcrib.lazy import dataclass, field, replace
from toolcrib.policy.settings import PolicySettings

from .answerers import Answerers, explain_late_answer, explain_once, spell_always
from .feature import Core, Feature
from .grants import CONFIGURATION, GrantOption, check_condition, find_always, lend_when, list_standing, pick_option
from .mcp import ServerTools
from .members import Members

log = logging.getLogger("toolcrib")

QuestionListener = Callable[[approval.Question], None]
Lend = Callable[[Call, Mapping[str, str]], str | None]

T = TypeVar("T")

_MAX_TRIES = 8
_ALLOWED: tuple[approval.State, ...] = ("allowed",)
_OPEN: tuple[approval.State, ...] = ("pending", "allowed")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalTerms:
    """What questions and grants are bound by.

    `waits` asks also where no door is attached, for whoever looks at the store from elsewhere. `look` is how often that
    store is looked at for answers given in another process. `timeout` is what somebody has set instead of `seconds`.
    `always` names the entry of the configuration that answers for a call, "" where none does; `standing` gives all of
    them that are about a caller as grants. `check` raises ArgumentError where a condition is none for a tool;
    `source_of` says where the tool of a name is from, `policy` who is who now. `members` share the store.
    """

    seconds: float = 300.0
    timeout: Callable[[], float | None] = lambda: None
    policy: Callable[[], PolicySettings] = PolicySettings
    longest_grant: float = 86_400.0
    most_calls: int = 1000
    always: Callable[[Caller, Call], str] = lambda caller, call: ""
    standing: Callable[[Caller], Sequence[approval.Grant]] = lambda caller: ()
    check: Callable[[str, str], None] = lambda tool, when: None
    source_of: Callable[[str], str] = lambda tool: ""
    most: int = 64
    largest: int = 1 << 18
    waits: bool = False
    look: float = 0.5
    members: Members = field(default_factory=Members)


def mount(core: Core) -> Feature:
    """Mount the questions to people, kept in the user's state folder; nothing there is touched before one is asked."""

    def find_tool(name: str) -> Tool | None:
        found = core.tools.get(name)
        return found or next((each for each in core.find(ServerTools).tools() if each.name == name), None)

    def lend(call: Call, binding: Mapping[str, str]) -> str | None:
        tool = find_tool(call.name)
        # a server runs what it runs: with the same arguments, the same; what we run is what is to be asked about
        is_ours = tool is not None and not tool.source.startswith("mcp:")
        # and so is a job: what it brings about later may be anything, and another thing tomorrow
        runs = tool is None or (is_ours and ("execute" in tool.effects or tool.group == "automation"))
        return f"{call.name} can run something else, so every call is asked about" if runs else None

    stores = core.stores
    terms = ApprovalTerms(
        timeout=lambda: core.config.approvals.timeout_sec,
        policy=lambda: core.policy,
        always=partial(find_always, core),
        standing=lambda caller: list(list_standing(core, caller)),
        check=lambda name, when: check_condition(find_tool(name), name, when),
        source_of=lambda name: found.source if (found := find_tool(name)) else "",
        members=stores.members,
    )
    owner, redact = core.is_owner, core.redact or str
    service = Approvals(
        stores.approvals, is_owner=owner, can_lend=lend, terms=terms, record=stores.record, redact=redact
    )
    core.session_ends.append(service.end_session)
    return Feature(services=(service,))


async def _pause(event: asyncio.Event, seconds: float) -> None:
    """Wait for the event, and no longer than so many seconds."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return


class Approvals:
    """The Approver that every door shares: any of them may show a question, whoever is right may answer it.

    `can_lend` says why a call must not get a lasting yes, None when it may: nothing that can run something else may.
    Every answer that is used, and every grant, is written to the `record`.
    """

    def __init__(  # noqa: PLR0913  each by name, and nearly all have a default
        self,
        store: approval.ApprovalStore,
        *,
        is_owner: Callable[[Caller], bool],
        can_lend: Lend,
        terms: ApprovalTerms | None = None,
        now: Callable[[], float] = time.time,
        pause: Callable[[asyncio.Event, float], Awaitable[None]] = _pause,
        record: Record | None = None,
        redact: Callable[[str], str] = str,
    ) -> None:
        self._redact = redact
        self._store, self._is_owner, self._can_lend = store, is_owner, can_lend
        self.answerers = Answerers((terms or ApprovalTerms()).policy, is_owner)
        self.person_of, self.may_refuse = self.answerers.person_of, self.answerers.may_refuse
        self._terms, self._now, self._pause, self._record = terms or ApprovalTerms(), now, pause, record
        self.writes_record = record is not None
        self._lenders: dict[str, tuple[str, Lend]] = {}
        self._awaited: dict[str, tuple[asyncio.Event, str]] = {}  # by id: what wakes who waits, and their session
        self._listeners: dict[object, QuestionListener] = {}
        self._steps: set[asyncio.Future[Any]] = set()
        self._mark, self._is_leaving = token_hex(4), False

    @property
    def process(self) -> str:
        """What is written beside a question: this process, and which of its cribs."""
        return f"{self._terms.members.name}:{self._mark}"

    @property
    def seconds(self) -> float:
        """How long a question waits."""
        return self._terms.timeout() or self._terms.seconds

    def wait_for(self, seconds: float) -> None:
        """Let questions wait so long from now on, unless somebody has set it."""
        self._terms = replace(self._terms, seconds=seconds)

    async def list_left(self) -> list[approval.Question]:
        """Return the questions whose process was gone before their answer was used."""
        found = await self._store.pending(self._now(), states=(*_OPEN, "denied"))
        return [each for each in found if not self.is_at_work(each.process)]

    def leave(self) -> set[str]:
        """Leave the questions that wait for whoever comes next; return the sessions in which they were asked."""
        self._is_leaving = True
        return {session for _, session in self._awaited.values() if session}

    def is_at_work(self, process: str) -> bool:
        """Tell whether a process that wrote its name down is still there."""
        name, _, mark = process.rpartition(":")
        if name == self._terms.members.name:
            return mark == self._mark
        return self._terms.members.is_alive(name)

    def on_question(self, listener: QuestionListener) -> Callable[[], None]:
        """Attach a door: it hears of every question when it is asked, and again when it is settled.

        Returns what detaches it.
        """
        key = object()
        self._listeners[key] = listener
        return lambda: self._listeners.pop(key, None) and None

    def lend_lines(self, tool: str, argument: str, rule: Lend) -> None:
        """Let `rule` say of a tool whether a yes to it may last, also for the first words of its line in `argument`."""
        self._lenders[tool] = argument, rule

    def grants_prefix(self, tool: str) -> bool:
        """Tell whether a lasting yes to a tool may be for the first words of its line."""
        return tool in self._lenders

    # the Approver port

    async def approve(self, caller: Caller, call: Call, reason: str, binding: Mapping[str, str], /) -> bool:
        """Return whether the owner says yes to exactly this call, as `ask` does."""
        return await self.ask(caller, call, approval.AskTerms(reason, binding))

    async def ask(self, caller: Caller, call: Call, about: approval.AskTerms, /) -> bool:
        """Return whether those who are asked say yes to exactly this call; raise ToolError when nobody can or does.

        The yes was spent, for good, before it is returned.
        """
        self.answerers.refuse(caller, call)
        asked = self._question(caller, call, about)
        # what may last is decided anew: a grant of earlier counts only as long as the call may have one
        digests = [each.digest for each in asked.lasting]
        if digests and (grant := await self._store.use_grant(digests, self._now())):
            await self._write_record(Answered(call, grant.by, True, grant=grant.id, until=grant.until))
            return True
        # a command is in the lists of commands, where it never needs to be asked about again
        if digests and call.name not in self._lenders and (origin := self._terms.always(caller, call)):
            await self._write_record(Answered(call, CONFIGURATION, True, grant=origin))
            return True
        for _ in range(_MAX_TRIES):
            question = await self._choose_question(asked)
            try:
                if question.id == asked.id:
                    await self._finish_step(self._store.add(question, most=self._terms.most))
                if question.state == "pending":
                    self._notify(question)
                settled = await self._wait_settled(question)
                match settled.state:
                    case "allowed":
                        if await self._store.settle(question.id, "spent", of=_ALLOWED, now=self._now()):
                            await self._write_record(Answered(call, settled.by, True, question.id))
                            return True
                    case "denied":
                        await self._write_record(Answered(call, settled.by, False, question.id))
                        return False
                    case "expired":
                        within = f"within {self.seconds:g} seconds"
                        raise ToolError(f"nobody answered {within} whether {call.name} may run", code="not_approved")
            except asyncio.CancelledError:
                if not self._is_leaving:
                    await self._withdraw(question)
                raise
            finally:
                del self._awaited[question.id]
            asked = replace(asked, id=token_hex(8))  # somebody else spent that yes, or took the question back
        raise ToolError(f"others used up every yes that {call.name} was given; try again", code="not_approved")

    # and grants that answer before anybody is asked

    async def list_conditional(self, caller: Caller, tool: str, source: str, /) -> list[approval.Grant]:
        """Return the grants with conditions that hold now for calls of this tool, from there, by this caller."""
        if tool in self._lenders:  # a command is granted by its words
            return []
        held = [each for each in await self.grants_of(caller) if each.tool == tool and each.when]
        return [each for each in held if each.source in ("", source)]

    async def spend(self, grant: approval.Grant, call: Call, /) -> bool:
        """Use a grant for a call that meets it; tell whether something of it was left."""
        if grant.by != CONFIGURATION and not await self._store.use_grant([grant.digest], self._now()):
            return False
        await self._write_record(Answered(call, grant.by, True, grant=grant.id, until=grant.until))
        return True

    # what doors ask for

    @rpc("approvals.list", clients="read", tools="admin", why="own")
    async def waiting(self, caller: Caller) -> list[dict[str, Any]]:
        """List the questions that wait for an answer of the caller's."""
        return [each.to_json() for each in await self.list_waiting() if self.answerers.may_refuse(caller, each)]

    async def list_waiting(self) -> tuple[approval.Question, ...]:
        """Return all the questions that wait for an answer."""
        return await self._store.pending(self._now())

    @rpc("approvals.answer", clients="approve")
    async def answer(  # noqa: PLR0913  each by name, and nearly all have a default
        self,
        caller: Caller,
        id: Annotated[str, "the whole id of the question"],
        answer: Annotated[
            Literal["once", "lasting", "session", "no"], "yes to this call, for some time, for its session, or no"
        ],
        seconds: Annotated[int, "how long a lasting yes holds"] = 600,
        which: Annotated[int, "which of the question's lasting choices it is for, counted from 0"] = 0,
        calls: Annotated[int, "for how many calls at most, this one counted; 0 for no limit"] = 0,
        when: Annotated[JsonObject | None, "a lasting yes to every call that meets this, as `when` of a rule"] = None,
    ) -> dict[str, Any]:
        """Answer a question; ToolError for who was not asked, may only refuse, is late, or comes second."""
        question = await self.find_question(caller, id)
        now, yes = self._now(), self.answerers.say_yes(caller, question)
        grant, by = None, yes.by
        if answer != "no" and not yes.rules:
            asked = " and ".join(map(str, question.says))
            raise ToolError(f"{question.tool} is for {asked} to allow; you may refuse it", code="denied")
        if answer in ("lasting", "session"):
            term = None if answer == "session" else float(seconds)
            if not self._is_owner(caller):
                raise ToolError("only the owner's yes may last; allow it once", code="denied")
            lent = pick_option(question, which) if when is None else self._lend_when(question, when)
            grant = self._grant(question, lent, term, calls, by)
        elif when is not None:
            raise ArgumentError("when: a condition is for a yes that lasts; answer lasting or session")
        settled: approval.Question | None = None
        if answer != "no":
            settled = await self._store.say_yes(id, yes, now=now, grant=grant)
        elif await self._store.settle(id, "denied", of=approval.PENDING, now=now, by=by):
            settled = replace(question, state="denied", by=by)
        if settled is None:
            raise explain_late_answer(await self._store.find(id) or question, now)
        if grant is not None:
            given = Granted(grant.id, id, grant.tool, by, grant.until, grant.digest, grant.shown)
            given = given._replace(calls=grant.calls_left, session=grant.session, when=grant.when)
            await self._write_record(given)
        if id in self._awaited:
            self._awaited[id][0].set()  # and who waits tells the doors
        elif settled.state != "pending":
            self._notify(settled)
        return settled.to_json()

    @rpc("approvals.grants", clients="read", why="own")
    async def grants(self, caller: Caller) -> list[dict[str, Any]]:
        """List the lasting grants that hold now and that the caller may revoke."""
        return [grant.to_json() for grant in await self._store.grants(self._now()) if self.answerers.may_lend(caller)]

    async def grants_of(self, caller: Caller) -> list[approval.Grant]:
        """Return the grants for calls of this caller that hold now, those of the configuration last."""
        held = [grant for grant in await self._store.grants(self._now()) if grant.is_for(caller)]
        return [*held, *filter(self._is_lent, self._terms.standing(caller))]

    def _is_lent(self, grant: approval.Grant) -> bool:
        """Tell whether an entry of the configuration counts: for what runs something else only with a condition."""
        if grant.tool in self._lenders:
            return False
        if not grant.when:
            return self._can_lend(Call("", grant.tool, {}), {}) is None
        try:
            self._terms.check(grant.tool, grant.when)
        except ArgumentError as error:
            log.debug("%s does not count: %s", grant.id, error)
            return False
        return True

    async def end_session(self, session: str) -> None:
        """Forget what was granted for a session that is gone."""
        for grant in await self._store.grants(self._now()):
            if grant.session == session and await self._store.revoke(grant.id):
                await self._write_record(Revoked(grant.id, grant.tool, "the end of its session"))

    async def find_question(self, caller: Caller, id: str) -> approval.Question:
        """Return a question that this caller may answer."""
        question = await self._store.find(id)
        if question is None or not self.answerers.may_refuse(caller, question):
            raise ToolError(f"there is no question {id[:64]!r} that this caller may answer", code="not_found")
        return question

    @rpc("approvals.revoke", clients="approve")
    async def revoke(self, caller: Caller, id: Annotated[str, "the whole id of the grant"]) -> dict[str, Any]:
        """Take a grant back."""
        held = {grant.id: grant for grant in await self._store.grants(self._now())}
        grant = held.get(id)
        if grant is None or not self.answerers.may_lend(caller) or not await self._store.revoke(id):
            raise ToolError(f"there is no grant {id[:64]!r} that this caller may revoke", code="not_found")
        await self._write_record(Revoked(id, grant.tool, approval.name_of(caller)))
        return grant.to_json()

    # steps

    def _question(self, caller: Caller, call: Call, asked: approval.AskTerms) -> approval.Question:
        binding, says = asked.binding, asked.says
        shown = self._redact(approval.sheet(caller, call, asked.reason, binding, says))
        if len(shown) > self._terms.largest:
            raise ToolError(
                f"{call.name} cannot be approved: it takes {len(shown)} characters to show it whole, and a human is "
                f"shown at most {self._terms.largest}; make the call smaller",
                code="not_approved",
            )
        digest, now = approval.digest_of(caller, call, binding, says), self._now()
        line, can_lend = self._lenders.get(call.name, ("", self._can_lend))
        once = escape(explain_once(says) or can_lend(call, binding) or "")
        prefixes = approval.prefix_digests(caller, call, binding, line) if line and not once else []
        # whoever says yes for a time says it to the call, whatever it finds in the file the next time
        exact = approval.lasting_digest(caller, call, binding, self._terms.source_of(call.name))
        lasting = [(self._redact(f"every call that begins with {quote(first)}"), each) for first, each in prefixes]
        always = "" if once else spell_always(caller, call, [first for first, _ in prefixes] if line else None)
        return approval.Question(
            id=token_hex(8),
            digest=digest,
            tool=call.name,
            reason=self._redact(escape(asked.reason)),
            shown=shown,
            person=self.answerers.count_as(caller),
            asked_at=now,
            expires_at=now + self.seconds,
            once=once,
            asker=caller,
            key=call.key,
            process=self.process,
            says=says,
            mark=token_hex(8),
            always=always if self._redact(always) == always else "",  # no secret is proposed for a file
            lasting=() if once else tuple(approval.Lasting(*each) for each in [("exactly this call", exact), *lasting]),
        )

    async def _choose_question(self, asked: approval.Question) -> approval.Question:
        """Return the question to wait for, taken by who asks: one that a crash left, or a new one."""
        has_place = (self._listeners or self._terms.waits) and await self.answerers.can_be_asked(asked)
        question = await self._store.same(asked.digest, self._now(), asked.key)
        if question is None or question.id in self._awaited:
            now = self._now()
            question = replace(asked, asked_at=now, expires_at=now + self.seconds)
        if question.state == "pending" and not has_place:
            raise make_unasked_error(asked.reason, asked.tool)
        self._awaited[question.id] = asyncio.Event(), asked.asker.session or "" if asked.asker else ""
        return question

    def waits_in(self, session: str) -> bool:
        """Tell whether a question waits that was asked in a session."""
        return any(each == session for _, each in self._awaited.values())

    async def _wait_settled(self, question: approval.Question) -> approval.Question:
        """Wait until a question is answered, here or in another process, or its time is over."""
        event, _ = self._awaited[question.id]
        while True:
            event.clear()
            seen = await self._store.find(question.id) or replace(question, state="withdrawn")
            now = self._now()
            if seen.state in ("pending", "allowed") and not approval.is_in_time(seen.asked_at, seen.expires_at, now):
                await self._store.settle(seen.id, "expired", of=_OPEN)
                seen = replace(seen, state="expired")
            if seen.state == "allowed" and not self.answerers.allow_still(seen):
                await self._store.settle(seen.id, "withdrawn", of=_ALLOWED)  # whoever may answer by now is asked anew
                seen = replace(seen, state="withdrawn")
            if seen.state != "pending":
                self._notify(seen)
                return seen
            await self._pause(event, min(self._terms.look, seen.expires_at - now))

    async def _withdraw(self, question: approval.Question) -> None:
        """Take a question back; a store that fails must not hide that the call was cancelled."""
        try:
            if await self._finish_step(self._store.settle(question.id, "withdrawn", of=_OPEN)):
                self._notify(replace(question, state="withdrawn"))
        except ToolError:
            log.exception("question %s could not be withdrawn; nobody waits for its answer", question.id)

    async def _finish_step(self, work: Awaitable[T]) -> T:
        """Return what `work` returns; it goes on to its end also when who waits for it is cancelled."""
        step = asyncio.ensure_future(work)
        self._steps.add(step)
        step.add_done_callback(self._steps.discard)
        try:
            return await asyncio.shield(step)
        except asyncio.CancelledError:
            await asyncio.wait([step])
            if not step.cancelled() and (failure := step.exception()):
                log.exception("a step of a cancelled question failed", exc_info=failure)
            raise

    async def _write_record(self, entry: RecordEntry) -> None:
        if self._record is not None and (writing := self._record.write(entry)) is not None:
            await self._finish_step(writing)

    def _lend_when(self, question: approval.Question, when: Mapping[str, Any]) -> GrantOption:
        tool = question.tool
        if why := explain_once(question.says):
            raise ToolError(f"{tool} can only be allowed once: {why}", code="denied")
        if tool in self._lenders:
            raise ArgumentError(f"when: {tool} is granted by the first words of its line; choose which")
        lent = lend_when(tool, when)
        if self._redact(lent.when) != lent.when:
            raise ArgumentError("when: a condition that holds a secret is not kept")
        self._terms.check(tool, lent.when)
        return lent

    def _grant(
        self, question: approval.Question, lent: GrantOption, seconds: float | None, calls: int, by: str
    ) -> approval.Grant:
        """Return what a yes grants besides the call that was asked about; without `seconds`, for its session."""
        session = (question.asker.session or "" if question.asker else "") if seconds is None else ""
        if seconds is None and not session:
            raise ArgumentError("answer: the call was made in no session; grant it for some time")
        if not (calls == 0 or 1 < calls <= self._terms.most_calls):
            raise ArgumentError(f"calls: a grant is for 2 to {self._terms.most_calls} calls, not {calls}")
        if seconds is not None and not 0 < seconds <= self._terms.longest_grant:
            raise ArgumentError(f"seconds: a grant lasts 1 to {self._terms.longest_grant:g}, not {seconds:g}")
        now = self._now()
        return approval.Grant(
            id=token_hex(8),
            digest=lent.digest,
            tool=question.tool,
            shown=lent.shown,
            when=lent.when,
            person=question.person,
            by=by,
            made_at=now,
            until=approval.SESSION_END if seconds is None else now + seconds,
            calls_left=calls - 1 if calls else None,
            session=session,
            asker=question.asker,
            source=self._terms.source_of(question.tool),
        )

    def _notify(self, question: approval.Question) -> None:
        for listener in tuple(self._listeners.values()):
            try:
                listener(question)
            except Exception:
                log.exception("a door failed to show question %s; the others go on", question.id)
