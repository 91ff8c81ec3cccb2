"""The benchmark of commands compares each with the floor it names."""

from benchmarks import exec


def test_each_command_is_compared_with_its_floor() -> None:
    taken = {"spawn": [1.0], "host": [1.5], "bwrap": [4.0], "sandbox": [6.4], "reader": [2.0], "output": [2.0]}
    rows = [(row.what, row.against, row.ratio, row.bar, row.over) for row in exec.rows_from(taken)]
    assert rows == [
        ("true", "asyncio spawn", 1.5, 1.8, False),
        ("true, sandboxed", "bwrap", 1.6, 1.5, True),
        ("100 MB of output", "bounded reader", 1.0, 1.6, False),
    ]
