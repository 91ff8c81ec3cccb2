"""No room has more than tests/limits.toml allows, and a limit goes up only as its head says."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.limits import FILE, find_excess, find_raises, format_limits, lower, measure
from tests.pages import ROOT
from tests.test_architecture import REAL, made_up

LIMITS = tomllib.loads(FILE.read_text(encoding="utf-8"))


def test_no_room_has_more_than_it_may() -> None:
    assert find_excess(LIMITS, measure(REAL, LIMITS)) == []


def test_a_row_that_went_up_names_a_decision_that_names_the_room() -> None:
    for room, row in LIMITS["rooms"].items():
        if "by" in row:
            (record,) = (ROOT / "docs" / "decisions").glob(f"{row['by']}-*.md")
            assert f"`{room}`" in record.read_text(encoding="utf-8")


def test_the_file_stands_as_the_command_writes_it() -> None:
    assert format_limits(LIMITS) == FILE.read_text(encoding="utf-8")


NO_WORDS: dict[str, Any] = {"words": {"told": {}, "desk": {}}, "names": {"at": {}}}


def test_what_a_room_has_is_counted(tmp_path: Path) -> None:
    text = """
        from .b import x
        class HelpDesk: ...
        def _told(at):
            from .b import y  # noqa: PLC0415
            import json
            return at  # as told at desks
    """
    files = {"define/a.py": text, "define/b.py": "", "features/jobs/c.py": "at = 1", "files.py": "def f(): ..."}
    found = measure(made_up(tmp_path, files), NO_WORDS)
    assert found["rooms"]["define"] == {"files": 3, "lines": 7, "late_imports": 1, "noqa": 1, "functions": 143}
    assert sorted(found["rooms"]) == ["define", "features", "features/jobs", "toolcrib"]
    assert found["total"] == {"functions": 223}
    assert found["words"] == {"told": {"define": 2}, "desk": {"define": 2}}
    assert found["names"] == {"at": {"define": 2, "features/jobs": 1}}


def limits(*, told: Mapping[str, int] = {}, jobs: Mapping[str, Any] | None = None, **row: Any) -> dict[str, Any]:
    """Return limits of a room `agent`, with this in its row, and maybe of a room `jobs`."""
    agent = {"files": 4, "lines": 500, "late_imports": 2, "noqa": 0, "functions": 70, **row}
    rooms = {"agent": agent, **({"jobs": {**agent, **jobs}} if jobs is not None else {})}
    words = {"words": {"told": {"agent": 5} if told == {} else told}, "names": {"at": {}}}
    return {"total": {"functions": 70}, "rooms": rooms, **words, "exceptions": {"crumbs": 1}}


def test_what_is_more_than_allowed_is_named() -> None:
    found = limits(told={"agent": 6, "jobs": 1}, lines=501)
    assert find_excess(limits(), found) == [
        "rooms.agent.lines is 501; tests/limits.toml allows 500",
        "words.told.agent is 6; tests/limits.toml allows 5",
        "words.told.jobs is 1; tests/limits.toml allows 0",
    ]


def test_lowering_takes_every_limit_down_and_none_up() -> None:
    found = limits(told={"agent": 3, "jobs": 9}, lines=301, late_imports=9, files=3)
    lowered = lower(limits(by="0001", jobs={}), found)
    assert lowered == limits(told={"agent": 3}, by="0001", lines=350, files=3)
    assert tomllib.loads(format_limits(lowered)) == lowered


RECORDS = {"0001": "The loop `agent` may weigh more.", "0002": "Jobs leave `agent` for `jobs`."}


@pytest.mark.parametrize(
    ("before", "after", "faults"),
    [
        (limits(), limits(lines=450, told={"agent": 1}), []),
        (limits(), limits(lines=550, by="0001"), []),
        (limits(), limits(lines=550), ["rooms.agent.lines goes up to 550 without a record that names `agent`"]),
        (limits(), limits(files=5, by="0009"), ["rooms.agent.files goes up to 5 without a record that names `agent`"]),
        (limits(), limits(noqa=1, by="0001"), []),
        (limits(), limits(late_imports=3, by="0001"), ["late_imports of all rooms together only goes down"]),
        (limits(), limits(told={"agent": 6}, by="0001"), ["told of all rooms together only goes down"]),
        (
            limits(),
            limits(told={"agent": 3, "jobs": 2}, late_imports=1, jobs={"late_imports": 1, "by": "0002"}),
            [],
        ),
        (
            limits(),
            limits(told={"agent": 3, "jobs": 2}),
            ["words.told.jobs goes up to 2 without a record that names `jobs`"],
        ),
        (limits(), limits() | {"total": {"functions": 71}}, ["total.functions only goes down"]),
        (limits(), limits() | {"exceptions": {"crumbs": 2}}, ["exceptions.crumbs only goes down"]),
        (limits(), limits() | {"exceptions": {"crumbs": 1, "more": 2}}, []),
        (limits(), limits() | {"words": {"told": {"agent": 5}, "said": {"agent": 9}}}, []),
        (limits(), limits() | {"words": {}}, ["told left its list"]),
    ],
)
def test_a_limit_goes_up_only_with_a_record_and_for_the_weight_of_a_room(
    before: dict[str, Any], after: dict[str, Any], faults: list[str]
) -> None:
    assert find_raises(before, after, RECORDS) == faults
