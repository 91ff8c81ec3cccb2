"""Every bridge keeps the same promises, proved with the real package and a provider (or a model) that is its fake."""

from collections.abc import Awaitable, Callable
from importlib import import_module

import pytest
from tests.doors.bridges.wires import Asked, Heard, Told
from tests.doors.bridges.world import world

pytestmark = pytest.mark.anyio

Converse = Callable[..., Awaitable[Heard]]

# a client by its package and the module of its fake
CLIENTS = {
    "chat": ("openai", "with_openai"),
    "chat_streamed": ("openai", "with_openai"),
    "responses": ("openai", "with_openai"),
    "responses_streamed": ("openai", "with_openai"),
    "messages": ("anthropic", "with_anthropic"),
    "messages_streamed": ("anthropic", "with_anthropic"),
    "gemini": ("google.genai", "with_genai"),
    "gemini_streamed": ("google.genai", "with_genai"),
    "agent": ("pydantic_ai", "with_pydantic_ai"),
    "agent_streamed": ("pydantic_ai", "with_pydantic_ai"),
}
TEXTS = [name for name in CLIENTS if name.startswith(("chat", "responses", "agent"))]  # arguments come as JSON texts
OWN_LIST = [name for name in CLIENTS if not name.startswith("agent")]  # who calls what is not in the list reaches us


@pytest.fixture(params=CLIENTS)
def converse(request: pytest.FixtureRequest) -> Converse:
    """One conversation through a bridge: tools offered, calls made, answers told."""
    name: str = request.param
    package, module = CLIENTS[name]
    pytest.importorskip(package, reason=f"the package {package} is not installed")
    found: Converse = getattr(import_module(f"tests.doors.bridges.{module}"), name)
    return found


async def test_a_call_runs_through_the_gate_and_its_answer_goes_back(converse: Converse) -> None:
    here = world()
    heard = await converse(here.belt, [Asked("add", '{"a": "2", "b": 3}', "call_1")])
    assert heard.told == [Told("call_1", "the sum is 5")]
    assert here.record == [("decided", "add", "allow"), ("started", "add"), ("finished", "add", "ok", "", "ran")]


async def test_the_model_is_offered_the_belt_and_nothing_else(converse: Converse) -> None:
    here = world()
    heard = await converse(here.belt, [Asked("add", '{"a": 1}')])
    assert sorted(heard.offered) == sorted(tool.name for tool in here.belt.selection.shown)
    assert "vault" not in heard.offered


@pytest.mark.parametrize("converse", OWN_LIST, indirect=True)
async def test_a_denied_tool_that_is_called_all_the_same_is_refused(converse: Converse) -> None:
    here = world()
    heard = await converse(here.belt, [Asked("vault"), Asked("Vault ", id="call_2")])
    for told in heard.told:
        assert told.failed
        assert "Refused: vault is not permitted here." in told.text
    assert here.ran == []
    assert here.record.count(("finished", "vault", "error", "denied", "not run")) == 2


@pytest.mark.parametrize("converse", OWN_LIST, indirect=True)
async def test_a_tool_that_does_not_exist_is_answered_with_the_nearest_names(converse: Converse) -> None:
    here = world()
    heard = await converse(here.belt, [Asked("ad", '{"a": 1}')])
    assert [(told.failed, "there is no tool 'ad'; the nearest are add" in told.text) for told in heard.told] == [
        (True, True)
    ]


async def test_a_failure_keeps_its_flag_and_its_sentence(converse: Converse) -> None:
    here = world()
    heard = await converse(here.belt, [Asked("shop", '{"name": "bakery"}')])
    assert [(told.failed, "no shop 'bakery'; there is 'corner'" in told.text) for told in heard.told] == [(True, True)]


async def test_arguments_that_do_not_fit_are_told_to_the_model(converse: Converse) -> None:
    here = world()
    heard = await converse(here.belt, [Asked("add", '{"c": 1}')])
    assert [told.failed for told in heard.told] == [True]
    assert "a is required" in heard.told[0].text
    assert here.record[-1] == ("finished", "add", "error", "bad_arguments", "not run")


@pytest.mark.parametrize("converse", TEXTS, indirect=True)
@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        ('{"a": 1', "not valid JSON"),
        ("[1]", "the arguments are a list"),
        ('{"a": 1, "a": 2}', "'a' is given twice"),
    ],
)
async def test_arguments_that_cannot_be_read_are_answered_and_never_run(
    converse: Converse, args: str, complaint: str
) -> None:
    here = world()
    heard = await converse(here.belt, [Asked("add", args)])
    assert [(told.failed, complaint in told.text) for told in heard.told] == [(True, True)]
    assert here.record == [("decided", "add", "allow"), ("finished", "add", "error", "bad_arguments", "not run")]


async def test_a_picture_reaches_the_model(converse: Converse) -> None:
    here = world()
    heard = await converse(here.belt, [Asked("photo"), Asked("add", '{"a": 1}', "call_2")])
    assert heard.told == [Told("call_1", "one pixel", pictures=1), Told("call_2", "the sum is 2")]


async def test_outside_text_arrives_fenced_and_cut_inside_the_fence(converse: Converse) -> None:
    here = world()
    heard = await converse(here.belt, [Asked("page")])
    text = heard.told[0].text
    assert "Source: web:https://far.test" in text
    assert "<|im_start|>" not in text
    assert "[cut: 8,000 of " in text.splitlines()[-1]
    assert "result_get with key" in text.splitlines()[-1]


@pytest.mark.parametrize(
    ("answer", "text", "ran"),
    [(True, "sda is wiped", ["wipe"]), (False, "Refused: the user said no to this call of wipe.", [])],
)
async def test_a_human_is_asked_where_the_verdict_says_so(
    converse: Converse, answer: bool, text: str, ran: list[str]
) -> None:
    here = world(answer)
    heard = await converse(here.belt, [Asked("wipe", '{"disk": "sda"}')])
    assert [(told.failed, text in told.text) for told in heard.told] == [(not answer, True)]
    assert [(call.name, dict(call.args)) for _, call, _ in here.approver.asked] == [("wipe", {"disk": "sda"})]
    assert here.ran == ran


async def test_calls_of_one_reply_run_side_by_side_and_are_answered_in_order(converse: Converse) -> None:
    here = world()
    heard = await converse(here.belt, [Asked("turn", '{"number": 1}', "x1"), Asked("turn", '{"number": 2}', "x2")])
    assert heard.told == [Told("x1", "turn 1 is over"), Told("x2", "turn 2 is over")]
    assert here.ran == ["turn 1", "turn 2"]


# how each client says that a reply was cut off by its length; OpenAI's own stream of a chat raises then
LENGTHS = {"responses": "incomplete", "messages": "max_tokens", "gemini": "MAX_TOKENS"}
LENGTHS |= {f"{name}_streamed": reason for name, reason in LENGTHS.items()} | {"chat": "length", "agent": "length"}


@pytest.mark.parametrize(("converse", "reason"), LENGTHS.items(), indirect=["converse"])
async def test_a_call_in_a_reply_that_was_cut_off_is_answered_and_never_runs(converse: Converse, reason: str) -> None:
    here = world()
    heard = await converse(here.belt, [Asked("add", '{"a": 1}')], reason)
    assert [(told.id, told.failed) for told in heard.told] == [("call_1", True)]
    assert "so this call was not run" in heard.told[0].text
    assert here.record == [("decided", "add", "allow"), ("finished", "add", "error", "bad_arguments", "not run")]


@pytest.mark.parametrize("converse", ["chat", "responses", "messages", "gemini"], indirect=True)
async def test_two_calls_with_one_id_both_run_and_are_answered_under_it(converse: Converse) -> None:
    here = world()
    heard = await converse(here.belt, [Asked("add", '{"a": 1}', "same"), Asked("add", '{"a": 2}', "same")])
    assert heard.told == [Told("same", "the sum is 2"), Told("same", "the sum is 3")]


@pytest.mark.parametrize("converse", ["chat", "responses", "messages", "gemini"], indirect=True)
async def test_a_model_that_cannot_see_is_told_of_a_picture_in_words(converse: Converse) -> None:
    here = world()
    heard = await converse(here.belt, [Asked("photo")], sees=False)
    assert [told.pictures for told in heard.told] == [0]
    assert "image/png" in heard.told[0].text
