"""Who may answer a question: for which of the rules that ask a yes counts, who may refuse, and whose yes may last."""

import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace

from toolcrib.define.approval import Question, Yes, is_in_time, name_of, standing_entry
from toolcrib.define.caller import OWNER, Caller
from toolcrib.define.errors import ToolError
from toolcrib.define.message import Call
from toolcrib.define.verdict import Consent
from toolcrib.policy.identities import is_role
from toolcrib.policy.resolve import agent_of, is_among, is_owner, is_same_person, person_of
from toolcrib.policy.settings import PolicySettings


class Answerers:
    """Knows by the settings of now who somebody is to a question."""

    def __init__(self, policy: Callable[[], PolicySettings], is_owner: Callable[[Caller], bool]) -> None:
        self._policy, self._is_owner = policy, is_owner
        self.list_reached: Callable[[Question], Awaitable[Sequence[Caller]]] | None = None  # in chats
        self.list_devices: Callable[[], Iterable[Caller]] = tuple
        self.refuse: Callable[[Caller, Call], None] = lambda caller, call: None  # what is refused whatever is answered

    def person_of(self, caller: Caller) -> str:
        """Return who is behind a caller as one text that nobody else has, "" where that is not known."""
        return person_of(self._policy(), caller)

    def may_lend(self, caller: Caller) -> bool:
        """Tell whether this is the owner, and not an agent of theirs."""
        return not caller.parents and self._is_owner(caller)

    def may_refuse(self, caller: Caller, question: Question) -> bool:
        """Tell whether somebody is among those who are asked, or the owner; never somebody's agent."""
        named = [each for say in question.says for each in say.by if each != "owner"]
        return self.may_lend(caller) or (not caller.parents and is_among(self._policy(), caller, named))

    def list_rules(self, caller: Caller, question: Question) -> tuple[int, ...]:
        """Return for which of the rules that ask a yes of this caller counts.

        Whom the call is made for has none, but the owner under `owner`, and who is written out, about no program.
        """
        policy, may_lend = self._policy(), self.may_lend(caller)
        is_own = question.asker is not None and self._may_be_one(caller, question.asker)

        def counts(say: Consent) -> bool:
            is_strict = is_own and (say.outside or say.runs)
            named = [each for each in say.by if each != "owner" and not is_strict and not (is_own and is_role(each))]
            return ("owner" in say.by and may_lend) or is_among(policy, caller, named)

        return () if caller.parents else tuple(at for at, say in enumerate(question.says) if counts(say))

    def _may_be_one(self, caller: Caller, other: Caller) -> bool:
        """Tell whether two callers are one person, or two owners of whom one may be any of them."""
        if is_same_person(self._policy(), caller, other):
            return True
        are_owners = self._is_owner(caller) and self._is_owner(other)
        return are_owners and "" in (self.name_person(caller), self.name_person(other))

    def count_as(self, caller: Caller) -> str:
        """Return as whose a question counts where they pile up: the owner's stand apart from everybody else's."""
        return "owner" if self._is_owner(caller) else self.person_of(caller)

    async def can_be_asked(self, question: Question) -> bool:
        """Tell whether a yes of all who can be asked is enough: of the owner, of devices, and in direct chats."""
        if self.list_reached is None or all(each.is_owners for each in question.says):
            return True
        for caller in (OWNER, *self.list_devices(), *await self.list_reached(question)):
            question = question.add(self.say_yes(caller, question))
        return question.state == "allowed"

    def say_yes(self, caller: Caller, question: Question) -> Yes:
        """Return what a yes of somebody's is worth."""
        rules = self.list_rules(caller, question)
        return Yes(name_of(caller), self.name_person(caller), self._is_owner(caller), rules, caller)

    def allow_still(self, question: Question) -> bool:
        """Tell whether the yeses to a question are enough, each worth what it is by the settings of now."""
        counted = replace(question, yeses=(), state="pending")
        for yes in question.yeses:
            counted = counted.add(self.say_yes(yes.caller, question) if yes.caller else yes)
        return counted.state == question.state

    def name_person(self, caller: Caller) -> str:
        """Return which person says yes, "" for an owner who may be any of them: at the terminal, or on a device."""
        person, policy = self.person_of(caller), self._policy()
        is_known = not self._is_owner(caller) or is_owner(policy, replace(caller, owner=None))
        return person if is_known or person.startswith("person:") else ""


def spell_always(caller: Caller, call: Call, words: list[list[str]] | None) -> str:
    """Return what would have to stand in the configuration, "" for what cannot; `words` are those of a command line."""
    if words is not None:
        shown = {"path": ["tools", "exec", "allowExact"], "entry": words[-1]} if words else None
    else:
        entry = standing_entry(caller, agent_of(caller), call)
        shown = entry and {"path": ["approvals", "always"], "entry": entry}
    return json.dumps(shown) if shown else ""


def explain_once(says: Sequence[Consent]) -> str:
    """Say why a yes to what these rules ask is for one call only, "" where it may last."""
    if any(each.outside for each in says):
        return "words from outside are behind it, so every call is asked about"
    return "" if all(each.may_last for each in says) else f"{' and '.join(map(str, says))} are asked about every call"


def explain_late_answer(question: Question, now: float) -> ToolError:
    if question.state == "expired" or (
        question.state == "pending" and not is_in_time(question.asked_at, question.expires_at, now)
    ):
        return ToolError(f"the answer is too late: question {question.id} has expired and was refused", code="expired")
    by = f" by {question.by}" if question.by else ""
    return ToolError(f"question {question.id} is settled already: {question.state}{by}", code="settled")
