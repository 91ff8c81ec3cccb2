"""Settings to rules: what may run, what never does, each entry with the place it stands in."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from posixpath import normpath
from types import MappingProxyType
from typing import Any, Literal, Protocol

import re2
from pydantic import TypeAdapter

from toolcrib.lazy import dataclass, field, replace

from .programs import READERS

Security = Literal["deny", "allowlist", "full"]
AskMode = Literal["off", "on-miss", "always"]
LookUp = Callable[[str], str | None]

TRUSTED = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")

_SECURITY: tuple[Security, ...] = ("deny", "allowlist", "full")
_ASK: tuple[AskMode, ...] = ("off", "on-miss", "always")


class ExecLike(Protocol):
    """What `tools.exec` says about commands; `model_fields_set` holds the names of what was written down."""

    @property
    def host(self) -> str: ...
    @property
    def security(self) -> Security: ...
    @property
    def ask(self) -> AskMode: ...
    @property
    def allow(self) -> Sequence[Sequence[str]]: ...
    @property
    def allow_exact(self) -> Sequence[Sequence[str]]: ...
    @property
    def read_only(self) -> Sequence[str] | None: ...
    @property
    def safe_bins(self) -> Sequence[str]: ...
    @property
    def deny(self) -> Sequence[Sequence[str]]: ...
    @property
    def trusted_dirs(self) -> Sequence[str]: ...
    @property
    def env(self) -> Sequence[str]: ...
    @property
    def model_fields_set(self) -> Collection[str]: ...


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """An argv that a list names, and the place of the entry."""

    words: tuple[str, ...]
    origin: str

    def __str__(self) -> str:
        return " ".join(self.words)


CommandEntries = Mapping[str, tuple[CommandEntry, ...]]
_NO_ENTRIES: Mapping[str, tuple[CommandEntry, ...]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRules:
    """What `tools.exec` permits. Entries are kept by the base name of their program; those with a glob under ""."""

    security: Security = "allowlist"
    ask: AskMode = "on-miss"
    allow: CommandEntries = field(default_factory=lambda: _NO_ENTRIES)
    exact: CommandEntries = field(default_factory=lambda: _NO_ENTRIES)
    read_only: Mapping[str, str] | None = None  # no list is configured: the built-in one counts
    filters: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    deny: CommandEntries = field(default_factory=lambda: _NO_ENTRIES)
    trusted: tuple[str, ...] = TRUSTED
    env: frozenset[str] = frozenset()
    host: str = "sandbox"
    origin: str = "tools.exec"

    def lists_file(self, typed: str, path: str) -> bool:
        """Tell whether an entry names a file by its path: then it may be one of the workspace, once it is accepted."""
        listed = (entry.words[0] for each in (self.allow, self.exact) for entries in each.values() for entry in entries)
        return any("/" in program and matches_program(program, typed, path) for program in listed)

    def find_reader(self, name: str) -> str | None:
        """Return the place of the list by which a program may read, None when there is none.

        Without a list of their own readers are built in, but for what safeBins narrows and on the bare host, where
        nothing but their grammar would hold them.
        """
        if self.read_only is not None:
            return self.read_only.get(name)
        return "default" if name in READERS and name not in self.filters and self.host != "host" else None


def rules_from(settings: ExecLike, origin: str = "tools.exec", over: CommandRules | None = None) -> CommandRules:
    """Return the rules in `settings`, which stand at `origin`.

    `over` are the rules of everybody, where `settings` are those of one agent: what the agent's do not mention is
    taken from them, and what they deny stays denied.
    """
    own = CommandRules(
        security=settings.security,
        ask=settings.ask,
        allow=_group_by_program(settings.allow, f"{origin}.allow"),
        exact=_group_by_program(settings.allow_exact, f"{origin}.allowExact"),
        read_only=None if settings.read_only is None else _place_names(settings.read_only, f"{origin}.readOnly"),
        filters=_place_names(settings.safe_bins, f"{origin}.safeBins"),
        deny=_group_by_program(settings.deny, f"{origin}.deny"),
        trusted=tuple(folder.rstrip("/") for folder in settings.trusted_dirs) or TRUSTED,
        env=frozenset(settings.env),
        host=settings.host,
        origin=origin,
    )
    if over is None:
        return own
    changed = {ours: getattr(own, ours) for name, ours in _RULE_FIELDS.items() if name in settings.model_fields_set}
    deny = {name: (*over.deny.get(name, ()), *own.deny.get(name, ())) for name in {**over.deny, **own.deny}}
    return replace(over, **changed, deny=deny, origin=origin)


_RULE_FIELDS = {
    "security": "security", "ask": "ask", "allow": "allow", "allow_exact": "exact", "read_only": "read_only",
    "safe_bins": "filters", "trusted_dirs": "trusted", "env": "env", "host": "host",
}  # fmt: skip


def dump_rules(rules: Iterable[CommandRules]) -> list[dict[str, Any]]:
    """Return rules as JSON, which is the same for the same rules."""
    dumped = [TypeAdapter(CommandRules).dump_python(each, mode="json") for each in rules]
    return [{**each, "env": sorted(each["env"])} for each in dumped]


def look_up_in(
    folders: Iterable[str],
    is_there: Callable[[str], bool] = lambda path: True,
    listed: Callable[[str, str], bool] = lambda typed, path: False,
) -> LookUp:
    """Return a look-up of programs in trusted folders; `is_there` tells whether a whole path is a program.

    A bare name is looked for in every folder, a whole path must lie directly in one, anything else is no program,
    unless it is `listed` as a file of the workspace.
    """
    trusted = tuple(folder.rstrip("/") for folder in folders)

    def look_up(name: str) -> str | None:
        folder, slash, last = name.rpartition("/")
        if last in ("", ".", ".."):
            return None
        if slash:
            return name if (folder in trusted and is_there(name)) or listed(name, name) else None
        for each in trusted:
            path = f"{each}/{name}"
            if is_there(path):
                return path
        return None

    return look_up


def base_name(program: str) -> str:
    """Return the last part of a program's path, which a deny list means whatever folder it is taken from."""
    return program.rpartition("/")[2]


def matches_program(entry: str, typed: str, path: str) -> bool:
    """Tell whether an entry's program is the one typed, which is found at `path`."""
    if "/" not in entry:
        return entry == base_name(typed) and "*" not in entry
    if (pattern := _compile_glob(entry)) is not None:
        return pattern(path) is not None
    return path == entry or ("/" in typed and normpath(typed) == normpath(entry))


def is_asked(security: Security, ask: AskMode, *, permitted: bool) -> bool:
    """Tell whether a person is asked about a command that the lists permit or do not."""
    return ask == "always" or (ask == "on-miss" and security == "allowlist" and not permitted)


def stricter_security(one: Security, other: Security) -> Security:
    """Return the narrower of two."""
    return min(one, other, key=_SECURITY.index)


def stricter_ask(one: AskMode, other: AskMode) -> AskMode:
    """Return the one that asks more often."""
    return max(one, other, key=_ASK.index)


def _group_by_program(lists: Sequence[Sequence[str]], origin: str) -> CommandEntries:
    found: dict[str, list[CommandEntry]] = {}
    for index, words in enumerate(lists):
        program = words[0].strip()
        key = "" if _compile_glob(program) is not None else base_name(program)
        found.setdefault(key, []).append(CommandEntry((program, *words[1:]), f"{origin}[{index}]"))
    return {key: tuple(entries) for key, entries in found.items()}


def _place_names(names: Sequence[str], origin: str) -> Mapping[str, str]:
    return {name.strip(): f"{origin}[{index}]" for index, name in enumerate(names)}


@lru_cache(maxsize=256)
def _compile_glob(program: str) -> Callable[[str], object] | None:
    """Return what a whole path with `*`, `**` or `?` matches; None when it holds none of them."""
    if not program.startswith("/") or not set("*?") & set(program):
        return None
    parts = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
    text = "".join(parts.get(part, re.escape(part)) for part in re.split(r"(\*\*|\*|\?)", program))
    matcher: Callable[[str], object] = re2.compile(text).fullmatch
    return matcher
