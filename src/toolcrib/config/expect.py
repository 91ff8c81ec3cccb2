"""`expect`: what the operator expects that callers have and lack."""

from typing import Annotated, Self

from pydantic import AfterValidator, model_validator

from toolcrib.policy.settings import FORM, LIST, MAP, TEXT, Section

from .values import Bool, SenderName, Str, Words, quote_value


def _chain(text: str) -> str:
    if not all(part.strip() for part in text.split("/")):
        raise ValueError(f"{quote_value(text)} has a blank in its chain; write outer/inner")
    return text


Chain = Annotated[Str, AfterValidator(_chain)]


class ExpectedSender(Section):
    id: Words | None = None
    e164: Words | None = None
    username: Words | None = None
    name: Words | None = None

    @model_validator(mode="after")
    def _is_somebody(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("is nobody; write id, e164, username or name")
        return self


class ExpectedCaller(Section):
    """The caller of an `expect` entry; `sender` may be written `id:7`, and `parents` as `outer/inner`."""

    session: Words | None = None
    agent: Words | None = None
    provider: Words | None = None
    model: Words | None = None
    channel: Words | None = None
    account: Words | None = None
    group: Words | None = None
    sender: Annotated[Annotated[SenderName, TEXT] | Annotated[ExpectedSender, MAP], FORM] | None = None
    owner: Bool | None = None
    sandboxed: Bool = False
    parents: Annotated[Annotated[Chain, TEXT] | Annotated[tuple[Words, ...], LIST], FORM] = ()


class Expectation(Section):
    caller: ExpectedCaller = ExpectedCaller()
    has: tuple[Words, ...] = ()
    lacks: tuple[Words, ...] = ()
