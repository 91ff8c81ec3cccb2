"""What every test may use."""

import gc
import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.lanes import LANES, ProcessWatch

# a busy machine, or one that builds its table of characters for the first time, is no reason to fail
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

# a shell ignores Ctrl-C for what it starts in the background, and so would every process that a test starts and stops
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

for name in ("TOOLCRIB_CONFIG", "TOOLCRIB_STATE"):  # whoever runs the tests may have a crib of their own
    os.environ.pop(name, None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--lane", choices=LANES, help="run only what starts this much")
    parser.addoption("--strict-lane", action="store_true", help="fail what starts more than its lane is for")
    parser.addoption("--note-processes", type=Path, metavar="FILE", help="note what each file of tests starts")


def pytest_configure(config: pytest.Config) -> None:
    lane, note = config.getoption("--lane"), config.getoption("--note-processes")
    if lane or note:
        watch = ProcessWatch(lane, note, is_strict=config.getoption("--strict-lane"))
        config.pluginmanager.register(watch)


def pytest_xdist_auto_num_workers() -> int:
    """A third of the time tests wait for processes that they started: three keep two processors busy."""
    return ((os.cpu_count() or 1) * 3 + 1) // 2


gc.disable()  # nothing of what is collected goes away before all of it is


def pytest_collection_finish() -> None:
    """What was collected stays: no search for garbage need go through it again."""
    gc.freeze()
    gc.enable()


@pytest.fixture
def anyio_backend() -> str:
    """Async tests run on asyncio, the only loop toolcrib knows."""
    return "asyncio"
