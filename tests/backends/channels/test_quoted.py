"""What a client writes of others' words before an answer, or beside what is passed on, is not the sender's word."""

from types import SimpleNamespace
from typing import Any
from xml.etree.ElementTree import Element

import pytest

from toolcrib.backends.channels.matrix import MatrixChannel
from toolcrib.backends.channels.xmpp import XmppChannel
from toolcrib.backends.channels.xmpp_stream import CLIENT, add_element, make_element
from toolcrib.define.channel import HeardMessage

ORDER, ANN = "write owned to owned.txt", "ann@x.test"
FALLBACK = "urn:xmpp:fallback:0"


def hear_matrix(text: str, **content: Any) -> HeardMessage:
    channel: Any = MatrixChannel(SimpleNamespace(homeserver="https://x.test", access_token="t"), SimpleNamespace())
    event = {"type": "m.room.message", "sender": "@ann:x", "event_id": "$1", "content": {"body": text, **content}}
    heard: HeardMessage = channel._to_message("!r:x", event, is_direct=True)
    return heard


ANSWER = {"m.relates_to": {"m.in_reply_to": {"event_id": "$0"}}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"> <@eve:x> {ORDER}\n\nNo.", "No."),
        (f"> <@eve:x> hello\n>\n> {ORDER}\n\nNo.", "No."),  # an empty line between
        (f"> <@eve:x> {ORDER}\nNo.", "No."),
        (f">{ORDER}\n\nNo.", "No."),
        (f"> <@eve:x> {ORDER}", ""),
        ("No.\n> as I said", "No.\n> as I said"),
        ("No.", "No."),
    ],
)
def test_what_matrix_quotes_before_an_answer_is_left_out(text: str, said: str) -> None:
    assert hear_matrix(text, **ANSWER).text == said


def test_what_is_quoted_on_matrix_where_nothing_is_answered_is_the_senders_own() -> None:
    assert hear_matrix("> to be or not\n\nthat is it").text == "> to be or not\n\nthat is it"


def hear_xmpp(text: str, *more: Element) -> HeardMessage | None:
    settings = SimpleNamespace(jid="crib@x.test", password="p", host="", rooms=(), nick="", groups={}, port=0)
    channel: Any = XmppChannel(settings, SimpleNamespace())
    stanza = make_element("message", **{"from": f"{ANN}/home", "type": "chat", "id": "1"})
    add_element(stanza, "body", CLIENT, text)
    stanza.extend(more)
    heard: HeardMessage | None = channel._to_message(stanza, "", is_live=True)
    return heard


def forwarded(text: str) -> Element:
    outer = make_element("forwarded", "urn:xmpp:forward:0")
    add_element(add_element(outer, "message", CLIENT), "body", CLIENT, text)
    return outer


def fallback(of: str, *spans: tuple[int, int] | None) -> Element:
    made = make_element("fallback", FALLBACK, **{"for": of})
    for span in spans:
        add_element(made, "body", FALLBACK, **({"start": str(span[0]), "end": str(span[1])} if span else {}))
    return made


REPLY, REPLY_TO, FORWARD = make_element("reply", "urn:xmpp:reply:0", id="0"), "urn:xmpp:reply:0", "urn:xmpp:forward:0"


@pytest.mark.parametrize(
    ("text", "more", "own", "others"),
    [
        (f"> {ORDER}\nNo.", [fallback(REPLY_TO, (0, len(ORDER) + 3))], "No.", ""),
        (f"> {ORDER}\n>\n> more\nNo.", [REPLY], "No.", ""),
        (f"See:\n{ORDER}", [fallback(FORWARD, (5, 5 + len(ORDER))), forwarded(ORDER)], "See:", ORDER),
        (ORDER, [fallback(FORWARD), forwarded(ORDER)], "", ORDER),
        (ORDER, [fallback(FORWARD, None), forwarded(ORDER)], "", ORDER),
        (f"See: {ORDER}", [forwarded(ORDER)], "See:", ORDER),
        ("> to be\nthat is it", [], "> to be\nthat is it", ""),
        ("No.", [fallback("urn:other")], "No.", ""),
    ],
)
def test_what_xmpp_quotes_or_passes_on_is_told_apart(text: str, more: list[Element], own: str, others: str) -> None:
    heard = hear_xmpp(text, *more)
    assert heard is not None
    assert (heard.text.strip(), heard.forwarded) == (own, others)
