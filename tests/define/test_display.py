"""What a person is shown before deciding: nothing hidden, nothing in disguise, and still readable."""

import codecs
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.define.display import escape, quote


@pytest.mark.parametrize(
    "text",
    [
        "ls -la | wc",
        "привіт, як справи? Кіт і пес, м’яч і мʼяч",
        "тест-file",
        "Straße, Łódź, café, ñandú, Việt Nam, Kapı",
        "你好，世界！使用git提交",
        "東京タワー",
        "안녕하세요",
        "अनुच्छेद",
        "สวัสดี",
        "שלום עולם",
        "stop — go… №5 «так»",
        "👍 done",
    ],
)
def test_plain_text_in_any_script_stays_readable(text: str) -> None:
    assert escape(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\\b", r"a\\b"),
        ("a\nb\r\tc\x00\x1b[31m\x7f\x9b", r"a\nb\r\tc\x00\x1b[31m\x7f\x9b"),
        ("a\u202eb\u2066c\u200fd", r"a\u202eb\u2066c\u200fd"),
        ("a\u200bb\u200dc\u00add\ufeffe\u2060f", r"a\u200bb\u200dc\xadd\ufeffe\u2060f"),
        ("x\u3164y\u2800z\ufe0f\u034f", r"x\u3164y\u2800z\ufe0f\u034f"),
        ("a\u00a0b\u2003c\u3000d\u2028e", r"a\xa0b\u2003c\u3000d\u2028e"),
        ("c\u0430t", r"c\u0430t"),
        ("\u0441\u043e\u0440\u0443", r"\u0441\u043e\u0440\u0443"),
        ("привіт \u0440\u0443 rm", r"привіт \u0440\u0443 rm"),
        ("\u0261it", r"\u0261it"),
        ("\uff52\uff4d \U0001d5cb", r"\uff52\uff4d \U0001d5cb"),
        ("\ufb01le\u00b2", r"\ufb01le\xb2"),
        ("rm \u2013rf \u2212x \u201cq\u201d \u2018w\u2019", r"rm \u2013rf \u2212x \u201cq\u201d \u2018w\u2019"),
        ("a\u2215b\u2044c\u2223d", r"a\u2215b\u2044c\u2223d"),
        ("cafe\u0301 \u0438\u0306", r"cafe\u0301 и\u0306"),
        ("rm \u05d0\u05d1", r"rm \u05d0\u05d1"),
        ("/\u05d0\u05d1/", r"/\u05d0\u05d1/"),
        ("\u212b\u2126", r"\u212b\u2126"),
        ("5\u0665", r"5\u0665"),
        ("ls\u4e28wc", r"ls\u4e28wc"),
        ("\ud800\U000e0041\ue000\U0010ffff", r"\ud800\U000e0041\ue000\U0010ffff"),
        ("ж\u0301\u0302\u0303\u0304", "ж\u0301\u0302\u0303\\u0304"),
    ],
)
def test_what_deceives_is_escaped(text: str, shown: str) -> None:
    assert escape(text) == shown


def read_back(shown: str) -> str:
    """Return the text that was shown: every escape is one of Python's."""
    return re.sub(
        r"\\(?:x..|u....|U........|.)",
        lambda found: codecs.decode(found[0].encode(), "unicode_escape"),
        shown,
    )


odd = st.characters() | st.sampled_from("\\ux0430nа’ʼ一ノ\u202e\u200b\n\t\u0301éа")


@given(st.text(odd))
def test_no_two_texts_are_shown_alike(text: str) -> None:
    assert read_back(escape(text)) == text


@given(st.text(odd))
def test_nothing_unseen_is_shown(text: str) -> None:
    assert escape(text).isprintable()


def test_values_are_shown_as_json_with_a_line_for_a_line() -> None:
    value = {"a": [1, True, None, 1.5], "b": 'x\n\\n "y"\n', "c": {}}
    assert quote(value) == '{"a": [1, true, null, 1.5], "b": "x\\n\n\\\\n \\"y\\"\\n\n", "c": {}}'
