"""A cassette: what the bodies of a crib's tools gave back, recorded once and replayed from then on."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from toolcrib.define.context import Ctx
from toolcrib.define.errors import CribError, ToolError
from toolcrib.define.result import Result
from toolcrib.define.tool import BodyRunner, Tool


class HasBodies(Protocol):
    """A crib, as a cassette sees it."""

    @property
    def bodies(self) -> BodyRunner: ...


@contextmanager
def cassette(path: str | Path, crib: HasBodies, *, record: bool | None = None) -> Iterator[None]:
    """Record what the bodies of a crib's tools give back; with the file there, replay it and run no body.

    The gate, the check of arguments, hooks and fences stay as they are. A call that was not recorded is refused, and
    leaving the block is then an AssertionError. `record` True records again, False never does. What is written has
    passed the crib's redaction, and is written only when the block ends well.
    """
    file, bodies = Path(path), crib.bodies
    if record is False and not file.exists():
        raise CribError(f"there is no cassette {str(file)!r}; leave out record=False to record it")
    is_new, before = bool(record) or not file.exists(), bodies.between
    tape = _Tape(bodies, file, [] if is_new else _read(file))
    bodies.between = tape.record if is_new else tape.play
    try:
        yield
    finally:
        bodies.between = before
    if is_new:
        file.write_text(json.dumps({"calls": tape.calls}, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    if tape.refused:
        raise AssertionError("; ".join(tape.refused))


class _Tape:
    """The calls that were recorded, or those that are left to replay."""

    def __init__(self, bodies: BodyRunner, file: Path, calls: list[dict[str, Any]]) -> None:
        self._bodies, self._file, self.calls, self.refused = bodies, file, calls, list[str]()

    async def record(self, tool: Tool, ctx: Ctx, args: Mapping[str, Any]) -> Result:
        entry: dict[str, Any] = {"tool": tool.name, "args": self._clean(args)}
        try:
            result = await tool.run(ctx, args)
        except ToolError as error:  # a bug is not recorded: it is mended
            failure = {"message": str(error), "code": error.code, "source": error.source}
            self.calls.append({**entry, "error": self._clean(failure), "outside": ctx.course.source})
            raise
        self.calls.append({**entry, "result": self._clean(result.to_json()), "outside": ctx.course.source})
        return result

    async def play(self, tool: Tool, ctx: Ctx, args: Mapping[str, Any]) -> Result:
        asked = self._clean(args)
        for entry in self.calls:
            if (entry["tool"], entry["args"]) == (tool.name, asked):
                self.calls.remove(entry)
                ctx.course.add_sources([entry["outside"]] if entry["outside"] else ())
                if "error" in entry:
                    raise ToolError(**entry["error"])
                return Result.from_json(entry["result"])
        left = ", ".join(json.dumps(entry["args"]) for entry in self.calls if entry["tool"] == tool.name) or "none"
        sentence = (
            f"{tool.name} {json.dumps(asked)} is not among the calls that {str(self._file)!r} has left "
            f"(of {tool.name}: {left}); record=True records anew"
        )
        self.refused.append(sentence)
        raise ToolError(sentence, code="not_recorded")

    def _clean(self, value: Any) -> Any:
        return json.loads(json.dumps(self._bodies.redact(value), default=str))


def _read(file: Path) -> list[dict[str, Any]]:
    try:
        calls: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["calls"]
        for each in calls:
            _ = each["tool"], each["args"], each["outside"], each.get("error") or Result.from_json(each["result"])
    except (ValueError, TypeError, KeyError, AttributeError, ToolError):
        raise CribError(f"{str(file)!r} is no cassette; delete it, and it is recorded anew") from None
    return calls
