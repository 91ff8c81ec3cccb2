"""Set-up on machines of every kind, played by tiny fake programs on a PATH of their own; nothing is installed."""

import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

import pytest

PROJECT = Path(__file__).parents[1]
TOOLS = "cat cksum cp date dirname env find grep mkdir mv ps rm rmdir sed sh sleep tail tr"

Lock = Literal["flock", "mkdir"]
both_locks = pytest.mark.parametrize("lock", ["flock", "mkdir"])
pytestmark = pytest.mark.timeout(120)

PYTHON = """#!/bin/sh
case $1 in -c) echo "${0##*/} -c" ;; *) echo "${0##*/} $*" ;; esac >>"$WORLD/calls"
case "$*" in
  -c*) echo "3.11.9 $0" ;;
  "-m venv .venv")
    [ ! -e "$WORLD/venv-is-missing" ] || { echo "ensurepip is not available"; exit 1; }
    mkdir -p .venv/bin && cp "$0" .venv/bin/python && echo "executable = $0" >.venv/pyvenv.cfg ;;
  "-m pip config list") cat "$WORLD/pip-settings" ;;
  "-m pip install"*" uv") cp "$WORLD/uv" .venv/bin/uv ;;
  "-m pip install"*" -e "*) [ ! -e "$WORLD/pip-fails" ] || { echo "pip has no network"; exit 1; }
    cp "$WORLD/echo" .venv/bin/toolcrib ;;
esac
"""

UV = """#!/bin/sh
echo "uv $*" >>"$WORLD/calls"
env | grep -E '^(UV_|SSL_CERT_FILE)' >"$WORLD/uv-env"
[ ! -p "$WORLD/gate" ] || read -r _ <"$WORLD/gate"
[ ! -e "$WORLD/uv-fails" ] || exit 1
for name in toolcrib ruff mypy; do cp "$WORLD/echo" ".venv/bin/$name"; done
"""

ECHO = """#!/bin/sh
echo "${0##*/} $*"
[ ! -e "$WORLD/${0##*/}-fails" ]
"""

APT = """#!/bin/sh
echo "apt-get $* ($DEBIAN_FRONTEND)" >>"$WORLD/calls"
case "$*" in
  *update) rm -f "$WORLD/lists-are-old" ;;
  *) [ ! -e "$WORLD/lists-are-old" ] || exit 100
    rm -f "$WORLD/venv-is-missing" ;;
esac
"""

BROKEN_SHIM = "#!/bin/sh\necho 'pyenv: command not found' >&2\nexit 127\n"

UV_INSTALL = "uv pip install --python .venv/bin/python -c constraints.txt -b constraints.txt -e "


@dataclass(frozen=True)
class Machine:
    """A project folder and a PATH that holds the shell's everyday tools and whatever fakes a test adds."""

    world: Path
    fakes: Path
    project: Path

    def program(self, name: str, text: str, folder: str = "fakes") -> Path:
        path = self.world / folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    def mark(self, *names: str) -> None:
        for name in names:
            (self.world / name).touch()

    def calls(self) -> list[str]:
        """The fake programs' calls since this was last asked."""
        record = self.world / "calls"
        lines = record.read_text().splitlines() if record.exists() else []
        record.unlink(missing_ok=True)
        return lines

    def start(self, *command: str, path: str = "fakes:tools", **env: str) -> subprocess.Popen[str]:
        folders = ":".join(str(self.world / folder) for folder in path.split(":"))
        return subprocess.Popen(
            ["sh", *command],
            cwd=self.project,
            env={"PATH": folders, "WORLD": str(self.world), **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *command: str, path: str = "fakes:tools", **env: str) -> tuple[int, str, str]:
        process = self.start(*command, path=path, **env)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def close_gate(self) -> Path:
        """Make the next installation wait until somebody writes to the gate."""
        gate = self.world / "gate"
        os.mkfifo(gate)
        return gate


def machine(tmp_path: Path, *, root: bool = False, apt: bool = False, lock: Lock = "flock") -> Machine:
    here = Machine(tmp_path, tmp_path / "fakes", tmp_path / "the project")
    for name in ("run", "check", "bin/bootstrap", ".ci/run"):
        (here.project / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PROJECT / name, here.project / name)
    (here.project / ".ci/page").mkdir()
    (here.project / ".ci/page/run").touch()  # what reads the page needs npm and a network
    (here.project / "constraints.txt").write_text("uv==1\n")
    (here.project / "pyproject.toml").write_text("")
    (tmp_path / "pip-settings").touch()
    (tmp_path / "tools").mkdir()
    for name in TOOLS.split() + ["flock"] * (lock == "flock"):
        if real := shutil.which(name):
            (tmp_path / "tools" / name).symlink_to(real)
    here.program("uv", UV, folder=".")
    here.program("echo", ECHO, folder=".")
    here.program("id", f"#!/bin/sh\necho {0 if root else 1000}\n")
    here.program("python3.11", PYTHON)
    if apt:
        here.program("apt-get", APT)
    return here


def read_line(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline()


def test_a_fresh_checkout_is_set_up_and_runs_the_main_job(tmp_path: Path) -> None:
    here = machine(tmp_path)
    assert here.run("run") == (0, "toolcrib chat\n", "toolcrib: setting up .venv with Python 3.11.9 ...\n")
    assert here.calls() == [
        "python3.11 -c",
        "python3.11 -m venv .venv",
        "python -m pip config list",
        "python -m pip install -c constraints.txt uv",
        UV_INSTALL + ".",
    ]


def test_stdout_belongs_to_toolcrib(tmp_path: Path) -> None:
    here = machine(tmp_path)
    assert here.run("run", "explain", "--json")[:2] == (0, "toolcrib explain --json\n")


def test_an_up_to_date_environment_starts_no_python(tmp_path: Path) -> None:
    here = machine(tmp_path)
    here.run("run")
    here.calls()
    assert here.run("run", "a b") == (0, "toolcrib a b\n", "")
    assert here.calls() == []


def test_a_broken_shim_and_an_old_python_are_passed_over(tmp_path: Path) -> None:
    here = machine(tmp_path)
    here.program("python3.11", BROKEN_SHIM)
    here.program("python3.12", "#!/bin/sh\nexit 1\n")
    here.program("python3", PYTHON)
    assert here.run("bin/bootstrap")[0] == 0
    assert here.calls()[:2] == ["python3 -c", "python3 -m venv .venv"]


def test_a_broken_shim_does_not_hide_the_same_python_further_down_the_path(tmp_path: Path) -> None:
    here = machine(tmp_path)
    here.program("python3.11", BROKEN_SHIM, folder="shims")
    here.program("python3.12", PYTHON, folder="shims")
    assert here.run("bin/bootstrap", path="shims:fakes:tools")[0] == 0
    assert here.calls()[:2] == ["python3.11 -c", "python3.11 -m venv .venv"]


def test_without_python_one_sentence_names_the_remedy(tmp_path: Path) -> None:
    here = machine(tmp_path)
    here.program("python3.11", BROKEN_SHIM)
    status, out, err = here.run("run")
    assert (status, out) == (2, "")
    assert err == (
        "toolcrib: no Python 3.11 or newer runs here; "
        "install one (on Debian: apt-get install python3 python3-venv) and try again\n"
    )


@pytest.mark.parametrize(("root", "apt"), [(True, False), (False, True)])
def test_where_venv_is_missing_and_we_may_not_install_it_the_package_is_named(
    tmp_path: Path, root: bool, apt: bool
) -> None:
    here = machine(tmp_path, root=root, apt=apt)
    here.mark("venv-is-missing")
    status, _, err = here.run("check", "cases")
    assert status == 2
    assert err.endswith("install the Debian package python3-venv or python3.11-venv\n")
    assert not [call for call in here.calls() if call.startswith("apt-get")]


def test_where_venv_is_missing_root_installs_it_without_questions(tmp_path: Path) -> None:
    here = machine(tmp_path, root=True, apt=True)
    here.mark("venv-is-missing", "lists-are-old")
    assert here.run("run")[:2] == (0, "toolcrib chat\n")
    install = "-y -o DPkg::Lock::Timeout=300 install --no-install-recommends python3.11-venv (noninteractive)"
    assert [call for call in here.calls() if call.startswith("apt-get")] == [
        f"apt-get {install}",
        "apt-get -y -o DPkg::Lock::Timeout=300 update (noninteractive)",
        f"apt-get {install}",
    ]


@pytest.mark.parametrize("root", [True, False])
def test_missing_debian_packages_are_installed_or_else_named(tmp_path: Path, root: bool) -> None:
    here = machine(tmp_path, root=root, apt=True)
    script = here.project / "bin/bootstrap"
    script.write_text(re.sub(r"^packages=.*", 'packages="sh:dash bwrap:bubblewrap"', script.read_text(), flags=re.M))
    status, _, err = here.run("bin/bootstrap")
    assert status == 0
    installed = [call for call in here.calls() if call.startswith("apt-get")]
    if root:
        assert len(installed) == 1
        assert installed[0].endswith(" bubblewrap (noninteractive)")
    else:
        assert installed == []
        assert err.endswith("unavailable until these Debian packages are installed: bubblewrap\n")


def test_a_half_made_environment_is_made_anew(tmp_path: Path) -> None:
    here = machine(tmp_path)
    here.mark("uv-fails", "pip-fails")
    assert here.run("run")[0] == 2
    (here.project / ".venv/rubble").touch()
    (here.world / "uv-fails").unlink()
    here.calls()
    assert here.run("run")[0] == 0
    assert "python3.11 -m venv .venv" in here.calls()
    assert not (here.project / ".venv/rubble").exists()


@pytest.mark.parametrize("changed", ["constraints.txt", "pyproject.toml", "bin/bootstrap", ".venv/pyvenv.cfg"])
def test_an_outdated_environment_is_updated_in_place_with_the_extras_it_had(tmp_path: Path, changed: str) -> None:
    here = machine(tmp_path)
    here.run("bin/bootstrap", "dev")
    here.calls()
    with (here.project / changed).open("a") as file:
        file.write("# newer\n")
    assert here.run("run") == (0, "toolcrib chat\n", "toolcrib: updating .venv ...\n")
    calls = here.calls()
    assert calls[-1] == UV_INSTALL + ".[dev]"
    assert not [call for call in calls if "venv .venv" in call]


def test_an_environment_whose_python_is_gone_is_made_anew(tmp_path: Path) -> None:
    here = machine(tmp_path)
    here.run("run")
    (here.project / ".venv/bin/python").unlink()
    here.calls()
    assert here.run("run")[0] == 0
    assert "python3.11 -m venv .venv" in here.calls()


def test_an_environment_that_moved_is_made_anew(tmp_path: Path) -> None:
    here = machine(tmp_path)
    here.run("run")
    here.calls()
    here.project.rename(tmp_path / "moved")
    there = Machine(tmp_path, here.fakes, tmp_path / "moved")
    assert there.run("run")[0] == 0
    assert "python3.11 -m venv .venv" in there.calls()


def test_an_environment_somebody_else_made_is_kept(tmp_path: Path) -> None:
    here = machine(tmp_path)
    (here.project / ".venv/bin").mkdir(parents=True)
    here.program("python", PYTHON, folder="the project/.venv/bin")
    here.mark("uv-fails", "pip-fails")
    assert [here.run("run")[0], here.run("run")[0]] == [2, 2]
    assert not [call for call in here.calls() if "venv .venv" in call]


def test_run_and_check_share_one_environment(tmp_path: Path) -> None:
    here = machine(tmp_path)
    commands = [("run",), ("check", "fix"), ("run",), ("check", "fix")]
    assert [here.run(*command)[0] for command in commands] == [0, 0, 0, 0]
    assert [call for call in here.calls() if call.startswith("uv")] == [UV_INSTALL + ".", UV_INSTALL + ".[dev]"]


def test_where_uv_fails_pip_installs_the_same(tmp_path: Path) -> None:
    here = machine(tmp_path)
    here.mark("uv-fails")
    assert here.run("bin/bootstrap", "dev")[0] == 0
    assert here.calls()[-1] == "python -m pip install -c constraints.txt -e .[dev]"


def test_a_failed_update_shows_the_log_and_leaves_what_worked(tmp_path: Path) -> None:
    here = machine(tmp_path)
    here.run("run")
    here.mark("uv-fails", "pip-fails")
    (here.project / "constraints.txt").write_text("uv==2\n")
    status, out, err = here.run("run")
    assert (status, out) == (2, "")
    assert "pip has no network\n" in err
    assert err.endswith(f"the whole log is {here.project}/.venv/setup.log\n")
    (here.project / "constraints.txt").write_text("uv==1\n")
    assert here.run("run") == (0, "toolcrib chat\n", "")


@both_locks
def test_of_two_started_at_once_one_builds_and_both_work(tmp_path: Path, lock: Lock) -> None:
    here = machine(tmp_path, lock=lock)
    gate = here.close_gate()
    first = here.start("run", "first")
    with gate.open("w") as opened:  # waits until the first is installing
        second = here.start("run", "second")
        assert read_line(second.stderr).startswith("toolcrib: waiting for another set-up of .venv")
        opened.write("go\n")
    assert [first.communicate(timeout=120)[0], second.communicate(timeout=120)[0]] == [
        "toolcrib first\n",
        "toolcrib second\n",
    ]
    assert here.calls().count(UV_INSTALL + ".") == 1


@both_locks
def test_an_interrupted_set_up_leaves_no_lock_behind(tmp_path: Path, lock: Lock) -> None:
    here = machine(tmp_path, lock=lock)
    gate = here.close_gate()
    first = here.start("run")
    with gate.open("w"):
        os.killpg(first.pid, signal.SIGTERM)
        first.communicate(timeout=120)
    assert first.returncode != 0
    gate.unlink()
    assert here.run("run") == (0, "toolcrib chat\n", "toolcrib: setting up .venv with Python 3.11.9 ...\n")


def test_the_lock_of_a_dead_process_is_taken_over(tmp_path: Path) -> None:
    here = machine(tmp_path, lock="mkdir")
    dead = subprocess.Popen(["true"])
    dead.wait(timeout=120)
    (here.project / ".venv/.setup.lock.d").mkdir(parents=True)
    (here.project / ".venv/.setup.lock.d/pid").write_text(f"{dead.pid}\n")
    assert here.run("run")[:2] == (0, "toolcrib chat\n")
    assert list((here.project / ".venv").glob(".setup.lock*")) == []


def test_pips_indexes_reach_uv_without_files_and_missing_folders(tmp_path: Path) -> None:
    here = machine(tmp_path)
    (tmp_path / "wheels").mkdir()
    (tmp_path / "pip-settings").write_text(
        f":env:.find-links='{tmp_path}/gone {tmp_path}/wheels'\n"
        "global.index-url='https://index.test/simple'\n"
        "global.extra-index-url='\\nfile:///opt/gone/simple\\nhttps://more.test/simple'\n"
        "global.find-links='/never'\n"
        f"global.cert='{tmp_path}/pip-settings'\n"
    )
    assert here.run("bin/bootstrap")[0] == 0
    assert sorted((tmp_path / "uv-env").read_text().splitlines()) == [
        f"SSL_CERT_FILE={tmp_path}/pip-settings",
        "UV_DEFAULT_INDEX=https://index.test/simple",
        f"UV_FIND_LINKS={tmp_path}/wheels",
        "UV_INDEX=https://more.test/simple",
        "UV_INDEX_STRATEGY=unsafe-best-match",
    ]


def test_uvs_own_settings_win_over_pips(tmp_path: Path) -> None:
    here = machine(tmp_path)
    (tmp_path / "pip-settings").write_text("global.index-url='https://index.test/simple'\n")
    assert here.run("bin/bootstrap", UV_DEFAULT_INDEX="https://own.test/simple")[0] == 0
    assert (tmp_path / "uv-env").read_text() == "UV_DEFAULT_INDEX=https://own.test/simple\n"


@pytest.mark.parametrize("setting", [":env:.no-index='1'", "global.index-url='file:///srv/mirror/simple'"])
def test_uv_stays_out_where_pip_may_not_ask_the_public_index(tmp_path: Path, setting: str) -> None:
    here = machine(tmp_path)
    (tmp_path / "pip-settings").write_text(f"{setting}\n")
    assert here.run("run")[:2] == (0, "toolcrib chat\n")
    assert here.calls()[-2:] == [
        "python -m pip config list",
        "python -m pip install -c constraints.txt -e .",
    ]


def test_check_runs_every_step_and_names_those_that_failed(tmp_path: Path) -> None:
    here = machine(tmp_path)
    here.mark("ruff-fails")
    status, out, _ = here.run("check")
    assert status == 1
    assert [line.split(",")[0] for line in out.splitlines() if line.startswith("-- ")] == [
        "-- format: FAILED",
        "-- lint: FAILED",
        "-- types: ok",
        "-- page: ok",
        "-- quick: ok",
        "-- processes: ok",
        "-- browser: ok",
        "-- cases: ok",
    ]
    assert out.endswith("\nFAILED: format lint\n")


def test_check_full_adds_the_campaigns_and_the_benchmarks(tmp_path: Path) -> None:
    here = machine(tmp_path)
    status, out, _ = here.run("check", "full")
    assert (status, out.splitlines()[-1]) == (0, "all good")
    every = "-n auto --maxprocesses=8 --dist worksteal"
    most = "-m not full --ignore tests/cases/test_cases.py"
    assert here.calls()[-6:] == [
        *(
            f"python -m pytest {every} --lane {lane} {most} --junitxml=.venv/tests-{lane}.xml"
            for lane in ("quick", "processes", "browser")
        ),
        "python -m tests.cases",
        f"python -m pytest {every} -m full --timeout=1800",
        "python -m benchmarks",
    ]


@pytest.mark.parametrize(("words", "status"), [(("nonsense",), 2), (("fix", "more"), 2), (("--help",), 0)])
def test_check_explains_itself_without_setting_anything_up(tmp_path: Path, words: tuple[str, ...], status: int) -> None:
    here = machine(tmp_path)
    code, out, err = here.run("check", *words)
    assert code == status
    assert (out + err).startswith("usage: ./check")
    assert here.calls() == []


@pytest.mark.parametrize(
    ("skip", "status"),
    [
        ("", 0),
        ('<skipped type="pytest.skip" message="impossible here: no /dev/kvm"/>', 0),
        ('<skipped type="pytest.xfail" message="known"/>', 0),
        ('<skipped type="pytest.skip" message="slow"/>', 1),
        ("<skipped message=\"collection skipped\">('a.py', 1, 'Skipped: impossible here: no bwrap')</skipped>", 0),
        ("<skipped message=\"collection skipped\">('a.py', 1, 'Skipped: no module')</skipped>", 1),
    ],
)
def test_ci_fails_on_a_skip_that_is_not_called_impossible(tmp_path: Path, skip: str, status: int) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(PROJECT / ".ci/run", tmp_path / ".ci/run")
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").symlink_to(sys.executable)
    report = f'<testsuites><testcase classname="tests.a" name="test_b">{skip}</testcase></testsuites>'
    (tmp_path / "report").write_text(report)
    (tmp_path / "check").write_text("for lane in quick processes browser; do cp report .venv/tests-$lane.xml; done\n")
    ended = subprocess.run(["bash", tmp_path / ".ci/run"], cwd="/", capture_output=True, text=True, check=False)
    assert ended.returncode == status
    assert ("tests.a.test_b" in ended.stderr) == (status == 1)
