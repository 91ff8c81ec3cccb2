"""The tests of toolcrib; they mirror src.

What they open without a place of its own is kept from this user's cribs and configuration.
"""

import atexit
import os
import shutil
import tempfile

_PREFIX = "toolcrib-tests-"


def _move_home() -> None:
    """Give this process and those it starts folders of their own; whoever was started by one keeps its parent's."""
    if _PREFIX in os.environ.get("XDG_STATE_HOME", ""):
        return
    home, pid = tempfile.mkdtemp(prefix=_PREFIX), os.getpid()
    os.environ |= {"XDG_STATE_HOME": f"{home}/state", "XDG_CONFIG_HOME": f"{home}/config"}
    atexit.register(lambda: shutil.rmtree(home, ignore_errors=True) if os.getpid() == pid else None)


_move_home()
