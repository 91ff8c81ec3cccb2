"""An error of the system about a file, as one sentence that a model can act on."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from toolcrib.define.errors import ToolError

_SENTENCES = {
    errno.ENOENT: ("not_found", "{path} does not exist"),
    errno.ENOTDIR: ("not_folder", "{path} goes through a file as if it were a folder"),
    errno.EISDIR: ("is_folder", "{path} is a folder; give the name of a file"),
    errno.EEXIST: ("exists", "{path} exists already"),
    errno.ENOTEMPTY: ("is_folder", "{path} is a folder that is not empty"),
    errno.EACCES: ("denied", "{path} cannot be opened: its permissions forbid it"),
    errno.EPERM: ("denied", "{path} cannot be opened: its permissions forbid it"),
    errno.EROFS: ("denied", "{path} is on a read-only disk"),
    errno.ELOOP: ("denied", "{path} is a link that leads in circles"),
    errno.EXDEV: ("denied", "{path} leads out of the workspace; give a path inside it"),
    errno.ENXIO: ("denied", "{path} is not a regular file (a pipe, a socket or a device)"),
    errno.ENAMETOOLONG: ("bad_path", "{path} is too long for a file name"),
    errno.EINVAL: ("bad_path", "{path} is not a name this disk can hold"),
    errno.EILSEQ: ("bad_path", "{path} is not a name this disk can hold"),
    errno.ENOSPC: ("failed", "the disk is full; {path} was not changed"),
    errno.EDQUOT: ("failed", "the disk quota is used up; {path} was not changed"),
    errno.EMFILE: ("failed", "too many files are open; {path} can be tried again"),
    errno.ENFILE: ("failed", "too many files are open; {path} can be tried again"),
    errno.EBUSY: ("failed", "{path} is in use by the system"),
}


@contextmanager
def as_tool_errors(path: str) -> Iterator[None]:
    """Tell what the system refuses inside as one sentence about the path."""
    try:
        yield
    except OSError as error:
        raise _to_tool_error(error, path) from error


def _to_tool_error(error: OSError, path: str) -> ToolError:
    shown = repr(path if len(path) <= 200 else f"{path[:200]}…")
    code, sentence = _SENTENCES.get(error.errno or 0, ("failed", ""))
    if not sentence:
        why = os.strerror(error.errno) if error.errno else str(error)
        return ToolError(f"{shown}: the system says {why!r}", code=code)
    return ToolError(sentence.format(path=shown), code=code)
