"""When a conversation no longer fits into the model."""

import pytest

from toolcrib.adapter import anthropic
from toolcrib.adapter.cards import Target
from toolcrib.adapter.reply import is_overflow
from toolcrib.define.event import Replied, Usage
from toolcrib.define.message import Finish, Message


def replied(finish: Finish, error: str = "", tokens: int = 0) -> Replied:
    return Replied(Message(role="assistant", finish=finish), Usage(input=tokens), error)


@pytest.mark.parametrize(
    "error",
    [
        "prompt is too long: 213462 tokens > 200000 maximum",
        "400 input is too long for requested model",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        "Please reduce the length of the messages or completion.",
        "This endpoint's maximum context length is 262144 tokens.",
        "prompt token count of 128001 exceeds the limit of 128000",
        "the request exceeds the available context size, try increasing it",
        "tokens to keep from the initial prompt is greater than the context length",
        "invalid params, context window exceeds limit",
        "Your request exceeded model token limit: 262144",
        "context_length_exceeded",
        "too many tokens",
        "413 status code (no body)",
        "400 (no body)",
    ],
)
def test_every_provider_says_it_in_its_own_words(error: str) -> None:
    assert is_overflow(replied("error", error))
    assert not is_overflow(replied("aborted", error))


@pytest.mark.parametrize(
    "error",
    [
        "",
        "429 too many requests",
        "429 too many tokens per minute",
        "ThrottlingException: Too many tokens, please wait before trying again.",
        "Rate limit reached: exceeds the limit of 30000 tokens",
        "401 (no body)",
        "overloaded",
        "the reply broke off before its end; ask again",
    ],
)
def test_haste_and_other_failures_are_no_overflow(error: str) -> None:
    assert not is_overflow(replied("error", error), 100)


@pytest.mark.parametrize(
    ("tokens", "window", "full"), [(101, 100, True), (100, 100, False), (101, 0, False), (0, 100, False)]
)
def test_a_provider_that_leaves_out_what_does_not_fit_is_found_out(tokens: int, window: int, full: bool) -> None:
    assert is_overflow(replied("stop", tokens=tokens), window) is full
    assert not is_overflow(replied("aborted", tokens=tokens), window)


def test_our_own_sentence_about_a_full_window_is_understood() -> None:
    full = {"content": [], "stop_reason": "model_context_window_exceeded"}
    assert is_overflow(anthropic.read_reply(full, Target(api="anthropic")))
