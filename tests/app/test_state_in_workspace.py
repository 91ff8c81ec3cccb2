"""A state or configuration folder in a workspace is hidden from commands, also one that is not there yet."""

from pathlib import Path

import pytest

import toolcrib
from toolcrib import OWNER

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("there", [False, True])
async def test_no_command_writes_into_a_state_or_configuration_folder_of_the_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, there: bool
) -> None:
    (root := tmp_path / "ws").mkdir()
    monkeypatch.setenv("TOOLCRIB_STATE", str(root / "st"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(root / ".config"))
    if there:
        (root / "st/agents").mkdir(parents=True)
    (tmp_path / "crib.yaml").write_text(f"workspace: {{root: '{root}'}}\ntools: {{exec: {{allow: [[sh]]}}}}")
    (root / "forge.sh").write_text(
        "mkdir -p st/agents .config/toolcrib; echo evil | tee st/agents/x st/x .config/toolcrib/toolcrib.yaml; echo ran"
    )
    async with toolcrib.open(tmp_path / "crib.yaml") as crib:
        result = await crib.belt(OWNER).call("exec", {"command": "sh forge.sh"})
    assert "ran" in result.plain_text
    assert [path for path in root.rglob("*") if path.is_file() and path.read_text() == "evil\n"] == []
