"""The router: the only way to a service, bound to a caller, its scopes and the method's own parameters."""

from typing import Any

import pytest

from toolcrib.define.caller import Caller, Sender
from toolcrib.define.errors import ArgumentError, DeclarationError, ToolError
from toolcrib.define.ports import Progress, Rpc, rpc
from toolcrib.services.router import Router

pytestmark = pytest.mark.anyio

BOB = Caller(channel="telegram", sender=Sender(id="7"))


class Notes:
    """A service for the tests."""

    def __init__(self) -> None:
        self.kept: list[tuple[str | None, str]] = []

    @rpc("notes.list", clients="read", why="own")
    async def list(self) -> list[tuple[str | None, str]]:
        """List all notes."""
        return self.kept

    @rpc("notes.add", clients="write", why="own")
    async def add(self, caller: Caller, text: str, times: int = 1) -> dict[str, Any]:
        """Keep a note."""
        self.kept += [(caller.channel, text)] * times
        return {"count": len(self.kept)}

    @rpc("notes.copy", clients="write", why="own")
    async def copy(self, progress: Progress, count: int) -> str:
        """Copy, and tell how far it is."""
        for number in range(count):
            progress({"done": number + 1})
        return "copied"

    @rpc("notes.erase", clients="admin")
    async def erase(self) -> None:
        """Forget everything."""
        self.kept.clear()


def ask(notes: Notes | None = None) -> Rpc:
    return Router([notes or Notes()]).rpc_for(BOB)


async def test_a_method_is_told_who_asks_and_nobody_can_say_otherwise() -> None:
    notes = Notes()
    assert await ask(notes)("notes.add", {"text": "milk", "times": "2"}) == {"count": 2}
    assert notes.kept == [("telegram", "milk")] * 2
    with pytest.raises(ArgumentError, match=r"notes\.add: there is no parameter 'caller'"):
        await ask(notes)("notes.add", {"text": "milk", "caller": {"owner": True}})


async def test_progress_comes_before_the_answer_and_needs_no_listener() -> None:
    heard: list[Any] = []
    assert await ask()("notes.copy", {"count": 2}, progress=heard.append) == "copied"
    assert heard == [{"done": 1}, {"done": 2}]
    assert await ask()("notes.copy", {"count": 2}) == "copied"


async def test_a_listener_that_fails_does_not_stop_the_method() -> None:
    def fail(part: Any) -> None:
        raise OSError("gone")

    assert await ask()("notes.copy", {"count": 2}, progress=fail) == "copied"


@pytest.mark.parametrize(
    ("name", "params", "sentence", "code"),
    [
        ("notes.ad", {}, "no method 'notes.ad'; did you mean 'notes.add'?", "not_found"),
        ("notes.erase", {}, "notes.erase needs the scope 'admin', which this caller lacks", "denied"),
        ("notes.add", {}, "notes.add: text is required", "bad_arguments"),
    ],
)
async def test_what_cannot_be_asked_is_told_in_one_sentence(
    name: str, params: dict[str, Any], sentence: str, code: str
) -> None:
    with pytest.raises(ToolError) as caught:
        await ask()(name, params)
    assert (str(caught.value), caught.value.code) == (sentence, code)


async def test_a_scope_is_held_by_who_came_with_it() -> None:
    notes = Notes()
    notes.kept.append((None, "a"))
    await Router([notes]).rpc_for(Caller(), ["admin"])("notes.erase", {})
    assert notes.kept == []


def test_a_method_says_what_it_takes() -> None:
    method = Router([Notes()]).methods["notes.add"]
    assert (method.mark.clients, method.doc) == ("write", "Keep a note.")
    assert list(method.parameters["properties"]) == ["text", "times"]


def test_two_services_cannot_offer_one_method() -> None:
    with pytest.raises(DeclarationError, match="two services offer the method"):
        Router([Notes(), Notes()])


@pytest.mark.parametrize(("name", "scope"), [("Notes", "read"), ("notes.", "read"), ("a.b c", "read"), ("a.b", "all")])
def test_a_mark_that_says_nothing_sensible_is_refused(name: str, scope: Any) -> None:
    with pytest.raises(DeclarationError):
        rpc(name, clients=scope)


def test_a_method_that_is_not_async_is_refused() -> None:
    class Slow:
        @rpc("slow.do", clients="read", why="own")
        def do(self) -> None:
            """Block everybody."""

    with pytest.raises(DeclarationError, match="is not async"):
        Router([Slow()])
