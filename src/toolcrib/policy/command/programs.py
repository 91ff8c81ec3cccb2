"""Programs that are known to read: which of their uses change nothing, start nothing and stay in the workspace.

`check(name, args, within)` is about reading files of the workspace; with `within` None it is about a filter, which
reads its standard input and nothing else. A use that is more than that raises UnsafeUsageError with the reason.
"""

from collections.abc import Callable, Mapping, Sequence

from .options import Grammar, IsWithin, UnsafeUsageError, check_paths, names, read_use
from .programs_git import check_git, restrain_git
from .programs_text import check_find, check_jq_program, check_sed_script

_Check = Callable[[Sequence[str], IsWithin | None], None]

_HELP = "help version"

_CAT = Grammar(
    flags="AbeEnstTuv",
    long_flags=names(f"show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting {_HELP}"),
)  # fmt: skip
_HEAD = Grammar(
    flags="qvz", values="nc", long_flags=names(f"quiet silent verbose zero-terminated {_HELP}"),
    long_values=names("lines bytes"), number=True,
)  # fmt: skip
_WC = Grammar(
    flags="cmlLw", long_flags=names(f"bytes chars lines max-line-length words {_HELP}"), long_values=names("total"),
)  # fmt: skip
_LS = Grammar(
    flags="aAbBcCdfFgGhiklmnNopqQrRsStuUvxXZ1",
    values="ITw",
    long_flags=names(
        f"""all almost-all author escape ignore-backups directory dired group-directories-first no-group human-readable
        si inode kibibytes numeric-uid-gid literal hide-control-chars show-control-chars quote-name reverse recursive
        size context zero file-type full-time {_HELP}"""
    ),
    long_values=names("block-size format hide ignore indicator-style quoting-style sort time time-style tabsize width"),
    long_maybe=names("color classify hyperlink"),
)
_STAT = Grammar(
    flags="ft", values="c", long_flags=names(f"file-system terse {_HELP}"), long_values=names("format printf cached")
)
_DIFF = Grammar(
    flags="abBcdeEiNnpqrstTuwyZ",
    values="CDFIUWx",
    paths="X",
    long_flags=names(
        f"""normal brief report-identical-files ed rcs side-by-side left-column suppress-common-lines show-c-function
        expand-tabs initial-tab suppress-blank-empty recursive no-dereference new-file unidirectional-new-file
        ignore-file-name-case no-ignore-file-name-case ignore-case ignore-tab-expansion ignore-trailing-space
        ignore-space-change ignore-all-space ignore-blank-lines text strip-trailing-cr minimal speed-large-files
        {_HELP}"""
    ),
    long_values=names(
        """label width tabsize exclude starting-file ignore-matching-lines ifdef horizon-lines show-function-line
        line-format old-line-format new-line-format unchanged-line-format old-group-format new-group-format
        unchanged-group-format changed-group-format palette"""
    ),
    long_maybe=names("unified context color"),
    long_paths=names("exclude-from from-file to-file"),
)
_SORT = Grammar(
    flags="bcCdfghiMmnRrsuVz",
    values="kSt",
    long_flags=names(
        f"""ignore-leading-blanks dictionary-order ignore-case general-numeric-sort human-numeric-sort
        ignore-nonprinting month-sort numeric-sort random-sort reverse merge stable unique version-sort
        zero-terminated debug {_HELP}"""
    ),
    long_values=names("key buffer-size field-separator sort parallel batch-size"),
    long_maybe=names("check"),
)
_UNIQ = Grammar(
    flags="cdDiuz", values="fsw", long_flags=names(f"count repeated ignore-case unique zero-terminated {_HELP}"),
    long_values=names("skip-fields skip-chars check-chars"), long_maybe=names("all-repeated group"), number=True,
)  # fmt: skip
_CUT = Grammar(
    flags="nsz", values="bcdf", long_flags=names(f"complement only-delimited zero-terminated {_HELP}"),
    long_values=names("bytes characters delimiter fields output-delimiter"),
)  # fmt: skip
_TR = Grammar(
    flags="cCdst", long_flags=names(f"complement delete squeeze-repeats truncate-set1 {_HELP}"), permutes=False,
)  # fmt: skip
_GREP = Grammar(
    flags="EFGPivwxcLlqsobHhnTZaUzyrVI",
    values="emABCDd",
    paths="f",
    long_flags=names(
        f"""extended-regexp fixed-strings basic-regexp perl-regexp ignore-case no-ignore-case invert-match word-regexp
        line-regexp count files-without-match files-with-matches only-matching quiet silent no-messages byte-offset
        with-filename no-filename line-number initial-tab null text binary line-buffered null-data recursive {_HELP}"""
    ),
    long_values=names(
        """regexp max-count label after-context before-context context binary-files devices directories exclude
        exclude-dir include group-separator"""
    ),
    long_maybe=names("color colour no-group-separator"),
    long_paths=names("file exclude-from"),
    number=True,
)
_RG = Grammar(
    flags="FPUaSsivwxcloqnNHIhbp0Vu.",
    values="eAtTgmABCjEMdr",
    paths="f",
    long_flags=names(
        f"""fixed-strings pcre2 multiline multiline-dotall text smart-case case-sensitive ignore-case invert-match
        word-regexp line-regexp count count-matches files-with-matches files-without-match only-matching quiet
        line-number no-line-number with-filename no-filename byte-offset pretty null hidden no-hidden no-ignore
        no-ignore-vcs no-ignore-parent no-ignore-global no-ignore-dot no-ignore-exclude no-ignore-files ignore
        unrestricted files type-list heading no-heading trim vimgrep json stats column no-column crlf null-data
        passthru passthrough no-messages no-config glob-case-insensitive one-file-system max-columns-preview no-unicode
        unicode line-buffered block-buffered no-mmap mmap debug trace include-zero no-follow no-pre auto-hybrid-regex
        no-search-zip stop-on-nonmatch no-require-git {_HELP}"""
    ),
    long_values=names(
        """regexp after-context before-context context type type-not type-add type-clear glob iglob max-count max-depth
        maxdepth max-filesize max-columns color colors sort sortr threads replace encoding engine path-separator
        context-separator field-match-separator field-context-separator dfa-size-limit regex-size-limit"""
    ),
    long_paths=names("file ignore-file"),
)
_SED = Grammar(
    flags="nErsuz", values="el",
    long_flags=names(f"quiet silent regexp-extended separate unbuffered null-data debug sandbox {_HELP}")
    | names("zero-terminated"),
    long_values=names("expression line-length"),
)  # fmt: skip
_JQ = Grammar(
    flags="rcjaSCMesnRVh",
    long_flags=names(
        """raw-output compact-output join-output ascii-output sort-keys color-output monochrome-output exit-status
        slurp null-input raw-input tab seq stream stream-errors unbuffered args jsonargs raw-output0 help version"""
    ),
    long_values=names("indent"),
)


# What these are given besides, where they run because they only read: should a grammar have slipped, the program
# itself then refuses to write or to run, and follows no link out of the folders that it compares.
_RESTRAINTS: Mapping[str, tuple[str, ...]] = {"diff": ("--no-dereference",), "sed": ("--sandbox",)}


def restrain(name: str, args: tuple[str, ...]) -> tuple[str, ...]:
    """Return the arguments of a program that only reads with those that hold it to that."""
    return restrain_git(args) if name == "git" else (*_RESTRAINTS.get(name, ()), *args)


# Readers with options that write or start something: where nothing holds them to reading, one that was misread could.
CAN_DO_MORE = frozenset({"find", "git", "rg", "sort", "uniq"})


def check(name: str, args: Sequence[str], within: IsWithin | None) -> None:
    """Raise UnsafeUsageError unless the program `name` with these arguments only reads, and only where it may."""
    _CHECKS[name](args, within)


def _check_reader(grammar: Grammar, max_operands: int | None = None) -> _Check:
    """Return the check of a program whose operands are files to read; a further one would be written."""

    def check_use(args: Sequence[str], within: IsWithin | None) -> None:
        operands = read_use(args, grammar, within).operands
        if max_operands is not None and len(operands) > max_operands:
            raise UnsafeUsageError(f"it would write to {operands[max_operands]!r}")
        check_paths(operands, within)

    return check_use


def _check_tr(args: Sequence[str], within: IsWithin | None) -> None:
    read_use(args, _TR, within)


def _check_grep(args: Sequence[str], within: IsWithin | None) -> None:
    use = read_use(args, _GREP, within)
    if within is None and use.has("r", "recursive", "d", "directories"):
        raise UnsafeUsageError("it would read whatever lies in the folder")
    has_pattern = use.has("e", "f", "regexp", "file")
    check_paths(use.operands if has_pattern else use.operands[1:], within)


def _check_rg(args: Sequence[str], within: IsWithin | None) -> None:
    use = read_use(args, _RG, within)
    has_pattern = use.has("e", "f", "regexp", "file", "files", "type-list")
    check_paths(use.operands if has_pattern else use.operands[1:], within)
    if within is None:
        raise UnsafeUsageError("without a file it reads whatever lies in the folder")


def _check_sed(args: Sequence[str], within: IsWithin | None) -> None:
    use = read_use(args, _SED, within)
    scripts = [value for name, value in use.options if name in ("e", "expression")]
    files = use.operands
    if not scripts:
        if not files:
            raise UnsafeUsageError("it has no script")
        scripts, files = [files[0]], files[1:]
    check_sed_script("\n".join(scripts))
    check_paths(files, within)


def _check_jq(args: Sequence[str], within: IsWithin | None) -> None:
    plain, positional = _drop_named(args)
    use = read_use(plain, _JQ, within)
    if not use.operands:
        raise UnsafeUsageError("it has no program")
    check_jq_program(use.operands[0])
    if not positional:
        check_paths(use.operands[1:], within)


def _drop_named(args: Sequence[str]) -> tuple[list[str], bool]:
    """Return jq's arguments without --arg and --argjson, and whether operands are values and not files."""
    if "--" in args:
        raise UnsafeUsageError("words behind its '--' may be files, whatever they look like")
    plain: list[str] = []
    positional = False
    at = 0
    while at < len(args):
        if args[at] in ("--arg", "--argjson"):
            at += 3
            continue
        if args[at] in ("--args", "--jsonargs"):
            # whether an operand is a file depends on where it stands: only before anything else it cannot be one
            positional = sum(not word.startswith("-") for word in plain) <= 1
        plain.append(args[at])
        at += 1
    return plain, positional


_CHECKS: Mapping[str, _Check] = {
    "cat": _check_reader(_CAT), "cut": _check_reader(_CUT), "diff": _check_reader(_DIFF), "find": check_find,
    "git": check_git, "grep": _check_grep, "head": _check_reader(_HEAD), "jq": _check_jq, "ls": _check_reader(_LS),
    "rg": _check_rg, "sed": _check_sed, "sort": _check_reader(_SORT), "stat": _check_reader(_STAT),
    "tail": _check_reader(_HEAD),  # not -f, which has no end
    "tr": _check_tr, "uniq": _check_reader(_UNIQ, max_operands=1), "wc": _check_reader(_WC),
}  # fmt: skip
READERS = frozenset(_CHECKS)
FILTERS = READERS - {"diff", "find", "git", "ls", "rg", "stat"}
