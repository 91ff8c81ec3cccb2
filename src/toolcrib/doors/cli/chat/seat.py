"""The seat at the desk: who talks, in which session, to which model."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from toolcrib.app import Belt, Crib, Running
from toolcrib.app.models import OFFLINE
from toolcrib.define.caller import Caller
from toolcrib.define.errors import CribError
from toolcrib.define.model import model_name
from toolcrib.define.session import agent_from_key, to_agent
from toolcrib.define.turn import TurnRequest, user_message
from toolcrib.policy.resolve import mark_terminal_owner

from .place import Claim, latest, new_key

__all__ = ["Seat"]


class Seat:
    """One caller of a crib, who goes from session to session and from model to model.

    `elsewhere` is the session that this one would have gone on with, did another chat not do so.
    """

    def __init__(
        self, crib: Crib, caller: Caller, folder: Path, model: str | None = None, claim: Claim | None = None
    ) -> None:
        self.crib, self.folder = crib, folder
        self.agent = to_agent(caller.agent or "main")
        self.session = caller.session or ""
        self._caller, self._model, self._claim = caller, model, claim
        self.elsewhere = ""

    async def sit(self, *, anew: bool = False) -> None:
        """Take the session that was named, else the latest of this agent and folder; `anew` begins another one."""
        self.elsewhere = ""
        if anew or not self.session:
            found = None if anew else await latest(self.crib.sessions, self.agent, self.folder)
            is_free = not found or not self._claim or self._claim.take(found)
            self.elsewhere = "" if is_free else found or ""
            self.session = found if found and is_free else new_key(self.agent, self.folder)
        if self._claim:
            self._claim.take(self.session)  # one that was named is taken even if another chat has it

    async def to_session(self, key: str) -> None:
        """Go on with another session."""
        self.agent, self.session = agent_from_key(key), key
        await self.sit()

    async def to_agent(self, id: str) -> None:
        """Talk to another agent, in its latest session here."""
        if (agent := to_agent(id)) not in self.agents():
            raise CribError(f"there is no agent {id[:64]!r}; known: {', '.join(self.agents())}")
        self.agent, self.session, self._model = agent, "", None
        await self.sit()

    def to_model(self, name: str) -> None:
        """Let another model answer from the next message on; `default` is the configured one."""
        if name != "default":
            self.crib.models.get(name)  # says what is wrong with it
        self._model = None if name == "default" else ":".join(model_name(name))

    def agents(self) -> Sequence[str]:
        """Return the agents there are."""
        return self.crib.config.agent_ids()

    def models(self) -> Sequence[str]:
        """Return the models that the configuration or the environment names."""
        named = [each.model for _, each in self.crib.config.listed_agents()]
        known = [self.crib.models.name_for(self.agent), self.crib.config.default_model, *named, OFFLINE]
        return tuple(dict.fromkeys(":".join(model_name(name)) for name in known if name))

    async def model(self) -> str:
        """Return the model that answers: the one chosen here, else the session's, else the agent's."""
        if self._model:
            return self._model
        head = await self.crib.sessions.find(self.session)
        return self.crib.models.name_for(self.agent, head.model if head else "")

    async def belt(self) -> Belt:
        """Return the tools of this caller, with that model."""
        provider, model = model_name(await self.model())
        return self.crib.belt(replace(self.caller, provider=provider, model=model))

    @property
    def caller(self) -> Caller:
        """Who talks, in this session."""
        return mark_terminal_owner(replace(self._caller, session=self.session, agent=self.agent))

    def turn(self, text: str) -> Running:
        """Start to answer a message."""
        request = TurnRequest(message=user_message(text), caller=self.caller, model=self._model)
        return self.crib.start(request)
