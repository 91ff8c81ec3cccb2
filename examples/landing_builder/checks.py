"""The checks of `validate_page`: what axe, Chromium and Lighthouse say of a page, as issues, each with a cure."""

import asyncio
import json
import os
import shutil
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from toolcrib import Ctx, ToolError

Check = Literal["accessibility", "performance", "responsive", "seo", "links"]
Evaluate = Callable[[str], Awaitable[Any]]
"""Evaluates a function in the page."""

VIEWPORTS = {"desktop": (1440, 900), "tablet": (768, 1024), "mobile": (375, 812)}

_WEIGHTS = {"critical": 25, "serious": 15, "moderate": 7, "minor": 3}
_CATEGORIES = {"accessibility": "accessibility", "performance": "performance", "seo": "seo"}
_MAX_ISSUES, _MAX_TARGETS, _MAX_OUTSIDE_LINKS = 40, 5, 20
_LINK_SECONDS, _LIGHTHOUSE_SECONDS = 8.0, 90.0
_MAX_BYTES, _SLOW_PAINT_MS, _MAX_SHIFT = 1_000_000, 2_500, 0.1
_TITLE_CHARS, _DESCRIPTION_CHARS = (10, 60), (50, 160)
_AXE = """async () => {{ {source}
  const found = await axe.run(document, {{resultTypes: ["violations"]}});
  return found.violations.map(each => ({{
    rule: each.id, impact: each.impact ?? "minor", message: each.help,
    targets: each.nodes.map(node => node.target.flat().join(" ")),
    why: each.nodes[0]?.failureSummary ?? "",
  }}));
}}"""


@dataclass(frozen=True, slots=True)
class Issue:
    """One fault: which check found it by which rule, how bad it is, where, and what would mend it."""

    check: Check
    rule: str
    impact: str
    message: str
    fix: str = ""
    targets: tuple[str, ...] = ()
    viewport: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return what is known of it."""
        return {name: value for name, value in (asdict(self) | {"targets": list(self.targets)}).items() if value}


@dataclass(slots=True)
class Inspection:
    """A page under inspection: how to evaluate in it and to give its window a width, and what was found so far."""

    ctx: Ctx
    url: str
    evaluate: Evaluate
    resize: Callable[[str], Awaitable[None]]
    issues: list[Issue]
    suggestions: list[str]


async def measure_layout(evaluate: Evaluate) -> dict[str, Any]:
    """Return how the page lies in its window."""
    measured: dict[str, Any] = await evaluate(f"() => {{ {_script()}\n return layout(); }}")
    return measured


async def inspect_page(page: Inspection, checks: Sequence[Check], chromium: str) -> dict[str, Any]:
    """Return score, issues and suggestions."""
    facts = await page.evaluate(f"async () => {{ {_script()}\n return await facts(); }}")
    for viewport in VIEWPORTS:
        await page.resize(viewport)
        if "responsive" in checks:
            page.issues += _judge_layout(viewport, await measure_layout(page.evaluate))
        if "accessibility" in checks and viewport != "tablet":
            page.issues += _merge_axe(page.issues, viewport, await page.evaluate(_AXE.format(source=_read_axe())))
    if "responsive" in checks and "width=device-width" not in facts["viewport"].replace(" ", ""):
        fix = 'add <meta name="viewport" content="width=device-width, initial-scale=1"> to the head'
        page.issues.append(
            Issue("responsive", "viewport", "serious", "phones show the page as wide as a desktop's", fix)
        )
    for check, judge in (("performance", _judge_performance), ("seo", _judge_seo), ("links", _judge_links)):
        if check in checks:
            page.issues += judge(facts)
    if "links" in checks:
        await _follow_links(page, facts["links"])
    if "seo" in checks:
        page.suggestions += _suggest(facts)
    return await _sum_up(page, checks, facts, chromium)


async def _sum_up(page: Inspection, checks: Sequence[Check], facts: Mapping[str, Any], chromium: str) -> dict[str, Any]:
    order = list(_WEIGHTS)
    issues = sorted(page.issues, key=lambda each: order.index(each.impact))
    scores = {
        check: max(0, 100 - sum(_WEIGHTS[each.impact] for each in issues if each.check == check)) for check in checks
    }
    told: dict[str, Any] = {
        "score": round(sum(scores.values()) / len(scores)),
        "scores": scores,
        "issues": [each.to_json() for each in issues[:_MAX_ISSUES]],
        "suggestions": page.suggestions + [f"{each.fix} ({each.rule})" for each in issues[:_MAX_ISSUES] if each.fix],
    }
    if "performance" in checks:
        told["measured"] = {
            name: round(facts[name], 3) for name in ("load", "paint", "lcp", "cls", "bytes", "requests", "nodes")
        }
    if len(issues) > _MAX_ISSUES:
        told["more"] = len(issues) - _MAX_ISSUES
    if program := shutil.which("lighthouse"):
        told["lighthouse"] = await _run_lighthouse(program, page.url, checks, chromium)
    return told


# what is a fault


def _judge_layout(viewport: str, laid: Mapping[str, Any]) -> Iterator[Issue]:
    if laid["scrolls"]:
        message = f"it scrolls sideways: {laid['width']} px in a window of {laid['room']} px"
        fix = "give what is too wide max-width: 100%, or let it wrap"
        yield Issue("responsive", "horizontal-scroll", "serious", message, fix, tuple(laid["wide"]), viewport)
    if viewport == "mobile" and laid["small"]:
        message, fix = "fingers miss targets of less than 24 px", "give them a min-height of 24 px and padding"
        yield Issue("responsive", "target-size", "moderate", message, fix, _cut(laid["small"]), viewport)
    if viewport == "mobile" and laid["tiny"]:
        message, fix = "text of less than 12 px cannot be read on a phone", "make it 12 px at least"
        yield Issue("responsive", "small-text", "moderate", message, fix, _cut(laid["tiny"]), viewport)


def _merge_axe(known: Iterable[Issue], viewport: str, found: Iterable[Mapping[str, Any]]) -> Iterator[Issue]:
    """Yield what axe found that is not known from another width."""
    seen = {(each.rule, target) for each in known for target in each.targets}
    for each in found:
        if targets := _cut([target for target in each["targets"] if (each["rule"], target[:200]) not in seen]):
            fix = " ".join(each["why"].split()).removeprefix("Fix any of the following: ")[:300]
            yield Issue("accessibility", each["rule"], each["impact"], each["message"], fix, targets, viewport)


def _judge_performance(facts: Mapping[str, Any]) -> Iterator[Issue]:
    if facts["lcp"] > _SLOW_PAINT_MS:
        message = f"its largest part is there after {facts['lcp']:.0f} ms"
        yield Issue(
            "performance", "slow-paint", "serious", message, f"less than {_SLOW_PAINT_MS} ms is good: load less"
        )
    if facts["cls"] > _MAX_SHIFT:
        message = f"it moves by {facts['cls']:.2f} while it loads"
        yield Issue("performance", "layout-shift", "serious", message, "reserve room for what comes late")
    if facts["bytes"] > _MAX_BYTES:
        message = f"it has {facts['bytes']:,} bytes"
        yield Issue(
            "performance", "weight", "moderate", message, "make pictures smaller, and leave out what is not used"
        )
    if facts["outside"]:
        message = "it loads from elsewhere: " + ", ".join(url[:80] for _, url in facts["outside"][:3])
        fix = "keep a copy beside the page; nothing of a CDN is loaded here"
        yield Issue(
            "performance", "outside-resource", "serious", message, fix, _cut(name for name, _ in facts["outside"])
        )
    if facts["blocking"]:
        message, fix = "scripts in the head hold up the page", "add defer"
        yield Issue("performance", "blocking-script", "moderate", message, fix, _cut(facts["blocking"]))
    if facts["unsized"]:
        message, fix = "pictures without width and height move the page as they load", "add both attributes"
        yield Issue("performance", "image-size", "minor", message, fix, _cut(facts["unsized"]))


def _judge_seo(facts: Mapping[str, Any]) -> Iterator[Issue]:
    for rule, name, (least, most) in (
        ("document-title", "title", _TITLE_CHARS),
        ("meta-description", "description", _DESCRIPTION_CHARS),
    ):
        count = len(facts[name])
        if not count:
            yield Issue("seo", rule, "serious", f"it has no {name}", f"add one of {least} to {most} characters")
        elif not least <= count <= most:
            message = f"its {name} has {count} characters"
            yield Issue("seo", f"{rule}-length", "minor", message, f"make it {least} to {most} characters")
    if facts["headings"] != 1:
        yield Issue("seo", "one-h1", "moderate", f"it has {facts['headings']} h1", "give it exactly one")
    if not facts["lang"]:
        yield Issue("seo", "html-lang", "moderate", "it does not say its language", 'write <html lang="en">')
    if "noindex" in facts["robots"]:
        yield Issue("seo", "noindex", "serious", "it tells search engines to stay away", "remove noindex")


def _judge_links(facts: Mapping[str, Any]) -> Iterator[Issue]:
    for link in facts["links"]:
        href, where = link["href"], (link["target"],)
        if href.strip() in ("", "#") or href.strip().lower().startswith("javascript:"):
            yield Issue(
                "links", "empty-link", "moderate", f"the link {href!r} leads nowhere", "give it a target", where
            )
        elif link["isMissing"]:
            message = f"nothing on the page has the id that {href[:80]!r} leads to"
            yield Issue("links", "missing-anchor", "serious", message, "correct the link, or add the id", where)
        elif link["isOurs"] and link["status"] != 200:
            message = f"{href[:80]!r} is answered with {link['status']}"
            yield Issue("links", "broken-link", "serious", message, "write that file, or correct the link", where)
    if facts["broken"]:
        message, fix = "pictures that are not there", "write that file, or correct the address"
        yield Issue("links", "broken-image", "serious", message, fix, _cut(facts["broken"]))


async def _follow_links(page: Inspection, links: Iterable[Mapping[str, Any]]) -> None:
    """Ask whether links to elsewhere lead somewhere; one that cannot be asked is no fault of the page."""
    there = {link["url"]: link["target"] for link in links if not link["isOurs"] and link["url"].startswith("http")}

    async def follow(url: str, target: str) -> None:
        try:
            status = (await page.ctx.http.get(url, most=65_536, seconds=_LINK_SECONDS, cuts=True)).status
        except ToolError as error:
            page.suggestions.append(f"{url[:120]} could not be checked ({error.code})")
            return
        if status in (404, 410) or status >= 500:
            message = f"{url[:120]} is answered with {status}"
            page.issues.append(Issue("links", "broken-link", "moderate", message, "correct the link", (target,)))

    async with asyncio.TaskGroup() as group:
        for url, target in list(there.items())[:_MAX_OUTSIDE_LINKS]:
            group.create_task(follow(url, target))


def _suggest(facts: Mapping[str, Any]) -> Iterator[str]:
    if not facts["shared"]:
        yield "add og:title, og:description and og:image, for those who share it"
    if not facts["icon"]:
        yield "add an icon: <link rel=icon href=icon.svg>"
    if facts["words"] < 80:
        yield f"{facts['words']} words are few for a search engine to go by"


def _cut(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name[:200] for name in names))[:_MAX_TARGETS]


# programs


def _script() -> str:
    return Path(__file__).with_name("checks.js").read_text(encoding="utf-8")


def _read_axe() -> str:
    try:
        return (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
    except ModuleNotFoundError:
        raise ToolError("accessibility is checked by axe; install toolcrib[browser]", code="unavailable") from None


async def _run_lighthouse(program: str, url: str, checks: Iterable[Check], chromium: str) -> dict[str, Any]:
    """Return Lighthouse's own scores, in a Chromium of its own that finds no other host; or why there are none."""
    wanted = ",".join(_CATEGORIES[check] for check in checks if check in _CATEGORIES)
    if not wanted:
        return {}
    flags = ["--headless", "--disable-gpu", "--no-first-run", "--disable-sync", "--disable-background-networking"]
    flags += [
        '--host-resolver-rules="MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"',
        *(["--no-sandbox"] if os.geteuid() == 0 else ()),
    ]
    env = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    process = await asyncio.create_subprocess_exec(
        program, url, "--quiet", "--output=json", "--output-path=stdout", f"--only-categories={wanted}",
        f"--chrome-flags={' '.join(flags)}", env={**env, "CHROME_PATH": chromium}, stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(_LIGHTHOUSE_SECONDS):
            out, _ = await process.communicate()
        found = json.loads(out)
        return {name: round(100 * (each["score"] or 0)) for name, each in found["categories"].items()}
    except (TimeoutError, ValueError, KeyError):
        return {"failed": f"{program} gave no report"}
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
