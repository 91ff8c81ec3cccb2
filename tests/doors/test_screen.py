"""A turn on a screen: how long calls go, and what else is told around the words."""

from itertools import count

import pytest

from toolcrib.define.display import escape_controls
from toolcrib.define.event import (
    Compacted,
    Event,
    Received,
    Retrying,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnFinished,
)
from toolcrib.define.message import Call, Message
from toolcrib.define.result import Image, Result, Text
from toolcrib.define.verdict import Verdict
from toolcrib.doors.cli._format import truncate
from toolcrib.doors.cli._turn import RunScreen

RUN = Call("1", "exec", {"command": "make all"}, "k1")
ALLOWED = Verdict("exec", "allow", layer=None, rule=None, origin=None, reason="passes", remedy=None)


def shown(capsys: pytest.CaptureFixture[str], *events: Event, step: float = 0.0) -> tuple[str, str]:
    """Return what is on stdout and on stderr after these events, `step` seconds between them."""
    times = count(0.0, step) if step else iter(lambda: 0.0, None)
    screen = RunScreen(now=lambda: next(times))
    for event in events:
        screen.show(event)
    out, err = capsys.readouterr()
    return out, err


def test_a_long_call_tells_how_it_goes_but_not_at_every_word(capsys: pytest.CaptureFixture[str]) -> None:
    progress = [ToolProgress(RUN, Result.text(f"cc {number}.c\n\n")) for number in range(5)]
    done = ToolFinished(RUN, Result.text("built"))
    _, err = shown(capsys, ToolStarted(RUN, ALLOWED), *progress, done, step=2.0)
    assert err == "● exec make all  [allow]\n  … 4 s: cc 1.c\n  … 8 s: cc 3.c\n  ✓ built (12 s)\n"


def test_a_short_call_tells_only_what_came_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    events = ToolStarted(RUN, ALLOWED), ToolProgress(RUN, Result.text("cc")), ToolFinished(RUN, Result(()))
    assert shown(capsys, *events) == ("", "● exec make all  [allow]\n  ✓ no output\n")


def test_what_a_tool_shows_to_people_is_shown_whole_in_place_of_its_content(capsys: pytest.CaptureFixture[str]) -> None:
    result = Result.json({"n": 12}, display="12 left\n\x1b[2Jof 20")
    events = ToolStarted(RUN, ALLOWED), ToolFinished(RUN, result)
    assert shown(capsys, *events)[1] == "● exec make all  [allow]\n  12 left\n  \\x1b[2Jof 20\n"
    failed = ToolStarted(RUN, ALLOWED), ToolFinished(RUN, Result.error("E_SOLD_OUT")._replace(display="sold out"))
    assert shown(capsys, *failed)[1].endswith("  ✗ sold out\n")


def test_a_picture_is_told_by_its_size(capsys: pytest.CaptureFixture[str]) -> None:
    events = ToolStarted(RUN, ALLOWED), ToolFinished(RUN, Result((Image(b"x" * 2000, "image/png"),)))
    assert shown(capsys, *events)[1].endswith("  ✓ [image/png, 2,000 bytes]\n")


def test_words_and_remarks_never_share_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    screen = RunScreen(verbose=True)
    for event in (
        TextDelta("I"),
        TextDelta(""),
        ThinkingDelta("Hm"),
        TextDelta("look"),
        Retrying(2, 1.6, "busy"),
        TextDelta("I look.\n"),
        Received(Message(role="user", content=(Text("hurry\n\x1b[2J"),))),
        Compacted(90_000, 9_000),
        TextDelta("done"),
        TurnFinished("done"),
    ):
        screen.show(event)
    out, err = capsys.readouterr()
    assert out == "I\nlook\nI look.\ndone\n"
    assert err == (
        "Hm\n"
        "… busy; asking again in 2 s (try 2); the text so far does not count\n"
        "› hurry \\x1b[2J\n"
        "… the history was shortened: 90,000 to 9,000 tokens\n"
    )


def test_a_failure_of_many_words_is_told_on_a_few_lines(capsys: pytest.CaptureFixture[str]) -> None:
    failed = ToolFinished(RUN, Result.error("it broke " * 200))
    _, err = shown(capsys, ToolStarted(RUN, ALLOWED), failed)
    lines = err.splitlines()[1:]
    assert len(lines) == 4
    assert lines[0].startswith("  ✗ it broke")
    assert lines[3].endswith(" …")
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain\ttext\nand more", "plain\ttext\nand more"),
        ("\x1b[31mred\x1b]0;title\x07", "\\x1b[31mred\\x1b]0;title\\x07"),
        ("\x9b1A\x7f\x08", "\\x9b1A\\x7f\\x08"),
        ("over\rwritten\r\n", "overwritten\n"),
        ("\u202etxt\u2066", "\\u202etxt\\u2066"),
        ("\ud800", "\\ud800"),
        ("हिन्दी, “quoted”, 👩\u200d🚀, ünï", "हिन्दी, “quoted”, 👩\u200d🚀, ünï"),
    ],
)
def test_a_terminal_is_given_nothing_to_obey(text: str, seen: str) -> None:
    assert escape_controls(text) == seen


@pytest.mark.parametrize(
    ("text", "width", "kept"),
    [
        ("short", 5, "short"),
        ("longer", 5, "long…"),
        ("日本語の文", 10, "日本語の文"),
        ("日本語の文", 9, "日本語の…"),
        ("日本語の文", 8, "日本語…"),
        ("e\u0301e\u0301", 2, "e\u0301e\u0301"),
        ("x", 0, "…"),
    ],
)
def test_a_line_is_cut_to_the_columns_it_takes(text: str, width: int, kept: str) -> None:
    assert truncate(text, width) == kept
