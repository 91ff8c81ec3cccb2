"""styles.css made of Tailwind's utility classes: by the real Tailwind CLI where it is found, else by a small subset.

The subset knows the utilities that landing pages use, with colours close to Tailwind's, and says which classes it does
not know. What the author of the page wrote besides is appended as it is: the CLI never reads it, for a stylesheet can
have it load code (`@plugin`, `@config`).
"""

import asyncio
import os
import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from toolcrib import ToolError

_WANTED = re.compile(r"@import\s+(?:url\()?[\"']tailwindcss[^;]*;|@tailwind\s+\w+\s*;")
_REFUSED = re.compile(r"@(?:apply|theme|plugin|config|source|utility|variant|custom-variant|reference|import)\b")
_CLASSES = re.compile(r"\bclass(?:Name)?\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_VERSION = re.compile(r"tailwindcss v(\d+)\.[\d.]+")
_FRAMES = re.compile(r"\x1b\[[0-9;]*m|[│┌└]")
_CLI_SECONDS, _MAX_UNKNOWN = 60.0, 20


def read_source(css: str) -> str | None:
    """Return what a stylesheet says besides that it wants Tailwind; None where it does not want it."""
    if not _WANTED.search(css):
        return None
    own = _WANTED.sub("", css).strip()
    if found := _REFUSED.search(own):
        what = f"{found[0]} is not used here; write utilities in class attributes, and other rules as plain CSS"
        raise ToolError(what, code="bad_arguments")
    return own


async def build_css(own: str, pages: Mapping[str, str], program: str | None) -> tuple[str, dict[str, Any]]:
    """Return the stylesheet of these pages, and by what it was made: the CLI, where there is a `program`."""
    classes = sorted(
        {word for page in pages.values() for each in _CLASSES.findall(page) for word in "".join(each).split()}
    )
    told: dict[str, Any] = {}
    if program is not None:
        try:
            made, version = await _run_cli(program, pages)
            return f"{made}\n{own}\n", {"by": f"the Tailwind CLI, {version}", "classes": len(classes)}
        except (OSError, TimeoutError) as error:
            told["cli"] = f"{program} failed: {str(error)[:200] or type(error).__name__}"
    made, unknown = generate(classes)
    told = {"by": "the bundled subset of Tailwind", "classes": len(classes), **told}
    if left := [word for word in unknown if f".{_escape(word)}" not in own]:  # those that the author did not explain
        told["unknown"] = left[:_MAX_UNKNOWN]
    return f"{made}\n{own}\n", told


async def _run_cli(program: str, pages: Mapping[str, str]) -> tuple[str, str]:
    """Return what the CLI makes of copies of the pages in a folder of its own, where nothing else lies."""
    with tempfile.TemporaryDirectory(prefix="landing-") as folder:
        at = Path(folder)
        for number, page in enumerate(pages.values()):
            (at / f"{number}.html").write_text(page, encoding="utf-8")
        packages = next((each for each in Path(program).resolve().parents if each.name == "node_modules"), None)
        if packages is not None:  # npm's CLI takes the stylesheet that it builds on from there
            (at / "node_modules").symlink_to(packages)
        said = await _run(program, "--help", cwd=at)
        version = found[0].removeprefix("tailwindcss ") if (found := _VERSION.search(said)) else "of unknown version"
        if found and int(found[1]) < 4:
            source, more = "@tailwind base;\n@tailwind components;\n@tailwind utilities;\n", ["--content", "./*.html"]
        else:
            source, more = '@import "tailwindcss" source(none);\n@source "./*.html";\n', []
        (at / "in.css").write_text(source, encoding="utf-8")
        await _run(program, "-i", "in.css", "-o", "out.css", "--minify", *more, cwd=at)
        return (at / "out.css").read_text(encoding="utf-8"), version


async def _run(*words: str, cwd: Path) -> str:
    env = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "NODE_PATH") if name in os.environ}
    process = await asyncio.create_subprocess_exec(
        *words, cwd=cwd, env=env, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    try:
        async with asyncio.timeout(_CLI_SECONDS):
            said = (await process.communicate())[0].decode(errors="replace")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise OSError(" ".join(_FRAMES.sub("", said).split())[-200:])
    return said


# the subset

_SCREENS = {"sm": "40rem", "md": "48rem", "lg": "64rem", "xl": "80rem", "2xl": "96rem"}
_STATES = {
    "hover": ":hover", "focus": ":focus", "focus-visible": ":focus-visible", "active": ":active",
    "disabled": ":disabled", "first": ":first-child", "last": ":last-child",
}  # fmt: skip
_HUES = {  # where on the colour wheel, and how strong at most
    "slate": (255, 0.04), "gray": (262, 0.025), "zinc": (286, 0.012), "neutral": (0, 0.0), "stone": (60, 0.01),
    "red": (25, 0.22), "orange": (48, 0.19), "amber": (72, 0.17), "yellow": (92, 0.17), "lime": (128, 0.2),
    "green": (150, 0.18), "emerald": (163, 0.15), "teal": (184, 0.12), "cyan": (210, 0.12), "sky": (235, 0.15),
    "blue": (260, 0.21), "indigo": (277, 0.22), "violet": (293, 0.23), "purple": (304, 0.24),
    "fuchsia": (322, 0.26), "pink": (354, 0.22), "rose": (16, 0.22),
}  # fmt: skip
_SHADES = {  # how light, and how much of the strength
    "50": (98, 0.08), "100": (95.5, 0.16), "200": (92, 0.3), "300": (86, 0.5), "400": (74, 0.8), "500": (64, 1.0),
    "600": (55, 1.0), "700": (48, 0.9), "800": (41, 0.75), "900": (34, 0.6), "950": (25, 0.4),
}  # fmt: skip
_CHOICES: Mapping[str, Mapping[str, str]] = {
    "length": {"auto": "auto", "full": "100%", "px": "1px", "screen": "100vw", "fit": "fit-content"},
    "size": {  # of text, with its height of line
        "xs": ".75rem;line-height:1.33", "sm": ".875rem;line-height:1.43", "base": "1rem;line-height:1.5",
        "lg": "1.125rem;line-height:1.55", "xl": "1.25rem;line-height:1.4", "2xl": "1.5rem;line-height:1.33",
        "3xl": "1.875rem;line-height:1.2", "4xl": "2.25rem;line-height:1.11", "5xl": "3rem;line-height:1",
        "6xl": "3.75rem;line-height:1", "7xl": "4.5rem;line-height:1",
    },
    "width": {
        "xs": "20rem", "sm": "24rem", "md": "28rem", "lg": "32rem", "xl": "36rem", "2xl": "42rem", "3xl": "48rem",
        "4xl": "56rem", "5xl": "64rem", "6xl": "72rem", "7xl": "80rem", "none": "none",
    },
    "radius": {
        "sm": ".25rem", "md": ".375rem", "lg": ".5rem", "xl": ".75rem", "2xl": "1rem", "3xl": "1.5rem",
    },
    "shadow": {
        "sm": "0 1px 2px #0001", "md": "0 4px 6px -1px #0002", "lg": "0 10px 15px -3px #0002",
        "xl": "0 20px 25px -5px #0002", "2xl": "0 25px 50px -12px #0004", "none": "none",
    },
    "weight": {
        "light": "300", "normal": "400", "medium": "500", "semibold": "600", "bold": "700", "extrabold": "800",
        "black": "900",
    },
    "place": {
        "start": "flex-start", "end": "flex-end", "center": "center", "between": "space-between",
        "around": "space-around", "stretch": "stretch", "baseline": "baseline",
    },
    "side": {"left": "left", "center": "center", "right": "right"},
    "corner": {
        "t": "top", "r": "right", "b": "bottom", "l": "left", "tr": "top right", "br": "bottom right",
        "bl": "bottom left", "tl": "top left",
    },
    "colour": {"white": "#fff", "black": "#000", "transparent": "transparent", "current": "currentColor"},
}  # fmt: skip
# how it begins, the kind of value, what it says; of two for one element the later wins
_UTILITIES = (
    ("m", "length", "margin:{0}"), ("mx", "length", "margin-left:{0};margin-right:{0}"),
    ("my", "length", "margin-top:{0};margin-bottom:{0}"), ("mt", "length", "margin-top:{0}"),
    ("mr", "length", "margin-right:{0}"), ("mb", "length", "margin-bottom:{0}"), ("ml", "length", "margin-left:{0}"),
    ("p", "length", "padding:{0}"), ("px", "length", "padding-left:{0};padding-right:{0}"),
    ("py", "length", "padding-top:{0};padding-bottom:{0}"), ("pt", "length", "padding-top:{0}"),
    ("pr", "length", "padding-right:{0}"), ("pb", "length", "padding-bottom:{0}"), ("pl", "length", "padding-left:{0}"),
    ("gap", "length", "gap:{0}"), ("gap-x", "length", "column-gap:{0}"), ("gap-y", "length", "row-gap:{0}"),
    ("size", "length", "width:{0};height:{0}"), ("w", "length", "width:{0}"), ("h", "length", "height:{0}"),
    ("max-w", "width", "max-width:{0}"), ("max-w", "length", "max-width:{0}"), ("min-w", "length", "min-width:{0}"),
    ("min-h", "length", "min-height:{0}"), ("max-h", "length", "max-height:{0}"), ("inset", "length", "inset:{0}"),
    ("inset-x", "length", "left:{0};right:{0}"), ("top", "length", "top:{0}"), ("right", "length", "right:{0}"),
    ("bottom", "length", "bottom:{0}"), ("left", "length", "left:{0}"), ("col-span", "number", "grid-column:span {0}"),
    ("grid-cols", "number", "grid-template-columns:repeat({0},minmax(0,1fr))"), ("order", "number", "order:{0}"),
    ("items", "place", "align-items:{0}"), ("justify", "place", "justify-content:{0}"),
    ("self", "place", "align-self:{0}"), ("text", "side", "text-align:{0}"), ("text", "size", "font-size:{0}"),
    ("text", "colour", "color:{0}"), ("font", "weight", "font-weight:{0}"), ("leading", "length", "line-height:{0}"),
    ("bg", "colour", "background-color:{0}"), ("from", "colour", "--from:{0}"), ("to", "colour", "--to:{0}"),
    ("bg-linear-to", "corner", "background-image:linear-gradient(to {0},var(--from,#0000),var(--to,#0000))"),
    ("border", "number", "border-width:{0}px"), ("border", "colour", "border-color:{0}"),
    ("rounded", "radius", "border-radius:{0}"), ("shadow", "shadow", "box-shadow:{0}"),
    ("ring", "number", "box-shadow:0 0 0 {0}px var(--ring,currentColor)"), ("ring", "colour", "--ring:{0}"),
    ("outline", "number", "outline:{0}px solid"), ("outline", "colour", "outline-color:{0}"),
    ("outline-offset", "number", "outline-offset:{0}px"), ("fill", "colour", "fill:{0}"),
    ("stroke", "colour", "stroke:{0}"), ("opacity", "number", "opacity:{0}%"), ("z", "number", "z-index:{0}"),
    ("duration", "number", "transition-duration:{0}ms"), ("underline-offset", "number", "text-underline-offset:{0}px"),
    ("space-x", "length", ">:not(:last-child){{margin-right:{0}"),
    ("space-y", "length", ">:not(:last-child){{margin-bottom:{0}"),
)  # fmt: skip


def generate(classes: Iterable[str]) -> tuple[str, list[str]]:
    """Return the stylesheet of these classes, and those that are unknown."""
    base, _, rules = Path(__file__).with_name("subset.css").read_text(encoding="utf-8").partition("/* ---- */")
    plain = dict(re.findall(r"^\.([\w-]+)\{(.*)\}$", rules, re.MULTILINE))
    lines, unknown, screens = list[tuple[int, bool, int, str]](), list[str](), ["", *_SCREENS]
    for name in classes:
        *variants, utility = name.split(":")
        said = (0, plain[utility]) if utility in plain else _declare(utility)
        if said is None or any(each not in _SCREENS and each not in _STATES for each in variants):
            unknown.append(name)
            continue
        states = "".join(_STATES.get(each, "") for each in variants)
        body = said[1] if said[1].startswith(">") else f"{{{said[1]}"
        screen = max((screens.index(each) for each in variants if each in _SCREENS), default=0)
        rule = f".{_escape(name)}{states}{body}}}"
        rule = f"@media(min-width:{_SCREENS[screens[screen]]}){{{rule}}}" if screen else rule
        lines.append((screen, bool(states), said[0], rule))
    return "\n".join([base.partition("*/")[2].strip(), *(rule for *_, rule in sorted(lines))]), unknown


def _declare(utility: str) -> tuple[int, str] | None:
    """Return where a utility stands among others, and what it says."""
    sign, word = ("-", utility[1:]) if utility.startswith("-") else ("", utility)
    word = word.replace("bg-gradient-to-", "bg-linear-to-")
    for order, (start, kind, says) in enumerate(_UTILITIES, 1):
        value = _read_value(kind, word.removeprefix(f"{start}-")) if word.startswith(f"{start}-") else None
        if value is not None and (not sign or kind == "length"):
            return order, says.format(f"{sign}{value}")
    return None


def _read_value(kind: str, word: str) -> str | None:
    """Return a value as CSS spells it: `6` is 1.5rem, `1/2` a half, `[12px]` written out, `sky-700/50` a colour."""
    if word in _CHOICES.get(kind, ()):
        return _CHOICES[kind][word]
    if kind == "number":
        return word if re.fullmatch(r"[0-9]{1,4}", word) else None
    if kind not in ("length", "colour"):
        return None
    if found := re.fullmatch(r"\[([#\w.%()+*/,-]+)\]", word):
        return found[1].replace("_", " ")
    if kind == "length":
        if found := re.fullmatch(r"([0-9]{1,2})/([1-9][0-9]?)", word):
            return f"{100 * int(found[1]) / int(found[2]):g}%"
        return f"{float(word) / 4:g}rem" if re.fullmatch(r"[0-9]{1,4}(\.5)?", word) else None
    found = re.fullmatch(r"(\w+?)(?:-([0-9]+))?(?:/([0-9]{1,3}))?", word)
    if found is None or found[1] not in (*_HUES, "white", "black"):
        return None
    alpha = f" / {found[3]}%" if found[3] else ""
    if found[1] not in _HUES:
        return f"oklch({'100' if found[1] == 'white' else '0'}% 0 0{alpha})"
    if found[2] not in _SHADES:
        return None
    (angle, strength), (light, share) = _HUES[found[1]], _SHADES[found[2]]
    return f"oklch({light}% {strength * share:.3g} {angle}{alpha})"


def _escape(name: str) -> str:
    """Return a class as a selector spells it."""
    spelled = re.sub(r"([^a-zA-Z0-9_-])", r"\\\1", name)
    return f"\\3{spelled[0]} {spelled[1:]}" if name[:1].isdigit() else spelled
