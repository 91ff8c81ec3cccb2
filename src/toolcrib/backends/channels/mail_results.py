"""What our own mail server says of a sender (RFC 8601); a header that can be read in two ways authenticates no sender.

Parts of it are words of the writer of the letter: addresses, names of hosts, what stands in comments.
"""

import re
from collections.abc import Iterator, Mapping
from email.message import EmailMessage
from typing import NamedTuple

from toolcrib.lazy import regex

_COMMENT_PART = regex(r"\\.|[()\"]", re.DOTALL)
_WORD = regex(r'(?:"(?:[^"\\]|\\.)*"|[^\s;()"\\\x00-\x1f\x7f])+', re.DOTALL)
_METHOD = regex(r"([a-z0-9][a-z0-9_-]*)(?:/[0-9]+)?=([a-z0-9_-]+)")
_SENDER = regex(r'\s*(?:"[^"\\<>@]*"|[^"<>@,;:()\\]*)\s*<([\w.+-]+@[\w.-]+)>\s*', re.ASCII)  # a name, and its address
_LINKS = "=./"  # around which a word may have blanks and comments


class AuthResult(NamedTuple):
    """One result: what a method found, and about what."""

    method: str
    value: str
    about: Mapping[str, str]

    def domain_of(self, name: str) -> str:
        return self.about.get(name, "").strip("<>").rpartition("@")[2]

    @property
    def signer(self) -> str:
        """The domain of a signature; a server that names its user alone has looked that it is of that domain."""
        return self.about.get("header.d", "") or self.domain_of("header.i")


def is_authenticated(mail: EmailMessage, address: str, server: str) -> bool:
    """Tell whether our own server says that a message comes from where it says.

    Only the topmost header under the server's name says yes, for those below it may have come with the message; each of
    them says no. A sender that is not written as it should be may be read in two ways, and counts in none.
    """
    raw = [str(value) for name, value in mail.raw_items() if name.lower() == "authentication-results"]
    ours = [read_results(each) for each in raw if server and _is_named(_read_name(each), server.lower())]
    if not ours or (mail["From"].defects and not _is_clear(mail, address)):
        return False
    whole = [each for each in ours if each is not None]
    domain, top = address.rpartition("@")[2], whole[0] if whole else ()
    found = {(each.value, each.domain_of("header.from")) for one in whole for each in one if each.method == "dmarc"}
    if len(whole) < len(ours) or found - {("pass", domain)} or _contradicts(top):
        return False
    if any(each.method == "dmarc" for each in top):
        return True
    signers = [each.signer for each in top if (each.method, each.value) == ("dkim", "pass")]
    return any("." in each and f".{domain}".endswith(f".{each}") for each in signers)


def _is_clear(mail: EmailMessage, address: str) -> bool:
    """Tell whether a sender can be read in one way only, though its name is not as RFC 5322 has it: `Ann B. <a@b>`."""
    written = [_SENDER.fullmatch(str(value)) for name, value in mail.raw_items() if name.lower() == "from"]
    return [found and found[1].lower() for found in written] == [address]


def read_results(text: str) -> tuple[AuthResult, ...] | None:
    """Return what the header says, in lower case; None where it is not written as RFC 8601 has it."""
    parts = None if "=?" in text else _split(text)
    if parts is None or any(word.count(a) != word.count(b) for one in parts for word in one for a, b in ("<>", "[]")):
        return None
    (_, *version), *rest = parts
    results = [_read_one(each) for each in rest if each not in ([], ["none"])]
    if None in results or not (version == [] or (len(version) == 1 and version[0].isdigit())):
        return None
    return tuple(each for each in results if each is not None)


def _read_one(words: list[str]) -> AuthResult | None:
    found = _METHOD.fullmatch(words[0])
    pairs = [word.partition("=") for word in words[1:]]
    about = {name: value.strip('"') for name, _, value in pairs}
    is_clear = all(link and about[name] == value.strip('"') for name, link, value in pairs)
    return AuthResult(found[1], found[2], about) if found and is_clear else None


def _contradicts(results: tuple[AuthResult, ...]) -> bool:
    """Tell whether results of different values are about the same."""
    is_judged = any(each.method == "dmarc" for each in results)
    found = [(_find_subject(each, is_judged=is_judged), each.value) for each in results]
    return len({subject for subject, _ in found}) < len(set(found))


def _find_subject(result: AuthResult, *, is_judged: bool) -> tuple[str, ...]:
    """Return what a result is about: SPF may be asked about the greeting apart, checks of a server's own (`x-..`) about
    anything, and where DMARC has judged the signatures, each of them is one of its own.
    """
    about, method = result.about, result.method
    if method == "dkim" and is_judged and result.signer:
        return (method, result.signer, about.get("header.s", ""))
    if method.startswith("x-"):
        return (method, *sorted(about))
    return (method, "greeting" if "smtp.helo" in about and "smtp.mailfrom" not in about else "")


def _is_named(name: str, server: str) -> bool:
    """Tell whether a header's name is our server's; `*.example.org` is one of several."""
    return name == server or (server.startswith("*.") and name.endswith(server[1:]))


def _read_name(text: str) -> str:
    """Return the name of the server that a header begins with, "" where it begins with none."""
    return next(_list_words(text), "").strip('"')


def _split(text: str) -> list[list[str]] | None:
    parts, words = [list[str]()], list(_list_words(text))
    if words[-1:] == [""]:
        return None
    for word in words:
        last = parts[-1]
        if word == ";":
            parts.append([])
        elif last and len(parts) > 1 and _joins(last[-1], word):
            last[-1] += word
        else:
            last.append(word)
    return parts if parts[0] else None


def _joins(before: str, word: str) -> bool:
    is_open = before[-1] in _LINKS and "=" not in before[:-1]
    return word[0] in _LINKS or is_open


def _list_words(text: str) -> Iterator[str]:
    """Give words and semicolons, without comments and blanks; at what is none of these, "" and no more."""
    pos, text = 0, text.lower()
    while pos < len(text):
        if text[pos] == "(":
            pos = _find_end(text, pos)
        elif text[pos] in " \t\r\n":
            pos += 1
        elif found := _WORD.match(text, pos):
            yield found[0]
            pos = found.end()
        else:
            yield text[pos] if text[pos] == ";" else ""
            pos = pos + 1 if text[pos] == ";" else len(text)
        if not pos:
            yield ""
            return


def _find_end(text: str, start: int) -> int:
    """Return where a comment ends, 0 where it does not, or holds half of a quote: the letter may have ended it."""
    depth, quotes = 0, 0
    for found in _COMMENT_PART.finditer(text, start):
        depth += (found[0] == "(") - (found[0] == ")")
        quotes += found[0] == '"'
        if not depth:
            return 0 if quotes % 2 else found.end()
    return 0
