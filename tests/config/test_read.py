"""One configuration file becomes a plain value with places, or one error that says where and what to do."""

import contextlib
import os
import socket
import string
import tempfile
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.config.read import document, read_document
from toolcrib.define.errors import ConfigError, ConfigLocation

SUFFIXES = (".json5", ".json", ".yaml", ".yml", ".toml")
MIB = 1 << 20


def write(folder: Path, files: dict[str, str | bytes]) -> Path:
    """Writes the files and returns the first of them."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder / next(iter(files))


def refusal(folder: Path, files: dict[str, str | bytes], env: dict[str, str] | None = None) -> tuple[str, str]:
    """The place (files by their names) and the message of the error that reading the first file raises."""
    with pytest.raises(ConfigError) as caught:
        read_document(write(folder, files), env or {})
    return tuple(str(part).replace(f"{folder}/", "") for part in (caught.value.place, caught.value.message))  # type: ignore[return-value]  # two


# --- what is read


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("c.json5", "// policy\n{tools: {deny: ['exec', 'cron',],},\n agents: {main: {sandbox: 'off'}}}"),
        ("c.json", '{"tools": {"deny": ["exec", "cron"]},\r\n"agents": {"main": {"sandbox": "off"}}}\r\n'),
        ("c.json", '\ufeff{"tools": {"deny": ["exec", "cron"]},\n"agents": {"main": {"sandbox": "off"}}}'),
        ("c.yaml", "tools:\n  deny: [exec, cron]\nagents: {main: {sandbox: off}}\n"),
        ("c.yml", "---\ntools: {deny: [exec,\n cron]}\nagents:\n  main:\n    sandbox: off\n...\n"),
        ("c.YAML", "\ufefftools: {deny: [exec, cron]}\nagents: {main: {sandbox: off}}"),
        ("c.toml", "[tools]\ndeny = ['exec', 'cron']\n[agents.main]\nsandbox = 'off'\n"),
        ("c.toml", "\ufefftools.deny = ['exec', 'cron']\nagents = {main = {sandbox = 'off'}}"),
    ],
)
def test_every_format_says_the_same(tmp_path: Path, name: str, text: str) -> None:
    file = write(tmp_path, {name: text})
    found = read_document(file, {})
    assert found.value == {"tools": {"deny": ["exec", "cron"]}, "agents": {"main": {"sandbox": "off"}}}
    assert found.files == (file,)
    assert found.referenced == frozenset()
    assert set(found.places) == {
        (),
        ("tools",),
        ("tools", "deny"),
        ("tools", "deny", 0),
        ("tools", "deny", 1),
        ("agents",),
        ("agents", "main"),
        ("agents", "main", "sandbox"),
    }


def test_a_place_names_file_line_and_dotted_path(tmp_path: Path) -> None:
    file = write(tmp_path, {"c.yaml": "tools:\n  deny:\n    - exec\n    - cron\n"})
    places = read_document(file, {}).places
    assert places[("tools", "deny", 1)] == ConfigLocation(str(file), 4, "tools.deny[1]")
    assert places[()] == ConfigLocation(str(file), None, "")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("c.json", "{}"),
        ("c.json", "  {\n\n }  "),
        ("c.yaml", ""),
        ("c.yaml", "# x\n"),
        ("c.yaml", "---\n"),
        ("c.toml", ""),
    ],
)
def test_nothing_is_an_empty_configuration(tmp_path: Path, name: str, text: str) -> None:
    assert read_document(write(tmp_path, {name: text}), {}).value == {}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("off", "off"),
        ("on", "on"),
        ("no", "no"),
        ("Yes", "Yes"),
        ("true", True),
        ("TRUE", True),
        ("False", False),
        ("tRue", "tRue"),
        ("null", None),
        ("~", None),
        ("", None),
        ("12:30:45", "12:30:45"),
        ("2024-01-01", "2024-01-01"),
        ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z"),
        ("010", 10),
        ("0o17", 15),
        ("0x1F", 31),
        ("0b1", "0b1"),
        ("1_000", "1_000"),
        ("+12", 12),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("1.", 1.0),
        ("'12'", "12"),
        ('"true"', "true"),
        ("!!str 12", "12"),
        ("! 12", "12"),
        ("!!int 12", 12),
        ("!!seq []", []),
        ("=", "="),
        ("|\n  a\n  b\n", "a\nb\n"),
        ('"a\\nb\\tc"', "a\nb\tc"),
    ],
)
def test_yaml_scalars_are_those_of_the_core_schema(tmp_path: Path, text: str, value: Any) -> None:
    found = read_document(write(tmp_path, {"c.yaml": f"a: {text}"}), {}).value["a"]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("key", ["-100123", "7", "+380501234567", "on", "'1.5'", "'*'", "__proto__", "é"])
def test_yaml_keys_are_the_text_that_was_written(tmp_path: Path, key: str) -> None:
    assert read_document(write(tmp_path, {"c.yaml": f"{key}: x"}), {}).value == {key.strip("'"): "x"}


# --- references


@pytest.mark.parametrize(
    ("text", "value", "is_reference"),
    [
        ("${KEY}", "s3cr3t", True),
        ("a ${KEY}, ${_b2}.", "a s3cr3t, ${KEY}: [.", True),
        ("$${KEY}", "${KEY}", False),
        ("$${KEY} ${KEY}", "${KEY} s3cr3t", True),
        ("$KEY $ $$ }{", "$KEY $ $$ }{", False),
    ],
)
@pytest.mark.parametrize("name", ["c.json", "c.yaml", "c.toml"])
def test_a_reference_is_replaced_once_and_noted(
    tmp_path: Path, name: str, text: str, value: str, is_reference: bool
) -> None:
    line = {"c.json": '{a: ["%s"]}', "c.yaml": 'a: ["%s"]', "c.toml": 'a = ["%s"]'}[name]
    found = read_document(write(tmp_path, {name: line % text}), {"KEY": "s3cr3t", "_b2": "${KEY}: ["})
    assert found.value == {"a": [value]}
    assert found.referenced == ({("a", 0)} if is_reference else frozenset())


def test_a_key_is_never_a_reference(tmp_path: Path) -> None:
    assert read_document(write(tmp_path, {"c.yaml": "'${KEY}': x"}), {"KEY": "y"}).value == {"${KEY}": "x"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("${NOT_SET}", "the environment variable NOT_SET is not set"),
        ("${EMPTY}", "the environment variable EMPTY is empty"),
        ("${KEY} ${NUL}", "the environment variable NUL holds a control character"),
        ("${KEY} ${HALF}", "the environment variable HALF holds a control character or half a character"),
        ("${KEY", "does not begin a ${NAME}"),
        ("${KEY}${", "does not begin a ${NAME}"),
        ("${}", "does not begin a ${NAME}"),
        ("${1A}", "does not begin a ${NAME}"),
        ("${A-B}", "does not begin a ${NAME}"),
        ("${ KEY }", "does not begin a ${NAME}"),
        ("${KÉY}", "does not begin a ${NAME}"),
    ],
)
def test_a_bad_reference_is_told_without_any_value(tmp_path: Path, text: str, sentence: str) -> None:
    env = {"KEY": "s3cr3t", "EMPTY": "", "NUL": "s3cr3t\0", "HALF": "s3cr3t\ud800"}
    where, message = refusal(tmp_path, {"c.yaml": f"\ngateway: {{auth: {{token: '{text}'}}}}"}, env)
    assert where == "c.yaml:2: gateway.auth.token"
    assert sentence in message
    assert "s3cr3t" not in message


def test_references_cannot_make_a_configuration_grow_past_its_limit(tmp_path: Path) -> None:
    where, message = refusal(tmp_path, {"c.json": '{a: "' + "${X}" * 2000 + '"}'}, {"X": "x" * 1000})
    assert (where, message) == ("c.json:1: a", "with this the configuration passes 1 MiB; make it smaller")


# --- files that cannot be read


@pytest.mark.timeout(60)
def test_what_is_not_a_regular_file_is_refused_without_waiting(tmp_path: Path) -> None:
    (tmp_path / "folder.json").mkdir()
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "null.json").symlink_to("/dev/null")
    (tmp_path / "loop.json").symlink_to("loop.json")
    found = {}
    for name in ("gone", "folder", "pipe", "null", "loop", "folder.json/x", "x" * 300, "a\0b"):
        with pytest.raises(ConfigError) as caught:
            read_document(tmp_path / f"{name}.json", {})
        found[name] = caught.value.message.split(";")[0]
    assert found == {
        "gone": "no such file",
        "folder": "a directory",
        "pipe": "not a regular file",
        "null": "not a regular file",
        "loop": "its symbolic links lead in a circle",
        "folder.json/x": "no such file",
        "x" * 300: "it cannot be read (File name too long)",
        "a\0b": "a file's name cannot hold a NUL character",
    }


def test_a_socket_is_refused() -> None:
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder}/c.json")  # a socket's name may have 107 characters, more than a test's folder leaves
        with pytest.raises(ConfigError, match="not a regular file"):
            read_document(Path(folder, "c.json"), {})


@pytest.mark.parametrize("name", ["c", "c.ini", "c.json.bak", ".json"])
def test_an_unknown_suffix_names_the_known_ones(tmp_path: Path, name: str) -> None:
    where, message = refusal(tmp_path, {name: "{}"})
    assert where == name
    assert message.endswith("is not known; use .json5, .json, .yaml, .yml or .toml")


@pytest.mark.parametrize(
    ("content", "where", "message"),
    [
        (b'{"a":\n"\xff"}', "c.json:2", "not UTF-8 at byte 7; save the file as UTF-8"),
        (b"\xef\xbb\xbf{\xe9: 1}", "c.json:1", "not UTF-8 at byte 4; save the file as UTF-8"),
        ("{}".encode("utf-16"), "c.json:1", "not UTF-8 at byte 0; save the file as UTF-8"),
        (b'{"a": "\xed\xa0\x80"}', "c.json:1", "not UTF-8 at byte 7; save the file as UTF-8"),
        (b"{" + b" " * MIB + b"}", "c.json", "more than 1 MiB with all included files; make it smaller"),
    ],
    ids=["byte", "behind a mark", "utf-16", "surrogate", "size"],
)
def test_bytes_that_are_no_text_are_refused(tmp_path: Path, content: bytes, where: str, message: str) -> None:
    assert refusal(tmp_path, {"c.json": content}) == (where, message)


def test_a_file_of_exactly_one_mebibyte_is_read(tmp_path: Path) -> None:
    assert read_document(write(tmp_path, {"c.json": "{" + " " * (MIB - 2) + "}"}), {}).value == {}


# --- texts that are no configuration


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("c.json", "null", "null"),
        ("c.json", "[]", "a list"),
        ("c.json", '"x"', "text"),
        ("c.json", "5", "a number"),
        ("c.json", "true", "a boolean"),
        ("c.yaml", "null", "null"),
        ("c.yaml", "- a", "a list"),
        ("c.yaml", "just words", "text"),
        ("c.yaml", "''", "text"),
        ("c.yaml", "5", "a number"),
    ],
)
def test_the_top_must_be_a_mapping(tmp_path: Path, name: str, text: str, kind: str) -> None:
    assert refusal(tmp_path, {name: text}) == (name, f"this is {kind}; a configuration is a mapping of keys to values")


@pytest.mark.parametrize(
    ("name", "text", "where", "sentence"),
    [
        ("c.json", "", "c.json:1", "the file is empty; write {} for an empty configuration"),
        ("c.json", '{\n"gateway":', "c.json:2: gateway", "the '{' of line 1 is not closed"),
        ("c.json", '{a: 1,\n b: "\\ud800"}', "c.json:2: b", "not valid JSON5: an escape"),
        ("c.yaml", "a: [1, 2\nb: c", "c.yaml:2: a[2]", "expected ',' or ']'"),
        ("c.yaml", "a:\n\t- b", "c.yaml:2: a", "a tab cannot indent; use spaces"),
        ("c.yaml", "toolsBySender:\n  *: {}", "c.yaml:2: toolsBySender", "a bare * starts an alias; put it in quotes"),
        ("c.yaml", "a: 1\n--- \nb: 2", "c.yaml:2", "a second document starts here"),
        ("c.yaml", "a: x\ny: \x01", "c.yaml:2", "a control character stands here"),
        ("c.yaml", "a: &x 1\nb: [*x]", "c.yaml:2: b[0]", "aliases are not read"),
        ("c.yaml", "a:\n  <<: {b: 1}", "c.yaml:2: a", "merge keys are not read"),
        ("c.yaml", "a: !!python/name:os.system", "c.yaml:1: a", "this tag is not read"),
        ("c.yaml", "a: !!python/object/apply:os.system ['true']", "c.yaml:1: a", "this tag is not read"),
        ("c.yaml", "a: !secret x", "c.yaml:1: a", "this tag is not read"),
        ("c.yaml", "a: !!binary eA==", "c.yaml:1: a", "this tag is not read"),
        ("c.yaml", "a: !!int x", "c.yaml:1: a", "this tag is not read"),
        ("c.yaml", "!!python/name:os.system x: 1", "c.yaml:1", "a tag before a key is not read"),
        ("c.yaml", "a:\n  true: x", "c.yaml:2: a", "the key 'true' is not text; put it in quotes"),
        ("c.yaml", "1.5: x", "c.yaml:1", "the key '1.5' is not text; put it in quotes"),
        ("c.yaml", "~: x", "c.yaml:1", "the key '~' is not text; put it in quotes"),
        ("c.yaml", "? [a]\n: b", "c.yaml:1", "a list or a mapping cannot be a key"),
        ("c.toml", "a = 1\nb = ", "c.toml:2: b", "not valid TOML: Invalid value"),
        ("c.toml", "a = 1\n[b", "c.toml:2", "not valid TOML: Expected ']'"),
        ("c.toml", "a = [1,\n2", "c.toml:2: a", "not valid TOML: Unclosed array"),
        (
            "c.toml",
            "[a]\nsince = 2024-01-01",
            "c.toml:2: a.since",
            "this is a date or a time; write it as text, in quotes",
        ),
        ("c.toml", "at = 07:30:00", "c.toml:1: at", "this is a date or a time; write it as text, in quotes"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_key(
    tmp_path: Path, name: str, text: str, where: str, sentence: str
) -> None:
    found = refusal(tmp_path, {name: text})
    assert found[0].startswith(where)
    assert sentence in found[1]


NOT_FINITE = "this number is not finite; write one that is"
TOO_LARGE = "does not fit 64 bits; write it in quotes if it is an id"
BAD_TEXT = "this text holds a control character or half a character; remove it"


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        *(("c.json", value, NOT_FINITE) for value in ("NaN", "-NaN", "Infinity", "-Infinity", "1e999", "9" * 5000)),
        *(("c.yaml", value, NOT_FINITE) for value in (".nan", ".inf", "-.INF", "1e999")),
        *(("c.toml", value, NOT_FINITE) for value in ("nan", "inf", "-inf", "1e999")),
        *(("c.json", value, TOO_LARGE) for value in ("9223372036854775808", "-9223372036854775809", "0x" + "f" * 5000)),
        *(("c.yaml", value, TOO_LARGE) for value in ("9223372036854775808", "9" * 5000, "0x" + "f" * 20)),
        *(("c.toml", value, TOO_LARGE) for value in ("9223372036854775808", "9" * 5000)),
        *(("c.json", value, BAD_TEXT) for value in ('"\\u0000"', '"\\x1b"', '"\\r"', '"\\x7f"', '"\\x85"', '"\x07"')),
        *(("c.yaml", value, BAD_TEXT) for value in ('"\\0"', '"\\e"', '"\\x9f"')),
        *(("c.toml", value, BAD_TEXT) for value in ('"\\u0000"', '"\\b"')),
    ],
    ids=lambda value: ascii(value)[:20],
)
def test_a_value_that_cannot_be_carried_is_refused(tmp_path: Path, name: str, value: str, sentence: str) -> None:
    text = {"c.json": '{\n"a": {"b": %s}}', "c.yaml": "a:\n  b: %s", "c.toml": "[a]\nb = %s"}[name] % value
    where, message = refusal(tmp_path, {name: text})
    assert where == f"{name}:2: a.b"
    assert message.endswith(sentence)


@pytest.mark.parametrize("value", [-(2**63), 2**63 - 1, 0, 1.5, -1e308])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_numbers_within_the_limits_are_read(tmp_path: Path, suffix: str, value: float) -> None:
    text = f"a = {value}" if suffix == ".toml" else f"{{a: {value}}}"
    assert read_document(write(tmp_path, {f"c{suffix}": text}), {}).value == {"a": value}


@pytest.mark.parametrize(
    ("key", "path", "sentence"),
    [
        ("", "a", "a key here is empty; name it or remove it"),
        ("\\u0000", "a.\\x00", "this key holds a control character or half a character; remove it"),
        ("x\\ny", "a.x\\ny", "this key holds a control character or half a character; remove it"),
        ("\\u001b[2J", "a.\\x1b[2J", "this key holds a control character or half a character; remove it"),
    ],
)
@pytest.mark.parametrize("name", ["c.json", "c.yaml", "c.toml"])
def test_a_key_that_cannot_be_shown_is_refused(tmp_path: Path, name: str, key: str, path: str, sentence: str) -> None:
    text = {"c.json": '{a: {\n"%s": 1}}', "c.yaml": 'a:\n  "%s": 1', "c.toml": '[a]\n"%s" = 1'}[name] % key
    assert refusal(tmp_path, {name: text}) == (f"{name}:2: {path}", sentence)


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(deadline=None)
@given(content=st.binary(max_size=60) | st.text(string.printable, max_size=60).map(str.encode))
def test_whatever_a_file_holds_only_a_config_error_is_raised(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, content: bytes
) -> None:
    file = write(tmp_path_factory.getbasetemp(), {f"anything{suffix}": content})
    with contextlib.suppress(ConfigError):
        read_document(file, {})


# --- includes


def test_an_included_file_is_merged_beneath_the_mapping_that_includes_it(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        {
            "c.yaml": "tools:\n  deny: [exec]\n$include: [./more.json, parts/agents.toml]\n",
            "more.json": '{"tools": {\n"allow": ["read"]}, "logging": {"$include": "parts/log.yaml"}}',
            "parts/agents.toml": "[agents]\n'$include' = 'main.yaml'\n",
            "parts/main.yaml": "\nmain: {model: '${MODEL}'}\n",
            "parts/log.yaml": "level: info",
        },
    )
    found = read_document(file, {"MODEL": "x:y"})
    assert found.value == {
        "tools": {"deny": ["exec"], "allow": ["read"]},
        "logging": {"level": "info"},
        "agents": {"main": {"model": "x:y"}},
    }
    assert found.referenced == {("agents", "main", "model")}
    assert [str(each.relative_to(tmp_path)) for each in found.files] == [
        "c.yaml",
        "more.json",
        "parts/log.yaml",
        "parts/agents.toml",
        "parts/main.yaml",
    ]
    lines = {place.path: f"{Path(place.file).name}:{place.line}" for place in found.places.values()}
    assert lines == {
        "": "c.yaml:None",
        "tools": "c.yaml:1",
        "tools.deny": "c.yaml:2",
        "tools.deny[0]": "c.yaml:2",
        "tools.allow": "more.json:2",
        "tools.allow[0]": "more.json:2",
        "logging": "more.json:2",
        "logging.level": "log.yaml:1",
        "agents": "agents.toml:1",
        "agents.main": "main.yaml:2",
        "agents.main.model": "main.yaml:2",
    }


def test_one_file_may_be_included_in_two_places(tmp_path: Path) -> None:
    file = write(tmp_path, {"c.yaml": "a: {$include: x.yaml}\nb: [{$include: x.yaml}]", "x.yaml": "k: {v: 1}"})
    found = read_document(file, {})
    assert found.value == {"a": {"k": {"v": 1}}, "b": [{"k": {"v": 1}}]}
    assert len(found.files) == 2


@pytest.mark.parametrize("value", ["[exec]", "true", "{x: 1}", "exec", "null", ""])
def test_a_key_in_both_files_is_refused_with_both_lines(tmp_path: Path, value: str) -> None:
    where, message = refusal(
        tmp_path, {"a.yaml": "$include: b.yaml\ntools:\n  deny: true", "b.yaml": f"tools:\n  x: 1\n  deny: {value}"}
    )
    assert where == "b.yaml:3: tools.deny"
    assert message == "tools.deny stands both in a.yaml:3 and b.yaml:3; keep one of them"


def test_a_key_in_two_included_files_is_refused(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {"a.yaml": "$include: [b.yaml, c.json]", "b.yaml": "k: 1", "c.json": "{\nk: 1}"}
    assert refusal(tmp_path, files)[1] == "k stands both in b.yaml:1 and c.json:2; keep one of them"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("../outside.yaml", "an include cannot leave the folder"),
        ("sub/../../outside.yaml", "an include cannot leave the folder"),
        ("sub/..", "an include cannot leave the folder"),
        ("/etc/passwd", "an include names a file in this folder"),
        ("~/x.yaml", "an include names a file in this folder"),
        ("http://127.0.0.1/x", "an include names a file in this folder"),
        ("file:x.yaml", "an include names a file in this folder"),
        ("C:x.yaml", "an include names a file in this folder"),
        ("..\\\\x.yaml", "an include names a file in this folder"),
        ("${HOME}/x.yaml", "an include names a file in this folder"),
        ("", "an include is the name of a file, or a list of names"),
        ("a\\0b.yaml", "an include is the name of a file, or a list of names"),
        ("gone.yaml", "gone.yaml: no such file"),
        (".", "a directory"),
        ("sub", "sub: a directory"),
        ("pipe.yaml", "pipe.yaml: not a regular file"),
        ("link.yaml", "a symbolic link leads this include out of the folder"),
        ("linked/outside.yaml", "a symbolic link leads this include out of the folder"),
        ("loop.yaml", "symbolic links"),
        ("x" * 300, "File name too long"),
    ],
)
@pytest.mark.timeout(60)
def test_an_include_that_leads_astray_is_refused_where_it_stands(tmp_path: Path, name: str, sentence: str) -> None:
    folder = tmp_path / "home"
    write(tmp_path, {"outside.yaml": "a: 1", "home/sub/x.yaml": "a: 1"})
    os.mkfifo(folder / "pipe.yaml")
    (folder / "link.yaml").symlink_to(tmp_path / "outside.yaml")
    (folder / "linked").symlink_to(tmp_path)
    (folder / "loop.yaml").symlink_to("loop.yaml")
    where, message = refusal(folder, {"c.yaml": f'a:\n  $include: "{name}"'}, {"HOME": "/root"})
    assert where == "c.yaml:2: a.$include"
    assert sentence in message


@pytest.mark.parametrize("value", ["1", "null", "{}", "[1]", "[x.yaml, [y.yaml]]", "true"])
def test_an_include_is_a_name_or_a_list_of_names(tmp_path: Path, value: str) -> None:
    sentence = "an include is the name of a file, or a list of names"
    assert refusal(tmp_path, {"c.yaml": f"$include: {value}"}) == ("c.yaml:1: $include", sentence)


def test_a_symbolic_link_within_the_folder_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link.yaml").symlink_to("real.yaml")
    assert read_document(write(tmp_path, {"c.yaml": "$include: link.yaml", "real.yaml": "a: 1"}), {}).value == {"a": 1}


def test_a_circle_of_includes_is_refused_with_its_chain(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "a.yaml": "$include: b.yaml",
        "b.yaml": "x: {$include: c.yaml}",
        "c.yaml": "$include: b.yaml",
    }
    where, message = refusal(tmp_path, files)
    assert where == "c.yaml:1: x.$include"
    assert message == "files include one another in a circle: b.yaml → c.yaml → b.yaml; remove one include"


def test_a_file_cannot_include_itself(tmp_path: Path) -> None:
    assert "a.yaml → a.yaml" in refusal(tmp_path, {"a.yaml": "$include: a.yaml"})[1]


@pytest.mark.parametrize(("count", "fits"), [(8, True), (9, False)])
def test_includes_go_eight_files_deep(tmp_path: Path, count: int, fits: bool) -> None:
    files: dict[str, str | bytes] = {f"{at}.yaml": f"$include: {at + 1}.yaml" for at in range(count)}
    files[f"{count}.yaml"] = "a: 1"
    if fits:
        assert read_document(write(tmp_path, files), {}).value == {"a": 1}
    else:
        assert refusal(tmp_path, files) == (
            "8.yaml:1: $include",
            "includes go more than 8 files deep; include this one further up",
        )


def test_all_files_together_are_at_most_one_mebibyte(tmp_path: Path) -> None:
    big = "#" * (MIB // 2)
    where, message = refusal(tmp_path, {"a.yaml": "$include: [b.yaml, c.yaml]", "b.yaml": big, "c.yaml": big})
    assert where == "a.yaml:1: $include"
    assert message == "c.yaml: more than 1 MiB with all included files; make it smaller"


def test_includes_that_multiply_are_stopped(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        f"{at}.yaml": "".join(f"k{key}: {{$include: {at + 1}.yaml}}\n" for key in range(9)) for at in range(8)
    }
    message = "more than 256 includes in all; join some files"
    assert refusal(tmp_path, {**files, "8.yaml": ""})[1] == message


def test_nesting_counts_across_files(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "a.json": "{a:" * 20 + "{$include: 'b.json'}" + "}" * 20,
        "b.json": "{b:" * 12 + "1" + "}" * 12,
    }
    assert ("a",) * 20 + ("b",) * 12 in read_document(write(tmp_path, files), {}).places
    files["b.json"] = "{b:" * 13 + "1" + "}" * 13
    assert refusal(tmp_path, files)[1] == "nested more than 32 levels deep; flatten it"


@pytest.mark.parametrize(
    ("files", "where"),
    [
        ({"a.yaml": "x: {$include: b.yaml}", "b.yaml": "- 1"}, "b.yaml: x"),
        ({"a.yaml": "x: {$include: b.yaml}", "b.yaml": "\nk: .nan"}, "b.yaml:2: x.k"),
        ({"a.yaml": "x: {$include: b.yaml}", "b.yaml": "\nk: '${GONE}'"}, "b.yaml:2: x.k"),
        ({"a.yaml": "$include: b.txt", "b.txt": "k: 1"}, "b.txt"),
    ],
)
def test_a_mistake_in_an_included_file_is_told_in_that_file(
    tmp_path: Path, files: dict[str, str | bytes], where: str
) -> None:
    assert refusal(tmp_path, files)[0] == where


# --- a program's own mapping


def test_a_mapping_of_a_program_becomes_plain() -> None:
    value: dict[Any, Any] = {"a": ({"b": "${KEY}"}, 1.5), -100: None}
    found = document(value, {"KEY": "s3cr3t"})
    assert found.value == {"a": [{"b": "s3cr3t"}, 1.5], "-100": None}
    assert found.files == ()
    assert found.referenced == {("a", 0, "b")}
    assert found.places[("a", 0, "b")] == ConfigLocation("", None, "a[0].b")


RING: dict[str, Any] = {}
RING["a"] = RING
BOMB: list[Any] = ["x" * 1000]
for _ in range(20):
    BOMB = [BOMB] * 10


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ({"a": float("nan")}, f"a: {NOT_FINITE}"),
        ({"a": {"b": date(2024, 1, 1)}}, "a.b: this is a date or a time; write it as text, in quotes"),
        ({"a": {1}}, "a: this is of the type set; write it as text, in quotes"),
        ({"a": b"x"}, "a: this is of the type bytes; write it as text, in quotes"),
        ({"a": {True: 1}}, "a: a key here is a boolean; keys are text"),
        ({1: 1, "1": 1}, "1: this key stands twice, as a number and as text; keep one of them"),
        ({"a": "${GONE}"}, "a: the environment variable GONE is not set; set it"),
        ({"$include": "x.yaml"}, "$include: a program's configuration cannot include files; merge them before"),
        ([], "this is a list; a configuration is a mapping of keys to values"),
        (RING, "nested more than 32 levels deep; flatten it"),
        ({"a": BOMB}, "with this the configuration passes 1 MiB; make it smaller"),
    ],
    ids=range(11),
)
def test_a_mapping_of_a_program_is_checked_alike(value: Any, error: str) -> None:
    with pytest.raises(ConfigError) as caught:
        document(value, {})
    assert str(caught.value).endswith(error)
