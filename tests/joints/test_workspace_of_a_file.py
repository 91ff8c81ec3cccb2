"""Where a relative workspace is: beside the file that names it, wherever the crib was started."""

import json
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from toolcrib import OWNER, Caller

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("config", "folder"),
    [
        ({"workspace": {"root": "work"}}, "home/work"),
        ({"workspace": {"root": "./work/../work"}}, "home/work"),
        ({"workspace": {"root": "."}}, "home"),
        ({"workspace": {"root": "../work"}}, "work"),
        ({"workspace": {"root": "/tmp"}, "agents": {"main": {"workspace": "work"}}}, "home/work"),
        ({"agents": [{"id": "main", "workspace": "work"}]}, "home/work"),
    ],
)
async def test_it_is_beside_its_file(
    config: dict[str, Any], folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in ("home/work", "work", "here/work"):
        (tmp_path / each).mkdir(parents=True)
    (tmp_path / folder / "found.txt").write_text("it is here")
    (tmp_path / "home" / "crib.json").write_text(json.dumps(config))
    monkeypatch.chdir(tmp_path / "here")
    for path in (tmp_path / "home" / "crib.json", Path("../home/crib.json")):
        async with toolcrib.open(path, env={}, import_plugins=False) as crib:
            assert "it is here" in str(await crib.belt(OWNER).call("read", {"path": "found.txt"}))


async def test_a_program_that_hands_in_a_mapping_means_the_folder_it_runs_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "found.txt").write_text("it is here")
    monkeypatch.chdir(tmp_path)
    async with toolcrib.open({"workspace": {"root": "work"}}, env={}, import_plugins=False) as crib:
        assert "it is here" in str(await crib.belt(Caller(owner=True)).call("read", {"path": "found.txt"}))
