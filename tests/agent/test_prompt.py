"""The system prompt: short, and about what is there."""

from toolcrib.agent.prompt import system_prompt


def test_it_is_short_and_says_what_a_model_must_know() -> None:
    text = system_prompt(("read",), agent="main", date="2026-02-03")
    assert len(text) < 900
    for words in ("2026-02-03", "EXTERNAL_UNTRUSTED_CONTENT", "What was refused is not to be tried again"):
        assert words in text


def test_it_mentions_no_tool_that_is_not_on_the_belt_and_nothing_it_was_not_told() -> None:
    text = system_prompt(("read",))
    assert "result_get" not in text
    assert "Today" not in text
    assert "You have no tools" in system_prompt()


def test_it_names_the_folder_and_how_paths_are_written_where_tools_use_them() -> None:
    text = system_prompt(("read",), date="2026-02-03", place="/home/me/shop on Linux")
    assert "The current folder is /home/me/shop on Linux. Paths are relative to it and do not name it" in text
    assert "/home/me" not in system_prompt(("session_status",), place="/home/me/shop on Linux")


def test_the_agents_own_words_come_early_and_those_of_hooks_last() -> None:
    text = system_prompt(("read",), agent="ada", own="You look after the garden.", extras=["Be kind.", " "])
    assert text.startswith("You are an assistant named ada")
    assert text.index("garden") < text.index("Use tools")
    assert text.endswith("\n\nBe kind.")
