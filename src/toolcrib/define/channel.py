"""Where people write to the assistant and it writes back: messages, who may write, and the port `Channel`.

    heard ──▶ answered                  a message that came in, and the turn that answered it
    waiting ──▶ sending ──▶ sent        a post that goes out
                   └─────▶ uncertain    it is unknown whether it arrived: it is not sent again

A channel hands over what it hears together with its cursor, and both are kept in one step: what was acknowledged to the
other side is on the disk. A post is sent again after a break only where the other side knows it by its key.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from toolcrib.lazy import asdict, dataclass

from .caller import Caller, Sender
from .display import quote_short
from .errors import ToolError
from .web import WayOut

ChatKind = Literal["dm", "group", "channel", "invitation"]
PostState = Literal["waiting", "sending", "sent", "failed", "uncertain"]


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that came with a message; `ref` is how its channel finds it again.

    `is_spoken` tells that its sender recorded it, `is_forwarded` that it was forwarded from another sender.
    """

    ref: str
    name: str = ""
    mime: str = ""
    size: int = 0
    is_spoken: bool = False
    is_forwarded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HeardMessage:
    """A message that came. `id` is unique in its chat, `chat` is where an answer goes.

    `group` is what the configuration calls the group, "" for a direct message. An `invitation` asks for nothing but
    that the assistant joins a chat. `is_for_us` tells that a group's message
    was meant for the assistant; `pressed` is the data of a button, where it is no text. `forwarded` are words of others
    that the sender passes on.
    """

    id: str
    chat: str
    sender: Sender
    kind: ChatKind = "dm"
    group: str = ""
    thread: str = ""
    text: str = ""
    forwarded: str = ""
    pressed: str = ""
    is_for_us: bool = False
    attachments: tuple[Attachment, ...] = ()
    at: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return it as a store keeps it."""
        return asdict(self)

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> "HeardMessage":
        """Read back what `to_json` made."""
        files = tuple(Attachment(**each) for each in told["attachments"])
        return cls(**{**told, "sender": Sender(**told["sender"]), "attachments": files})


@dataclass(frozen=True, slots=True)
class Button:
    """What can be pressed below a message, and the data that comes back."""

    text: str
    data: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """A message to be sent to a chat.

    `media` is the path of a file that lies ready in the state folder, "" for none; it is shown as `filename`, and
    played as a voice note where a channel has them. A `card` is in the words of its channel. `source` says where its
    words may come from, as far as that is outside.
    """

    chat: str
    text: str = ""
    thread: str = ""
    reply_to: str = ""
    buttons: tuple[tuple[Button, ...], ...] = ()
    card: Mapping[str, Any] | None = None
    media: str = ""
    filename: str = ""
    is_voice: bool = False
    silent: bool = False
    source: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return it as a store keeps it."""
        return asdict(self)

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> "Post":
        """Read back what `to_json` made."""
        rows = tuple(tuple(Button(**each) for each in row) for row in told["buttons"])
        return cls(**{**told, "buttons": rows})


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """What a channel can do: the actions of `message`, and whether it shows buttons, cards, files and typing.

    `longest` is how many characters one message takes. One that `knows_keys` takes a post again under its key without
    saying it twice. One with `invitations` is in a chat only after it did `join`, which is for no model to ask for.
    `own_actions` are for the channel's own tools alone. `most_lines` are what one message has where lines are sent one
    by one. One with `markup` shows signs of a text as something else, but for what stands between three backticks.
    """

    actions: tuple[str, ...] = ("send",)
    own_actions: tuple[str, ...] = ()
    buttons: bool = False
    cards: bool = False
    media: bool = False
    typing: bool = False
    longest: int = 4_000
    most_lines: int = 0
    markup: bool = False
    knows_keys: bool = False
    invitations: bool = False


def refuse_action(channel: str, action: str, abilities: Abilities) -> ToolError:
    """Return why a channel does not do something: it is not possible there."""
    can = ", ".join(abilities.actions) or "nothing"
    return ToolError(f"{channel} cannot {quote_short(action)}; it can {can}", code="unsupported")


# Keeps what was heard with the cursor behind it; what it returned for may be acknowledged.
Hear = Callable[[Sequence[HeardMessage], str], Awaitable[None]]


class Channel(Protocol):
    """One account on one service. It raises ToolError in one sentence, or OSError for a connection that broke."""

    @property
    def abilities(self) -> Abilities: ...

    async def listen(self, hear: Hear, cursor: str, ready: Callable[[], None], /) -> None:
        """Connect, call `ready`, and hear messages from behind the cursor until the connection ends; then raise."""

    async def post(self, post: Post, key: str, /) -> str:
        """Send one message, and return its id there; ConnectionError when it is unknown whether it was sent."""

    async def act(self, action: str, chat: str, params: Mapping[str, Any], /) -> dict[str, Any]:
        """Do another of its actions."""

    async def fetch(self, attachment: Attachment, most: int, /) -> bytes:
        """Return what came with a message, of at most so many bytes."""

    async def show_typing(self, chat: str, thread: str, /) -> None:
        """Show that an answer is on its way."""

    async def close(self) -> None: ...


class InboundRequest(NamedTuple):
    """What a service asks us over HTTP. Names of headers are in lower case; one that comes twice has its last value."""

    method: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes


class InboundAnswer(NamedTuple):
    """What a service is answered: 403 where it did not prove that it is the one."""

    status: int
    body: str = ""


@runtime_checkable
class Receiver(Protocol):
    """A channel that is called: the gateway passes it whatever comes to /channels/NAME, from any client."""

    async def receive(self, request: InboundRequest, /) -> InboundAnswer:
        """Check who it is from, and answer when what was heard is kept."""


@runtime_checkable
class Identified(Protocol):
    """A channel that can tell as whom it is on its service."""

    async def identify(self) -> str:
        """Ask the service who we are there now; ToolError when it does not know us."""


@runtime_checkable
class PhoneLogin(Identified, Protocol):
    """A channel whose number is proven by a code that the service sends to it."""

    async def request_code(self, *, by_voice: bool, language: str) -> None:
        """Have the code sent to the number."""

    async def confirm_code(self, code: str, pin: str) -> None:
        """Prove the number by its code, and have it registered under a pin of six digits."""

    async def is_registered(self) -> bool:
        """Tell whether messages can be sent and received."""


@runtime_checkable
class SignedIn(Protocol):
    """A channel that holds a token which it got by itself."""

    async def sign_out(self) -> None:
        """Have the service forget the token."""


class IdRules(NamedTuple):
    """What the ids of a channel are: whether case says nothing, whether another account is another service.

    One that begins with `unproven` is self-chosen, and nothing confirms it.
    """

    folds_case: bool = False
    by_account: bool = True
    unproven: str = ""

    def fold(self, id: str) -> str:
        """Return the one spelling of an id; the small letter of U+212A is a plain k, of somebody else's."""
        return id.lower() if self.folds_case and id.isascii() else id


_NUMBERS = IdRules(folds_case=True, by_account=False)
ID_RULES: Mapping[str, IdRules] = {
    "discord": _NUMBERS,
    "email": IdRules(folds_case=True, by_account=False, unproven="~"),
    "irc": IdRules(folds_case=True, unproven="~"),
    "matrix": IdRules(by_account=False),
    "slack": IdRules(folds_case=True),
    "telegram": _NUMBERS,
    "webhook": IdRules(),
    "whatsapp": _NUMBERS,
    "xmpp": IdRules(folds_case=True, by_account=False, unproven="~"),
}
"""Those of the channels that come with toolcrib, known before one of them is loaded."""


class ChannelKind(NamedTuple):
    """A service that a channel can be made for: what it can do there, how it is made from its settings, what ids are.

    `make` raises ToolError in one sentence when a key is missing.
    """

    abilities: Abilities
    make: Callable[[Any, WayOut], Channel]
    ids: IdRules = IdRules()


class KeptMessage(NamedTuple):
    """A message with its number: the order in which it came."""

    number: int
    message: HeardMessage


class KeptPost(NamedTuple):
    """A post with its number, and the key under which it is sent."""

    number: int
    key: str
    post: Post
    state: PostState = "waiting"


class Acquaintance(NamedTuple):
    """A sender who waits for admission by a code, or was admitted: then `code` is ""."""

    channel: str
    sender: str
    chat: str
    name: str
    code: str
    at: float


class ChatPlace(NamedTuple):
    """Where a session is answered, and who wrote there last."""

    channel: str
    chat: str
    thread: str
    caller: Caller


class DirectPlace(NamedTuple):
    """Where a person, by id and number, last wrote directly."""

    channel: str
    id: str
    e164: str
    chat: str
    thread: str
    at: float


class MessageStore(Protocol):
    """Where messages are kept. What a method did is safe when it returns."""

    async def cursor(self, channel: str, /) -> str:
        """Return how far a channel was heard."""

    async def forget_cursor(self, channel: str, /) -> None: ...

    async def hear(self, channel: str, messages: Sequence[HeardMessage], cursor: str, /) -> int:
        """Keep what was heard, each once, and how far that is; return how many are new."""

    async def list_unanswered(
        self, channel: str, /, *, after: int = 0, most: int = 1_000, chat: str = ""
    ) -> tuple[KeptMessage, ...]:
        """Return the first unanswered messages behind a number, in the order in which they came."""

    async def list_heard(self) -> tuple[tuple[str, HeardMessage], ...]:
        """Return the messages that are still kept, each with its channel, in the order in which they came."""

    async def answer(self, channel: str, number: int, posts: Sequence[Post], /) -> None:
        """Note that a message is answered, and keep the posts, in one step; a second time nothing happens."""

    async def say(self, channel: str, key: str, posts: Sequence[Post], /) -> None:
        """Keep posts that answer no message; once for a key."""

    async def outgoing(self, channel: str, /) -> tuple[KeptPost, ...]:
        """Return the posts that wait, and those that were being sent, oldest first."""

    async def move_post(self, number: int, to: PostState, /, detail: str = "") -> None:
        """Note how far a post is; `detail` is its id there, or why it failed."""

    async def find_button(self, channel: str, chat: str, data: str, /) -> str:
        """Return where the data of a button shown in a chat may come from, as its post says; "" for nowhere."""

    async def find_posts(self, channel: str, key: str, /) -> tuple[tuple[PostState, str], ...]:
        """Return the states of the posts of one key, each with its detail."""

    async def acquaintances(self, channel: str = "", /) -> tuple[Acquaintance, ...]:
        """Return who waits to be let in, and who was."""

    async def list_direct(self) -> tuple[DirectPlace, ...]:
        """Return where each was last heard directly on each channel, oldest first."""

    async def keep_direct(self, place: DirectPlace, /) -> None: ...
    async def keep_acquaintance(self, who: Acquaintance, /) -> None: ...
    async def forget_acquaintance(self, channel: str, sender: str, /) -> bool: ...
    async def keep_place(self, session: str, place: ChatPlace, /) -> None: ...
    async def places(self) -> dict[str, ChatPlace]:
        """Return where each session was last written from."""
