"""The models of a crib: which one answers when nobody names one, and each made once."""

from collections.abc import Mapping

from toolcrib.backends.providers.known import configured
from toolcrib.backends.providers.late import LateModel
from toolcrib.config.settings import Config, ProviderSettings
from toolcrib.define.errors import CribError
from toolcrib.define.model import Model, ModelCard, Price, model_name

__all__ = ["OFFLINE", "Models"]

OFFLINE = "offline:rules"
_OFFLINE_CARD = ModelCard(provider="offline", model="rules", window=1_000_000, price=Price(input=0, output=0))


class Models:
    """Models by name, `provider:model`, made with the keys of the configuration and the environment."""

    def __init__(self, config: Config, env: Mapping[str, str]) -> None:
        self._config, self._env = config, env
        self._made: dict[tuple[str, str], Model] = {}

    def name_for(self, agent: str) -> str:
        """Return the model of an agent: its own, `models.default`, one that has a key, or the offline model."""
        default = self._config.models.get("default")
        own = self._config.agent(agent)
        named = (own and own.model) or (default if isinstance(default, str) else "")
        return named or next(iter(configured(self._env, self._providers())), OFFLINE)

    def get(self, name: str) -> Model:
        """Return a model; raise CribError when its name, its provider or its key is wrong."""
        key = model_name(name)
        model = self._made.get(key)
        if model is None:
            model = self._made[key] = self._make(*key)
        return model

    def named(self, word: str) -> str | None:
        """Return the model that a word of the conversation stands for, None when the configuration names no such one.

        A conversation may choose among what the operator chose: the models of the agents, the default, the offline one.
        """
        default = self._config.models.get("default")
        own = (each.model for _, each in self._config.listed_agents())
        known = [*own, default if isinstance(default, str) else None, OFFLINE]
        names = [":".join(model_name(name)) for name in known if name]
        try:
            asked = ":".join(model_name(word))
        except CribError:
            asked = word.strip()
        return next((name for name in names if asked in (name, name.partition(":")[2])), None)

    async def close(self) -> None:
        """Let go of every connection."""
        for model in self._made.values():
            await model.close()
        self._made.clear()

    def _providers(self) -> dict[str, ProviderSettings]:
        return {name: each for name, each in self._config.models.items() if isinstance(each, ProviderSettings)}

    def _make(self, provider: str, model: str) -> Model:
        if provider == "offline":
            return LateModel(_OFFLINE_CARD, _offline)
        from toolcrib.backends.providers.make import model_for  # noqa: PLC0415  HTTP takes longer to load than we do

        given = self._providers().get(provider, ProviderSettings())
        return model_for(
            provider,
            model,
            base_url=given.base_url or "",
            api_key=given.api_key or "",
            headers=given.headers,
            env=self._env,
        )


def _offline() -> Model:
    from toolcrib.backends.providers.offline import OfflineModel  # noqa: PLC0415  only who talks to it pays

    return OfflineModel()
