"""Names of other people's tools: always names of ours, never two tools under one, and readable where they can be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.define.names import (
    RESOURCES_LIST,
    RESOURCES_READ,
    beginning_of,
    canonical,
    mcp_name,
    server_part,
    tool_name,
)

NASTY = st.one_of(
    st.text(max_size=100),
    st.text("ab_-", max_size=8),
    st.text("aA_./ ", max_size=8),
    st.sampled_from(["resources__list", "a__8335e4", "echo", "Echo", "ECHO", "e_cho", "x" * 64, "x" * 65, "x" * 66]),
    st.sampled_from(["srv_echo", "srv_srv_echo", "srv__echo", "srv_Echo", "srv_", "srv-1_echo", "srv_resources__list"]),
)


@pytest.mark.parametrize(
    ("server", "tool", "name"),
    [
        ("github", "create_issue", "github__create_issue"),
        ("my-files", "read-file", "my-files__read-file"),
        ("My Server", "x", "my_server__x"),
        ("a__b", "c", "a_b__c"),
        ("srv", "_x", "srv___x"),
        ("git", "git_log", "git__log"),
        ("git", "git_git_log", "git__git_log"),
        ("git", "git_", "git__git_"),
        ("git", "git_logAll", "git__logall__595583"),
        ("github", "createIssue", "github__createissue__706a5e"),
        ("srv", "a__b", "srv__a_b__63e5c1"),
        ("srv", "a/b:c.d-e", "srv__a_b_c_d-e__3d0a16"),
        ("srv", "中文", "srv__tool__72726d"),
        ("日本", "x", "mcp-cf2abf__x"),
    ],
)
def test_a_plain_name_stays_as_it_is_and_any_other_is_told_apart(server: str, tool: str, name: str) -> None:
    assert tool_name(server, tool) == name


@given(NASTY, NASTY)
def test_every_name_is_one_of_ours(server: str, tool: str) -> None:
    name = tool_name(server, tool)
    assert canonical(name) == name
    assert name.startswith(beginning_of(f"mcp:{server}"))


@given(st.lists(st.tuples(st.sampled_from(["srv", "s_r", "srv-1"]), NASTY), unique=True, max_size=30))
def test_no_two_tools_share_a_name(tools: list[tuple[str, str]]) -> None:
    beside = {server: {own for at, own in tools if at == server} for server, _ in tools}
    assert len({tool_name(server, own, beside[server]) for server, own in tools}) == len(tools)


@given(NASTY, NASTY)
def test_the_server_is_what_stands_before_the_first_double_underscore(server: str, tool: str) -> None:
    assert tool_name(server, tool).partition("__")[0] == server_part(server)


@given(st.from_regex(r"[a-z0-9-]{1,20}(_[a-z0-9-]{1,8}){0,3}", fullmatch=True))
def test_a_plain_name_can_be_read_back(tool: str) -> None:
    assert tool_name("srv", tool, {tool.removeprefix("srv_")}).partition("__")[2] == tool


@given(NASTY)
def test_no_tool_of_a_server_is_called_like_ours_for_its_resources(tool: str) -> None:
    assert tool_name("srv", tool) not in (f"srv__{RESOURCES_LIST}", f"srv__{RESOURCES_READ}")


def test_a_rule_may_call_a_tool_as_its_server_does() -> None:
    assert mcp_name("github__createissue__706a5e", "mcp:github") == "github__createissue"
    assert mcp_name("github__create_issue", "mcp:github") == "github__create_issue"
    assert mcp_name("read", "core") is None
    assert beginning_of("plugin:github") == ""
