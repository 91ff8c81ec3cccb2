"""Ids of calls as each API takes them: valid, and no two alike in one conversation."""

import re
from collections import ChainMap
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha1

from .target import Target

__all__ = ["MISTRAL", "Ids", "Rule", "rule_for", "wire_ids"]

_UNNAMED = "call"
_SUFFIX = 8
# Mistral's models are served over OpenAI's API by many; their chat templates refuse any other id.
_MISTRALS = re.compile(r"(?:mi[sx]tral|(?:code|mini|magi|dev|pix|vox)stral|pixtral)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Rule:
    """Which characters an id may not hold, what stands for each, and how many there may be; `exact` for no fewer."""

    refused: str
    instead: str = "_"
    limit: int = 64
    exact: bool = False


MISTRAL = Rule("[^a-zA-Z0-9]", instead="", limit=9, exact=True)
_RULES = {
    "openai": Rule("[^ -~]", limit=40),
    "responses": Rule("[^a-zA-Z0-9_-]"),
    "anthropic": Rule("[^a-zA-Z0-9_-]"),
    "gemini": Rule("[\ud800-\udfff]", limit=1024),
}


def rule_for(target: Target) -> Rule:
    """Return the rule of the API, or that of the model where it is narrower."""
    return MISTRAL if target.api == "openai" and _MISTRALS.search(target.model) else _RULES[target.api]


class Ids:
    """Gives out ids that the rule takes, every one different; what comes later never changes what came before.

    An id that is valid stays as it is. One that is not is cleaned and cut, and bears a digest when that is taken.
    """

    def __init__(self, rule: Rule, taken: ChainMap[str, str] | None = None, repeats: ChainMap[str, int] | None = None):
        self._rule = rule
        self._taken: ChainMap[str, str] = ChainMap() if taken is None else taken  # what was given out, for which
        self._repeats: ChainMap[str, int] = ChainMap() if repeats is None else repeats

    def branch(self) -> "Ids":
        """Return one that goes on from here and leaves this as it is."""
        return Ids(self._rule, self._taken.new_child(), self._repeats.new_child())

    def next(self, own: str) -> str:
        """Return what stands for the id of the next call."""
        fit = _fitted(own, self._rule)
        while fit in self._taken:
            # counted for each id, so that a thousand calls with one id cost no more than a thousand with their own
            again = self._repeats[own] = self._repeats.get(own, -1) + 1
            fit = _apart(own, again, self._rule)
        self._taken[fit] = own
        return fit


def wire_ids(ids: Sequence[str], rule: Rule) -> list[str]:
    """Return an id for each that the rule takes, every one different."""
    given = Ids(rule)
    return [given.next(own) for own in ids]


def _fitted(own: str, rule: Rule) -> str:
    cleaned = re.sub(rule.refused, rule.instead, own)
    if rule.exact and len(cleaned) < rule.limit:
        return _digest(cleaned)[: rule.limit]
    return cleaned[: rule.limit] or _UNNAMED


def _apart(own: str, again: int, rule: Rule) -> str:
    if rule.exact:
        return _digest(f"{own}:{again}")[: rule.limit]
    suffix = _digest(f"{own}:{again}" if again else own)[:_SUFFIX]
    return f"{_fitted(own, rule)[: rule.limit - _SUFFIX]}{suffix}"


def _digest(text: str) -> str:
    return sha1(text.encode(errors="surrogatepass"), usedforsecurity=False).hexdigest()
