"""toolcrib policy: two files compared, expectations tested, claims proved; and who is listed with whom."""

from pathlib import Path
from typing import Any

import pytest

from .world import Answer, ask, crib_file, refused

Capture = pytest.CaptureFixture[str]

HOME = """\
owners: ["id:1"]
tools: {deny: [nodes]}
agents: {main: {tools: {deny: [exec]}}, dev: {}}
channels:
  telegram:
    direct: {toolsBySender: {"id:5": {deny: [browser]}}}
    groups:
      "-100": {toolsBySender: {"id:7": {allow: ["*"], deny: [cron]}, "*": {allow: [message]}}}
expect:
  - {caller: {channel: telegram, group: "-100", sender: "id:9"}, has: [message], lacks: [exec, read]}
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return crib_file(tmp_path, HOME)


def changed(tmp_path: Path, old: str, new: str, text: str = HOME) -> Path:
    assert old in text
    return crib_file(tmp_path, text.replace(old, new), "new.yaml")


def changes_of(answer: Answer) -> list[tuple[Any, ...]]:
    return [
        (each["caller"]["agent"], each["caller"]["group"], each["tool"], each["before"], each["after"])
        for each in answer.json["changes"]
    ]


def test_nothing_changes_between_a_file_and_itself(home: Path, capsys: Capture) -> None:
    assert ask(capsys, "policy", "diff", home, home) == Answer(0, "nothing changes for anybody\n", "")
    assert ask(capsys, "policy", "diff", home, home, "--json").json == {"changes": []}


def test_a_comparison_names_whom_it_changes_for_and_which_tool(home: Path, tmp_path: Path, capsys: Capture) -> None:
    new = changed(tmp_path, '"*": {allow: [message]}', '"*": {allow: [message, web_search]}')
    answer = ask(capsys, "policy", "diff", home, new, "--json")
    assert answer.code == 1
    # the file's own sender `*`, and the one that is expected something
    assert set(changes_of(answer)) == {("main", "-100", "web_search", "deny", "allow")}
    assert {each["caller"]["sender"]["id"] for each in answer.json["changes"]} == {"*", "9", "1"}
    table = ask(capsys, "policy", "diff", home, new)
    assert (table.code, "channel telegram, group -100, id:*" in table.out) == (1, True)


def test_a_change_that_only_a_combination_shows_is_found(home: Path, tmp_path: Path, capsys: Capture) -> None:
    # the agent main lacks exec anyway, so that it takes dev, in this group, for this sender
    new = changed(tmp_path, '"id:7": {allow: ["*"], deny: [cron]}', '"id:7": {deny: [cron, exec]}')
    answer = ask(capsys, "policy", "diff", home, new, "--json")
    assert [each for each in changes_of(answer) if each[2] == "exec"] == [("dev", "-100", "exec", "allow", "deny")]


def test_a_rule_about_arguments_is_a_change_though_the_tool_stays(home: Path, tmp_path: Path, capsys: Capture) -> None:
    entry = '{tool: write, when: {path: "docs/**"}}'
    new = changed(tmp_path, "tools: {deny: [nodes]}", f"tools: {{deny: [nodes, {entry}]}}")
    answer = ask(capsys, "policy", "diff", home, new, "--json")
    assert {row[2:] for row in changes_of(answer)} == {("write", "allow", "allow")}
    (first, *_) = answer.json["changes"]
    rule = '{tool: write, when: {"path": "docs/**"}}'
    assert first["conditions"] == {"before": [], "after": [{"decision": "deny", "rule": rule}]}
    assert (answer.code, first["reason"]) == (1, f"by its arguments, now deny by {rule}")
    back = ask(capsys, "policy", "diff", new, home, "--json").json["changes"][0]
    assert back["reason"] == f"by its arguments, no longer deny by {rule}"
    assert ask(capsys, "policy", "diff", new, new).code == 0


def test_a_combination_is_named_though_somebody_else_loses_the_same_tool(
    home: Path, tmp_path: Path, capsys: Capture
) -> None:
    old = changed(tmp_path, '"id:7": {allow: ["*"], deny: [cron]}', '"id:7": {deny: [cron, exec]}').read_text()
    before = crib_file(tmp_path, old, "before.yaml")
    # the agent dev loses it alone; dev2 gets it, in the group, for one sender, whom the agent main would not show
    both = old.replace("deny: [cron, exec]", "deny: [cron]").replace(
        "dev: {}", "dev: {tools: {deny: [exec]}}, dev2: {}"
    )
    after = crib_file(tmp_path, both, "after.yaml")
    rows = [row for row in changes_of(ask(capsys, "policy", "diff", before, after, "--json")) if row[2] == "exec"]
    assert {row[3:] for row in rows} == {("allow", "deny"), ("deny", "allow")}


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ("quotas: [{tool: exec, per: day, calls: 5}]", ["quotas"]),
        ("web: {ssrf: {allowPrivate: [10.0.0.1]}}", ["web.ssrf"]),
        ("sandbox: {network: true}", ["sandbox"]),
        ("mcpServers: {shop: {command: shop}}", ["mcpServers.shop"]),
        ("limits: {turns: 9}", []),
    ],
)
def test_what_is_not_about_who_has_a_tool_is_said_to_differ(
    more: str, named: list[str], home: Path, tmp_path: Path, capsys: Capture
) -> None:
    new = crib_file(tmp_path, f"{HOME}{more}\n", "new.yaml")
    answer = ask(capsys, "policy", "diff", home, new, "--json")
    assert (answer.json["changes"], answer.json.get("beside", []), answer.code) == ([], named, int(bool(named)))


def test_what_decides_about_calls_in_tools_is_said_to_differ(home: Path, tmp_path: Path, capsys: Capture) -> None:
    more = "hosts: {deny: [a.example]}, exec: {security: full}, denyAfterOutside: [exec], deny: [nodes]"
    new = changed(tmp_path, "tools: {deny: [nodes]}", f"tools: {{{more}}}")
    new = crib_file(tmp_path, new.read_text().replace("dev: {}", "dev: {tools: {exec: {ask: always}}}"), "new.yaml")
    answer = ask(capsys, "policy", "diff", home, new)
    told = "nobody gets or loses a tool; these differ, and are not compared by caller: "
    named = "tools.exec, tools.hosts, tools.denyAfterOutside, agents.dev.tools.exec"
    assert (answer.code, answer.out) == (1, f"{told}{named}\n")


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("telegram:\n", "telegram:\n    dmPolicy: open\n    allowFrom: ['*']\n", ["dmPolicy", "allowFrom"]),
        ("dev: {}", "dev: {workspace: /srv/dev}", ["workspace"]),
        ("dev: {}", "dev: {subagents: {allowAgents: [main]}}", ["subagents"]),
        ("{deny: [nodes]}", "{deny: [nodes], aliases: {shell: exec}}", ["aliases"]),
    ],
)
def test_who_comes_in_and_where_agents_work_is_said_to_differ(
    old: str, new: str, named: list[str], home: Path, tmp_path: Path, capsys: Capture
) -> None:
    answer = ask(capsys, "policy", "diff", home, changed(tmp_path, old, new), "--json")
    beside = [each.rpartition(".")[2] for each in answer.json.get("beside", [])]
    assert (answer.json["changes"], beside, answer.code) == ([], named, 1)


@pytest.mark.parametrize(
    "use",
    [
        "channels: {telegram: {allowFrom: ['role:Kids']}}",
        "quotas: [{who: 'role:kids', per: day, calls: 5}]",
    ],
)
def test_other_members_of_a_role_that_lets_in_or_is_counted_are_said_to_differ(
    use: str, tmp_path: Path, capsys: Capture
) -> None:
    old = crib_file(tmp_path, f"roles: {{kids: ['id:7'], men: ['id:1']}}\n{use}\n", "old.yaml")
    new = crib_file(tmp_path, f"roles: {{kids: ['id:7', 'id:8'], men: []}}\n{use}\n", "new.yaml")
    answer = ask(capsys, "policy", "diff", old, new, "--json")
    assert (answer.json["changes"], answer.json.get("beside", []), answer.code) == ([], ["roles.kids"], 1)
    assert ask(capsys, "policy", "diff", old, old).code == 0


def test_a_role_that_lets_in_is_no_sender_of_its_own(tmp_path: Path, capsys: Capture) -> None:
    text = "roles: {kids: ['id:7']}\nchannels: {telegram: {allowFrom: ['role:kids', 'id:9']}}\n"
    config = crib_file(tmp_path, text)
    told = ask(capsys, "who", "exec", "--config", config)
    assert (told.code, "role:" in told.out, "id:7" in told.out, "id:9" in told.out) == (0, False, True, True)
    proven = ask(capsys, "policy", "prove", "--never", "gateway", "--except", "owner", "--config", config)
    assert (proven.code, "It holds" in proven.out) == (0, True)


def test_explain_tries_a_call_by_its_arguments_under_a_policy_on_trial(tmp_path: Path, capsys: Capture) -> None:
    crib_file(tmp_path, "tools: {deny: [{tool: read, when: {path: 'docs/**'}}]}\n", "next.yaml")
    trial = crib_file(tmp_path, "policy: {shadow: next.yaml}\n", "trial.yaml")
    for path, said in (("docs/a.txt", ["deny"]), ("a.txt", [])):
        told = ask(capsys, "explain", "read", "--args", f'{{"path": "{path}"}}', "--config", trial, "--json").json
        assert ([each["decision"] for each in told.get("shadow", [])], told["tools"][0]["decision"]) == (said, "allow")


def test_explain_says_what_of_a_policy_on_trial_is_not_tried(home: Path, tmp_path: Path, capsys: Capture) -> None:
    crib_file(tmp_path, HOME.replace("{deny: [nodes]}", "{deny: [nodes], hosts: {deny: [a.example]}}"), "next.yaml")
    trial = crib_file(tmp_path, f"{HOME}policy: {{shadow: next.yaml}}\n", "trial.yaml")
    assert ask(capsys, "explain", "ls", "--config", trial, "--json").json["shadowBeside"] == ["tools.hosts"]
    assert "Not on trial, though other there: tools.hosts." in ask(capsys, "explain", "ls", "--config", trial).out
    crib_file(tmp_path, HOME, "next.yaml")
    assert "shadowBeside" not in ask(capsys, "explain", "ls", "--config", trial, "--json").json


def test_a_chat_that_lets_nobody_in_hides_no_change_of_another(tmp_path: Path, capsys: Capture) -> None:
    def write(deny: str) -> str:
        group = f"tools: {{deny: [{deny}]}}"
        return f"""
agents: {{list: [{{id: main, default: true, tools: {{deny: [exec]}}}}, {{id: dev}}]}}
channels:
  telegram: {{groupPolicy: disabled, groups: {{"-1": {{{group}}}}}}}
  whatsapp: {{groupPolicy: open, groups: {{"-2": {{{group}}}}}}}
"""

    before, after = crib_file(tmp_path, write("exec"), "old.yaml"), crib_file(tmp_path, write(""), "new.yaml")
    rows = changes_of(ask(capsys, "policy", "diff", before, after, "--from", "openclaw", "--json"))
    assert rows == [("dev", "-2", "exec", "deny", "allow")]


def test_a_tool_that_is_gone_is_a_change_for_who_had_it(home: Path, tmp_path: Path, capsys: Capture) -> None:
    new = changed(tmp_path, "tools: {deny: [nodes]}", "tools: {deny: [nodes], subagents: {enabled: false}}")
    found = {row[2:] for row in changes_of(ask(capsys, "policy", "diff", home, new, "--json"))}
    assert ("generalist", "allow", None) in found
    assert ("sessions_spawn", "allow", "deny") in found


def test_what_was_recorded_is_judged_by_both(home: Path, tmp_path: Path, capsys: Capture) -> None:
    new = changed(tmp_path, "dev: {}", "dev: {tools: {deny: [ls]}}")
    none = ask(capsys, "policy", "diff", home, home, "--record")
    assert (none.code, none.err) == (0, "toolcrib: nothing was recorded yet\n")
    key = ("--session", "agent:dev:telegram:group:-4")
    for _ in range(2):
        assert ask(capsys, "tools", "call", "ls", "--config", home, *key, "--sender", "id:1").code == 0
    found = ask(capsys, "policy", "diff", home, new, "--record", "--json").json["changes"]
    recorded = [each for each in found if each.get("calls")]
    assert [(each["tool"], each["before"], each["after"], each["calls"]) for each in recorded] == [
        ("ls", "allow", "deny", 2)
    ]
    assert recorded[0]["caller"]["session"] == key[1]


def test_a_file_that_cannot_be_read_is_no_comparison(home: Path, tmp_path: Path, capsys: Capture) -> None:
    assert "no such file" in refused(ask(capsys, "policy", "diff", home, tmp_path / "gone.yaml"))
    assert "shadw" in refused(ask(capsys, "policy", "diff", crib_file(tmp_path, "policy: {shadw: x}", "x.yaml"), home))


def test_every_expectation_is_tested_tool_by_tool(home: Path, tmp_path: Path, capsys: Capture) -> None:
    answer = ask(capsys, "policy", "test", "--config", home, "--json")
    assert (answer.code, answer.json["failing"]) == (0, 0)
    entry = answer.json["entries"][0]
    assert (entry["expect"], entry["holds"], entry["caller"]["group"]) == ("expect[0]", True, "-100")
    told = [(each["key"], each["entry"], each["decision"], each["layer"]) for each in entry["promises"]]
    assert told == [
        ("has", "message", "allow", None),
        ("lacks", "exec", "deny", "agent"),
        ("lacks", "read", "deny", "group"),
    ]
    broken = changed(tmp_path, "has: [message]", "has: [message, web_*, no_such_tool]")
    answer = ask(capsys, "policy", "test", "--config", broken)
    assert answer.code == 1
    assert "names no tool that exists here" in answer.out
    assert answer.out.endswith("0 of 1 entries hold\n")


def test_expectations_of_a_file_beside_it_are_tested_too(home: Path, tmp_path: Path, capsys: Capture) -> None:
    beside = crib_file(tmp_path, "expect:\n  - {caller: {agent: dev}, lacks: [exec]}\n", "promises.yaml")
    answer = ask(capsys, "policy", "test", "--config", home, "--expect", beside, "--json")
    assert (answer.code, [each["holds"] for each in answer.json["entries"]]) == (1, [True, False])
    empty = crib_file(tmp_path, "tools: {}", "empty.yaml")
    assert ask(capsys, "policy", "test", "--config", empty).out == "nothing is expected; write it under `expect`\n"


def test_a_claim_that_holds_says_of_how_many(home: Path, capsys: Capture) -> None:
    answer = ask(capsys, "policy", "prove", "--never", "nodes", "--config", home, "--json")
    assert answer.code == 0
    assert answer.json["holds"] is True
    assert answer.json["counterexample"] is None
    assert answer.json["classes"] > 50
    words = ask(capsys, "policy", "prove", "--never", "group:nodes", "--config", home).out
    assert words.startswith("It holds: of ")


def test_a_claim_that_does_not_hold_names_somebody_whom_explain_says_the_same_of(home: Path, capsys: Capture) -> None:
    options = ("--never", "exec", "--except", "owner", "--channel", "telegram", "--config", home)
    answer = ask(capsys, "policy", "prove", *options, "--json")
    assert (answer.code, answer.json["holds"]) == (1, False)
    found = answer.json["counterexample"]
    caller = found["caller"]
    assert (caller["channel"], caller["agent"], caller["owner"], found["tool"]) == ("telegram", "dev", False, "exec")
    asked = ["--agent", "dev", "--channel", "telegram", "--sender", f"id:{caller['sender']['id']}"]
    asked += ["--group", caller["group"]] if caller["group"] else []
    same = ask(capsys, "explain", "exec", *asked, "--config", home, "--json").json["tools"][0]
    assert (same["decision"], same["reason"]) == (found["decision"], found["reason"])
    words = ask(capsys, "policy", "prove", *options)
    assert words.out.startswith("It does not hold. agent dev, channel telegram")


@pytest.mark.parametrize(
    ("options", "holds"),
    [
        (("exec", "--group", "-100", "--except", "owner", "--except", "id:7"), True),
        (("exec", "--group", "-100", "--except", "owner"), False),
        (("exec", "--group", "-100", "--except", "7", "--except", "OWNER", "--channel", "Telegram"), True),
        (("message", "--group", "-100"), False),
        (("browser", "--channel", "telegram", "--except", "owner"), False),
        (("gateway", "--except", "owner"), True),
    ],
)
def test_a_claim_may_be_about_some_only(options: tuple[str, ...], holds: bool, home: Path, capsys: Capture) -> None:
    answer = ask(capsys, "policy", "prove", "--never", *options, "--config", home, "--json")
    assert (answer.json["holds"], answer.code) == (holds, int(not holds)), answer.json


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--never", "exce"), "means no tool that exists here; did you mean 'exec'?"),
        (("--never", "effect:fly"), "no effect is called 'fly'"),
        (("--never", " "), "blank"),
        (("--never", "exec", "--except", "role:family"), "there is no such role; there are none"),
        (("--never", "exec", "--except", "*"), "would leave nobody"),
        (("--never", "exec", "--except", "e164:12"), "E.164"),
    ],
)
def test_a_claim_that_means_nothing_is_refused(
    options: tuple[str, ...], sentence: str, home: Path, capsys: Capture
) -> None:
    assert sentence in refused(ask(capsys, "policy", "prove", *options, "--config", home))


def test_a_group_needs_a_channel_where_none_is_configured(tmp_path: Path, capsys: Capture) -> None:
    bare = crib_file(tmp_path, "tools: {deny: [exec]}", "bare.yaml")
    assert "--channel" in refused(ask(capsys, "policy", "prove", "--never", "read", "--group", "7", "--config", bare))
    answer = ask(
        capsys, "policy", "prove", "--never", "exec", "--group", "7", "--channel", "irc", "--config", bare, "--json"
    )
    assert answer.json["holds"] is True


def test_who_lists_whom_another_agent_would_give_it(home: Path, capsys: Capture) -> None:
    found = ask(capsys, "who", "exec", "--config", home, "--json").json["callers"]
    rows = {
        (each["caller"]["agent"], each["caller"]["group"], (each["caller"]["sender"] or {}).get("id")): each["decision"]
        for each in found
        if each["caller"]["channel"]
    }
    assert rows["main", "-100", "7"] == "deny"
    assert rows["dev", "-100", "7"] == "allow"
    assert ("dev", "-100", "*") not in rows


def test_who_lists_subagents_models_of_agents_and_strangers_at_home(tmp_path: Path, capsys: Capture) -> None:
    text = "agents: {dev: {tools: {byProvider: {openai/gpt-5: {deny: [exec]}}}}}"
    table = ask(capsys, "who", "exec", "--config", crib_file(tmp_path, text)).out
    assert "the owner here, agent dev, model openai/gpt-5" in table
    assert "agent dev, started by main" in table
    assert "somebody who is not the owner" in table
