"""Deploying: a folder with pages under a key of its own at the canvas host, and the program that is run with it."""

import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import Field

from toolcrib.define.caller import Caller
from toolcrib.define.errors import ToolError
from toolcrib.define.ports import rpc
from toolcrib.define.schema.annotations import JsonObject

from .canvas import Canvas, Canvases
from .feature import Feature, TurnCore
from .revocation import LiveWork, Revocations

_MAX_PREVIEWS = 64
_WAIT_MS = 120_000
_UNTIL = "this session ends or the gateway stops"

_Folder = Annotated[str, Field(min_length=1, max_length=1024)]


def mount(core: TurnCore) -> Feature:
    """Mount what previews are served and deployed by."""
    deploys = Deploys(core, core.find(Canvases))
    core.session_ends.append(deploys.end_session)
    core.find(Revocations).watch(deploys.list_live)
    return Feature(services=(deploys,))


class Deploys:
    """The previews of one crib, each under a key that opens it alone, until its session or the gateway ends."""

    def __init__(self, core: TurnCore, canvases: Canvases) -> None:
        self._core, self._canvases = core, canvases

    @rpc("deploy.serve", clients="admin", tools="write")
    async def serve(
        self,
        caller: Caller,
        tool: Annotated[str, "the tool of the call; files are read as a call of it comes to them"],
        args: Annotated[JsonObject, "the arguments of the call"],
        folder: _Folder,
    ) -> dict[str, Any]:
        """Serve a folder of the workspace; return its address, "" without a gateway, and whether a program is named."""
        found = {"url": "", "until": "", "runs": bool(self._core.config.deploy.run)}
        if self._canvases.host is None:
            return found
        previews, opened_by = self._canvases.previews, (tool, args)
        made = Canvas(caller, kind="file", content=str(PurePosixPath(folder) / "index.html"), opened_by=opened_by)
        await self._canvases.read_file(made, "")
        same = (
            each
            for each in previews
            if (each.caller, each.content, each.opened_by) == (caller, made.content, opened_by)
        )
        if (preview := next(same, None)) is None:
            previews.append(preview := made)
        del previews[:-_MAX_PREVIEWS]
        return {**found, "url": f"{self._canvases.host('')}/p/{preview.inside}/", "until": _UNTIL}

    @rpc("deploy.run", clients="admin", tools="write", starts_turn=True)
    async def run(self, caller: Caller, folder: _Folder) -> dict[str, Any]:
        """Run the program of `deploy.run` with a folder as its last argument: a call of exec, judged as any other."""
        argv = self._core.config.deploy.run
        if not argv:
            raise ToolError("the configuration has no deploy.run", code="unavailable")
        line = shlex.join([*argv, f"./{folder}" if folder.startswith("-") else folder])
        outside: Sequence[str] = self._core.aside.read_course(caller)[1]
        belt = self._core.belt_of(self._core.assign_model(caller, ""), sources=outside)
        result = await belt.call("exec", {"command": line, "yieldMs": _WAIT_MS})
        sources = [part.source for part in result.content if part.source]
        return {**result.to_json(), **({"sources": sources} if sources else {})}

    async def end_session(self, session: str) -> None:
        """Serve no more what a session has deployed."""
        for each in [each for each in self._canvases.previews if each.session == session]:
            self._canvases.previews.remove(each)

    def list_live(self) -> list[LiveWork]:
        """Return every preview, and whose it is."""
        return [LiveWork(each.caller, partial(self._end, each)) for each in self._canvases.previews]

    def _end(self, preview: Canvas) -> None:
        if preview in self._canvases.previews:
            self._canvases.previews.remove(preview)
