"""Variables that a command may be given: by name, because a value means whatever the program makes of it.

Names that are known to be harmless pass, and so do names that no program we know of reads; a name that belongs to a
family of variables which load, run or redirect something does not.
"""

from collections.abc import Iterable

from toolcrib.lazy import regex

from .options import names


def _configure(text: str) -> dict[str, str]:
    """Return settings of git as variables, which win over whatever a repository says."""
    pairs = [pair.partition("=") for pair in text.split()]
    named = {f"GIT_CONFIG_KEY_{index}": pair[0] for index, pair in enumerate(pairs)}
    return {
        "GIT_CONFIG_COUNT": str(len(pairs)),
        **named,
        **{f"GIT_CONFIG_VALUE_{i}": p[2] for i, p in enumerate(pairs)},
    }


_OFF = "core.fsmonitor=false core.hooksPath=/dev/null"
# How every command is run, whatever it is given: git without configuration from outside, hooks or helpers.
FIXED = {
    "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_PAGER": "cat", "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0", **_configure(_OFF),
}  # fmt: skip
# How a line is run besides that only reads: git starts nothing, fetches nothing, and takes no folder for a repository
# because somebody wrote the files of one.
HELD = FIXED | {"GIT_ALLOW_PROTOCOL": "none", "GIT_ATTR_NOSYSTEM": "1", "GIT_NO_LAZY_FETCH": "1"}
HELD |= _configure(
    f"""{_OFF} safe.bareRepository=explicit log.showSignature=false gpg.program=false gpg.ssh.program=false
    gpg.x509.program=false gpg.openpgp.program=false core.sshCommand=false core.askPass=false core.pager=cat
    core.attributesFile=/dev/null protocol.allow=never diff.submodule=short diff.ignoreSubmodules=dirty
    status.submoduleSummary=false submodule.recurse=false"""
)

_HARMLESS = names(
    """
    LANG LANGUAGE TZ TERM COLUMNS LINES COLORTERM NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE CI DEBUG VERBOSE
    NODE_ENV NODE_NO_WARNINGS NODE_DISABLE_COLORS NPM_CONFIG_LOGLEVEL NPM_CONFIG_PROGRESS NPM_CONFIG_FUND
    NPM_CONFIG_AUDIT PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONHASHSEED PYTHONIOENCODING PYTHONUTF8
    PYTHONFAULTHANDLER PYTHONOPTIMIZE PYTHONNOUSERSITE PYTHONSAFEPATH PYTHONDEVMODE PYTHONASYNCIODEBUG
    PYTHONTRACEMALLOC PYTEST_DISABLE_PLUGIN_AUTOLOAD PIP_NO_INPUT PIP_QUIET PIP_NO_COLOR
    PIP_DISABLE_PIP_VERSION_CHECK GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE GIT_COMMITTER_NAME
    GIT_COMMITTER_EMAIL GIT_COMMITTER_DATE GIT_TERMINAL_PROMPT GIT_OPTIONAL_LOCKS GIT_LITERAL_PATHSPECS
    GIT_MERGE_AUTOEDIT GIT_ADVICE RUST_BACKTRACE RUST_LOG CARGO_TERM_COLOR CARGO_INCREMENTAL CARGO_NET_OFFLINE
    GOOS GOARCH CGO_ENABLED GOMAXPROCS DJANGO_DEBUG FLASK_DEBUG FLASK_ENV RAILS_ENV RACK_ENV APP_ENV LOG_LEVEL
    GREP_COLORS LS_COLORS SOURCE_DATE_EPOCH DEBIAN_FRONTEND OMP_NUM_THREADS MAKELEVEL
"""
)
_LOCALE = regex(r"LC_[A-Z]+")
_NAME = regex(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
# Beginnings of what loaders, shells, interpreters, build tools, version control and network libraries read.
_GLUED = (
    "LD_", "DYLD_", "_RLD", "_JAVA", "BASH", "ZDOT", "PYTHON", "PYTEST", "PERL", "RUBY", "NODE", "NPM", "GIT", "SSH",
    "GPG", "SUDO", "LESS", "MAKE", "CMAKE", "CARGO", "RUST", "JAVA", "LUA", "PHP", "TEX", "TERMINFO", "TERMCAP", "VIM",
    "EMACS", "NIX", "CURL", "SSL", "OPENSSL", "KRB5", "MAN", "GREP_", "RIPGREP", "GCONV", "KUBE", "PGP", "HIST", "XDG_",
    "BUNDLE", "CLASSPATH", "DOTNET", "CORECLR", "GLOBIGNORE", "GUILE", "OCAML", "CAML", "TERRAFORM", "FONTCONFIG",
)  # fmt: skip
# The same as whole first words: `GO` and `GO_...`, but not `GOAL`.
_FAMILIES = names(
    """
    GLIBC MALLOC LIBC MUSL ASAN LSAN UBSAN TSAN SHELL SHELLOPTS ZSH KSH FISH FPATH PS1 PS2 PS3 PS4 PROMPT IFS ENV
    CDPATH FCEDIT INPUTRC READLINE POSIXLY OPTIND OPTARG OPTERR PATH HOME USER LOGNAME PWD OLDPWD TMP TMPDIR TEMP
    MAIL DBUS DISPLAY WAYLAND SYSTEMD LISTEN NOTIFY SVN HG HGRCPATH CVS GNUPGHOME PINENTRY DOAS PY PIP UV CONDA
    VIRTUAL TOX NOX COVERAGE SETUPTOOLS TWINE GEM RAKE YARN PNPM BUN DENO TS ELECTRON TCL TCLLIBPATH R RSTUDIO
    JULIA NVIM EXINIT ERL ELIXIR MIX GHC STACK JDK JRE MAVEN MVN GRADLE ANT SBT KOTLIN SCALA COR MONO NUGET
    MSBUILD GO GOPATH GOROOT GOBIN GOFLAGS GOPROXY GOENV GOTOOLCHAIN GOMODCACHE GOCACHE GONOSUMDB GOPRIVATE
    GOINSECURE GOSUMDB CGO MFLAGS NINJA MESON AUTOMAKE ACLOCAL PKG CC CXX CPP CPATH LIBRARY LINK COMPILER GCC
    CLANG LLVM LDFLAGS CFLAGS CXXFLAGS CPPFLAGS DISTCC CCACHE GUIX MORE PAGER EDITOR VISUAL BROWSER TERMPATH RG JQ
    SED AWK GAWK AWKPATH AWKLIBPATH TAR GZIP BZIP BZIP2 XZ ZSTD ZIP ZIPOPT UNZIP UNZIPOPT RSYNC LOCPATH NLSPATH
    I18NPATH LOCALDOMAIN RES HOSTALIASES RESOLV NSS LDAP LDAPCONF SASL HTTP HTTPS FTP ALL NO SOCKS WGET WGETRC
    REQUESTS TLS NETRC AWS AZURE GOOGLE GCLOUD CLOUDSDK HELM DOCKER BUILDKIT COMPOSE PODMAN CONTAINER CONTAINERS
    VAGRANT ANSIBLE TF PULUMI PGPASSFILE PGSERVICEFILE PGHOST PGHOSTADDR PGSYSCONFDIR MYSQL SQLITE REDIS ORACLE
    ODBC ODBCINI TNS QT GTK GDK GIO GSETTINGS GST VK LIBGL MESA DRI CUDA NVIDIA ALSA PULSE MAGICK GS BIBINPUTS
    DOTENV DIRENV ASDF MISE PYENV RBENV NVM VOLTA SDKMAN HOMEBREW APT DPKG RPM DNF YUM SNAP STRACE GDB VALGRIND
    PERF TOOLCRIB OPENCLAW FUNCNAME LINENO EUID UID PPID SECCOMP DIFF CDROM KDE GNOME SPARK HADOOP AIRFLOW BABEL
    WEBPACK VITE JEST MOCHA TSX ESLINT PRETTIER HUSKY LEFTHOOK PRE
"""
)
# Words at the end of a name that say what its value does: options, places to load from, programs to run.
_SHAPES = regex(
    r"(?:^|_)(?:OPTS|OPTIONS|ADDOPTS|ARGS|FLAGS|PATHS?|PYTHONPATH|HOME|PRELOAD|LIBS?|LIBRARY|PLUGINS?|MODULES?|INCLUDE"
    r"|CONFIG(?:_\w+)?|CONF|RC|RCFILE|INIT|STARTUP|COMMAND|CMD|EXEC|EXECUTABLE|BIN|PROGRAM|PAGER|EDITOR|SHELL|HOOKS?"
    r"|ASKPASS|WRAPPER|PROXY|SOCK|SOCKET|CERT|CACERT|CA_BUNDLE|KEYLOGFILE|DIFF|HELPER|LOADER|AGENT|SITE)$"
)


def unsafe_names(given: Iterable[str], permitted: frozenset[str]) -> list[str]:
    """Return the names that a command may not be given unasked."""
    return [name for name in given if name not in permitted and not _is_safe(name)]


def _is_safe(name: str) -> bool:
    if not _NAME.fullmatch(name):
        return False
    upper = name.upper()  # some programs read their variables in either case
    if upper in _HARMLESS or _LOCALE.fullmatch(upper):
        return True
    if upper.startswith(_GLUED) or upper.partition("_")[0] in _FAMILIES:
        return False
    return _SHAPES.search(upper) is None
