"""The gateway as a service of this user's systemd: its unit, how it is put there and how it is taken away."""

import shutil
import stat
import subprocess
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

import platformdirs

from toolcrib.define.errors import CribError

UNIT = "toolcrib-gateway.service"
_SECONDS = 60.0


def unit_path() -> Path:
    """Return where the unit is, or would be."""
    return platformdirs.user_config_path() / "systemd" / "user" / UNIT


def render_unit(words: Sequence[str], environment: Mapping[str, str], folder: Path) -> str:
    """Return the unit that runs these words in a folder; secrets it reads from a file beside the configuration."""
    secrets = platformdirs.user_config_path("toolcrib", appauthor=False) / "gateway.env"
    for each in (*words, *environment.values(), str(folder), str(secrets)):
        if not each.isprintable():
            raise CribError(f"{each!r} holds a control character, which a unit cannot; name it without")
    program = shutil.which("bwrap", path="/usr/bin:/bin:/usr/local/bin")
    is_setuid = program is not None and bool(Path(program).stat().st_mode & stat.S_ISUID)  # then it needs new rights
    return (files("toolcrib.doors.cli") / "gateway.service").read_text("utf-8").format(
        command=" ".join(_quote(word).replace("$", "$$") for word in words),
        folder=str(folder).replace("%", "%%"),
        environment="\n".join(f"Environment={_quote(f'{name}={value}')}" for name, value in environment.items()),
        secrets=str(secrets).replace("%", "%%"),
        hardened="no" if is_setuid else "yes",
    )  # fmt: skip


def _quote(text: str) -> str:
    escaped = text.replace("%", "%%").replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def install_unit(unit: str) -> Path:
    """Put the unit there, and have it started now and at every login; return where it is."""
    _ask_systemd("daemon-reload")  # where nobody answers nothing is written
    path = unit_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(unit, encoding="utf-8")
    for words in (("daemon-reload",), ("enable", UNIT), ("restart", UNIT)):
        _ask_systemd(*words)
    return path


def remove_unit() -> str:
    """Stop the service and take its unit away; return what came of it."""
    path = unit_path()
    if not path.exists():
        return f"there is no {path}: nothing to remove"
    try:
        _ask_systemd("disable", "--now", UNIT)
    finally:
        path.unlink()
    _ask_systemd("daemon-reload")
    return f"{path} is removed"


def _ask_systemd(*words: str) -> None:
    if (program := shutil.which("systemctl")) is None:
        raise CribError("there is no systemd here; let what starts programs here run `toolcrib gateway`")
    try:
        subprocess.check_output([program, "--user", *words], stderr=subprocess.STDOUT, timeout=_SECONDS)  # noqa: S603
    except subprocess.SubprocessError as error:
        reason = (getattr(error, "output", b"") or b"no answer").decode(errors="replace").strip().partition("\n")[0]
        raise CribError(
            f"systemd of this user does not {words[0]} ({reason}); log in as this user, not through su or sudo, or run "
            "`toolcrib gateway` by other means: `toolcrib gateway install --print` shows what systemd would run"
        ) from None
