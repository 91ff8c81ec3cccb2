"""The model that is spoken to, as far as its wire format depends on it."""

from dataclasses import dataclass
from typing import Literal

__all__ = ["Api", "Target"]

Api = Literal["openai", "responses", "anthropic", "gemini"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Which API, which model behind it, and what that model can take.

    `strict` asks OpenAI to hold the model to the schema; `claude_code` shows Anthropic the names its models know from
    Claude Code (`Read`, `Bash`), mapped back when they come in a call.
    """

    api: Api
    model: str = ""
    sees: bool = True
    strict: bool = False
    claude_code: bool = False

    @property
    def by(self) -> str:
        """How a message names the model that said it."""
        return f"{self.api}/{self.model}"
