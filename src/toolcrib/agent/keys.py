"""Keys of calls: unlike any other, from any process, at the price of counting."""

import os
from itertools import count
from secrets import token_hex

__all__ = ["new_key"]

_numbers = count(1)


def _prefix() -> str:
    return f"call_{token_hex(12)}_"


_process = _prefix()


def new_key() -> str:
    """Return a key that no call had before."""
    return f"{_process}{next(_numbers)}"


def _new_process() -> None:
    global _process
    _process = _prefix()  # a forked child must not go on with its parent's keys


os.register_at_fork(after_in_child=_new_process)
