"""The landing-page builder: an agent writes a page, looks at it in a real browser, checks it, mends it and serves it.

toolcrib demo landing                                   # with no key
toolcrib chat --agent landing-builder --config examples/landing_builder/crib.yaml
"""

import base64
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import Field

from toolcrib import Ctx, Image, Plugin, Result, Text, Tool, ToolError, tool
from toolcrib.files import Listing
from toolcrib.hooks import Moment

from .checks import VIEWPORTS, Check, Inspection, inspect_page, measure_layout
from .preview import Preview, Previews, check_page, check_path
from .tailwind import build_css, read_source

AGENT = "landing-builder"
PROMPT = """\
You are a landing page builder. Generate a beautiful, responsive landing page based on the user's description. Use the
available tools to write files, preview the result, validate quality, and iterate until the page meets high standards.

1. Write index.html with its structure, then styles.css: it begins with @import "tailwindcss" and is made of the utility
   classes that you use. Load nothing from other hosts.
2. Look at a screenshot of the desktop, and mend the layout. Then look at one of a phone.
3. Validate accessibility, responsive, seo, performance and links; mend every issue; repeat until none is left.
4. Deploy the preview, and end with: Your landing page is ready at {url}
   Say in the line before until when it is there.
"""

_TEXTS = frozenset({"html", "css", "js", "svg", "json", "webmanifest", "txt", "xml"})
_SOURCE = ".src.css"  # what styles.css is made from, kept beside it
_SHOTS, _PROJECT = "screenshots", "."
_MAX_PAGES, _MAX_FAILED = 50, 5
_GOOD = range(200, 400)
_UNTIL = "this session ends, or the program that built it: `toolcrib run` ends with its answer"

Viewport = Literal["desktop", "tablet", "mobile"]


@tool(group="landing", effects={"write"}, exclusive=True)
async def write_html(
    ctx: Ctx,
    filename: Annotated[str, "File path relative to project root"],
    content: Annotated[str, "File content"],
) -> Result:
    """Write HTML/CSS/JS code for the landing page.

    A stylesheet that begins with @import "tailwindcss" is made of the utility classes in the pages.
    """
    path = _check_name(filename)
    told: dict[str, Any] = {"success": True, "path": path, "size": len(content.encode())}
    source = read_source(content) if path.endswith(".css") else None
    await ctx.workspace.write(path if source is None else _source_of(path), content.encode())
    if source is not None:
        told["css"] = await _make_css(ctx, path, source)
        told["size"] = (await ctx.workspace.stat(path)).size
    elif path.endswith(".html"):
        for name in await _list_names(ctx, _SOURCE):
            made = (await ctx.workspace.read(name)).decode()
            told["css"] = await _make_css(ctx, f"{name.removesuffix(_SOURCE)}.css", read_source(made) or "")
    by = f", styles by {told['css']['by']}" if "css" in told else ""
    return Result.json(told, display=f"{path}, {told['size']:,} bytes{by}")


def _builder() -> tuple[tuple[Tool, ...], Callable[[Moment], Awaitable[None]]]:
    """Return the tools that share previews, and what closes those of a session that is over."""
    previews = Previews()

    @tool(group="landing", effects={"read", "write"}, timeout=60)
    async def preview_screenshot(
        ctx: Ctx, viewport: Annotated[Viewport, "desktop 1440x900, tablet 768x1024, mobile 375x812"] = "desktop"
    ) -> Result:
        """Take a screenshot of the current landing page preview."""
        preview = await previews.open(ctx, _PROJECT)
        async with _show(ctx, preview) as page:
            await page.resize(viewport)
            laid = await measure_layout(page.evaluate)
            shot = await _ask(ctx, "POST", "/screenshot", {"targetId": page.tab})
            noted = await _ask(ctx, "GET", "/requests", {"targetId": page.tab})
        data, path = base64.b64decode(shot["base64"]), f"{_SHOTS}/{viewport}.png"
        await ctx.workspace.write(path, data)
        failed = [
            f"{each['url'][:120]} ({each['status']})" for each in noted["requests"] if each["status"] not in _GOOD
        ]
        words = [f"The page is {laid['width']}x{laid['height']} px."]
        words += [f"It scrolls sideways; too wide: {', '.join(laid['wide'])}."] if laid["scrolls"] else []
        words += [f"Not loaded: {', '.join(failed[:_MAX_FAILED])}."] if failed else []
        seen = {"viewport": viewport, "scrollsSideways": laid["scrolls"], "tooWide": laid["wide"], "notLoaded": failed}
        shown = Result.image(data, label=f"Screenshot taken ({viewport} viewport)", path=path, details=seen)
        # what the page is made of may be from anywhere
        review = Text("\n".join(words), preview.source)
        pictures = (part._replace(source=preview.source) for part in shown.content if isinstance(part, Image))
        return shown._replace(content=(shown.content[0], review, *pictures), display=f"{path}. {' '.join(words)}")

    @tool(group="landing", effects={"read", "network"}, timeout=180, limit=24_000)
    async def validate_page(ctx: Ctx, checks: Annotated[list[Check], "what is checked", Field(min_length=1)]) -> Result:
        """Validate the landing page for accessibility, performance, responsive design, SEO and link issues."""
        preview = await previews.open(ctx, _PROJECT)
        browser = await _ask(ctx, "GET", "/", {})
        async with _show(ctx, preview) as page:
            inspection = Inspection(ctx, preview.url, page.evaluate, page.resize, [], [])
            told = await inspect_page(inspection, list(dict.fromkeys(checks)), browser.get("executablePath", ""))
        rules = ", ".join(each["rule"] for each in told["issues"])
        return Result.json(told, source=preview.source, display=f"score {told['score']}; {rules or 'no issues'}")

    @tool(group="landing", effects={"read"}, timeout=900)
    async def deploy_preview(
        ctx: Ctx,
        projectDir: Annotated[str, "folder of the page, relative to project root"],  # noqa: N803  the document's
    ) -> Result:
        """Deploy the landing page to a preview URL for the user to review."""
        folder = str(PurePosixPath(projectDir.strip() or "."))
        if any(part.startswith("..") or part == "/" for part in PurePosixPath(folder).parts):
            raise ToolError(f"{projectDir!r} leads out of the project; name a folder in it, or .", code="denied")
        told, runs = await _serve(ctx, previews, folder)
        parts, sources = list[Text](), list[str]()
        if runs:
            ran = await ctx.rpc("deploy.run", {"folder": folder})
            sources, words = ran.get("sources", []), [each["text"] for each in ran["content"] if each["type"] == "text"]
            if ran["status"] == "error":
                raise ToolError(
                    f"the page is at {told['previewUrl']}, and deploying it failed: {' '.join(words)[:2_000]}"
                )
            told |= {"ran": (ran["details"] or {}).get("status", "completed")}
            parts = [Text("\n".join(["\nThe program that deploys it says:", *words]), sources[0] if sources else "")]
        done = Result.json(told, display=f"{told['previewUrl']} until {told['until']}")
        return done._replace(content=(*done.content, *parts))

    async def close_session(moment: Moment) -> None:
        await previews.close_session(moment.data["sessionKey"])

    # as document 003 calls them where it says what an agent may use
    aliases: list[Tool] = [
        replace(preview_screenshot, name="screenshot", optional=True),
        replace(deploy_preview, name="deploy", optional=True),
    ]
    return (preview_screenshot, validate_page, deploy_preview, *aliases), close_session


async def _serve(ctx: Ctx, previews: Previews, folder: str) -> tuple[dict[str, Any], bool]:
    """Return where a folder is served and until when, and whether a program is to be run with it.

    A gateway serves it under a key; else this process does, at a port of its own.
    """
    await check_page(ctx, folder)
    asked = {"tool": ctx.call.name, "args": {"projectDir": folder}, "folder": folder}
    served: Mapping[str, Any] = await ctx.rpc("deploy.serve", asked)
    if served["url"]:
        return {"previewUrl": served["url"], "deployed": True, "until": served["until"]}, served["runs"]
    preview = await previews.open(ctx, folder)
    return {"previewUrl": preview.url, "deployed": True, "until": _UNTIL}, served["runs"]


# files


def _check_name(filename: str) -> str:
    """Return a file of the page; ToolError for anything else, since a page is all that is written here."""
    with suppress(ValueError):
        path = check_path(filename)
        if path.rpartition(".")[2].lower() in _TEXTS:
            return path
    what = f"{filename[:200]!r} is no file of a page; name one like index.html, styles.css or js/menu.js"
    raise ToolError(what, code="bad_arguments")


def _source_of(path: str) -> str:
    return f"{path.removesuffix('.css')}{_SOURCE}"


async def _list_names(ctx: Ctx, ending: str) -> list[str]:
    listing: Listing = await ctx.workspace.list(_PROJECT)
    return [each.path for each in listing.entries if each.path.endswith(ending)][:_MAX_PAGES]


async def _make_css(ctx: Ctx, path: str, own: str) -> dict[str, Any]:
    pages = {
        name: (await ctx.workspace.read(name)).decode(errors="replace") for name in await _list_names(ctx, ".html")
    }
    css, told = await build_css(own, pages, shutil.which("tailwindcss"))
    await ctx.workspace.write(path, css.encode())
    return told


# pages


class _Page:
    """A tab that shows the preview."""

    def __init__(self, ctx: Ctx, tab: str) -> None:
        self._ctx, self.tab = ctx, tab

    async def resize(self, viewport: str) -> None:
        width, height = VIEWPORTS[viewport]
        await self._act({"kind": "resize", "width": width, "height": height})

    async def evaluate(self, function: str) -> Any:
        return (await self._act({"kind": "evaluate", "fn": function}))["result"]

    async def _act(self, what: Mapping[str, Any]) -> dict[str, Any]:
        return await _ask(self._ctx, "POST", "/act", {**what, "targetId": self.tab})


@asynccontextmanager
async def _show(ctx: Ctx, preview: Preview) -> AsyncIterator[_Page]:
    """Show the preview in a tab of the session's own browser, which may open it and nothing else of this machine."""
    await ctx.rpc("browser.permit", {"origin": preview.origin})
    opened = await _ask(ctx, "POST", "/tabs/open", {"targetUrl": preview.url})
    try:
        yield _Page(ctx, opened["targetId"])
    finally:
        with suppress(ToolError):  # it is closed already, where it did not answer
            await _ask(ctx, "DELETE", f"/tabs/{opened['targetId']}", {})


async def _ask(ctx: Ctx, method: str, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = await ctx.rpc("browser.preview", {"method": method, "path": path, "body": dict(body)})
    return told


def instruct(moment: Moment) -> dict[str, str] | None:
    """Give the agent its prompt; other agents keep theirs."""
    return {"systemPrompt": PROMPT} if moment.caller.agent == AGENT else None


_tools, _close_session = _builder()
plugin = Plugin(
    name="landing-builder",
    tools=(write_html, *_tools),
    hooks={"before_agent_start": instruct, "session_end": _close_session},
)
