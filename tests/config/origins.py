"""The way from an origin, as a verdict shows it, back to what is written in the file."""

from collections.abc import Mapping
from typing import Any

from toolcrib.define.verdict import Layer

__all__ = ["NOWHERE", "is_written", "written_at"]

NOWHERE = object()


def written_at(origin: str, value: Any) -> Any:
    """Return what stands at a dotted path, or NOWHERE; keys may hold dots, so every way to read it is tried."""
    if origin == "":
        return value
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if origin == key:
                return inner
            for mark in (".", "["):
                if origin.startswith(f"{key}{mark}"):
                    rest = origin[len(key) :].removeprefix(".")
                    found = written_at(rest, inner)
                    if found is not NOWHERE:
                        return found
    if isinstance(value, list) and origin.startswith("["):
        index, _, rest = origin[1:].partition("]")
        return written_at(rest.removeprefix("."), value[int(index)])
    return NOWHERE


def with_default(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the file with the one rule that counts where nobody wrote it: what guests have."""
    return {**raw, "tools": {"guests": "messaging", **(raw.get("tools") or {})}}


def is_written(layer: Layer, raw: Mapping[str, Any]) -> bool:
    """Tell whether all that the layer says stands in the file, at the place the layer names."""
    if layer.origin.startswith("built-in") or layer.origin == "default":
        return True
    found = written_at(layer.origin, with_default(raw))
    if layer.name in ("profile", "provider-profile"):
        return bool(found == layer.note.partition(",")[0])
    if isinstance(found, list):
        return list(layer.rule.ask) == found
    if isinstance(found, Mapping):
        rule = layer.rule
        said = [(rule.allow or (), "allow", "include"), (rule.deny, "deny", "exclude"), (rule.also, "alsoAllow", "")]
        if found.get("allow") == [] and rule.allow == ("*",):  # an empty list limits nobody in a file of OpenClaw's
            said = said[1:]
        return all({*entries} <= {*found.get(key, ()), *found.get(other, ())} for entries, key, other in said)
    return found is not NOWHERE
