"""Whatever a provider does: one end, in time and measure, nothing broken runs, and the next reply is good."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from toolcrib.adapter.cards import Api
from toolcrib.adapter.reply import is_overflow
from toolcrib.define.message import join_text

from .asking import ended
from .misbehaviours import BUSY, GOOD, MISBEHAVIOURS, QUICK, Misbehaviour, misbehaving

pytestmark = pytest.mark.anyio


def is_slow(row: Misbehaviour) -> bool:
    return bool(row.megabytes) or row.patience is QUICK


# what is about measure or silence takes seconds: one API each on ordinary days, all of them in the long campaign
CASES = [
    pytest.param(
        row,
        api,
        id=f"{api}: {row.name}",
        marks=(pytest.mark.full,) if is_slow(row) and api != row.apis[at % len(row.apis)] else (),
    )
    for at, row in enumerate(MISBEHAVIOURS.values())
    for api in row.apis
]


@contextmanager
def bounded(megabytes: int) -> Iterator[None]:
    """Fail when the process grows by more than that while the block runs."""
    own = Path("/proc/self")
    if not megabytes:
        yield
        return
    (own / "clear_refs").write_text("5")  # the peak is counted from now on
    before = _size("VmRSS")
    yield
    assert _size("VmHWM") - before <= megabytes


def _size(of: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(of)) / 1024


@pytest.mark.parametrize(("row", "api"), CASES)
async def test_it_ends_once_in_time_and_the_next_reply_is_good(row: Misbehaviour, api: Api) -> None:
    async with misbehaving(row, api) as trouble:
        model = trouble.model()
        began = time.monotonic()
        with bounded(row.megabytes):
            replied = await ended(model)
        assert time.monotonic() - began < BUSY * row.within
        assert trouble.complaints(replied) == []
        assert trouble.elsewhere == []
        if row.recovers:
            good = await ended(model)
            assert (good.error, join_text(good.message)) == ("", GOOD.text)
        await model.close()


@pytest.mark.parametrize(("name", "is_length"), [("400 for its length", True), ("429 with seconds", False)])
@pytest.mark.parametrize("api", ["openai", "anthropic"])
async def test_a_conversation_that_is_too_long_is_told_from_haste(name: str, is_length: bool, api: Api) -> None:
    async with misbehaving(MISBEHAVIOURS[name], api) as trouble:
        model = trouble.model()
        assert is_overflow(await ended(model)) == is_length
        await model.close()
