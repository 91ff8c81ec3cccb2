"""What the start of an MCP server loads: where it is started, and which code of a workspace that takes in.

Interpreters and runners look further than the words that name a script: at modules beside it, at `node_modules`, at
settings of the folder they stand in and of those above. So a server starts outside of all workspaces unless `cwd` is
written, and what its start would find in a workspace has to be accepted as a whole.
"""

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path

from toolcrib.config.services import McpSettings
from toolcrib.define.errors import ToolError
from toolcrib.lazy import regex
from toolcrib.policy.command.parse import FoundCommand, parse
from toolcrib.policy.command.permit import follow
from toolcrib.policy.command.rules import base_name
from toolcrib.policy.command.wrappers import SHELLS

_BETWEEN_WORDS = r"(?:[\s=;,:'\"()&|<>`]|\$\{?\w+\}?/?)+"  # of a shell: blanks, signs, variables
_MAX_BASES, _MAX_WORDS = 16, 256  # folders and words among the settings of a server
_SCRIPTS = (".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".sh", ".rb", ".pl", ".php", ".lua", ".jar", ".wasm")
_PYTHON = regex(r"(python|pypy)[0-9.]*")
_INTERPRETER = regex(rf"{_PYTHON.pattern}|node|ruby|perl|php|lua|(ba|da|z)?sh")  # a bare word may be its script
# what runs a file, a folder or a package that its words name, whatever that is called
_LAUNCHERS = regex(
    rf"{_PYTHON.pattern}|node|nodejs|deno|bun|bunx|tsx|ts-node|npx|npm|pnpm|yarn|uv|uvx|pipx|poetry|pdm|hatch|ruby|bundle"
    r"|perl|php|lua[0-9.]*|java|dotnet|go|cargo|nodemon|Rscript|tclsh|make|just|mise|(docker|podman)(-compose)?|env|\."
    r"|source|cd|pushd"
)
_SUBCOMMANDS = frozenset({"compose", "dlx", "exec", "run", "script", "serve", "start", "tool", "watch", "x"})
# their options that take the next word
_VALUED = frozenset({
    "--cache", "--config", "--cwd", "--default-index", "--dir", "--directory", "--env-file", "--extra-index-url",
    "--file", "--from", "--globalconfig", "--import", "--import-map", "--index", "--index-url", "--init-file",
    "--loader", "--manifest-path", "--package", "--prefix", "--preload", "--project", "--python", "--rcfile",
    "--registry", "--require", "--script", "--spec", "--userconfig", "--with", "--with-editable", "--with-requirements",
    "--workspace", "-C", "-I", "-W", "-X", "-classpath", "-cp", "-d", "-f", "-i", "-jar", "-o", "-p", "-r", "-w",
})  # fmt: skip
_GOES = frozenset({"--chdir", "--cwd", "--dir", "--directory"})  # where a launcher goes before it reads a name
_INLINE = regex(r"-[A-Za-z]*[cme]|--call|--eval|--print")  # behind which stands a line or a module, and no file
# variables whose folders are searched for code, and those that name what is read before a program begins
_SEARCHED = regex(
    r"^((NODE|LD|DYLD|GEM|GCONV|LUA|GI|QT)_(\w+_)?)?[A-Z0-9]*PATH$|LIB$|(HOME|USERBASE|DOTDIR|_ENV|PRELOAD)$"
)
_READ_FIRST = regex(
    r"^(BASH_|GO)?ENV$|^GOWORK$|^MAKEFILES$|OPT(ION)?S?$|FLAGS$|PRELOAD$|AUDIT$|STARTUP$|_DEPS$"
    r"|^(npm_config|uv|pip|pipenv|bun|bundle|compose|deno|yarn)_",
    re.IGNORECASE,
)
_TAKES_OPTIONS_ANYWHERE = frozenset({"npm", "pnpm", "yarn"})
_FILE_URL = regex(r".*\bfile:(//(localhost)?)?")
_SET = regex(r"\b(\w+)=([^\s;&|'\"]+)")  # a variable in the words of `env` or of a shell
# what runners read in the folders above the one they start in
_READ_ABOVE = (
    ".cargo", ".mise.toml", ".npmrc", ".python-version", ".ruby-version", ".tool-versions", ".venv", ".yarnrc.yml",
    "Cargo.toml", "Gemfile", "bunfig.toml", "deno.json", "deno.jsonc", "mise.toml", "node_modules", "package.json",
    "pyproject.toml", "pyvenv.cfg", "tsconfig.json", "uv.toml",
)  # fmt: skip


def place_server(server: McpSettings, folder: Path) -> McpSettings:
    """Return a server that is started in its `cwd` or, without one, in `folder`, its scripts by their whole names.

    ToolError for a word that means a folder of where we stand: only the owner knows whether it should be started there.
    """
    if server.cwd is not None:
        return server.model_copy(update={"cwd": os.path.expanduser(server.cwd)})  # noqa: PTH111  Path's own raises
    args, command = list[str](), server.command or ""
    is_script = _INTERPRETER.fullmatch(os.path.basename(command)) is not None  # noqa: PTH119
    moved = _find_move(server.args)
    for number, word in enumerate(server.args[:moved]):
        if word and not word.startswith("-") and os.path.isdir(word) and not os.path.isabs(word):  # noqa: PTH112, PTH117
            where = "a server is started outside of all workspaces"
            what = f"args[{number}] {word!r} is a folder here, and {where}"
            raise ToolError(f"{what}; write its whole name, or write cwd", code="bad_arguments")
        is_path = is_script or "." in word or os.sep in word  # `run` of `docker run` is none, whatever lies here
        args.append(os.path.abspath(word) if is_path and os.path.isfile(word) else word)  # noqa: PTH100, PTH113
    if os.sep in command:
        command = os.path.abspath(os.path.expanduser(command))  # noqa: PTH100, PTH111
    args += server.args[moved:]
    return server.model_copy(update={"cwd": str(folder), "command": command, "args": tuple(args)})


def _find_move(args: Sequence[str]) -> int:
    """Return from which word on names are those of a folder that an option goes to (`uv --directory F run s.py`)."""
    for at, word in enumerate(args, start=1):
        if word.partition("=")[0] in _GOES:
            return at + ("=" not in word)
    return len(args)


def list_server_code(server: McpSettings) -> Iterator[Path]:
    """Yield the programs, scripts and packages that a server is started from, as far as its settings name them."""
    if server.command is None:
        return
    cwd = Path(os.path.expanduser(server.cwd or "."))  # noqa: PTH111  Path's own raises for a user who is not there
    yield from _find_given(server, cwd)
    written = (server.command, *server.args, *server.env.values())
    split = (*written, *re.split(_BETWEEN_WORDS, " ".join(written)))
    named = (os.path.expanduser(word) for word in split if word and word not in _SUBCOMMANDS)  # noqa: PTH111
    words = [*dict.fromkeys(named)][:_MAX_WORDS]
    bases = [cwd, *(cwd / word for word in ("node_modules/.bin", *words) if os.path.isdir(cwd / word))][:_MAX_BASES]  # noqa: PTH112
    for base, word in product(bases, words):
        yield from _find_scripts(base / word)
        if "." in word and any(_find_scripts(base / word.replace(".", "/"))):  # a module; its package runs with it
            yield base / word.partition(".")[0]
    if program := shutil.which(server.command, path=server.env.get("PATH")):
        yield Path(program)


def list_code_around(server: McpSettings, code: Sequence[Path], guarded: Sequence[Path]) -> Iterator[Path]:
    """Yield what a placed server loads from the `guarded` workspaces besides the `code` that its settings name."""
    start = Path(server.cwd or "/").resolve()
    if (root := _find_root(start, guarded)) is not None:
        yield start
        yield from _list_above(start, root)
    for path in code:
        is_given = path.is_dir() and not (path / "__init__.py").is_file()
        folder = path.resolve() if is_given else path.parent.resolve()
        if (root := _find_root(folder, guarded)) is None or folder.is_relative_to(start):
            continue
        if (folder.parent / "pyvenv.cfg").is_file():
            yield folder.parent
        elif not is_bare_python(server, path):
            yield folder
            yield from _list_above(folder, root)
    for name, value in _list_variables(server):
        for each in value.split(os.pathsep) if _SEARCHED.search(name) else ():
            if os.path.isdir(start / each) and _find_root(folder := (start / each).resolve(), guarded) is not None:  # noqa: PTH112
                yield folder


def is_bare_python(server: McpSettings, code: Path) -> bool:
    """Tell whether PYTHONSAFEPATH keeps this code from importing what lies beside it."""
    is_python = _PYTHON.fullmatch(os.path.basename(server.command or "")) is not None  # noqa: PTH119
    is_other = code.is_symlink() or _PYTHON.fullmatch(code.name) is not None
    return is_python and not is_other and (code.suffix in ("", ".py", ".pyc", ".pyz") or code.is_dir())


def _list_variables(server: McpSettings) -> Iterator[tuple[str, str]]:
    """Yield the variables that a server is given, also by its words."""
    yield from server.env.items()
    yield from _SET.findall(" ".join(server.args))


def _find_given(server: McpSettings, cwd: Path) -> Iterator[Path]:
    """Yield the files and folders that what reads code is given, as far as they exist: by its words or a variable."""
    for words in follow([FoundCommand((server.command, *server.args))]):
        program, *rest = [word or "" for word in words or ("",)]
        if (name := base_name(program)) in ("docker", "podman") and rest[:1] != ["compose"]:
            continue  # what it is given is for what runs in there
        if name in SHELLS or _LAUNCHERS.fullmatch(name):
            yield from _list_existing(cwd, _list_given(server, name, rest))
    for name, value in _list_variables(server):
        if _READ_FIRST.search(name):
            split = re.split(_BETWEEN_WORDS, value)
            yield from _list_existing(cwd, (*split, *(each[2:] for each in split), *value.split(os.pathsep)))


def _list_given(server: McpSettings, name: str, words: Sequence[str]) -> Iterator[str]:
    """Yield the words that may name what a launcher runs or reads: its options, and the first that is none."""
    is_value, is_found = False, False
    for at, word in enumerate(words):
        is_option = word[:1] == "-" and not is_value
        if (is_option and _INLINE.fullmatch(word)) or word == "--":
            yield from _list_inline(server, name, "".join(words[at + 1 : at + 2]))
            return
        if is_value or not (is_option or is_found):
            yield word
        if word.startswith(("--allow-", "--deny-")):
            continue  # what a script may touch
        if is_option or is_value:
            yield from (*re.split(_BETWEEN_WORDS, word), *((word.partition("=")[2], word[2:]) if is_option else ()))
            if is_value and words[at - 1] == "-jar":
                return
        elif _INTERPRETER.fullmatch(base_name(word)):  # `bundle exec ruby s.rb`
            yield from _list_given(server, base_name(word), words[at + 1 :])
            return
        elif word not in _SUBCOMMANDS:
            if name not in _TAKES_OPTIONS_ANYWHERE:
                return  # that is what it runs, and what follows is for that
            is_found = True
        is_value = is_option and word in _VALUED


def _list_inline(server: McpSettings, name: str, text: str) -> Iterator[str]:
    """Yield what a line of code may name; of one command of a shell only what that is given, which is followed."""
    parsed = parse(text) if name in SHELLS else None
    if parsed is None or parsed.doubt or len(parsed.commands) != 1:
        yield from re.split(_BETWEEN_WORDS, text)
    if parsed is not None and parsed.doubt:
        yield from server.env.values()


def _list_existing(cwd: Path, words: Iterable[str]) -> Iterator[Path]:
    for word in filter(None, (_FILE_URL.sub("", each).removesuffix("/*").lstrip("@") for each in words)):
        with suppress(OSError, ValueError):
            if os.path.lexists(path := cwd / os.path.expanduser(word)):  # noqa: PTH111
                yield path
            yield from _find_scripts(path)


def _find_scripts(path: Path) -> Iterator[Path]:
    """Give the program that is meant by a path, with its suffix or without; of a folder only a Python package."""
    with suppress(OSError, ValueError):
        if any((path / name).is_file() for name in ("__main__.py", "__init__.py")):
            yield path
        for suffix in ("", *_SCRIPTS):
            each = path.with_name(path.name + suffix) if path.name else path
            if each.is_file() and (each.suffix in _SCRIPTS or os.access(each, os.X_OK)):
                yield each


def _find_root(folder: Path, guarded: Sequence[Path]) -> Path | None:
    """Return the outermost workspace that a folder lies in."""
    return min((each for each in guarded if folder.is_relative_to(each)), default=None)


def _list_above(folder: Path, root: Path) -> Iterator[Path]:
    for above in folder.parents:
        if not above.is_relative_to(root):
            return
        yield from (above / name for name in _READ_ABOVE if (above / name).exists())
