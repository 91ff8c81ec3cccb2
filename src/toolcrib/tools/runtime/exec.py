"""exec: run a command. The judge has looked at it before; what it let through is kept under the key of the call."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from toolcrib import Ctx, Result, tool

from ._told import ended, running

__all__ = ["exec"]


@tool(
    group="runtime",
    aliases={"cwd": "workdir"},
    timeout=900.0,  # a command goes to the background long before; waiting for its turn may take a while
    limit=210_000,
)
async def exec(  # noqa: PLR0913  as models know it
    ctx: Ctx,
    command: Annotated[str, Field(min_length=1, description="the command line, as for bash")],
    workdir: Annotated[str, "the folder to run it in, relative to the workspace"] = ".",
    env: Annotated[dict[str, str] | None, "variables to set for it, besides the usual ones"] = None,
    yieldMs: Annotated[int | None, "milliseconds to wait before it goes to the background"] = None,  # noqa: N803
    background: Annotated[bool, "send it to the background at once; it can then be typed to"] = False,
    timeout: Annotated[float | None, "seconds after which it is ended"] = None,
    pty: Annotated[bool, "give it a terminal, for programs that need one"] = False,
) -> Result:
    """Run a shell command in the workspace and return what it prints, stdout and stderr as they come.

    A command that takes long goes to the background under a name; follow it with process. Use read, edit, grep, find
    and ls for files where they will do.
    """

    def told(part: Mapping[str, Any]) -> None:
        ctx.progress(Result.text(part["tail"], details={"status": "running", **part}))

    # the command itself is not passed on: what starts is what was judged under this key
    asked = {
        "call": ctx.call.key,
        "wait": None if yieldMs is None else yieldMs / 1000,
        "background": background,
        "seconds": timeout,
        "pty": pty,
    }
    state = await ctx.rpc("process.start", asked, progress=told)
    return running(state) if state["status"] == "running" else ended(state)
