"""find: starting points, then tests and actions; those that only test and print are named here."""

from collections.abc import Sequence

from .options import OddUseError, Within, check_path, names

__all__ = ["check_find"]

_ALONE = names(
    """! ( ) , -a -and -o -or -not -print -print0 -ls -prune -quit -depth -d -mount -xdev -empty -true -false -daystart
    -nouser -nogroup -readable -writable -executable -noleaf -nowarn -warn -ignore_readdir_race -noignore_readdir_race
    -help --help -version --version"""
)
_VALUE = names(
    """-name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -type -xtype -size -maxdepth -mindepth
    -mtime -mmin -atime -amin -ctime -cmin -perm -user -group -uid -gid -links -inum -used -fstype -lname -ilname
    -context -printf"""
)
_PATH = names("-newer -anewer -cnewer -samefile")


def check_find(args: Sequence[str], within: Within | None) -> None:
    """Raise OddUseError unless find would only list what lies in the workspace."""
    if within is None:
        raise OddUseError("it reads folders, not its standard input")
    at = 0
    while at < len(args) and args[at] in ("-P", "--"):
        at += 1
    while at < len(args):
        word = args[at]
        at += 1
        if word in _ALONE:
            continue
        if word in _VALUE:
            at += 1
        elif word in _PATH:
            check_path(args[at] if at < len(args) else "", within)
            at += 1
        elif word.startswith("-newer") and len(word) == len("-newerXY"):
            if word[-1] != "t":
                check_path(args[at] if at < len(args) else "", within)
            at += 1
        elif word.startswith("-"):
            raise OddUseError(f"its {word!r} is not one that only lists")
        else:
            check_path(word, within)
