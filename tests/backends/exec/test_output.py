"""What a command prints is kept within bounds, in order, to the byte."""

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.backends.exec.running import Output
from toolcrib.define.shell import CommandLimits

PIECES = st.lists(st.binary(max_size=40), max_size=30)


@given(PIECES, st.integers(1, 60), st.integers(0, 200), st.integers(0, 300))
def test_the_end_and_the_beginning_are_what_was_printed(pieces: list[bytes], keep: int, whole: int, at: int) -> None:
    output, everything = Output(CommandLimits(output=keep, whole=whole)), b"".join(pieces)
    heard: list[bytes] = []
    output.watch(heard.append)
    for piece in pieces:
        output.add(memoryview(piece))
    assert output.total == len(everything)
    assert output.tail() == everything[-keep:]
    first, data = output.since(at)
    assert data == everything[first:]
    assert first == min(max(at, len(everything) - keep, 0), len(everything))
    assert output.whole().data == everything[:whole]
    assert output.whole().missing == len(everything) - len(everything[:whole])
    assert b"".join(heard) == everything
    output.close()


@pytest.mark.parametrize(
    ("size", "count", "keep", "most"),
    [(1, 30_000, 5_000, 100_000), (700, 3_000, 100_000, 500_000), (1 << 18, 400, 1 << 30, 5_000_000)],
)
def test_however_much_comes_memory_stays_small(tmp_path: Path, size: int, count: int, keep: int, most: int) -> None:
    output = Output(CommandLimits(output=keep, whole=1_000), str(tmp_path))
    piece = memoryview(bytes(size))
    tracemalloc.start()
    try:
        for _ in range(count):
            output.add(piece)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        output.close()
    assert output.total == size * count
    assert peak < most


def test_little_output_touches_no_disk(tmp_path: Path) -> None:
    output = Output(CommandLimits(output=100), str(tmp_path))
    output.add(memoryview(b"x" * 100))
    assert (output.whole().data, list(tmp_path.iterdir())) == (b"x" * 100, [])


def test_what_was_kept_on_disk_goes_with_its_command(tmp_path: Path) -> None:
    output = Output(CommandLimits(output=10), str(tmp_path))
    output.add(memoryview(b"x" * 100))
    assert len(list(tmp_path.iterdir())) == 1
    output.close()
    del output
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_gone_is_said(tmp_path: Path) -> None:
    output = Output(CommandLimits(output=10), str(tmp_path / "gone"))
    output.add(memoryview(b"x" * 100))
    whole = output.whole()
    assert (whole.data, whole.missing) == (b"", 100)
    assert whole.why == "the disk did not take it (No such file or directory)"
