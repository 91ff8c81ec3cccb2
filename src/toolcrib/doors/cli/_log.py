"""What only an operator wants to know goes into a file beside the sessions, not between the words on a terminal."""

import logging
import os
from pathlib import Path

import platformdirs

LOG_FILE = "toolcrib.log"
_LOG_BYTES = 1024 * 1024  # bytes of the file before a new one is begun; the one before it stays


def state_folder() -> Path:
    """Return where this user's cribs keep what they know: $TOOLCRIB_STATE, else the folder the system has for that."""
    named = os.environ.get("TOOLCRIB_STATE", "").strip()
    return Path(named) if named else platformdirs.user_state_path("toolcrib", appauthor=False)


def keep_log() -> None:
    """Write warnings and errors of toolcrib, with their tracebacks, to the log in the user's state folder."""
    log = logging.getLogger("toolcrib")
    if not any(isinstance(each, _Log) for each in log.handlers):
        log.addHandler(_Log(logging.WARNING))


class _Log(logging.Handler):
    """Opens the file when there is something to write."""

    def emit(self, record: logging.LogRecord) -> None:
        path = state_folder() / LOG_FILE
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if path.exists() and path.stat().st_size > _LOG_BYTES:
                path.replace(path.with_suffix(".log.1"))
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "w", errors="replace") as file:
                file.write(f"{_FORM.format(record)}\n")
        except OSError:
            return  # nothing can be kept there, and the command itself says so


_FORM = logging.Formatter("%(asctime)s %(levelname)s [%(process)d] %(message)s")
