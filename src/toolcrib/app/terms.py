"""Which folder is whose workspace, and what may be done there."""

import os
import pwd
from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from toolcrib.backends.exec.profile import holds_system
from toolcrib.backends.files.disk import Terms
from toolcrib.backends.files.origins import NOTHING_KNOWN, FileOrigins
from toolcrib.config.load import Loaded, SettingsInForce
from toolcrib.config.settings import Config
from toolcrib.define.caller import Caller
from toolcrib.policy.resolve import person_of, resolve


def terms_of(
    settings: Loaded | SettingsInForce,
    kept: Sequence[Path] = (),
    code: Sequence[Path] = (),
    origins: FileOrigins = NOTHING_KNOWN,
) -> Callable[[Caller], Terms]:
    """Return what says which folder is a caller's workspace, and what may be done there.

    `kept` is where the crib keeps what it stores, `code` what it loads: no tool writes there, wherever that lies.
    """
    here, refusal = find_here(), explain_refusal()
    known: tuple[Config | None, tuple[Path, ...]] = (None, ())

    def list_roots(config: Config) -> tuple[Path, ...]:
        nonlocal known
        if known[0] is not config:
            every = (config.workspace.root, *(agent.workspace for _, agent in config.list_agents()))
            known = config, tuple(sorted({_to_folder(each, here) for each in every}))
        return known[1]

    def terms(caller: Caller) -> Terms:
        # a subagent works where its parent does, unless it has a folder of its own
        config, who = settings.config, resolve(settings.policy, caller)
        own = (agent.workspace for each in (who, *reversed(who.parents)) if (agent := config.agent(each.agent)))
        root = next(filter(None, own), config.workspace.root)
        return Terms(
            root=_to_folder(root, here),
            others=list_roots(config),
            origins=origins,
            access=config.sandbox.workspace_access if who.is_sandboxed else "rw",
            # what the owner's prompt says is for nobody else to write
            protected=(*config.workspace.protected, *(() if who.is_owner else _OWNERS_MEMORY)),
            linked=config.workspace.linked,
            own=(*settings.document.files, *kept),
            code=tuple(code),
            refusal="" if root else refusal,
            inbox="" if who.is_owner else _name_inbox(person_of(settings.policy, caller)),
        )

    return terms


@lru_cache(maxsize=1_024)
def _name_inbox(person: str) -> str:
    return f"inbox/people/{sha256(person.encode()).hexdigest()[:16]}"


def _to_folder(root: str | None, here: Path) -> Path:
    return Path(os.path.expanduser(root)) if root else here  # noqa: PTH111  Path's own raises for a user who is not there


_OWNERS_MEMORY = ("/MEMORY.md", "/memory.md", "/memory/**/*.md")


def explain_refusal() -> str:
    """Say why the folder we were started in is no workspace by itself; empty when it is one."""
    if not (folder := find_here()).is_absolute():
        return ""
    here = os.path.realpath(folder)
    homes = {os.path.expanduser("~"), *(user.pw_dir for user in pwd.getpwall() if user.pw_uid == os.getuid())}  # noqa: PTH111
    is_home = any(f"{os.path.realpath(home)}/".startswith(f"{here.rstrip('/')}/") for home in homes)
    what = "is or holds your home folder" if is_home else "holds a part of the system" if holds_system(here) else ""
    return what and f"{here!r} {what}: no workspace by itself; start in another folder, or name it in workspace.root"


def find_here() -> Path:
    """Return the folder that we were started in."""
    try:
        return Path.cwd()
    except FileNotFoundError:  # somebody removed it; what needs it says so when it is used
        return Path()
