"""attacks/resources: what a server sends to web_fetch: bombs, bodies and heads without end, odd pages."""

import asyncio
import json
import sys
from collections.abc import Mapping
from typing import Any

import toolcrib
from toolcrib import OWNER, Result

from . import Outcome, broken, kept, resources
from .lateness import Lateness, Stopwatch

Json = Mapping[str, Any]


def judge(case: Json, limits: Json) -> Outcome:
    """Serve what the case describes, fetch it, and measure."""
    must = case["must"]
    before, watch = resources.measure_held(begins=True), Stopwatch()
    result, late = asyncio.run(_fetch(case["input"], limits))
    took, after = watch.took, resources.measure_held()
    complaints = [late] if must.get("alive_during") and late else []
    if must["verdict"] == "allow" and result.status != "ok":
        complaints.append(f"refused: {result.plain_text}")
    if must["verdict"] == "reject" and result.status == "ok":
        complaints.append("it was let through")
    if len(result.plain_text) > must.get("result_chars", 60_000):
        complaints.append(f"the result has {len(result.plain_text)} characters")
    complaints += resources.measure({**must, "alive_during": False}, took, before, after)
    seen = {"status": result.status, "text": result.plain_text[:200]}
    return broken("; ".join(complaints), seen) if complaints else kept(seen)


async def _fetch(asked: Json, limits: Json) -> tuple[Result, str]:
    watch, words = Lateness(), (sys.executable, "-m", f"{__package__}.resources_server", json.dumps(dict(asked["gen"])))
    # what makes the bytes is a process of its own: its work is not ours
    server = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    assert server.stdout is not None
    place = f"127.0.0.1:{int(await server.stdout.readline())}"
    web = {"ssrf": {"allowPrivate": [place]}, "fetch": {"maxChars": limits["result_chars"]}}
    async with toolcrib.open({"web": web}) as crib, watch:
        result = await crib.belt(OWNER).call("web_fetch", {"url": f"http://{place}/", **asked.get("args", {})})
    server.kill()
    await server.wait()
    return result, watch.complaint
