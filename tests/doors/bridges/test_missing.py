"""A bridge whose package is missing says which extra brings it; nothing else imports a foreign package."""

import subprocess
import sys

import pytest

BLOCKED = "import sys; sys.path[:0] = {path!r}; sys.modules.update({{name: None for name in {names!r}}})\n{then}"
PACKAGES = ("openai", "anthropic", "google.genai", "pydantic_ai")


def ran_without_packages(then: str) -> subprocess.CompletedProcess[str]:
    """Run a program on a machine that has none of the packages."""
    program = BLOCKED.format(path=sys.path, names=PACKAGES, then=then)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    ("bridge", "package", "extra"),
    [("genai", "google-genai", "genai"), ("pydantic_ai", "pydantic-ai-slim", "pydantic-ai")],
)
@pytest.mark.parametrize("error", ["ImportError", "toolcrib.CribError"])
def test_a_missing_package_is_one_sentence_that_names_the_extra(
    bridge: str, package: str, extra: str, error: str
) -> None:
    told = ran_without_packages(
        f"import toolcrib\ntry: import toolcrib.doors.bridges.{bridge}\nexcept {error} as error: print(error)"
    )
    sentence = f"this bridge needs the package {package}; install it with: pip install 'toolcrib[{extra}]'\n"
    assert (told.returncode, told.stdout) == (0, sentence), told.stderr


@pytest.mark.parametrize("bridge", ["openai", "anthropic"])
def test_bridges_of_plain_json_want_no_package(bridge: str) -> None:
    told = ran_without_packages(
        f"import toolcrib\nfrom toolcrib.doors.bridges import {bridge} as bridge\n"
        "print(len(bridge.tools(toolcrib.open({}).belt(toolcrib.OWNER))) > 5)"
    )
    assert (told.returncode, told.stdout) == (0, "True\n"), told.stderr
