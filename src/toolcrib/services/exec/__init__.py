"""Commands: the judge before them, the processes they become, and their output."""

from collections.abc import Callable, Mapping

from toolcrib.define.web import WayOut
from toolcrib.services.approvals import Approvals
from toolcrib.services.feature import Core, Feature
from toolcrib.services.revocation import Revocations

from .judge import TOOL, CommandRunner, Shells


def mount(core: Core, shells: Callable[[WayOut], Shells], environ: Mapping[str, str]) -> Feature:
    """Mount the tools' way to commands; `environ` is what the operator lends from. A yes lasts as the judge says."""
    commands = CommandRunner(
        settings=core.settings,
        terms_of=core.terms_of,
        shells=shells(core.way_out),
        blobs=core.stores.blobs,
        environ=environ,
        explain_unaccepted=core.explain_unaccepted,
    )
    commands.processes.is_theirs, commands.redact = core.is_theirs, core.redact
    core.find(Revocations).watch(commands.processes.list_live)
    core.find(Approvals).lend_lines(TOOL, "command", commands.can_lend)
    return Feature(services=(commands.processes, commands), guards=(commands.guard,), close=commands.close)
