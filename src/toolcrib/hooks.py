"""What a plugin's hooks get and return: guards before a call, observers after it, and the moments of a turn."""

from typing import TYPE_CHECKING

from . import _serve

if TYPE_CHECKING:
    from .define.plugin import MOMENTS, Ask, Block, Factory, Guard, Hook, Moment, Observer, Rewrite
    from .define.ports import Approver

_HOMES = {
    "Approver": "define.ports",
    "Ask": "define.plugin",
    "Block": "define.plugin",
    "Factory": "define.plugin",
    "Guard": "define.plugin",
    "Hook": "define.plugin",
    "MOMENTS": "define.plugin",
    "Moment": "define.plugin",
    "Observer": "define.plugin",
    "Rewrite": "define.plugin",
}

__all__ = [
    "MOMENTS", "Approver", "Ask", "Block", "Factory", "Guard", "Hook", "Moment", "Observer", "Rewrite",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = _serve(__name__, _HOMES)
