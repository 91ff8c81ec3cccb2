"""Speech: what is spoken, the sound that comes of it, and which form of it suits a channel; and what was heard."""

from typing import Literal, NamedTuple, Protocol

from .display import strip
from .errors import ToolError
from .session import to_channel

SpeechFormat = Literal["opus", "mp3", "wav"]
SPEECH_SUFFIXES: dict[SpeechFormat, str] = {"opus": "ogg", "mp3": "mp3", "wav": "wav"}

MAX_SPOKEN_CHARS = 4_096

_VOICE_NOTES = frozenset({"matrix", "signal", "telegram", "whatsapp"})  # channels that show Opus as a voice message


class Utterance(NamedTuple):
    """What is spoken: `voice` is a name as its provider spells it, "" for the usual one."""

    text: str
    format: SpeechFormat
    voice: str = ""


class Speech(NamedTuple):
    """The sound of an utterance; `seconds` is None where it is not measured."""

    data: bytes
    seconds: float | None = None


class Transcript(NamedTuple):
    """The transcript of a recording, and its length."""

    text: str
    seconds: float


class VoiceProvider(Protocol):
    """A voice. One that `is_local` sends nothing over the network."""

    @property
    def name(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def models(self) -> tuple[str, ...]: ...
    @property
    def is_local(self) -> bool: ...

    def explain_absence(self) -> str:
        """Return why it cannot speak here and what to do about it, "" when it can."""

    async def speak(self, utterance: Utterance, /) -> Speech:
        """Return the sound, in the form that was asked for; ToolError when there is none."""


def choose_format(channel: str) -> SpeechFormat:
    """Return the form that suits a channel: a voice note where there are some, MP3 elsewhere."""
    return "opus" if to_channel(channel) in _VOICE_NOTES else "mp3"


def prepare_text(text: str) -> str:
    """Return a text as it can be spoken; ToolError when there is nothing to speak, or too much.

    Voices read `[[...]]` as sounds and control characters as commands: a text is words and nothing else.
    """
    spoken = strip(text).replace("[[", "[ [").strip()
    if not spoken:
        raise ToolError("text is blank; say what to speak", code="bad_arguments")
    if len(spoken) > MAX_SPOKEN_CHARS:
        limit = f"{MAX_SPOKEN_CHARS:,} are spoken at once"
        raise ToolError(
            f"text has {len(spoken):,} characters, and {limit}; shorten it, or speak it in parts", code="too_large"
        )
    return spoken
