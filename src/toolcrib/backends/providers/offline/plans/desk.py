"""What every plan works with: the tools on the belt, what was seen before, and how to ask for a call."""

import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from toolcrib.backends.providers.offline.answers import Answer, Found, Outcome
from toolcrib.backends.providers.offline.course import Seen, Step
from toolcrib.backends.providers.offline.tasks import Pointing, Target
from toolcrib.define.tool import Tool

__all__ = ["Asking", "Desk", "Plan", "call", "failure", "place_of", "resolved", "step", "together"]

T = TypeVar("T")
Asking = Generator[tuple[Step, ...], tuple[Outcome, ...], T]
Plan = Asking[Answer]

# What a tool says when it may not, and what would change that.
_REMEDIES = (
    (r"security is deny", "set `tools.exec.security` to `allowlist` or `full` in the configuration to permit commands"),
    (r"never runs \(deny has", "it runs only once `tools.exec.deny` no longer names it"),
    (
        r"no program of a trusted folder",
        "name its folder in `tools.exec.trustedDirs`, or ask where a person can approve it",
    ),
    (
        r"is on no list of|nobody to ask",
        "add it to `tools.exec.allow` in the configuration, or ask where a person can approve it",
    ),
    (r"a human refused", "it was refused when somebody was asked; ask me again if that has changed"),
    (r"not on this belt", "the policy decides which tools are there: `toolcrib explain` says why one is not"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Desk:
    """The tools that may be called, and what was seen so far; it grows while plans are played."""

    tools: Mapping[str, Tool]
    seen: Seen

    def has(self, name: str) -> bool:
        return name in self.tools


def call(name: str, /, **args: Any) -> Asking[Outcome]:
    """Ask for one call; arguments that are None or False are left out."""
    (outcome,) = yield (step(name, **args),)
    return outcome


def together(*steps: Step) -> Asking[tuple[Outcome, ...]]:
    """Ask for several calls at once."""
    return (yield steps)


def step(name: str, /, **args: Any) -> Step:
    """Return a call without the arguments that say nothing."""
    return Step(name, {key: value for key, value in args.items() if value is not None and value is not False})


def resolved(target: Target, desk: Desk) -> str:
    """Return the file that is meant, empty when nothing was seen that it could be."""
    if isinstance(target, str):
        return target
    lines = [place.path for place in desk.seen.places]  # `the second one` is the second line, where lines were found
    files = lines if lines and target.at and not target.whole else list(desk.seen.files)
    if not target.at and not target.everything and not target.whole:
        return desk.seen.file
    return files[target.at] if files and -len(files) <= target.at < len(files) else ""


def place_of(target: Target, desk: Desk) -> Found | None:
    """Return the line that is pointed at, when lines were found and not a whole file is meant."""
    places = desk.seen.places
    if not isinstance(target, Pointing) or target.whole or target.everything or not places:
        return None
    return places[target.at] if -len(places) <= target.at < len(places) else None


def failure(what: str, outcome: Outcome) -> Answer:
    """Return that something did not work, why, and what would change it where that is known."""
    sentence = outcome.text.strip()
    end = "" if sentence.endswith((".", "?", "!")) else "."
    remedy = next(
        (f"\nWhat would change it: {remedy}." for pattern, remedy in _REMEDIES if re.search(pattern, sentence)), ""
    )
    return Answer(f"I could not {what}: {sentence}{end}{remedy}")
