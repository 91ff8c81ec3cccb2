"""A yes is for what was shown: the folder, the files that the line will really read, and nothing in their place."""

import asyncio
import os
from pathlib import Path

import pytest
from tests.app.test_commands import Asked, run
from tests.commands import printed, said

pytestmark = pytest.mark.anyio

SHELLS = ["host", "sandbox"]
EVIL = "touch PWNED; echo evil"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("ws", "ws/sub", "ws/sub/deep"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "run.sh").write_text("#!/bin/sh\necho fine\n")
        (folder / "run.sh").chmod(0o755)
        (folder / "Makefile").write_text("all:\n\t@echo fine\n")
    return tmp_path / "ws"


def plant(root: Path) -> None:
    """Put other words into every file, in place."""
    for path in root.rglob("run.sh"):
        path.write_text(f"#!/bin/sh\n{EVIL}\n")
    for path in root.rglob("Makefile"):
        path.write_text(f"all:\n\t@{EVIL}\n")


@pytest.mark.parametrize("shell", SHELLS)
async def test_the_folder_that_was_shown_is_used_wherever_a_link_leads_now(root: Path, shell: str) -> None:
    (root / "other").mkdir()
    (root / "other/run.sh").write_text(EVIL)
    link = root / "link"
    link.symlink_to("sub")

    def turn() -> None:
        link.unlink()
        link.symlink_to("other")

    approver = Asked(turn)
    result = await run(root, "sh run.sh", {"host": shell}, workdir="link", approver=approver)
    words = printed(result) if shell == "host" else said(result)
    assert (result.status, words) == ("ok", "fine")
    assert approver.bound[0]["directory"] == str(root / "sub")


@pytest.mark.parametrize("shell", SHELLS)
async def test_a_folder_that_took_the_place_of_the_one_shown_is_not_used(root: Path, shell: str) -> None:
    def swap() -> None:
        (root / "sub").rename(root / "gone")
        (root / "sub").mkdir()
        (root / "gone/run.sh").rename(root / "sub/run.sh")
        (root / "sub/helper").write_text("other")

    result = await run(root, "sh run.sh", {"host": shell}, workdir="sub", approver=Asked(swap))
    assert (result.status, result.details["code"]) == ("error", "changed")


LINES = [
    "cd sub && ./run.sh",
    "(cd sub; sh run.sh)",
    "env -C sub ./run.sh",
    "env --chdir=sub ./run.sh",
    "for i in 1; do cd sub; sh run.sh; done",
    "pushd sub && sh run.sh",
    "cd sub; cd deep; sh run.sh",
    "cd sub/deep && sh ../run.sh",
    "sh -c 'cd sub && sh run.sh'",
    'sh -c "cd sub/deep; ./run.sh"',
    "sh < sub/run.sh",
    "cat sub/run.sh | sh",
    ". sub/run.sh",
    "bash sub/run.sh",
    "make",
    "make -C sub",
    "make -Csub",
    "make --directory=sub",
    "cd sub && make",
    "sh ./sub/../sub/run.sh",
    "if true; then sh 'sub/run.sh'; fi",
    "nice -n 5 sh sub/deep/run.sh",
]


@pytest.mark.parametrize("line", LINES)
async def test_a_file_that_the_line_will_read_is_bound_wherever_the_line_goes(root: Path, line: str) -> None:
    assert "fine" in said(await run(root, line, {}, approver=Asked()))
    result = await run(root, line, {}, approver=Asked(lambda: plant(root)))
    assert (result.status, result.details.get("code")) == ("error", "changed"), said(result)
    assert not list(root.rglob("PWNED"))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("for d in sub; do sh $d/run.sh; done", "it holds a loop"),
        ("sh $(echo sub/run.sh)", "it runs a command inside another"),
        ("sh *.sh", "stands for other words"),
        ("make -C sub", "whatever else 'make' reads or starts"),
        ("python3 -c 'import a'", "whatever else 'python3' reads or starts"),
        ("cp /opt/elsewhere sub/run.sh", "'/opt/elsewhere'"),
        ("./run.sh", "in the place of './run.sh'"),
    ],
)
async def test_what_could_not_be_bound_is_named_on_the_sheet_and_no_yes_lasts(
    root: Path, line: str, words: str
) -> None:
    approver = Asked()
    await run(root, line, {}, approver=approver)
    assert words in approver.bound[0]["not bound"]


async def test_what_is_bound_whole_says_nothing_else(root: Path) -> None:
    approver = Asked()
    await run(root, "cp run.sh copy", {}, approver=approver)
    assert "not bound" not in approver.bound[0]


async def test_a_script_is_held_as_it_was_shown_while_it_runs_and_all_else_can_be_changed(root: Path) -> None:
    (root / "job.py").write_text(
        "import os\nopen('made', 'w').close()\nopen('data', 'a').write('x')\nprint(os.access('job.py', os.W_OK))\n"
    )
    (root / "data").write_text("")
    result = await run(root, "python3 job.py data", {}, approver=Asked())
    assert (result.status, said(result)) == ("ok", "False")
    assert (root / "made").exists()
    assert (root / "data").read_text() == "x"
    result = await run(root, "chmod +x run.sh && ./run.sh", {}, approver=Asked())
    assert (result.status, said(result)) == ("ok", "fine")


@pytest.mark.parametrize("place", ["ws/pipe", "outside"])
async def test_asking_opens_no_pipe_and_nothing_outside(root: Path, place: str) -> None:
    pipe = root.parent / place
    os.mkfifo(pipe)
    opened = asyncio.ensure_future(asyncio.to_thread(os.open, pipe, os.O_WRONLY))  # waits for somebody who reads
    try:
        seen: list[bool] = []
        word = os.path.relpath(pipe, root)
        async with asyncio.timeout(60):
            await run(root, f"true {word} {pipe}", {}, approver=Asked(lambda: seen.append(opened.done())))
        assert seen == [False]
    finally:
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        os.close(await opened)
        os.close(reader)
