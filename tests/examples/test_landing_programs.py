"""The real Lighthouse and the real Tailwind CLI, from npm, on the page that the demo builds."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import platformdirs
import pytest

from .landing_world import BUILDER, EXAMPLE, crib_in

pytestmark = [pytest.mark.anyio, pytest.mark.full, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def programs() -> Path:
    """The folder of the programs, installed once for all runs."""
    npm = shutil.which("npm") or shutil.which("npm", path=str(Path(sys.executable).parent))
    folder = platformdirs.user_cache_path("toolcrib-tests") / "landing"
    words = [
        "install",
        "--no-audit",
        "--no-fund",
        "--prefix",
        str(folder),
        "lighthouse@12",
        "@tailwindcss/cli@4",
        "tailwindcss@4",
    ]
    if npm is None:
        pytest.skip("npm is not installed")
    if not (folder / "node_modules" / ".bin" / "lighthouse").exists():
        ran = subprocess.run([npm, *words], capture_output=True, text=True, timeout=600)
        if ran.returncode:
            pytest.skip(f"impossible here: npm cannot get them: {ran.stderr.strip()[-200:]}")
    return folder / "node_modules" / ".bin"


async def test_lighthouse_and_tailwind_are_used_where_they_are_and_lighthouse_is_content(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}{os.pathsep}{Path(sys.executable).parent}")
    site = tmp_path / "site"
    words = [sys.executable, "-m", "toolcrib.doors.cli.main", "demo", "landing", "--json", "--folder", str(site)]
    keyless = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    ran = subprocess.run(
        words,
        env={**keyless, "PYTHONPATH": str(EXAMPLE.parents[1] / "src")},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["css"].startswith("the Tailwind CLI, v4.")
    async with crib_in(site) as crib:
        told = (
            await crib.belt(BUILDER).call("validate_page", {"checks": ["accessibility", "performance", "seo"]})
        ).details
    assert told["issues"] == []
    assert told["lighthouse"].keys() == {"accessibility", "performance", "seo"}, told["lighthouse"]
    assert min(told["lighthouse"].values()) >= 90, told["lighthouse"]
