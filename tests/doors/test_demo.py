"""toolcrib demo landing, as a process: a page that is measured here anew, an end by Ctrl-C, and refusals."""

import json
import os
import signal
import subprocess
import urllib.request
from pathlib import Path

import pytest
from tests.examples.landing_world import measure, serve_folder

from toolcrib import Image

from .test_process import SECONDS, done, started
from .world import ask, refused


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may have keys; the rules answer here."""
    for name in list(os.environ):
        if name.endswith("_API_KEY") or name.startswith("TOOLCRIB_"):
            monkeypatch.delenv(name)


@pytest.mark.anyio
async def test_the_page_is_built_mended_and_good_by_a_measure_of_our_own(tmp_path: Path) -> None:
    site = tmp_path / "site"
    ran = done("demo", "landing", "Kiln: pottery & <glaze> for beginners", "--json", "--folder", site)
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert (told["model"], told["score"], told["issues"], told["folder"]) == ("scripted:landing", 100, [], str(site))
    assert told["url"].startswith("http://127.0.0.1:")
    assert told["until"] == "this command ends"
    assert told["validations"] > 1  # the first draft had faults
    assert told["seconds"] < 60
    shots = {
        viewport: Image(Path(path).read_bytes(), "image/png").sides for viewport, path in told["screenshots"].items()
    }
    assert shots == {"desktop": (1440, 900), "tablet": (768, 1024), "mobile": (375, 812)}
    assert "Kiln is pottery &amp; &lt;glaze&gt; for beginners" in (site / "index.html").read_text()
    assert "score 100; no issues" in ran.stderr  # how it goes is told beside the answer
    with serve_folder(site) as url:
        measured = await measure(url)
    assert {width: found["width"] for width, found in measured.items()} == {1440: 1440, 768: 768, 375: 375}
    for found in measured.values():
        assert [each for each in found["violations"] if each[1] in ("serious", "critical")] == []


@pytest.mark.anyio
async def test_the_draft_that_it_begins_with_has_the_faults(tmp_path: Path) -> None:
    draft = Path(__file__).parents[2] / "examples" / "landing_builder" / "draft"
    with serve_folder(draft) as url:
        measured = await measure(url)
    assert measured[375]["width"] > 375
    assert {"image-alt", "html-has-lang"} <= {rule for rule, _ in measured[1440]["violations"]}


def until(process: subprocess.Popen[str], words: str) -> str:
    """Return what stderr says up to a line with these words."""
    assert process.stderr is not None
    heard = ""
    for line in process.stderr:
        heard += line
        if words in line:
            return heard
    raise AssertionError(heard)


def test_it_is_served_until_ctrl_c() -> None:
    with started(["demo", "landing", "--json", "--serve"], start_new_session=True) as process:
        heard = until(process, "Serving it until Ctrl-C.")
        url = next(line for line in heard.splitlines() if "is ready at" in line).split()[-1]
        with urllib.request.urlopen(url) as page:
            assert b"Nightjar" in page.read()
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: Chromium gets it, too
        out, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, json.loads(out)["url"], err) == (0, url, "")


def test_ctrl_c_on_the_way_ends_it() -> None:
    with started(["demo", "landing"], start_new_session=True) as process:
        until(process, "preview_screenshot")
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert err.endswith("toolcrib: interrupted\n")
    assert "Traceback" not in err


def test_a_folder_with_something_in_it_is_left_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("mine")
    answer = ask(capsys, "demo", "landing", "--folder", tmp_path)
    assert refused(answer) == f"--folder {tmp_path} is there already; name a new or an empty one"
    assert (tmp_path / "index.html").read_text() == "mine"


def test_a_model_that_there_is_no_key_for_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    answer = ask(capsys, "demo", "landing", "--folder", tmp_path / "new", "--model", "openai:gpt-5")
    assert "OPENAI_API_KEY" in refused(answer)
