"""Voice: texts that are spoken, and recordings that become text.

A text goes to nobody whom the owner has not named: where the provider fails, only programs of this machine stand in for
it. The tool `tts` asks under the key of its call, which the guard has seen; the owner's programs ask by `tts.convert`.
"""

import asyncio
import base64
import binascii
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Protocol, get_args

from pydantic import Field

from toolcrib.config.services import MediaSettings
from toolcrib.define.caller import Caller
from toolcrib.define.context import Ctx
from toolcrib.define.errors import ToolError
from toolcrib.define.plugin import Hook, Word
from toolcrib.define.ports import Workspace, rpc, work_of
from toolcrib.define.schema.annotations import JsonObject
from toolcrib.define.taint import join_sources
from toolcrib.define.voice import (
    SPEECH_SUFFIXES,
    Speech,
    SpeechFormat,
    Transcript,
    Utterance,
    VoiceProvider,
    choose_format,
    prepare_text,
)
from toolcrib.lazy import dataclass, regex, replace
from toolcrib.threads import in_thread

from .chat_run import ChatQuery
from .exec.processes import TypedAfter, remember
from .feature import Core, Feature

_TOOL = "tts"
_MAX_HEARD, _MAX_WAITING = 4, 32  # recordings at once, and those with the ones that wait
_FOLDER = "media"
_KEPT_SECONDS, _KEPT_BYTES = 24 * 3_600.0, 64 << 20  # of what was spoken in a workspace
_OURS = regex(r"speech-[0-9]{8}-[0-9]{6}-[0-9]{6}\.(?:ogg|mp3|wav)")
_MAX_LISTED = 10_000

ChannelWord = Annotated[str, Field(max_length=64)]
ProviderName = Literal["espeak", "piper", "openai", "elevenlabs"]


class VoiceBackend(Protocol):
    """Those who speak, those who listen, and what was chosen among them."""

    def list_providers(self, terms: Any, /) -> Mapping[str, VoiceProvider]: ...
    async def transcribe(self, recording: bytes, terms: Any, /) -> Transcript: ...
    def read_choice(self) -> dict[str, Any]: ...
    def keep_choice(self, choice: Mapping[str, Any], /) -> None: ...
    async def close(self) -> None: ...


class OpenWorkspaces(Protocol):
    """Opens workspaces by their terms."""

    def open(self, terms: Any, session: str, /) -> Workspace: ...
    def close(self) -> None: ...


class Spoken(NamedTuple):
    """What was spoken, by whom and how, and why it was not the one that was named."""

    speech: Speech
    provider: str
    format: SpeechFormat
    note: str

    def to_json(self) -> dict[str, Any]:
        answer = {"provider": self.provider, "outputFormat": self.format, "voiceCompatible": self.format == "opus"}
        seconds = self.speech.seconds
        return answer | ({"seconds": round(seconds, 2)} if seconds else {}) | ({"note": self.note} if self.note else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechQuery:
    """What is spoken: in the form that suits `channel`, unless `format` says which; without `keep` it is sent along."""

    text: Annotated[str, Field(max_length=100_000)]
    channel: ChannelWord = ""
    provider: ProviderName | None = None
    voice: Annotated[str, Field(max_length=1_000)] = ""
    format: SpeechFormat | None = None
    keep: bool = True


def mount(core: Core, *, backend: Callable[..., VoiceBackend], workspaces: Callable[[], OpenWorkspaces]) -> Feature:
    """Mount the voice, and the guard that lets its tool in; what is spoken is kept in the caller's workspace."""
    made = backend(core.env, core.way_out.for_own, core.state, lambda: core.config.tools.exec.host == "host")
    opened = workspaces()

    def open_workspace(caller: Caller) -> tuple[Workspace, Path]:
        terms = core.terms_of(caller)
        return opened.open(terms, caller.session or ""), Path(terms.root).absolute()

    async def close() -> None:
        opened.close()
        await made.close()

    voice = Voice(lambda: core.config.media, made, core.is_owner, open_workspace)
    return Feature(services=(voice,), guards=(voice.guard,), close=close)


class Voice:
    """Speaks and listens for one crib; `open_workspace` gives a caller's files, and where they lie."""

    def __init__(
        self,
        settings: Callable[[], MediaSettings],
        backend: VoiceBackend,
        is_owner: Callable[[Caller], bool],
        open_workspace: Callable[[Caller], tuple[Workspace, Path]],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._settings, self._backend, self._is_owner = settings, backend, is_owner
        self._open_workspace, self._now = open_workspace, now
        self._permits: dict[str, Caller] = {}
        self._hearing, self._choosing = asyncio.Semaphore(_MAX_HEARD), asyncio.Lock()
        self._waiting, self._latest = 0, 0.0
        self.guard = Hook(run=self._let_in, name="the guard of tts", tools=frozenset({_TOOL}))

    # who speaks

    @rpc("tts.status", clients="read", why="owner")
    async def status(self, caller: Caller) -> dict[str, Any]:
        """Tell whether texts are spoken, by whom, and who would stand in."""
        self._require_owner(caller)
        chosen, providers = await self._choose(), self._backend.list_providers(self._settings().tts)
        others = [name for name in _order(chosen["provider"], providers)[1:] if not providers[name].explain_absence()]
        has_key = {name: not each.explain_absence() for name, each in providers.items()}
        return {
            **chosen, "auto": "off", "fallbackProvider": others[0] if others else None, "fallbackProviders": others,
            "hasOpenAIKey": has_key["openai"], "hasElevenLabsKey": has_key["elevenlabs"], "edgeEnabled": False,
        }  # fmt: skip

    @rpc("tts.providers", clients="read", why="owner")
    async def list_providers(self, caller: Caller) -> dict[str, Any]:
        """List everybody who might speak, and what each would need for it."""
        self._require_owner(caller)
        rows = [
            {"id": each.name, "name": each.label, "configured": not (why := each.explain_absence()), "needs": why,
             "local": each.is_local, "models": list(each.models)}
            for each in self._backend.list_providers(self._settings().tts).values()
        ]  # fmt: skip
        return {"providers": rows, "active": (await self._choose())["provider"]}

    @rpc("tts.enable", clients="write", why="owner")
    async def enable(self, caller: Caller) -> dict[str, Any]:
        """Have texts spoken again, unless the configuration forbids it."""
        if not self._settings().tts.enabled:
            raise ToolError("media.tts.enabled is false, which only the configuration changes", code="denied")
        return {"enabled": (await self._change(caller, enabled=True))["enabled"]}

    @rpc("tts.disable", clients="write", why="owner")
    async def disable(self, caller: Caller) -> dict[str, Any]:
        """Have nothing spoken until `tts.enable`."""
        return {"enabled": (await self._change(caller, enabled=False))["enabled"]}

    @rpc("tts.setProvider", clients="write", why="owner")
    async def set_provider(self, caller: Caller, provider: ProviderName) -> dict[str, Any]:
        """Choose who speaks from now on, whatever the configuration says."""
        if why := self._backend.list_providers(self._settings().tts)[provider].explain_absence():
            raise ToolError(why, code="unavailable")
        return {"provider": (await self._change(caller, provider=provider))["provider"]}

    async def _choose(self) -> dict[str, Any]:
        kept, settings = await in_thread(self._backend.read_choice), self._settings().tts
        named = kept.get("provider") or settings.provider or "espeak"
        if named not in get_args(ProviderName):
            raise ToolError(f"{str(named)[:64]!r} was chosen to speak, and is nobody; choose anew by tts.setProvider")
        return {"enabled": settings.enabled and kept.get("enabled", True) is True, "provider": named}

    async def _change(self, caller: Caller, **choice: Any) -> dict[str, Any]:
        self._require_owner(caller)
        async with self._choosing:
            kept = await in_thread(self._backend.read_choice)
            await in_thread(self._backend.keep_choice, {**kept, **choice})
        return await self._choose()

    def _require_owner(self, caller: Caller) -> None:
        if not self._is_owner(caller):
            raise ToolError("speech is set up by the owner's programs; others use the tool tts", code="denied")

    # speaking

    @rpc("tts.convert", clients="write", as_tool=work_of("tts", by_hand=True))
    async def convert(self, caller: Caller, query: SpeechQuery) -> dict[str, Any]:
        """Speak a text for a program of the owner's: into a file of the workspace, or as base64."""
        self._require_owner(caller)
        spoken = await self.speak(query)
        if query.keep:
            return spoken.to_json() | await self._keep(caller, spoken)
        return spoken.to_json() | {"base64": base64.b64encode(spoken.speech.data).decode()}

    @rpc("tts.perform", clients="write", why="key")
    async def perform(
        self,
        caller: Caller,
        call: Annotated[str, Field(max_length=256)],
        text: str,
        channel: ChannelWord = "",
        after: TypedAfter = (),
    ) -> dict[str, Any]:
        """Speak a text for a call of the tool, into a file of the workspace."""
        if self._permits.pop(call, None) != caller:
            raise ToolError("no call of tts was permitted under this key", code="denied")
        spoken = await self.speak(SpeechQuery(text=text, channel=channel or caller.channel or ""))
        return spoken.to_json() | await self._keep(caller, spoken, after)

    async def speak(self, query: SpeechQuery) -> Spoken:
        """Have a text spoken by the chosen provider; where it fails, by a program of this machine, with a note."""
        chosen, format = await self._choose(), query.format or choose_format(query.channel)
        if not chosen["enabled"]:
            raise ToolError(
                "speech is switched off; tts.enable or media.tts.enabled switches it on", code="unavailable"
            )
        text, providers = prepare_text(query.text), self._backend.list_providers(self._settings().tts)
        failures = list[tuple[str, ToolError]]()
        order = _order(query.provider or chosen["provider"], providers)
        for name in order[:1] if query.provider or query.voice else order:  # who asks for one by name means that one
            try:
                speech = await providers[name].speak(Utterance(text, format, query.voice))
            except ToolError as error:
                failures.append((name, error))
            else:
                return Spoken(speech, name, format, _note(failures, name))
        first = failures[0][1]
        raise ToolError("; ".join(str(error) for _, error in failures), code=first.code, source=first.source)

    async def _keep(self, caller: Caller, spoken: Spoken, after: Sequence[str] = ()) -> dict[str, Any]:
        """Write what was spoken to the workspace, and let go of the oldest there."""
        workspace, folder = self._open_workspace(caller)
        self._latest = max(self._now(), self._latest + 1e-5)  # no two are called alike
        path = f"{_FOLDER}/{_name_at(self._latest)}.{SPEECH_SUFFIXES[spoken.format]}"
        if after:
            await workspace.mark({path: spoken.speech.data}, join_sources(after))
        await workspace.write(path, spoken.speech.data)
        removed = await self._remove_old(workspace, path)
        paths = {"path": path, "audioPath": str(folder / path)}
        return paths | ({"removed": removed} if removed else {})

    async def _remove_old(self, workspace: Workspace, newest: str) -> int:
        listed = (await workspace.list(_FOLDER, most=_MAX_LISTED)).entries
        ours = [each for each in listed if each.kind == "file" and _OURS.fullmatch(each.name) and each.path != newest]
        held, removed, oldest = 0, 0, _name_at(self._now() - _KEPT_SECONDS)
        for entry in sorted(ours, key=lambda each: each.name, reverse=True):  # the name tells when
            held += entry.size
            if entry.name < oldest or held > _KEPT_BYTES:
                with suppress(ToolError):  # another call was quicker
                    await workspace.delete(entry.path)
                    removed += 1
        return removed

    # listening

    @rpc("stt.transcribe", clients="write", why="owner")
    async def transcribe(self, caller: Caller, audio: Annotated[str, "a recording in base64"]) -> dict[str, Any]:
        """Transcribe a recording, for a program of the owner's."""
        self._require_owner(caller)
        heard = await self.hear(self._decode(audio))
        return {"text": heard.text, "seconds": round(heard.seconds, 2)}

    async def write_down(self, query: ChatQuery) -> ChatQuery:
        """Return what somebody sends with its recordings as text, marked as what it is; other attachments stay."""
        text, others = query.message, list[JsonObject]()
        for each in query.attachments:
            if not str(each.get("mimeType", "")).startswith(("audio/", "video/")):  # some send a voice as a video
                others.append(each)
                continue
            heard = await self.hear(self._decode(str(each.get("content", ""))))
            transcript = heard.text or "(nothing was understood)"
            text = f"{text}\n\n[transcript of a voice message, {heard.seconds:.0f} s]\n{transcript}".strip()
        return replace(query, message=text, attachments=tuple(others)) if query.attachments else query

    async def hear(self, recording: bytes) -> Transcript:
        """Transcribe a recording; channels call it for voice notes."""
        settings = self._settings()
        if not settings.stt.enabled:
            what = "recordings are not listened to here: media.stt.enabled is false; write it, or have it switched on"
            raise ToolError(what, code="unavailable")
        self._check_size(len(recording))
        if self._waiting >= _MAX_WAITING:
            raise ToolError(f"{_MAX_WAITING} recordings are being listened to; send it again later", code="busy")
        self._waiting += 1
        try:
            async with self._hearing:
                return await self._backend.transcribe(recording, settings.stt)
        finally:
            self._waiting -= 1

    def _decode(self, encoded: str) -> bytes:
        """Return the bytes of a recording in base64, or in a data: address."""
        self._check_size(len(encoded) * 3 // 4 - 64)
        try:
            recording = base64.b64decode(encoded.rpartition(";base64,")[2], validate=True)
        except (binascii.Error, ValueError):
            recording = b""
        if not recording:
            raise ToolError("the recording is empty, or no base64", code="bad_arguments")
        return recording

    def _check_size(self, size: int) -> None:
        if size > (max_mb := self._settings().max_mb) << 20:
            what = f"the recording has {size:,} bytes, and media.maxMb is {max_mb}; send a shorter one"
            raise ToolError(what, code="too_large")

    async def _let_in(self, ctx: Ctx, args: Mapping[str, Any]) -> Word:
        remember(self._permits, ctx.call.key, ctx.caller)
        return None


def _name_at(time: float) -> str:
    """Return what speech of a moment is called: in the order of names, the oldest is the first."""
    return datetime.fromtimestamp(time, UTC).strftime("speech-%Y%m%d-%H%M%S-%f")


def _order(first: str, providers: Mapping[str, VoiceProvider]) -> list[str]:
    """Return whom to ask: who was named, then those who send nothing to anybody."""
    return [first, *(name for name, each in providers.items() if each.is_local and name != first)]


def _note(failures: list[tuple[str, ToolError]], name: str) -> str:
    """Return why another provider spoke, without error texts of servers: those are from outside."""
    reasons = [f"{failed} failed" if error.source else str(error) for failed, error in failures]
    return f"{'; '.join(reasons)}; {name} spoke instead" if reasons else ""
