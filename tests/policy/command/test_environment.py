"""Variables: what loads, runs or redirects something is asked about; what a program merely reads is not."""

import pytest

from toolcrib.policy.command import judge
from toolcrib.policy.command.environment import unsafe_names
from toolcrib.policy.command.options import names

from .rooms import DEV, LOOK_UP, rules_of

UNSAFE = names(
    """
    LD_PRELOAD LD_AUDIT LD_LIBRARY_PATH DYLD_INSERT_LIBRARIES ld_preload PATH BASH_ENV ENV IFS PS4 SHELLOPTS
    BASH_FUNC_ls PROMPT_COMMAND HOME XDG_CONFIG_HOME TMPDIR GIT_DIR GIT_EXTERNAL_DIFF GIT_CONFIG_PARAMETERS
    GIT_CONFIG_COUNT GIT_SSH GIT_PAGER GIT_EDITOR GIT_ASKPASS GIT_TRACE GIT_CONFIG_GLOBAL PAGER LESSOPEN EDITOR VISUAL
    BROWSER RIPGREP_CONFIG_PATH GREP_OPTIONS TAR_OPTIONS JQ_LIBRARY_PATH PYTHONPATH PYTHONHOME PYTHONSTARTUP
    PYTHONINSPECT PYTHONWARNINGS PYTHONBREAKPOINT PYTEST_ADDOPTS PYTEST_PLUGINS NODE_OPTIONS NODE_PATH
    NPM_CONFIG_SCRIPT_SHELL PERL5OPT PERL5LIB PERL5DB RUBYOPT RUBYLIB JAVA_TOOL_OPTIONS _JAVA_OPTIONS CLASSPATH
    MAVEN_OPTS GRADLE_OPTS MAKEFLAGS CC CFLAGS RUSTC_WRAPPER CARGO_HOME GOFLAGS GCONV_PATH LOCPATH NLSPATH
    GLIBC_TUNABLES MALLOC_CHECK_ HOSTALIASES RES_OPTIONS HTTP_PROXY https_proxy ALL_PROXY SSL_CERT_FILE SSLKEYLOGFILE
    CURL_HOME OPENSSL_CONF DOCKER_HOST KUBECONFIG AWS_CONFIG_FILE TERMINFO MANPAGER INPUTRC VIMINIT EXINIT LUA_INIT
    PHPRC ZDOTDIR SSH_ASKPASS SUDO_ASKPASS COMPOSER_HOME MY_PRELOAD FOO_OPTIONS
    """
)
SAFE = names(
    """
    LANG LC_ALL LC_TIME TZ TERM NO_COLOR FORCE_COLOR CI DEBUG NODE_ENV PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE
    PYTHONHASHSEED GIT_AUTHOR_NAME GIT_COMMITTER_DATE GIT_TERMINAL_PROMPT API_BASE API_URL FOO MY_FLAG X A1 APP_NAME
    PORT HOSTNAME LOG_LEVEL FEATURE_X DATABASE_NAME RUST_BACKTRACE COLUMNS GOAL EXAMPLE USERNAME_HINT OPTION
    """
)


@pytest.mark.parametrize("name", sorted(UNSAFE))
def test_a_variable_that_changes_what_runs_is_asked_about(name: str) -> None:
    found = judge("ls", DEV, LOOK_UP, env={name: "x"})
    assert (found.decision, name in found.reason) == ("ask", True)


@pytest.mark.parametrize("name", sorted(SAFE))
def test_a_variable_that_is_merely_read_passes(name: str) -> None:
    assert judge("ls", DEV, LOOK_UP, env={name: "$(id); x"}).decision == "run"


@pytest.mark.parametrize("name", ["", "A B", "A=B", "1A", "é", "A\n", "A" * 200])
def test_what_cannot_name_a_variable_is_asked_about(name: str) -> None:
    assert unsafe_names([name], frozenset()) == [name]


def test_the_operator_may_permit_a_name() -> None:
    rules = rules_of(readOnly=["ls"], env=["GIT_DIR"])
    assert judge("GIT_DIR=x ls", rules, LOOK_UP, env={"GIT_DIR": "y"}).decision == "run"


def test_a_variable_set_in_the_line_is_judged_like_one_beside_it() -> None:
    assert judge("LD_PRELOAD=x ls", DEV, LOOK_UP).reason == judge("ls", DEV, LOOK_UP, env={"LD_PRELOAD": "x"}).reason
