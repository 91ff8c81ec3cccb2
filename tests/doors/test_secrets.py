"""What came from the environment may be a secret: no command shows it, whether it fits where it stands or not."""

import json
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from toolcrib.config.load import load
from toolcrib.config.settings import Config
from toolcrib.define.errors import CribError

from .world import ask, crib_file, plugin_folder, refused

Capture = pytest.CaptureFixture[str]

SECRET = "hunter2-0123456789-\"quoted\\ 'é"
REFERENCE = "${TC_SECRET}"

# Every key that is there to hold a secret, with one.
HELD: dict[str, Any] = {
    "gateway": {"auth": {"mode": "password", "token": REFERENCE, "password": REFERENCE}},
    "hooks": {"token": REFERENCE},
    "models": {"openai": {"apiKey": REFERENCE, "headers": {"X-Key": REFERENCE}}},
    "mcpServers": {
        "files": {"command": "serve", "args": ["--key", REFERENCE], "env": {"KEY": REFERENCE}},
        "web": {
            "url": "https://mcp.test/x?key=${TC_SECRET_PLAIN}",
            "headers": {"Authorization": f"Bearer {REFERENCE}"},
        },
    },
    "web": {"search": {"apiKey": REFERENCE}},
    "secrets": {"KEY": REFERENCE},
    "logging": {"redactPatterns": ["${TC_SECRET_PLAIN}"]},
}
COMMANDS = ["explain", "explain --json", "explain exec", "lint", "lint --json", "tools list", "tools list --json"]


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_SECRET", SECRET)
    monkeypatch.setenv("TC_SECRET_PLAIN", "hunter2-plain")


def shows_it(text: str) -> bool:
    return "hunter2" in text.lower()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_secret_that_fits_is_not_shown(tmp_path: Path, capsys: Capture, command: str) -> None:
    crib = crib_file(tmp_path, json.dumps(HELD), "crib.json")
    crib.chmod(0o644)
    answer = ask(capsys, *command.split(), "--config", crib)
    assert answer.code == (1 if command.startswith("lint") else 0), answer.err
    assert not shows_it(answer.out + answer.err)


def test_a_secret_is_not_shown_by_printing_the_settings(tmp_path: Path) -> None:
    loaded = load(crib_file(tmp_path, json.dumps(HELD), "crib.json"))
    assert loaded.config.hooks.token == SECRET
    for shown in (repr(loaded), repr(loaded.config), str(loaded.config), repr(toolcrib.open({**HELD}))):
        assert not shows_it(shown)


def leaves(kind: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every key of the configuration that a text could be written under, lists and maps by one item."""
    fields = kind.model_json_schema(by_alias=True)
    found: list[tuple[str, ...]] = []

    def walk(schema: dict[str, Any], here: tuple[str, ...]) -> None:
        for option in schema.get("anyOf", schema.get("oneOf", [schema])):
            resolved = fields["$defs"][option["$ref"].rpartition("/")[2]] if "$ref" in option else option
            if resolved.get("type") == "object" and "properties" in resolved:
                for name, inner in resolved["properties"].items():
                    walk(inner, (*here, name))
            elif resolved.get("type") == "object" and isinstance(resolved.get("additionalProperties"), dict):
                walk(resolved["additionalProperties"], (*here, "thing"))
            elif resolved.get("type") == "array":
                walk(resolved["items"], (*here, "[]"))
            else:
                found.append(here)

    walk(fields, path)
    return list(dict.fromkeys(found))


def written(path: tuple[str, ...], value: Any) -> Any:
    for part in reversed(path):
        value = [value] if part == "[]" else {part: value}
    return value


LEAVES = leaves(Config)


def test_the_leaves_are_all_there() -> None:
    assert len(LEAVES) > 150
    assert {("gateway", "auth", "token"), ("tools", "deny", "[]"), ("agents", "thing", "tools", "profile")} <= {*LEAVES}


def said_about(config: Any, *, openclaw: bool) -> str:
    """The complaint about a configuration, or everything lint finds in it."""
    try:
        crib = toolcrib.open(load(config, openclaw=openclaw), import_plugins=False)
    except CribError as error:
        return str(error)
    return "\n".join(map(str, crib.lint()))


@pytest.mark.parametrize("openclaw", [False, True])
@pytest.mark.parametrize(
    "value",
    [REFERENCE, f"x {REFERENCE} y", "group:${TC_SECRET_PLAIN}", "effect:${TC_SECRET_PLAIN}", "/a/${TC_SECRET}:/b"],
)
def test_a_secret_in_any_key_is_never_in_a_complaint_or_a_finding(value: str, openclaw: bool) -> None:
    telling = [path for path in LEAVES if shows_it(said_about(written(path, value), openclaw=openclaw))]
    assert telling == []


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"gateway": {"port": REFERENCE}}, ":1: gateway.port: should be a whole number"),
        (
            {"gateway": {"bind": REFERENCE}},
            ":1: gateway.bind: what the environment variable holds does not fit here; write loopback, lan or an",
        ),
        (
            {"tools": {"profile": REFERENCE}},
            ":1: tools.profile: what the environment variable holds does not fit here; there are minimal, coding",
        ),
        (
            {"logging": {"redactPatterns": ["(" + REFERENCE]}},
            ":1: logging.redactPatterns[0]: is no regular expression that runs in linear time",
        ),
        (
            {"sandbox": {"docker": {"binds": [REFERENCE]}}},
            ":1: sandbox.docker.binds[0]: what the environment variable holds does not fit here; set it",
        ),
    ],
)  # fmt: skip
def test_the_complaint_still_says_what_to_do(
    tmp_path: Path, capsys: Capture, config: dict[str, Any], said: str
) -> None:
    crib = crib_file(tmp_path, json.dumps(config), "crib.json")
    sentence = refused(ask(capsys, "lint", "--config", crib))
    assert sentence.startswith(f"{crib}{said}")
    assert not shows_it(sentence)


def test_a_short_token_from_the_environment_is_refused_unseen(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TC_SHORT", "qwx7")
    crib = crib_file(tmp_path, "gateway:\n  auth: {token: '${TC_SHORT}'}")
    sentence = refused(ask(capsys, "lint", "--config", crib))
    assert sentence.startswith(f"{crib}:2: gateway.auth.token: a token needs 16 characters or more")
    assert "qwx7" not in sentence


@pytest.mark.parametrize(
    ("schema", "config"),
    [
        ({"properties": {"key": {"type": "integer"}}}, {"key": REFERENCE}),
        ({"properties": {"key": {"enum": ["a"]}}}, {"key": REFERENCE}),
        ({"properties": {"key": {"maxLength": 3}}}, {"key": REFERENCE}),
        ({"properties": {"key": {"pattern": "^[0-9]+$"}}}, {"key": REFERENCE}),
        ({"properties": {"key": {"type": "string"}}}, {"key": {"inner": [REFERENCE]}}),
        ({"maxProperties": 0}, {"key": REFERENCE}),
    ],
)
def test_a_secret_of_a_plugin_is_not_shown(
    tmp_path: Path, capsys: Capture, schema: dict[str, Any], config: dict[str, Any]
) -> None:
    folder = plugin_folder(tmp_path / "plugins", manifest={"configSchema": schema})
    plugins = {"folders": [str(folder)], "dice": {"enabled": True, "config": config}}
    sentence = refused(ask(capsys, "lint", "--config", crib_file(tmp_path, json.dumps({"plugins": plugins}), "c.json")))
    assert not shows_it(sentence)


RAISES = """\
from toolcrib import Plugin


def make(config):
    raise ValueError(f"cannot log in with {config['key']}, in full {config!r}")


plugin = Plugin(name="dice", tools=(make,))
"""


@pytest.mark.parametrize("command", ["tools list", "tools list --json", "tools call exec"])
def test_a_secret_in_words_of_a_plugin_is_not_shown(tmp_path: Path, capsys: Capture, command: str) -> None:
    folder = plugin_folder(tmp_path / "plugins", RAISES)
    plugins = {"folders": [str(folder)], "dice": {"enabled": True, "config": {"key": REFERENCE}}}
    crib = crib_file(tmp_path, json.dumps({"plugins": plugins}), "c.json")
    answer = ask(capsys, *command.split(), "--config", crib)
    assert "raised ValueError: cannot log in with …" in answer.out + answer.err
    assert not shows_it(answer.out + answer.err)
