"""openclaw-memory, as far as it is about paths and settings: on services/memory.py and config/."""

from collections.abc import Callable
from typing import Any

from toolcrib.config.load import load
from toolcrib.define.errors import ToolError
from toolcrib.define.files import join_parts
from toolcrib.define.memory import is_memory_file
from toolcrib.services.memory import spell_memory_path

from .load import Case

Json = dict[str, Any]


def _is_memory_path(args: Json) -> bool:
    try:
        return is_memory_file(spell_memory_path(args["path"]))
    except ToolError:
        return False


def _resolve(args: Json) -> Json | None:
    settings = load(args["config"], {}, openclaw=True).config.memory_of(args["agentId"])
    if not settings.enabled:
        return None
    sources = ["memory" if each == "files" else each for each in settings.sources]
    provider = (settings.provider or "auto").partition(":")[0]
    return {"enabled": True, "sources": sources, "extraPaths": list(settings.extra_paths), "provider": provider}


def _same_settings(case: Case, ours: Any) -> str:
    """Compare what both have: chunks, weights and files of the index are not for the configuration to say here."""
    recorded = case.expected["result"]
    if recorded is None or ours is None:
        return "" if recorded is ours else f"recorded: {recorded}"
    wanted = {key: recorded[key] for key in ours}
    return "" if ours == wanted else f"recorded: {wanted}"


ADAPTERS: dict[str, Callable[[Json], Any]] = {
    "isMemoryPath": _is_memory_path,
    "normalizeRelPath": lambda args: join_parts(spell_memory_path(args["value"])),
    "resolveMemorySearchConfig": _resolve,
}
SAME: dict[str, Callable[[Case, Any], str]] = {"resolveMemorySearchConfig": _same_settings}
