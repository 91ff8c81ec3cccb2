"""Memory: what was noted in earlier conversations, of each agent and of each person apart.

The owner's is in the workspace: `MEMORY.md`, `memory.md`, `memory/`, and what `memory.extraPaths` names. Whoever else
speaks, and every group, has a folder of the same layout in the state folder, where no tool of anybody reaches it.
"""

import asyncio
import hashlib
import json
import os
import re
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Protocol

from pydantic import Field

from toolcrib.adapter.cut import cut
from toolcrib.adapter.fence import fence, new_token
from toolcrib.config.services import MemorySettings
from toolcrib.define import session
from toolcrib.define.caller import Caller
from toolcrib.define.display import quote_short
from toolcrib.define.errors import ToolError
from toolcrib.define.files import Passage, join_parts, parts_of
from toolcrib.define.log import Said, SessionHead, read_sources
from toolcrib.define.memory import (
    MEMORY_ROOTS,
    MemoryDocument,
    MemoryIndex,
    MemoryInTurn,
    MemoryPlaces,
    MemoryState,
    is_memory_file,
)
from toolcrib.define.names import suggest
from toolcrib.define.ports import Progress, Workspace, rpc, work_of
from toolcrib.define.result import Text
from toolcrib.define.taint import source_after
from toolcrib.lazy import regex, replace
from toolcrib.policy.resolve import ResolvedCaller, agent_of, person_of, resolve

from .feature import Core, Feature

_RESULTS, _MAX_RESULTS = 6, 50
_LINES, _BYTES = 2_000, 50 << 10  # of a file, at once
_PROMPT_LINES, _PROMPT_BYTES = 200, 25_000
_MAX_OPEN = 64  # memories that are held open
_MAX_SESSIONS, _SESSION_CHARS, _READ_SECONDS = 1_000, 200_000, 60.0
_SESSIONS = "sessions/"  # before the key of one that is found
_TOOLS = frozenset({"memory_search", "memory_get"})
_ASIDE = ("cron", "hook", "node")  # sessions that are nobody's talk

_REMEMBERED = "You remember this from earlier conversations; it stands in {name}, and others may have written there:"
_KEEPING = (
    "What should last beyond this conversation is written to MEMORY.md (short facts) or memory/YYYY-MM-DD.md (notes)."
)

_READABLE = regex("^person:|:(id|e164):")  # what tells persons apart and no reader needs

_AgentId = Annotated[str, Field(max_length=64)]


class MemoryFiles(Protocol):
    """The files of one folder."""

    @property
    def workspace(self) -> Workspace: ...
    async def make(self) -> None: ...
    async def lines(self, path: str, first: int, most: int, size: int) -> Passage: ...
    async def trace(self, path: str) -> Sequence[str] | None: ...
    def close(self) -> None: ...


ChooseEmbedder = Callable[[], Any]  # whoever makes vectors, None for nobody; raises ToolError that says why
IndexMaker = Callable[[MemoryPlaces, ChooseEmbedder], MemoryIndex]
FilesMaker = Callable[[Any], MemoryFiles]


class Memory(NamedTuple):
    """The memory of somebody: whose, where it lies, by which terms it is read. `name` is "" for the owner's own."""

    agent: str
    name: str
    places: MemoryPlaces
    terms: Any
    settings: MemorySettings

    def extra_of(self, path: str) -> tuple[Path, str] | None:
        """Return the root and the name of a file below one of the extra places; None when it lies in none."""
        wanted = os.path.normpath(self.places.folder / path)
        for each in self.places.extra:
            place = os.path.normpath(each)
            if wanted == place and place.lower().endswith(".md"):
                return Path(place).parent, Path(place).name
            if wanted.startswith(f"{place.rstrip('/')}/"):
                return Path(place), os.path.relpath(wanted, place)
        return None


def mount(core: Core, *, index: IndexMaker, embedder: Callable[..., Any], files: FilesMaker) -> Feature:
    """Mount the memories: `index` makes what searches one, `embedder` who makes its vectors, `files` opens a folder."""

    def choose(provider: str | None) -> Any:
        named = {name: each for name, each in core.config.models.items() if not isinstance(each, str)}
        return embedder(provider, named, core.env, http_for=core.way_out.for_own)

    memories = Memories(core, index, choose, files)
    return Feature(services=(memories,), close=memories.close)


class Memories:
    """The memories of one crib. Each is opened when it is first asked; nobody is given another's."""

    def __init__(self, core: Core, index: IndexMaker, choose: Callable[[str | None], Any], files: FilesMaker) -> None:
        self._core, self._make_index, self._choose, self._make_files = core, index, choose, files
        self._indexes: OrderedDict[tuple[MemoryPlaces, str | None], MemoryIndex] = OrderedDict()
        self._prompts: OrderedDict[Path, tuple[str, str]] = OrderedDict()

    @rpc("memory.search", clients="read", as_tool="memory_search")
    async def search(
        self,
        caller: Caller,
        query: Annotated[str, Field(min_length=1, max_length=4_000)],
        maxResults: Annotated[int, Field(ge=1, le=_MAX_RESULTS)] | None = None,  # noqa: N803  as the protocol spells it
        minScore: Annotated[float, Field(ge=0, le=1)] = 0.0,  # noqa: N803
        agentId: _AgentId = "",  # noqa: N803
    ) -> dict[str, Any]:
        """Search the caller's memory: passages with their places, the best first, and who made the vectors."""
        memory = self._find(caller, agentId)
        if not query.strip():
            raise ToolError("query is blank; say what to search for", code="bad_arguments")
        index, documents = await self._index_of(memory), await self._documents(memory, caller)
        found = await index.search(query.strip(), documents, count=maxResults or _RESULTS, min_score=minScore)
        state = index.state
        fallback = {"fallback": state.problem} if state.problem else {}
        engine = {"provider": state.provider, "model": state.model, **fallback}
        origins = {path: await self._trace(memory, path) for path in {each.path: None for each in found}}
        rows = [{**each.to_json(), "origin": origins[each.path]} for each in found]
        return {"results": rows, **engine}

    async def _trace(self, memory: Memory, path: str) -> str | None:
        """Return the source of what is found in a note or a session, None where nothing in it is from outside."""
        if path.startswith(_SESSIONS):
            return _to_source(path, tuple(await read_sources(self._core.stores.sessions, path.removeprefix(_SESSIONS))))
        terms, name = self._choose_file(memory, path)
        files = self._make_files(terms)
        try:
            return _to_source(path, await files.trace(name))
        finally:
            files.close()

    @rpc("memory.get", clients="read", as_tool=work_of("memory_get", {"first": "from"}))
    async def get(
        self,
        caller: Caller,
        path: Annotated[str, Field(max_length=4_096)],
        first: Annotated[int, Field(ge=1)] = 1,
        lines: Annotated[int, Field(ge=1)] | None = None,
        agentId: _AgentId = "",  # noqa: N803
    ) -> dict[str, Any]:
        """Read lines of a file of the caller's memory."""
        memory = self._find(caller, agentId)
        terms, name = self._choose_file(memory, path)
        files = self._make_files(terms)
        if memory.name:
            await files.make()
        try:
            found = await files.lines(name, first, min(lines or _LINES, _LINES), _BYTES)
            source = _to_source(path.strip(), await files.trace(name))
        finally:
            files.close()
        if found.long is not None:
            what = f"line {found.first} of {quote_short(path, 200)} alone has {found.long:,} bytes, more than is shown"
            raise ToolError(f"{what}; go on behind it", code="too_large")
        passage: dict[str, Any] = {"path": path.strip(), "text": found.data.decode(errors="replace"), "origin": source}
        return {**passage, "next": found.first + found.count} if found.more else passage

    @rpc("memory.status", clients="read", why="own")
    async def status(self, caller: Caller, agentId: _AgentId = "") -> dict[str, Any]:  # noqa: N803
        """Tell what is in the caller's memory and how it is searched; for the owner also its folder, and all memories.

        A caller that a program names gets the folder, too: it reads the disk itself. One that a door admits does not.
        """
        memory = self._find(caller, agentId)
        index = await self._index_of(memory)
        state = await index.sync(await self._documents(memory, caller))
        status, is_owner = {"agentId": memory.agent, **_state_json(state)}, self._core.is_owner(caller)
        if is_owner or not caller.door:
            status["folder"] = str(memory.places.folder)
        return status | ({"people": self._list_people(memory.agent)} if is_owner else {})

    @rpc("memory.reindex", clients="admin")
    async def reindex(self, caller: Caller, progress: Progress, agentId: _AgentId = "") -> dict[str, Any]:  # noqa: N803
        """Read every file of the caller's memory anew."""
        memory = self._find(caller, agentId)
        index, documents = await self._index_of(memory), await self._documents(memory, caller)
        state = await index.sync(documents, anew=True, progress=lambda done, of: progress({"done": done, "of": of}))
        return {"agentId": memory.agent, "folder": str(memory.places.folder), **_state_json(state)}

    async def open_for(self, caller: Caller, tools: Collection[str], /) -> MemoryInTurn:
        """Return what a turn has: MEMORY.md in a talk with whoever it belongs to, and where notes of it are kept."""
        key = caller.session or ""
        if (
            not _TOOLS & set(tools)
            or caller.parents
            or session.is_subagent(key)
            or session.kind_from_key(key) in _ASIDE
        ):
            return MemoryInTurn()  # who may not use the tools has nothing of it otherwise either
        try:
            memory = self._find(caller)
        except ToolError:  # there is none, or it is out of reach; a call of its tool explains why
            return MemoryInTurn()
        # a program that keeps nothing has nothing written for it either
        keeps = memory.settings.note_before_compaction and self._core.state is not None
        notes = await self._open_notes(memory) if keeps else None
        if session.chat_from_key(key) or caller.group is not None:
            return MemoryInTurn(notes=notes)
        keeping = _KEEPING if not memory.name and {"memory_search", "write"} <= set(tools) else ""
        name, text, source = await self._read_root(memory)
        if not text:
            return MemoryInTurn(keeping, notes=notes)
        fenced = self._fence_once(memory.places.folder, text, f"memory:{name}")
        words = "\n".join((_REMEMBERED.format(name=name), fenced, keeping)).rstrip()
        return MemoryInTurn(words, source, notes)

    async def close(self) -> None:
        """Let go of every index."""
        while self._indexes:
            await self._indexes.popitem()[1].close()

    # whose it is

    def _find(self, caller: Caller, agent: str = "") -> Memory:
        """Return the caller's memory; raise ToolError when it has none."""
        core = self._core
        if agent and session.to_agent(agent) != agent_of(caller):
            if not core.is_owner(caller) or caller.parents:
                raise ToolError("only the owner asks for the memory of another agent", code="denied")
            if session.to_agent(agent) not in (known := core.config.agent_ids()):
                raise ToolError(f"there is no agent {agent[:64]!r}{suggest(agent, known)}", code="not_found")
            caller = replace(caller, agent=agent, session=None)
        who = resolve(core.policy, caller)
        root = who.parents[0].agent if who.parents else who.agent  # a subagent has what its parents have
        settings = core.config.memory_of(root)
        if not settings.enabled:
            raise ToolError("memory is switched off: memory.enabled is false", code="unavailable")
        terms, name = core.terms_of(caller), name_memory(who)
        if name is None:
            raise ToolError("nobody is known to speak here whose memory it could be", code="unavailable")
        kept = None if core.state is None else core.state / "memory"
        if name:
            if core.state is None:
                raise ToolError("nothing is kept here, so that only the owner has a memory", code="unavailable")
            folder = core.state / "people" / root / name
            old = (folder.with_name(each) for each in _list_old_names(who) if not folder.exists())
            if (found := next((each for each in old if each.is_dir()), None)) is not None:
                found.rename(folder)
            terms = replace(terms, root=folder, access="rw", protected=(), refusal="")
            places = MemoryPlaces(folder, (), kept and kept / f"{root}-{name}")
            return Memory(root, name, places, terms, settings)
        if terms.refusal or terms.access == "none":
            raise ToolError(terms.refusal or "the files of this workspace are out of reach here", code="unavailable")
        folder = Path(os.path.abspath(terms.root))  # noqa: PTH100  a spelling; who opens it resolves it
        extra = tuple(folder / os.path.expanduser(each) for each in settings.extra_paths)  # noqa: PTH111
        return Memory(
            root, "", MemoryPlaces(folder, extra, kept and kept / f"{root}-{_digest(str(folder))}"), terms, settings
        )

    def _list_people(self, agent: str) -> list[dict[str, str]]:
        """Return who else has a memory with an agent, for the owner to look at."""
        folder = self._core.state and self._core.state / "people" / agent
        if not folder or not folder.is_dir():
            return []
        return [{"name": each.name, "folder": str(each)} for each in sorted(folder.iterdir()) if each.is_dir()]

    # what it holds

    async def _index_of(self, memory: Memory) -> MemoryIndex:
        key = (memory.places, memory.settings.provider)
        if key not in self._indexes:
            if memory.name:
                await self._make_files(memory.terms).make()
            self._indexes[key] = self._make_index(memory.places, lambda: self._choose(memory.settings.provider))
        self._indexes.move_to_end(key)
        index = self._indexes[key]
        while len(self._indexes) > _MAX_OPEN:
            await self._indexes.popitem(last=False)[1].close()
        return index

    def _choose_file(self, memory: Memory, path: str) -> tuple[Any, str]:
        """Return the terms and the name by which a file of a memory is read; ToolError when it is none of its files."""
        meant = path.strip().replace("\\", "/")
        extra = memory.extra_of(meant) if meant and "\0" not in meant else None
        if extra is not None and ".." not in meant.split("/") and meant.lower().endswith(".md"):
            return replace(memory.terms, root=extra[0], access="ro"), extra[1]
        parts = spell_memory_path(path, str(memory.places.folder))
        if not is_memory_file(parts):
            what = f"{quote_short(path, 200)} is no file of this memory; read MEMORY.md or a .md file below memory/"
            raise ToolError(f"{what}, as memory_search names them", code="denied")
        return memory.terms, join_parts(parts)

    async def _read_root(self, memory: Memory) -> tuple[str, str, str | None]:
        """Return name and beginning of the file that stands in prompts, and its source where that is outside."""
        files = self._make_files(memory.terms)
        try:
            for name in MEMORY_ROOTS:
                try:
                    found = await files.lines(name, 1, _PROMPT_LINES, _PROMPT_BYTES)
                except ToolError:  # there is none, or none that may be read
                    continue
                text = found.data.decode("utf-8", "replace").strip()
                if found.long is not None:
                    text = cut(
                        (await files.workspace.read(name, 0, _PROMPT_BYTES)).decode("utf-8", "ignore"), _PROMPT_BYTES
                    )
                if found.more and text:
                    text += "\n[there is more in it; memory_get reads the rest]"
                whole = str(memory.places.folder / name)
                is_own = not memory.name and not found.more
                is_accepted = is_own and not self._core.explain_unaccepted(whole, found.data)
                return name, text, None if is_accepted else _to_source(name, await files.trace(name))
        finally:
            files.close()
        return "", "", None

    def _fence_once(self, folder: Path, text: str, source: str) -> str:
        """Return a text between marks that stay the same as long as it does, so that a prompt can be cached."""
        known = self._prompts.pop(folder, ("", ""))
        fenced = known[1] if known[0] == text else fence(text, source, new_token())
        self._prompts[folder] = (text, fenced)
        while len(self._prompts) > _MAX_OPEN:
            self._prompts.popitem(last=False)
        return fenced

    async def _open_notes(self, memory: Memory) -> Workspace:
        files = self._make_files(memory.terms)
        if memory.name:
            await files.make()
        return files.workspace

    # sessions

    async def _documents(self, memory: Memory, caller: Caller) -> list[MemoryDocument]:
        """Return the sessions of whoever has this memory, where they are searched, too."""
        if "sessions" not in memory.settings.sources:
            return []
        store, loop = self._core.stores.sessions, asyncio.get_running_loop()
        if memory.name:
            key = caller.session or ""
            is_own = session.direct_from_key(key) is not None or session.chat_from_key(key) is not None
            head = await store.find(key) if is_own else None
            heads: tuple[SessionHead, ...] = () if head is None else (head,)
        else:
            heads = tuple(each for each in await store.list(most=_MAX_SESSIONS) if _is_own_talk(each, memory.agent))

        def read(key: str) -> str:  # in a thread of the index
            try:
                return asyncio.run_coroutine_threadsafe(self._read_session(key), loop).result(_READ_SECONDS)
            except TimeoutError:
                raise ToolError(f"the session {key!r} was not read in time", code="timeout") from None

        def make(head: SessionHead) -> MemoryDocument:
            return MemoryDocument(f"{_SESSIONS}{head.key}", str(head.count), lambda: read(head.key))

        return [make(head) for head in heads]

    async def _read_session(self, key: str) -> str:
        lines = await self._core.stores.sessions.lines(key)
        return "\n\n".join(_tell_lines(line.body for line in lines))[-_SESSION_CHARS:]


def name_memory(who: ResolvedCaller) -> str | None:
    """Return whose memory a caller has: "" the owner's, else the name of a folder; None where nobody is known.

    In a group it is the group's, whoever speaks: all members may read all of it. A key alone gives nobody a
    group's memory but the owner.
    """
    caller, chat = who.caller, next(iter(who.chats), None)
    if caller.is_nobody and not who.is_owner:
        return None
    if chat is not None or caller.group is not None or session.kind_from_key(caller.session or "") == "group":
        if chat is None or (caller.group is None and not who.is_owner):
            return None
        return _to_folder(f"{chat.channel}-{chat.id}", f"group {chat.channel} {chat.id}")
    if who.is_owner:
        return ""
    person = person_of(who.settings, caller)
    return _to_folder(_READABLE.sub("-", person), person) if person else None


def _list_old_names(who: ResolvedCaller) -> Iterator[str]:
    """Yield what the folder of a person was called before `people` named them, and before ids had one form."""
    caller, sender = who.caller, who.caller.sender
    if sender is not None and not (caller.group is not None or next(iter(who.chats), None)):
        identity = person_of(replace(who.settings, people={}), caller)
        yield _to_folder(_READABLE.sub("-", identity), identity)
        old = json.dumps([caller.channel, caller.account, sender.id, sender.e164], separators=(",", ":"))
        yield _to_folder(f"{caller.channel}-{sender.id or sender.e164}", old)


def spell_memory_path(path: str, *roots: str) -> tuple[str, ...]:
    """Return the names along a path as a model may spell it, with blanks around it or with backslashes."""
    return parts_of(path.strip().replace("\\", "/"), *roots)


def _to_source(path: str, sources: Sequence[str] | None) -> str | None:
    """Return the source of a note by what it goes back to: None for nothing outside, itself where nobody knows."""
    return f"memory:{path}" if sources is None else source_after(f"memory:{path}", sources)


def _to_folder(words: str, identity: str) -> str:
    """Return a name that people recognise and that no other identity has."""
    return f"{re.sub(r'[^a-z0-9]+', '-', words.lower()).strip('-')[:40]}-{_digest(identity)}"


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()


def _state_json(state: MemoryState) -> dict[str, Any]:
    report = {"files": state.files, "chunks": state.chunks, "provider": state.provider, "model": state.model}
    return {**report, "problem": state.problem} if state.problem else report


def _is_own_talk(head: SessionHead, agent: str) -> bool:
    """Tell whether a session is one that the owner has with an agent."""
    key, kind = head.key, session.kind_from_key(head.key)
    is_direct = session.direct_from_key(key) is not None
    return session.agent_from_key(key) == agent and kind in ("main", "other") and not head.parents and not is_direct


def _tell_lines(bodies: Any) -> Iterator[str]:
    """Yield the texts of people and models in a session."""
    for body in bodies:
        if isinstance(body, Said) and body.message.role in ("user", "assistant"):
            words = "\n".join(part.text for part in body.message.content if isinstance(part, Text)).strip()
            if words:
                yield f"{body.message.role}: {words}"
