"""toolcrib config: what is in force and where it stands, and the schema for editors; and looking without secrets."""

import json
from pathlib import Path

import pytest

from .world import Answer, ask, crib_file, refused

FILE = """\
tools:
  profile: coding
  exec: {timeoutSec: 30}
models:
  desk: {baseUrl: "${DESK_URL}", apiKey: "${DESK_KEY}"}
  other: {apiKey: sk-written-in-the-file-1234}
mcpServers:
  notes: {url: "https://u:hunter2hunter2@notes.test", headers: {X-Key: abcdefgh12345678}}
"""


def settings_of(answer: Answer) -> dict[str, tuple[object, str]]:
    return {each["key"]: (each["value"], each["origin"]) for each in answer.json["settings"]}


def test_show_tells_what_is_in_force_and_where_it_was_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = crib_file(tmp_path, FILE)
    found = settings_of(ask(capsys, "config", "show", "--config", path, "--json"))
    assert found["tools.profile"] == ("coding", f"{path}:2")
    assert found["tools.exec.timeoutSec"] == (30, f"{path}:3")
    assert found["tools.exec.host"] == ("sandbox", "default")
    table = ask(capsys, "config", "show", "--config", path, "--set")
    assert table.code == 0
    assert "tools.profile" in table.out
    assert "default" not in table.out


def test_show_keeps_secrets_to_itself_and_needs_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = crib_file(tmp_path, FILE)
    for value in ("", "the-key-of-the-desk-0000"):
        monkeypatch.setenv("DESK_KEY", value)
        for json_too in ((), ("--json",)):
            answer = ask(capsys, "config", "show", "--config", path, *json_too)
            assert answer.code == 0
            for secret in ("sk-written", "hunter2", "abcdefgh12345678", "the-key-of-the-desk"):
                assert secret not in answer.out + answer.err
    assert settings_of(answer)["models.desk.apiKey"] == ("…", f"{path}:5")


def test_a_file_that_cannot_be_used_is_refused_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = crib_file(tmp_path, "tools: {dney: [exec]}")
    assert "did you mean 'deny'" in refused(ask(capsys, "config", "show", "--config", path))


def test_the_schema_knows_every_section_refuses_unknown_keys_and_takes_includes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    schema = ask(capsys, "config", "schema").json
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert {"tools", "agents", "channels", "mcpServers", "expect", "$include"} <= set(schema["properties"])
    assert schema["additionalProperties"] is False
    tools = schema["$defs"]["ToolSettings"]
    assert tools["properties"]["allow"]["items"] == {"oneOf": [{"type": "string"}, {"$ref": "#/$defs/EntrySettings"}]}
    assert "$include" in tools["properties"]
    assert '"null"' not in json.dumps(schema)


def test_lint_and_explain_need_no_secrets_and_name_all_that_are_not_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DESK_KEY", raising=False)
    path = crib_file(tmp_path, FILE + 'gateway: {bind: "${WHERE}", auth: {token: "${GATE}"}}\n')
    found = ask(capsys, "lint", "--config", path, "--json").json["findings"]
    unset = [each for each in found if each["kind"] == "unset"]
    assert [(each["level"], each["message"].rpartition(": ")[2]) for each in unset] == [
        ("note", "DESK_URL, DESK_KEY, WHERE, GATE")
    ]
    answer = ask(capsys, "explain", "exec", "--config", path)
    assert (answer.code, answer.out.splitlines()[0][:15]) == (0, "exec is allowed")
    assert "not set here" in answer.err
    assert "DESK_URL" in refused(ask(capsys, "run", "list", "--config", path))
