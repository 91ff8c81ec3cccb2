"""Whatever is said to the offline model: it never breaks, ends within its steps, and calls only what is declared."""

from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.backends.providers.offline.talking import FILES, MOST_STEPS, folder, reply, said, text_of

from toolcrib.adapter.conversation import answer
from toolcrib.define.history import History
from toolcrib.define.message import Message
from toolcrib.define.result import Result
from toolcrib.tools import SHELF

TOOLS = {tool.name: tool for tool in SHELF if tool.has_body}
SPOKEN = """
list files in src find TODO *.py and then show the first file read README.md run tests `git status` replace a by b in
a.txt create x.txt with hello append to delete compare how many lines of where is Foo defined who uses it , . ? please
last 3 commits lines 2-4 what changed summarise them count 'q' "" /etc/passwd ../x { [ ( * $(x) ; | - ... biggest
"""
WORDS = st.sampled_from(SPOKEN.split())
ANSWERS = st.sampled_from(
    [
        Result.text("[no matches]"),
        Result.text("[the folder is empty]"),
        Result.text("src/app.py:5: class Foo:\nb.py:x: y\n\n[2 matches shown and there are more; limit=4]"),
        Result.text("a.txt\nsrc/\npyproject.toml\nREADME.md\nlink -> nowhere (leads nowhere inside the workspace)"),
        Result.text("one\ntwo\n\n[lines 1-2 of many shown, more follow; go on with offset=3]"),
        Result.text("The command is still running as calm-otter-001 (pid 7). Follow it with process."),
        Result.text(""),
        Result.error("'a.txt' does not exist", code="not_found"),
        Result.error("'src' is a folder; use ls to see what is in it", code="is_folder"),
        Result.error("'x' is on no list of tools.exec, and there is nobody to ask", code="not_approved"),
    ]
)


async def converse(texts: list[str], results: st.DataObject) -> None:
    """Talk with made-up results, so that every way through a plan is met; every request must come to an end."""
    history = History()
    for text in texts:
        history.append(said(text))
        failed: set[tuple[str, str]] = set()
        for _ in range(MOST_STEPS):
            message = await reply(history, TOOLS.values())
            history.append(message)
            if not message.calls:
                assert text_of(message).strip()
                break
            for call in message.calls:
                TOOLS[call.name].check(call.args)
                assert (call.name, repr(call.args)) not in failed, "what failed is not tried again"
                result = results.draw(ANSWERS)
                if result.status == "error":
                    failed.add((call.name, repr(call.args)))
                history.append(answer(call, result))
        else:
            pytest.fail(f"no end to {text!r}")


@settings(max_examples=150)
@given(st.lists(WORDS, max_size=14).map(" ".join), st.data())
def test_any_words_of_requests_come_to_an_end(text: str, data: st.DataObject) -> None:
    anyio.run(converse, [text], data)


@settings(max_examples=80)
@given(st.lists(st.text(max_size=80), min_size=1, max_size=2), st.data())
def test_any_text_comes_to_an_end(texts: list[str], data: st.DataObject) -> None:
    anyio.run(converse, texts, data)


@pytest.mark.parametrize(
    "text", ["a " * 20_000, "and " * 5_000, "find " * 3_000, "'" * 9_000, "`" * 9_999, "x, " * 8_000]
)
def test_a_long_text_takes_no_long_time(text: str) -> None:
    async def within_two_seconds() -> Message:
        with anyio.fail_after(2):
            return await reply(History([said(text)]), TOOLS.values())

    assert anyio.run(within_two_seconds).role == "assistant"


def test_the_sample_folder_has_what_the_dialogues_need(tmp_path: Path) -> None:
    assert sorted(path.name for path in folder(tmp_path).iterdir()) == sorted(
        {name.partition("/")[0] for name in FILES}
    )
