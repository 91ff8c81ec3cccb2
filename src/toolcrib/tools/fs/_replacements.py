"""What an edit was asked for, in whatever form a model wrote it, as one list of replacements."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from toolcrib import Tool, ToolError

__all__ = ["ALIASES", "Replacement", "asked_for", "spelled_freely"]

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
