"""A regular expression as people write it, written out as both engines read it: see `pattern`."""

import re
from dataclasses import dataclass, field
from typing import NoReturn

from toolcrib.define.errors import ArgumentError

__all__ = ["INSIDE_MARK", "WORD_MARK", "Dialect", "Written", "written"]

WORD_MARK, INSIDE_MARK = "\ufdd0", "\ufdd1"  # code points that Unicode keeps out of every text

_DEEPEST, _MOST_REPEATS = 100, 1_000
_LITERAL_SET = "set literal to search for the text as it is"

# Unicode's sets, as members of a bracket expression; a line end is never among them.
_WORD = (
    r"\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200c}\x{200d}\x{24b6}-\x{24e9}"
    r"\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189}"
)
_BLANK = r"\t\x0b\x0c\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
_SETS = {"d": r"\p{Nd}", "w": _WORD, "s": _BLANK}
_CONTROLS = {"t": r"\t", "r": r"\r", "f": r"\x0c", "v": r"\x0b", "a": r"\x07", "e": r"\x1b"}

_COUNTED = re.compile(r"\{(?:(\d+)(,(\d*))?|,(\d+))\}")
_PROPERTY = re.compile(r"[pP](?:\{\^?[A-Za-z_&]{1,40}\}|[A-Z])")
_CODE = re.compile(r"x\{([0-9A-Fa-f]{1,6})\}|x([0-9A-Fa-f]{2})|u\{([0-9A-Fa-f]{1,6})\}|u([0-9A-Fa-f]{4})")
_POSIX = re.compile(r"\[:(\^?)(alnum|alpha|ascii|blank|cntrl|digit|graph|lower|print|punct|space|upper|word|xdigit):\]")
_GROUP = re.compile(r"\((?:\?(?:P?<[A-Za-z_][A-Za-z0-9_]*>|(?P<flags>[imsuU]*(?:-[imsuU]+)?)(?P<end>[:)])))?")
_ODD_GROUPS = {
    "(?=": "look-around", "(?!": "look-around", "(?<=": "look-around", "(?<!": "look-around",
    "(?>": "atomic groups", "(?P=": "back-references", "(?(": "conditions", "(?#": "comments", "(?R": "recursion",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Dialect:
    """How boundaries are written, and which marks may stand before every character (and are never one themselves)."""

    boundary: str
    inside: str
    marks: str = ""

    def one(self, member: str) -> str:
        """Return an expression for one character."""
        return f"(?:[{self.marks}]*{member})" if self.marks else member

    def none_of(self, members: str) -> str:
        """Return an expression for one character that is none of these, nor a line end."""
        return self.one(rf"[^{members}\n{self.marks}]")

    @property
    def end(self) -> str:
        return rf"(?:[{self.marks}]*\r?[{self.marks}]*$)" if self.marks else r"(?:\r?$)"


@dataclass(frozen=True, slots=True)
class Written:
    """An expression both engines read; `boundaries` counts its word boundaries."""

    text: str
    boundaries: int = 0
    is_literal: bool = False


def written(pattern: str, dialect: Dialect, *, literal: bool = False) -> Written:
    """Return the pattern in a dialect; raise ArgumentError where it is none."""
    if literal:
        return Written("".join(dialect.one(_quoted(char)) for char in pattern), is_literal=True)
    return _Reader(pattern, dialect).read()


@dataclass(slots=True)
class _Reader:
    """Reads a pattern from left to right. `out` is what is written; `atom` is where the last repeatable piece began."""

    pattern: str
    dialect: Dialect
    at: int = 0
    out: list[str] = field(default_factory=list)
    opened: list[int] = field(default_factory=list)
    atom: int | None = None
    repeated: bool = False
    boundaries: int = 0
    is_literal: bool = True

    def read(self) -> Written:
        while self.at < len(self.pattern):
            self._step(self.pattern[self.at])
        if self.opened:
            self._fail(f"( without its ); write \\( for the character itself, or {_LITERAL_SET}")
        return Written("".join(self.out), self.boundaries, self.is_literal)

    def _step(self, char: str) -> None:
        self.is_literal = self.is_literal and _is_plain(char)
        match char:
            case "\\":
                self._escape()
            case "[":
                self._atom(self._set())
            case "(":
                self._open()
            case ")":
                self._close()
            case "|" | "^":
                self._put(char)
            case "*" | "+" | "?":
                self._repeat(char, 1)
            case "{" if (counted := _COUNTED.match(self.pattern, self.at)) and self.atom is not None:
                self._repeat(self._count(counted), len(counted[0]))
            case ".":
                self._atom(self.dialect.none_of(""), 1)
            case "$":
                self._put(self.dialect.end)
            case "\n":
                self._spans_lines()
            case _:
                self._atom(self.dialect.one(_quoted(char)), 1)

    def _atom(self, text: str, length: int = 0) -> None:
        self.atom, self.repeated = len(self.out), False
        self.out.append(text)
        self.at += length

    def _put(self, text: str, length: int = 1) -> None:
        """Write what cannot be repeated."""
        self.atom, self.repeated = None, False
        self.out.append(text)
        self.at += length

    def _repeat(self, sign: str, length: int) -> None:
        if self.atom is None:
            self._fail(f"{sign} with nothing before it to repeat; write \\{sign} for the character, or {_LITERAL_SET}")
        self.at += length
        if self.repeated:
            if sign in "?+" and len(sign) == 1:  # lazy or greedy: the same lines match
                return
            self.out[self.atom :] = ["(?:", *self.out[self.atom :], ")"]
        self.out.append(sign)
        self.repeated = True

    def _count(self, counted: re.Match[str]) -> str:
        least, most = counted[1] or "0", counted[4] or (counted[3] if counted[2] else counted[1])
        if max(int(least), int(most or 0)) > _MOST_REPEATS:
            self._fail(f"a repetition of more than {_MOST_REPEATS} times")
        if most and int(most) < int(least):
            self._fail(f"{counted[0]}, whose numbers are the wrong way round")
        return f"{{{least}}}" if most == least else f"{{{least},{most or ''}}}"

    def _open(self) -> None:
        rest = self.pattern[self.at : self.at + 4]
        for start, what in _ODD_GROUPS.items():
            if rest.startswith(start):
                self._fail(f"{what}, which a search in linear time has not; write it without, or filter what is found")
        if len(self.opened) >= _DEEPEST:
            self._fail(f"groups nested more than {_DEEPEST} deep")
        group = _GROUP.match(self.pattern, self.at)
        if group is None or (group[0] == "(" and rest.startswith("(?")):
            self._fail(f"a group that begins with {rest[:3]!r}; write \\( for the character itself, or {_LITERAL_SET}")
        flags, end = group["flags"], group["end"]
        if end == ")":
            self._put(_flags(flags, ")"), len(group[0]))
            return
        self.opened.append(len(self.out))
        self._put(_flags(flags, ":") if flags else "(?:", len(group[0]))

    def _close(self) -> None:
        if not self.opened:
            self._fail(f") without its (; write \\) for the character itself, or {_LITERAL_SET}")
        self._put(")")
        self.atom = self.opened.pop()

    def _escape(self) -> None:
        """Read what follows a backslash outside of a set."""
        char = self.pattern[self.at + 1 : self.at + 2]
        lower = char.lower()
        if char in ("b", "B", "<", ">"):
            self.boundaries += 1
            self._put(self.dialect.inside if char == "B" else self.dialect.boundary, 2)
        elif char in ("A", "z", "Z"):
            self._put("^" if char == "A" else self.dialect.end, 2)
        elif lower in _SETS and char:
            members = _SETS[lower]
            self._atom(self.dialect.one(f"[{members}]") if char == lower else self.dialect.none_of(members), 2)
        elif found := _PROPERTY.match(self.pattern, self.at + 1):
            name = found[0][1:]
            self._atom(
                self.dialect.one(rf"\p{name}") if char == "p" else self.dialect.none_of(rf"\p{name}"), 1 + len(found[0])
            )
        else:
            self._atom(self.dialect.one(self._character()))

    def _character(self) -> str:
        """Return the one character that an escape stands for, and step over it."""
        char = self.pattern[self.at + 1 : self.at + 2]
        if not char:
            self._fail("a backslash at its end; write \\\\ for the character itself")
        if char in _CONTROLS:
            self.at += 2
            return _CONTROLS[char]
        if found := _CODE.match(self.pattern, self.at + 1):
            code = int(next(group for group in found.groups() if group), 16)
            if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
                self._fail(f"\\{found[0]}, which is no character")
            if code == 10:
                self._spans_lines()
            self.at += 1 + len(found[0])
            return _quoted(chr(code))
        if char == "n":
            self._spans_lines()
        if char.isdigit() or char in "kg":
            self._fail(
                "a back-reference, which a search in linear time has not; write it without, or filter what is found"
            )
        if char.isalpha() and char.isascii():
            self._fail(f"\\{char}, which means nothing; write \\\\{char} for a backslash and the letter")
        self.at += 2
        return _quoted(char)

    def _set(self) -> str:
        """Read a bracket expression."""
        begin = self.at
        self.at += 1
        negated = self._take("^")
        members: list[str] = []
        others: list[str] = []  # negated sets inside: `[a\W]`
        if self._take("]"):  # in the first place it is a member
            members.append(r"\]")
        while not self._take("]"):
            if self.at >= len(self.pattern):
                self.at = begin
                self._fail(f"[ without its ]; write \\[ for the character itself, or {_LITERAL_SET}")
            self._member(members, others)
        return self._bracket("".join(members), others, negated=negated)

    def _bracket(self, members: str, others: list[str], *, negated: bool) -> str:
        if negated:
            # RE2 cannot leave out from a set what is not in another one unless both are its own: ASCII then
            return self.dialect.none_of(
                members + "".join(f"\\{other.upper()}" if len(other) == 1 else other for other in others)
            )
        if not members and not others:
            self._spans_lines()
        choices = [self.dialect.one(f"[{members}]")] if members else []
        choices += [self.dialect.none_of(_SETS[other] if other in _SETS else rf"\p{other[2:]}") for other in others]
        return choices[0] if len(choices) == 1 else f"(?:{'|'.join(choices)})"

    def _member(self, members: list[str], others: list[str]) -> None:
        """Read one member of a bracket expression, or a range of them."""
        if posix := _POSIX.match(self.pattern, self.at):
            if posix[1]:
                self._fail(f"{posix[0]}, a negated name in a set; write the set the other way round")
            self.at += len(posix[0])
            members.append(_SETS["s"] if posix[2] == "space" else posix[0])
            return
        if self.pattern[self.at] == "\\":
            char = self.pattern[self.at + 1 : self.at + 2]
            if char and char.lower() in _SETS:
                self.at += 2
                (members.append(_SETS[char]) if char.islower() else others.append(char.lower()))
                return
            if found := _PROPERTY.match(self.pattern, self.at + 1):
                self.at += 1 + len(found[0])
                (members.append(rf"\{found[0]}") if char == "p" else others.append(rf"\{found[0]}"))
                return
        low = self._single()
        if not low:
            return
        if self.pattern[self.at : self.at + 1] == "-" and self.pattern[self.at + 1 : self.at + 2] not in ("", "]"):
            self.at += 1
            members.append(f"{low}-{self._single()}")
        else:
            members.append(low)

    def _single(self) -> str:
        """Read one character of a set; a line end is none, for no line holds one."""
        char = self.pattern[self.at]
        if char == "\\":
            plain = {"b": r"\x08", "n": ""}.get(self.pattern[self.at + 1 : self.at + 2])
            if plain is None:
                return self._character()
            self.at += 2
            return plain
        self.at += 1
        return _quoted(char) if char != "\n" else ""

    def _take(self, char: str) -> bool:
        if self.pattern[self.at : self.at + 1] != char:
            return False
        self.at += 1
        return True

    def _spans_lines(self) -> NoReturn:
        self._fail("a line end, and lines are searched one by one; search for one line of it")

    def _fail(self, what: str) -> NoReturn:
        raise ArgumentError(f"the pattern has, at character {self.at + 1}, {what}")


def _is_plain(char: str) -> bool:
    """Tell whether a character stands for itself in an expression."""
    return char.isalnum() or char in " _-=:;,<>/'\"!@#%&~`" or not char.isascii()


def _quoted(char: str) -> str:
    """Return one character as both engines read it, inside a set and outside."""
    if char.isalnum() or char == "_" or char == " " or ord(char) > 0xA0:
        return char
    return f"\\{char}" if char.isascii() and char.isprintable() else f"\\x{{{ord(char):x}}}"


def _flags(flags: str, end: str) -> str:
    """Return the flags that change which lines match: only `i` does."""
    on, _, off = flags.partition("-")
    kept = ("i" if "i" in on else "") + ("-i" if "i" in off else "")
    return f"(?{kept}{end}" if kept else ("(?:)" if end == ")" else "(?:")
