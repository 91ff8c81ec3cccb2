"""Memory at the gateway: each device's person has their own, the owner has theirs, and only the owner reads anew."""

from pathlib import Path

import pytest

pytest.importorskip("websockets", reason="the extra gateway is not installed")

from .world import client_of, device, gateway_of

pytestmark = pytest.mark.anyio

READ, WRITE = "operator.read", "operator.write"
ANN, BOB = "a-long-enough-token-of-ann", "a-long-enough-token-of-bob"


async def test_two_persons_and_the_owner_find_and_read_each_only_their_own(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "MEMORY.md").write_text("The word is tea.\n")
    config = {
        "workspace": {"root": str(tmp_path / "ws")},
        "memory": {"provider": "none", "sources": ["files", "sessions"]},
        "channels": {"device": {"direct": {"tools": {"allow": ["group:memory"]}}}},
    }
    devices = (device("ann", ANN, READ, WRITE), device("bob", BOB, READ, WRITE))
    async with (
        gateway_of(config, state=tmp_path / "state", devices=devices) as world,
        client_of(world) as owner,
        client_of(world, ANN) as ann,
        client_of(world, BOB) as bob,
    ):
        words = {"apple": ann, "banana": bob}
        for word, client in words.items():
            assert not {"folder", "people"} & set(await client.get("memory.status"))  # where it lies the owner is told
            folders = [Path(each["folder"]) for each in (await owner.get("memory.status"))["people"]]
            (folder,) = (each for each in folders if not any(each.glob("*.md")))
            (folder / "MEMORY.md").write_text(f"The word is {word}.\n")
        for own, client in {**words, "tea": owner}.items():
            for word in ("apple", "banana", "tea"):
                found = (await client.get("memory.search", {"query": word}))["results"]
                assert [each["path"] for each in found] == (["MEMORY.md"] if word == own else [])
            assert (await client.get("memory.get", {"path": "MEMORY.md"}))["text"] == f"The word is {own}.\n"
        for client in (ann, bob):
            code, why = await client.refusal("memory.search", {"query": "tea", "agentId": "ops"})
            assert "only the owner asks for the memory of another agent" in why
            code, why = await client.refusal("memory.reindex")
            assert "operator.admin" in why, code
        assert (await owner.get("memory.reindex"))["files"] == 1
        told = await owner.wait_for("progress")
    assert told["part"] == {"done": 1, "of": 1}


async def test_a_device_that_may_not_read_finds_nothing(tmp_path: Path) -> None:
    config = {"workspace": {"root": str(tmp_path)}, "memory": {"provider": "none"}}
    async with (
        gateway_of(config, state=tmp_path / "state", devices=(device("ann", ANN, "operator.pairing"),)) as world,
        client_of(world, ANN) as ann,
    ):
        _, why = await ann.refusal("memory.search", {"query": "tea"})
    assert READ in why
