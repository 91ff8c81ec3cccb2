"""Programs that start other programs, opened so that a denial reaches what they start.

They are opened to deny, never to permit: what a wrapper makes of a command (its environment, its folder, its user, its
shell) is not the command that a rule permits.
"""

from collections.abc import Iterator, Mapping, Sequence

from toolcrib.lazy import dataclass, regex

from .options import names
from .rules import base_name

_Words = Sequence[str | None]


@dataclass(frozen=True, slots=True)
class Inner:
    """What a command starts: words, or a text that a shell reads, with the parameters that the text may use.

    `known` is False where part of it is unknown.
    """

    words: tuple[str | None, ...] = ()
    text: str | None = None
    parameters: tuple[str | None, ...] = ()
    known: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wrapper:
    """How a wrapper reads its own words: options that take a value, operands before the command, NAME=value."""

    short: str = ""
    long: frozenset[str] = frozenset()
    operands: int = 0
    assignments: bool = False
    text: str = ""  # the short option whose value is read like a line
    joined: bool = False  # the command's words are joined and read by a shell


def _long_names(text: str) -> frozenset[str]:
    return frozenset(f"--{name}" for name in text.split())


_PRECISE: Mapping[str, _Wrapper] = {
    "env": _Wrapper(short="uCa", long=_long_names("unset chdir argv0"), assignments=True, text="S"),
    "nice": _Wrapper(short="n", long=_long_names("adjustment")),
    "nohup": _Wrapper(),
    "setsid": _Wrapper(),
    "timeout": _Wrapper(short="ks", long=_long_names("kill-after signal"), operands=1),
    "stdbuf": _Wrapper(short="ioe", long=_long_names("input output error")),
    "ionice": _Wrapper(short="cnpPu", long=_long_names("class classdata pid pgid uid")),
    "chrt": _Wrapper(short="TPDp", long=_long_names("sched-runtime sched-period sched-deadline pid"), operands=1),
    "taskset": _Wrapper(operands=1),
    "time": _Wrapper(short="fo", long=_long_names("format output")),
    "command": _Wrapper(),
    "builtin": _Wrapper(),
    "exec": _Wrapper(short="a"),
    "sudo": _Wrapper(
        short="ugphCrtTUDR",
        long=_long_names("user group prompt host close-from role type command-timeout other-user chdir chroot"),
        assignments=True,
    ),
    "doas": _Wrapper(short="uC"),
    "chroot": _Wrapper(long=_long_names("userspec groups"), operands=1),
    "flock": _Wrapper(short="wE", long=_long_names("timeout wait conflict-exit-code"), operands=1, text="c"),
    "xargs": _Wrapper(
        short="adEInPsL", long=_long_names("arg-file delimiter max-args max-procs max-chars max-lines replace eof")
    ),
    "watch": _Wrapper(short="nq", long=_long_names("interval equexit"), joined=True),
    "eval": _Wrapper(joined=True),
    "busybox": _Wrapper(),
    "toybox": _Wrapper(),
    "su": _Wrapper(short="cgGsw", long=_long_names("command group supp-group shell"), text="c", operands=99),
    "runuser": _Wrapper(short="ugGsw", long=_long_names("user group supp-group shell"), text="c"),
    "script": _Wrapper(short="EIOBTmo", long=_long_names("command echo log-in log-out log-io"), text="c", operands=99),
    "sg": _Wrapper(operands=1, text="c"),
    "trap": _Wrapper(joined=True),
    "coproc": _Wrapper(),
}
# Opened by trying every word: their options are many, or differ between systems.
_LOOSE = names(
    """
    unshare nsenter setpriv prlimit strace ltrace valgrind gdb parallel systemd-run setarch linux32 linux64 i386
    x86_64 aarch64 catchsegv faketime dbus-run-session dbus-launch xvfb-run chpst softlimit setuidgid
    start-stop-daemon bwrap firejail proot fakeroot rlwrap unbuffer expect capsh pkexec machinectl numactl cgexec
    perf tini dumb-init gosu su-exec s6-setuidgid torsocks torify proxychains proxychains4 entr ssh-agent at batch
    flatpak-spawn uv uvx pipx poetry pipenv npx bunx ld.so
"""
)
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "rbash", "yash", "posh"})
# Programs and builtins of the shell of which no option and no word starts another program.
_STARTS_NOTHING = names(
    """
    : [ b2sum base32 base64 basename break cal cat cd chgrp chmod chown cksum cmp comm continue cp cut date dd df
    dirname du echo exit expand expr factor false fmt fold free grep groups head hexdump hostid id join jq ln ls md5sum
    mkdir mkfifo mktemp mv nl nproc numfmt od paste pathchk pr printenv printf ptx pwd readlink realpath return rev
    rm rmdir seq sha1sum sha224sum sha256sum sha384sum sha512sum shift shred shuf sleep stat stty sum sync tac tail tee
    test touch tr tree true truncate tsort tty uname unexpand uniq unlink uptime vdir wait wc which who whoami xxd yes
"""
)
INTERPRETER = regex(r"(python|pypy|node|nodejs|perl|ruby|php|lua|luajit|Rscript|tclsh)[0-9.]*")
_LANGUAGES = names("awk gawk mawk nawk bun deno")  # what runs a text among its words, beside interpreters
_CONSOLES = names("ghci ipython julia osascript powershell pwsh ts-node tsx . source")  # run a text or the file named
_PACKAGERS = names("npm pnpm yarn")
_VERBS = frozenset({"dlx", "exec", "run", "shell", "tool", "x"})  # of a runner: what it runs comes behind
_FINDS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})


def can_start_others(program: str) -> bool:
    """Tell whether a program may run something that its words do not show; of one that is not known, it may."""
    return program not in _STARTS_NOTHING


def is_opened(words: _Words) -> bool:
    """Tell whether the words of a command show all that it starts."""
    name = base_name(words[0] or "") if words else ""
    return name == "command" or next(inner_of(words), None) is not None


def runs_anything(words: Sequence[str]) -> bool:
    """Tell whether a command that begins with these words runs what the words after them say."""
    name = base_name(words[0]) if words else ""
    if not name or name == "find" or name in _LANGUAGES:
        return True
    if name in SHELLS or name in _CONSOLES or INTERPRETER.fullmatch(name):
        return all(word.startswith("-") for word in words[1:])
    if name in _PACKAGERS:  # `npm run` starts what package.json says
        return len(words) == 1 or (words[1] in _VERBS - {"run"} and runs_anything(["npx", *words[2:]]))
    if name in _PRECISE:
        inner = next(_open_wrapper((*words,), _PRECISE[name]), Inner())
        return inner.text is None and runs_anything([each or "" for each in inner.words])
    if name in _LOOSE:
        return runs_anything([each for each in words[1:] if not each.startswith("-") and each not in _VERBS])
    return False


def inner_of(words: _Words) -> Iterator[Inner]:
    """Yield what a command starts, as far as its words tell: nothing for a program that is no wrapper."""
    name = base_name(words[0] or "") if words else ""
    if name in SHELLS:
        yield from _open_shell(words)
    elif name == "command" and any(word and word[:1] == "-" and set("vV") & set(word) for word in words[1:2]):
        return  # it only says what the name stands for
    elif name == "find":
        for index, word in enumerate(words):
            if word in _FINDS:
                tail = words[index + 1 : index + 1 + _MAX_TAIL_WORDS]
                found = tuple(None if each and "{}" in each else each for each in tail)
                yield Inner(found, known=index + 1 + _MAX_TAIL_WORDS >= len(words))
    elif wrapper := _PRECISE.get(name):
        # xargs adds words, and puts them wherever its options say
        yield from _open_wrapper((*words, None) if name == "xargs" else words, wrapper)
    elif name in _LOOSE or name.startswith(("ld-linux", "ld-musl")):
        yield from inner_anywhere(words, 1)


_MAX_TAIL_WORDS = 64  # words of a command that may start anywhere


def inner_anywhere(words: _Words, start: int) -> Iterator[Inner]:
    """Yield every tail of the words, and every word as a text: it may be any of them."""
    for index in range(start, len(words)):
        yield Inner(tuple(words[index : index + _MAX_TAIL_WORDS]), known=index + _MAX_TAIL_WORDS >= len(words))
        word = words[index]
        if word is not None and " " in word:
            yield Inner(text=word)


def _open_wrapper(words: _Words, wrapper: _Wrapper) -> Iterator[Inner]:
    index, left = 1, wrapper.operands
    while index < len(words):
        word = words[index]
        if word is None:
            yield from inner_anywhere(words, index)
            return
        if word.startswith("-") and len(word) > 1:
            texts, step = _read_option(words, index, wrapper)
            yield from texts
            if word == "--":
                wrapper = _Wrapper(operands=left, joined=wrapper.joined)
            index += step
        elif wrapper.assignments and "=" in word:
            index += 1
        elif left > 0:
            left -= 1
            index += 1
        elif word == "-":
            index += 1
        else:
            break
    rest = words[index:]
    if wrapper.joined and rest:
        known = [word for word in rest if word is not None]
        yield Inner(text=" ".join(known), known=len(known) == len(rest))
    elif rest:
        yield Inner(tuple(rest))


def _read_option(words: _Words, index: int, wrapper: _Wrapper) -> tuple[list[Inner], int]:
    """Return what an option of a wrapper brings, and how many words it takes."""
    word = words[index] or ""
    following = words[index + 1] if index + 1 < len(words) else None
    if word.startswith("--"):
        name, mark, value = word.partition("=")
        if wrapper.text and name in ("--split-string", "--command"):
            return [_inner_text(value if mark else following, words[index + (1 if mark else 2) :])], 1 if mark else 2
        return [], 2 if name in wrapper.long and not mark else 1
    for place, letter in enumerate(word[1:], 2):
        value = word[place:]
        if letter == wrapper.text:
            return [_inner_text(value or following, words[index + (1 if value else 2) :])], 1 if value else 2
        if letter in wrapper.short:
            return [], 1 if value else 2
    return [], 1


def _inner_text(value: str | None, rest: _Words) -> Inner:
    """Return a text with the words that follow it, as `env -S` and `su -c` read them."""
    more = " ".join(word for word in rest if word is not None)
    return Inner(text=value if value is None or not more else f"{value} {more}", known=value is not None)


def _open_shell(words: _Words) -> Iterator[Inner]:
    index, reads_text = 1, False
    while index < len(words):
        word = words[index]
        if word is None or word[:1] not in ("-", "+") or not word:
            break
        index += 1
        if word in ("-", "--"):
            break
        if word in ("--rcfile", "--init-file"):
            index += 1
        elif not word.startswith("--"):
            reads_text = reads_text or (word.startswith("-") and "c" in word)
            index += sum(word.count(letter) for letter in "oO")
    rest = words[index:]
    if not rest:
        return
    if reads_text:
        # the words behind the text are what "$@" and "$0" stand for
        yield Inner(text=rest[0], parameters=tuple(rest[1:]), known=rest[0] is not None)
