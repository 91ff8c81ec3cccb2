"""The preview server: files of the web from one folder of the workspace, to this machine, and nothing else."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from toolcrib import ToolError
from toolcrib.testing import fake_ctx

from .landing_world import BUILDER, crib_in, module

pytestmark = pytest.mark.anyio

FILES = {
    "site/index.html": "<h1>Home</h1>", "site/a b.html": "spaced", "site/sub/index.html": "sub", "site/x.js": "1",
    "site/.env": "secret", "site/.git/config.html": "secret", "site/keys.pem": "secret", "site/app.py": "secret",
    "out.html": "secret", "site/noextension": "secret",
}  # fmt: skip


async def ask(port: int, request: str) -> tuple[int, str, str]:
    """Return the status, the head and the body of an answer to bytes as they are."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request.encode("latin-1"))
    try:
        async with asyncio.timeout(20):
            head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    finally:
        writer.close()
    return int(head.split()[1]) if head else 0, head.lower(), body


@pytest.fixture
async def preview() -> AsyncIterator[Any]:
    found = module("preview").Preview(fake_ctx(files=FILES).workspace, "site")
    yield found
    await found.close()


async def get(preview: Any, target: str, host: str = "127.0.0.1:{port}", verb: str = "GET") -> tuple[int, str, str]:
    return await ask(preview.port, f"{verb} {target} HTTP/1.1\r\nHost: {host.format(port=preview.port)}\r\n\r\n")


@pytest.mark.parametrize(
    ("target", "body"),
    [
        ("/", "<h1>Home</h1>"),
        ("/index.html?v=1", "<h1>Home</h1>"),
        ("/a%20b.html", "spaced"),
        ("/sub/", "sub"),
        ("//x.js", "1"),
    ],
)
async def test_a_file_of_the_page_is_served(preview: Any, target: str, body: str) -> None:
    status, head, found = await get(preview, target)
    assert (status, found) == (200, body)
    assert "content-security-policy: default-src 'self'" in head
    assert "x-content-type-options: nosniff" in head


@pytest.mark.parametrize(
    "target",
    ["/.env", "/keys.pem", "/app.py", "/../out.html", "/%2e%2e/out.html", "/sub/..%2f..%2fout.html",
     "/..%5cout.html", "/noextension", "/missing.html", "/%00.html", "/%ff.html", "/sub", "/x.js/", "//etc/passwd",
     "/.git/config.html"],
)  # fmt: skip
async def test_nothing_else_is(preview: Any, target: str) -> None:
    status, _, body = await get(preview, target)
    assert (status, body) == (404, "there is no such file here\n")


@pytest.mark.parametrize("host", ["evil.test", "evil.test:{port}", "127.0.0.1", "127.0.0.1:1", "[::1]:{port}"])
async def test_a_name_that_was_made_to_lead_here_is_refused(preview: Any, host: str) -> None:
    assert (await get(preview, "/", host))[0] == 403


@pytest.mark.parametrize("request_", ["POST / HTTP/1.1\r\n\r\n", "nonsense\r\n\r\n", "GET http://x/ HTTP/1.1\r\n\r\n"])
async def test_only_files_can_be_asked_for(preview: Any, request_: str) -> None:
    assert (await ask(preview.port, request_))[0] == 405


async def test_head_has_no_body_and_a_head_without_end_is_dropped(preview: Any) -> None:
    assert (await get(preview, "/", verb="HEAD"))[::2] == (200, "")
    assert (await ask(preview.port, "GET / HTTP/1.1\r\n" + "a: b\r\n" * 10_000))[0] == 0


async def test_a_request_without_a_host_is_refused(preview: Any) -> None:
    assert (await ask(preview.port, "GET / HTTP/1.1\r\n\r\n"))[0] == 403


async def test_a_session_has_one_preview_for_each_folder_and_its_end_closes_them() -> None:
    previews, ctx = module("preview").Previews(), fake_ctx(files=FILES, caller=BUILDER)
    first, again = await previews.open(ctx, "site"), await previews.open(ctx, "site")
    assert first is again
    await previews.close_session("agent:landing-builder:another")
    assert first.is_serving
    await previews.close_session(BUILDER.session)
    assert not first.is_serving
    with pytest.raises(OSError, match="onnect"):
        await asyncio.open_connection("127.0.0.1", first.port)


async def test_the_oldest_of_too_many_previews_is_closed() -> None:
    previews = module("preview").Previews()
    ctx = fake_ctx(files={f"s{number}/index.html": "" for number in range(9)}, caller=BUILDER)
    opened = [await previews.open(ctx, f"s{number}") for number in range(9)]
    assert [each.is_serving for each in opened] == [False, *[True] * 8]
    await previews.close_session(BUILDER.session)


async def test_a_folder_without_a_page_is_refused() -> None:
    with pytest.raises(ToolError, match=r"there is no page 'site/index\.html' .*; write it first"):
        await module("preview").Previews().open(fake_ctx(), "site")


async def test_deploying_tells_where_and_follows_no_link_out(tmp_path: Path) -> None:
    site = tmp_path / "work" / "site"
    site.mkdir(parents=True)
    (site / "index.html").write_text("<h1>Home</h1>")
    (tmp_path / "secret.html").write_text("secret")
    (site / "link.html").symlink_to(tmp_path / "secret.html")
    (site / "out").symlink_to(tmp_path)
    async with crib_in(tmp_path / "work") as crib:
        belt = crib.belt(BUILDER)
        told = (await belt.call("deploy_preview", {"projectDir": "site"})).details
        assert told == {"previewUrl": told["previewUrl"], "deployed": True, "until": told["until"]}
        port = int(told["previewUrl"].removeprefix("http://127.0.0.1:").strip("/"))
        for target, status in (("/", 200), ("/link.html", 404), ("/out/secret.html", 404)):
            assert (await ask(port, f"GET {target} HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n"))[0] == status
        for folder, code in (("..", "denied"), ("/etc", "denied"), ("site/out", "not_found"), ("nowhere", "not_found")):
            refused = await belt.call("deploy_preview", {"projectDir": folder})
            assert (refused.status, refused.details["code"]) == ("error", code), folder
