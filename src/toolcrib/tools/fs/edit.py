"""edit: replace passages of a file, and nothing else."""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import Annotated, Any

from toolcrib import Ctx, Result, Tool, ToolError, tool
from toolcrib.files import Change, Entry
from toolcrib.lazy import dataclass, replace

from ._diff import Diff, Splice, apply_splices, find_overlap, make_diff, make_splices, render_change
from ._match import MAX_SPOTS, FileBody, Matches, MatchReading, find_nearest, quote_line, quote_path, split_lines
from ._text import choose_spelling, encode_text, require_path, shorten_line, use_existing

_ALIASES = {"old_string": "oldText", "new_string": "newText"}


@dataclass(frozen=True, slots=True)
class Replacement:
    """One passage and what takes its place."""

    oldText: str  # noqa: N815  as models know it
    newText: str  # noqa: N815


@contextmanager
def _name_file(path: object) -> Iterator[None]:
    """Put the path before what is refused inside, unless it is named there."""
    try:
        yield
    except ToolError as error:
        if isinstance(path, str) and path.strip() and repr(path) not in str(error):
            error.args = (f"{quote_path(path)}: {error}",)
        raise


def _list_replacements(edits: Sequence[Replacement], old: str | None, new: str | None) -> list[tuple[str, Replacement]]:
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
        encode_text(name, each.oldText)
        encode_text(name.replace("oldText", "newText"), each.newText)
        if not each.oldText and len(asked) > 1:
            raise ToolError(f"{name} must not be empty; write the passage that is replaced", code=_BAD)
    return asked


def _accept_other_spellings(tool: Tool) -> Tool:
    """Return the tool taking `edits` as models also spell them: with other names inside, as JSON text, or as one."""
    shape = tool.shape

    def check(args: Mapping[str, Any]) -> Mapping[str, Any]:
        with _name_file(args.get("path")):
            return shape.check({**args, "edits": _as_list(args["edits"])} if "edits" in args else args)

    return replace(tool, shape=type(shape)(lambda: shape.schema, lambda schema: check))


_BAD = "bad_arguments"


def _as_list(edits: Any) -> Any:
    if isinstance(edits, str) and edits.lstrip()[:1] in ("[", "{"):
        try:
            edits = json.loads(edits)
        except ValueError:
            return edits
    if isinstance(edits, Mapping):
        edits = [edits]
    return [_rename_keys(each) for each in edits] if isinstance(edits, (list, tuple)) else edits


def _rename_keys(edit: Any) -> Any:
    """Return one of the edits under our names; one that has both spellings is left for the check to refuse."""
    if not isinstance(edit, Mapping):
        return edit
    return {(own if (own := _ALIASES.get(name, name)) not in edit else name): value for name, value in edit.items()}


_NEAR_CHARS = 400  # of a line that a model can copy
_NAMED_PLACES = 5  # places of a passage that a complaint names
_APART: dict[MatchReading, str] = {
    "exact": "",
    "endings": " (apart from line endings)",
    "blanks": " (apart from blanks at the end of lines)",
    "marks": " (apart from quotes, dashes and blanks)",
    "spaces": " (apart from Unicode spaces, quotes and dashes)",
    "indentation": " (apart from indentation, which was kept)",
}


@_accept_other_spellings
@tool(
    group="fs",
    effects={"read", "write"},
    exclusive=True,  # two edits of one file in one reply come one after the other
    aliases={"file_path": "path", "replace_all": "replaceAll", **_ALIASES},
    paths=("path",),
)
async def edit(
    ctx: Ctx,
    path: str,
    oldText: Annotated[str | None, "as it stands in the file"] = None,  # noqa: N803
    newText: Annotated[str | None, "what takes its place"] = None,  # noqa: N803
    replaceAll: Annotated[bool, "every occurrence"] = False,  # noqa: N803
    edits: Annotated[tuple[Replacement, ...], "several replacements at once"] = (),
) -> Result:
    """Replace text in a file; it must occur once, unless replaceAll is set. Use write for a new file."""
    with _name_file(require_path(path)):
        asked = _list_replacements(edits, oldText, newText)
    if len(asked) == 1 and not asked[0][1].oldText:
        return await _fill_empty(ctx, await choose_spelling(ctx, path), asked[0][1].newText)
    with _name_file(path):
        path, entry = await use_existing(ctx, path, ctx.workspace.stat)
        data = await ctx.workspace.read(path)
    _refuse_changed(quote_path(path), ctx.workspace.last_seen(path), entry, data)
    made = await asyncio.to_thread(_edit_bytes, quote_path(path), data, asked, everywhere=replaceAll)
    with _name_file(path):
        await ctx.workspace.change([Change(path=path, data=made.data, expect=entry.version)])
    places = f"{made.count} places" if made.count > 1 else "1 place"
    sentence = f"Replaced {places} in {quote_path(path)}, first at line {made.diff.first}{_APART[made.reading]}."
    return Result.text(
        sentence, details=_details(path, made.diff, made.count, made.reading), end=render_change(made.diff.text)
    )


def _details(path: str, diff: Diff, count: int, reading: MatchReading) -> dict[str, object]:
    return {
        "path": path,
        "diff": diff.text,
        "firstChangedLine": diff.first,
        "replacements": count,
        "matched": reading,
    }


@dataclass(frozen=True, slots=True)
class _EditResult:
    data: bytes
    diff: Diff
    count: int
    reading: MatchReading


def _edit_bytes(path: str, data: bytes, asked: Sequence[tuple[str, Replacement]], *, everywhere: bool) -> _EditResult:
    """Return the file with every replacement made, each found in the file as it was."""
    body = FileBody(data)
    found = [_find_passage(path, body, name, each.oldText, everywhere=everywhere) for name, each in asked]
    clash = find_overlap((at, spot) for at, matches in enumerate(found) for spot in matches.spots)
    if clash:
        one, other = sorted(asked[at][0] for at in clash)
        raise ToolError(f"{one} and {other} overlap in {path}; make one replacement of them", code="bad_arguments")
    splices = [
        splice
        for (_, each), matches in zip(asked, found, strict=True)
        for splice in make_splices(body, matches, each.oldText, each.newText)
    ]
    changed = sorted((each for each in splices if data[each.start : each.end] != each.data), key=attrgetter("start"))
    if not changed or all(each.oldText == each.newText for _, each in asked):
        raise ToolError(f"no change: {path} says already what newText says; newText must differ", code="no_change")
    loosest = max((matches.reading for matches in found), key=list(_APART).index)
    return _EditResult(apply_splices(data, changed), make_diff(path, data, changed), len(splices), loosest)


def _find_passage(path: str, body: FileBody, name: str, old: str, *, everywhere: bool) -> Matches:
    matches = body.find(old)
    if matches is None:
        raise _no_match(path, body, name, old)
    if matches.total > 1 and not everywhere:
        lines = dict.fromkeys(body.data.count(b"\n", 0, spot.start) + 1 for spot in matches.spots[:_NAMED_PLACES])
        more = " ..." if matches.total > _NAMED_PLACES else ""
        raise ToolError(
            f"{name} stands in {path} {matches.total} times{_APART[matches.reading]}, at line "
            f"{', '.join(map(str, lines))}{more}; add lines around it to name one, or set replaceAll",
            code="many_matches",
        )
    if matches.total > MAX_SPOTS:
        raise ToolError(f"{name} stands in {path} {matches.total} times; {MAX_SPOTS} are the most", code="too_large")
    return matches


def _no_match(path: str, body: FileBody, name: str, old: str) -> ToolError:
    what, lines = f"{name} is not in {path}", split_lines(old)[0]
    if body.is_large:
        return ToolError(f"{what}; in a file of this size it must be written exactly as it is there", code="no_match")
    near = find_nearest(body.pieces[0], lines)
    if near is None:
        advice = f"Nothing was changed: {what}. Use read to see what it holds, then call edit again."
        return ToolError(f"{what}; nothing in it is like it", code="no_match", for_model=advice)
    line = f'"{shorten_line(near.text, _NEAR_CHARS, "...")}"'
    how = f"{name} {line}" if len(lines) == 1 else f"{name} as it stands in the file"
    advice = f"Nothing was changed: {what}. Line {near.line} is {line}. Call edit again with {how}."
    return ToolError(f"{what}; {near} where {quote_line(near.asked)} was asked for", code="no_match", for_model=advice)


def _refuse_changed(path: str, seen: Entry | None, entry: Entry, data: bytes) -> None:
    """Refuse to edit a file that is no longer what this session was shown."""
    if seen is None or seen.version == entry.version or seen.has_held(data):
        return
    how = "its content is another one" if seen.digest else "its times did, and maybe its content"
    if seen.size != entry.size:
        how = f"it had {seen.size} bytes and has {entry.size}"
    raise ToolError(f"{path} changed on disk since it was read ({how}); read it again, then edit", code="changed")


async def _fill_empty(ctx: Ctx, path: str, text: str) -> Result:
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
            f"oldText must not be empty in {quote_path(path)}, which has {len(before)} bytes; write the passage to "
            "replace, or use write for the whole file",
            code="bad_arguments",
        )
    if not data:
        raise ToolError(f"no change: newText for {quote_path(path)} is empty too", code="no_change")
    with _name_file(path):
        await ctx.workspace.change([Change(path=path, data=data, expect=version)])
    diff = make_diff(quote_path(path), b"", [Splice(0, 0, data)])
    return Result.text(f"Filled {quote_path(path)}, which was {was}.", details=_details(path, diff, 1, "exact"))
