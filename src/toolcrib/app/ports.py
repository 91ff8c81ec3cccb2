"""What the tools of a caller may touch: its files, the services, the blobs."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from toolcrib.backends.files.local import Terms, Workspaces
from toolcrib.config.load import Loaded
from toolcrib.define.caller import Caller
from toolcrib.define.context import Ports
from toolcrib.define.ports import Blobs
from toolcrib.policy.resolve import resolve
from toolcrib.services.router import Router

__all__ = ["PortsOf", "terms_of"]


class PortsOf:
    """Opens the ports of callers; `terms` says which workspace each has."""

    def __init__(self, terms: Callable[[Caller], Terms], router: Router, blobs: Blobs) -> None:
        self._router, self._blobs = router, blobs
        self._workspaces, self._terms_of = Workspaces(), terms

    def __call__(self, caller: Caller) -> Ports:
        """Return what the tools of this caller may touch."""
        workspace = self._workspaces.open(self._terms_of(caller), caller.session or "")
        return Ports(workspace=workspace, rpc=self._router.rpc_for(caller), blobs=self._blobs)

    def close(self) -> None:
        """Let go of every root."""
        self._workspaces.close()


def terms_of(loaded: Loaded, kept: Sequence[Path] = ()) -> Callable[[Caller], Terms]:
    """Return what says which folder is a caller's workspace, and what may be done there.

    `kept` is where the crib keeps what it was told: no tool writes there, wherever that lies.
    """
    config, policy, here = loaded.config, loaded.policy, _here()

    def terms(caller: Caller) -> Terms:
        # a subagent works where its parent does, unless it has a folder of its own
        who = resolve(policy, caller)
        own = (agent.workspace for each in (who, *reversed(who.parents)) if (agent := config.agent(each.agent)))
        root = next(filter(None, own), config.workspace.root)
        return Terms(
            root=Path(os.path.expanduser(root)) if root else here,  # noqa: PTH111  Path's own raises for a user who is not there
            access=config.sandbox.workspace_access if who.is_sandboxed else "rw",
            protected=config.workspace.protected,
            linked=config.workspace.linked,
            own=(*loaded.document.files, *kept),
        )

    return terms


def _here() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:  # somebody removed it; what needs it says so when it is used
        return Path()
