"""`python -m benchmarks [MEASURE ...] [--json] [--rounds N]`: exit 1 when a row is over its bar."""

import argparse
import json
import platform
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TextIO

from . import (
    Row,
    browser,
    call,
    exec,
    files,
    gateway,
    judge,
    mcp,
    memory,
    policy,
    prove,
    schema,
    search,
    sessions,
    startup,
    subagents,
    turn,
    web,
)

Measure = Callable[[int], list[Row]]

MEASURES: Mapping[str, Measure] = {
    "browser": browser.measure,
    "call": call.measure,
    "exec": exec.measure,
    "files": files.measure,
    "gateway": gateway.measure,
    "judge": judge.measure,
    "mcp": mcp.measure,
    "memory": memory.measure,
    "policy": policy.measure,
    "prove": prove.measure,
    "schema": schema.measure,
    "search": search.measure,
    "sessions": sessions.measure,
    "startup": startup.measure,
    "subagents": subagents.measure,
    "turn": turn.measure,
    "web": web.measure,
}


def main(arguments: Sequence[str], out: TextIO, measures: Mapping[str, Measure] = MEASURES) -> int:
    """Measure what was asked for, write it as a table or as JSON, and return the exit code."""
    parser = _options()
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error(f"--rounds {options.rounds} measures nothing; write 1 or more")
    if unknown := sorted(set(options.measures) - measures.keys()):
        parser.error(f"there is no measure {', '.join(unknown)}; there are {', '.join(measures)}")
    asked = options.measures or list(measures)
    measured = {name: measures[name](options.rounds) for name in asked}
    out.write(_document(measured, options.rounds) if options.json else table(measured))
    return 1 if any(row.over for rows in measured.values() for row in rows) else 0


def table(measured: Mapping[str, Sequence[Row]]) -> str:
    """Return the rows for people to read: what it takes, what the floor takes, the ratio, the bar, ok or over."""
    head = ("", "ours", "floor", "", "ratio", "bar", "")
    body = [(name, [_cells(row) for row in rows]) for name, rows in measured.items()]
    every = [head, *(cells for _, rows in body for cells in rows)]
    widths = [max(len(cells[at]) for cells in every) for at in range(len(head))]
    lines = [_line(head, widths)]
    for name, rows in body:
        lines += [name, *(_line(cells, widths) for cells in rows)]
    return "".join(f"{line}\n" for line in lines)


def _cells(row: Row) -> tuple[str, ...]:
    verdict = "over" if row.over else "ok"
    ours, floor = (duration(statistics.median(times)) for times in (row.ours, row.floor))
    return row.what, ours, floor, row.against, f"{row.ratio:.2f}", f"{row.bar:g}", verdict


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    what, ours, floor, against, ratio, bar, verdict = (
        cell.rjust(width) if at in (1, 2, 4, 5) else cell.ljust(width)
        for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return f"  {what}  {ours}  {floor}  {against}  {ratio}  {bar}  {verdict}".rstrip()


def duration(seconds: float) -> str:
    """Return a time in the unit that suits it, three digits of it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}" if seconds < 100 * size else f"{seconds / size:.0f} {unit}"
    return f"{seconds / 1e-9:.0f} ns"


def _document(measured: Mapping[str, Sequence[Row]], rounds: int) -> str:
    rows = [
        {
            "measure": name,
            "what": row.what,
            "ours": list(row.ours),
            "floor": list(row.floor),
            "against": row.against,
            "ratio": row.ratio,
            "bar": row.bar,
            "ok": not row.over,
        }
        for name, measured_rows in measured.items()
        for row in measured_rows
    ]
    return json.dumps({"python": platform.python_version(), "rounds": rounds, "rows": rows}, indent=2) + "\n"


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure speed against floors.")
    parser.add_argument("measures", nargs="*", metavar="MEASURE", help="which ones; all when none is named")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of the table")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="repeats of which the median counts (5)")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stdout))
