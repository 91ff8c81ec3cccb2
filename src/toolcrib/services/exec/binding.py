"""What a yes to a command is bound to: words, program, folder, environment, and the files that it will read.

A line is not followed step by step: every word that names a folder may be one that it goes to, and every word that
names a file, seen from any of those, may be one that it reads.
"""

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence

from toolcrib.define.errors import ToolError
from toolcrib.lazy import regex
from toolcrib.policy.command import Judgement
from toolcrib.policy.command.parse import FoundCommand
from toolcrib.policy.command.permit import follow
from toolcrib.policy.command.rules import base_name
from toolcrib.policy.command.wrappers import INTERPRETER, SHELLS, can_start_others, is_opened

from .processes import Permit
from .repository import OpenInside, find_inside, read_inside

_MAX_HASHED_FILES, MAX_HASHED_BYTES, _MAX_HELD_BYTES = 32, 16 << 20, 1 << 20
_MAX_WORDS, _MAX_FOLDERS, _PATH_CHARS = 256, 12, 4_096
_PIECE = regex(r"""[^\s;&|(){}`'"<>$]+""")
_INLINE = regex(r"-[A-Za-z]*[cme]")  # options behind which there is no file to run, alone or behind others
_SHELL_INLINE = regex(r"-[A-Za-z]*c")
# Files that a program reads without a word of the command that names them.
_UNTOLD = {"make": ("GNUmakefile", "makefile", "Makefile"), "cargo": ("Cargo.toml", "build.rs")}
_UNTOLD |= dict.fromkeys(("npm", "npx", "pnpm", "yarn"), ("package.json",))


def bind(judgement: Judgement, permit: Permit, folder: str, files: Mapping[str, str], unbound: str) -> dict[str, str]:
    """Return what a yes is bound to besides the call itself."""
    values = json.dumps(dict(permit.env), sort_keys=True)
    bound = {
        "program": permit.argv[0] if permit.argv else "bash",
        "directory": folder,
        "environment": f"{', '.join(sorted(permit.env))} (sha256 {hashlib.sha256(values.encode()).hexdigest()})",
        **{f"contents of {path}": content for path, content in files.items()},
        **({"not bound": unbound} if unbound else {}),
    }
    return bound if judgement.argv is None else {"argv": json.dumps(judgement.argv), **bound}


def explain_unbound(judgement: Judgement, line: str, *, is_host: bool) -> str:
    """Return what a yes cannot be bound to, for people; "" when it holds all that the command reads."""
    ends = [f"what the shell makes of it ({judgement.doubt})"] if judgement.doubt else []
    starters = [
        base_name(words[0]) for words in _follow(judgement) if can_start_others(words[0]) and not is_opened(words)
    ]
    ends += [f"whatever else {name!r} reads or starts" for name in dict.fromkeys(starters)]
    programs = {command.program for command in judgement.commands}
    outside = [
        word for word in list_words(judgement, line) if word.startswith(("/", "~", "../")) and word not in programs
    ]
    ends += [f"{word[:200]!r}, if it lies outside of the workspace" for word in outside[:4]]
    if is_host:
        ends.append("a change in the very moment of the start, which the bare host cannot keep out")
    elif scripts := _find_scripts(judgement):  # its content is mounted, and that goes where the name is given away
        place = f"{scripts[0][:200]!r} in the moment of the start"
        ends.append(f"a file that something else here puts in the place of {place}")
    return "; ".join(ends)


def look_at_files(
    open_inside: OpenInside, folder: str, judgement: Judgement, line: str
) -> tuple[dict[str, str], tuple[str, bytes] | None]:
    """Return what is in every file that a line may read, as a hash, and the script to hold. It reads the disk."""
    words, found, folders = list(list_words(judgement, line))[:_MAX_WORDS], dict[str, str](), [""]
    scripts, held = _find_scripts(judgement), None
    for word in (*words, *words, *words):  # folders may be named from each other, and then hold files
        for path in {os.path.join(each, word) for each in folders} - found.keys():  # noqa: PTH118
            try:
                place, about = find_inside(open_inside, os.path.join(folder, path))  # noqa: PTH118
                if about is None:
                    continue
                if stat.S_ISDIR(about.st_mode) and len(folders) < _MAX_FOLDERS:
                    folders.append(path)
                    found[path] = f"folder {place}, inode {about.st_ino}"
                elif stat.S_ISREG(about.st_mode):
                    found[path] = (
                        f"{about.st_size} bytes, inode {about.st_ino}, changed {about.st_mtime_ns} {about.st_ctime_ns}"
                    )
                    if len(found) <= _MAX_HASHED_FILES and about.st_size <= MAX_HASHED_BYTES:
                        data = read_inside(open_inside, place, MAX_HASHED_BYTES)
                        found[path] = f"sha256 {hashlib.sha256(data).hexdigest()}"
                        if held is None and path in scripts and len(data) <= _MAX_HELD_BYTES:
                            held = place, data
            except (ToolError, ValueError):  # it leads out, or is no path at all: `explain_unbound` names it
                continue
    return found, held


def _follow(judgement: Judgement) -> Iterator[tuple[str, ...]]:
    """Yield the words of every command that can be read, and of what it starts; "" for one that is not literal."""
    for words in follow(FoundCommand(command.argv) for command in judgement.commands):
        if words and words[0]:
            yield tuple(word or "" for word in words)


def list_words(judgement: Judgement, line: str) -> Iterator[str]:
    """Yield, each once, every word that may name a file or folder: also in options, redirections and nested shells."""
    commands = list(_follow(judgement))
    literal = [word for words in commands for word in words]
    implied = [name for words in commands for name in _UNTOLD.get(base_name(words[0]), ())]
    spelled = dict.fromkeys([*literal, *_PIECE.findall(line), *implied])
    both = [each for word in spelled for each in (word, word.partition("=")[2], word[2:] if word[:1] == "-" else "")]
    return (word for word in dict.fromkeys(both) if word.strip("./") and len(word) < _PATH_CHARS)


def _find_scripts(judgement: Judgement) -> tuple[str, ...]:
    """Return what a command by itself may run, of which the first in the workspace does: its program, or what an
    interpreter is given first."""
    if judgement.doubt or len(judgement.commands) != 1:
        return ()
    name, *words = [word or "" for word in judgement.commands[0].argv]
    is_interpreter = base_name(name) in SHELLS or INTERPRETER.fullmatch(base_name(name))
    given = words[:1] if is_interpreter and words and not words[0].startswith("-") else ()
    return (*((name,) if "/" in name and judgement.commands[0].program != name else ()), *given)


def list_operands(words: Sequence[str]) -> Iterator[str]:
    """Yield what may name a file: words, and what stands in one with an option (`--file=x`, `-fx`)."""
    for word in words:
        if word[:1] != "-":
            yield word
        else:
            yield from filter(None, (word.partition("=")[2], word[2:]))


def spell_whole(root: str, word: str, path: str) -> str:
    """Return a word of a program that names this file of a workspace by its whole path, others as they are."""
    named = [each for each in list_operands([word]) if os.path.normpath(os.path.join(root, each)) == path]  # noqa: PTH118
    return word.removesuffix(named[0]) + path if named else word


def find_code(argv: Sequence[str]) -> tuple[list[str], bool]:
    """Return the words of a command, and of what it starts, that name what runs: a program by its path, and what an
    interpreter is given first; and whether Python is given a module or a line instead, and looks around for more.
    """
    found, looks_around = list[str](), False
    for words in follow((FoundCommand(tuple(argv)),)):
        name, *rest = [word or "" for word in words or ("",)]
        program = base_name(name) if name else ""
        found += [name] if "/" in name else []
        if program in (*SHELLS, ".", "source") or INTERPRETER.fullmatch(program):
            inline = _INLINE if INTERPRETER.fullmatch(program) else _SHELL_INLINE
            given = next((word for word in rest if word[:1] != "-" or inline.fullmatch(word)), "")
            found += [given] if given and given[:1] != "-" else []
            looks_around |= program.startswith("python") and given[:1] == "-"
    return found, looks_around
