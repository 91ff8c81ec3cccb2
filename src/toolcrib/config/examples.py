"""The examples of `tools.exec`, judged when the file is loaded: one that comes out otherwise is an error."""

from collections.abc import Callable, Iterator

from toolcrib.define.errors import ConfigError, Place
from toolcrib.policy.command import Rules, judge, look_up_in, rules_from

from .settings import Config, Lines

__all__ = ["check_examples"]

_LONGEST_SHOWN = 60

Key = tuple[str | int, ...]


def check_examples(config: Config, place: Callable[[Key], Place], conceal: Callable[[str], str]) -> None:
    """Raise ConfigError at the first example that the rules beside it judge otherwise than it says.

    Whether a program is installed is no matter of the rules: every name counts as one of a trusted folder.
    """
    for path, examples, rules in _with_examples(config):
        look_up = look_up_in(rules.trusted)
        for expected, lines in (("run", examples.run), ("ask", examples.ask), ("deny", examples.deny)):
            for at, line in enumerate(lines):
                found = judge(line, rules, look_up)
                if found.decision != expected:
                    shown = line if len(line) <= _LONGEST_SHOWN else f"{line[:_LONGEST_SHOWN]}…"
                    sentence = (
                        f"{shown!r} is {found.decision}, not {expected}: {found.reason}; change a rule or the example"
                    )
                    raise ConfigError(conceal(sentence), place((*path, "examples", expected, at)))


def _with_examples(config: Config) -> Iterator[tuple[Key, Lines, Rules]]:
    """Yield every list of examples with its place and the rules it is about."""
    own = config.tools.exec
    path: Key = ("tools", "exec")
    if "examples" in own.model_fields_set:
        yield path, own.examples, rules_from(own)
    for at, (id, agent) in enumerate(config.listed_agents()):
        theirs = agent.tools.exec
        if "examples" in theirs.model_fields_set:
            where: Key = ("agents", at if isinstance(config.agents, (list, tuple)) else id, *path)
            yield where, theirs.examples, rules_from(theirs, over=rules_from(own))
