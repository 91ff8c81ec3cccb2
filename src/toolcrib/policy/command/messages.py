"""The sentences of the judge. Each says what, and what would change it."""

__all__ = [
    "cannot_tell", "denied", "empty", "maybe_denied", "not_filtering", "not_reading", "not_text", "not_trusted",
    "on_no_list", "permitted", "switched_off", "too_long", "unknown_options", "unsafe_variable",
]  # fmt: skip

_LONGEST_SHOWN = 120


def shown(text: str) -> str:
    """Return a text as a sentence may show it: quoted, escaped and short."""
    return repr(text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…")


def switched_off(origin: str) -> str:
    return f"no command runs here ({origin}.security is deny)"


def empty() -> str:
    return "there is no command in it; write one"


def not_text(what: str) -> str:
    return f"the command holds {what}; write it without"


def too_long(length: int, longest: int) -> str:
    return f"the command has {length:,} bytes, of which {longest:,} can be judged; put the long part into a file"


def cannot_tell(doubt: str) -> str:
    return f"what it would run cannot be told in advance: {doubt}"


def denied(words: str, rule: str) -> str:
    return f"{shown(words)} never runs (deny has {shown(rule)})"


def maybe_denied(doubt: str) -> str:
    return f"it may run something that is denied: {doubt or 'part of it cannot be told in advance'}"


def not_trusted(program: str) -> str:
    return f"{shown(program)} is no program of a trusted folder"


def on_no_list(program: str, origin: str) -> str:
    return f"{shown(program)} is on no list of {origin}"


def not_reading(program: str, why: str) -> str:
    return f"{program!r} may only read here: {why}"


def not_filtering(program: str, why: str) -> str:
    return f"{program!r} may only filter its standard input here: {why}"


def unknown_options(program: str, key: str) -> str:
    return f"its options are not known; list what it may be given under allow, not {key}"


def unsafe_variable(name: str) -> str:
    return f"the variable {shown(name)} may change what the command does"


def too_many(most: int) -> str:
    return f"it holds more than {most} commands"


def permitted(rule: str) -> str:
    return f"{rule} permits it"


def open_to_all(origin: str) -> str:
    return f"every command runs here ({origin}.security is full)"


def always_asked(origin: str) -> str:
    return f"a person is asked about every command ({origin}.ask is always)"
