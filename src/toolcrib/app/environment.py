"""The environment of commands: built from safe basics and what the operator lends by name, never inherited."""

from collections.abc import Mapping

__all__ = ["environment_of", "is_forbidden"]

# Never a call's to set, whatever the rules say: they make loaders, shells and interpreters run something else.
_FORBIDDEN = frozenset({
    "PATH", "BASH_ENV", "ENV", "IFS", "SHELLOPTS", "BASHOPTS", "PS4", "PROMPT_COMMAND", "CDPATH", "GLOBIGNORE",
    "GCONV_PATH", "GLIBC_TUNABLES", "LOCPATH", "NODE_OPTIONS", "NODE_PATH", "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP",
    "RUBYLIB", "RUBYOPT", "PERL5LIB", "PERL5OPT", "PERL5DB", "SSLKEYLOGFILE",
})  # fmt: skip
_FORBIDDEN_BEGINNINGS = ("LD_", "DYLD_", "BASH_FUNC_")


def environment_of(
    environ: Mapping[str, str], trusted: tuple[str, ...], names: frozenset[str], *, terminal: bool = False
) -> dict[str, str]:
    """Return the environment that every command gets: safe basics, and what the operator lends by name."""
    basics = {
        "PATH": ":".join(trusted),
        "HOME": environ.get("HOME", "/tmp"),  # noqa: S108  in a sandbox it is private anyway
        "USER": environ.get("USER", "user"),
        "LOGNAME": environ.get("LOGNAME", environ.get("USER", "user")),
        "SHELL": "/bin/bash",
        "LANG": environ.get("LANG", "C.UTF-8"),
        "TERM": "xterm-256color" if terminal else "dumb",
    }
    if "TZ" in environ:
        basics["TZ"] = environ["TZ"]
    return {**basics, **{name: environ[name] for name in sorted(names) if name in environ}}


def is_forbidden(name: str) -> bool:
    """Tell whether a variable may never be set by a call, in whatever case it is written."""
    upper = name.strip().upper()
    return upper in _FORBIDDEN or upper.startswith(_FORBIDDEN_BEGINNINGS)
