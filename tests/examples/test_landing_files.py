"""write_html and the styles that it makes: by the real Tailwind CLI where there is one, else by the bundled subset."""

from pathlib import Path
from typing import Any

import pytest

from toolcrib import Tool, ToolError
from toolcrib.testing import FakeCtx, call, fake_ctx

from .landing_world import load_plugin, module

pytestmark = pytest.mark.anyio

PAGE = '<p class="flex p-4 md:grid-cols-2">'


@pytest.fixture(scope="module")
def write_html() -> Tool:
    return next(each for each in load_plugin().tools if isinstance(each, Tool) and each.name == "write_html")


async def write(tool: Tool, ctx: FakeCtx, name: str, content: str) -> dict[str, Any]:
    result = await call(tool, {"filename": name, "content": content}, ctx)
    assert result.status == "ok", result
    details: dict[str, Any] = result.details
    return details


async def test_a_file_is_written_and_its_path_and_size_are_told(write_html: Tool) -> None:
    ctx = fake_ctx()
    assert await write(write_html, ctx, "js/menu.js", "let a = 'ä'") == {
        "success": True,
        "path": "js/menu.js",
        "size": 12,
    }
    assert ctx.workspace.files["js/menu.js"] == "let a = 'ä'".encode()


@pytest.mark.parametrize(
    "name",
    ["../index.html", "a/../../x.html", ".env", ".git/x.html", "plugin.py", "Makefile", "x.html/", "", "a\\b.html",
     "x.html\n.css", "crib.yaml", "tailwind.config.cjs"],
)  # fmt: skip
async def test_what_is_no_file_of_a_page_is_refused(write_html: Tool, name: str) -> None:
    ctx = fake_ctx()
    result = await call(write_html, {"filename": name, "content": "x"}, ctx)
    assert (result.status, result.details["code"], ctx.workspace.files) == ("error", "bad_arguments", {})
    assert "name one like index.html" in result.plain_text


async def test_a_stylesheet_that_wants_tailwind_is_made_of_the_classes_and_follows_the_page(write_html: Tool) -> None:
    ctx = fake_ctx()
    await write(write_html, ctx, "index.html", PAGE)
    told = await write(write_html, ctx, "styles.css", '@import "tailwindcss";\n.own { color: red }')
    assert told["css"]["by"].startswith(("the Tailwind CLI, v", "the bundled subset of Tailwind"))
    assert told["size"] == len(ctx.workspace.files["styles.css"])
    assert ".own { color: red }" in ctx.workspace.files["styles.css"].decode()
    assert "underline" not in ctx.workspace.files["styles.css"].decode().partition("utilities")[2]
    await write(write_html, ctx, "index.html", '<p class="underline">')
    assert ".underline{" in ctx.workspace.files["styles.css"].decode()


async def test_a_stylesheet_without_tailwind_is_written_as_it_is(write_html: Tool) -> None:
    ctx = fake_ctx()
    assert "css" not in await write(write_html, ctx, "styles.css", "p { color: red }")
    assert list(ctx.workspace.files) == ["styles.css"]


@pytest.mark.parametrize(
    "rule", ['@plugin "./x.js"', '@config "./x.js"', "p { @apply flex }", '@import "https://cdn.test"']
)
async def test_rules_that_would_have_the_cli_load_code_are_refused(write_html: Tool, rule: str) -> None:
    ctx = fake_ctx()
    result = await call(write_html, {"filename": "styles.css", "content": f'@import "tailwindcss";\n{rule};'}, ctx)
    assert (result.status, ctx.workspace.files) == ("error", {})
    assert "is not used here; write utilities in class attributes" in result.plain_text


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("flex", ".flex{display:flex}"),
        ("-mt-2", ".-mt-2{margin-top:-0.5rem}"),
        ("w-1/2", r".w-1\/2{width:50%}"),
        ("w-[12px]", r".w-\[12px\]{width:12px}"),
        ("max-w-6xl", ".max-w-6xl{max-width:72rem}"),
        ("hover:bg-black", r".hover\:bg-black:hover{background-color:#000}"),
        ("md:p-8", r"@media(min-width:48rem){.md\:p-8{padding:2rem}}"),
        ("2xl:flex", r"@media(min-width:96rem){.\32 xl\:flex{display:flex}}"),
        ("space-y-4", ".space-y-4>:not(:last-child){margin-bottom:1rem}"),
        ("text-white/80", r".text-white\/80{color:oklch(100% 0 0 / 80%)}"),
        ("grid-cols-3", ".grid-cols-3{grid-template-columns:repeat(3,minmax(0,1fr))}"),
    ],
)
def test_the_subset_knows_a_utility(name: str, rule: str) -> None:
    made, unknown = module("tailwind").generate([name])
    assert (made.splitlines()[-1], unknown) == (rule, [])


@pytest.mark.parametrize(
    "name",
    ["card", "p-", "text-blurple-500", "bg-indigo-55", "w-[1px}body{color:red]", "odd:flex", "-flex", "grid-cols-x"],
)
def test_the_subset_says_what_it_does_not_know(name: str) -> None:
    made, unknown = module("tailwind").generate([name])
    assert (unknown, module("tailwind").generate([])[0]) == ([name], made)


async def test_of_two_utilities_the_narrower_and_the_wider_screen_win() -> None:
    made, _ = module("tailwind").generate(["md:p-2", "px-4", "p-8", "pt-1", "lg:p-3"])
    order = [made.index(each) for each in (".p-8", ".px-4", ".pt-1", r".md\:p-2", r".lg\:p-3")]
    assert order == sorted(order)


async def test_classes_that_the_author_explains_are_not_unknown() -> None:
    _, told = await module("tailwind").build_css(".card { padding: 0 }", {"a": '<p class="card cart">'}, None)
    assert told == {"by": "the bundled subset of Tailwind", "classes": 2, "unknown": ["cart"]}


def cli(folder: Path, script: str) -> str:
    """Return a program that stands for the Tailwind CLI."""
    program = folder / "tailwindcss"
    program.write_text(f'#!/bin/sh\ncase $1 in --help) echo "≈ tailwindcss v4.9.9"; exit;; esac\n{script}\n')
    program.chmod(0o755)
    return str(program)


async def test_the_cli_sees_the_pages_alone_and_never_what_the_author_wrote_besides(tmp_path: Path) -> None:
    program = cli(tmp_path, 'cat in.css *.html > out.css; ls -a >> out.css; echo "$@" >> out.css')
    css, told = await module("tailwind").build_css(".own {}", {"index.html": PAGE}, program)
    assert told == {"by": "the Tailwind CLI, v4.9.9", "classes": 3}
    assert css == (
        f'@import "tailwindcss" source(none);\n@source "./*.html";\n{PAGE}.\n..\n0.html\nin.css\nout.css\n'
        "-i in.css -o out.css --minify\n\n.own {}\n"
    )


async def test_a_cli_that_fails_is_told_and_the_subset_stands_in(tmp_path: Path) -> None:
    program = cli(tmp_path, "echo no such thing; exit 3")
    css, told = await module("tailwind").build_css("", {"index.html": PAGE}, program)
    assert told == {
        "by": "the bundled subset of Tailwind", "classes": 3, "cli": f"{program} failed: no such thing",
    }  # fmt: skip
    assert ".flex{display:flex}" in css


def test_a_source_that_wants_no_tailwind_is_none() -> None:
    assert module("tailwind").read_source("p{}") is None
    assert module("tailwind").read_source("@tailwind base;\n@tailwind utilities;\np{}") == "p{}"
    with pytest.raises(ToolError, match="@theme is not used here"):
        module("tailwind").read_source('@import "tailwindcss"; @theme { --x: 1 }')
