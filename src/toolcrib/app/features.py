"""The features of a crib, in the order in which they are mounted and started; closed, they are in the reverse of it.

A feature is a module with `mount(core) -> Feature` (services/feature.py) and one line here, which hands in what its
floor may not import: backends and the agent.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from toolcrib.agent.replay import judge_from
from toolcrib.agent.session_log import recall
from toolcrib.backends.browsers.pages import ChromiumPages
from toolcrib.backends.exec.shells import LocalShells
from toolcrib.backends.files.local import Workspaces
from toolcrib.backends.mcp.reach import McpReach
from toolcrib.backends.memory.disk import DiskMemory
from toolcrib.backends.memory.embedders import make_embedder
from toolcrib.backends.memory.notes import MemoryFolder
from toolcrib.backends.ocr import Tesseract
from toolcrib.backends.stores.sessions_json import read_log, write_log
from toolcrib.backends.voices.providers import LocalAndHostedVoices
from toolcrib.backends.web.search import make_provider
from toolcrib.config.read import Document
from toolcrib.define.errors import CribError
from toolcrib.registry.catalog import Catalog, Problem, groups_of
from toolcrib.services import (
    agents,
    approvals,
    audit,
    browser,
    calls,
    canvas,
    channels,
    chat,
    completions,
    configuration,
    cron,
    deploy,
    devices,
    effective,
    exec,
    gateway,
    hook_programs,
    mcp,
    memory,
    nodes,
    peers,
    quotas,
    review,
    revocation,
    search,
    session_commands,
    session_send,
    sessions,
    toolbox,
    usage,
    vision,
    voice,
)
from toolcrib.services.feature import Core, Feature, Mount, TurnCore, TurnMount
from toolcrib.services.subagents import service as subagents

from . import policies

FEATURES: tuple[Mount, ...] = (
    revocation.mount,
    approvals.mount,
    calls.mount,
    partial(quotas.mount, groups_of=groups_of),
    effective.mount,
    partial(exec.mount, shells=LocalShells, environ=os.environ),
    partial(mcp.mount, backend=McpReach),
    partial(audit.mount, rederive=judge_from),
    agents.mount,
    devices.mount,
    nodes.mount,
    partial(browser.mount, backend=ChromiumPages),
    partial(search.mount, provider=make_provider),
    partial(vision.mount, reader=Tesseract),
    partial(voice.mount, backend=LocalAndHostedVoices, workspaces=Workspaces),
    partial(memory.mount, index=DiskMemory, embedder=make_embedder, files=MemoryFolder),
    review.mount,
    hook_programs.mount,  # the last: their guards are the first that are asked
)
# What looks at turns or starts them stands behind them: it is mounted after them, and closed before.
TURN_FEATURES: tuple[TurnMount, ...] = (
    partial(sessions.mount, recall=recall, codec=sessions.LogCodec(read_log, write_log)),
    session_commands.mount,
    usage.mount,
    subagents.mount,
    chat.mount,
    peers.mount,
    canvas.mount,
    deploy.mount,
    completions.mount,
    session_send.mount,
    toolbox.mount,
    gateway.mount,
    configuration.mount,
    policies.mount,
    partial(channels.mount, workspaces=Workspaces),
    cron.mount,
)

C = TypeVar("C", bound=Core)


def mount_features(core: C, mounts: Iterable[Callable[[C], Feature]]) -> tuple[Feature, ...]:
    """Mount features in their order; each finds the services of those before it."""
    features: list[Feature] = []
    for mount in mounts:
        feature = mount(core)
        if feature.guards and isinstance(core, TurnCore):  # it would come too late: the pipeline is made
            raise CribError("a feature that looks at turns brings no guards; mount them by one in FEATURES")
        core.mounted.extend(feature.services)
        features.append(feature)
    return tuple(features)


def find_secrets(document: Document, *path: str) -> Iterator[str]:
    """Yield what the environment gave to the part of a configuration below a path."""
    for each in document.referenced:
        if each[: len(path)] == path:
            value: Any = document.value
            for key in each:
                value = value[key]
            if isinstance(value, str):
                yield value


def join_tools(catalog: Catalog, features: Sequence[Feature]) -> Catalog:
    """Return the catalog with the tools that features bring now, and what is wrong with the others."""
    tools, problems = dict(catalog.tools), list[Problem]()
    for source in (feature.tools for feature in features if feature.tools is not None):
        for tool in source.tools():
            first = tools.setdefault(tool.name, tool)
            if first is not tool:
                taken = f"{tool.source} offers a tool {tool.name!r}, which {first.source} has; it was left out"
                problems.append(Problem(tool.source, taken))
        problems += [Problem(*each) for each in source.problems()]
    if not problems and len(tools) == len(catalog):
        return catalog
    return Catalog(tools, (*catalog.problems, *problems))
