"""toolcrib: the tool system an agent needs.

Define tools, decide who may use which and say why, shape them for every model, run them safely. The names below
are what most programs need; `toolcrib.events`, `.hooks`, `.files`, `.models`, `.policy`, `.bridges` and `.testing` have
the rest. Each is loaded when it is first used, so importing this package costs next to nothing.
"""

import sys

TYPE_CHECKING = False  # `python -m toolcrib` has the current folder in front of its path: import nothing here (G27)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from .app import Belt, Crib, run_sync
    from .app import open as open  # not in __all__: `import *` would hide the builtin
    from .client import GatewayClient, connect
    from .define.actions import actions
    from .define.agent import Agent
    from .define.args import Args
    from .define.caller import OWNER, Caller, Sender
    from .define.context import Ctx
    from .define.errors import ConfigError, CribError, DeclarationError, PluginError, ToolError
    from .define.message import Call, Message
    from .define.plugin import Plugin
    from .define.ports import rpc
    from .define.result import Embed, Image, Result, Text
    from .define.sourced import vouch_for
    from .define.tool import Tool, tool
    from .define.turn import Limits

__version__ = "0.2.0"

# where each name lives
_HOMES = {
    "app": "Belt Crib open run_sync",
    "client": "GatewayClient connect",
    "define.actions": "actions",
    "define.agent": "Agent",
    "define.args": "Args",
    "define.caller": "Caller OWNER Sender",
    "define.context": "Ctx",
    "define.errors": "ConfigError CribError DeclarationError PluginError ToolError",
    "define.message": "Call Message",
    "define.plugin": "Plugin",
    "define.ports": "rpc",
    "define.result": "Embed Image Result Text",
    "define.sourced": "vouch_for",
    "define.tool": "Tool tool",
    "define.turn": "Limits",
}

__all__ = [
    "OWNER", "Agent", "Args", "Belt", "Call", "Caller", "ConfigError", "Crib", "CribError", "Ctx", "DeclarationError",
    "Embed", "GatewayClient", "Image", "Limits", "Message", "Plugin", "PluginError", "Result", "Sender", "Text", "Tool",
    "ToolError", "__version__", "actions", "connect", "rpc", "run_sync", "tool", "vouch_for",
]  # fmt: skip


def _serve(module: str, table: "Mapping[str, str]") -> "tuple[Callable[[str], Any], Callable[[], list[str]]]":
    """Return `__getattr__` and `__dir__` of a module that serves names from their homes, each when it is first used."""
    homes = {name: home for home, names in table.items() for name in names.split()}

    def load(name: str) -> "Any":
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        __import__(path := f"{__name__}.{home}")
        if not hasattr(sys.modules[path], name):
            __import__(f"{path}.{name}")  # a module in it that nobody has loaded yet
        value = getattr(sys.modules[path], name)
        setattr(sys.modules[module], name, value)
        return value

    def list_names() -> list[str]:
        return sorted({*homes, *(name for name in vars(sys.modules[module]) if name.startswith("__"))})

    return load, list_names


if not TYPE_CHECKING:  # so that a type checker knows the names above and no others
    __getattr__, __dir__ = _serve(__name__, _HOMES)
