"""What a yes to a command is bound to: its words, program, directory, environment, and the files it names."""

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping

from toolcrib.policy.command import Judgement
from toolcrib.services.processes import Permit

__all__ = ["binding_of", "contents_of"]

_MOST_FILES, _LARGEST_FILE = 32, 16 << 20
_LONGEST = 4_096  # of a path


def binding_of(judgement: Judgement, permit: Permit, folder: str, files: Mapping[str, str]) -> dict[str, str]:
    """Return what a yes is bound to besides the call itself."""
    values = json.dumps(dict(permit.env), sort_keys=True)
    runs = permit.argv[0] if permit.argv else "bash"
    bound = {
        "program": runs,
        "directory": folder,
        "environment": f"{', '.join(sorted(permit.env))} (sha256 {hashlib.sha256(values.encode()).hexdigest()})",
        **{f"contents of {path}": content for path, content in files.items()},
    }
    return bound if judgement.argv is None else {"argv": json.dumps(judgement.argv), **bound}


def contents_of(folder: str, judgement: Judgement) -> dict[str, str]:
    """Return what is in every file that a command names, seen from its folder, as a hash. It reads the disk."""
    found: dict[str, str] = {}
    for word in dict.fromkeys(_words(judgement)):
        content = _content(os.path.join(folder, word), whole=len(found) < _MOST_FILES)  # noqa: PTH118
        if content:
            found[word] = content
    return found


def _content(path: str, *, whole: bool) -> str:
    """Return a hash of a regular file, or what tells when it was changed if it is large; empty when it is none."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe must not hold anybody up
    except (OSError, ValueError):
        return ""
    try:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode):
            return ""
        if not whole or about.st_size > _LARGEST_FILE:
            return f"{about.st_size} bytes, inode {about.st_ino}, changed {about.st_mtime_ns} {about.st_ctime_ns}"
        return f"sha256 {hashlib.sha256(os.pread(file, _LARGEST_FILE + 1, 0)).hexdigest()}"
    except OSError:
        return "unreadable"
    finally:
        os.close(file)


def _words(judgement: Judgement) -> Iterator[str]:
    """Yield every word that may name a file, also behind the = of an option."""
    for command in judgement.commands:
        for word in command.argv:
            if word and len(word) < _LONGEST:
                yield word
                if word.startswith("-") and "=" in word:
                    yield word.partition("=")[2]
