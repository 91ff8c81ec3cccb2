"""The configuration, for its owner: what it says, and how it is changed while everything runs.

A model may ask for changes, too, on behalf of the owner: such that take rights away, or that have nothing to do with
them. Whatever would give anybody more is for a person to do.
"""

import difflib
import json
import logging
from collections.abc import Collection, Iterable
from typing import Annotated, Any

from toolcrib.define.caller import Caller
from toolcrib.define.display import escape_controls
from toolcrib.define.errors import ToolError
from toolcrib.define.ports import Scope, rpc, work_of
from toolcrib.lazy import dataclass

from .approvals import Approvals
from .feature import ConfigEditor, Difference, Feature, TurnCore

log = logging.getLogger("toolcrib")

_HARMLESS = (("logging", "level"), ("tools", "results", "maxChars"), ("tools", "results", "notice"))
_NARROWING = ("deny", "ask")  # lists; a longer one leaves less


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    """Another file, or what is to change in it."""

    raw: Annotated[str, "the text"]
    baseHash: Annotated[str, "the `hash` from config.get"] = ""  # noqa: N815  as the protocol spells it


def mount(core: TurnCore) -> Feature:
    """Mount what shows the configuration and changes it."""
    return Feature(services=(Configuration(core),))


class Configuration:
    """The configuration of one crib. Only the owner sees or changes it."""

    def __init__(self, core: TurnCore) -> None:
        self._core = core
        self._editor: ConfigEditor = core.editor

    @rpc("config.get", clients="admin", tools="read", as_tool=work_of("gateway", action="config.get"))
    async def get(
        self,
        caller: Caller,
        text: Annotated[bool, "with the file's text, marks in it for its secrets, and where every key stands"] = False,
    ) -> dict[str, Any]:
        """Show what the configuration says; secrets, and what came from the environment, are left out."""
        self._require_owner(caller)
        return self._editor.show(has_text=text)

    @rpc("config.schema", clients="admin", tools="read", as_tool=work_of("gateway", action="config.schema"))
    async def schema(self, caller: Caller) -> dict[str, Any]:
        """Give the JSON Schema of the file."""
        self._require_owner(caller)
        return {"schema": self._editor.schema()}

    @rpc("config.set", clients="admin")
    async def set(self, caller: Caller, rights: Collection[Scope], query: ConfigChange) -> dict[str, Any]:
        """Write another file, as `config.apply` does."""
        return self._change(caller, rights, query, merges=False)

    @rpc("config.apply", clients="admin", tools="write", as_tool=work_of("gateway", action="config.apply"))
    async def apply(self, caller: Caller, rights: Collection[Scope], query: ConfigChange) -> dict[str, Any]:
        """Write another file: checked as at a start, and in force from the next call on."""
        return self._change(caller, rights, query, merges=False)

    @rpc("config.patch", clients="admin", tools="write", as_tool=work_of("gateway", action="config.patch"))
    async def patch(self, caller: Caller, rights: Collection[Scope], query: ConfigChange) -> dict[str, Any]:
        """Change keys of the file by a JSON merge patch, in which null takes one away; comments in it are lost."""
        return self._change(caller, rights, query, merges=True)

    @rpc("approvals.propose", clients="approve")
    async def propose(self, caller: Caller, id: Annotated[str, "the whole id of the question"]) -> dict[str, Any]:
        """Show what the configuration would have to say for a call never to be asked about again; nothing is changed.

        `config.patch` with `raw` and `baseHash` saves it.
        """
        self._require_owner(caller)
        question = await self._core.find(Approvals).find_question(caller, id)
        if not question.always:
            why = question.once or "it holds a secret, or nobody is known to be behind it"
            raise ToolError(f"{question.tool} cannot be allowed for good: {why}", code="denied")
        entry = json.loads(question.always)
        raw, change = self._editor.propose(entry["path"], entry["entry"])
        return {**entry, "diff": _write_diff(change.differences), "raw": raw, "baseHash": change.base}

    def _change(
        self, caller: Caller, rights: Collection[Scope], asked: ConfigChange, *, merges: bool
    ) -> dict[str, Any]:
        self._require_owner(caller)
        change = self._editor.prepare(asked.raw, asked.baseHash, merges=merges)
        if "admin" not in rights and (wide := find_widening(change.differences)):
            what = f"{wide} may give somebody more, so it is for a person to change"
            raise ToolError(f"{what}; a model may add to `deny` and `ask`", code="denied")
        digest = self._editor.commit(change)
        changed = [".".join(each.path) for each in change.differences]
        log.info("the configuration was changed: %s", ", ".join(changed) or "nothing in it")
        return {"ok": True, "hash": digest, "changed": changed, "restart": list(change.fixed)}

    def _require_owner(self, caller: Caller) -> None:
        if not self._core.is_owner(caller) or caller.parents:
            raise ToolError("only the owner may see and change the configuration", code="denied")


def _write_diff(differences: Iterable[Difference]) -> str:
    lines = list[str]()
    for each in differences:
        old, new = (escape_controls(json.dumps(value, indent=2)).split("\n") for value in (each.old, each.new))
        name = ".".join(each.path)
        lines += difflib.unified_diff([] if each.old is None else old, new, name, name, lineterm="", n=1)
    return "\n".join(lines)


def find_widening(differences: Iterable[Difference]) -> str:
    """Return the first key whose change may give somebody more than they have, "" when none does."""
    for each in differences:
        is_longer = each.path[-1] in _NARROWING and "examples" not in each.path and _is_within(each.old, each.new)
        if not is_longer and each.path not in _HARMLESS:
            return ".".join(each.path)
    return ""


def _is_within(old: Any, new: Any) -> bool:
    """Tell whether a list only has more by now, and nobody else is asked because of it: they would be shown calls."""
    if not isinstance(new, list) or not isinstance(old, list | None):
        return False
    names_others = any("by" in each for each in new if isinstance(each, dict) and each not in (old or ()))
    return not names_others and all(entry in new for entry in old or ())
