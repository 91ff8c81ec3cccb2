"""The line of every key in JSON5, YAML and TOML, and what a scan says about keys that cannot stand."""

import json
import random
import re
import tomllib
from collections.abc import Iterator
from typing import Any

import pyjson5
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolcrib.config.parse import parse_document
from toolcrib.config.positions import KeyPath, Places, Scan, format_path, place, scan_json5, scan_toml
from toolcrib.define.errors import ConfigError, ConfigLocation

steady = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no failure

# --- writers: a value becomes a text in a random style, and the line of every key is noted on the way


class Writer:
    """Collects a text and the line of each key path; `dice` decides the style."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.lines: dict[KeyPath, int] = {}
        self.line = 1
        self.parts: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self.parts)

    def put(self, *parts: str) -> None:
        for part in parts:
            self.parts.append(part)
            self.line += len(re.findall(r"\r\n|\n", part))

    def note(self, path: KeyPath) -> None:
        self.lines.setdefault(path, self.line)


class Json5Writer(Writer):
    def write(self, value: Any, path: KeyPath = ()) -> None:
        match value:
            case dict():
                self.box("{", "}", [(key, item) for key, item in value.items()], path)
            case list():
                self.box("[", "]", list(enumerate(value)), path)
            case str():
                self.put(self.string(value))
            case _:
                self.put(json.dumps(value))

    def box(self, opener: str, closer: str, items: list[tuple[Any, Any]], path: KeyPath) -> None:
        self.put(opener, self.space())
        for index, (key, item) in enumerate(items):
            if index:
                self.put(",", self.space())
            self.note((*path, key))
            if opener == "{":
                self.put(self.key(key), self.space(), ":", self.space())
            self.write(item, (*path, key))
            self.put(self.space())
        self.put(self.dice.choice(["", ","]) if items else "", self.space(), closer)

    def key(self, key: str) -> str:
        bare = re.fullmatch(r"[A-Za-z_$][A-Za-z0-9_$]*", key) and self.dice.random() < 0.7
        if not bare:
            return self.string(key)
        return f"\\u{ord(key[0]):04x}{key[1:]}" if self.dice.random() < 0.2 else key

    def string(self, text: str) -> str:
        quote = self.dice.choice("\"'")
        return quote + "".join(self.char(char, quote) for char in text) + quote

    def char(self, char: str, quote: str) -> str:
        choice = self.dice.random()
        if choice < 0.05:
            return self.dice.choice(["\\\n", "\\\r\n"]) + self.char(char, quote)
        if choice < 0.8 and char not in {quote, "\\", "\n", "\r"}:
            return char
        if ord(char) < 256 and choice < 0.9:
            return f"\\x{ord(char):02x}"
        units = char.encode("utf-16-be")
        return "".join(f"\\u{units[at]:02x}{units[at + 1]:02X}" for at in range(0, len(units), 2))

    def space(self) -> str:
        return self.dice.choice(["", "", " ", "\n", "\r\n", "\t", "\u00a0\n", "// {[\"'\n", "/* } \n ' */", "/***/"])


class YamlWriter(Writer):
    def write(self, value: Any, path: KeyPath = (), indent: str = "") -> None:
        """Writes a non-empty mapping or list in block style, with its members at `indent`."""
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            self.put(self.dice.choice(["", "", "# a: - b\n", "\n"]))
            self.note((*path, key))
            self.note(path)  # a block starts where its first member does
            self.put(indent, f"{self.key(str(key))}:" if isinstance(value, dict) else "-")
            if not item or not isinstance(item, dict | list) or self.dice.random() < 0.4:
                self.put(" ")
                self.flow(item, (*path, key), indent)
                self.put(self.dice.choice(["\n", " # x\n", "\r\n"]))
                continue
            if isinstance(value, list):
                del self.lines[(*path, key)]
            self.put("\n")
            self.write(item, (*path, key), f"{indent}  ")

    def flow(self, value: Any, path: KeyPath, indent: str) -> None:
        if not isinstance(value, dict | list):
            self.put(json.dumps(value, ensure_ascii=False))
            return
        self.put("{" if isinstance(value, dict) else "[")
        for index, (key, item) in enumerate(value.items() if isinstance(value, dict) else enumerate(value)):
            self.put(", " if index else "", self.dice.choice(["", f"\n{indent} "]))
            self.note((*path, key))
            self.put(f"{self.key(str(key))}: " if isinstance(value, dict) else "")
            self.flow(item, (*path, key), indent)
        self.put("}" if isinstance(value, dict) else "]")

    def key(self, key: str) -> str:
        plain = re.fullmatch(r"[a-z_]+", key) and key not in {"true", "false", "null"}
        return key if plain and self.dice.random() < 0.8 else json.dumps(key, ensure_ascii=False)


class TomlWriter(Writer):
    def table(self, value: dict[str, Any], path: KeyPath, header: str) -> None:
        later = {key: item for key, item in value.items() if self.fits_header(item) and self.dice.random() < 0.7}
        for key, item in value.items():
            if key not in later:
                self.pair(key, item, path)
                self.put(self.dice.choice(["\n", "\r\n", " # [x]\n", "\n\n"]))
        for key, item in later.items():
            name = f"{header}.{self.key(key)}" if header else self.key(key)
            for index, member in enumerate(item if isinstance(item, list) else [item]):
                here = (*path, key, index) if isinstance(item, list) else (*path, key)
                self.note((*path, key))
                self.note(here)
                self.put(f"[[{name}]]\n" if isinstance(item, list) else f"[ {name} ] # x\n")
                self.table(member, here, name)

    def fits_header(self, item: Any) -> bool:
        tables = isinstance(item, list) and item and all(isinstance(member, dict) for member in item)
        return bool(tables) or isinstance(item, dict)

    def pair(self, key: str, item: Any, path: KeyPath) -> None:
        self.note((*path, key))
        self.put(self.key(key))
        while isinstance(item, dict) and len(item) == 1 and self.dice.random() < 0.5:
            path, (key, item) = (*path, key), next(iter(item.items()))
            self.note((*path, key))
            self.put(" . ", self.key(key))
        self.put(self.dice.choice(["=", " = "]))
        self.inline(item, (*path, key))

    def inline(self, value: Any, path: KeyPath) -> None:
        match value:
            case dict():
                self.put("{")
                for index, (key, item) in enumerate(value.items()):
                    self.put(", " if index else " ")
                    self.pair(key, item, path)
                self.put("}")
            case list():
                self.put("[")
                for index, item in enumerate(value):
                    self.put("," if index else "", self.dice.choice(["", " ", "\n", " # ]\n"]))
                    self.note((*path, index))
                    self.inline(item, (*path, index))
                self.put(self.dice.choice(["", "\n", ",\n"]) if value else "", "]")
            case str() if "'''" not in value and not value.endswith("'") and self.dice.random() < 0.2:
                self.put(f"'''\n{value}'''")
            case str() if value[:1].strip() and self.dice.random() < 0.2:
                self.put(f'"""\\\n  {self.escaped(value)}"""')
            case str():
                self.put(f'"{self.escaped(value)}"')
            case _:
                self.put(json.dumps(value))

    def key(self, key: str) -> str:
        if re.fullmatch(r"[A-Za-z0-9_-]+", key) and self.dice.random() < 0.8:
            return key
        if "'" not in key and self.dice.random() < 0.5:
            return f"'{key}'"
        return f'"{self.escaped(key)}"'

    def escaped(self, text: str) -> str:
        return "".join(
            char if char not in '"\\\n' and self.dice.random() < 0.8 else f"\\U{ord(char):08x}" for char in text
        )


# --- values

ANY = st.characters(exclude_categories=["Cs"])
TAME = st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp", "Cn", "Co"], exclude_characters="\ufeff")
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
SHORT = st.sampled_from(["a", "b", "tools", "deny", "*", "-100", "a.b", "", "'", '"'])


def mappings(chars: st.SearchStrategy[str], *, null: bool = True) -> st.SearchStrategy[dict[str, Any]]:
    text = SHORT | st.text(chars, max_size=8)
    scalars: st.SearchStrategy[Any] = st.booleans() | NUMBERS | text
    values = st.recursive(
        scalars | st.none() if null else scalars,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
        max_leaves=15,
    )
    return st.dictionaries(text, values, max_size=5)


DICE = st.randoms(use_true_random=False)


def paths(value: Any, at: KeyPath = ()) -> Iterator[KeyPath]:
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in members:
        yield (*at, key)
        yield from paths(item, (*at, key))


# --- what a text says reads back, with the line of every key


@steady
@given(mappings(ANY), DICE)
def test_json5_in_any_style_reads_back_with_the_line_of_every_key(value: dict[str, Any], dice: random.Random) -> None:
    writer = Json5Writer(dice)
    writer.put(writer.space())
    writer.write(value)
    assert parse_document(writer.text, ".json5", "f") == (value, writer.lines)


@steady
@given(mappings(TAME), DICE)
def test_yaml_in_any_style_reads_back_with_the_line_of_every_key(value: dict[str, Any], dice: random.Random) -> None:
    writer = YamlWriter(dice)
    writer.write(value)
    writer.lines.pop((), None)
    assert parse_document(writer.text, ".yaml", "f") == (value, writer.lines)


@steady
@given(mappings(TAME, null=False), DICE)
def test_toml_in_any_style_reads_back_with_the_line_of_every_key(value: dict[str, Any], dice: random.Random) -> None:
    writer = TomlWriter(dice)
    writer.table(value, (), "")
    assert parse_document(writer.text, ".toml", "f") == (value, writer.lines)


# --- texts that may be anything

# fmt: off
JSON5_TOKENS = [
    "{", "}", "[", "]", ":", ",", "{", "}", ":", ",", "a", "b", '"a"', "'a'", '"\\u0061"', "\\u0061", "1", "-1", ".5",
    "5.", "0x1f", "1e3", "1_0", "1e999", "NaN", "true", "null", "$", "é", '"', "'", "\\", "/", "*", "//", "/*", "*/",
]
TOML_TOKENS = [
    "[", "[[", "]", "]]", "=", "=", ".", ".", ",", "{", "}", "a", "b", '"a"', "'b'", '"\\u0061"', "1", "-1", '"x"',
    "inf", "1979-05-27", "\\", "#", "'", '"', "é", '"""', "'''", '"""x\n"""', "a=1\n", "[a]\n", "[[b]]\n", "[b.a]\n",
]
# fmt: on
BLANKS = [" ", "\n", "\n", "\r\n", "\u2028", "\ufeff", "\x85", "\x00", "\t"]


NUMBER = re.compile(r"[-+]?(0x[0-9a-f]+|(\d+\.?\d*|\.\d+)(e[-+]?\d+)?)|true|null|[ab]")


def soup(tokens: list[str]) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from([*tokens, *BLANKS]), max_size=20).map("".join)


@steady
@given(soup(JSON5_TOKENS) | st.text())
def test_the_json5_scan_accepts_no_text_whose_keys_it_has_not_all_seen_once(text: str) -> None:
    try:
        value = pyjson5.decode(text, 100)
    except pyjson5.Json5DecoderException:
        scan_json5(text)  # may pass what only the decoder can judge, but must not raise
        return
    scan = scan_json5(text)
    if scan.fault is None:
        assert set(scan.lines) == set(paths(value))
    else:  # stricter than the decoder in numbers only
        strange = [word for word in re.findall(r"[-+.\w]*[0-9.][-+.\w]*", text) if not NUMBER.fullmatch(word)]
        assert scan.fault.kind == "twice" or "finite" in scan.fault.message or strange


@steady
@given(soup(TOML_TOKENS) | st.text())
def test_the_toml_scan_finds_every_key_of_a_text_that_tomllib_accepts(text: str) -> None:
    scan = scan_toml(text)
    try:
        value = tomllib.loads(text)
    except ValueError:
        return
    assert (set(scan.lines), scan.fault) == (set(paths(value)), None)


# --- faults


@pytest.mark.parametrize(
    ("suffix", "text", "path", "line", "first"),
    [
        (".json", '{"a": 1,\n"a": 2}', "a", 2, 1),
        (".json", "{a: 1,\n\n'\\u0061': 2}", "a", 3, 1),
        (".json", '{"tools": [{},\n{"deny": [],\n"deny": []}]}', "tools[1].deny", 3, 2),
        (".yaml", "a: 1\nb: 2\na: 3\n", "a", 3, 1),
        (".yaml", "tools:\n  deny: []\n  'deny': []\n", "tools.deny", 3, 2),
        (".yaml", "a: {b: 1,\n c: 2, b: 3}", "a.b", 2, 1),
        (".yaml", "g:\n  -100: x\n  '-100': y\n", "g.-100", 3, 2),
        (".toml", "a = 1\na = 2\n", "a", 2, 1),
        (".toml", "[a]\nb = 1\n[a]\n", "a", 3, 1),
        (".toml", "[a]\nb = { c = 1, c = 2 }\n", "a.b.c", 2, 2),
        (".toml", "a.b = 1\n\n[a]\n", "a", 3, 1),
        (".toml", "a = 1\na.b = 1\n", "a", 2, 1),
        (".toml", "[[a]]\n[a]\n", "a", 2, 1),
        (".toml", "[a.b]\n[[a]]\n", "a", 2, 1),
        (".toml", '[a]\nb = 1\n"\\u0062" = 2\n', "a.b", 3, 2),
    ],
)
def test_a_key_that_stands_twice_is_told_with_both_lines(
    suffix: str, text: str, path: str, line: int, first: int
) -> None:
    with pytest.raises(ConfigError, match=f"stands twice, first on line {first};") as caught:
        parse_document(text, suffix, "f")
    assert caught.value.place == ConfigLocation("f", line, path)


@pytest.mark.parametrize(
    ("suffix", "fits"),
    [
        (".json", "{a:" * 32 + "1" + "}" * 32),
        (".yaml", "a: " + "{a: " * 31 + "1" + "}" * 31),
        (".toml", ".".join("a" * 32) + "=1"),
        (".toml", "a=" + "[" * 31 + "]" * 31),
    ],
)
def test_nesting_of_32_is_read(suffix: str, fits: str) -> None:
    assert len(max(paths(parse_document(fits, suffix, "f")[0]), key=len)) in (31, 32)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        (".json", "{a:" * 33 + "1" + "}" * 33),
        (".json", '{"a":' * 3000 + "1" + "}" * 3000),
        (".json", "[" * (1 << 20)),
        (".yaml", "a: " + "{a: " * 32 + "1" + "}" * 32),
        (".yaml", "[" * (1 << 20)),
        (".yaml", "- " * (1 << 19)),
        (".yaml", "? " * (1 << 19)),
        (".toml", "a=" + "[" * (1 << 20)),
        (".toml", "a={" * (1 << 18)),
        (".toml", "a." * (1 << 19)),
        (".toml", "[" + "a." * (1 << 19)),
    ],
    ids=lambda text: text[:12],
)
def test_deeper_nesting_is_refused_at_once(suffix: str, text: str) -> None:
    with pytest.raises(ConfigError, match=r"nested more than 32 levels deep|cannot be a key"):
        parse_document(text, suffix, "f")


@pytest.mark.parametrize(
    ("text", "path", "line", "sentence"),
    [
        ("", (), 1, "the file is empty; write {}"),
        ("// nothing\n", (), 2, "the file is empty; write {}"),
        ('{"gateway":', ("gateway",), 1, "the file ends here, but the '{' of line 1 is not closed"),
        ("{a: [\n1,\n2", ("a",), 3, "the file ends here, but the '[' of line 1 is not closed"),
        ('{a: 1,\nb: "x\n"}', ("b",), 2, "the string that starts here is not closed on its line"),
        ("{a: 1\nb: 2}", (), 2, "expected a comma or '}' here"),
        ("{a: [1 2]}", ("a",), 1, "expected a comma or ']' here"),
        ("{a 1}", ("a",), 1, "expected a colon after the key"),
        ("{a: }", ("a",), 1, "expected a value here"),
        ("{a: full}", ("a",), 1, "expected a value here (text needs quotes)"),
        ("{,}", (), 1, "expected a key or '}' here"),
        ("{a: 1,,}", (), 1, "expected a key or '}' here"),
        ("{}\n{}", (), 2, "the configuration ends before this"),
        ("{} /* x", (), 1, "the comment that starts here is not closed"),
        ('{"\\8": 1}', (), 1, "this key holds an escape that JSON5 does not know"),
        ("{a: 1e999}", ("a",), 1, "this number is not finite"),
    ],
)
def test_a_json5_mistake_is_told_in_a_sentence_with_its_line(
    text: str, path: KeyPath, line: int, sentence: str
) -> None:
    fault = scan_json5(text).fault
    assert fault is not None
    assert (fault.path, fault.line) == (path, line)
    assert sentence in fault.message


def test_a_scan_that_loses_the_thread_keeps_what_it_found() -> None:
    scan = scan_toml("a = 1\n[b]\nc = 2\n? ? ?\nd = 3\n")
    assert scan == Scan({("a",): 1, ("b",): 2, ("b", "c"): 3}, scan.fault)
    assert scan.fault is not None
    assert (scan.fault.kind, scan.fault.line) == ("lost", 4)


# --- names and places


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ((), ""),
        (("tools",), "tools"),
        (("tools", "deny", 0), "tools.deny[0]"),
        (
            ("channels", "telegram", "groups", "-100", "toolsBySender", "*"),
            "channels.telegram.groups.-100.toolsBySender.*",
        ),
        (("expect", 2, "has", 10), "expect[2].has[10]"),
        ((0, 1), "[0][1]"),
    ],
)
def test_a_key_path_has_a_dotted_name(path: KeyPath, name: str) -> None:
    assert format_path(path) == name


def test_places_are_a_mapping_from_key_paths() -> None:
    places = Places({(): ("f", None), ("a", 0): ("g", 7)})
    assert dict(places) == {(): ConfigLocation("f", None, ""), ("a", 0): ConfigLocation("g", 7, "a[0]")}
    assert len(places) == 2
    assert ("b",) not in places


def test_a_place_for_an_error_is_short_and_cannot_disturb_a_terminal() -> None:
    assert place("f", 1, ("a\x1b[2J", "\ud800")).path == "a\\x1b[2J.\\ud800"
    assert len(place("f", 1, ("k" * 100_000, "x" * 100_000)).path) == 201
