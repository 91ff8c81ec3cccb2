"""One address, text or file has one form, however often it was encoded and whoever looks at it."""

from pathlib import Path
from typing import Any

import pytest

import toolcrib
from toolcrib import OWNER, Args, Crib, Ctx, Result, tool

pytestmark = pytest.mark.anyio

LIST = {"type": "object", "properties": {"x": {"type": "array", "items": {"type": "string"}}}}
OPEN = {"type": "object", "properties": {"x": {"type": "object"}}, "additionalProperties": True}
TREE = {
    "type": "object",
    "properties": {"x": {"$ref": "#/$defs/N"}},
    "$defs": {"N": {"type": "array", "items": {"$ref": "#/$defs/N"}}},
}


@tool(effects={"read"}, parameters=LIST)
async def lines(ctx: Ctx, args: Args) -> Result:
    """Take a list."""
    return Result.text("ok")


@tool(effects={"read"}, parameters=OPEN)
async def record(ctx: Ctx, args: Args) -> Result:
    """Take an object."""
    return Result.text("ok")


def opened(root: Path, **tools: Any) -> Crib:
    config = {"workspace": {"root": str(root)}, "tools": tools}
    return toolcrib.open(config, tools=[lines, record], env={}, state=root.parent / "state")


async def decide(root: Path, tools: dict[str, Any], name: str, args: dict[str, Any]) -> str:
    """Return the strictest word about a call, by its arguments and by where it would go."""
    async with opened(root, **tools) as crib:
        found = (await crib.belt(OWNER).judge_call(name, args, crib.way_out)).found
    return next((each.decision for each in found if each.decision != "allow"), "allow")


@pytest.mark.parametrize(
    ("rule", "url", "decision"),
    [
        ("8.8.8.0/24", "http://[64:ff9b::808:808]/", "deny"),
        ("8.8.8.0/24", "http://[64:ff9b::8.8.8.8]/", "deny"),
        ("64:ff9b::808:0/112", "http://8.8.8.8/", "deny"),
        ("64:ff9b::808:808", "http://[::ffff:8.8.8.8]/", "deny"),
        ("8.8.8.8", "http://[64:ff9b:1::808:808]/", "deny"),
        ("8.8.8.8", "http://[64:ff9b:1:808:8:800::]/", "deny"),
        ("8.8.8.0/24", "http://[64:ff9b::909:909]/", "allow"),
        ("8.8.8.0/24", "http://[2606:4700::808:808]/", "allow"),
        ("evil.test", "http://%2565vil.test/", "deny"),
        ("evil.test", "http://%252565vil%252Etest/", "deny"),
        ("https://good.test/admin*", "https://good.test/%2561dmin", "deny"),
        ("https://good.test/admin/*", "https://good.test/x/%25252e%25252e/%25%36%31dmin/y", "deny"),
        ("https://good.test/%61dmin*", "https://good.test/admin/x", "deny"),
        ("https://good.test/*key=*", "https://good.test/?%256bey=1", "deny"),
        ("https://good.test/admin*", "https://good.test/100%25/admins", "allow"),
        ("https://good.test/a%20b", "https://good.test/a%20c", "allow"),
    ],
)
async def test_an_address_has_one_form_in_rules_about_it(tmp_path: Path, rule: str, url: str, decision: str) -> None:
    rules = {"deny": [{"tool": "web_fetch", "when": {"url": rule}}]}
    assert await decide(tmp_path, rules, "web_fetch", {"url": url}) == decision
    if "://" not in rule and decision == "deny":
        assert await decide(tmp_path, {"hosts": {"deny": [rule]}}, "web_fetch", {"url": url}) == decision


async def test_what_is_allowed_beneath_an_address_is_not_left_by_encoding_it_twice(tmp_path: Path) -> None:
    rules = {"allow": [{"tool": "web_fetch", "when": {"url": "https://good.test/docs/*"}}]}
    for path, decision in (("docs/a%20b", "allow"), ("docs/%252e%252e/admin", "deny"), ("docs/..%255cx", "deny")):
        assert await decide(tmp_path, rules, "web_fetch", {"url": f"https://good.test/{path}"}) == decision, path


@pytest.mark.parametrize(
    ("text", "decision"),
    [
        ("DROP TABLE x", "deny"), ("drop table x", "deny"), ("dro\u00adp table x", "deny"),
        ("\uff24ROP TABLE x", "deny"), ("drop\u200b tab\u2060le", "deny"), ("drop the tables", "allow"),
    ],
)  # fmt: skip
async def test_an_expression_that_takes_away_is_held_against_the_folded_text_too(
    tmp_path: Path, text: str, decision: str
) -> None:
    for pattern in ("DROP TABLE", "drop table"):
        rules = {"deny": [{"tool": "lines", "when": {"x": {"matches": pattern}}}]}
        assert await decide(tmp_path, rules, "lines", {"x": [text]}) == decision
    gives = {"allow": [{"tool": "lines", "when": {"x": {"matches": "^git status$"}}}]}
    assert await decide(tmp_path, gives, "lines", {"x": ["git status"]}) == "allow"
    assert await decide(tmp_path, gives, "lines", {"x": ["GIT STATUS"]}) == "deny"


async def test_values_that_lie_too_deep_in_each_other_are_refused_in_a_sentence(tmp_path: Path) -> None:
    nested: list[Any] = []
    for _ in range(900):
        nested = [nested]
    deep = ("[" * 900 + "]" * 900, '{"a":' * 900 + "1" + "}" * 900, nested)
    async with opened(tmp_path) as crib:
        belt = crib.belt(OWNER)
        for name in ("lines", "record"):
            for value in deep:
                told = await belt.call(name, {"x": value})
                assert (told.status, told.details["code"]) == ("error", "bad_arguments"), told.plain_text
        assert (await belt.call("lines", {"x": '["a", "b"]'})).status == "ok"
        assert (await belt.call("record", {"x": '{"a":' * 90 + "1" + "}" * 90})).status == "ok"


@pytest.mark.parametrize(
    "line",
    [
        "grep -e '-exec' notes.txt", "grep -n -e '-output' -r .", "grep --regexp='--output' notes.txt", "rg -e '-exec'",
        "sed -n -e 's/-exec/x/p' notes.txt", "cat notes.txt | grep -e '-rf'",
    ],
)  # fmt: skip
async def test_a_pattern_that_begins_with_a_dash_is_a_pattern(tmp_path: Path, line: str) -> None:
    (tmp_path / "notes.txt").write_text("find . -exec --output -rf\n")
    async with opened(tmp_path) as crib:
        told = await crib.belt(OWNER).call("exec", {"command": line})
    assert told.details.get("code") != "not_approved", told.plain_text
    assert told.details["status"] == "completed"


async def test_what_the_host_obeys_is_not_written_and_names_beside_it_are(tmp_path: Path) -> None:
    async with opened(tmp_path) as crib:
        belt = crib.belt(OWNER)
        for name in (
            ".config/git/config", ".config/systemd/user/x.service", ".config/autostart/x.desktop",
            ".config/environment.d/x.conf", ".xinitrc", ".vimrc", ".claude/settings.json", "sub/.gemini/settings.json",
            "a/.cursor/mcp.json", "b/.vscode/tasks.json", ".devcontainer/devcontainer.json", ".VSCode/tasks.json",
            "home/.config/git/hooks/x", ".local/share/systemd/user/x.service", ".local/bin/ls",
            ".local/lib/python3.11/site-packages/x.pth", ".node_modules/a/index.js", ".npmrc", "web/.yarnrc.yml",
            ".config/uv/uv.toml", ".config/pip/pip.conf", ".cargo/config.toml", ".husky/pre-commit", ".idea/a.xml",
            ".local/share/applications/x.desktop", ".docker/config.json", ".continue/config.json", ".pdbrc",
        ):  # fmt: skip
            told = await belt.call("write", {"path": name, "content": "x"})
            assert told.details.get("code") == "denied", name
        for name in (".config/app.json", "config/git.md", "docs/.vimrc.md", "gemini/x.json", ".github/workflows/ci.yml",
                     ".config/gitignore", ".env.example", "vscode/settings.json",
                     ".local/share/notes.md", ".cargo/README.md", ".docker/nginx.conf", "local/bin/x",
                     "npmrc"):  # fmt: skip
            assert (await belt.call("write", {"path": name, "content": "x"})).status == "ok", name
