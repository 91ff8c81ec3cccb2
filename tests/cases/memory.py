"""openclaw-memory, as far as it is about files and settings: on services/memory.py, backends/memory and config/."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from toolcrib.backends.memory.notes import list_notes
from toolcrib.config.load import load
from toolcrib.define.errors import ToolError
from toolcrib.define.files import join_parts
from toolcrib.define.memory import MemoryPlaces
from toolcrib.services.memory import is_memory_file, spell_memory_path

from .load import Case

Json = dict[str, Any]


def _is_memory_path(args: Json) -> bool:
    try:
        return is_memory_file(spell_memory_path(args["path"]))
    except ToolError:
        return False


def _list_files(args: Json) -> list[str]:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve()
        for path, content in args["files"].items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, str):
                (root / path).write_text(content)
            else:
                (root / path).symlink_to(content["symlink"].replace("{ROOT}", str(root)))
        extra = tuple(root / each.strip() for each in args.get("extraPaths", ()))
        found = list_notes(MemoryPlaces(root, extra)).notes
        return sorted(f"{{ROOT}}/{os.path.relpath(root / path, root)}" for path in found)


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
    "listMemoryFiles": _list_files,
    "normalizeRelPath": lambda args: join_parts(spell_memory_path(args["value"])),
    "resolveMemorySearchConfig": _resolve,
}
SAME: dict[str, Callable[[Case, Any], str]] = {"resolveMemorySearchConfig": _same_settings}
