"""With every command allowed, nothing leaves the sandbox: the recorded attacks, run blindly inside it."""

import os
import shutil
from pathlib import Path

import pytest

from tests.attacks.exec import profile_of, template
from tests.cases.load import Case, folders_from_environment, load
from tests.commands import belt_in, said

pytestmark = pytest.mark.anyio

ATTACKS = [
    case
    for case in load(folders_from_environment(os.environ))
    if case.file == "attacks/exec" and case.facts["kind"] == "attack" and "command" in case.args
]
CANARY = "CANARY-OUTSIDE"


@pytest.mark.parametrize("case", ATTACKS, ids=str)
async def test_nothing_outside_is_read_or_changed(case: Case, tmp_path: Path) -> None:
    profile = profile_of(dict(case.profiles), case.facts["setup"]["profile"])
    shutil.copytree(template(profile), tmp_path / "tree", symlinks=True)
    outside = tmp_path / "tree" / "outside"
    before = {path.name: path.read_bytes() for path in outside.iterdir()}
    everything = {"host": "sandbox", "security": "full", "ask": "off"}
    async with belt_in(tmp_path / "tree" / "ws", everything) as belt:
        result = await belt.call("exec", {"command": case.args["command"], "timeout": 20})
    assert CANARY not in said(result)
    assert {path.name: path.read_bytes() for path in outside.iterdir()} == before
    assert {path.name for path in (tmp_path / "tree").iterdir()} <= {"outside", "state", "ws"}, "state is ours"
