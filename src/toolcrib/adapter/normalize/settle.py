"""The last touch on a reading: what it leaves open is supplied, and null becomes "not given"."""

from .kinds import SCALARS
from .merge import Losses, Reading, inside

__all__ = ["lose_nulls", "settle", "settle_within"]


def settle(reading: Reading, where: str) -> None:
    """Supply what a reading leaves open: a type, the items of an array, members that are only required."""
    kind = reading.get("type")
    if kind == "object":
        if "required" in reading:
            _describe_required(reading)
    elif kind == "array":
        if "items" not in reading:
            reading["items"] = {"type": "string"}
    elif kind is None:
        # a value of any kind is shown as text; arguments as a whole are an object
        reading["type"] = "string" if where else "object"
    elif kind == "null":
        reading["type"], reading["nullable"] = "string", "only"


def settle_within(reading: Reading, where: str, losses: Losses | None) -> None:
    """Settle a reading and everything in it; with `losses` the marks of null are lost as well."""
    if reading.get("type") not in SCALARS:
        for name, inner in reading.get("properties", {}).items():
            settle_within(inner, inside(where, name), losses)
        for keyword, sign in (("items", "[]"), ("additionalProperties", "{}")):
            inner = reading.get(keyword)
            if isinstance(inner, dict):
                settle_within(inner, where + sign, losses)
        settle(reading, where)
        if losses is not None:
            lose_nulls(reading, where, losses)


def lose_nulls(reading: Reading, where: str, losses: Losses) -> int:
    """Take the marks of null from what is directly inside and return how many; leaving out is how to say it."""
    kind = reading["type"]
    if kind == "array":
        if not reading["items"].pop("nullable", None):
            return 0
        losses.append((f"{where}[]", "null"))
        return 1
    if kind != "object":
        return 0
    marks, required = 0, reading.get("required", [])
    for name, inner in reading.get("properties", {}).items():
        if "nullable" not in inner:
            continue
        marks += 1
        only = inner.pop("nullable") == "only"
        if only or name in required:
            losses.append((inside(where, name), "null"))
        if only and name in required:
            required.remove(name)  # nothing but null would do
    if "required" in reading and not required:
        del reading["required"]
    values = reading.get("additionalProperties")
    if isinstance(values, dict) and values.pop("nullable", None):
        losses.append((f"{where}{{}}", "null"))
        marks += 1
    return marks


def _describe_required(reading: Reading) -> None:
    """Describe the members that are required and nothing else: who is not told of them can only fail."""
    required = reading["required"]
    if not required:
        del reading["required"]
        return
    members = reading.get("properties")
    if members is None:
        members = reading["properties"] = {}
    if len(set(required)) < len(required):
        reading["required"] = required = list(dict.fromkeys(required))
    for name in required:
        if name not in members:
            values = reading.get("additionalProperties")
            members[name] = dict(values) if isinstance(values, dict) else {"type": "string"}
