"""Names as Claude Code spells them: models that were trained on its tools use them more surely."""

from collections.abc import Sequence

__all__ = ["claude_names"]

_THEIRS = (
    "AskUserQuestion", "Bash", "Edit", "EnterPlanMode", "ExitPlanMode", "Glob", "Grep", "KillShell", "NotebookEdit",
    "Read", "Skill", "Task", "TaskOutput", "TodoWrite", "WebFetch", "WebSearch", "Write",
)  # fmt: skip
_BY_LETTERS = {name.lower(): name for name in _THEIRS} | {"exec": "Bash", "find": "Glob"}


def claude_names(name: str) -> Sequence[str]:
    """Return the name that Claude Code has for such a tool, if it has one, then the tool's own."""
    theirs = _BY_LETTERS.get(name.lower().replace("_", "").replace("-", ""))
    return (theirs, name) if theirs else (name,)
