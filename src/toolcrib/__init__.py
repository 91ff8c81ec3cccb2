"""toolcrib: the tool system an agent needs.

Define tools, decide who may use which and say why, shape them for every model, run them safely. The names below
are all a tool author needs; each is loaded when it is first used, so importing this package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .app import Crib, open
    from .define.actions import actions
    from .define.agent import Agent
    from .define.caller import Caller, Sender
    from .define.context import Ctx
    from .define.errors import ConfigError, CribError, DeclarationError, PluginError, ToolError
    from .define.files import Change, Entry, Find, Passage, Search
    from .define.message import Call, Message
    from .define.plugin import Plugin
    from .define.reader import Args
    from .define.result import Image, Result, Text
    from .define.tool import Tool, tool

__version__ = "0.1.0"

_HOMES = {
    "Agent": "define.agent",
    "Args": "define.reader",
    "Call": "define.message",
    "Caller": "define.caller",
    "Change": "define.files",
    "ConfigError": "define.errors",
    "Crib": "app",
    "CribError": "define.errors",
    "Ctx": "define.context",
    "DeclarationError": "define.errors",
    "Entry": "define.files",
    "Find": "define.files",
    "Image": "define.result",
    "Message": "define.message",
    "Passage": "define.files",
    "Plugin": "define.plugin",
    "PluginError": "define.errors",
    "Result": "define.result",
    "Search": "define.files",
    "Sender": "define.caller",
    "Text": "define.result",
    "Tool": "define.tool",
    "ToolError": "define.errors",
    "actions": "define.actions",
    "open": "app",
    "tool": "define.tool",
}

__all__ = [
    "Agent", "Args", "Call", "Caller", "Change", "ConfigError", "Crib", "CribError", "Ctx", "DeclarationError",
    "Entry", "Find", "Image", "Message", "Passage", "Plugin", "PluginError", "Result", "Search", "Sender", "Text",
    "Tool", "ToolError", "__version__", "actions", "open", "tool",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'toolcrib' has no attribute {name!r}")
    value = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
