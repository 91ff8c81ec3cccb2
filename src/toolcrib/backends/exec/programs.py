"""Programs that are installed with toolcrib: as trusted as toolcrib itself."""

import os
import shutil
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

__all__ = ["own_programs"]

_NAMES = ("rg",)


def own_programs() -> Mapping[str, str]:
    """Return where the programs are that came in wheels, beside this interpreter; one that did not is left out."""
    beside = os.pathsep.join((sysconfig.get_path("scripts"), str(Path(sys.executable).parent)))
    found = {name: shutil.which(name, path=beside) for name in _NAMES}
    return {name: os.path.realpath(path) for name, path in found.items() if path}
