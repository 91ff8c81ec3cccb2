"""Which agents a crib has: the shelf's, those of plugins, the user's own files, and a workspace's once accepted."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote

import platformdirs

from toolcrib.backends.agent_files import AgentFile, agent_files, read_agent_file
from toolcrib.backends.stores.accepted_agents import AcceptedAgents
from toolcrib.config.load import Loaded
from toolcrib.config.parse import parse_yaml
from toolcrib.define.display import escape_unprintable
from toolcrib.registry.agents import AgentOffer, Agents, KnownNames, collect_agents
from toolcrib.registry.catalog import Catalog, Problem
from toolcrib.registry.sources import Offer
from toolcrib.tools import AGENTS

from .plugins import enabled_plugins

__all__ = ["AgentFolders", "accepted_agents", "agents_for", "file_at", "folders_for"]

IN_WORKSPACE = Path(".toolcrib", "agents")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFolders:
    """Where files of agents are looked for: `own` holds the user's, None for none; a workspace's need a yes each.

    Every agent of the configuration may have a workspace of its own. What any of them brings, once accepted, is there
    for all: whom it serves is a matter of policy, as with any other tool.
    """

    own: Path | None
    workspaces: tuple[Path, ...]
    accepted: AcceptedAgents


def folders_for(loaded: Loaded, env: Mapping[str, str], state: Path | None, *, own: bool) -> AgentFolders:
    """Return the folders of a crib; with `own` the user's are among them."""
    roots = [loaded.config.workspace.root or "", *(each.workspace for _, each in loaded.config.listed_agents())]
    workspaces: dict[Path, Path] = {}
    for root in roots:
        if root is not None:
            folder = Path(os.path.expanduser(root))  # noqa: PTH111  Path's own raises for a user who is not there
            workspaces.setdefault(_place(folder), folder)
    return AgentFolders(
        own=Path(platformdirs.user_config_dir("toolcrib", appauthor=False)) / "agents" if own else None,
        workspaces=tuple(workspaces.values()),
        accepted=accepted_agents(env, state),
    )


def accepted_agents(env: Mapping[str, str], state: Path | None) -> AcceptedAgents:
    """Return what the owner accepted: it stands in the state folder, which is the user's when none is named."""
    named = env.get("TOOLCRIB_STATE", "").strip()
    folder = state or (Path(named) if named else platformdirs.user_state_path("toolcrib", appauthor=False))
    return AcceptedAgents(folder / "agents")


def agents_for(
    loaded: Loaded, catalog: Catalog, offers: Iterable[Offer], folders: AgentFolders, *, imported: bool = True
) -> Agents:
    """Return the agents that exist; whatever cannot be used is told with its file and line, and takes nobody along.

    Where plugins were not `imported`, nobody knows what agents they would bring, and a name that is missing may be one.
    """
    problems: list[Problem] = []
    found = [AgentOffer(agent=agent, source="core") for agent in AGENTS]
    found += [AgentOffer(agent=agent, source=offer.source) for offer in offers for agent in offer.agents]
    if folders.own is not None:
        is_inside = any(_is_within(folders.own, each) for each in folders.workspaces)
        found += _from_files(folders.own, folders.accepted if is_inside else None, "user", problems)
    for workspace in folders.workspaces:
        found += _from_files(workspace / IN_WORKSPACE, folders.accepted, "workspace", problems)
    known = KnownNames(
        catalog, servers=tuple(loaded.config.mcp_servers), is_whole=imported or not enabled_plugins(loaded.config)
    )
    agents = collect_agents(found, known, problems)
    # the name of a file is whatever somebody gave it
    told = tuple(replace(problem, sentence=escape_unprintable(problem.sentence)) for problem in agents.problems)
    return replace(agents, problems=told)


def file_at(path: Path) -> AgentFile:
    """Read one file of an agent, accepted or not."""
    return read_agent_file(path, parse_yaml)


def _from_files(
    folder: Path, accepted: AcceptedAgents | None, source: str, problems: list[Problem]
) -> Iterable[AgentOffer]:
    """Yield the agents in a folder; with `accepted`, those alone whose content was."""
    for file in agent_files(folder, parse_yaml):
        if accepted is not None and file.digest and accepted.find(file.digest) is None:
            problems.append(Problem("agents", _withheld(file, accepted)))
            continue
        problems += [Problem("agents", f"{each} (the agent was left out)") for each in file.complaints]
        if file.agent is not None:
            yield AgentOffer(agent=file.agent, source=source, file=str(file.path), lines=file.lines)


def _withheld(file: AgentFile, accepted: AcceptedAgents) -> str:
    """Say that a file of a workspace is not used, and how its owner can change that."""
    before = accepted.of_file(str(file.path.absolute()))
    why = "changed since it was accepted" if before else "nobody has accepted it"
    return f"{file.path}: {why}, so it is not used; look at it, then `toolcrib agents accept {quote(str(file.path))}`"


def _is_within(folder: Path, root: Path) -> bool:
    """Tell whether tools could write there: what lies in a workspace is nobody's configuration."""
    try:
        return folder.resolve().is_relative_to(root.resolve())
    except FileNotFoundError:  # the current folder is gone, and nothing can lie in it
        return False


def _place(folder: Path) -> Path:
    """Return one name for a folder that may be written in several ways."""
    try:
        return folder.resolve()
    except FileNotFoundError:
        return folder
