"""What a letter says: the words of who wrote it, those of others that it passes on, and its files."""

import re
from email.message import EmailMessage
from html.parser import HTMLParser
from typing import Any, NamedTuple

from toolcrib.lazy import regex

_HEADER = r"[*> \t]*[^\W\d_][\w \xa0-]{0,20}[:：]"
_NAMES = "from|von|de|da|van|fra|från|od|от|від|gönderen|kimden|lähettäjä|feladó|发件人|寄件者|差出人|보낸 사람"
_FROM = rf"[*> \t]*(?i:{_NAMES})[ \xa0*]*[:：]"
_ABOVE = r"(?:^[^\n]{0,200}:[ \t]*\n\s*)?^"  # who is quoted
_OTHERS = regex(  # a quote, a line between dashes, or what stands above a letter: an address, or enough of it
    r"(?m)(?:^[^\n>]{0,200}:[ \t]*\n\s*)?^>|^-{2,}[ \t]*Original Message"
    r"|^---[^\w\n]{0,200}+\w[^\n]{0,200}?--(?:[ \t]*$|[ \t]+\S)"
    rf"|^[=_—–]{{3}}[^\n]{{0,200}}[=_—–][ \t]*\n\s*{_HEADER}"
    rf"|{_ABOVE}{_HEADER}[^\n]*@[^\n]*\n{_HEADER}[^\n]*\n{_HEADER}"
    rf"|{_ABOVE}{_FROM}[^\n]*\n(?:{_HEADER}[^\n]*@[^\n]*\n{_HEADER}|(?:{_HEADER}[^\n]*\n){{2}}{_HEADER})"
)
_QUOTES = regex(r"(?m)(?:^[^\n>]{0,200}:[ \t]*\n\s*)?(?:^>[^\n]*\n?)+")
_SIGNATURE = regex(r"(?m)^-- ?$")
_PASSES_ON = regex(
    r"(?i)\s*\[?(?:fwd?|fs|wg|wtr|tr|rv|enc|vl|vs|vb|pd|i|doorst|inoltra|转发|轉寄|転送|전달)(?:\[\d+\])?\s*[:：]"
    r"|.*\(fwd\)\s*$"
)
# what clients wrap around a letter below their own words
_WRAPPER = regex(r"(?i)divRplyFwdMsg|yahoo_quoted|moz-forward-container")
_BLOCKS = frozenset({"p", "div", "br", "li", "tr", "table", "ul", "ol", "blockquote", "pre", "h1", "h2", "h3", "h4"})
_UNSEEN = frozenset({"script", "style", "head", "title", "template"})


class LetterPart(NamedTuple):
    """A file of a letter, and whether it comes from a forwarded one."""

    part: Any
    is_forwarded: bool


class Letter(NamedTuple):
    """What a letter says."""

    own: str
    forwarded: str
    is_forward: bool


def read_letter(mail: EmailMessage, subject: str, *, is_answer: bool) -> Letter:
    """Tell apart whose words a letter holds; what an answer quotes is left out."""
    text, passes_on = _find_text(mail), _PASSES_ON.match(subject) is not None
    own, others = split_quoted(text)
    if passes_on and not others:  # in unknown words
        own, others = "", text
    is_forward = passes_on or bool(others and not is_answer)
    inner = [_show_inner(each) for each in mail.walk() if each.get_content_type() == "message/rfc822"]
    kept = [others] if is_forward or not own else []
    return Letter(own, "\n\n".join([*kept, *inner]).strip(), is_forward)


def split_quoted(text: str) -> tuple[str, str]:
    """Return the sender's own text, without the signature, quotes and forwarded letters."""
    if (found := _OTHERS.search(text)) is None:
        return _cut_signature(text) or text.strip(), ""
    own, others = _cut_signature(text[: found.start()]), text[found.start() :].strip()
    if not own and _QUOTES.match(others):  # answers stand below
        return split_quoted(_QUOTES.sub("", text))[0], others
    return own, others


def list_letter_files(mail: Any) -> list[LetterPart]:
    """Return the parts that are files, also those of letters within."""
    found = list[LetterPart]()
    waiting = [LetterPart(mail, is_forwarded=False)]
    while waiting:
        part, is_inner = waiting.pop()
        if part.is_multipart():
            is_inner = is_inner or part.get_content_maintype() == "message"
            waiting += [LetterPart(each, is_inner) for each in reversed(part.get_payload())]
        elif part.get_filename() or part.get_content_maintype() != "text":
            found.append(LetterPart(part, is_inner))
    return found


def decode_part(part: Any) -> bytes:
    """Return the bytes of a part."""
    data = part.get_payload(decode=True)
    return data if isinstance(data, bytes) else b""


class _TextOfPage(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.words, self._hidden, self._quoted = list[str](), 0, 0

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self._hidden += tag in _UNSEEN
        self._quoted += tag == "blockquote"
        self._break(tag)
        if any(name in ("class", "id") and _WRAPPER.search(value or "") for name, value in attrs):
            self.words.append("\n-----Original Message-----\n")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in _UNSEEN and self._hidden > 0
        self._quoted -= tag == "blockquote" and self._quoted > 0
        self._break(tag)

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.words.append(re.sub(r"\s+", " ", data))

    def _break(self, tag: str) -> None:
        self.words.extend(["\n> " if self._quoted else "\n"] * (tag in _BLOCKS))


def _find_text(mail: EmailMessage) -> str:
    body = mail.get_body(("plain", "html"))
    if body is None:
        return ""
    charset = body.get_content_charset("utf-8")
    try:
        text = decode_part(body).decode(charset, "replace")
    except LookupError:
        text = decode_part(body).decode("utf-8", "replace")
    if body.get_content_type() == "text/html":
        page = _TextOfPage()
        page.feed(text)
        page.close()
        text = re.sub(r"\s*\n\s*", "\n", "".join(page.words))
    return text.replace("\r\n", "\n")


def _show_inner(part: Any) -> str:
    inner = part.get_payload(0)
    return f"From: {inner.get('From', '')}\nSubject: {inner.get('Subject', '')}\n\n{_find_text(inner)}"


def _cut_signature(text: str) -> str:
    return _SIGNATURE.split(text)[0].strip()
