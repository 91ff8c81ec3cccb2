"""The model that is spoken to, as far as its wire format depends on it."""

from dataclasses import dataclass
from typing import Literal

__all__ = ["Api", "Keep", "Target"]

Api = Literal["openai", "responses", "anthropic", "gemini"]
# How long a provider is asked to keep what it has read: not at all, minutes, or an hour and more.
Keep = Literal["none", "short", "long"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Which API, which model behind it, and what that model can take.

    `strict` asks OpenAI to hold the model to the schema; `claude_code` shows Anthropic the names its models know from
    Claude Code (`Read`, `Bash`), mapped back when they come in a call. `provider` is whose server it is: many speak
    OpenAI's API, and only `openai` is asked for what no other may understand. `longest` is the most tokens that the
    model can say, 0 where nobody knows.
    """

    api: Api
    model: str = ""
    sees: bool = True
    strict: bool = False
    claude_code: bool = False
    provider: str = ""
    longest: int = 0
    keep: Keep = "short"

    @property
    def by(self) -> str:
        """How a message names the model that said it."""
        return f"{self.api}/{self.model}"
