"""The models of a crib: which one answers when nobody names one, and each made once."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from toolcrib.adapter.cards import card_for
from toolcrib.agent.declare import Declarations
from toolcrib.backends.models.known import KNOWN, is_oauth_token, key_in, models_with_keys
from toolcrib.backends.models.offline import CARD, OfflineModel
from toolcrib.config.settings import ProviderSettings, SettingsSource
from toolcrib.define.caller import Caller
from toolcrib.define.display import escape
from toolcrib.define.errors import CribError, ToolError
from toolcrib.define.model import Model, ModelCard, model_name
from toolcrib.define.verdict import Selection
from toolcrib.policy.resolve import agent_of, agent_of_parent, is_owner
from toolcrib.services.feature import ModelNames

OFFLINE = CARD.name
_SHOWN_CHARS = 64  # of a name that is none


class Models:
    """Models by name, `provider:model`, made with the keys of the configuration and the environment."""

    def __init__(self, settings: SettingsSource, env: Mapping[str, str]) -> None:
        self._settings, self._env = settings, env
        self._made: dict[tuple[str, str], Model] = {}
        self._left: list[Model] = []

    @property
    def env_secrets(self) -> dict[str, str]:
        """The keys of providers and the tokens of our own doors that the environment holds."""
        names = {"TOOLCRIB_MCP_TOKEN", "TOOLCRIB_TOKEN", *(name for each in KNOWN.values() for name in each.keys)}
        return {name: self._env[name] for name in sorted(names) if self._env.get(name)}

    def name_for(self, agent: str, session_model: str = "") -> str:
        """Return the model that answers for an agent, as everybody who asks reads it.

        The session's, when it was switched to one; else the agent's own, `models.default`, one whose provider has a
        key, and last the offline model.
        """
        named = session_model or self._name_from_config(agent)
        return named or next(iter(models_with_keys(self._env, self._providers())), OFFLINE)

    def assign(self, caller: Caller, session_model: str = "") -> Caller:
        """Return a caller that names no model with the one it would be served by, and likewise its parents.

        A parent that no configuration gives a model has the caller's where the caller names one: they run as one tree.
        """
        is_named = caller.provider is not None or caller.model is not None
        if not is_named:
            provider, model = split_model(self.name_for(agent_of(caller), session_model))
            caller = replace(caller, provider=provider, model=model)
        if caller.parents and not caller.parent_models:
            look_up = self._name_from_config if is_named else self.name_for
            names = (look_up(agent_of_parent(parent)) for parent in caller.parents)
            spoken = tuple(":".join(filter(None, split_model(name))) if name else "" for name in names)
            caller = replace(caller, parent_models=spoken)
        return caller

    def get(self, name: str) -> Model:
        """Return a model; raise CribError when its name, its provider or its key is wrong."""
        key = model_name(name)
        model = self._made.get(key)
        if model is None:
            model = self._made[key] = self._make(*key)
        return model

    def card(self, provider: str, model: str) -> ModelCard:
        """Return what is known of a model that need not be at hand; one that is named to look at pictures sees."""
        if provider == CARD.provider:
            return CARD
        given = self._providers().get(provider, ProviderSettings())
        card = card_for(provider, model, given.context_window)
        key = given.api_key or key_in(self._env, KNOWN.get(provider))
        if self._settings.config.tools.names == "claude-code" or (provider == "anthropic" and is_oauth_token(key)):
            card = replace(card, knows_claude_code=True)
        looks = (model_name(name) for name in self._settings.config.list_image_models())
        return card if card.sees or (provider, model) not in looks else replace(card, sees=True)

    def list_seeing(self, caller: Caller) -> tuple[str, ...]:
        """Return the models that can look at pictures for a caller, the likeliest first.

        The one that is named for its agent stands alone. Else it is the caller's own, or one that the configuration
        names: a picture goes to nobody whom neither of them has chosen.
        """
        config, agent = self._settings.config, agent_of(caller)
        if named := config.image_model(agent):
            return (":".join(model_name(named)),)
        is_chosen = caller.provider and caller.model
        first = f"{caller.provider}:{caller.model}" if is_chosen else self.name_for(agent)
        known = (first, self._name_from_config(agent), config.default_model, *models_with_keys({}, self._providers()))
        return tuple(name for name in dict.fromkeys(filter(None, known)) if self.card(*model_name(name)).sees)

    def find_named(self, word: str) -> str | None:
        """Return the model that a word of the conversation stands for, None when the configuration names no such one.

        A conversation may choose among what the operator chose: the models of the agents and those that look at
        pictures for them, the default, the offline one, and every model of a provider in `models`.
        """
        own = (each.model for _, each in self._settings.config.list_agents())
        known = [*own, self._settings.config.default_model, *self._settings.config.list_image_models(), OFFLINE]
        names = [":".join(model_name(name)) for name in known if name]
        try:
            asked = ":".join(model_name(word))
        except CribError:
            asked = word.strip()
        own_provider, _, model = asked.partition(":")
        is_offered = bool(model) and own_provider in self._providers()
        return next((name for name in names if asked in (name, name.partition(":")[2])), asked if is_offered else None)

    def choose(self, caller: Caller, word: str, own: str = "") -> str:
        """Return the model that a word of whoever asks means, "" for the configured one; only the owner has another.

        Rules may give models different tools, so whoever could choose one could choose its tools (G8).
        """
        agent, asked, shown = agent_of(caller), word.strip().lower(), escape(word[:_SHOWN_CHARS])
        if asked in ("", "default", agent.lower()):
            return ""
        if not is_owner(self._settings.policy, caller):
            own = (own or self.name_for(agent)).lower()
            if asked in (own, own.partition(":")[2]):
                return ""
            raise ToolError(f"only the owner chooses the model: leave out {shown!r}, or say default", code="denied")
        if named := self.find_named(word):
            return named
        if caller.provider:  # a person may name any, a model what the configuration names
            raise ToolError(f"the configuration names no model {shown!r}; leave it out", code="not_found")
        try:
            self.get(word)
        except CribError as error:
            raise ToolError(f"there is no model {shown!r} here: {error}", code="not_found") from error
        return word

    def later_for(self, belt: Selection, caller: Caller) -> Mapping[str, str]:
        """Return the tools of a belt that the caller's model sees later, and when."""
        return Declarations(belt, self.card(caller.provider or "", caller.model or "")).later

    def names(self) -> ModelNames:
        """Return what services know about models."""
        return ModelNames(
            named=self.find_named,
            choose=self.choose,
            default=self.name_for,
            window=lambda name: self.get(name).card.window,
        )

    def prepare(self, provider: str | None, say: Callable[[str], None]) -> None:
        """Fetch what a provider's model needs before it is first asked; `say` hears what is downloaded."""
        given = self._providers().get(provider or "", ProviderSettings())
        if provider == "local" and not given.base_url and not given.file:
            from toolcrib.backends.models import local  # noqa: PLC0415  as below

            local.fetch_weights(say)

    def forget(self) -> None:
        """Make every model anew when it is next asked for; those that answer now do so to the end."""
        self._left += self._made.values()
        self._made.clear()

    async def close(self) -> None:
        """Let go of every connection."""
        self.forget()
        for model in self._left:
            await model.close()
        self._left.clear()

    def _name_from_config(self, agent: str) -> str:
        own = self._settings.config.agent(agent)
        return (own and own.model) or self._settings.config.default_model

    def _providers(self) -> dict[str, ProviderSettings]:
        return {name: each for name, each in self._settings.config.models.items() if isinstance(each, ProviderSettings)}

    def _make(self, provider: str, model: str) -> Model:
        if provider == "offline":
            return OfflineModel()
        from toolcrib.backends.models import http, local  # noqa: PLC0415  HTTP takes longer to load than we do

        given = self._providers().get(provider, ProviderSettings())
        patience = http.make_patience(given.timeout_sec) if given.timeout_sec else None
        if provider == "local" and not given.base_url:
            return local.local_model(model, given.file, patience=patience, window=given.context_window)
        return http.model_for(
            provider,
            model,
            base_url=given.base_url or "",
            api_key=given.api_key or "",
            headers=given.headers,
            env=self._env,
            patience=patience,
            card=self.card(provider, model),
        )


def split_model(text: str, what: str = "the agent's model") -> tuple[str, str | None]:
    """Split `provider:model`; `provider/model` is understood too, and a bare word is a provider."""
    mark = min((mark for mark in ":/" if mark in text), key=text.index, default=":")
    provider, _, model = text.partition(mark)
    if not provider.strip():
        raise CribError(f"{what} {text[:_SHOWN_CHARS]!r} names no provider; write provider:model")
    return provider.strip(), model.strip() or None
