"""Two hundred questions in five languages, with no key: what is found by words, by both, and by another formula."""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.backends.memory.memory_world import open_memory

from toolcrib.backends.memory.chunks import chunk_markdown
from toolcrib.backends.memory.embedders import Embedder, StaticEmbedder

pytestmark = pytest.mark.anyio

HERE = Path(__file__).parent / "quality"
LANGUAGES = ("en", "de", "es", "uk", "zh")
QUESTIONS: list[dict[str, Any]] = json.loads((HERE / "questions.json").read_text(encoding="utf-8"))
UNSHARED = [each for each in QUESTIONS if each.get("sharesNoWord")]
COUNT = 6
Hits = Mapping[str, bool]  # by question

# Words without content: what an English question is made of whatever it is about.
_PLAIN = re.compile(
    "a|about|am|an|and|are|as|at|be|been|before|but|by|can|could|did|do|does|each|every|for|from|gets?|got|had|has|have"
    "|he|her|his|how|i|if|in|is|its?|last|like|made|makes?|may|must|my|next|no|not|of|off|on|or|our|out|per|she|should"
    "|so|soon|that|the|their|them|these|they|this|those|to|until|up|us|was|we|were|what|when|where|which|who|whom|whose"
    "|why|will|with|would|you|your"
)


def recall(hits: Hits, among: Iterable[Mapping[str, Any]]) -> float:
    asked = [each["question"] for each in among]
    return sum(hits[each] for each in asked) / len(asked)


def in_language(language: str) -> list[dict[str, Any]]:
    return [each for each in QUESTIONS if each["language"] == language]


def title_of(text: str) -> str:
    return next((line[3:] for line in text.split("\n") if line.startswith("## ")), "")


async def ask_all(folder: Path, embedder: Embedder | None) -> Hits:
    memory = open_memory(folder, embedder, "en.md", "de.md", "es.md", "uk.md", "zh.md", index=False)
    hits = {}
    for each in QUESTIONS:
        found = await memory.search(each["question"], count=COUNT)
        hits[each["question"]] = each["passage"] in {title_of(passage.snippet) for passage in found}
    assert memory.state.problem == ""
    await memory.close()
    return hits


async def ask_by_weights(least: float) -> Hits:
    """Ask as 0.7 times the product of vectors and 0.3 for holding every ASCII word, of what scores at least so much."""
    chunks = [each for name in LANGUAGES for each in chunk_markdown((HERE / f"{name}.md").read_text(encoding="utf-8"))]
    words = [set(re.findall(r"[a-z0-9_]+", each.text.lower())) for each in chunks]
    embedder = StaticEmbedder()
    products = await embedder.embed([each["question"] for each in QUESTIONS])
    products = products @ (await embedder.embed([each.whole for each in chunks])).T
    hits = {}
    for each, row in zip(QUESTIONS, products, strict=True):
        asked = set(re.findall(r"[a-z0-9_]+", each["question"].lower()))
        near = set(np.argsort(-row)[: 4 * COUNT].tolist())
        held = {at for at, told in enumerate(words) if asked and asked <= told}
        scores = {at: 0.7 * float(row[at]) * (at in near) + 0.3 * (at in held) for at in near | held}
        best = sorted((at for at in scores if scores[at] >= least), key=lambda at: -scores[at])[:COUNT]
        hits[each["question"]] = each["passage"] in {title_of(chunks[at].text) for at in best}
    return hits


def test_questions_that_share_no_word_with_their_passage_share_none() -> None:
    texts = {title_of(each.text): each.whole for each in chunk_markdown((HERE / "en.md").read_text(encoding="utf-8"))}

    def content(text: str) -> set[str]:
        return {word[:4] for word in re.findall(r"[^\W_]+", text.lower()) if not _PLAIN.fullmatch(word)}

    assert len(UNSHARED) == 20
    for each in UNSHARED:
        assert not content(each["question"]) & content(texts[each["passage"]]), each


async def test_meaning_finds_more_than_words_and_more_than_a_sum_of_weights() -> None:
    assert (len(QUESTIONS), {each["language"] for each in QUESTIONS}) == (200, set(LANGUAGES))
    by_words = await ask_all(HERE, None)
    by_both = await ask_all(HERE, StaticEmbedder())
    by_weights = await ask_by_weights(0.35)
    for language in LANGUAGES:
        assert recall(by_both, in_language(language)) >= recall(by_words, in_language(language))
    assert recall(by_both, UNSHARED) >= recall(by_words, UNSHARED) + 0.1
    assert recall(by_both, QUESTIONS) > recall(by_weights, QUESTIONS)
