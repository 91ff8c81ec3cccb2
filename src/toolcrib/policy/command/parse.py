"""A command line to plain commands, by a real shell grammar; whatever is not literal is a doubt, never a guess.

Only the kinds of nodes named here count as understood. What lies between two of them must be blanks, and every word
must be spelled in a way that cannot mean anything else: where the grammar and a shell could differ, the line is not
plain. Commands are collected from everywhere, also from loops and substitutions, because a denial reaches there too.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from toolcrib.lazy import dataclass, field, regex

from .literal import literal

MAX_LINE_BYTES = 32_768

_LANGUAGE = Language(tree_sitter_bash.language())
_PARSER = Parser(_LANGUAGE)


def _kind_ids(*names: str) -> frozenset[int]:
    """Return the numbers of kinds of nodes, the named and the anonymous ones; comparing them is cheaper than names."""
    found = {_LANGUAGE.id_for_node_kind(name, named) for name in names for named in (True, False)}
    return frozenset(number for number in found if number)


_WORDS = _kind_ids("word", "number", "raw_string", "string", "concatenation", "ansi_c_string")
_COMMAND, _NAME, _ASSIGNMENT = _kind_ids("command"), _kind_ids("command_name"), _kind_ids("variable_assignment")
_HOLDERS = _kind_ids("program", "list", "pipeline", "redirected_statement")
_JOINTS = _kind_ids(";", "&&", "||", "|")
_REDIRECT, _COMMENT = _kind_ids("file_redirect"), _kind_ids("comment")
_SKIPPED = _COMMENT | _kind_ids("\n")

_BLANK = regex(r"(?:\\\n)*[ \t](?:[ \t]|\\\n)*")
_BREAK = regex(r"(?:[ \t\n]|\\\n)*")
# words that can only mean one thing, one blank between them: most commands are no more than that
_SIMPLE_WORD = regex(r"""[A-Za-z0-9_./:@%+,^-]+|'[^']*'|"[^"\\`$]*\"""")
_SIMPLE = regex(rf"(?:{_SIMPLE_WORD.pattern})(?:[ ](?:{_SIMPLE_WORD.pattern}))*")
# what can be sent elsewhere without writing a file or opening a connection
_HARMLESS = regex(r"(?:[012]?>&[12]|[012]?>>?[ \t]*/dev/null|&>>?[ \t]*/dev/null|0?<[ \t]*/dev/null)")
_CONTROL = regex(r"[\x01-\x08\x0b-\x1f\x7f]")
# what makes the grammar try many readings, and how much of it a line may hold outside of quotes
_INTRICATE = regex(r"[|<>($\{\[`]|\b(?:for|case)\b")
_QUOTED = regex(r"""("(?:[^"\\]|\\.)*")|'[^']*'|\\.""", re.DOTALL)
_MAX_INTRICATE_MARKS = 256
_LOOSE_WORD = regex(r"""[^\s;&|(){},=`'"<>$]+""")
_QUOTES = regex(r"""[\\'"]""")
# only these blanks part words in a shell: \s would take a no-break space for one
_BRACES = regex(r"(?<![^ \t\n{}])([^ \t\n{}]*)\{([^ \t\n{}]*)\}([^ \t\n]*)")
_VARIABLE = regex(r"\$(?:[A-Za-z_]\w*|[0-9@*#?!$-]|\{[^{}]*\})", re.ASCII)  # which may stand for nothing
_FILLED = regex(rf"\$\{{\w+:?[-=+?]([^{{}}]*)\}}|\$\([^()]*\)|`[^`]*`|{_VARIABLE.pattern}", re.ASCII)
_EVALUATED = frozenset({"arithmetic_expansion", "expansion", "subscript", "c_style_for_statement"})
_PLAIN_EXPANSION = regex(r"\$\{[A-Za-z_]\w*\}", re.ASCII)
# bash expands what stands behind >& once more when it is no number
_EXPANDED_TWICE = regex(r"[<>]&(?![ \t]*(?:[0-9]+-?|-)(?:[ \t\n;&|)]|$))")
_LIKE_COMMANDS = frozenset({"declaration_command", "unset_command", "test_command"})

_DOUBTS = {
    "&": "it goes on in the background", "|&": "it pipes errors along with '|&'",
    "ansi_c_string": "it holds a string of escapes that cannot be known in advance",
    "arithmetic_expansion": "it computes something", "brace_expression": "it holds a brace expansion",
    "command_substitution": "it runs a command inside another", "comment": "a comment in it may not be one",
    "compound_statement": "it groups commands in braces", "coproc_command": "it starts a coprocess",
    "declaration_command": "it declares variables", "expansion": "it holds a variable",
    "file_redirect": "it is redirected to or from a file", "for_statement": "it holds a loop",
    "function_definition": "it defines a function", "heredoc_redirect": "it holds a here-document",
    "herestring_redirect": "it holds a here-string", "if_statement": "it holds a condition",
    "negated_command": "it is negated", "process_substitution": "it runs a command inside another",
    "simple_expansion": "it holds a variable", "string": "a string in it holds something that the shell replaces",
    "subshell": "it runs commands in a subshell", "test_command": "it holds a test",
    "translated_string": "it holds a string to be translated",
    "glued": "a word in it stands for other words (a glob, a brace, a tilde or a variable)",
    "variable_assignment": "it sets a variable of the shell", "variable_assignments": "it sets variables of the shell",
    "while_statement": "it holds a loop",
    "word": "a word in it stands for other words (a glob, a brace, a tilde or a variable)",
}  # fmt: skip
_UNREADABLE = "the shell grammar cannot make sense of it"
_CONTROLS = "it holds a control character"
_UNREAD = (_UNREADABLE, _CONTROLS, _DOUBTS["comment"])
# about words alone: which commands there are, and which of their words are literal, is found all the same
TOLD_DOUBTS = frozenset(_DOUBTS[each] for each in ("&", "file_redirect", "negated_command", "simple_expansion", "word"))


class FoundCommand(NamedTuple):
    """A command somewhere in the line: its words, None for one that is not literal, and what it sets before them."""

    words: tuple[str | None, ...]
    sets: tuple[tuple[str, str | None], ...] = ()


class ParsedLine(NamedTuple):
    """What a line holds. With a doubt it is not plain; without, `pieces` are its commands and what joins them.

    A piece is a command, a joint (`;`, `&&`, `||`, `|`) or a harmless redirection as it is written.
    """

    commands: tuple[FoundCommand, ...]
    pieces: tuple[FoundCommand | str, ...] = ()
    doubt: str = ""
    unread: bool = False  # it may hold commands that were not found
    guesses: tuple[FoundCommand, ...] = ()  # what else a shell may find in it, for the sake of what is denied


def parse(line: str) -> ParsedLine:
    """Return the commands in a line of at most MAX_LINE_BYTES bytes, and whether they are all there is to it."""
    if len(line) > _MAX_INTRICATE_MARKS and _is_intricate(line):
        return ParsedLine((), doubt="it is too intricate", unread=True, guesses=tuple(_find_loose_commands(line)))
    # offsets in bytes are offsets in this text: a character beyond ASCII is given as many places as it has bytes
    source = line.encode()
    text = line if line.isascii() else source.decode("latin-1")
    root = _PARSER.parse(source).root_node
    if root.child_count == 1 and (only := root.children[0]).kind_id in _COMMAND and only.end_byte == len(text):
        # one command and nothing else, as most lines are
        found, odd = _read_command(only, text)
        if not odd and not root.has_error and not only.start_byte and not _CONTROL.search(line):
            return ParsedLine((found,), (found,))
    reader = _Reader(text)
    if _CONTROL.search(line):
        reader.doubt = _CONTROLS
    elif root.has_error:
        reader.doubt = _UNREADABLE
    else:
        reader.read(root)
    if reader.doubt:
        commands = tuple(_find_commands(root, text))
        if "\\\n" in line:  # the shell removes it before it reads: also from within a word, or behind a dollar
            joined = source.replace(b"\\\n", b"")
            commands += tuple(_find_commands(_PARSER.parse(joined).root_node, joined.decode("latin-1")))
        joined_up, guesses = line.replace("\\\n", ""), list[FoundCommand]()
        is_unread = root.has_error or reader.doubt in _UNREAD or _EXPANDED_TWICE.search(joined_up) is not None
        ways = [_QUOTES.sub("", each) for each in (joined_up, _VARIABLE.sub("", joined_up))]
        if is_unread or any(found.words[:1] == (None,) for found in commands):
            # a shell may read more in it than this grammar does, and an unknown name may be any word of it
            guesses += (found for each in (line, *ways) for found in _find_loose_commands(each))
        if "{" in line:
            guesses += _find_braced_commands(joined_up)
        return ParsedLine(commands, doubt=reader.doubt, unread=is_unread, guesses=tuple(guesses))
    return ParsedLine(tuple(reader.commands), tuple(reader.pieces), "" if reader.commands else "it holds no command")


def spell_out(line: str) -> tuple[str, ...]:
    """Return a line as it is, and as a shell may read its words: without quotes, with its braces written out, and with
    nothing for what it puts in, where that is no folder (`~`), or with the word that stands beside a variable."""
    plain = re.sub(r"\$'(?:[^'\\]|\\.)*'", lambda found: literal(found[0]) or found[0], line.replace("\\\n", ""))
    bare = _QUOTES.sub("", plain)
    expanded = _expand_braces(bare)
    return tuple(dict.fromkeys((line, bare, expanded, _FILLED.sub(_fill, expanded))))


def _fill(found: re.Match[str]) -> str:
    before, after = found.string[: found.start()][-1:], found.string[found.end() :][:1]
    is_folder = after == "/" and not (before.isalnum() or before in ("_", ".", "-"))
    return found[1] or ("~" if is_folder else "")


def _is_intricate(line: str) -> bool:
    if sum(1 for _ in _INTRICATE.finditer(line)) <= _MAX_INTRICATE_MARKS:
        return False
    bare = _QUOTED.sub(lambda found: found[1] or "", line)
    return sum(1 for _ in _INTRICATE.finditer(bare)) > _MAX_INTRICATE_MARKS


def _find_loose_commands(line: str) -> Iterator[FoundCommand]:
    """Yield every word of an unreadable line as if it were a command, for the rules that deny."""
    words = _LOOSE_WORD.findall(line)
    for index in range(len(words)):
        yield FoundCommand((*words[index : index + _LOOSE_COMMAND_WORDS], None))


_LOOSE_COMMAND_WORDS = 8


def _find_braced_commands(line: str) -> Iterator[FoundCommand]:
    """Yield what a line may start once its braces are written out; in quotes they stand for themselves."""
    bare = _QUOTED.sub(lambda found: re.sub(r"[\\'\"{}]", "", found[0]), line)
    for each in {bare, _VARIABLE.sub("", bare)}:
        if (expanded := _expand_braces(each)) != each:
            yield from _find_loose_commands(expanded)


def _expand_braces(line: str) -> str:
    """Return a line with the words that its braces stand for, the innermost first, as many as are worth telling."""
    for _ in range(_MAX_NESTED_BRACES):
        before, line = line, _BRACES.sub(_expand_word, line)
        if line == before or len(line) > 2 * MAX_LINE_BYTES:
            break
    return line


_MAX_NESTED_BRACES = 64


def _expand_word(found: re.Match[str]) -> str:
    before, inner, after = found.groups()
    words = inner.split(",")
    first, is_range, last = inner.partition("..")
    if len(words) == 1 and not is_range:
        return found[0]
    if len(words) == 1:  # {a..e} and {1..5}; of a longer one its ends
        words = [first, last.partition("..")[0]]
        if len(first) == len(words[1]) == 1:
            low, high = sorted(map(ord, words))
            words = [chr(code) for code in range(low, min(high, low + 128) + 1)]
    limit = 1 + MAX_LINE_BYTES // (len(before) + len(after) + 1)
    return " ".join(f"{before}{word}{after}" for word in words[:limit])


@dataclass(slots=True)
class _Reader:
    """Reads a tree from left to right; stops at the first thing that is not plain and remembers which."""

    text: str
    commands: list[FoundCommand] = field(default_factory=list)
    pieces: list[FoundCommand | str] = field(default_factory=list)
    doubt: str = ""
    joined: bool = True  # nothing has been read since the last joint

    def read(self, root: Node) -> None:
        """Read the whole tree; an explicit stack, because nesting is as deep as the line is long."""
        pos = 0
        stack = [root]
        while stack and not self.doubt:
            node = stack.pop()
            kind = node.kind_id
            if kind in _HOLDERS:
                stack += node.children[::-1]
                continue
            start, end = node.byte_range
            if start - pos > 1 or start == pos or self.text[pos] != " ":
                self._read_gap(pos, start, kind)
            pos = end
            if kind in _COMMAND:
                found, odd = _read_command(node, self.text)
                if odd or not self.joined:
                    self.doubt = _DOUBTS.get(odd, _UNREADABLE)
                self.commands.append(found)
                self.pieces.append(found)
                self.joined = False
            else:
                self._read_piece(node, kind, self.text[start:end])
        if not self.doubt and not _BREAK.fullmatch(self.text, pos):
            self.doubt = _UNREADABLE

    def _read_gap(self, pos: int, start: int, kind: int) -> None:
        """Take what lies before a node: blanks, or the end of a line that ends a command."""
        gap = self.text[pos:start]
        if not _BREAK.fullmatch(gap):
            self.doubt = _UNREADABLE
            return
        gap = gap.replace("\\\n", "")  # a line that goes on parts nothing
        if kind in _COMMENT:
            if not gap and pos and not self.joined:
                self.doubt = _DOUBTS["comment"]
        elif kind in _REDIRECT and not gap and self.text[start].isdigit():
            self.doubt = _UNREADABLE  # the digit belongs to the word before it
        elif not self.joined and "\n" in gap:
            self._join(";")

    def _read_piece(self, node: Node, kind: int, text: str) -> None:
        if kind in _JOINTS:
            if self.joined:
                self.doubt = _UNREADABLE
            self._join(text)
        elif kind in _REDIRECT and not self.joined:
            if _HARMLESS.fullmatch(text):
                self.pieces.append(text)
            else:
                self.doubt = _DOUBTS["file_redirect"]
        elif kind not in _SKIPPED:
            self.doubt = _DOUBTS.get(node.type, _UNREADABLE)

    def _join(self, joint: str) -> None:
        self.pieces.append(joint)
        self.joined = True


def _read_command(node: Node, text: str) -> tuple[FoundCommand, str]:
    """Return a command and the kind of the first thing in it that is not literal, "" when all is."""
    start, end = node.byte_range
    if _SIMPLE.fullmatch(text, start, end):
        simple = [word[1:-1] if word[0] in "'\"" else word for word in _SIMPLE_WORD.findall(text, start, end)]
        if len(simple) == node.child_count and text.isascii():
            return FoundCommand(tuple(simple)), ""
    words: list[str | None] = []
    sets: list[tuple[str, str | None]] = []
    odd = ""
    pos = -1
    for child in node.children:
        kind = child.kind_id
        start, end = child.byte_range
        if pos >= 0 and (start - pos != 1 or text[pos] != " ") and not _BLANK.fullmatch(text, pos, start):
            odd = "glued"  # or parted by what only the grammar takes for a blank
        pos = end
        if kind in _NAME:
            child = child.children[0]
            kind = child.kind_id
        if kind in _WORDS:
            word = literal(text[start:end])
            words.append(word)
            if word is None:
                odd = odd or child.type
        elif kind in _ASSIGNMENT:
            sets.append(_read_assignment(text[start:end]))
            odd = odd or ("" if sets[-1][1] is not None else "variable_assignment")
        else:
            words.append(None)
            odd = odd or child.type
    if not text.isascii():
        words = [word and _decode_word(word) for word in words]
        sets = [(name, value and _decode_word(value)) for name, value in sets]
    return FoundCommand(tuple(words), tuple(sets)), odd or ("" if words else "variable_assignment")


def _decode_word(text: str) -> str:
    return text.encode("latin-1").decode()


def _read_assignment(text: str) -> tuple[str, str | None]:
    name, mark, value = text.partition("=")
    if not mark or not name.isidentifier() or not name.isascii():
        return name.partition("[")[0].rstrip("+"), None
    return name, literal(value) if value else ""


def _find_commands(root: Node, text: str) -> Iterator[FoundCommand]:
    """Yield every command anywhere in a tree, as far as its words are known."""
    stack = [root]
    while stack:
        node = stack.pop()
        kind = node.type
        shown = text[node.start_byte : node.end_byte]
        if kind == "command":
            found, odd = _read_command(node, text)
            yield found
            if odd == "glued":
                yield FoundCommand((None,))
        elif kind in _LIKE_COMMANDS:
            words = shown.split()
            yield FoundCommand(tuple(words) if words[0] == "[" and not set("$`") & set(shown) else (words[0], None))
        elif kind in ("variable_assignment", "for_statement"):
            name = _read_assignment(shown)[0] if kind == "variable_assignment" else shown.split()[1:2][0]
            yield FoundCommand((), ((name, None),))
        elif (kind in _EVALUATED and not _PLAIN_EXPANSION.fullmatch(shown)) or shown.startswith("(("):
            yield FoundCommand((None,))  # an index, a prompt or a number in it may run something
        stack += node.children[::-1]
