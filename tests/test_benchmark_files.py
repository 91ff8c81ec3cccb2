"""The benchmark of edit and apply_patch measures what it says: both sides leave the same files."""

from pathlib import Path

from benchmarks import files


def test_the_floor_writes_what_the_tools_write(tmp_path: Path) -> None:
    pairs = (("edit", "bare", "edited.py", "bare.py"), ("patch", "bare five", "patched.py", "bare_five.py"))
    text = files.text_of(files.LINES).encode()
    with files.works(tmp_path) as works:
        for ours, floor, one, other in pairs:
            works[ours]()
            works[floor]()
            assert (tmp_path / one).read_bytes() == (tmp_path / other).read_bytes() != text
            works[ours]()
            works[floor]()
            assert (tmp_path / one).read_bytes() == (tmp_path / other).read_bytes() == text
