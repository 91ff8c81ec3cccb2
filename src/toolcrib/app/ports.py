"""What the tools of a caller may touch: its files, the services, the blobs."""

import os
from collections.abc import Mapping
from pathlib import Path

from toolcrib.backends.sandboxes.local import Terms, Workspaces
from toolcrib.config.load import Loaded
from toolcrib.define import session
from toolcrib.define.caller import Caller
from toolcrib.define.context import Ports
from toolcrib.define.ports import Blobs
from toolcrib.policy.layers import agent_of, is_sandboxed
from toolcrib.services.router import Router

__all__ = ["PortsOf"]


class PortsOf:
    """Opens the ports of callers over one configuration."""

    def __init__(self, loaded: Loaded, router: Router, blobs: Blobs) -> None:
        self._loaded, self._router, self._blobs = loaded, router, blobs
        self._workspaces = Workspaces()

    def __call__(self, caller: Caller) -> Ports:
        """Return what the tools of this caller may touch."""
        workspace = self._workspaces.open(self._terms(caller), caller.session or "")
        return Ports(workspace=workspace, rpc=self._router.rpc_for(caller), blobs=self._blobs)

    def _terms(self, caller: Caller) -> Terms:
        config, policy = self._loaded.config, self._loaded.policy
        root = self._folder_of(agent_of(caller)) or config.workspace.root
        return Terms(
            root=Path(os.path.expanduser(root)) if root else Path.cwd(),  # noqa: PTH111  Path's own raises for a user who is not there
            access=config.sandbox.workspace_access if is_sandboxed(policy, caller) else "rw",
            protected=config.workspace.protected,
            linked=config.workspace.linked,
            own=tuple(self._loaded.document.files),
        )

    def _folder_of(self, agent: str) -> str | None:
        """Return the folder the configuration gives an agent of its own."""
        agents = self._loaded.config.agents
        listed = agents.items() if isinstance(agents, Mapping) else ((each.id or "", each) for each in agents)
        return next((each.workspace for id, each in listed if session.to_agent(id) == agent), None)
