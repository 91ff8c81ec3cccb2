"""Which keys a session may have: those of the reference, names in any script, and nothing that could be a path."""

import pytest

from toolcrib.define.errors import ToolError
from toolcrib.define.session import Peer, check_key, to_peer_key, to_thread_key


@pytest.mark.parametrize(
    "key",
    [
        "main", "global", "x" * 64, "x" * 255, "5f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0", "agent:main:main",
        "agent:a b:main", "agent:main:telegram:group:-1001234", "agent:main:whatsapp:dm:+4915112345",
        "agent:main:whatsapp:group:120363@g.us", "agent:main:matrix:channel:!room:server.org:thread:1",
        "agent:main:discord:channel:#general", "agent:main:subagent:1_2", "agent:main:imessage:group:any;+;chat1",
        "agent:main:dm:jörg", "agent:main:dm:иван", "agent:main:dm:山田", "agent:main:dm:कमल",
    ],
)  # fmt: skip
def test_keys_of_the_reference_and_names_of_people_are_taken(key: str) -> None:
    assert check_key(key) == key


def test_a_key_that_we_make_is_taken() -> None:
    peer = Peer(channel="telegram", id="-100", kind="group")
    assert check_key(to_thread_key(to_peer_key("main", peer), "42"))


@pytest.mark.parametrize(
    "key",
    [
        "", " ", "\t", ".", "..", "...", ":", "~", "../x", "a/../../x", "/etc/passwd", "a/b", "a\\b", "..\\x", "a..b",
        "C:\\x", "~/x", "\0", "a\0b", "a\nb", "a\x1b[1m", "a\x7fb", "a\u202eb", "a\u200bb", "\ufeffmain", " main",
        "main ", "a\u00a0b", "a\u3164b", "s" * 256, "s" * 400, "ä" * 128, "a\uff0fb", "\uff0e\uff0e", "a\u2215b",
        "a\u2044b", "a\u29f8b", "a\u2216b", "\u2024\u2024", "%2e%2e%2fx", "a%00", "\ud800", "m\u0430in", "\uff4dain",
        "a\u0301", "a|b", "a*", "a?b", "<x>", '"x"', "`id`", "$(id)",
    ],
)  # fmt: skip
def test_what_could_be_a_path_or_pass_for_another_key_is_refused(key: str) -> None:
    with pytest.raises(ToolError, match=r"the session key .* write letters, digits and signs") as refused:
        check_key(key)
    assert refused.value.code == "bad_key"
    assert len(str(refused.value)) < 500
