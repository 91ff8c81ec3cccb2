"""The parts of a chat by themselves: blocks of Markdown, formatter, words for calls, sessions of a folder, undo."""

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

import toolcrib
from toolcrib import OWNER
from toolcrib.backends.files.disk import Terms
from toolcrib.backends.files.local import LocalWorkspace, Make, Workspaces
from toolcrib.define.errors import CribError
from toolcrib.define.event import TextDelta, ToolFinished, ToolProgress, ToolStarted, TurnFinished, TurnStarted
from toolcrib.define.files import Change, Entry
from toolcrib.define.log import Began, Line, Said, SessionHead
from toolcrib.define.message import Call, Message, Role
from toolcrib.define.result import Result, Text
from toolcrib.define.session import check_key, kind_from_key
from toolcrib.define.verdict import Verdict
from toolcrib.doors.cli._format import Formatter
from toolcrib.doors.cli.chat.commands import ChatCompleter
from toolcrib.doors.cli.chat.markdown import Blocks, render_markdown
from toolcrib.doors.cli.chat.screen import ChatScreen, render_bar, render_outcome
from toolcrib.doors.cli.chat.session import SessionLock, find_latest, new_chat_key, summarize_session
from toolcrib.doors.cli.chat.undo import Undo

pytestmark = pytest.mark.anyio

PLAIN = Formatter(lambda: 60, plain=True)
COLOURED = Formatter(lambda: 60)
ALLOW = Verdict("exec", "allow", None, None, None, "passes every layer", None)


# blocks

TEXT = "One\nparagraph.\n\n```py\na = 1\n\nb = 2\n```\n- x\n- y\n\nlast"


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_a_block_is_whole_at_a_blank_line_or_at_the_end_of_its_code(size: int) -> None:
    blocks = Blocks()
    found = [block for at in range(0, len(TEXT), size) for block in blocks.feed(TEXT[at : at + size])]
    assert found == ["One\nparagraph.\n\n", "```py\na = 1\n\nb = 2\n```\n", "- x\n- y\n\n"]
    assert (blocks.rest, blocks.finish(), blocks.rest) == ("last", ["last"], "")


def test_a_fence_inside_a_longer_one_ends_nothing() -> None:
    text = "````\n```\n\n```\n````\n"
    assert Blocks().feed(text) == [text]


# formatter


def test_a_text_never_sends_a_control_sequence_of_its_own() -> None:
    evil = "a\x1b[2Jb\x07\x9b1Ac\u202ed"
    for formatter in (PLAIN, COLOURED):
        for text in (
            render_markdown(evil, formatter),
            formatter.remark(evil),
            formatter.lines([evil]),
            formatter.fold(evil),
            formatter.diff(evil),
        ):
            assert "\x1b[2J" not in text
            assert not {"\x07", "\x9b", "\u202e"} & set(text)


@pytest.mark.parametrize("text", ["&#x202e;", "[&rlm;](http://x)", "# &#x2066;", "- &#xE0041;", "<b>&#x200b;</b>"])
def test_a_character_that_is_spelled_out_in_markdown_is_not_obeyed_either(text: str) -> None:
    shown = render_markdown(text, COLOURED)
    assert not {"\u202e", "\u200f", "\u2066", "\U000e0041", "\u200b"} & set(shown)


def test_plain_paper_has_no_sequences_at_all() -> None:
    text = render_markdown("# A\n\n**b**\n", PLAIN) + PLAIN.remark("c", "bad") + PLAIN.diff("+d\n-e")
    assert text == "# A\n\n**b**\nc\n    +d\n    -e\n"


def test_markdown_is_set_without_centred_headings_or_hidden_links() -> None:
    title = "# Title\n\n- one\n- [two](http://x.test/y)\n- ![three](http://x.test/z)\n"
    text = render_markdown(title, Formatter(lambda: 40, colour=False))
    lines = text.replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines()
    assert [line for line in lines if line] == [
        "# Title",
        " • one",
        " • two (http://x.test/y)",
        " • three (http://x.test/z)",
    ]


def test_what_looks_like_html_is_text() -> None:
    text = render_markdown("a List<String> b\n\n<answer>\n4\n</answer>\n", Formatter(lambda: 40, colour=False))
    assert [line.strip() for line in text.splitlines() if line.strip()] == [
        "a List<String> b", "<answer>", "4", "</answer>",
    ]  # fmt: skip


def test_a_question_is_shown_whole_however_long_its_lines_are() -> None:
    line = 'command: "' + "x" * 500 + '"'
    shown = PLAIN.fold(line)
    assert "".join(each.strip() for each in shown.split("\n")) == line
    assert max(map(len, shown.split("\n"))) < 60


def test_a_long_diff_is_cut_and_says_so() -> None:
    assert PLAIN.diff("\n".join(["+x"] * 50)).splitlines()[-1] == "    … 10 more lines"


# calls


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"command": "git status"}, "t git status"),
        ({"path": "a.py", "content": "all of it"}, "t a.py"),
        ({"pattern": "a b", "glob": "*.py"}, 't pattern="a b" glob=*.py'),
        ({"x": "two\nlines\x1b[2J"}, "t two lines\\x1b[2J"),
        ({}, "t"),
    ],
)
def test_a_call_is_told_in_one_line(args: dict[str, Any], words: str) -> None:
    assert start_line(Call("1", "t", args)) == f"● {words}  [allow]\n"


def test_the_verdict_is_seen_however_long_the_call_is() -> None:
    line = start_line(Call("1", "exec", {"command": "x" * 500}))
    assert line.endswith("…  [allow]\n")
    assert len(line) <= 60


@pytest.mark.parametrize(
    ("partial", "shown"),
    [
        (Result.text("3 of 10 pages"), "[######..............] 30 %"),
        (Result(details={"progress": 1, "total": 2}), "[##########..........] 50 %"),
        (Result.text("12 of 10"), ""),
        (Result.text("0 of 0"), ""),
        (Result.text("some words"), ""),
    ],
)
def test_a_bar_is_drawn_for_what_says_how_far_it_is(partial: Result, shown: str) -> None:
    assert render_bar(partial) == shown


def test_of_a_failed_command_the_last_lines_are_shown_and_how_it_ended() -> None:
    result = Result.error("\n".join([*map(str, range(20)), "", "The command ended with exit code 2."]))
    said = render_outcome(Call("1", "exec", {}), result, PLAIN)
    assert said.splitlines() == [*(f"    {n}" for n in range(12, 20)), "  ✗ The command ended with exit code 2."]


@pytest.mark.parametrize("formatter", [PLAIN, COLOURED], ids=["plain", "styled"])
def test_what_a_tool_shows_to_people_is_shown_whole_and_as_markdown_where_it_says_so(formatter: Formatter) -> None:
    call, result = Call("1", "stock", {}), Result.json({"n": 12}, display="**12** left\n\x1b[2J" + "word " * 30)
    said = render_outcome(call, result, formatter)
    assert "**12** left" in said
    assert said.count("word") == 30
    marked = render_outcome(call, result, formatter, markdown=True)
    assert ("**" in marked) == formatter.plain
    assert marked.count("word") == 30
    assert "\x1b[2J" not in said + marked
    assert '"n"' not in said + marked


def test_the_content_of_a_tool_that_writes_markdown_is_rendered_when_it_has_nothing_else_to_show() -> None:
    said = render_outcome(Call("1", "stock", {}), Result.text("# Nuts\n\n- 12\n- 13"), PLAIN, markdown=True)
    assert said == "  ✓\n# Nuts\n\n- 12\n- 13\n"
    failed = Result.error("E_SOLD_OUT")._replace(display="sold out")
    assert render_outcome(Call("1", "stock", {}), failed, PLAIN, markdown=True) == "  ✗ sold out\n"


# screen


class Page:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str, /) -> None:
        self.text += text

    def refresh(self) -> None:
        """Nothing to draw anew."""


def start_line(call: Call) -> str:
    page = Page()
    ChatScreen(PLAIN, page).show(ToolStarted(call, ALLOW))
    return page.text


def call_of(key: str, command: str) -> Call:
    return Call(key, "exec", {"command": command}, key)


def test_what_goes_on_is_told_apart_from_what_is_whole() -> None:
    page, now = Page(), [0.0]
    screen = ChatScreen(PLAIN, page, now=lambda: now[0])
    make = call_of("1", "make")
    said: list[str] = []
    for event in (
        TurnStarted("s", "local:small", Message(role="user", content=(Text("go"),))),
        TextDelta("First.\n\nSec"),
        ToolStarted(make, ALLOW),
        ToolProgress(make, Result.text("a\nb\n2 of 4")),
    ):
        screen.show(event)
        said.append("|".join(text for _, text in screen.live_lines(60, 10)))
        now[0] += 2
    assert said == ["… waiting for local:small", "Sec", "… exec make", "… exec make|  a|  b|  2 of 4"]
    assert [text for _, text in screen.live_lines(60, 2)][-1] == "  2 of 4"
    assert page.text == "First.\n\nSec\n\n● exec make  [allow]\n"
    screen.tick()
    screen.show(ToolFinished(make, Result.text("built")))
    screen.show(TurnFinished("stopped", sentence="stopped before it was done"))
    assert page.text.endswith(
        "  … 4 s: 2 of 4\n  ✓ built\n    (4 s)\nstopped before it was done; what was done until then is\n  kept\n"
    )
    assert screen.live_lines(60, 10) == []


def test_the_event_says_whether_it_is_markdown() -> None:
    page, call, result = Page(), call_of("1", "one"), Result.text("12", display="**12** left")
    for event in (ToolStarted(call, ALLOW), ToolFinished(call, result), ToolFinished(call, result, markdown=True)):
        ChatScreen(COLOURED, page, now=lambda: 0.0).show(event)
    _, plain, rendered = page.text.split("✓")
    assert "**12** left" in plain
    assert "\x1b[1m12\x1b[0m left" in rendered


def test_calls_side_by_side_are_told_apart() -> None:
    page = Page()
    screen, one, two = ChatScreen(PLAIN, page, now=lambda: 0.0), call_of("1", "one"), call_of("2", "two")
    for event in (
        ToolStarted(one, ALLOW), ToolStarted(two, ALLOW), ToolFinished(one, Result.text("1")),
        ToolFinished(two, Result.text("2")),
    ):  # fmt: skip
        screen.show(event)
    assert page.text.splitlines()[2:] == ["  ✓ exec one: 1", "  ✓ exec two: 2"]


# sessions of a folder


async def test_the_latest_chat_of_this_agent_and_folder_goes_on() -> None:
    crib, here, there = toolcrib.open({}, env={}), Path("/a/shop"), Path("/b/shop")
    store, ask = crib.sessions, partial(crib.ask, caller=OWNER)
    keys = [new_chat_key("main", here), new_chat_key("main", there), new_chat_key("docs", here)]
    for at, key in enumerate(keys):
        await store.make(SessionHead(key=key, made_at=at, changed_at=at))
        said = Said(Message(role="user", content=(Text(f"hello {at}"),)))
        store.append(key, [Line("a", None, float(at), said)], at=0)
    assert [await find_latest(ask, agent, folder) for agent, folder in (("main", here), ("main", there))] == keys[:2]
    assert await find_latest(ask, "docs", here) == keys[2]
    assert await find_latest(ask, "docs", there) is None
    found = await summarize_session(ask, keys[0])
    assert found is not None
    assert found.asked == "hello 0"


@pytest.mark.parametrize("name", ["group", "..", "a:group:1", "dm", "subagent", "日本", "x" * 300, "-"])
def test_whatever_a_folder_is_called_its_chats_are_nothing_else(name: str) -> None:
    key = new_chat_key("main", Path("/") / name)
    assert check_key(key) == key
    assert kind_from_key(key) == "other"


def said(at: int, role: Role, text: str = "", calls: tuple[Call, ...] = ()) -> Line:
    message = Message(
        role=role, content=(Text(text),) if text else (), calls=calls, finish="calls" if calls else "stop"
    )
    return Line(str(at), str(at - 1) if at else None, 0.0, Said(message))


async def test_what_was_not_finished_is_told_and_an_older_answer_is_none_to_it() -> None:
    crib = toolcrib.open({}, env={})
    store, ask = crib.sessions, partial(crib.ask, caller=OWNER)
    lines = [said(0, "user", "one"), said(1, "assistant", "first"), said(2, "user", "two")]
    await store.add(SessionHead(key="agent:main:a", made_at=0.0, changed_at=0.0), lines)
    found = await summarize_session(ask, "agent:main:a")
    assert found is not None
    assert (found.asked, found.answered, found.unfinished) == ("two", "", "That was not finished")
    make = call_of("k", "make")
    begun = [*lines, said(3, "assistant", calls=(make,)), Line("4", "3", 0.0, Began(make))]
    await store.add(SessionHead(key="agent:main:b", made_at=0.0, changed_at=0.0), begun)
    found = await summarize_session(ask, "agent:main:b")
    assert found is not None
    assert (found.asked, found.unfinished) == ("two", "exec began and never ended, and may have done a part of it")


def test_a_session_is_held_by_one_chat_and_let_go_for_the_next(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from toolcrib.doors.cli.chat.session import SessionLock;"
        "print(SessionLock(Path(sys.argv[1])).take('a'), flush=True); sys.stdin.read()"
    )
    path = tmp_path / "state" / "chats.lock"
    command = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        mine = SessionLock(path)
        assert [mine.take("a"), mine.take("b"), mine.take("b")] == [False, True, True]
        other.communicate("")
    assert mine.take("a")
    mine.close()


# undo


@pytest.fixture
def workspace(tmp_path: Path) -> LocalWorkspace:
    return Workspaces().open(Terms(root=tmp_path), "s")


async def test_several_files_come_back_as_one(workspace: LocalWorkspace, tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"1")
    (tmp_path / "gone").write_bytes(b"2")
    undo = Undo()
    undo.watch(workspace)
    await workspace.change(
        [Change(path="old", data=b"x"), Change(path="gone", data=None), Change(path="new", data=b"y")]
    )
    assert undo.diff("old").splitlines() == ["--- a/old", "+++ b/old", "@@ -1 +1 @@", "-1", "+x"]
    assert await undo.undo() == "old is as it was, gone is back, new is gone again"
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == {
        "old": b"1",
        "gone": b"2",
    }
    with pytest.raises(CribError, match="no file was changed"):
        await undo.undo()


async def test_changes_are_taken_back_last_first(workspace: LocalWorkspace, tmp_path: Path) -> None:
    undo = Undo()
    undo.watch(workspace)
    for data in (b"1", b"2", b"3"):
        await workspace.write("a", data)
    seen = []
    for _ in range(2):
        await undo.undo()
        seen.append((tmp_path / "a").read_bytes())
    assert seen == [b"2", b"1"]
    assert await undo.undo() == "a is gone again"


async def test_a_change_by_others_while_one_is_taken_back_can_be_taken_back_next(
    workspace: LocalWorkspace, tmp_path: Path
) -> None:
    undo = Undo()
    undo.watch(workspace)
    await workspace.change([Change(path="a", data=b"1")])
    kept, others, written = workspace.around, asyncio.Event(), asyncio.Event()
    assert kept is not None

    async def late(changes: Sequence[Change], make: Make) -> tuple[Entry, ...]:
        made = await make(changes)
        written.set()
        await others.wait()
        return made

    async def meanwhile(changes: Sequence[Change], make: Make) -> tuple[Entry, ...]:
        others.set()
        await writing
        return await kept(changes, make)

    workspace.around = lambda changes, make: kept(changes, lambda those: late(those, make))
    async with asyncio.timeout(60):
        writing = asyncio.create_task(workspace.change([Change(path="b", data=b"2")]))
        await written.wait()
        workspace.around = meanwhile
        assert await undo.undo() == "a is gone again"
        workspace.around = kept
        assert await undo.undo() == "b is gone again"
    assert list(tmp_path.rglob("[ab]")) == []


async def test_a_file_too_large_to_keep_is_not_promised_back(workspace: LocalWorkspace, tmp_path: Path) -> None:
    undo = Undo()
    undo.watch(workspace)
    (tmp_path / "big").write_bytes(b"x" * (5 << 20))
    await workspace.write("big", b"small")
    with pytest.raises(CribError, match="big is too large to be kept"):
        await undo.undo()


# completion


def completed(completer: ChatCompleter, text: str) -> Sequence[str]:
    found = completer.get_completions(Document(text), CompleteEvent(completion_requested=True))
    return [text[: len(text) + each.start_position] + each.text for each in found]


def test_what_can_be_completed(tmp_path: Path) -> None:
    (tmp_path / "src" / "shop").mkdir(parents=True)
    (tmp_path / "setup.py").touch()
    (tmp_path / ".env").touch()
    (tmp_path / "s\x1b[2J").touch()
    completer = ChatCompleter({"why": lambda: ("exec", "edit"), "quit": tuple}, tmp_path)
    assert completed(completer, "/") == ["/why", "/quit"]
    assert completed(completer, "/why ex") == ["/why exec"]
    assert completed(completer, "read s") == ["read setup.py", "read src/"]
    assert completed(completer, "read src/") == ["read src/shop/"]
    assert completed(completer, "read .e") == ["read .env"]
    assert completed(completer, "read nowhere/x") == []
    assert completed(completer, "hello ") == []
