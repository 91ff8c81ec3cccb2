"""Killed at any moment while it writes and indexes: what was acknowledged is there, and every file is whole or not."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests import prestarted

# What is killed is a fork of a process that has everything loaded. Every life changes files, each of several chunks
# that say which version of it they are and how many belong to it, and says what was written and what was taken in.
# After every kill another fork looks at the tables and the matrix as they were left.
_WORLD = """
import asyncio, hashlib, json, os, random, signal, sys, time
from pathlib import Path
import apsw
import numpy as np
from toolcrib.backends.files.stage import write_synced
from toolcrib.backends.memory import disk, table
from toolcrib.backends.memory.embedders import normalize_rows
from toolcrib.define.memory import MemoryPlaces

folder, kills, how = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
notes, kept = folder / "memory", folder / "kept" / "index"
rng, MANY = random.Random(5), 6
table._MAX_DEAD = 20  # so that the matrix is written anew again and again

def vector(text):
    return np.frombuffer(hashlib.sha256(text.encode()).digest(), np.uint8)[:16].astype(np.float32) + 1

class Hashes:
    provider, model = "test", "hashes"
    async def embed(self, texts):
        return normalize_rows(np.array([vector(text) for text in texts], np.float32))

class Hasty(table.MemoryTable):
    def write(self, files, gone=()):
        for file in files:
            for at in range(len(file.chunks)):
                super().write([file._replace(chunks=file.chunks[: at + 1])], gone)

if how == "hasty":
    disk.MemoryTable = Hasty

def body(file, version):
    parts = version % 5 + 2
    return "".join(f"# part {at}\\n\\nfile{file} version{version} of {parts}\\n\\n" for at in range(parts))

async def live(out):
    memory = disk.DiskMemory(MemoryPlaces(folder, (), kept), Hashes)
    rng.seed(os.getpid() * 1000 + time.time_ns() % 1000)
    while True:
        file, version = rng.randrange(MANY), time.time_ns() // 1000
        fresh = folder / f"fresh-{os.getpid()}"
        write_synced(fresh, body(file, version).encode())
        os.replace(fresh, notes / f"{file}.md")
        os.write(out, f"wrote {file} {version}\\n".encode())
        await memory.sync()
        os.write(out, f"synced {file} {version}\\n".encode())

def look(told):
    faults = []
    db = apsw.Connection(str(kept), flags=apsw.SQLITE_OPEN_READWRITE)
    files = {}
    for path, text in db.execute("SELECT path, text FROM chunks JOIN files ON files.id = file"):
        files.setdefault(path, []).append(text)
    for path, texts in files.items():
        name, version, _, parts = texts[0].split("\\n")[2].split(" ")
        versions = {text.split("\\n")[2] for text in texts}
        if len(versions) != 1 or len(texts) != int(parts):
            faults.append(f"{path} is half there: {texts}")
        wrote, synced = told.get(name, (0, 0))
        if int(version[7:]) < synced:
            faults.append(f"{path} was taken in as {synced}, and is {version} again")
    for name, (wrote, synced) in told.items():
        on_disk = (notes / f"{name[4:]}.md").read_text()
        if max(int(word[7:]) for word in on_disk.split() if word.startswith("version")) < wrote:
            faults.append(f"{name} has lost {wrote}")
        if synced and f"memory/{name[4:]}.md" not in files:
            faults.append(f"{name} is gone")
    (dims, rows, generation), = db.execute("SELECT dims, rows, generation FROM state")
    matrix = kept.with_name(f"index.{generation}.vectors")
    have = np.fromfile(matrix, np.float32)[: rows * dims].reshape(rows, dims) if rows else np.zeros((0, 16))
    texts = {hash: text if not above else f"{above}\\n{text}" for hash, above, text in
             db.execute("SELECT hash, above, text FROM chunks")}
    for hash, row in db.execute("SELECT hash, row FROM vectors"):
        right = normalize_rows(vector(texts[hash])[None])[0] if hash in texts else None
        if row >= len(have) or (right is not None and not np.allclose(have[row], right)):
            faults.append(f"row {row} of {rows} is not the vector of its text")
    count = db.execute("SELECT count(*) FROM chunks WHERE id NOT IN (SELECT rowid FROM words)").get
    found = db.execute("SELECT count(*) FROM words WHERE words MATCH 'part'").get
    if count or found != len([text for each in files.values() for text in each]):
        faults.append(f"words and chunks do not agree: {count}, {found}")
    db.close()
    return faults

def forked(work):
    read, write = os.pipe()
    if (pid := os.fork()) == 0:
        os.close(read)
        try:
            work(write)
        finally:
            os._exit(0)
    os.close(write)
    return pid, read

def heard(read):
    with os.fdopen(read) as lines:
        return lines.read()

notes.mkdir()
told, faults, acknowledged = {}, [], 0
for at in range(kills):
    pid, read = forked(lambda out: asyncio.run(live(out)))
    begun = os.read(read, 1).decode()  # it lives, and has written something
    time.sleep(rng.uniform(0, 0.12))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    for line in (begun + heard(read)).split("\\n")[:-1]:
        word, file, version = line.split(" ")
        wrote, synced = told.get(f"file{file}", (0, 0))
        told[f"file{file}"] = (int(version), synced) if word == "wrote" else (wrote, int(version))
        acknowledged += word == "synced"
    if kept.exists():
        pid, read = forked(lambda out: os.write(out, json.dumps(look(told)).encode()))
        os.waitpid(pid, 0)
        faults += json.loads(heard(read))
    if how == "hasty" and faults:
        break

async def end(out):
    memory = disk.DiskMemory(MemoryPlaces(folder, (), kept), Hashes)
    found = {}
    for name, (wrote, _) in told.items():
        passages = await memory.search(name, count=20)
        on_disk = (notes / f"{name[4:]}.md").read_text().split()[4]  # written, and killed before it said so
        found[name] = on_disk in passages[0].snippet and memory.state.problem == ""
    os.write(out, json.dumps(found).encode())

pid, read = forked(lambda out: asyncio.run(end(out)))
found = json.loads(heard(read))
os.waitpid(pid, 0)
print(json.dumps({"faults": faults, "acknowledged": acknowledged, "found": found}))
"""


def kill(folder: Path, kills: int, how: str = "kept") -> dict[str, Any]:
    done = prestarted.run(
        [sys.executable, "-c", _WORLD, str(folder), str(kills), how], capture_output=True, text=True, timeout=1_700
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def check(told: dict[str, Any]) -> int:
    """Hold what was found against what was acknowledged; return how often a change was."""
    assert told["faults"] == []
    assert all(told["found"].values()), told["found"]
    acknowledged: int = told["acknowledged"]
    return acknowledged


def test_killed_while_it_indexes_every_file_is_whole_or_not_there(tmp_path: Path) -> None:
    check(kill(tmp_path, 20))


@pytest.mark.full
@pytest.mark.timeout(1_800)
def test_killed_a_thousand_times_every_file_is_whole_or_not_there(tmp_path: Path) -> None:
    assert check(kill(tmp_path, 1_000)) >= 100


def test_kills_find_an_index_that_takes_a_file_in_by_pieces(tmp_path: Path) -> None:
    assert any("half there" in fault for fault in kill(tmp_path, 500, "hasty")["faults"])
