"""Which values are secret, and how they are taken out of every text: one set of values, one way to hide them."""

import json
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any
from weakref import finalize

import re2

from toolcrib.backends.stores.record import Redact
from toolcrib.config.complain import environment_values
from toolcrib.config.load import Loaded, SettingsInForce
from toolcrib.config.positions import KeyPath
from toolcrib.define.ports import Blobs
from toolcrib.lazy import regex
from toolcrib.threads import in_thread

_NAME = regex(r"(?i)(?:key|token|secret|passw(?:or)?d|pass|pwd|credentials?|cookie|signature|authorization|dsn)s?$")
# sections whose keys only sound like it: rules, and examples of callers
_RULES = frozenset({"tools", "agents", "expect", "session", "workspace", "policy", "quotas", "limits"})
# paths, addresses without a password, words and numbers stand in honest texts; so does what stands for want of a key
_ORDINARY = regex(r"(?:[~./]|[a-z]+://[^@\s]*$|[a-z_.-]*$|[A-Za-z]*$|[0-9.:]*$|[a-z]{2}_[A-Z]{2}[.\w-]*$)")
_PLACEHOLDERS = frozenset(
    {"ollama", "lm-studio", "dummy", "placeholder", "not-needed", "changeme", "default", "secret"}
)
# passwords in addresses, and what a command, a header or a comment says a secret to be
_WITHIN = regex(
    r"""://[^/\s:@]{0,128}:(?P<password>[^/\s@]+)@|\b(?:Bearer|Basic)\s(?P<bearer>[^\s"',]{8,})"""
    r"""|\b(?P<name>[\w-]{1,64})["']?\s{0,3}[:=]\s{0,3}["']?(?P<value>(?!//|\$|Bearer\s|Basic\s)[^\s"'`&#;,}\])]+)"""
)
_COMMENT = regex(r"(?m)(?:^|\s)(?:#|//).*$|/\*[\s\S]{0,4096}?\*/")
# characters; anything shorter stands in ordinary words, too
_MIN_HIDDEN, _MIN_NAMED, _MIN_VALUE, _MIN_LINE = 4, 6, 8, 16


def redactors_for(loaded: Loaded, env: Mapping[str, str]) -> tuple[Redact | None, Redact | None]:
    """Return what redacts results and blobs, and what redacts errors, the record and the log (None: nothing to hide).

    The second hides whatever came by a `${NAME}`: a word that may stand in an honest file is not missed in an error.
    """
    values, more = _list_values(loaded, env)
    return redact_for(values), redact_for(values | more)


def lasting_redactors(settings: SettingsInForce, env: Mapping[str, str]) -> tuple[Redact | None, Redact | None]:
    """Return the same for a crib: where its files are read again, the secrets in them are added to those of before."""
    if not settings.document.files:
        return redactors_for(settings.loaded, env)
    values, more = _list_values(settings.loaded, env)
    both = Redactor(values), Redactor(values | more)

    def learn() -> None:
        values, more = _list_values(settings.loaded, env)
        both[0].learn(values)
        both[1].learn(values | more)

    settings.on_change(learn)
    return both


def _list_values(loaded: Loaded, env: Mapping[str, str]) -> tuple[frozenset[str], frozenset[str]]:
    return find_values(loaded, env), frozenset(environment_values(loaded.document))


def find_values(loaded: Loaded, env: Mapping[str, str]) -> frozenset[str]:
    """Return every secret that the configuration knows, that commands are lent, or that our own environment holds."""
    found = set(find_written(loaded.document.value))
    for path in loaded.document.referenced:
        value: Any = loaded.document.value
        for part in path:
            value = value[part]
        found |= _when_secret(str(path[-1]), value)
    for name in loaded.config.tools.exec.env:
        found |= _when_secret(name, env.get(name))
    for name, value in env.items():
        if _NAME.search(name):
            found |= _when_secret(name, value)
    return frozenset(found)


def redact_for(values: Collection[str]) -> Redact | None:
    """Return what takes these values out of a text, however it quotes them; None when there is nothing to look for."""
    return Redactor(values) if values else None


class Redactor:
    """Takes values out of a text, however it quotes them."""

    def __init__(self, values: Collection[str]) -> None:
        self._words = list[str]()
        self.learn(values)

    def learn(self, values: Collection[str]) -> None:
        """Look for these from now on, besides those of before."""
        found = {way for value in values for way in _spellings(value)}
        self._words = sorted({*self._words, *found}, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for word in self._words:
            if word in text:
                text = text.replace(word, "…")
        return text


def _spellings(value: str) -> Iterator[str]:
    for each in (value, *(line for line in value.splitlines() if len(line) >= _MIN_LINE and not _ORDINARY.match(line))):
        yield from (each, repr(each)[1:-1], json.dumps(each)[1:-1], json.dumps(each, ensure_ascii=False)[1:-1])


def find_written(value: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the secrets written in a configuration: below `secrets` and `headers`, under names that say so, and in
    addresses and commands."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from find_written(each, (*path, str(key)))
    elif isinstance(value, Iterable) and not isinstance(value, str):
        flag: Any = ""
        for each in value:
            is_flag = isinstance(flag, str) and flag.startswith("--") and _NAME.search(flag)
            yield from _when_secret(flag, each) if is_flag else ()
            yield from find_written(each, path)
            flag = each
    elif path and isinstance(value, str):
        yield from _find_within(value)
        holds = path[0] == "secrets" or "headers" in path[:-1]
        # `Bearer x` comes back as x
        parts = (value, value.rpartition(" ")[2]) if holds else (value,)
        if path[0] not in _RULES and (holds or _NAME.search(path[-1]) or "env" in path[:-1]):
            name = "secret" if path[0] == "secrets" else path[-1]
            yield from (part for each in parts for part in _when_secret(name, each))


def find_commented(text: str) -> Iterator[str]:
    """Yield what looks like secrets in the comments of a file: a key that was used before, an address with one."""
    for comment in _COMMENT.findall(text):
        yield from _find_within(comment)


def _find_within(text: str) -> Iterator[str]:
    for found in _WITHIN.finditer(text):
        if found["name"] is None:
            yield from _when_secret("password", found["password"] or found["bearer"])
        elif _NAME.search(found["name"]) and not _ORDINARY.match(found["value"]):
            yield from _when_secret(found["name"], found["value"])


def must_hide(path: KeyPath, value: Any) -> bool:
    """Tell whether a setting that may hold a secret holds one: by its name always, an argument by its look."""
    if _NAME.search(str(path[-1])) or path[0] == "secrets":
        return True
    if "args" in path:
        return bool(_when_secret("", value))
    return isinstance(value, str) and len(value) >= _MIN_HIDDEN


def _when_secret(name: str, value: Any) -> set[str]:
    """Return the value when it has to be hidden: it is long enough, and its name or its look say so."""
    if not isinstance(value, str) or value.lower() in _PLACEHOLDERS or value.startswith(("/", "~", "./")):
        return set()
    is_named = _NAME.search(name) is not None and len(value.strip()) >= _MIN_NAMED
    return {value} if is_named or (len(value) >= _MIN_VALUE and not _ORDINARY.match(value)) else set()


class LogRedactor(logging.Filter):
    """Takes secrets out of what is logged, tracebacks included, as long as it is installed."""

    def __init__(self, redact: Redact | None, patterns: Iterable[str] = ()) -> None:
        super().__init__()
        self._values, self._patterns = redact or str, [re2.compile(each) for each in patterns]

    def _redact(self, text: str) -> str:
        for each in self._patterns:
            text = each.sub(lambda _: "…", text.encode(errors="replace").decode())  # re2 takes no half characters
        return self._values(text)

    def install(self, owner: object) -> Callable[[], object]:
        """Begin; return what ends it, as does the end of an owner that nobody closed."""
        log = logging.getLogger("toolcrib")
        if self._values is str and not self._patterns:
            return lambda: None  # there is nothing to hide, and every line would be read for it
        log.addFilter(self)
        end = finalize(owner, log.removeFilter, self)
        end.atexit = False
        return end

    def filter(self, record: logging.LogRecord) -> bool:
        """Change the record; it is always logged."""
        record.msg, record.args = self._redact(record.getMessage()), ()
        if record.exc_info:
            record.exc_text, record.exc_info = logging.Formatter().formatException(record.exc_info), None
        if record.exc_text:  # of another crib's redactor, maybe, which knows other secrets
            record.exc_text = self._redact(record.exc_text)
        return True


class RedactedBlobs:
    """Blobs that hold no secrets: the whole of a long text is kept as its beginning was shown."""

    def __init__(self, blobs: Blobs, redact: Redact) -> None:
        self._blobs, self._redact = blobs, redact

    async def put(self, data: bytes, /) -> str:
        return await self._blobs.put(await in_thread(self._clean, data))

    async def get(self, key: str, /) -> bytes:
        return await self._blobs.get(key)

    def _clean(self, data: bytes) -> bytes:
        return self._redact(data.decode(errors="surrogateescape")).encode(errors="surrogateescape")
