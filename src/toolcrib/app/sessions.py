"""The sessions of a crib as callers see them."""

from toolcrib.agent.session_log import recall
from toolcrib.agent.turn import Turns
from toolcrib.backends.stores.sessions_json import read_log, write_log
from toolcrib.config.load import Loaded
from toolcrib.define.log import SessionStore
from toolcrib.policy.resolve import is_owner
from toolcrib.services.sessions import LogCodec, ModelNames, Sessions

from .models import Models

__all__ = ["sessions_for"]


def sessions_for(loaded: Loaded, store: SessionStore, turns: Turns, models: Models) -> Sessions:
    """Return the service that tells about sessions, and lets their owner choose among the configured models."""
    return Sessions(
        store,
        recall,
        codec=LogCodec(read_log, write_log),
        models=ModelNames(
            named=models.named, default=models.name_for, window=lambda name: models.get(name).card.window
        ),
        is_owner=lambda caller: is_owner(loaded.policy, caller),
        running=turns.journal_of,
    )
