"""Plans that change files, and the words for what is not done here."""

from toolcrib.backends.providers.offline.answers import Answer, passage, rows_of
from toolcrib.backends.providers.offline.tasks import Refuse, Replace, Write

from .desk import Desk, Plan, call, failure, resolved

__all__ = ["refuse", "replace", "write"]

_WHOSE = "I do not know which file you mean; name it, please."


def write(task: Write, desk: Desk) -> Plan:
    path = resolved(task.path, desk)
    if not path:
        return Answer(_WHOSE)
    if task.append:
        return (yield from _append(path, task.content))
    if not task.content and desk.has("find"):
        # an empty text must not wipe out a file that is there
        found = yield from call("find", pattern=path.rpartition("/")[2])
        if found.ok and path in rows_of(found)[0]:
            return Answer(f"`{path}` is there already; I left it as it is.")
    outcome = yield from call("write", path=path, content=_ended(task.content))
    if not outcome.ok:
        return failure(f"write `{path}`", outcome)
    return Answer(f"Done: {outcome.text.strip()}.")


def _ended(text: str) -> str:
    """Return a text whose last line is a whole one."""
    return text if not text or text.endswith("\n") else f"{text}\n"


def _append(path: str, content: str) -> Plan:
    before = yield from call("read", path=path)
    if not before.ok and "does not exist" not in before.text:
        return failure(f"read `{path}`, to which I would append", before)
    held = passage(before)
    if before.ok and (not held.whole or "\ufffd" in held.text):
        return Answer(
            f"`{path}` is too long, or no plain text, to be appended to by rewriting it, so I left it as it is."
        )
    old = _ended(held.text) if before.ok else ""
    outcome = yield from call("write", path=path, content=old + _ended(content))
    if not outcome.ok:
        return failure(f"append to `{path}`", outcome)
    done = "Appended to" if before.ok else "There was no such file, so I made"
    return Answer(f"{done} `{path}`: {outcome.text.strip()}.")


def replace(task: Replace, desk: Desk) -> Plan:
    path = resolved(task.path, desk)
    if not path:
        return Answer(_WHOSE)
    outcome = yield from call("edit", path=path, oldText=task.old, newText=task.new, replaceAll=not task.once)
    if not outcome.ok:
        return failure(f"replace `{task.old}` in `{path}`", outcome)
    return Answer(outcome.text.strip())


def refuse(task: Refuse, desk: Desk) -> Plan:
    yield from ()
    how = f"ask me to run `{task.command}`" if desk.has("exec") else "run it in a shell yourself"
    return Answer(
        f"I do not {task.what} files on a word, as that cannot be undone. The command would be:\n\n    "
        f"{task.command}\n\nIf you are sure, {how}."
    )
