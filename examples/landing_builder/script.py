"""A model by rules, for those who have no key: it builds a page step by step, and mends what the tools really report.

It knows no page that is good. Its first draft has faults, as anybody's has; what is mended, and how, is decided
by what `preview_screenshot` and `validate_page` return, rule by rule and target by target.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from toolcrib import Call, Message
from toolcrib.events import Replied
from toolcrib.models import ModelCard, Request
from toolcrib.testing import FunctionModel, call_reply, text_reply

Files = dict[str, str]
Cure = Callable[[Files, Sequence[str]], None]

_CHECKS = ["accessibility", "responsive", "seo", "performance", "links"]
_DRAFT = {
    "index.html": "First the structure.",
    "hero.svg": "A picture for it.",
    "styles.css": "Then the styles, with Tailwind.",
}
_TOO_WIDE = re.compile(r"It scrolls sideways; too wide: (.*)\.$", re.MULTILINE)
_MAX_ROUNDS = 5


def make_model() -> FunctionModel:
    """Return the model."""
    return FunctionModel(answer, ModelCard(provider="scripted", model="landing"), keep=False)


def answer(request: Request) -> Replied:
    """Take the next step, by what the conversation holds so far."""
    talk = Talk(request.history)
    for call, told in talk.done[-1:]:
        if told.status != "ok":
            return text_reply(f"I have no rule for this, and stop: {call.name} failed. {told.plain_text}")
    words, *calls = _next_step(talk)
    if not calls:
        return text_reply(words)
    return call_reply(*(Call(f"{len(talk.done)}.{at}", *each) for at, each in enumerate(calls)), text=words)


class Talk:
    """What was wished for, what was called, and what came of it."""

    def __init__(self, history: Iterable[Message]) -> None:
        self.wish = next(each.plain_text.strip() for each in history if each.role == "user")
        calls = {call.id: call for each in history if each.role == "assistant" for call in each.calls}
        self.done = [(calls[each.call_id], each) for each in history if each.role == "tool" and each.call_id in calls]
        self.files = {call.args["filename"]: call.args["content"] for call, _ in self.done if call.name == "write_html"}
        written = [at for at, (call, _) in enumerate(self.done) if call.name == "write_html"]
        self.since_written = self.done[written[-1] + 1 :] if written else []

    def has_seen(self, viewport: str, *, now: bool = False) -> bool:
        """Tell whether a viewport was looked at: ever, or as the page is `now`."""
        done = self.since_written if now else self.done
        return any(call.name == "preview_screenshot" and call.args["viewport"] == viewport for call, _ in done)

    @property
    def reports(self) -> list[dict[str, Any]]:
        """What validation said, each time."""
        return [_read(told) for call, told in self.done if call.name == "validate_page"]

    @property
    def is_validated(self) -> bool:
        """Whether the page is as it was when it was last validated."""
        return any(call.name == "validate_page" for call, _ in self.since_written)


def _read(told: Message) -> dict[str, Any]:
    """Return the JSON in an answer, which stands between marks where it is from outside."""
    found: dict[str, Any] = json.loads(told.plain_text[told.plain_text.index("{") : told.plain_text.rindex("}") + 1])
    return found


_Call = tuple[str, dict[str, Any]]


def _next_step(talk: Talk) -> tuple[str, *tuple[_Call, ...]]:
    """Return what is said next, and what is called."""
    for name, words in _DRAFT.items():
        if name not in talk.files:
            return words, _write(name, _draft(name, talk.wish))
    if not talk.has_seen("desktop"):
        return "Let me look at it.", _look("desktop")
    last, told = talk.done[-1]
    if last.name == "preview_screenshot" and (found := _TOO_WIDE.search(told.plain_text)):
        files = dict(talk.files)
        _narrow(files, found[1].split(", "))
        return "It scrolls sideways. Mending the layout.", _write("styles.css", files["styles.css"])
    if not talk.has_seen("mobile"):
        return "And on a phone.", _look("mobile")
    if not talk.is_validated:
        return "Checking it again." if talk.reports else "Checking it.", ("validate_page", {"checks": _CHECKS})
    if len(talk.reports) < _MAX_ROUNDS and (mended := _mend(talk.files, talk.reports[-1])):
        return mended
    for viewport in ("desktop", "tablet", "mobile"):  # as it is in the end
        if not talk.has_seen(viewport, now=True):
            return f"The final page, {viewport}.", _look(viewport)
    if last.name != "deploy_preview":
        return "Deploying it.", ("deploy_preview", {"projectDir": "."})
    left = len(talk.reports[-1]["issues"])
    note = f", with {left} issues that I have no rule for" if left else ""
    return (f"Your landing page is ready at {_read(told)['previewUrl']}{note}",)


def _write(name: str, content: str) -> _Call:
    return "write_html", {"filename": name, "content": content}


def _look(viewport: str) -> _Call:
    return "preview_screenshot", {"viewport": viewport}


def _draft(name: str, wish: str) -> str:
    """Return the first version of a file for a wish like `Nightjar: a quiet alarm clock`."""
    title, _, claim = wish.partition(":")
    title, claim = (title.strip(), claim.strip()) if claim and len(title) <= 30 else ("Nightjar", wish)
    claim = " ".join(claim.split()).rstrip(".")[:120]
    pitch = f"{title} is {claim}. Made by a small team, and made to last."
    text = Path(__file__).with_name("draft").joinpath(name).read_text(encoding="utf-8")
    for mark, words in (("{name}", title), ("{claim}", claim[:1].upper() + claim[1:]), ("{pitch}", pitch)):
        text = text.replace(mark, escape(words))
    return text


# repairs


def _mend(files: Files, report: Mapping[str, Any]) -> tuple[str, *tuple[_Call, ...]] | None:
    """Return the files as they are when each issue is mended by its rule; None when that changes nothing."""
    made, rules = dict(files), dict[str, None]()
    for issue in report["issues"]:
        before = dict(made)
        _CURES.get(issue["rule"], _leave)(made, issue.get("targets", []))
        if made != before:
            rules[issue["rule"]] = None
    changed = [_write(name, content) for name, content in made.items() if content != files[name]]
    return (f"Mending {', '.join(rules)}.", *changed) if changed else None


def _leave(files: Files, targets: Sequence[str]) -> None:
    """Do nothing: there is no rule for it."""


def _narrow(files: Files, targets: Sequence[str]) -> None:
    """Let fixed columns wrap; where there are none, let what is too wide be no wider than the page."""
    styles = files["styles.css"]
    made = re.sub(r"repeat\(\d+, \d+rem\)", "repeat(auto-fit, minmax(min(100%, 16rem), 1fr))", styles)
    if made == styles:
        made += "".join(
            f"{target} {{ max-width: 100%; min-width: 0; overflow-wrap: anywhere; }}\n" for target in targets
        )
    files["styles.css"] = made


def _enlarge(files: Files, targets: Sequence[str]) -> None:
    rules = (f"{target} {{ display: inline-block; min-height: 24px; min-width: 24px; }}\n" for target in targets)
    files["styles.css"] += "".join(rules)


def _darken(files: Files, targets: Sequence[str]) -> None:
    """Take a darker shade of every light one: of words, and of what is behind white words."""
    files["index.html"] = re.sub(r"\b((?:text|bg)-\w+)-[45]00\b", r"\1-600", files["index.html"])


def _lead(files: Files, targets: Sequence[str]) -> None:
    """Lead links that lead nowhere to the last section that there is."""
    known = re.findall(r'\bid="([^"]+)"', files["index.html"])

    def mend(found: re.Match[str]) -> str:
        return found[0] if found[1] in known else f'href="#{known[-1]}"'

    files["index.html"] = re.sub(r'href="#([^"]*)"', mend, files["index.html"])


def _give(tag: str, name: str, value: str) -> Cure:
    """Return a cure that gives an attribute to elements that lack it."""

    def cure(files: Files, targets: Sequence[str]) -> None:
        pattern = rf"<{tag}\b(?![^>]*\b{name}=)"
        files["index.html"] = re.sub(pattern, f'<{tag} {name}="{value}"', files["index.html"])

    return cure


def _add_to_head(line: Callable[[str], str]) -> Cure:
    def cure(files: Files, targets: Sequence[str]) -> None:
        page = files["index.html"]
        files["index.html"] = page.replace("</head>", f"{line(page)}\n</head>", 1)

    return cure


def _lengthen_title(files: Files, targets: Sequence[str]) -> None:
    title = f"{_words_of('title', files['index.html'])}: {_words_of('h1', files['index.html'])}"
    tag = f"<title>{title[:60].strip()}</title>"  # not a pattern: a wish may hold a backslash
    files["index.html"] = re.sub(r"<title>.*?</title>", lambda _: tag, files["index.html"])


def _words_of(tag: str, page: str) -> str:
    found = re.search(rf"<{tag}\b[^>]*>(.*?)</{tag}>", page, re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", "", found[1]).split()) if found else ""


def _size_images(files: Files, targets: Sequence[str]) -> None:
    _give("img", "width", "640")(files, targets)
    _give("img", "height", "480")(files, targets)


_CURES: Mapping[str, Cure] = {
    "html-has-lang": _give("html", "lang", "en"),
    "html-lang": _give("html", "lang", "en"),
    "image-alt": _give("img", "alt", "A sun that rises over hills"),
    "image-size": _size_images,
    "label": _give("input", "aria-label", "Your e-mail address"),
    "color-contrast": _darken,
    "viewport": _add_to_head(lambda page: '<meta name="viewport" content="width=device-width, initial-scale=1">'),
    "meta-description": _add_to_head(lambda page: f'<meta name="description" content="{_words_of("p", page)[:155]}">'),
    "document-title-length": _lengthen_title,
    "missing-anchor": _lead,
    "empty-link": _lead,
    "target-size": _enlarge,
    "horizontal-scroll": _narrow,
}
