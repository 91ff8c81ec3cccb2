"""Every kind of value: what is taken, and what is refused. A guard that refuses ordinary work is as bad as a hole."""

import time
from typing import Any

import pytest
import re2

from toolcrib.config.load import load
from toolcrib.define.errors import ConfigError

GOOD_TOKEN = "a-long-enough-token-0123456789"
HEX = "0123456789abcdef" * 4


def config_with(path: str, value: Any) -> dict[str, Any]:
    """A configuration that says `value` at `path`, and otherwise nothing that could be wrong; `[]` is a list's item."""
    for part in reversed(path.split(".")):
        value = [value] if part == "[]" else {part: value}
    if path.startswith("gateway.") and not path.startswith("gateway.auth"):
        value = {"gateway": {"auth": {"token": GOOD_TOKEN}, **value["gateway"]}}
    assert isinstance(value, dict)
    return value


def refusal(config: dict[str, Any]) -> ConfigError | None:
    """The error that a configuration is, if it is one."""
    try:
        load(config, {})
    except ConfigError as error:
        return error
    return None


TAKEN: dict[str, list[Any]] = {
    "gateway.port": [1, 80, 1024, 18789, 65535],
    "gateway.bind": [
        "loopback", "lan", "localhost", "127.0.0.1", "::1", "0.0.0.0", "::", "192.168.1.5", "fd00::7", "fe80::1%eth0",
    ],
    "gateway.auth": [
        {"mode": "token", "token": GOOD_TOKEN},
        {"token": "0123456789abcdef"},
        {"token": "correct horse battery staple"},
        {"token": "sk_live-AAAA.bbbb+cccc/dddd=="},
        {"mode": "password", "password": "a long pass phrase with blanks"},
        {"mode": "password", "password": "geheim, ändern wir nie"},
        {"mode": "password", "password": "exchange items for your key collection"},
        {"mode": "password", "token": GOOD_TOKEN, "password": "Tr0ub4dor&3"},
    ],
    "gateway.trustedProxies.[]": [
        "10.0.0.1", "10.0.0.0/24", "172.16.0.0/12", "10.0.0.0/8", "192.168.0.0/16", "127.0.0.1", "::1", "fd00::/8",
        "fe80::/10", "2001:db8::/32", "104.16.0.0/13", "2400:cb00::/32", " 10.0.0.1 ", "10.0.0.7/24",
        "::ffff:10.0.0.0/104",
    ],
    "gateway.allowedOrigins.[]": [
        "https://ui.example.test", "https://ui.example.test:8443", "http://localhost:3000", "http://127.0.0.1:8080",
        "https://[::1]:8443", "http://nas.local", "https://ui.example.test/", "https://UI.example.test",
        "tauri://localhost", "chrome-extension://abcdefghijklmnop", "https://my_host.test", "http://localhost",
    ],
    "web.ssrf.allowPrivate.[]": ["10.0.0.5", "192.168.1.0/24", "127.0.0.1", "fd00::/8", "100.64.0.0/10"],
    "sandbox.docker.image": [
        "debian", "python:3.12-slim", "ghcr.io/org/image:latest", "localhost:5000/x/y:1", f"debian@sha256:{HEX}",
        f"registry.example.test:5000/a/b_c.d-e:V1.2@sha256:{HEX}", "my__image", "openclaw-sandbox:bookworm-slim",
        "127.0.0.1:5000/x", "docker.io/library/alpine:3",
    ],
    "sandbox.docker.network": ["none", "bridge", "my-net", "crib_default", "net.1"],
    "sandbox.docker.memory": ["512m", "1g", "2G", "1.5g", "512MB", "64MiB", "536870912", "100k", "8b"],
    "sandbox.docker.pidsLimit": [1, 256],
    "sandbox.docker.binds.[]": [
        "/home/user/project:/workspace", "/home/user/project:/workspace:rw", "/srv/data:/data:ro", "/mnt/disk:/d",
        "/opt/models:/models:ro", "/tmp/x:/x", "/data:/data", "/root/project:/p", "/var/www/site:/site",
        "/media/usb:/usb",
        "/var/lib/toolcrib/workspace:/w", "/etc/localtime:/etc/localtime:ro", "/etc/ssl/certs:/etc/ssl/certs:ro",
        "/usr/share/dict:/dict:ro", "/home/user/project:/w:Z", "/home/user/project:/w:ro,z", "/Users/bob/project:/p",
        "/run/media/user/disk:/disk", "/home/user/etc:/x", "/home/user/proc/x:/x", "/var/log/app:/log:ro",
        "/srv/data/:/data/", "/home/user/my project:/p", "/workspace/ssh:/x", "/nix/store:/nix/store:ro",
    ],
    "logging.redactPatterns.[]": [
        "(?i)bearer [a-z0-9._-]+", r"\bsk-[A-Za-z0-9]{20,}\b", "x", r"(?P<key>api[_-]?key)\s*[=:]\s*\S+", r"\d{16}",
        "[A-Z0-9]{20}", "(a|aa)+$", "(a+)+$", "x" * 256, r"пароль=\S+", "(?s)-----BEGIN.+?-----END",
    ],
    "logging.level": ["debug", "info", "warn", "warning", "error"],
    "owners.[]": ["id:1000", "e164:+380441234567", "1000", "+380441234567", "ID:7", "@bob:matrix.test", "U02ABCDEF"],
    "channels.telegram.allowFrom.[]": [
        "id:123456", "*", "username:bob", "name:Bob", "+15550100", "@bob", "e164:+15550100",
    ],
    "channels.telegram.dmPolicy": ["pairing", "allowlist", "open", "disabled"],
    "channels.telegram.groups.-100.requireMention": [True, False],
    "agents.main.sandbox": ["off", "all", "non-main"],
    "agents.main.heartbeat.every": ["1m", "60s", "60", "30m", " 2h ", "1d"],
    "agents.main.model": ["openai:gpt-5", "anthropic/claude", "ollama"],
    "tools.timeoutSec": [1, 0.5, 120, 86400],
    "tools.exec.timeoutSec": [1, 300.5, 86400],
    "tools.exec.backgroundMs": [0, 10_000],
    "tools.exec.env.[]": ["PATH", "HOME", "LC_ALL", "_x", "npm_config_registry"],
    "tools.exec.trustedDirs.[]": ["/usr/bin", "/opt/bin", "~/bin"],
    "tools.exec.allow.[]": [["git", "status"], ["ls"]],
    "tools.askAfterOutside.[]": ["effect:send", "exec", "group:runtime", "web_*", {"tool": "exec", "taint": "web:*"}],
    "tools.results.maxChars": [100, 8000],
    "tools.results.notice": [True, False],
    "tools.subagents.maxDepth": [0, 1, 8],
    "limits.cost": [0, 1, 0.25],
    "limits.turns": [1, 50],
    "models.default": ["openai:gpt-5", "ollama/llama3:8b"],
    "models.ollama.timeoutSec": [0.5, 600, 86400],
    "models.ollama.contextWindow": [1024, 12288, 1_000_000],
    "models.ollama.baseUrl": [
        "http://localhost:11434/v1", "https://api.openai.com/v1", "http://[::1]:8080",
        "http://host.docker.internal:1234",
    ],
    "mcpServers.files": [
        {"command": "npx", "args": ["-y", "server", ""], "env": {"KEY": ""}, "cwd": "/srv"},
        {"url": "https://mcp.test/x", "headers": {"Authorization": "Bearer x"}, "tools": {"allow": ["read_*"]}},
    ],
    "session.dmScope": ["main", "per-peer", "per-channel-peer", "per-account-channel-peer"],
    "session.identityLinks": [{"bob": ["telegram:7", "discord:8"]}],
    "plugins.allow": [[], ["p1", "p2"]],
    "plugins.weather": [{}, {"enabled": False}, {"config": {"anything": [1, None]}}, {"tools": {"deny": ["x"]}}],
    "secrets.KEY": ["", "value"],
    "cron.maxConcurrent": [1, 100],
    "workspace.linked": [[], ["**/node_modules/**"]],
    "expect.[].caller.sender": ["id:7", "*", {"id": "7", "name": "Bob"}],
    "expect.[].caller.parents": ["main", "main/helper", ["main", "agent:main:main"], []],
}  # fmt: skip

REFUSED: dict[str, list[Any]] = {
    "gateway.port": [0, -1, 65536, 0.5, 80.0, "80", True, None, [80], 1e308],
    "gateway.bind": [
        "everywhere", "", " ", "nas.local", "0", "0.0.0.0 ", "*", "127.1", "0x7f000001", "256.0.0.1", "tailnet", "LAN",
        "224.0.0.1", "255.255.255.255", "ff02::1", "127.0.0.1:80", "http://127.0.0.1", 127, None, ["lan"], "::1/64",
    ],
    "gateway.auth": [
        {}, {"mode": "token"}, {"mode": "tokn", "token": GOOD_TOKEN}, {"mode": "password", "token": GOOD_TOKEN},
        {"mode": "none"}, {"token": ""}, {"token": " " * 20}, {"token": "abc"}, {"token": "undefined"},
        {"token": "null"},
        {"token": "0" * 32}, {"token": "abababababababab"}, {"token": "changeme-changeme"},
        {"token": "CHANGE_ME_PLEASE_NOW"},
        {"token": "your-secret-token-here"}, {"token": "$OPENCLAW_GATEWAY_TOKEN"}, {"token": "{{ gateway_token }}"},
        {"token": "%GATEWAY_TOKEN_VALUE%"}, {"token": "<insert a token here>"}, {"token": "[object Promise]"},
        {"token": "$(cat /run/secrets/token)"}, {"token": f"{GOOD_TOKEN}\n"}, {"token": f" {GOOD_TOKEN}"},
        {"token": f"{GOOD_TOKEN}\n{GOOD_TOKEN}"}, {"token": 1234567890123456}, {"token": [GOOD_TOKEN]}, {"token": None},
        {"mode": "password", "password": "short"}, {"mode": "password", "password": "password"},
        {"mode": "password", "password": "12345678"}, {"mode": "password", "password": "aaaaaaaaaaaa"},
        {"mode": "password", "password": "        "}, {"mode": "password", "password": "PLACEHOLDER"}, "token", [],
        True,
        {"token": GOOD_TOKEN, "allowAnonymous": True},
    ],
    "gateway.trustedProxies.[]": [
        "0.0.0.0/0", "::/0", "0.0.0.0/1", "128.0.0.0/1", "2000::/3", "*", "", "example.com", "localhost", "10.0.0.0/33",
        "10.0.0", "10.0.0.1-10.0.0.9", "0.0.0.0", "::", "224.0.0.0/8", "ff00::/16", "::ffff:0:0/96",
        "::ffff:0.0.0.0/96",
        "64:ff9b::/96", "2002::/16", "::/96", "any", 10, None, ["10.0.0.1"], "10.0.0.1,10.0.0.2", "010.0.0.1", "all",
    ],
    "gateway.allowedOrigins.[]": [
        "*", "null", "", "https://*", "https://*.example.test", "https://user@example.test",
        "https://user:pw@example.test",
        "https://example.test/path", "https://example.test?q", "https://example.test#f", "//example.test",
        "example.test",
        "ftp://example.test", "javascript:alert(1)", "file:///", "data:text/html,x", "https://",
        "https://example.test:0",
        "https://example.test:99999", "https://example.test:", "https://exa mple.test", "https://example.test\n",
        "https://a.test,https://b.test", "https://a.test https://b.test", "https:example.test",
        "https://\u0435xample.test",
        "https://-", "http://a.test\\@b.test", 1, None, ["https://a.test"],
    ],
    "web.ssrf.allowPrivate.[]": ["0.0.0.0/0", "::/0", "metadata.google.internal", "10.0.0.0/7", "*", "", None],
    "sandbox.docker.image": [
        "x;touch PWNED", "", " ", "-v", "--privileged", "$(id)", "`id`", "x y", "../x", "a/../b", "a//b", "/x", "x/",
        "X", "x:", "x@sha256:12", f"x@md5:{HEX}", "x\n", "x|y", "x&y", "http://x/y", "x" * 257, 1, None,
    ],
    "sandbox.docker.network": [
        "host", "HOST", "Host ", " host", "host\n", "container:abc", "ns:/proc/1/ns/net", "", " ", "--net=host", "a b",
        "service:x", "-x", "\uff48ost", 1, None,
    ],
    "sandbox.docker.memory": ["0", "0m", "-1", "", "lots", "1t", "512 m", "1e9", "m", 512, None, "1" * 12, "0.0g"],
    "sandbox.docker.pidsLimit": [0, -1, "256", 1.5, None, True],
    "sandbox.docker.binds.[]": [
        "/:/host", "//:/host", "/etc:/e", "/etc:/e:ro", "//etc:/e", "///etc/passwd:/p", "/./etc:/e", "/etc/./shadow:/s",
        "/home/../etc:/e", "/proc:/p", "/proc/1/root:/r", "/sys:/s", "/dev:/d", "/dev/sda:/d", "/boot:/b", "/run:/r",
        "/var/run/docker.sock:/s", "/run/docker.sock:/s:ro", "/srv/docker.sock:/s",
        "/run/user/1000/podman/podman.sock:/s",
        "/run/containerd:/c", "/var:/v", "/var/lib:/l", "/var/lib/docker:/d", "/var/lib/kubelet:/k",
        "/var/spool/cron:/c",
        "/var/backups:/b", "/usr:/u", "/usr/bin:/b", "/usr/share:/s", "/usr/local/bin:/b:ro", "/lib:/l", "/lib64:/l",
        "/root:/r", "/home:/h", "/home/user:/h", "/home/user/:/h", "/Users/bob:/h", "/var/home/user:/h",
        "/home/user/.ssh:/k", "/home/user/.SSH/id:/k", "/root/.aws/credentials:/k", "/home/user/.config/gh:/g",
        "/home/user/.kube/config:/k", "/home/user/.gnupg:/g", "/home/user/.docker:/d", "/home/user/.netrc:/n",
        "/home/user/.toolcrib:/t", "/home/user/.openclaw:/t", "/home/user/.local/share/keyrings:/k",
        "~/.ssh:/k", "~/project:/p", "project:/p", "./project:/p", "data:/data", "../x:/x", "$HOME/x:/x", "",
        "/srv/data", "/srv/data:", "/srv/data:relative", "/srv/data:/", "/srv/data:/x/../../etc", "/srv/data:/x:exec",
        "/srv/data:/x:ro,rw", "/srv/data:/x:rshared", "/srv/data:/x:ro:rw", "/srv/a:b:/x", "C:\\x:/x", 1, None,
        ["/a:/b"],
    ],
    "logging.redactPatterns.[]": [
        "[", "(", "*", "a**", "(?<=x)y", r"(\w)\1", "", ".*", "a*", "x?", "(?:)", "^", "$", r"\b", "(a{1000}){1000}",
        "((a{100}){100}){100}", "x" * 257, "(?P<n", r"\p{Nope}", 1, None, ["x"],
    ],
    "logging.level": ["loud", "INFO", "", "trace", 1, None],
    "owners.[]": [
        "*", "id:*", "e164:*", "", " ", "id:", "id: ", "e164:", "@", "name:Bob", "Name:Bob", " username:bob",
        "USERNAME:bob", "e164:bob", "e164:+1 555", "e164:15550100", 7, None, ["id:7"],
    ],
    "channels.telegram.allowFrom.[]": [
        "", " ", "\t", "id:", "username:@", "name: ", "id:*", "e164:+1-555", None, 7, True,
    ],
    "channels.telegram.allowFrom": ["*", "id:7", None, {"id": 7}],
    "channels.telegram.dmPolicy": ["opne", "", "Open", None, True, ["open"]],
    "channels.telegram.enabled": ["yes", 1, None],
    "agents": [
        {"../x": {}}, {"": {}}, {" ": {}}, {"a/b": {}}, {"a\\b": {}}, {"-": {}}, {"a" * 65: {}}, {"_": {}}, {"é": {}},
        {"a.b": {}}, {"a:b": {}}, {"a b": {}, "A B": {}}, "main", 5, [[]], [{"id": ""}], [{}],
    ],
    "agents.main.sandbox": ["al", "", True, {"mode": "all"}, None],
    "agents.main.heartbeat.every": ["59s", "0m", "soon", "", "-30m", "1.5h", "400d", 1800, True, None],
    "tools.timeoutSec": [0, -1, 86401, 1e308, "60", True, None, [1]],
    "tools.exec.timeoutSec": [0, -5, 1e308, "60", True],
    "tools.exec.backgroundMs": [-1, 1.5, "10", 10**12, True],
    "tools.exec.host": ["gateway", "node", "", "Sandbox", None],
    "tools.exec.security": ["none", "off", "", "Full"],
    "tools.exec.ask": ["sometimes", "never", "", False],
    "tools.exec.env.[]": ["A=B", "", " ", "A B", "1A", "A-B", "LD\nPRELOAD", 1, "é"],
    "tools.exec.trustedDirs.[]": [".", "bin", "./bin", "", "../bin", "/usr/../tmp", "~", "$HOME/bin"],
    "tools.exec.allow.[]": ["git status", [], [""], [1], None],
    "tools.askAfterOutside.[]": ["effect:sned", "a?b", "", "group:*", 5, None, [], {}],
    "tools.denyAfterOutside.[]": [
        "", {"tool": "exec"}, {"tool": "", "taint": "*"}, {"tool": "exec", "taint": ""}, {"tool": "exec", "taint": 5},
        {"tool": "exec", "taint": "x" * 257}, {"tool": "exec", "tiant": "web:*"}, {"tool": ["exec"], "taint": "*"},
    ],
    "tools.results.maxChars": [0, 99, 10**9, "8000", 1.5],
    "tools.results.notice": ["yes", 1, {}],
    "tools.subagents.maxDepth": [-1, 9, "1", True, 1.0],
    "tools.subagents.mode": ["free", "", "Ceiling"],
    "limits.cost": [-1, "1", True, 1e9],
    "limits.turns": [0, -1, 1.5, "5", True],
    "models.default": ["", " ", 5, None, ["a:b"]],
    "models.ollama.timeoutSec": [0, -1, 86401, "60", True],
    "models.ollama.contextWindow": [0, 512, -1, 1.5, "8k", True],
    "models.ollama.baseUrl": [
        "", "localhost:11434", "ftp://x", "javascript:x", "http://", "http://x y", "http://x:99999", "file:///x", 5,
    ],
    "models.ollama.apiKey": ["", " ", 5],
    "mcpServers.files": [
        {}, {"command": "x", "url": "https://y"}, {"command": ""}, {"url": "y"}, {"command": "x", "env": {"A=B": "c"}},
        {"command": "x", "args": "y"}, {"command": ["x"]}, {"command": "x", "shell": True},
    ],
    "session.dmScope": ["per-person", "", None],
    "session.identityLinks": [{"bob": "telegram:7"}, [], {"": ["x"]}],
    "plugins": [
        {"allow": {"p": True}}, {"allow": "p"}, {"allow": [1]}, {"folders": "x"}, {"p": True}, {"p": None},
        {"p": []}, [],
    ],
    "secrets.KEY": [1, None, ["x"]],
    "cron.maxConcurrent": [0, -1, "1", 10**9],
    "sandbox.mode": ["al", "on", "", True, None],
    "sandbox.workspaceAccess": ["rwx", "", "RO"],
    "sandbox.memoryMb": [0, -1, "512", 1.5],
    "sandbox.docker": [{key: value} for key, value in {
        "capAdd": ["SYS_ADMIN"], "pid": "host", "ipc": "host", "privileged": True, "seccompProfile": "unconfined",
        "apparmorProfile": "unconfined", "devices": ["/dev/sda"], "user": "root", "securityOpt": ["x"],
        "userns": "host",
        "cgroupParent": "/", "extraHosts": ["a:1"], "dns": ["1.1.1.1"], "setupCommand": "x", "readOnlyRoot": False,
    }.items()],
    "expect.[].caller.sender": ["", "id:", {}, {"id": ""}, {"uid": "7"}, 7],
    "expect.[].caller.parents": ["", "/", "main//x", [""], 5],
}  # fmt: skip


@pytest.mark.parametrize("path", TAKEN)
def test_ordinary_values_are_taken(path: str) -> None:
    for value in TAKEN[path]:
        assert load(config_with(path, value), {}).ignored == ()


@pytest.mark.parametrize("path", REFUSED)
def test_the_rest_is_refused_at_its_key(path: str) -> None:
    top = path.partition(".")[0]
    for value in REFUSED[path]:
        error = refusal(config_with(path, value))
        assert error is not None, f"{path}: {value!r} was taken"
        assert error.place.path.startswith(top), value
        assert len(str(error).splitlines()) == 1


def test_values_are_kept_as_they_are_used() -> None:
    gateway = {"allowedOrigins": ["https://ui.test/"], "trustedProxies": [" 10.0.0.1 "]}
    config = load({"gateway": gateway}, {}).config
    assert config.gateway is not None
    assert (config.gateway.allowed_origins, config.gateway.trusted_proxies) == (("https://ui.test",), ("10.0.0.1",))


@pytest.mark.parametrize("bind", ["lan", "0.0.0.0", "::", "192.168.1.5", "::ffff:10.0.0.1", "fe80::1%eth0"])
def test_beyond_this_machine_nobody_listens_without_auth(bind: str) -> None:
    with pytest.raises(ConfigError, match=r"gateway.bind: this reaches beyond this machine and needs gateway.auth"):
        load({"gateway": {"bind": bind}}, {})
    load({"gateway": {"bind": bind, "auth": {"token": GOOD_TOKEN}}}, {})


@pytest.mark.parametrize("bind", ["loopback", "localhost", "127.0.0.1", "127.0.0.53", "::1", "0:0:0:0:0:0:0:1"])
def test_on_this_machine_auth_is_the_operators_choice(bind: str) -> None:
    loaded = load({"gateway": {"bind": bind}}, {}).config
    assert loaded.gateway is not None
    assert loaded.gateway.auth is None


def test_a_token_may_come_from_the_environment_and_is_judged_there() -> None:
    config = {"gateway": {"auth": {"mode": "token", "token": "${TOKEN}"}}}
    loaded = load(config, {"TOKEN": GOOD_TOKEN}).config
    assert loaded.gateway is not None
    assert loaded.gateway.auth is not None
    assert loaded.gateway.auth.token == GOOD_TOKEN
    for wrong in ("", "abc", "undefined", "changeme", " " * 20):
        with pytest.raises(ConfigError, match=r"^gateway.auth.token: "):
            load(config, {"TOKEN": wrong})


def test_patterns_that_are_taken_run_in_no_time() -> None:
    probe = "a" * 100_000 + "!"
    began = time.process_time()
    for pattern in TAKEN["logging.redactPatterns.[]"]:
        re2.compile(pattern).search(probe)
    assert time.process_time() - began < 2


def test_the_sample_of_the_documents_is_taken() -> None:
    load(
        {
            "tools": {
                "profile": "coding",
                "alsoAllow": ["web_search"],
                "deny": ["nodes"],
                "ask": ["effect:write", "effect:execute"],
                "byProvider": {"openai": {"deny": ["exec"]}, "openai/gpt-5": {"profile": "minimal"}},
                "exec": {
                    "host": "sandbox",
                    "security": "allowlist",
                    "ask": "on-miss",
                    "allow": [["git", "status"]],
                    "allowExact": [["ls"]],
                    "readOnly": ["cat"],
                    "safeBins": ["jq"],
                    "deny": [["git", "push"]],
                    "trustedDirs": ["/usr/bin"],
                    "env": ["PATH"],
                    "network": False,
                    "examples": {"run": ["git status"], "ask": ["git commit"], "deny": ["git push"]},
                },
                "subagents": {
                    "mode": "handover",
                    "include": ["read"],
                    "exclude": ["exec"],
                    "tools": {"deny": ["cron"]},
                },
                "sandbox": {"tools": {"allow": ["read"], "deny": []}},
                "results": {"maxChars": 8000},
                "timeoutSec": 120,
                "askAfterOutside": ["effect:send"],
            },
            "limits": {"turns": 50, "seconds": 600, "tokens": 100_000, "cost": 1.5},
            "agents": [{"id": "main", "name": "Home", "limits": {"turns": 5}, "subagents": {"allowAgents": ["*"]}}],
            "channels": {"telegram": {"enabled": True, "dmPolicy": "pairing", "owners": ["id:1"], "groups": {"*": {}}}},
            "owners": ["id:1000"],
            "sandbox": {
                "mode": "non-main",
                "workspaceAccess": "ro",
                "network": False,
                "memoryMb": 512,
                "processes": 64,
            },
            "workspace": {"root": ".", "protected": ["**/.env"]},
            "models": {"default": "openai:gpt-5", "openai": {"apiKey": "${KEY}"}},
            "plugins": {"folders": ["plugins"], "allow": ["dice"], "dice": {"enabled": True, "config": {"sides": 6}}},
            "gateway": {"bind": "loopback", "port": 18789},
            "hooks": {"enabled": False},
            "memory": {"enabled": True, "extraPaths": ["notes"]},
            "web": {"search": {"provider": "brave", "maxResults": 5}, "fetch": {"maxChars": 20_000}},
            "expect": [{"caller": {"channel": "telegram", "sender": "id:7"}, "lacks": ["exec"]}],
        },
        {"KEY": "sk-0123"},
    )


@pytest.mark.parametrize(
    "agents",
    [
        {"Main": {"model": "a:b"}, "Work": {"model": "c:d"}},
        [{"id": "Main", "model": "a:b"}, {"id": "Work", "model": "c:d"}],
    ],
)
def test_an_agent_is_found_however_its_id_is_spelled_and_main_when_none_is_named(agents: Any) -> None:
    config = load({"agents": agents}, {}).config
    found = {
        id: own and own.model for id in (None, "", "main", " WORK ", "work", "other") for own in [config.agent(id)]
    }
    assert found == {None: "a:b", "": "a:b", "main": "a:b", " WORK ": "c:d", "work": "c:d", "other": None}
    assert config.agent_ids() == ("main", "work")
    assert config.find_written_id("work") == "Work"


def test_there_is_always_a_main_agent() -> None:
    assert load({"agents": {"work": {}}}, {}).config.agent_ids() == ("main", "work")
    assert load({}, {}).config.agent(None) is None
