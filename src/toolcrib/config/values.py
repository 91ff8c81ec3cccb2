"""The kinds of values that several sections use, each checked where it is read and refused in one sentence.

A sentence may show the value; `complain` leaves it out where it came from the environment. Secrets are never shown.
"""

import re
from typing import Annotated, Any

import re2
from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from toolcrib.define import session

__all__ = [
    "AgentId", "Amount", "Bool", "Count", "EnvName", "Folder", "Int", "OwnerName", "Password", "Pattern", "Seconds",
    "SenderName", "Str", "Token", "Words", "check_sender",
    "shown",
]  # fmt: skip

Str = Annotated[StrictStr, Field(max_length=65_536)]
Bool = StrictBool
Int = StrictInt
Count = Annotated[StrictInt, Field(ge=0, le=1_000_000_000)]

_DAY = 86_400
_LONGEST_SHOWN = 60
_LONGEST_PATTERN = 256
_SHORTEST_TOKEN, _SHORTEST_PASSWORD, _FEWEST_CHARACTERS = 16, 8, 5

_AGENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _-]{0,63}")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_E164 = re.compile(r"\+[0-9]{4,15}")


def shown(text: str) -> str:
    """Return the value as a sentence may show it: quoted, escaped, and short."""
    return repr(text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…")


def _nonblank(text: str) -> str:
    if not text.strip():
        raise ValueError("is blank; write a value or remove it")
    return text


def _number(value: Any) -> Any:
    # pydantic would complain about each half of the union
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("should be a number")  # noqa: TRY004  pydantic reads ValueError
    return value


Words = Annotated[Str, AfterValidator(_nonblank)]
Seconds = Annotated[StrictInt | StrictFloat, BeforeValidator(_number), Field(gt=0, le=_DAY)]
Amount = Annotated[StrictInt | StrictFloat, BeforeValidator(_number), Field(ge=0, le=1_000_000)]


# Names


def _agent_id(text: str) -> str:
    if not _AGENT_ID.fullmatch(text) or session.to_agent(text) == "":
        raise ValueError(f"{shown(text)} cannot be an agent's id; use letters, digits, _ and -, 64 at the most")
    return text


def _env_name(text: str) -> str:
    if not _ENV_NAME.fullmatch(text):
        raise ValueError(f"{shown(text)} is no name of an environment variable; use letters, digits and _")
    return text


def _folder(text: str) -> str:
    # a relative folder would lie in whatever workspace the commands run in
    if not text.startswith(("/", "~/")) or ".." in text.split("/"):
        raise ValueError(f"{shown(text)} should be a whole path, from / on and without '..'")
    return text


AgentId = Annotated[StrictStr, AfterValidator(_agent_id)]
EnvName = Annotated[StrictStr, AfterValidator(_env_name)]
Folder = Annotated[Words, AfterValidator(_folder)]


# People


def check_sender(text: str) -> str:
    """Return `text` if it can be a sender, typed or bare, or `*`; else raise ValueError."""
    kind, colon, rest = text.partition(":")
    typed = kind.strip().lower() if colon and kind.strip().lower() in ("id", "e164", "username", "name") else ""
    value = (rest if typed else text).strip()
    if not value.removeprefix("@"):
        raise ValueError("a blank sender is nobody; write id:123 or e164:+380.., or remove it")
    if typed and value == "*":
        raise ValueError(f"{shown(text)}: everybody is written '*', without a type")
    if typed == "e164" and not _E164.fullmatch(value):
        raise ValueError(f"{shown(text)}: an E.164 number is + and digits, without blanks, like e164:+380441234567")
    return text


def _owner(text: str) -> str:
    if check_sender(text).strip().lower().startswith(("username:", "name:")):
        raise ValueError(f"{shown(text)}: an owner is known by id: or e164:, never by a name that anyone can take")
    if text.strip() == "*":
        raise ValueError("'*' would make everybody the owner; list senders by id: or e164:")
    return text


SenderName = Annotated[Str, AfterValidator(check_sender)]
OwnerName = Annotated[Str, AfterValidator(_owner)]


# Secrets

_PLACEHOLDERS = frozenset({
    "undefined", "null", "none", "nil", "nan", "false", "true", "secret", "password", "passwd", "token", "admin",
    "default", "test", "todo", "xxx", "letmein", "gateway-token", "password1", "password12", "password123", "12345678",
    "123456789", "1234567890", "qwertyui", "qwertyuiop",
})  # fmt: skip
# A variable nobody filled in, a template, an object that was printed, or words that ask to be replaced.
_UNFILLED = re.compile(
    r"\$\w+|\$\(.*\)|%\w+%|\{\{.*\}\}|<.*>|\[object .*\]"
    r"|(?:put|enter|insert|set|use)?[-_ ]?your[-_ ](?:\w+[-_ ])*(?:token|secret|password|key)(?:[-_ ]here)?"
    r"|(?:.*[^a-z])?(?:(?:change|replace)[-_ ]?(?:me|this)|placeholder)(?:[^a-z].*)?"
)


def _is_guessable(text: str) -> bool:
    plain = text.strip().lower()
    return plain in _PLACEHOLDERS or _UNFILLED.fullmatch(plain) is not None or len(set(plain)) < _FEWEST_CHARACTERS


def _token(text: str) -> str:
    if _is_guessable(text) or len(text.strip()) < _SHORTEST_TOKEN:
        raise ValueError(
            f"a token needs {_SHORTEST_TOKEN} characters or more that nobody can guess; "
            "write ${NAME} to take it from the environment"
        )
    if text != text.strip() or any(char.isspace() and char != " " for char in text):
        raise ValueError("a token has no line breaks and no blanks around it; remove them")
    return text


def _password(text: str) -> str:
    if _is_guessable(text) or len(text.strip()) < _SHORTEST_PASSWORD:
        raise ValueError(f"a password of {_SHORTEST_PASSWORD} characters or more that nobody can guess is needed")
    return text


Token = Annotated[Str, AfterValidator(_token)]
Password = Annotated[Str, AfterValidator(_password)]


# Patterns


def _pattern(text: str) -> str:
    # re2 runs in linear time, so no pattern an operator writes can hold the process up
    options = re2.Options()
    options.log_errors = False
    if len(text) > _LONGEST_PATTERN:
        raise ValueError(f"a pattern of {len(text)} characters; {_LONGEST_PATTERN} is the most")
    try:
        compiled = re2.compile(text, options)
    except re2.error as error:
        # what is behind the colon is a piece of the pattern, which may be a secret
        problem = bytes(error.args[0]).decode(errors="replace").partition(":")[0]
        raise ValueError(
            f"is no regular expression that runs in linear time ({problem}); look-around and back-references are not"
        ) from None
    found = compiled.search("a b")
    if compiled.fullmatch("") is not None or (found is not None and found.start() == found.end()):
        raise ValueError("matches the empty text and would redact everything; let it match one character at least")
    return text


Pattern = Annotated[StrictStr, AfterValidator(_pattern)]
