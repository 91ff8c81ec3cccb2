"""Every test of a door starts without the configuration of whoever runs it, in an empty folder."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def nobodys_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No configuration in the environment, none in the user's folder, and no workspace."""
    home, workspace = tmp_path / "home", tmp_path / "workspace"
    home.mkdir()
    workspace.mkdir()
    monkeypatch.delenv("TOOLCRIB_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    monkeypatch.chdir(workspace)
