"""Skills of a crib: folders with a SKILL.md, shown to models by name and description, and read when one is needed."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from toolcrib.adapter.cut import cut
from toolcrib.agent.loop import Loop
from toolcrib.backends.agent_files import MAX_FILE_BYTES, Header, read_skill_file
from toolcrib.backends.stores.accepted import AcceptedContents, read_content
from toolcrib.config.parse import parse_yaml
from toolcrib.define.agent import COMPLETE
from toolcrib.define.context import Ctx
from toolcrib.define.display import escape_unprintable
from toolcrib.define.errors import ToolError
from toolcrib.define.plugin import Block
from toolcrib.define.result import Result
from toolcrib.define.schema.check import check_of_schema
from toolcrib.define.schema.portable import Shape
from toolcrib.define.tool import Tool
from toolcrib.lazy import dataclass
from toolcrib.policy.match import Inventory, complaint_about, matcher_for
from toolcrib.registry.catalog import Catalog, Problem
from toolcrib.registry.sources import Offer
from toolcrib.threads import in_thread

from .methods import turn_of

MARKER = "SKILL.md"
_TOOL = "skill"
_STARTING = frozenset({"sessions_spawn", "subagents"})  # what they start would not be bound to a skill
_MAX_SKILLS, _DESCRIPTION_CHARS, _TEXT_CHARS = 200, 200, 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """A skill as it was read: `text` is for the model, `tools` what it leaves of them, None for all."""

    name: str
    description: str
    text: str
    folder: Path
    source: str
    digest: str
    files: Mapping[str, bytes]
    accepted: AcceptedContents | None = None  # where it has to be, to be used
    tools: tuple[str, ...] | None = None


def read_skill(folder: Path, source: str = "user", accepted: AcceptedContents | None = None) -> Skill:
    """Read a skill once and whole; ToolError when it cannot be used, or is not among what was `accepted`."""
    digest, files = read_content(folder)
    if accepted is not None and (why := accepted.explain(folder, digest)):
        raise ToolError(why, code="denied")
    header, raw = Header(str(folder / MARKER), what="a skill"), files.get(MARKER, b"")
    if len(raw) > MAX_FILE_BYTES:
        header.say((), f"larger than {MAX_FILE_BYTES >> 10} KiB; move parts of it into files beside it")
    header_fields = read_skill_file(raw[:MAX_FILE_BYTES], header, parse_yaml)
    for at, entry in enumerate(header_fields.get("tools", ())):
        if flaw := complaint_about(str(entry)):  # `Bash(git:*)` is less than exec, and nobody could hold a turn to it
            header.say(("allowed-tools", at), f"allowed-tools: {flaw}")
    if header.complaints:
        raise ToolError(header.complaints[0])
    return Skill(**header_fields, folder=folder, source=source, digest=digest, files=files, accepted=accepted)


def find_skills(
    places: Iterable[tuple[Path, str]], workspaces: Iterable[Path], accepted: AcceptedContents
) -> tuple[dict[str, Skill], list[Problem]]:
    """Return the skills in these folders by name, and what was left out; in one of `workspaces` a skill needs a yes."""
    found, problems, roots = dict[str, Skill](), list[Problem](), list(workspaces)
    for place, source in places:
        folders = sorted(each.parent for each in place.glob(f"[!.]*/{MARKER}"))
        for folder in folders[:_MAX_SKILLS]:
            is_inside = any(folder.resolve().is_relative_to(root) for root in roots)
            try:
                skill = read_skill(folder, source, accepted if is_inside or source == "workspace" else None)
                first = found.setdefault(skill.name, skill)
                why = "" if first is skill else f"{folder}: {first.folder} is called {skill.name!r}, too; rename one"
            except ToolError as error:
                why = str(error)
            if why:
                problems.append(Problem("skills", escape_unprintable(f"{why} (the skill was left out)")))
        if len(folders) > _MAX_SKILLS:
            problems.append(Problem("skills", f"{place} holds more than {_MAX_SKILLS} skills; the rest was left out"))
    return found, problems


def offer_skills(skills: Mapping[str, Skill]) -> Offer:
    """Return the tool that lists these skills and reads one, and the guard that holds a turn to what one leaves."""
    narrowed: WeakKeyDictionary[Loop, frozenset[str]] = WeakKeyDictionary()

    async def run(ctx: Ctx, args: Mapping[str, Any]) -> Result:
        known, file = skills[args["name"]], args.get("file") or MARKER
        skill = await in_thread(read_skill, known.folder, known.source, known.accepted)  # as it is now
        if skill.tools is not None:
            if (turn := turn_of(ctx.caller)) is None:
                why = f"the skill {skill.name} limits the tools of the turn that reads it, and here is no turn"
                raise ToolError(why, code="unavailable")
            left = _select(skill.tools, turn.setup.belt.tools)
            narrowed[turn] = narrowed.get(turn, left) & left
        others = ", ".join(sorted(skill.files.keys() - {MARKER}))
        if file == MARKER:
            limit = "" if skill.tools is None else ", ".join(skill.tools) or "no tool"
            notes = {"allowed-tools, for the rest of this turn": limit, "other files of this skill": others}
            return Result.text(skill.text + "".join(f"\n\n[{key}: {note}]" for key, note in notes.items() if note))
        try:
            return Result.text(skill.files[file].decode())
        except (KeyError, UnicodeDecodeError):
            raise ToolError(f"the skill {skill.name} has no text {file!r}; it has {others}", code="not_found") from None

    async def hold_to_skill(ctx: Ctx, args: Mapping[str, Any]) -> Block | None:
        turn = turn_of(ctx.caller)
        left = narrowed.get(turn) if turn else None
        if left is None or ctx.call.name in (_TOOL, COMPLETE, *left):
            return None
        return Block(f"a skill that was read in this turn leaves only {', '.join(sorted(left)) or 'no tool'}")

    lines = (f"\n{each.name}: {' '.join(each.description.split())}" for each in skills.values())
    listed = "".join(cut(line, _DESCRIPTION_CHARS) for line in lines)
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "enum": [*skills]},
            "file": {"type": "string", "description": "another file of the skill"},
        },
        "required": ["name"],
    }
    tool = Tool(
        name=_TOOL, description=f"Read a skill before you do what it is for:{listed}", run=run, group="sessions",
        shape=Shape(lambda: schema, check_of_schema), effects=frozenset({"read"}), limit=_TEXT_CHARS,
    )  # fmt: skip
    return Offer(source="core", tools=(tool,), before=(hold_to_skill,))


def _select(entries: tuple[str, ...], tools: Mapping[str, Tool]) -> frozenset[str]:
    named = matcher_for(entries, Inventory(tools, Catalog(tools).groups), permits=True).select(frozenset(tools))
    return frozenset(name for name in named - _STARTING if tools[name].source != "agent")
