"""edit: replace passages of a file, and nothing else."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from toolcrib import Ctx, Result, Tool, ToolError, tool
from toolcrib.files import Change, Entry

from ._diff import Diff, Splice, diff_of, overlapping, replacements, spliced
from ._match import MOST, Body, Matches, Reading, named, nearest, shown, split_lines

__all__ = ["ALIASES", "Replacement", "asked_for", "edit", "spelled_freely"]

ALIASES = {"old_string": "oldText", "new_string": "newText"}


@dataclass(frozen=True, slots=True)
class Replacement:
    """One passage and what takes its place."""

    oldText: Annotated[str, "the passage as it is in the file"]  # noqa: N815  as models know it
    newText: Annotated[str, "what takes its place; empty deletes it"]  # noqa: N815


def asked_for(edits: Sequence[Replacement], old: str | None, new: str | None) -> list[tuple[str, Replacement]]:
    """Return each replacement with the name of its old text in the arguments, for complaints."""
    asked = [(f"edits[{at}].oldText", each) for at, each in enumerate(edits)]
    if old is not None and new is not None:
        asked.append(("oldText", Replacement(old, new)))
    elif old is not None:
        raise ToolError("newText is missing; write what takes the place of oldText, '' to delete it", code=_BAD)
    elif new is not None:
        raise ToolError("oldText is missing; write the passage of the file that newText replaces", code=_BAD)
    if not asked:
        raise ToolError("nothing to replace; give oldText and newText, or a list of them as edits", code=_BAD)
    for name, each in asked:
        _refuse_halves(name, each.oldText)
        _refuse_halves(name.replace("oldText", "newText"), each.newText)
        if not each.oldText and len(asked) > 1:
            raise ToolError(f"{name} must not be empty; write the passage that is replaced", code=_BAD)
    return asked


def spelled_freely(tool: Tool) -> Tool:
    """Return the tool taking `edits` as models also spell them: with other names inside, as JSON text, or as one."""
    shape = tool.shape

    def check(args: Mapping[str, Any]) -> Mapping[str, Any]:
        return shape.check({**args, "edits": _listed(args["edits"])} if "edits" in args else args)

    return replace(tool, shape=type(shape)(lambda: shape.schema, lambda schema: check))


_BAD = "bad_arguments"


def _listed(edits: Any) -> Any:
    if isinstance(edits, str) and edits.lstrip()[:1] in ("[", "{"):
        try:
            edits = json.loads(edits)
        except ValueError:
            return edits
    if isinstance(edits, Mapping):
        edits = [edits]
    return [_renamed(each) for each in edits] if isinstance(edits, (list, tuple)) else edits


def _renamed(edit: Any) -> Any:
    """Return one of the edits under our names; one that has both spellings is left for the check to refuse."""
    if not isinstance(edit, Mapping):
        return edit
    return {(own if (own := ALIASES.get(name, name)) not in edit else name): value for name, value in edit.items()}


def _refuse_halves(name: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ToolError(f"{name} holds half a character, which no file has; write it whole", code=_BAD) from None


_TOLD = 5  # places of a passage that a complaint names
_APART: dict[Reading, str] = {
    "exact": "",
    "endings": " (apart from line endings)",
    "blanks": " (apart from blanks at the end of lines)",
    "marks": " (apart from quotes, dashes and blanks)",
    "spaces": " (apart from Unicode spaces, quotes and dashes)",
    "indentation": " (apart from indentation, which was kept)",
}


@spelled_freely
@tool(
    group="fs",
    effects={"read", "write"},
    exclusive=True,  # two edits of one file in one reply come one after the other
    aliases={"file_path": "path", "replace_all": "replaceAll", **ALIASES},
)
async def edit(
    ctx: Ctx,
    path: Annotated[str, "path of the file"],
    oldText: Annotated[str | None, "the passage as it is in the file, with enough lines to be unique"] = None,  # noqa: N803
    newText: Annotated[str | None, "what takes its place; empty deletes it"] = None,  # noqa: N803
    replaceAll: Annotated[bool, "replace every place of a passage"] = False,  # noqa: N803
    edits: Annotated[
        tuple[Replacement, ...], "several replacements at once, each matched against the file as it is"
    ] = (),
) -> Result:
    """Replace a passage of a file. It must stand in the file once, or replaceAll be set. Use write to create a file."""
    asked = asked_for(edits, oldText, newText)
    if len(asked) == 1 and not asked[0][1].oldText:
        return await _filled(ctx, path, asked[0][1].newText)
    entry = await ctx.workspace.stat(path)
    _refuse_changed(named(path), ctx.workspace.noted(path), entry)
    data = await ctx.workspace.read(path)
    made = await asyncio.to_thread(_edited, named(path), data, asked, everywhere=replaceAll)
    await ctx.workspace.change([Change(path=path, data=made.data, expect=entry.version)])
    places = f"{made.count} places" if made.count > 1 else "1 place"
    said = f"Replaced {places} in {named(path)}, first at line {made.diff.first}{_APART[made.reading]}."
    return Result.text(said, details=_details(path, made.diff, made.count, made.reading))


def _details(path: str, diff: Diff, count: int, reading: Reading) -> dict[str, object]:
    return {
        "path": path,
        "diff": diff.text,
        "firstChangedLine": diff.first,
        "replacements": count,
        "matched": reading,
    }


@dataclass(frozen=True, slots=True)
class _Edited:
    data: bytes
    diff: Diff
    count: int
    reading: Reading


def _edited(path: str, data: bytes, asked: Sequence[tuple[str, Replacement]], *, everywhere: bool) -> _Edited:
    """Return the file with every replacement made, each found in the file as it was."""
    body = Body(data)
    found = [_found(path, body, name, each.oldText, everywhere=everywhere) for name, each in asked]
    clash = overlapping((at, spot) for at, matches in enumerate(found) for spot in matches.spots)
    if clash:
        one, other = sorted(asked[at][0] for at in clash)
        raise ToolError(f"{one} and {other} overlap in {path}; make one replacement of them", code="bad_arguments")
    splices = [
        splice
        for (_, each), matches in zip(asked, found, strict=True)
        for splice in replacements(body, matches, each.oldText, each.newText)
    ]
    changed = sorted((each for each in splices if data[each.start : each.end] != each.data), key=_start)
    if not changed or all(each.oldText == each.newText for _, each in asked):
        raise ToolError(f"no change: {path} says already what newText says; newText must differ", code="no_change")
    loosest = max((matches.reading for matches in found), key=list(_APART).index)
    return _Edited(spliced(data, changed), diff_of(path, data, changed), len(splices), loosest)


def _start(splice: Splice) -> int:
    return splice.start


def _found(path: str, body: Body, name: str, old: str, *, everywhere: bool) -> Matches:
    matches = body.find(old)
    if matches is None:
        raise ToolError(f"{name} is not in {path}; {_hint(body, old)}", code="no_match")
    if matches.total > 1 and not everywhere:
        lines = dict.fromkeys(body.data.count(b"\n", 0, spot.start) + 1 for spot in matches.spots[:_TOLD])
        more = " ..." if matches.total > _TOLD else ""
        raise ToolError(
            f"{name} stands in {path} {matches.total} times{_APART[matches.reading]}, at line "
            f"{', '.join(map(str, lines))}{more}; add lines around it to name one, or set replaceAll",
            code="many_matches",
        )
    if matches.total > MOST:
        raise ToolError(f"{name} stands in {path} {matches.total} times; {MOST} are the most", code="too_large")
    return matches


def _hint(body: Body, old: str) -> str:
    if body.is_large:
        return "in a file of this size it must be written exactly as it is there"
    near = nearest(body.pieces[0], split_lines(old)[0])
    return f"{near} where {shown(near.asked)} was asked for" if near else "nothing in it is like it"


def _refuse_changed(path: str, seen: Entry | None, entry: Entry) -> None:
    """Refuse to edit a file that is no longer what this session was shown."""
    if seen is None or seen.version == entry.version:
        return
    sizes = (
        f"it had {seen.size} bytes and has {entry.size}" if seen.size != entry.size else "its content is another one"
    )
    raise ToolError(f"{path} changed on disk since it was read ({sizes}); read it again, then edit", code="changed")


async def _filled(ctx: Ctx, path: str, text: str) -> Result:
    """Put the first text into a file that is empty or not there yet."""
    version, was, data = "", "not there", text.encode()
    try:
        version, was = (await ctx.workspace.stat(path)).version, "empty"
        before = await ctx.workspace.read(path)
    except ToolError as error:
        if error.code != "not_found":
            raise
        before = b""
    if before:
        raise ToolError(
            f"oldText must not be empty in {named(path)}, which has {len(before)} bytes; write the passage to replace, "
            "or use write for the whole file",
            code="bad_arguments",
        )
    if not data:
        raise ToolError(f"no change: newText for {named(path)} is empty too", code="no_change")
    await ctx.workspace.change([Change(path=path, data=data, expect=version)])
    diff = diff_of(named(path), b"", [Splice(0, 0, data)])
    return Result.text(f"Filled {named(path)}, which was {was}.", details=_details(path, diff, 1, "exact"))
