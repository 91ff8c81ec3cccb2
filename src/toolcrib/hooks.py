"""What a plugin's hooks get and return: guards before a call, observers after it, and the moments of a turn."""

from typing import TYPE_CHECKING

from . import _serve

if TYPE_CHECKING:
    from .define.hook import Ask, Block, Guard, Hook, Observer, Rewrite
    from .define.moment import MOMENTS, Moment
    from .define.plugin import Factory
    from .define.ports import Approver

_HOMES = {
    "Approver": "define.ports",
    "Ask": "define.hook",
    "Block": "define.hook",
    "Factory": "define.plugin",
    "Guard": "define.hook",
    "Hook": "define.hook",
    "MOMENTS": "define.moment",
    "Moment": "define.moment",
    "Observer": "define.hook",
    "Rewrite": "define.hook",
}

__all__ = [
    "MOMENTS", "Approver", "Ask", "Block", "Factory", "Guard", "Hook", "Moment", "Observer", "Rewrite",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = _serve(__name__, _HOMES)
