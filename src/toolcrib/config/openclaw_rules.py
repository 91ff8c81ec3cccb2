"""OpenClaw's allow and deny lists, read as it reads them."""

from collections.abc import Mapping
from typing import Any

from toolcrib.policy.match import complaint_about

from .translated import Key, Notes

__all__ = ["lists", "set_keys"]

_LISTS = ("allow", "alsoAllow", "deny", "ask")


def set_keys(section: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys that are set: null is the same as absent there."""
    return {key: value for key, value in section.items() if value is not None}


def lists(rule: Any, path: Key, notes: Notes) -> Any:
    """Return a scope without an empty allow list, which limits nothing there.

    Entries that can match no tool are left out and told; a list that loses all of them still permits nothing.
    """
    if not isinstance(rule, Mapping):
        return rule
    told = set_keys(rule)
    for key in _LISTS:
        entries = told.get(key)
        if key == "allow" and entries == []:
            del told[key]
        elif isinstance(entries, list) and all(isinstance(entry, str) for entry in entries):
            notes.ignored += [(*path, key, at) for at, entry in enumerate(entries) if complaint_about(entry)]
            told[key] = [entry for entry in entries if not complaint_about(entry)]
    return told
