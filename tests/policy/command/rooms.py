"""What the tests of the judge stand on: rules like those of a development machine, and programs that are all there."""

from collections.abc import Mapping
from typing import Any

from toolcrib.config.settings import ExecSettings
from toolcrib.policy.command import CommandRules, look_up_in, rules_from

__all__ = ["DEV", "FILTERS", "LOOK_UP", "rules_of"]

LOOK_UP = look_up_in(("/usr/bin", "/bin"))


def rules_of(**settings: Any) -> CommandRules:
    """Return the rules of a `tools.exec` section."""
    return rules_from(ExecSettings.model_validate(settings, by_alias=True, by_name=False))


_DEV: Mapping[str, Any] = {
    "allow": [["echo"], ["printf"], ["true"], ["false"], ["pwd"], ["date"], ["seq"], ["python3", "-m", "pytest"]],
    "allowExact": [["make", "test"]],
    "readOnly": [
        "ls",
        "cat",
        "head",
        "tail",
        "wc",
        "find",
        "rg",
        "grep",
        "sed",
        "git",
        "stat",
        "diff",
        "sort",
        "uniq",
        "cut",
        "tr",
        "jq",
    ],
    "deny": [["touch"], ["curl"], ["git", "push"]],
}
DEV = rules_of(**_DEV)
FILTERS = rules_of(
    allow=[["echo"]],
    readOnly=[],
    safeBins=["jq", "grep", "cut", "sort", "uniq", "head", "tail", "tr", "wc", "sed", "cat"],
)
