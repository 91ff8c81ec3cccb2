"""The one renderer of what models and strangers write: what it understands, and what nothing makes it do."""

import pytest

pytest.importorskip("websockets", reason="the extra gateway is not installed")

from .hostile import FORBIDDEN, HOSTILE
from .page_world import NEEDS_CHROMIUM, page_of

pytestmark = NEEDS_CHROMIUM

RENDER = """async (texts) => {
    const { render } = await import('/markdown.js');
    return texts.map((text) => {
        const box = document.createElement('div');
        box.append(render(text));
        for (const head of box.querySelectorAll('.code-head')) head.remove();
        for (const each of box.querySelectorAll('a')) each.removeAttribute('title');
        return box.innerHTML.replace(/ (rel|target|tabindex|loading)="[^"]*"/g, '');
    });
}"""
TIMED = """async (text) => {
    const { render } = await import('/markdown.js');
    const began = performance.now();
    render(text);
    return performance.now() - began;
}"""
PIXEL = "data:image/png;base64,iVBORw0KGgo="

SPELLED = {
    "one\ntwo\n\nthree": "<p>one\ntwo</p><p>three</p>",
    "# Head #\n## Next": "<h3>Head</h3><h4>Next</h4>",
    "**b** *i* ***x*** ~~s~~ __b__ _i_": "<p><strong>b</strong> <em>i</em> <strong><em>x</em></strong> <s>s</s> "
    "<strong>b</strong> <em>i</em></p>",
    "**a *b* c**": "<p><strong>a <em>b</em> c</strong></p>",
    "a * b * c, snake_case_name, 2*3": "<p>a * b * c, snake_case_name, 2*3</p>",
    "`a*b*` ``a`b``": "<p><code>a*b*</code> <code>a`b</code></p>",
    "a `b": "<p>a `b</p>",
    "\\*a\\* \\[b](c)": "<p>*a* [b](c)</p>",
    "[a](https://x.test/y_(z)) <https://x.test>": '<p><a href="https://x.test/y_(z)">a</a> '
    '<a href="https://x.test/">https://x.test</a></p>',
    "see https://x.test/a, or (http://y.test).": '<p>see <a href="https://x.test/a">https://x.test/a</a>, or '
    '(<a href="http://y.test/">http://y.test</a>).</p>',
    '[a](https://x.test "t")': '<p><a href="https://x.test/">a</a></p>',
    "[a](javascript:b) [c](/d)": "<p>a (javascript:b) c (/d)</p>",
    f"![a]({PIXEL}) ![b](/c.png)": f'<p><img src="{PIXEL}" alt="a"> <img src="/c.png" alt="b"></p>',
    "![a](https://x.test/p.png)": '<p><a href="https://x.test/p.png">a</a></p>',
    "![a](//x.test/p.png)": "<p>a (//x.test/p.png)</p>",
    "```py\nx = 1\n\n# no\n```\nb": '<div class="code"><pre><code>x = 1\n\n# no</code></pre></div><p>b</p>',
    "```\nnever closed": '<div class="code"><pre><code>never closed</code></pre></div>',
    "    a\n\n    b\n\nc": '<div class="code"><pre><code>a\n\nb</code></pre></div><p>c</p>',
    "- a\n- b\n  - c\n\n    d\n- e": "<ul><li>a</li><li>b<ul><li>c<p>d</p></li></ul></li><li>e</li></ul>",
    "3. a\n4. b\n   ```\n   x\n   ```": '<ol start="3"><li>a</li><li>b<div class="code"><pre><code>x</code></pre></div>'
    "</li></ol>",
    "- [x] a\n- [ ] b": "<ul><li>☑ a</li><li>☐ b</li></ul>",
    "> a\n> > b\n\nc": "<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote><p>c</p>",
    "| a | b |\n|---|:-:|\n| `x|y` | \\| |\n| 1 |\nend": '<div class="table"><table><thead><tr><th>a</th>'
    '<th class="center">b</th></tr></thead><tbody><tr><td><code>x|y</code></td><td class="center">|</td></tr>'
    '<tr><td>1</td><td class="center"></td></tr></tbody></table></div><p>end</p>',
    "a | b\nnot a table": "<p>a | b\nnot a table</p>",
    "a  \nb": "<p>a  <br>b</p>",
    "a\n***\nb": "<p>a</p><hr><p>b</p>",
    "<b>x</b> &amp;": "<p>&lt;b&gt;x&lt;/b&gt; &amp;amp;</p>",
}

LENGTH = 300_000
SLOW = {
    "brackets": "[" * LENGTH,
    "closed brackets": "[a]" * (LENGTH // 3),
    "targets": "[a](" * (LENGTH // 4),
    "stars": "*a " * (LENGTH // 3),
    "nested stars": "*a **b " * (LENGTH // 7),
    "runs of ticks": "".join("`" * (1 + at % 600) + " " for at in range(1000)),
    "quotes": ">" * LENGTH,
    "quoted lines": ("> " * 200 + "a\n") * 700,
    "lists": "".join(" " * at + "- a\n" for at in range(700)),
    "rules": "- " * (LENGTH // 2) + "x",
    "spaces of a table": "a|b\n---" + " " * LENGTH + "x",
    "spaces of a heading": "# a" + " #" * (LENGTH // 2) + "x",
    "cells": "|a" * (LENGTH // 2) + "\n" + "|-" * (LENGTH // 2),
    "short rows of a wide table": "|a" * 3000 + "\n" + "|-" * 3000 + "\n" + "|\n" * (LENGTH // 2),
    "addresses": "https://a.test/" + "." * LENGTH,
    "many addresses": ("https://a.test/" + "." * 2000 + " ") * (LENGTH // 2000),
    "angles": "<https:" * (LENGTH // 7),
    "escapes": "\\" * LENGTH,
    "blank lines": "- a" + "\n \n" * (LENGTH // 3),
    "fences": "```\n" * (LENGTH // 4),
}


async def test_what_is_written_is_shown_as_markdown_says() -> None:
    async with page_of() as world:
        page = await world.visit()
        shown = await page.evaluate(RENDER, [*SPELLED])
        assert dict(zip(SPELLED, shown, strict=True)) == SPELLED


async def test_no_text_takes_longer_than_its_length_says() -> None:
    """Quadratic, each would take minutes at this length."""
    async with page_of() as world:
        page = await world.visit()
        for name, text in SLOW.items():
            took = await page.evaluate(TIMED, text)
            assert took < 20_000, (name, took)


async def test_hostile_text_is_nothing_but_text() -> None:
    async with page_of() as world:
        page = await world.visit()
        await page.evaluate(
            """async (texts) => {
                const { render } = await import('/markdown.js');
                const main = document.querySelector('main');
                for (const text of texts) main.append(render(text));
                main.append(render(texts.join('\\n')));
            }""",
            HOSTILE,
        )
        assert await page.locator(FORBIDDEN).count() == 0
        found = await page.evaluate(
            """() => [...document.querySelectorAll('main a[target], main img')].map((each) =>
                each.href ? new URL(each.href).protocol + each.rel : each.getAttribute('src').slice(0, 11))"""
        )
        assert set(found) <= {"http:noopener noreferrer", "https:noopener noreferrer"}
        assert await page.evaluate("window.ran") is None
