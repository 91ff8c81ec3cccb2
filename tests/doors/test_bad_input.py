"""Bad input: one sentence with file, line and key, what to do, exit code 2, and never a traceback."""

import os
import re
import string
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .world import DICE, ask, crib_file, plugin_folder, refused

Capture = pytest.CaptureFixture[str]

MIB = 1 << 20

# What is wrong, how it is written in each format, and what is said: `LINE: key path: sentence`, the line by format.
CLASSES: dict[str, tuple[dict[str, str], str]] = {
    "an unknown key": (
        {
            "json5": "{\n// rules\ntools: {\n  denny: ['exec'],\n}}",
            "yaml": "# rules\n\ntools:\n  denny: [exec]\n",
            "toml": "# rules\n\n[tools]\ndenny = ['exec']\n",
        },
        ":4: tools.denny: unknown key; did you mean 'deny'?",
    ),
    "an unknown section": (
        {"json5": "{\ntool: {}}", "yaml": "\ntool: {}", "toml": "\ntool = {}"},
        ":2: tool: unknown key; did you mean 'tools'?",
    ),
    "a key nothing is near to": (
        {"json5": "{\nlimits: {frob: 1}}", "yaml": "\nlimits: {frob: 1}", "toml": "\nlimits.frob = 1"},
        ":2: limits.frob: unknown key; known here: cost, seconds, tokens, turns",
    ),
    "a key deep in lists and maps": (
        {
            "json5": "{channels: {telegram: {groups: {'-1': {\n toolsBySender: {'id:7':\n {dney: []}}}}}}}",
            "yaml": "channels: {telegram: {groups: {-1:\n {toolsBySender: {'id:7':\n {dney: []}}}}}}",
            "toml": "[channels.telegram.groups.-1]\n\ntoolsBySender.'id:7'.dney = []",
        },
        ":3: channels.telegram.groups.-1.toolsBySender.id:7.dney: unknown key; did you mean 'deny'?",
    ),
    "a key in an agent of a list": (
        {
            "json5": "{agents: [{id: 'a'},\n{id: 'b', tools: {\nprofil: 'coding'}}]}",
            "yaml": "agents:\n- {id: a}\n- {id: b, tools: {profil: coding}}",
            "toml": "agents = [{id = 'a'},\n\n {id = 'b', tools = {profil = 'coding'}}]",
        },
        ":3: agents[1].tools.profil: unknown key; did you mean 'profile'?",
    ),
    "a key by the name it has in the code": (
        {
            "json5": "{\nweb: {ssrf: {allow_private: []}}}",
            "yaml": "\nweb: {ssrf: {allow_private: []}}",
            "toml": "\nweb.ssrf.allow_private = []",
        },
        ":2: web.ssrf.allow_private: unknown key; did you mean 'allowPrivate'?",
    ),
    "text for a list": (
        {"json5": "{tools: {\nallow: 'exec'}}", "yaml": "tools:\n  allow: exec", "toml": "[tools]\nallow = 'exec'"},
        ":2: tools.allow: should be a list",
    ),
    "a number for a name": (
        {"json5": "{tools: {deny: ['a',\n1]}}", "yaml": "tools: {deny: [a,\n1]}", "toml": "tools.deny = ['a',\n1]"},
        ":2: tools.deny[1]: should be text or a mapping",
    ),
    "a list for a mapping": (
        {"json5": "{\ntools: []}", "yaml": "\ntools: []", "toml": "\ntools = []"},
        ":2: tools: should be a mapping",
    ),
    "text for a switch": (
        {"json5": "{\ncron: {enabled: 'no'}}", "yaml": "\ncron: {enabled: no}", "toml": "\ncron.enabled = 'no'"},
        ":2: cron.enabled: should be true or false",
    ),
    "a fraction for a port": (
        {"json5": "{\ngateway: {port: 0.5}}", "yaml": "\ngateway: {port: 0.5}", "toml": "\ngateway.port = 0.5"},
        ":2: gateway.port: should be a whole number",
    ),
    "a key that stands twice": (
        {
            "json5": "{tools: {deny: ['exec']},\n\ntools: {}}",
            "yaml": "tools: {deny: [exec]}\n\ntools: {}",
            "toml": "[tools]\ndeny = ['exec']\n[tools]",
        },
        ":3: tools: this key stands twice, first on line 1; keep one of them",
    ),
    "a number that is not finite": (
        {
            "json5": "{tools: {\ntimeoutSec: Infinity}}",
            "yaml": "tools:\n  timeoutSec: .inf",
            "toml": "[tools]\ntimeoutSec = inf",
        },
        ":2: tools.timeoutSec: this number is not finite; write one that is",
    ),
    "no number at all": (
        {"json5": "{\nlimits: {cost: NaN}}", "yaml": "\nlimits: {cost: .nan}", "toml": "\nlimits.cost = nan"},
        ":2: limits.cost: this number is not finite; write one that is",
    ),
    "a pattern over 256": (
        {
            "json5": "{\nlogging: {redactPatterns: ['" + "x" * 257 + "']}}",
            "yaml": "\nlogging: {redactPatterns: [" + "x" * 257 + "]}",
            "toml": "\nlogging.redactPatterns = ['" + "x" * 257 + "']",
        },
        ":2: logging.redactPatterns[0]: a pattern of 257 characters; 256 is the most",
    ),
    "an entry over 256": (
        {
            "json5": "{\ntools: {deny: ['" + "x" * 257 + "']}}",
            "yaml": "\ntools: {deny: [" + "x" * 257 + "]}",
            "toml": "\ntools.deny = ['" + "x" * 257 + "']",
        },
        ":2: tools.deny[0]: an entry of 257 characters; 256 is the most",
    ),
    "a variable that is not set": (
        {
            "json5": "{\naudit: {file: '${UNSET}'}}",
            "yaml": "\naudit: {file: '${UNSET}'}",
            "toml": "\naudit.file = '${UNSET}'",
        },
        ":2: audit.file: the environment variable UNSET is not set; set it",
    ),
    "an include that leaves the folder": (
        {"json5": "{\n$include: '../x.json5'}", "yaml": "\n$include: ../x.yaml", "toml": "\n'$include' = '../x.toml'"},
        ":2: $include: an include cannot leave the folder; remove the '..'",
    ),
    "an include that is not there": (
        {"json5": "{\n$include: 'x.json5'}", "yaml": "\n$include: x.json5", "toml": "\n'$include' = 'x.json5'"},
        ":2: $include: FOLDER/x.json5: no such file; create it or name another",
    ),
    "an include over the network": (
        {
            "json5": "{\n$include: 'http://127.0.0.1/x'}",
            "yaml": "\n$include: http://127.0.0.1/x",
            "toml": "\n'$include' = 'http://127.0.0.1/x'",
        },
        ":2: $include: an include names a file in this folder or below it; no other form is read",
    ),
    "a file that includes itself": (
        {"json5": "{\n$include: 'crib.json5'}", "yaml": "\n$include: crib.yaml", "toml": "\n'$include' = 'crib.toml'"},
        ":2: $include: files include one another in a circle: crib.FORMAT → crib.FORMAT; remove one include",
    ),
}  # fmt: skip


@pytest.mark.parametrize("format", ["json5", "yaml", "toml"])
@pytest.mark.parametrize("what", CLASSES)
def test_each_class_gets_one_sentence_in_every_format(tmp_path: Path, capsys: Capture, what: str, format: str) -> None:
    texts, said = CLASSES[what]
    crib = crib_file(tmp_path, texts[format], f"crib.{format}")
    sentence = refused(ask(capsys, "tools", "list", "--config", crib))
    assert sentence == f"{crib}{said}".replace("FOLDER", str(tmp_path)).replace("FORMAT", format)


@pytest.mark.parametrize(
    "command", ["explain", "explain exec --json", "lint --json", "tools list", "tools show exec", "tools call exec"]
)
def test_every_command_refuses_the_same_way(tmp_path: Path, capsys: Capture, command: str) -> None:
    crib = crib_file(tmp_path, "tools: {denny: [exec]}")
    sentence = refused(ask(capsys, *command.split(), "--config", crib))
    assert sentence == f"{crib}:1: tools.denny: unknown key; did you mean 'deny'?"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("crib.json5", "{tools: {deny: ['exec']", ":1: tools: the file ends here, but the '{' of line 1 is not closed"),
        ("crib.json", "{'a': }", ":1: a: expected a value here (text needs quotes)"),
        ("crib.json", "", ":1: the file is empty; write {} for an empty configuration"),
        ("crib.yaml", "tools: {deny: [exec}", ":1: tools.deny[1]: not valid YAML"),
        ("crib.yaml", "a: b: c", ":1: not valid YAML"),
        ("crib.yaml", "\ttools: {}", ":1: not valid YAML: a tab cannot indent; use spaces"),
        ("crib.yaml", "tools: {allow: [*]}", ":1: tools.allow[0]: not valid YAML: a bare * starts an alias"),
        ("crib.toml", "[tools\n", ":1: not valid TOML"),
        ("crib.toml", "tools.deny = [exec]", ":1: "),
        ("crib.yaml", "- a", ": this is a list; a configuration is a mapping of keys to values"),
        ("crib.json", "null", ": this is null; a configuration is a mapping of keys to values"),
        ("crib.json", '"tools"', ": this is text; a configuration is a mapping of keys to values"),
        ("crib.txt", "tools: {}", ": the suffix '.txt' is not known; use .json5, .json, .yaml, .yml or .toml"),
        ("crib", "tools: {}", ": the suffix '' is not known; use .json5, .json, .yaml, .yml or .toml"),
        ("crib.yaml", b"tools: {}\n# \xff", ":2: not UTF-8 at byte 12; save the file as UTF-8"),
        ("crib.yaml", b"tools: {deny: ['a\0b']}", ":1: not valid YAML: a control character stands here; remove it"),
        ("crib.json", '{"tools": {"deny": ["a\\u0000b"]}}', ":1: tools.deny[0]: this text holds a control character"),
        ("crib.json", '{"a\\u001b[2J": 1}', ":1: a\\x1b[2J: this key holds a control character"),
        ("crib.yaml", "x: " + "a" * MIB, ": more than 1 MiB with all included files; make it smaller"),
    ],
)  # fmt: skip
def test_what_is_no_configuration_is_told(
    tmp_path: Path, capsys: Capture, name: str, text: str | bytes, said: str
) -> None:
    crib = crib_file(tmp_path, text, name)
    assert refused(ask(capsys, "lint", "--config", crib)).startswith(f"{crib}{said}")


def test_what_is_no_file_is_told(tmp_path: Path, capsys: Capture) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    for name, said in {
        "pipe.yaml": "not a regular file; name one",
        "folder.yaml": "a directory; name a file in it",
        "gone.yaml": "no such file; create it or name another",
        "loop.yaml": "its symbolic links lead in a circle; name the file itself",
        "nul\0.yaml": "a file's name cannot hold a NUL character",
    }.items():
        assert refused(ask(capsys, "lint", "--config", f"{tmp_path}/{name}")).endswith(f": {said}")
    assert refused(ask(capsys, "lint", "--config", "-")) == "-: no such file; create it or name another"
    assert refused(ask(capsys, "lint", "--config", "/dev/null")) == "/dev/null: not a regular file; name one"


NO_NAME = "can match no tool; names are made of a-z, 0-9, _ and -, and * is the only wildcard"
NOBODY = "a blank sender is nobody; write id:123 or e164:+380.., or remove it"

# A careless hand: what is written, and what is said after `file:`
CARELESS: list[tuple[str, str]] = [
    ("tools:", "1: tools: is empty (null); write a value or remove the key"),
    ("tools:\n  deny: [exec]\n  allow:\n", "3: tools.allow: is empty (null); write a value or remove the key"),
    ("tools: {deny: null}", "1: tools.deny: is empty (null); write a value or remove the key"),
    ("tools: {deny: [null]}", "1: tools.deny[0]: should be text or a mapping"),
    ("tools: {deny: [[exec]]}", "1: tools.deny[0]: should be text or a mapping"),
    ("tools: {deny: ['']}", "1: tools.deny[0]: a blank entry means nothing; remove it"),
    (
        "tools: {deny: ['read,write']}",
        f"1: tools.deny[0]: 'read,write' {NO_NAME}",
    ),
    ("tools: {deny: ['group:*']}", "1: tools.deny[0]: 'group:*' names no group; a glob matches tool names only"),
    ("tools: {ask: ['effect:wirte']}", "1: tools.ask[0]: no effect is called 'wirte'; did you mean 'effect:write'?"),
    ("tools: {profile: Coding}", "1: tools.profile: no profile is called 'Coding'; did you mean 'coding'?"),
    ("tools: {profile: [coding]}", "1: tools.profile: should be text"),
    (
        "tools: {byProvider: {OpenAI: {}, openai: {}}}",
        "1: tools.byProvider: 'OpenAI' and 'openai' are the same provider; merge them",
    ),
    (
        "tools:\n  allow: [read]\n  alsoAllow: [exec]",
        "1: tools: allow and alsoAllow cannot stand side by side; put all names into allow",
    ),
    ("tools: {exec: {allow: [git status]}}", "1: tools.exec.allow[0]: should be a list"),
    ("tools: {exec: {allow: [[]]}}", "1: tools.exec.allow[0]: is empty; write something in it"),
    ("tools: {exec: {ask: sometimes}}", "1: tools.exec.ask: should be 'off', 'on-miss' or 'always'"),
    ("tools: {timeoutSec: '5'}", "1: tools.timeoutSec: should be a number"),
    ("tools: {timeoutSec: true}", "1: tools.timeoutSec: should be a number"),
    ("tools: {timeoutSec: 0}", "1: tools.timeoutSec: should be greater than 0"),
    ("tools: {timeoutSec: 1e300}", "1: tools.timeoutSec: should be less than or equal to 86400"),
    ("agents: [main]", "1: agents[0]: should be a mapping"),
    ("agents:\n- id: main\n- name: x", "3: agents[1]: an agent in a list needs an id; add one"),
    ("agents:\n  a b: {}\n  A-B: {}", "3: agents.A-B: is the same agent as 'a b'; merge the two"),
    ("agents:\n- id: a b\n- id: A-B", "3: agents[1]: 'A-B' is the same agent as 'a b'; merge the two"),
    ("agents: {main: {id: other}}", "1: agents.main: is also called 'other'; give it one id"),
    (
        "agents: {../x: {}}",
        "1: agents.../x: '../x' cannot be an agent's id; use letters, digits, _ and -, 64 at the most",
    ),
    ("agents: {main: coding}", "1: agents.main: should be a mapping"),
    ("agents: main", "1: agents: should be a list or a mapping"),
    ("channels: {Signal: {}, signal: {}}", "1: channels.signal: is the same channel as 'Signal'; merge the two"),
    ("channels: {imsg: {}, imessage: {}}", "1: channels.imessage: is the same channel as 'imsg'; merge the two"),
    (
        "channels: {slack: {groups: {C1: {}, c1: {}}}}",
        "1: channels.slack.groups.c1: is the same group as 'C1'; merge the two",
    ),
    (
        "channels: {slack: {accounts: {Work: {}, work: {}}}}",
        "1: channels.slack.accounts.work: is the same account as 'Work'; merge the two",
    ),
    (
        "channels: {telegram: {groups: {'*': {toolsBySender: {' ': {}}}}}}",
        f"1: channels.telegram.groups.*.toolsBySender. : {NOBODY}",
    ),
    (
        "channels: {telegram: {allowFrom: '*'}}",
        "1: channels.telegram.allowFrom: should be a list",
    ),
    (
        "channels: {x: {dmPolicy: opne}}",
        "1: channels.x.dmPolicy: should be 'pairing', 'allowlist', 'open' or 'disabled'",
    ),
    (
        "owners: ['name:Bob']",
        "1: owners[0]: 'name:Bob': an owner is known by id: or e164:, never by a name that anyone can take",
    ),
    ("owners: ['*']", "1: owners[0]: '*' would make everybody the owner; list senders by id: or e164:"),
    ("owners: [1000]", "1: owners[0]: should be text"),
    ("owners: id:7", "1: owners: should be a list"),
    ("models: {default: {}}", "1: models.default: should be text, provider:model"),
    ("models: {openai: gpt-5}", "1: models.openai: should be a mapping, like {baseUrl: .., apiKey: ..}"),
    ("plugins: [dice]", "1: plugins: should be a mapping"),
    (
        "plugins:\n  allow: {dice: true}",
        "2: plugins.allow: should be a list; a plugin's own mapping stands under its name",
    ),
    ("plugins: {dice: true}", "1: plugins.dice: should be a mapping, like {enabled: true}"),
    (
        "mcpServers: {files: {}}",
        "1: mcpServers.files: write either command (a program to start) or url (a server to reach)",
    ),
    ("expect: {has: [exec]}", "1: expect: should be a list"),
    ("expect: [{caller: {sender: {}}}]", "1: expect[0].caller.sender: is nobody; write id, e164, username or name"),
    (
        "expect: [{caller: {parents: //}}]",
        "1: expect[0].caller.parents: '//' has a blank in its chain; write outer/inner",
    ),
    ("expect: [{cller: {}}]", "1: expect[0].cller: unknown key; did you mean 'caller'?"),
    ("tools: {denny: [], alow: []}", "1: tools.denny: unknown key; did you mean 'deny'? (and 1 more)"),
    ("owners: [7]\ntools: {denny: []}\n", "1: owners[0]: should be text (and 1 more)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said"), CARELESS)
def test_a_careless_hand_is_told_where_and_what(tmp_path: Path, capsys: Capture, text: str, said: str) -> None:
    crib = crib_file(tmp_path, text)
    assert refused(ask(capsys, "explain", "--config", crib)) == f"{crib}:{said}"


@pytest.mark.parametrize("text", ["", "\n", "# only words\n", "---\n", "{}"])
def test_an_empty_file_is_the_defaults(tmp_path: Path, capsys: Capture, text: str) -> None:
    assert ask(capsys, "lint", "--config", crib_file(tmp_path, text)).code == 0


def test_a_fault_in_an_included_file_is_told_there(tmp_path: Path, capsys: Capture) -> None:
    crib_file(tmp_path, "# theirs\ndeny: [exec]\nalow: [read]\n", "rules.yaml")
    crib_file(tmp_path, '{\n"main": {},\n"a b": {"nme": 1}}', "agents.json")
    crib = crib_file(tmp_path, "tools: {$include: rules.yaml}\n")
    assert refused(ask(capsys, "lint", "--config", crib)) == (
        f"{tmp_path}/rules.yaml:3: tools.alow: unknown key; did you mean 'allow'?"
    )
    crib = crib_file(tmp_path, "[agents]\n'$include' = 'agents.json'\n", "crib.toml")
    assert refused(ask(capsys, "lint", "--config", crib)) == (
        f"{tmp_path}/agents.json:3: agents.a b.nme: unknown key; did you mean 'name'?"
    )


def test_includes_end_at_a_depth(tmp_path: Path, capsys: Capture) -> None:
    for depth in range(1, 12):
        crib_file(tmp_path, f"$include: {depth + 1}.yaml", f"{depth}.yaml")
    assert refused(ask(capsys, "lint", "--config", tmp_path / "1.yaml")).endswith(
        "9.yaml:1: $include: includes go more than 8 files deep; include this one further up"
    )


@pytest.mark.parametrize(
    "text",
    [
        "tools: {profile: " + "x" * 60_000 + "}",
        "tools: {" + "k" * 60_000 + ": 1}",
        "agents: {" + "x" * 60_000 + ": {}}",
        "owners: ['name:" + "x" * 60_000 + "']",
        "gateway: {bind: " + "x" * 60_000 + "}",
        "sandbox: {docker: {binds: ['/etc/" + "x" * 60_000 + ":/x']}}",
        "tools: {byProvider: {" + "A" * 60_000 + ": {}, " + "a" * 60_000 + ": {}}}",
        "tools: {deny: [" + ", ".join(["1"] * 20_000) + "]}",
        "channels: {telegram: {groups: {a\u2028b: {tols: {}}}}}",
    ],
)
def test_the_sentence_stays_one_readable_line(tmp_path: Path, capsys: Capture, text: str) -> None:
    crib = crib_file(tmp_path, text)
    sentence = refused(ask(capsys, "lint", "--config", crib))
    assert re.match(r":[12]: [a-z$]", sentence.removeprefix(str(crib))), sentence  # where, and then which key
    assert len(sentence) < len(str(crib)) + 600


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("crib.json5", "{\na: " + "[" * 33 + "]" * 33 + "}"),
        ("crib.yaml", "\na: " + "[" * 33 + "]" * 33),
        ("crib.toml", "\na = " + "[" * 33 + "]" * 33),
        ("crib.yaml", "\na: " + "{a: " * 3000 + "}" * 3000),
        ("crib.json", "{\n" + '"a":{' * 3000),
    ],
)
def test_nesting_over_32_is_refused(tmp_path: Path, capsys: Capture, name: str, text: str) -> None:
    crib = crib_file(tmp_path, text, name)
    sentence = refused(ask(capsys, "lint", "--config", crib))
    assert sentence.startswith(f"{crib}:2: a")
    assert sentence.endswith(": nested more than 32 levels deep; flatten it")


# Plugins


def plugins(folder: Path, more: str = "") -> str:
    return f"plugins:\n  folders: ['{folder}']\n  allow: [dice]\n{more}"


@pytest.mark.parametrize(
    ("code", "manifest", "said"),
    [
        ("raise ValueError('no\\nway \\x1b[31m')", {}, "plugin 'dice' raised ValueError while it was loaded: no"),
        ("import sys; sys.exit(0)", {}, "plugin 'dice' raised SystemExit while it was loaded: 0"),
        ("def (", {}, "plugin 'dice' raised SyntaxError while it was loaded: invalid syntax"),
        ("import no_such_module_at_all", {}, "plugin 'dice' raised ModuleNotFoundError while it was loaded"),
        ("plugin = 5", {}, "plugin 'dice' must have a `plugin = Plugin(...)`; what is there is int"),
        (DICE, {"tools": []}, "plugin 'dice' brings a tool 'dice' that its manifest does not declare; add it"),
        (DICE, {"main": "gone.py"}, "plugin 'dice': "),
        (DICE, {"main": "../../x.py"}, "plugin 'dice': main leads out of its folder"),
        (DICE, {"id": ""}, "plugin manifest "),
        (DICE, {"configSchema": []}, "plugin manifest "),
        (DICE, {"configSchema": {"type": "objekt"}}, "plugin manifest "),
        (DICE, {"configSchema": {"$ref": "http://127.0.0.1:9/x"}}, "plugin manifest "),
        (DICE, {"tools": [{"name": "Roll!"}]}, "plugin manifest "),
        (DICE, {"tools": [{"name": "dice", "effects": ["roll"]}]}, "plugin manifest "),
        (DICE, '{"id": "dice",', "plugin manifest "),
        (DICE, "[]", "plugin manifest "),
    ],
)
def test_a_plugin_that_cannot_be_used_is_told_where_it_is_turned_on(
    tmp_path: Path, capsys: Capture, code: str, manifest: dict[str, object] | str, said: str
) -> None:
    crib = crib_file(tmp_path, plugins(plugin_folder(tmp_path / "plugins", code, manifest=manifest)))
    sentence = refused(ask(capsys, "tools", "list", "--config", crib))
    assert sentence.startswith(f"{crib}:3: plugins.allow[0]: {said}")
    assert "; " in sentence


def test_a_missing_plugin_is_told_with_the_nearest(tmp_path: Path, capsys: Capture) -> None:
    folder = plugin_folder(tmp_path / "plugins")
    crib = crib_file(tmp_path, f"plugins:\n  folders: ['{folder}']\n  dise:\n    enabled: true")
    for command in ("lint", "explain", "tools list"):
        assert refused(ask(capsys, *command.split(), "--config", crib)) == (
            f"{crib}:3: plugins.dise: no plugin of that name is here; did you mean 'dice'?"
        )
    crib = crib_file(tmp_path, "plugins: {allow: [weather]}")
    assert refused(ask(capsys, "lint", "--config", crib)) == (
        f"{crib}:1: plugins.allow[0]: no plugin of that name is here; install it, or add its folder to plugins.folders"
    )


def test_a_missing_plugin_in_a_missing_folder_is_told_both(tmp_path: Path, capsys: Capture) -> None:
    crib = crib_file(tmp_path, "plugins:\n  folders: [nowhere]\n  allow: [dice]")
    assert refused(ask(capsys, "lint", "--config", crib)).endswith(
        f"add its folder to plugins.folders (besides, plugins.folders: {tmp_path}/nowhere is no folder)"
    )


@pytest.mark.parametrize("folder", ["~nobody-of-that-name/x", "x" * 5000, "nowhere", "crib.yaml", "é😀"])
def test_a_folder_that_is_none_is_told(tmp_path: Path, capsys: Capture, folder: str) -> None:
    crib = crib_file(tmp_path, f"plugins: {{folders: ['{folder}'], allow: [dice]}}")
    assert "folder" in refused(ask(capsys, "lint", "--config", crib)) or len(folder) > 255


def test_a_config_that_does_not_fit_its_schema_is_told_at_its_key(tmp_path: Path, capsys: Capture) -> None:
    schema = {"type": "object", "properties": {"sides": {"type": "integer"}}, "required": ["sides"]}
    folder = plugin_folder(tmp_path / "plugins", manifest={"configSchema": schema})
    crib = crib_file(tmp_path, plugins(folder, "  dice:\n    config:\n      sides: many\n"))
    sentence = refused(ask(capsys, "lint", "--config", crib))
    assert sentence.startswith(f'{crib}:6: plugins.dice.config.sides: the value is not of type "integer"; ')
    crib = crib_file(tmp_path, plugins(folder))
    assert refused(ask(capsys, "lint", "--config", crib)).startswith(
        f'{crib}:1: plugins.dice.config: "sides" is a required property; '
    )


# Whatever is typed


WORDS = [
    "tools", "deny", "allow", "exec", "agents", "channels", "plugins", "null", "1", "${HOME}", "${", "$include", "!!x",
    "&a", "é", "[", "]", "{", "}", ",", "'", '"', "*", "#", "=", "|", ">", ":", "-", " ", "\n", "  ", "\t", ": ", "- ",
]  # fmt: skip


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.lists(st.sampled_from(WORDS), max_size=30).map("".join) | st.text(alphabet=string.printable, max_size=60),
    name=st.sampled_from(["crib.yaml", "crib.json5", "crib.toml", "openclaw.json"]),
)
def test_whatever_is_typed_is_taken_or_refused_in_one_sentence(
    tmp_path: Path, capsys: Capture, text: str, name: str
) -> None:
    answer = ask(capsys, "lint", "--json", "--config", crib_file(tmp_path, text, name))
    if answer.code == 2:
        refused(answer)
    else:
        assert answer.json["failing"] == 0 if answer.code == 0 else answer.json["failing"] > 0
