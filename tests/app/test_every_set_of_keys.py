"""Every set of provider keys in the environment: whom explain speaks of is who answers, and what nobody's key is about
stays as it is.
"""

from dataclasses import replace
from itertools import chain, combinations
from typing import Any

import pytest
from tests.policy.conftest import WEATHER

from toolcrib.app import open as open_crib
from toolcrib.app.models import Models
from toolcrib.backends.models.known import KNOWN
from toolcrib.config.load import SettingsInForce, load
from toolcrib.define.caller import OWNER
from toolcrib.define.verdict import Verdict

KEYS = tuple(sorted({key for each in KNOWN.values() for key in each.keys}))
SETS = tuple(chain.from_iterable(combinations(KEYS, count) for count in range(len(KEYS) + 1)))
RULES = {
    "byProvider": {
        "openai": {"deny": ["exec"]},
        "anthropic": {"deny": ["write"]},
        "google": {"allow": ["read", "web_*"]},
        "groq": {"ask": ["effect:network"]},
    }
}


@pytest.mark.parametrize("agents", [{}, {"dev": {"model": "mistral:large"}}], ids=["no model", "a model"])
def test_whom_explain_speaks_of_is_who_answers_for_every_set_of_keys(agents: dict[str, Any]) -> None:
    loaded, callers = load({"tools": RULES, "agents": agents}, {}), [OWNER, replace(OWNER, agent="dev")]
    for names in SETS:
        env = dict.fromkeys(names, "sk-0000")
        models = Models(SettingsInForce(loaded, env), env)
        for caller in callers:
            told = models.assign(caller)
            name = models.name_for(caller.agent or "main", "")
            assert f"{told.provider}:{told.model}" == name, f"with {names}"
            if name.partition(":")[0] in KNOWN and any(key in env for key in KNOWN[name.partition(":")[0]].keys):
                card = models.get(name).card
                assert (card.provider, card.model) == (told.provider, told.model), f"with {names}"


@pytest.mark.parametrize("provider", [None, "openai", "anthropic", "groq"])
def test_who_names_a_model_has_the_same_verdicts_with_every_key_and_none(provider: str | None) -> None:
    caller = replace(OWNER, provider=provider, model="x" if provider else None)

    def verdicts(names: tuple[str, ...]) -> dict[str, Verdict]:
        crib = open_crib({"tools": RULES}, plugins=[WEATHER], env=dict.fromkeys(names, "sk-0000"))
        return dict(crib.belt(caller).verdicts)

    bare = verdicts(())
    for names in (*((key,) for key in KEYS), KEYS):
        assert verdicts(names) == bare, f"with {names}"
