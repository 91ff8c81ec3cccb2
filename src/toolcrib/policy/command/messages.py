"""The sentences of the judge. Each says what, and what would change it."""

_SHOWN_CHARS = 120


def quote_short(text: str) -> str:
    """Return a text as a sentence may show it: quoted, escaped and short."""
    return repr(text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…")


def explain_switched_off(origin: str) -> str:
    return f"no command runs here ({origin}.security is deny)"


def explain_empty() -> str:
    return "there is no command in it; write one"


def explain_not_text(what: str) -> str:
    return f"the command holds {what}; write it without"


def explain_too_long(length: int, longest: int) -> str:
    return f"the command has {length:,} bytes, of which {longest:,} can be judged; put the long part into a file"


def explain_doubt(doubt: str) -> str:
    return f"what it would run cannot be told in advance: {doubt}"


def explain_denial(words: str, rule: str) -> str:
    return f"{quote_short(words)} never runs (deny has {quote_short(rule)})"


def explain_possible_denial(doubt: str) -> str:
    return f"it may run something that is denied: {doubt or 'part of it cannot be told in advance'}"


def explain_not_trusted(program: str) -> str:
    return f"{quote_short(program)} is no program of a trusted folder"


def explain_not_listed(program: str, origin: str) -> str:
    return f"{quote_short(program)} is on no list of {origin}"


def explain_not_reading(program: str, why: str) -> str:
    return f"{program!r} may only read here: {why}"


def explain_not_filtering(program: str, why: str) -> str:
    return f"{program!r} may only filter its standard input here: {why}"


def explain_unknown_options(program: str, key: str) -> str:
    return f"its options are not known; list what it may be given under allow, not {key}"


def explain_unsafe_variable(name: str) -> str:
    return f"the variable {quote_short(name)} may change what the command does"


def explain_too_many(most: int) -> str:
    return f"it holds more than {most} commands"


def explain_permission(rule: str) -> str:
    return f"{rule} permits it"


def explain_open_to_all(origin: str) -> str:
    return f"every command runs here ({origin}.security is full)"


def explain_always_asked(origin: str) -> str:
    return f"a person is asked about every command ({origin}.ask is always)"
