"""Turns on SQLite, unharmed: what the next model is told is the same, whether the crib stayed or was opened again."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

import toolcrib
from toolcrib.agent.session_log import recall
from toolcrib.app.stores import state_in
from toolcrib.define.event import Event, ToolStarted, TurnFinished
from toolcrib.define.message import Message
from toolcrib.testing.models import FunctionModel, RecordedRequest

from .ledger import Ledger, kept_in
from .life import CARD, KEY, Life, Mind, config_for, told, tools_for

pytestmark = pytest.mark.anyio


class Journey:
    """One session, whose model says what chance wants; `said` is what a life would say of it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.said: list[str] = []
        self.life = Life(folder=folder, number=0, seed=seed)
        self.mind = Mind(self.life, self.said.append)
        self.model = FunctionModel(self.mind.answer, CARD)
        self.chance = random.Random(seed)
        (folder / "work").mkdir()

    def open(self) -> toolcrib.Crib:
        return toolcrib.open(config_for(self.life), state=self.life.state, env={})

    async def turn(self, crib: toolcrib.Crib) -> RecordedRequest:
        """Take a turn; return what the model was asked first, summaries not counted."""
        at, events = len(self.model.asked), list[Event]()
        turn = crib.turn(
            f"message {self.mind.number()}",
            caller=toolcrib.OWNER,
            session=KEY,
            model=self.model,
            extra=tools_for(self.life, self.said.append),
        )
        async for event in turn:
            events.append(event)
            if words := told(event):
                self.said.append(words)
            if isinstance(event, ToolStarted) and self.chance.random() < 0.1:
                turn.steer(f"steered {self.mind.number()}")
        end = events[-1]
        assert isinstance(end, TurnFinished)
        assert end.reason == "done", end.sentence
        return next(asked for asked in self.model.asked[at:] if asked.request.choice != "none")

    async def history(self) -> list[Message]:
        """Return the conversation as somebody reads it who opens the store anew."""
        state = state_in(self.life.state)
        try:
            return list(recall(await state.sessions.lines(KEY)).history)
        finally:
            await state.close()


def timeless(messages: list[Message]) -> list[Message]:
    return [replace(message, at=0.0) for message in messages]


@pytest.mark.parametrize("seed", range(3))
async def test_the_next_model_is_told_the_same_whether_the_crib_was_opened_again_or_not(
    tmp_path: Path, seed: int
) -> None:
    journey = Journey(tmp_path, seed)
    crib = journey.open()
    try:
        for number in range(8):
            before = timeless(await journey.history())
            shortened = journey.said.count("shortened")
            asked = await journey.turn(crib)
            if journey.said.count("shortened") == shortened:
                assert timeless(list(asked.messages))[:-1] == before
            if number % 3 == 2:
                await crib.close()
                crib = journey.open()
    finally:
        await crib.close()
    effects = (tmp_path / "effects").read_text().splitlines()
    assert Ledger().wrong(journey.said, await kept_in(tmp_path / "state"), effects) == []
    assert "shortened" in journey.said
    assert any(words.startswith("heard") for words in journey.said)
