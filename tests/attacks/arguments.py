"""attacks/arguments on whole cribs: rules about arguments, and calls that mean what they do not say.

An attack is held when the call is refused (or leaves out what it may not tell), nothing secret is told, nothing in
`docs` has changed, nobody paid, and no page of the refused hosts was asked for. A benign twin is served when it
succeeds.
"""

import asyncio
import logging
import tempfile
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import toolcrib
from toolcrib import Caller, Ctx, Result, Tool, tool
from toolcrib.agent.hooks import bind_guards
from toolcrib.define.plugin import Hook, Rewrite
from toolcrib.define.web import Page
from toolcrib.testing import FakeApprover

from . import Outcome, broken, kept

Json = dict[str, Any]

_FILES = {
    "docs/plan.md": "SECRET plan\n",
    "docs/sub/deep.md": "SECRET deep\n",
    "src/main.py": "print('ok')\n",
    "notes.txt": "hello\n",
    "docs-old/a.md": "old\n",
}
_LINKS = {"link": "docs", "alias.md": "docs/plan.md", "src/up": "../docs", "inner": "link", "fine": "src"}
_REDIRECTS = {"https://short.test/x": "https://evil.test/", "https://short.test/y": "https://good.test/page"}
_CALLER = Caller(owner=True, provider="openai", model="gpt-5")
_OPEN = {"type": "object", "properties": {}, "additionalProperties": True}
_QUIET = logging.NullHandler()


class _Hops:
    """A web that redirects; every address is judged before it is asked."""

    def __init__(self) -> None:
        self.judges: list[Callable[[str], None]] = []
        self.asked: list[str] = []

    def judge_with(self, judge: Callable[[str], None], /) -> "_Hops":
        judged = copy(self)
        judged.judges = [*self.judges, judge]
        return judged

    async def get(self, url: str, /, **terms: Any) -> Page:
        while True:
            for judge in self.judges:
                judge(url)
            self.asked.append(url)
            if url not in _REDIRECTS:
                return Page(url=url, status=200, headers={"content-type": "text/plain"}, body=b"a page")
            url = urljoin(url, _REDIRECTS[url])

    async def send(self, method: str, url: str, /, **terms: Any) -> Page:
        return await self.get(url)


def _make_tools(paid: list[Any]) -> list[Tool]:
    @tool(effects={"send"}, aliases={"recipient": "to"})
    async def pay(
        ctx: Ctx, amount: float = 10, to: str = "shop", urgent: bool = False, tags: list[str] | None = None
    ) -> Result:
        """Pay somebody."""
        paid.append(ctx.call.args)
        return Result.text("paid")

    @tool(effects={"send"}, parameters=_OPEN)
    async def relay(ctx: Ctx, args: Mapping[str, Any]) -> Result:
        """Do what another program is told to."""
        paid.append(dict(args))
        return Result.text("done")

    return [pay, relay]


def judge(case: Json, profiles: Json) -> Outcome:
    """Build the case's crib, make its call, and look at what came of it."""
    log = logging.getLogger("toolcrib")
    log.addHandler(_QUIET)
    try:
        with tempfile.TemporaryDirectory() as folder:
            return asyncio.run(_called(case, Path(folder)))
    finally:
        log.removeHandler(_QUIET)


async def _called(case: Json, folder: Path) -> Outcome:
    root, setup, paid, web = folder / "work", case["setup"], list[Any](), _Hops()
    for name, text in _FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for name, target in _LINKS.items():
        (root / name).symlink_to(target)
    config = {"workspace": {"root": str(root)}, "tools": setup["tools"], "browser": {"enabled": False}}
    crib = toolcrib.open(config, tools=_make_tools(paid), state=folder / "state")
    belt = crib.belt(_CALLER, approver=FakeApprover(answers=[False] * 3))
    belt = replace(belt, ports=replace(belt.ports, http=web))
    if changed := setup.get("rewrites"):
        guard = Hook(run=lambda ctx, args: Rewrite(changed), name="rewriter")
        belt = replace(belt, pipeline=replace(belt.pipeline, guards=(*bind_guards([guard]), *belt.pipeline.guards)))
    result = await belt.call(case["input"]["tool"], case["input"]["args"])
    await crib.close()
    if case["kind"] == "benign":
        return kept() if result.status == "ok" else broken(f"refused: {result.plain_text[:200]}")
    held = {str(path.relative_to(root)): path.read_text() for path in (root / "docs").rglob("*") if path.is_file()}
    told = [] if held == {name: text for name, text in _FILES.items() if name.startswith("docs/")} else ["docs changed"]
    told += [] if result.status == "error" or case["must"]["result"] == "left out" else ["it was not refused"]
    told += ["a secret was told"] if "SECRET" in result.plain_text else []
    told += [f"done: {each}" for each in paid]
    told += [url for url in web.asked if "evil" in url or "10." in url]
    return broken(f"{', '.join(told)}") if told else kept()
