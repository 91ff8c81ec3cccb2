"""git: the subcommands that only show what a repository holds, each with the options that only shape the answer."""

import re
from collections.abc import Mapping, Sequence

from toolcrib.lazy import regex, replace

from .options import Grammar, IsWithin, UnsafeUsageError, Use, check_paths, names, read_use

_BEFORE = names("--no-pager -P --no-optional-locks --literal-pathspecs --no-replace-objects --version")

_DIFF_FLAGS = """patch no-patch raw patch-with-raw patch-with-stat minimal patience histogram numstat shortstat
    compact-summary summary name-only name-status no-color no-renames rename-empty no-rename-empty check full-index
    binary text ignore-cr-at-eol ignore-space-at-eol ignore-space-change ignore-all-space ignore-blank-lines
    function-context exit-code quiet no-ext-diff no-textconv ita-invisible-in-index pickaxe-all pickaxe-regex
    no-prefix default-prefix no-color-moved no-indent-heuristic indent-heuristic cc combined-all-paths staged cached
    merge-base ours theirs base no-relative no-function-context"""
_DIFF_VALUES = """unified inter-hunk-context diff-algorithm anchored stat-width stat-name-width stat-count
    stat-graph-width output-indicator-new output-indicator-old output-indicator-context diff-filter word-diff-regex
    src-prefix dst-prefix line-prefix ws-error-highlight skip-to rotate-to find-object"""
_DIFF_MAYBE = """stat dirstat dirstat-by-file cumulative color color-moved color-moved-ws word-diff color-words
    find-renames find-copies break-rewrites relative submodule ignore-submodules abbrev
    irreversible-delete find-copies-harder"""
_LOG_FLAGS = """oneline graph decorate no-decorate source use-mailmap mailmap no-mailmap all branches tags remotes
    reflog reverse merges no-merges first-parent follow all-match invert-grep regexp-ignore-case basic-regexp
    extended-regexp fixed-strings perl-regexp cherry cherry-pick cherry-mark left-only right-only left-right
    boundary simplify-by-decoration full-history dense sparse simplify-merges ancestry-path topo-order date-order
    author-date-order parents children relative-date clear-decorations no-abbrev-commit abbrev-commit walk-reflogs
    log-size full-diff show-pulls remove-empty no-walk do-walk dd no-diff-merges no-notes bisect
    expand-tabs no-expand-tabs count quiet numbered summary email committer"""
_LOG_VALUES = """max-count skip since after until before author committer grep grep-reflog min-parents max-parents
    date since-as-filter exclude glob decorate-refs decorate-refs-exclude encoding diff-merges group"""
_LOG_MAYBE = "pretty format decorate branches tags remotes notes show-notes ancestry-path no-walk"
_REFS = Grammar(
    flags="alrvqi",
    values="",
    long_flags=names("list all remotes verbose quiet show-current ignore-case no-color no-column omit-empty no-abbrev"),
    long_values=names("sort format points-at"),
    long_maybe=names("color column abbrev contains no-contains merged no-merged"),
)

_DIFF = Grammar(
    flags="pusRabwWzBMCDcm",
    values="USGIl",
    long_flags=names(_DIFF_FLAGS),
    long_values=names(_DIFF_VALUES),
    long_maybe=names(_DIFF_MAYBE),
)
_LOG = Grammar(
    flags=_DIFF.flags + "igEFPqt",
    values=_DIFF.values + "nL",
    long_flags=names(_DIFF_FLAGS) | names(_LOG_FLAGS),
    long_values=names(_DIFF_VALUES) | names(_LOG_VALUES),
    long_maybe=names(_DIFF_MAYBE) | names(_LOG_MAYBE),
    number=True,
    apart="nL",
)
_LOOSE_SUBCOMMANDS: Mapping[str, Grammar] = {
    "status": Grammar(
        flags="sbvz",
        long_flags=names("short branch show-stash long verbose no-renames ahead-behind no-ahead-behind no-column null"),
        long_maybe=names("porcelain untracked-files ignore-submodules ignored column find-renames"),
    ),
    "diff": _DIFF,
    "diff-tree": Grammar(
        flags=_DIFF.flags + "rtvm",
        values=_DIFF.values,
        long_flags=_DIFF.long_flags | names("root no-commit-id always"),
        long_values=_DIFF.long_values,
        long_maybe=_DIFF.long_maybe | names("pretty format"),
    ),
    "diff-index": _DIFF,
    "diff-files": _DIFF,
    "log": _LOG,
    "show": _LOG,
    "whatchanged": _LOG,
    "shortlog": Grammar(
        flags="nsec",
        long_flags=_LOG.long_flags,
        long_values=_LOG.long_values,
        long_maybe=_LOG.long_maybe,
        number=True,
    ),
    "rev-list": Grammar(
        flags="ig", values="n", long_flags=_LOG.long_flags | names("objects"), long_values=_LOG.long_values,
        long_maybe=_LOG.long_maybe, number=True, apart="n",
    ),
    "reflog": _LOG,
    "blame": Grammar(
        flags="bcefhlnpstw",
        values="L",
        long_flags=names(
            """root show-stats porcelain line-porcelain incremental score-debug show-name show-number show-email
            first-parent progress no-progress"""
        ),
        long_values=names("date ignore-rev since"),
        long_maybe=names("abbrev color-lines color-by-age"),
        apart="L",
    ),
    "annotate": Grammar(flags="lt", values="L", apart="L"),
    "branch": _REFS,
    "tag": Grammar(
        flags="li", long_flags=_REFS.long_flags, long_values=_REFS.long_values, long_maybe=_REFS.long_maybe
    ),
    "for-each-ref": Grammar(
        long_flags=names("shell perl python tcl ignore-case omit-empty"),
        long_values=names("count sort format points-at"),
        long_maybe=names("contains no-contains merged no-merged color"),
    ),
    "show-ref": Grammar(
        flags="dqs", long_flags=names("head tags heads branches dereference verify quiet exists"),
        long_maybe=names("hash abbrev"),
    ),
    "show-branch": Grammar(
        flags="ar",
        long_flags=names("all remotes current topo-order date-order sparse no-name sha1-name topics list"),
    ),
    "rev-parse": Grammar(
        flags="q",
        long_flags=names(
            """verify quiet symbolic symbolic-full-name all branches tags remotes show-toplevel show-prefix show-cdup
            git-dir absolute-git-dir git-common-dir is-inside-git-dir is-inside-work-tree is-bare-repository
            is-shallow-repository show-object-format revs-only no-revs flags no-flags local-env-vars"""
        ),
        long_maybe=names("short abbrev-ref branches tags remotes"),
        long_values=names("glob exclude"),
    ),
    "describe": Grammar(
        long_flags=names("all tags contains long exact-match debug always first-parent"),
        long_values=names("candidates match exclude"),
        long_maybe=names("abbrev"),
    ),
    "name-rev": Grammar(long_flags=names("tags name-only no-undefined always all"), long_values=names("refs exclude")),
    "merge-base": Grammar(flags="a", long_flags=names("all octopus independent is-ancestor fork-point")),
    "ls-files": Grammar(
        flags="cdmosiutvfzk",
        values="x",
        long_flags=names(
            """cached deleted modified others ignored stage unmerged killed directory no-empty-directory eol deduplicate
            exclude-standard error-unmatch full-name sparse debug"""
        ),
        long_values=names("exclude format with-tree"),
        long_maybe=names("abbrev"),
    ),
    "ls-tree": Grammar(
        flags="drtlz",
        long_flags=names("long name-only name-status object-only full-name full-tree"),
        long_values=names("format"),
        long_maybe=names("abbrev"),
    ),
    "cat-file": Grammar(flags="tsep"),
    "count-objects": Grammar(flags="vH", long_flags=names("verbose human-readable")),
    "check-ignore": Grammar(flags="qvn", long_flags=names("quiet verbose non-matching no-index")),
    "check-attr": Grammar(flags="a", long_flags=names("all cached")),
    "grep": Grammar(
        flags="EFGPivwcLlqhHnoaIWpz",
        values="eABCm",
        long_flags=names(
            """cached untracked no-exclude-standard exclude-standard text ignore-case
            word-regexp invert-match full-name extended-regexp basic-regexp perl-regexp fixed-strings line-number column
            files-with-matches name-only files-without-match only-matching count no-color break heading show-function
            function-context all-match quiet and or not null recursive no-recursive"""
        ),
        long_values=names("max-depth after-context before-context context threads max-count"),
        long_maybe=names("color"),
        number=True,
        apart="eABCm",
    ),
    "remote": Grammar(flags="v", long_flags=names("verbose")),
    "stash": _LOG,
    "worktree": Grammar(flags="vz", long_flags=names("porcelain verbose")),
    "version": Grammar(long_flags=names("build-options")),
}  # fmt: skip
# Which value an option takes from the next word, and which only when glued, differs between options, subcommands and
# versions of git: what it does not take it reads as another option. So a value must be glued.
_SUBCOMMANDS = {name: replace(grammar, glued=True) for name, grammar in _LOOSE_SUBCOMMANDS.items()}
# Subcommands whose first word may be a verb that changes something: it must be one of these, and stand first.
_VERBS: Mapping[str, frozenset[str]] = {
    "stash": names("list show"),
    "worktree": names("list"),
    "reflog": names("show"),
    "remote": names("get-url"),
}
_SHOW_WITHOUT_VERB = names("reflog remote")
_CHECKS_SIGNATURES = regex(r"%[-+ ]?G|signature")
# What git does itself, under names that nothing can give to anything else.
GIT_OWN = frozenset(_SUBCOMMANDS) | names(
    """add am apply archive bisect bundle checkout checkout-index cherry cherry-pick clean clone column commit
    commit-tree config diff-pairs fast-export fast-import fetch format-patch fsck gc hash-object help init ls-remote
    maintenance merge merge-file merge-tree mktag mktree mv notes pack-refs prune pull push range-diff read-tree rebase
    replace repack reset restore rerere revert rm send-pack sparse-checkout stripspace switch symbolic-ref
    unpack-objects update-index update-ref update-server-info var verify-commit verify-pack verify-tag write-tree"""
)
_FORCES_LIST = names("l list contains no-contains merged no-merged points-at")


def check_git(args: Sequence[str], within: IsWithin | None) -> None:
    """Raise UnsafeUsageError unless git would only show what the repository of this folder holds."""
    if within is None:
        raise UnsafeUsageError("it reads a repository, not its standard input")
    index = 0
    while index < len(args) and args[index].startswith("-"):
        if args[index] not in _BEFORE:
            raise UnsafeUsageError(
                f"its option {args[index].partition('=')[0]!r} may bring another repository or configuration"
            )
        index += 1
    if index == len(args):
        return
    name = args[index]
    grammar = _SUBCOMMANDS.get(name)
    if grammar is None:
        raise UnsafeUsageError(f"'git {name}' is not one of those that only show")
    rest = [_strip_number(word) for word in args[index + 1 :]]
    use = read_use(rest, grammar, within)
    _check_operands(name, rest, use)
    for option, value in use.options:
        if _CHECKS_SIGNATURES.search(value):
            raise UnsafeUsageError("its format has signatures checked by another program")
        if option == "diff-merges" and value.startswith("r"):
            raise UnsafeUsageError("it merges again to compare, and writes for that")
        if value not in _SUBMODULE_VALUES.get(option, (value,)):
            raise UnsafeUsageError(f"--{option}={value} runs git in other repositories")
    skipped = 1 if name == "grep" and not use.has("e") else 0  # the pattern
    paths = use.operands[skipped:]
    # either what stands before the colon of `HEAD:a` or the whole word can be a path of this machine
    check_paths([*paths, *(word.partition(":")[0] or word for word in paths)], within)


def restrain_git(args: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments with options that keep git from running drivers, and itself in submodules."""
    at = next((at for at, word in enumerate(args) if not word.startswith("-")), len(args))
    return (*args[: at + 1], *_RESTRAINTS.get("".join(args[at : at + 1]), ()), *args[at + 1 :])


_SUBMODULE_VALUES = {"ignore-submodules": ("", "all", "dirty"), "submodule": ("short",)}
_IN_DIFFS = ("--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty")
_RESTRAINTS = {
    "status": _IN_DIFFS[2:],
    **dict.fromkeys(names("diff diff-tree diff-index diff-files log show whatchanged"), _IN_DIFFS),
}

# Settings that bring no program and lead nowhere else, whatever they say, as far as git only shows.
_HARMLESS_SETTING = regex(
    r"""core\.(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol
      |safecrlf|quotepath|abbrev|sharedrepository|untrackedcache|preloadindex|longpaths|compression|whitespace
      |commentchar|sparsecheckout|sparsecheckoutcone)
    | extensions\.(?:objectformat|worktreeconfig|refstorage) | user\.(?:name|email) | gc\.auto | index\.version
    | remote\.(?:pushdefault|.+\.(?:url|fetch|pushurl|tagopt|prune|mirror)) | submodule\..+\.(?:url|active|branch|path)
    | (?:advice|branch|color|fetch|init|lfs|pull|push|rebase)\..+ | log\.(?:date|decorate|abbrevcommit|follow)
    | diff\.(?:algorithm|renames|renamelimit|colormoved|mnemonicprefix|noprefix|context|indentheuristic)
    | status\.(?:short|branch|showstash|showuntrackedfiles|relativepaths)""",
    re.VERBOSE,
)
_SECTION = regex(r'\[([A-Za-z0-9.-]+)(?:[ \t]+"((?:[^"\\]|\\["\\])*)")?\]')
_KEY = regex(r"([A-Za-z][A-Za-z0-9-]*)[ \t]*(?:=.*)?", re.DOTALL)


def find_unsafe_setting(text: str) -> str:
    """Return a setting in a repository's configuration that is not known to be harmless, or a line that is not plain.

    Plain is less than git reads: whatever both could read differently is returned.
    """
    section = ""
    for line in text.split("\n"):
        line = line.removesuffix("\r").strip(" \t")
        if not line or line[0] in "#;":
            continue
        if found := _SECTION.fullmatch(line):
            section = f"{found[1]}.{found[2]}" if found[2] is not None else found[1]
        elif not section or line.endswith("\\") or not (found := _KEY.fullmatch(line)):
            return line
        elif not _HARMLESS_SETTING.fullmatch(name := f"{section}.{found[1]}".lower()):
            return name
    return ""


def _strip_number(word: str) -> str:
    """Return a short option with an optional number as the grammar reads it: -M90% is -M, -U3 stays."""
    if len(word) > 2 and word[0] == "-" and word[1] in "MCBX" and word[2:].rstrip("%").isdigit():
        return word[:2]
    return word


def _check_operands(name: str, words: Sequence[str], use: Use) -> None:
    operands = use.operands
    if any(word.startswith("-") and word != "-" for word in operands):
        raise UnsafeUsageError("a word behind its '--' begins with a dash, and may still be read as an option")
    if name in _VERBS:
        verb = words[0] if words else ""
        if not (verb in _VERBS[name] if operands else name in _SHOW_WITHOUT_VERB):
            spelled = f"git {name} {operands[0]}" if operands else f"git {name}"
            raise UnsafeUsageError(f"{spelled!r} is not one of those that only show; the verb must be the first word")
    if name in ("branch", "tag") and operands and not use.has(*_FORCES_LIST):
        raise UnsafeUsageError(f"'git {name} {operands[0]}' makes one")
