"""What a plugin's hooks get and return: guards before a call, observers after it, and the moments of a turn."""

from typing import TYPE_CHECKING

from . import _serve

if TYPE_CHECKING:
    from .define.plugin import MOMENTS, Ask, Block, Factory, Guard, Hook, Moment, Observer, Rewrite
    from .define.ports import Approver

_HOMES = {"define.plugin": "Ask Block Factory Guard Hook MOMENTS Moment Observer Rewrite", "define.ports": "Approver"}

__all__ = [
    "MOMENTS", "Approver", "Ask", "Block", "Factory", "Guard", "Hook", "Moment", "Observer", "Rewrite",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = _serve(__name__, _HOMES)
