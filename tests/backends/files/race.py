"""A second process that swaps a folder for a link, and back, as fast as it can."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SWAP = """
import ctypes, os, sys
one, other = (os.fsencode(path) for path in sys.argv[1:])
swap = ctypes.CDLL(None, use_errno=True).renameat2
print("swapping", flush=True)
for turn in range(100_000_000):
    if swap(-100, one, -100, other, 2) and ctypes.get_errno() != 2:
        sys.exit(os.strerror(ctypes.get_errno()))
    if turn % 1024 == 0 and os.getppid() == 1:
        break
"""


@contextmanager
def swapping(folder: Path, target: str) -> Iterator[None]:
    """Swap the folder for a link to `target` until the end."""
    link = folder.with_name(f".{folder.name}-as-a-link")
    link.symlink_to(target)
    command = [sys.executable, "-S", "-c", _SWAP, str(folder), str(link)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"swapping\n"
            yield
        finally:
            process.kill()
            process.wait()
