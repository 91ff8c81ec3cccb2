"""attacks/config: a configuration that is saved by us: by two at once, amid a crash, over a backup."""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolcrib.app import open
from toolcrib.define.errors import ConfigError

from . import Outcome, broken, kept

Json = Mapping[str, Any]

SAVING = ("crash_during_save", "recover_backup", "two_writers")
_SAVES, _CRASHES = 8, 4
_WRITER = """
import asyncio, json, sys
from pathlib import Path
import toolcrib

async def main(path, who, env):
    async with toolcrib.open(path, env=env, import_plugins=False) as crib:
        number = 0
        while True:
            asked = {"baseHash": (await crib.ask("config.get", caller=toolcrib.OWNER))["hash"]}
            asked["raw"] = json.dumps({"agents": {f"{who}-{number}": {}}})
            try:
                await crib.ask("config.patch", asked, caller=toolcrib.OWNER)
            except toolcrib.ToolError as error:
                if error.code != "conflict":
                    raise
                crib.settings.reload()
                continue
            print(f"{who}-{number}", flush=True)
            number += 1

asyncio.run(main(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])))
"""


def judge(path: Path, env: Mapping[str, str], asked: Json, must: Json) -> Outcome:
    """Save the file as the case says, and look at what is there afterwards."""
    if asked.get("recover_backup"):
        return _recover(path, env, must)
    rounds = [("one", "two")] if asked.get("two_writers") else [(f"r{number}",) for number in range(_CRASHES)]
    told = [name for names in rounds for name in _save_until_killed(path, env, names)]
    try:
        there = open(path, env=env, import_plugins=False).config.agents
    except ConfigError as error:
        return broken(f"the file cannot be read any more: {error}", {"told": told})
    lost = [name for name in told if name not in there]
    if len(lost) > must.get("lost_updates", 0):
        return broken(f"{len(lost)} changes that were acknowledged are gone", {"lost": lost})
    return kept({"saved": len(told)})


def _save_until_killed(path: Path, env: Mapping[str, str], names: tuple[str, ...]) -> list[str]:
    """Let processes save without end, and kill them when each has been told some; return all that they were told."""
    words = [sys.executable, "-c", _WRITER, str(path)]
    writers = [
        subprocess.Popen([*words, name, json.dumps(dict(env))], stdout=subprocess.PIPE, text=True) for name in names
    ]
    told = list[str]()
    for writer in writers:
        assert writer.stdout
        told += [writer.stdout.readline().strip() for _ in range(_SAVES)]
    for writer in writers:
        writer.kill()
        told += (writer.communicate()[0] or "").split()
    return [name for name in told if name]


def _recover(path: Path, env: Mapping[str, str], must: Json) -> Outcome:
    """Start with a file that was broken after a save: it is refused as it is, and the copy beside it counts again."""
    text = path.read_bytes()
    path.write_text("{}")
    before = _save_until_killed(path, env, ("r",))
    path.write_bytes(text if must["verdict"].startswith("reject") else b"{")
    broken_text = path.read_bytes()
    try:
        open(path, env=env, import_plugins=False)
    except ConfigError as error:
        why = str(error)
    else:
        return broken("what is broken was taken", {})
    if path.read_bytes() != broken_text:
        return broken("the file is not as it was", {"error": why})
    shutil.copy2(path.with_name(f"{path.name}.bak"), path)
    there = open(path, env=env, import_plugins=False).config.agents
    missing = [name for name in before[:-1] if name not in there]  # the copy is what it was before the last save
    return broken(f"the copy has not {missing}", {}) if missing else kept({"error": why})
