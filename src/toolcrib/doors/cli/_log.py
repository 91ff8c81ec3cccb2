"""What only an operator wants to know goes into a file, a line of JSON each, not between the words on a terminal."""

import json
import logging
import os
from datetime import UTC, datetime
from pathlib import Path

LOG_FILE = "toolcrib.log"
_LOG_BYTES = 4 * 1024 * 1024  # of the file before a new one is begun; the one before it stays
_MAX_CHARS = 16_384  # of what one line says


def state_folder() -> Path:
    """Return where this user's cribs keep what they know: $TOOLCRIB_STATE, else the folder the system has for that."""
    if named := os.environ.get("TOOLCRIB_STATE", "").strip():
        return Path(named)
    import platformdirs  # noqa: PLC0415  who names the folder does without

    return platformdirs.user_state_path("toolcrib", appauthor=False)


def keep_log(level: str = "warning", path: Path | None = None) -> None:
    """Write what toolcrib logs from this level on, with tracebacks, to a file: the one in the state folder, or this."""
    log = logging.getLogger("toolcrib")
    for each in [each for each in log.handlers if isinstance(each, _Log)]:
        log.removeHandler(each)
    log.setLevel(level.upper())
    log.addHandler(_Log(path))


def open_log(path: Path) -> int:
    """Return a descriptor that appends to a log, which is begun anew when it is long; nobody else may read it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.is_file() and path.stat().st_size > _LOG_BYTES:
        path.replace(path.with_name(f"{path.name}.1"))
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


class _Log(logging.Handler):
    """Opens the file when there is something to write: several processes do, and any of them begins it anew."""

    def __init__(self, path: Path | None) -> None:
        super().__init__()
        self._path = path

    def emit(self, record: logging.LogRecord) -> None:
        entry = {"time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")}
        entry |= {"level": record.levelname.lower(), "pid": str(record.process)}
        entry["message"] = record.getMessage()[:_MAX_CHARS]
        if record.exc_info and not record.exc_text:
            record.exc_text = _FORM.formatException(record.exc_info)
        if record.exc_text:
            entry["error"] = record.exc_text[-_MAX_CHARS:]
        try:
            with os.fdopen(open_log(self._path or state_folder() / LOG_FILE), "w", errors="replace") as file:
                file.write(f"{json.dumps(entry)}\n")
        except OSError:
            return  # nothing can be kept there, and the command itself says so


_FORM = logging.Formatter()
