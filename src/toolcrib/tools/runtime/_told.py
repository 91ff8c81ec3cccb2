"""What a command printed and how it goes, in words for the model."""

from collections.abc import Mapping
from typing import Any

from toolcrib import Result, Text

__all__ = ["ended", "left_out", "meanwhile", "running"]

_FACTS = (
    "status", "sessionId", "pid", "startedAt", "cwd", "exitCode", "signal", "timedOut", "durationMs", "limit", "left",
    "bytes", "cut", "key",
)  # fmt: skip


def running(state: Mapping[str, Any]) -> Result:
    """Tell that a command goes on in the background."""
    details = {name: state[name] for name in ("status", "sessionId", "pid", "startedAt", "cwd", "name", "tail")}
    said = f"The command is still running as {state['sessionId']} (pid {state['pid']})."
    how = "Follow it with process: poll for new output, log, write, send-keys, kill."
    return Result.text("\n\n".join([f"{said} {how}", *meanwhile(state)]), details=details)


def ended(state: Mapping[str, Any]) -> Result:
    """Tell what a command printed and, unless all went well, how it ended: then it is a failure that keeps both."""
    output = state["text"].rstrip("\n")
    parts = [part for part in (left_out(state), output) if part] or ["(no output)"]
    details: dict[str, Any] = {name: state[name] for name in _FACTS}
    if state["status"] == "completed":
        return Result.text("\n\n".join(["\n".join(parts), *meanwhile(state)]), details=details)
    sentence = f"The command {state['sentence']}."
    details |= {"error": sentence, "code": state["reason"]}
    text = "\n\n".join(["\n".join(parts), sentence, *meanwhile(state)])
    return Result(content=(Text(text),), details=details, status="error")


def left_out(state: Mapping[str, Any]) -> str:
    """Return what stands where output was left out, empty when all is there."""
    if not state["cut"]:
        return ""
    all_lines = state["totalLines"]
    seen = f"{state['lines']:,} of {all_lines:,} lines" if all_lines else f"lines of {state['bytes']:,} bytes"
    rest = f"; result_get with key {state['key']!r} gives the output from its beginning" if state["key"] else ""
    return f"[the last {seen} are shown{rest}]"


def meanwhile(state: Mapping[str, Any]) -> list[str]:
    """Return one sentence for every other command that has ended in the background."""
    return [f"[{each['sessionId']} ({each['name']}) {each['sentence']}]" for each in state["notices"]]
