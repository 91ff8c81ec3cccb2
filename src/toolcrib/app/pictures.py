"""Who looks at pictures: the model of a crib that sees, and one question to it, which counts in the turn that asks."""

from toolcrib.agent.retry import Retries, ignore, reply_to
from toolcrib.config.settings import SettingsSource
from toolcrib.define.caller import Caller
from toolcrib.define.errors import CribError, ToolError
from toolcrib.define.event import Replied
from toolcrib.define.model import Model, Request, model_name
from toolcrib.policy.resolve import agent_of

from .models import Models
from .subagents import turn_of

_SHOWN_CHARS = 64  # of a name that is none


class PictureModels:
    """Asks the model that looks at pictures for a caller."""

    def __init__(self, settings: SettingsSource, models: Models) -> None:
        self._settings, self._models = settings, models

    async def look(self, caller: Caller, request: Request, word: str = "") -> tuple[str, Replied] | None:
        """Return the name of the model that was asked and its reply; None where none that is configured sees.

        `word` names one of the configured models. What the reply takes counts in the turn of the caller, as a summary
        does, and a turn that has no tokens or money left asks nobody.
        """
        turn = turn_of(caller)
        if turn is not None and (over := turn.spent.over_budget()) is not None:
            raise ToolError(f"no model was asked: {over[1]}", code="unavailable")
        try:
            model = self._find(caller, word, turn.setup.model if turn else None)
        except CribError as error:
            raise ToolError(f"no model can look at it: {error}", code="unavailable") from error
        if model is None:
            return None
        replied = await reply_to(request, model, ignore, Retries(tries=2))
        if turn is not None:
            turn.spent.add_aside(replied.usage, model.card.price)
        return model.card.name, replied

    def _find(self, caller: Caller, word: str, current: Model | None) -> Model | None:
        """Return who looks: the model that is asked for, else the one configured for that, else the current one."""
        agent = agent_of(caller)
        names = self._models.list_seeing(agent)
        if word:
            named = self._models.find_named(word)
            if named is None or not self._models.card(*model_name(named)).sees:
                why = "sees no pictures" if named else "is not named in the configuration"
                known = ", ".join(names) or "none; set models.image"
                raise CribError(f"the model {word[:_SHOWN_CHARS]!r} {why}; there is {known}")
            return self._models.get(named)
        if current is not None and current.card.sees and not self._settings.config.image_model(agent):
            return current
        return self._models.get(names[0]) if names else None
