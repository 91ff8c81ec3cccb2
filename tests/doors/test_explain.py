"""toolcrib explain: the same verdicts as a table, as JSON and from the library, for the caller that was described."""

from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from toolcrib.define.caller import Caller, Sender
from toolcrib.policy.explain import verdict_json
from toolcrib.policy.resolve import mark_terminal_owner

from .world import Answer, ask, crib_file, plugin_folder, refused

Capture = pytest.CaptureFixture[str]

POLICY = """\
owners: ["telegram:id:1000"]
tools:
  profile: coding
  alsoAllow: [group:web, group:messaging, gateway, whatsapp_login]
  deny: [process]
  ask: [effect:write]
  byProvider:
    ollama: { deny: [exec] }
    ollama/tiny: { deny: [exec, read] }
  sandbox: { tools: { deny: [exec] } }
  subagents: { tools: { deny: [grep] } }
agents:
  support: { model: "anthropic:claude", tools: { deny: [find], byProvider: { anthropic: { deny: [ls] } } } }
channels:
  telegram:
    groups:
      "-100": { tools: { deny: [web_fetch] }, toolsBySender: { "id:7": { deny: [web_search] } } }
      "*": { tools: { deny: [message] } }
    accounts:
      work: { groups: { "*": { tools: { deny: [image] } } } }
"""
KEYS = ["tool", "source", "group", "effects", "decision", "layer", "rule", "origin", "reason", "remedy"]
LAYERS = [
    "owner", "requires", "profile", "provider-profile", "global", "global-provider", "agent", "agent-provider", "group",
    "sandbox", "subagent", "ask",
]  # fmt: skip


@pytest.fixture
def crib(tmp_path: Path) -> Path:
    return crib_file(tmp_path, POLICY)


def test_explain_json_has_the_agreed_shape(crib: Path, capsys: Capture) -> None:
    answer = ask(capsys, "explain", "--config", crib, "--json")
    assert (answer.code, answer.err) == (0, "")
    assert list(answer.json) == ["caller", "tools"]
    assert [list(tool) for tool in answer.json["tools"]] == [KEYS] * len(answer.json["tools"])
    by_name = {tool["tool"]: tool for tool in answer.json["tools"]}
    assert by_name["process"] == {
        "tool": "process",
        "source": "core",
        "group": "runtime",
        "effects": ["execute", "network", "read", "send", "write"],
        "decision": "deny",
        "layer": "global",
        "rule": "process",
        "origin": "tools",
        "reason": "deny has 'process' (tools)",
        "remedy": "take 'process' out of tools.deny",
    }
    assert by_name["read"]["decision"] == "allow"
    assert by_name["read"]["layer"] is None
    assert by_name["write"]["decision"] == "ask"


def test_explain_json_tells_who_was_asked_about(crib: Path, capsys: Capture) -> None:
    who = "--session agent:support:telegram:group:-100 --channel telegram --account work --group -100"
    how = "--sender username:bob --no-owner --model openai:gpt-5 --sandboxed --parent main/helper"
    options = f"{who} {how}".split()
    answer = ask(capsys, "explain", "--config", crib, "--json", *options)
    assert answer.json["caller"] == {
        "session": "agent:support:telegram:group:-100",
        "agent": "support",
        "provider": "openai",
        "model": "gpt-5",
        "channel": "telegram",
        "account": "work",
        "group": "-100",
        "sender": {"id": None, "e164": None, "username": "bob", "name": None},
        "owner": False,
        "sandboxed": True,
        "parents": ["main", "helper"],
    }


def test_a_parent_counts_with_the_model_that_the_configuration_gives_it(crib: Path, capsys: Capture) -> None:
    options = ("--config", crib, "--json", "--agent", "other", "--model", "openai:gpt-5")
    child = ask(capsys, "explain", "ls", *options, "--parent", "support").json["tools"][0]
    assert (child["layer"], child["origin"]) == ("agent-provider", "agents.support.tools.byProvider.anthropic")
    assert ask(capsys, "explain", "ls", *options, "--parent", "main").json["tools"][0]["decision"] == "allow"


def test_one_tool_comes_with_a_step_for_every_layer_in_order(crib: Path, capsys: Capture) -> None:
    answer = ask(capsys, "explain", "exec", "--config", crib, "--model", "ollama:llama", "--json")
    assert list(answer.json) == ["caller", "tools", "steps"]
    assert [tool["tool"] for tool in answer.json["tools"]] == ["exec"]
    steps = answer.json["steps"]
    assert [step["layer"] for step in steps] == LAYERS
    assert all(list(step) == ["layer", "origin", "decision", "rule"] for step in steps)
    assert {step["layer"]: step for step in steps}["global-provider"] == {
        "layer": "global-provider",
        "origin": "tools.byProvider.ollama",
        "decision": "deny",
        "rule": "exec",
    }


@pytest.mark.parametrize("spelling", ["bash", " EXEC ", "Exec", "ｅｘｅｃ"])
def test_a_tool_is_found_by_any_of_its_spellings(crib: Path, capsys: Capture, spelling: str) -> None:
    assert ask(capsys, "explain", spelling, "--config", crib, "--json").json["tools"][0]["tool"] == "exec"


@pytest.mark.parametrize(
    ("options", "tool", "layer", "origin"),
    [
        ("", "process", "global", "tools"),
        ("", "nodes", "profile", "tools.profile"),
        ("--model ollama:llama", "exec", "global-provider", "tools.byProvider.ollama"),
        ("--model ollama/llama3:8b", "exec", "global-provider", "tools.byProvider.ollama"),
        ("--model OLLAMA", "exec", "global-provider", "tools.byProvider.ollama"),
        ("--model ollama:tiny", "read", "global-provider", "tools.byProvider.ollama/tiny"),
        ("--agent support", "find", "agent", "agents.support.tools"),
        ("--agent SUPPORT", "find", "agent", "agents.support.tools"),
        ("--session agent:support:main", "find", "agent", "agents.support.tools"),
        # the agent's own model is the one it is served by
        ("--agent support", "ls", "agent-provider", "agents.support.tools.byProvider.anthropic"),
        ("--channel telegram --group -100", "web_fetch", "group", "channels.telegram.groups.-100.tools"),
        ("--channel Telegram --group -100", "web_fetch", "group", "channels.telegram.groups.-100.tools"),
        ("--session agent:main:telegram:group:-100", "web_fetch", "group", "channels.telegram.groups.-100.tools"),
        (
            "--channel telegram --group -100 --sender id:7",
            "web_search",
            "group",
            "channels.telegram.groups.-100.toolsBySender.id:7",
        ),
        ("--channel telegram --group -5", "message", "group", "channels.telegram.groups.*.tools"),
        (
            "--channel telegram --account work --group -5",
            "image",
            "group",
            "channels.telegram.accounts.work.groups.*.tools",
        ),
        ("--sandboxed", "exec", "sandbox", "tools.sandbox.tools"),
        ("--parent main", "grep", "subagent", "tools.subagents.tools"),
        ("--parent support", "find", "agent", "agents.support.tools"),
        ("--no-owner", "gateway", "owner", None),
        ("--sender id:7", "gateway", "owner", None),
    ],
)
def test_every_option_describes_the_caller(
    crib: Path, capsys: Capture, options: str, tool: str, layer: str, origin: str | None
) -> None:
    answer = ask(capsys, "explain", tool, "--config", crib, "--json", *options.split())
    (verdict,) = answer.json["tools"]
    assert (verdict["decision"], verdict["layer"]) == ("deny", layer)
    if origin is not None:
        assert verdict["origin"] == origin


@pytest.mark.parametrize("options", ["", "--sender id:1000 --channel telegram", "--owner --sender id:7"])
def test_the_owner_sees_what_is_the_owners(crib: Path, capsys: Capture, options: str) -> None:
    answer = ask(capsys, "explain", "gateway", "--config", crib, "--json", *options.split())
    assert answer.json["caller"]["owner"] is True
    assert answer.json["tools"][0]["decision"] == "ask"


@pytest.mark.parametrize("sender", ["username:1000", "name:1000", "id:1001", "e164:+1000", "@1000x"])
def test_nobody_else_is_the_owner(crib: Path, capsys: Capture, sender: str) -> None:
    answer = ask(capsys, "explain", "gateway", "--config", crib, "--json", "--channel", "telegram", "--sender", sender)
    assert answer.json["caller"]["owner"] is False
    assert answer.json["tools"][0]["layer"] == "owner"


CALLERS: list[tuple[str, dict[str, Any]]] = [
    ("", {}),
    (
        "--channel telegram --group -100 --sender id:7",
        {"channel": "telegram", "group": "-100", "sender": Sender(id="7")},
    ),
    ("--agent support --model anthropic:claude", {"agent": "support", "provider": "anthropic", "model": "claude"}),
    ("--parent main --sandboxed", {"parents": ("main",), "sandboxed": True}),
    ("--model ollama:tiny --no-owner", {"provider": "ollama", "model": "tiny", "owner": False}),
]


@pytest.mark.parametrize(("options", "caller"), CALLERS)
def test_table_json_and_library_give_the_same_verdicts(
    crib: Path, capsys: Capture, options: str, caller: dict[str, Any]
) -> None:
    document = ask(capsys, "explain", "--config", crib, "--json", *options.split()).json["tools"]
    handle = toolcrib.open(crib).belt(mark_terminal_owner(Caller(**caller)))
    assert document == [verdict_json(verdict, handle.catalog[name]) for name, verdict in handle.verdicts.items()]

    header, *rows = ask(capsys, "explain", "--config", crib, *options.split()).out.splitlines()
    assert header.split() == ["tool", "verdict", "layer", "because"]
    told = [tuple(row.split(maxsplit=3)) for row in rows]
    assert told == [(v.tool, v.decision, v.layer or "-", v.reason) for v in handle.verdicts.values()]


def test_one_tool_in_words_says_what_the_json_says(crib: Path, capsys: Capture) -> None:
    words = ask(capsys, "explain", "process", "--config", crib).out
    first, _, header, *steps = words.splitlines()
    assert first == (
        "process is denied at the global layer: deny has 'process' (tools); "
        "to change it, take 'process' out of tools.deny."
    )
    assert header.split() == ["layer", "says", "rule", "origin"]
    shown = [tuple(step.split()) for step in steps]
    document = ask(capsys, "explain", "process", "--config", crib, "--json").json["steps"]
    assert shown == [(s["layer"], s["decision"], s["rule"] or "-", s["origin"] or "-") for s in document]


def test_it_says_when_a_model_is_told_of_a_tool(capsys: Capture) -> None:
    words = ask(capsys, "explain", "process").out
    assert words.splitlines()[1] == "A model gets it once a command is in the background."
    small, large = (
        ask(capsys, "explain", "generalist", "--model", model, "--json").json for model in ("desk:m", "openai:gpt-5")
    )
    assert (small["later"], "later" in large) == ("a message asks for it", False)


def test_the_library_opens_a_path_given_as_text(crib: Path) -> None:
    assert toolcrib.open(str(crib)).belt(toolcrib.OWNER).verdicts["process"].reason == "deny has 'process' (tools)"


def test_a_tool_that_does_not_exist_is_met_with_the_nearest(capsys: Capture) -> None:
    assert refused(ask(capsys, "explain", "exce")) == "there is no tool 'exce'; did you mean exec?"
    assert refused(ask(capsys, "explain", "qqqq")) == (
        "there is no tool 'qqqq'; `toolcrib tools list` shows what there is"
    )


def test_plugins_are_explained_from_their_manifest_and_not_imported(tmp_path: Path, capsys: Capture) -> None:
    folder = plugin_folder(tmp_path / "plugins", "raise SystemExit('imported')")
    crib = crib_file(tmp_path, f"plugins: {{folders: ['{folder}'], dice: {{enabled: true, tools: {{deny: [dice]}}}}}}")
    answer = ask(capsys, "explain", "dice", "--config", crib, "--json")
    assert answer.err == ""
    (verdict,) = answer.json["tools"]
    assert (verdict["source"], verdict["layer"], verdict["origin"]) == ("plugin:dice", "source", "plugins.dice.tools")
    assert answer.json["steps"][0]["layer"] == "source"


def test_what_was_left_out_is_said_beside_the_answer(tmp_path: Path, capsys: Capture) -> None:
    folder = plugin_folder(tmp_path / "plugins", manifest={"tools": [{"name": "read", "description": "Mine."}]})
    crib = crib_file(tmp_path, f"plugins: {{folders: ['{folder}'], allow: [dice]}}")
    answer = ask(capsys, "explain", "read", "--config", crib, "--json")
    assert answer.json["tools"][0]["source"] == "core"
    assert answer.err == "toolcrib: plugin:dice offers a tool 'read', which core has; it was left out\n"


def test_the_sample_is_explained_and_linted_without_a_finding(capsys: Capture) -> None:
    sample = Path(str(files("toolcrib.doors.cli") / "sample.yaml"))
    assert ask(capsys, "explain", "--config", sample).code == 0
    assert ask(capsys, "lint", "--config", sample).code == 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--sender", ""], "--sender is blank; write a value, or leave it out"),
        (["--sender", " "], "--sender is blank; write a value, or leave it out"),
        (["--sender", "name:"], "a blank sender is nobody; write id:123 or e164:+380.., or remove it"),
        (["--sender", "@"], "a blank sender is nobody; write id:123 or e164:+380.., or remove it"),
        (["--sender", "id:*"], "'id:*': everybody is written '*', without a type"),
        (
            ["--sender", "e164:+1 555 0100"],
            "'e164:+1 555 0100': an E.164 number is + and digits, without blanks, like e164:+380441234567",
        ),
        (["--sender", "id:7\x1b[2J"], "--sender holds a control character or is not UTF-8; write it without"),
        (["--sender", "id:\udcff"], "--sender holds a control character or is not UTF-8; write it without"),
        (["--model", ""], "--model is blank; write a value, or leave it out"),
        (["--model", ":gpt"], "--model ':gpt' names no provider; write provider:model"),
        (["--model", "/"], "--model '/' names no provider; write provider:model"),
        (["--parent", ""], "--parent is blank; write a value, or leave it out"),
        (["--parent", "///"], "--parent '///' has a blank in its chain; write outer/inner"),
        (["--parent", "main//x"], "--parent 'main//x' has a blank in its chain; write outer/inner"),
        (["--session", ""], "--session is blank; write a value, or leave it out"),
        (["--session", ":::"], "--session ':::' is no session key; write one like agent:main:main"),
        (["--agent", " "], "--agent is blank; write a value, or leave it out"),
        (["--channel", ""], "--channel is blank; write a value, or leave it out"),
        (["--group", "\t"], "--group is blank; write a value, or leave it out"),
        (["--account", ""], "--account is blank; write a value, or leave it out"),
        (["--config", ""], "--config is blank; write a value, or leave it out"),
    ],
)
def test_a_blank_option_is_refused_and_never_means_the_owner(
    crib: Path, capsys: Capture, options: list[str], sentence: str
) -> None:
    config = [] if options[0] == "--config" else ["--config", str(crib)]
    assert refused(ask(capsys, "explain", *config, *options)) == sentence


@pytest.mark.parametrize("value", ["x" * 10_000, "😀", "a b", "../../etc", "'; DROP TABLE", "%s{}${HOME}"])
@pytest.mark.parametrize("option", ["--sender", "--session", "--agent", "--model", "--channel", "--group", "--parent"])
def test_odd_values_describe_a_caller_nobody_knows(crib: Path, capsys: Capture, option: str, value: str) -> None:
    if option == "--parent" and ".." in value:
        value = "a/b"
    answer = ask(capsys, "explain", "process", "--config", crib, "--json", option, value)
    assert answer.code == 0
    assert answer.json["tools"][0]["decision"] == "deny"


def test_a_call_is_explained_by_what_rules_look_at_and_needs_no_more(tmp_path: Path, capsys: Capture) -> None:
    crib = crib_file(tmp_path, 'tools: {deny: [{tool: write, when: {path: "docs/**"}}]}')

    def explain(args: str) -> Answer:
        return ask(capsys, "explain", "write", "--config", crib, "--args", args)

    assert "write is denied at the argument layer" in explain('{"path": "docs/plan.md"}').out
    assert "write is allowed" in explain('{"path": "src/plan.md"}').out
    assert "write: path is required" in refused(explain('{"content": "x"}'))
    assert "no parameter 'pth'" in refused(explain('{"pth": "x"}'))


@pytest.mark.parametrize("command", [("explain",), ("who",), ("tools", "show")])
def test_a_tool_is_found_by_what_the_configuration_calls_it_besides(
    tmp_path: Path, capsys: Capture, command: tuple[str, ...]
) -> None:
    crib = crib_file(tmp_path, "tools: {aliases: {shell: exec}}")
    own, other = (ask(capsys, *command, name, "--config", crib) for name in ("exec", "Shell"))
    assert (own, own.code) == (other, 0)
