"""A memory on disk: what is on disk now is found, by words and by meaning, whatever happens beside it."""

import asyncio
from pathlib import Path

import pytest
from tests.backends.memory.memory_world import WordEmbedder, fill, open_memory

from toolcrib.backends.memory.disk import DiskMemory
from toolcrib.backends.memory.embedders import Embedder
from toolcrib.define.errors import ToolError
from toolcrib.define.memory import MemoryDocument, MemoryPlaces, MemoryState

pytestmark = pytest.mark.anyio


async def paths(memory: DiskMemory, question: str, count: int = 6) -> list[str]:
    return [each.path for each in await memory.search(question, count=count)]


async def test_a_passage_says_where_it_is_and_what_it_says(tmp_path: Path) -> None:
    fill(tmp_path, {"memory/a.md": "# Home\n\n## Door\n\nThe key hangs behind the fridge.\n"})
    (found,) = await open_memory(tmp_path).search("fridge")
    assert found.to_json() == {
        "path": "memory/a.md", "startLine": 1, "endLine": 6, "score": 1.0,
        "snippet": "# Home\n\n## Door\n\nThe key hangs behind the fridge.", "source": "memory",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("Bees gave nine jars of honey", "jar of bee honey"),
        ("Помідори поливають щовечора", "поливати помідорами"),
        ("Das Häuschen am Meer", "hauschen"),
        ("去里斯本的航班六点四十起飞", "航班几点起飞"),
        ("猫は窓のそばで寝る", "窓"),
        ("고양이가 창가에서 잔다", "고양이는"),
        ("แมวนอนอยู่ข้างหน้าต่าง", "หน้าต่าง"),
        ("القطة تنام قرب النافذة", "النافذة"),
        ("बिल्ली खिड़की के पास सोती है", "खिड़की"),
        ("Η γάτα κοιμάται", "γατα"),
        ("החתול ישן ליד החלון", "החלון"),
        ("the ﬁsh is in the café", "fish CAFE"),
    ],
)
async def test_words_are_found_in_any_script(tmp_path: Path, text: str, question: str) -> None:
    fill(tmp_path, {"MEMORY.md": text, "memory/other.md": "something else entirely\n"})
    assert await paths(open_memory(tmp_path), question) == ["MEMORY.md"]


@pytest.mark.parametrize(
    "question", ['"', "a AND", "NEAR(", "text: x", "^x", "x*", "-x", "'; DROP TABLE words", "", "\0", "😀"]
)
async def test_a_question_is_data_and_never_syntax(tmp_path: Path, question: str) -> None:
    fill(tmp_path, {"MEMORY.md": "an otter"})
    assert await open_memory(tmp_path).search(question) == []


async def test_what_changes_on_disk_is_seen_by_the_next_search(tmp_path: Path) -> None:
    memory = open_memory(tmp_path, WordEmbedder())
    assert await paths(memory, "otter") == []
    fill(tmp_path, {"MEMORY.md": "an otter", "memory/deep/down.md": "an otter"})
    assert await paths(memory, "otter") == ["MEMORY.md", "memory/deep/down.md"]
    for word in ("badger", "weasel", "marten", "ferret"):  # as fast as it goes, and of one length
        fill(tmp_path, {"MEMORY.md": f"a {word}"})
        assert await paths(memory, word) == ["MEMORY.md"]
    (tmp_path / "MEMORY.md").unlink()
    assert await paths(memory, "ferret otter") == ["memory/deep/down.md"]
    (tmp_path / "memory").rename(tmp_path / "elsewhere")
    assert await paths(memory, "otter") == []
    assert memory.state.files == 0


async def test_only_what_has_changed_is_embedded(tmp_path: Path) -> None:
    embedder = WordEmbedder()
    memory = open_memory(tmp_path, embedder)
    fill(tmp_path, {"memory/a.md": "# One\n\nfirst\n\n# Two\n\nsecond\n", "memory/b.md": "third\n"})
    await memory.sync()
    assert len(embedder.texts) == 3
    fill(tmp_path, {"memory/a.md": "# One\n\nfirst\n\n# Two\n\nchanged\n", "memory/c.md": "third\n"})
    await memory.sync()
    assert embedder.texts[3:] == ["# Two\n\nchanged\n"]
    await memory.sync(anew=True)
    assert len(embedder.texts) == 4


async def test_meaning_finds_what_shares_no_word(tmp_path: Path) -> None:
    fill(tmp_path, {"memory/a.md": "automobile", "memory/b.md": "banana"})
    memory = open_memory(tmp_path, WordEmbedder({"car": "automobile"}))
    assert await paths(memory, "car") == ["memory/a.md"]
    assert memory.state == MemoryState(files=2, chunks=2, provider="test", model="words")


async def test_first_by_words_and_by_meaning_scores_one_and_little_is_left_out(tmp_path: Path) -> None:
    fill(tmp_path, {"memory/a.md": "automobile", "memory/b.md": "car", "memory/c.md": "banana"})
    memory = open_memory(tmp_path, WordEmbedder({"car": "automobile"}))
    found = await memory.search("car")
    assert [(each.path, each.score) for each in found] == [("memory/b.md", 0.991935), ("memory/a.md", 0.5)]
    assert [each.path for each in await memory.search("car", min_score=0.6)] == ["memory/b.md"]
    assert len(await memory.search("car", count=1)) == 1


async def test_equals_come_in_the_order_of_their_paths(tmp_path: Path) -> None:
    names = [f"memory/{at:02}.md" for at in range(20)]
    fill(tmp_path, dict.fromkeys(reversed(names), "the same"))
    memory = open_memory(tmp_path, WordEmbedder())
    assert await paths(memory, "same", count=20) == names
    await memory.close()
    anew = open_memory(tmp_path, WordEmbedder(), index=False)
    assert await paths(anew, "same", count=20) == names
    await anew.close()


async def test_a_provider_that_fails_means_words_alone_and_a_sentence(tmp_path: Path) -> None:
    fill(tmp_path, {"MEMORY.md": "an otter"})
    embedder = WordEmbedder({"beast": "otter"}, failure="the provider is down")
    memory = open_memory(tmp_path, embedder)
    assert await paths(memory, "otter") == ["MEMORY.md"]
    assert memory.state.problem == "searched by words alone: the provider is down"
    assert await paths(memory, "beast") == []
    embedder.failure = ""
    assert (await memory.sync()).problem == ""
    assert await paths(memory, "beast") == ["MEMORY.md"]


async def test_nobody_who_makes_vectors_means_words_alone_and_a_sentence(tmp_path: Path) -> None:
    def choose() -> Embedder | None:
        raise ToolError("install something")

    fill(tmp_path, {"MEMORY.md": "an otter"})
    memory = DiskMemory(MemoryPlaces(tmp_path), choose)
    assert await paths(memory, "otter") == ["MEMORY.md"]
    assert (memory.state.provider, memory.state.problem) == ("none", "install something")
    await memory.close()


async def test_another_model_makes_all_vectors_anew(tmp_path: Path) -> None:
    fill(tmp_path, {"MEMORY.md": "an otter"})
    for model, dims in (("one", 1_024), ("two", 512), ("one", 1_024)):
        embedder = WordEmbedder({"beast": "otter"}, model=model, dims=dims)
        memory = open_memory(tmp_path, embedder)
        assert await paths(memory, "beast") == ["MEMORY.md"]
        assert len(embedder.texts) == 2
        await memory.close()


async def test_a_model_that_is_another_under_the_same_name_makes_all_vectors_anew(tmp_path: Path) -> None:
    fill(tmp_path, {"MEMORY.md": "an otter", "memory/a.md": "a badger"})
    embedder = WordEmbedder({"beast": "otter"})
    memory = open_memory(tmp_path, embedder)
    await memory.sync()
    embedder.dims = 512
    fill(tmp_path, {"memory/b.md": "a marten"})
    assert (await memory.sync()).problem == ""
    assert await paths(memory, "beast") == ["MEMORY.md"]


async def test_a_provider_that_recovers_is_asked_again_after_a_pause(tmp_path: Path) -> None:
    now = [0.0]
    fill(tmp_path, {"MEMORY.md": "an otter"})
    embedder = WordEmbedder({"beast": "otter"})
    memory = DiskMemory(MemoryPlaces(tmp_path, (), tmp_path / "index"), lambda: embedder, now=lambda: now[0])
    assert await paths(memory, "beast") == ["MEMORY.md"]
    embedder.failure = "the provider is down"
    assert await paths(memory, "beast") == []
    embedder.failure = ""
    assert await paths(memory, "beast") == []
    assert memory.state.problem == "searched by words alone: the provider is down"
    now[0] += 61
    assert await paths(memory, "beast") == ["MEMORY.md"]
    assert memory.state.problem == ""


async def test_an_index_is_there_for_the_next_process(tmp_path: Path) -> None:
    fill(tmp_path, {"MEMORY.md": "an otter", "memory/a.md": "a badger"})
    first, later = WordEmbedder(), WordEmbedder({"beast": "otter"})
    memory = open_memory(tmp_path, first)
    await memory.sync()
    await memory.close()
    assert await paths(open_memory(tmp_path, later), "beast") == ["MEMORY.md"]
    assert later.texts == ["beast"]


async def test_documents_are_searched_while_they_are_given(tmp_path: Path) -> None:
    memory = open_memory(tmp_path, WordEmbedder())
    talk = MemoryDocument("sessions/one", "1", lambda: "we spoke of otters")
    (found,) = await memory.search("otter", [talk])
    assert (found.path, found.source) == ("sessions/one", "sessions")
    changed = talk._replace(version="2", read=lambda: "we spoke of badgers")
    assert await memory.search("otter", [changed]) == []
    assert len(await memory.search("badger", [changed])) == 1
    assert await memory.search("badger") == []


async def test_searches_and_syncs_at_once_see_the_same(tmp_path: Path) -> None:
    fill(tmp_path, {f"memory/{at}.md": f"otter number{at}" for at in range(200)})
    memories = [open_memory(tmp_path, WordEmbedder()) for _ in range(3)]
    found = await asyncio.gather(*(paths(memory, f"number{at}", count=1) for memory in memories for at in range(8)))
    assert found == [[f"memory/{at}.md"] for _ in memories for at in range(8)]
    for memory in memories:
        await memory.close()


async def test_a_broken_index_is_made_anew(tmp_path: Path) -> None:
    fill(tmp_path, {"MEMORY.md": "an otter"})
    memory = open_memory(tmp_path, WordEmbedder({"beast": "otter"}))
    await memory.sync()
    await memory.close()
    kept = tmp_path.with_name(f"{tmp_path.name}-index")
    for broken in (b"", b"no database at all" * 999):
        for file in kept.iterdir():
            file.write_bytes(broken)
        assert await paths(memory, "beast") == ["MEMORY.md"]
        await memory.close()


async def test_a_matrix_that_is_gone_or_cut_is_made_anew(tmp_path: Path) -> None:
    fill(tmp_path, {"MEMORY.md": "an otter"})
    for how in (Path.unlink, lambda path: path.write_bytes(b"short")):
        memory = open_memory(tmp_path, WordEmbedder({"beast": "otter"}))
        await memory.sync()
        await memory.close()
        (matrix,) = tmp_path.with_name(f"{tmp_path.name}-index").glob("*.vectors")
        how(matrix)
        assert await paths(memory, "beast") == ["MEMORY.md"]
        await memory.close()


async def test_vectors_that_nobody_needs_are_cleared_away_in_the_end(tmp_path: Path) -> None:
    embedder = WordEmbedder({"beast": "otter"})
    memory = open_memory(tmp_path, embedder)
    fill(tmp_path, {"memory/keep.md": "an otter"})
    for times in range(3):
        fill(tmp_path, {"memory/many.md": "".join(f"# {at}\n\nword{times} {at}\n\n" for at in range(600))})
        assert "memory/keep.md" in await paths(memory, "beast")
    (matrix,) = tmp_path.with_name(f"{tmp_path.name}-index").glob("*.vectors")
    assert matrix.stat().st_size < 1_400 * embedder.dims * 4
    assert "memory/keep.md" in await paths(memory, "beast")


async def test_a_search_that_is_called_off_leaves_an_index_that_can_be_used(tmp_path: Path) -> None:
    fill(tmp_path, {f"memory/{at}.md": f"otter number{at}" for at in range(300)})
    memory = open_memory(tmp_path, WordEmbedder())
    for _ in range(3):
        asked = asyncio.ensure_future(memory.search("otter"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
    assert await paths(memory, "number7", count=1) == ["memory/7.md"]


async def test_a_folder_that_cannot_be_written_to_is_told_in_one_sentence(tmp_path: Path) -> None:
    fill(tmp_path, {"MEMORY.md": "an otter", "blocked": ""})
    memory = DiskMemory(MemoryPlaces(tmp_path, (), tmp_path / "blocked" / "memory"), lambda: None)
    with pytest.raises(ToolError, match="'memory' cannot be used"):
        await memory.search("otter")


async def test_of_ten_thousand_files_one_that_changed_is_read(tmp_path: Path) -> None:
    embedder = WordEmbedder()
    memory = open_memory(tmp_path, embedder)
    fill(tmp_path, {f"memory/{at // 100}/{at}.md": f"number{at}" for at in range(10_000)})
    read: list[int] = []
    await memory.sync(progress=lambda done, total: read.append(total))
    assert read[-1] == 10_000
    while read:  # files that changed a moment ago are looked at once more
        read.clear()
        await memory.sync(progress=lambda done, total: read.append(total))
    made = len(embedder.texts)
    fill(tmp_path, {"memory/50/5050.md": "changed"})
    await memory.sync(progress=lambda done, total: read.append(total))
    assert read == [1]
    assert embedder.texts[made:] == ["changed"]
    assert await paths(memory, "changed", count=1) == ["memory/50/5050.md"]


async def test_an_index_in_no_place_is_gone_when_it_is_closed(tmp_path: Path) -> None:
    fill(tmp_path, {"MEMORY.md": "an otter"})
    memory = open_memory(tmp_path, WordEmbedder(), index=False)
    assert await paths(memory, "otter") == ["MEMORY.md"]
    await memory.close()
    await memory.close()
    assert await paths(memory, "otter") == ["MEMORY.md"]
    await memory.close()
