"""What is known of models: how much they can be shown and say, whether they see, what they cost. As of November 2026.

One table, the newest of each family first: the first row whose pattern fits the name decides. A price is in dollars for
a million tokens of a short prompt, as the maker lists it; some ask more when a prompt is very long. None is honest: a
model without a card has a window of 128,000 tokens and no price.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal

from toolcrib.define.model import ModelCard, Price
from toolcrib.lazy import dataclass, replace

Api = Literal["openai", "responses", "anthropic", "gemini"]
# How long a provider is asked to keep what it has read: not at all, minutes, or an hour and more.
CacheRetention = Literal["none", "short", "long"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Which API, which model behind it, and what that model can take.

    `strict` asks OpenAI to hold the model to the schema; `claude_code` shows Anthropic the names its models know from
    Claude Code (`Read`, `Bash`), mapped back when they come in a call. `provider` is whose server it is: many speak
    OpenAI's API, and only `openai` is asked for what no other may understand. `longest` is the most tokens that the
    model can write, 0 where unknown.
    """

    api: Api
    model: str = ""
    sees: bool = True
    strict: bool = False
    claude_code: bool = False
    provider: str = ""
    longest: int = 0
    keep: CacheRetention = "short"

    @property
    def by(self) -> str:
        """How a message names the model that wrote it."""
        return f"{self.api}/{self.model}"


@dataclass(frozen=True, slots=True)
class _Family:
    """Models that are alike: the pattern their names begin with, window, longest reply, whether they see, price."""

    pattern: str
    window: int
    longest: int = 0
    sees: bool = False
    price: tuple[float, ...] = ()  # input, output, input that was kept, input to be kept (where that costs more)


_OPENAI = (
    _Family(r"gpt-6\.1-sol", 1_050_000, 128_000, True, (2, 10, 0.10, 2.50)),
    _Family(r"gpt-6\.1-terra", 1_050_000, 128_000, True, (1, 5, 0.05, 1.25)),
    _Family(r"gpt-6-astra", 1_050_000, 128_000, True, (10, 50, 1, 12.50)),
    _Family(r"gpt-6-sol", 1_050_000, 128_000, True, (2, 10, 0.20, 2.50)),
    _Family(r"gpt-6-luna", 1_050_000, 128_000, True, (0.10, 0.50, 0.01, 0.125)),
    _Family(r"gpt-6", 1_050_000, 128_000, True),
    _Family(r"gpt-5\.6-sol", 1_050_000, 128_000, True, (4, 20, 0.40)),
    _Family(r"gpt-5\.6-terra", 1_050_000, 128_000, True, (2, 12, 0.20)),
    _Family(r"gpt-5\.6-luna", 400_000, 128_000, True, (0.20, 1.20, 0.02)),
    _Family(r"gpt-5\.[45]-pro", 1_050_000, 128_000, True, (30, 180, 30)),
    _Family(r"gpt-5\.5", 1_050_000, 128_000, True, (5, 30, 0.50)),
    _Family(r"gpt-5\.4-mini", 400_000, 128_000, True, (0.75, 4.50, 0.075)),
    _Family(r"gpt-5\.4-nano", 400_000, 128_000, True, (0.20, 1.25, 0.02)),
    _Family(r"gpt-5\.4", 1_050_000, 128_000, True, (2.50, 15, 0.25)),
    _Family(r"gpt-5[.\d]*-chat", 128_000, 16_384, True, (1.25, 10, 0.125)),
    _Family(r"gpt-5\.2-pro", 400_000, 128_000, True, (21, 168, 21)),
    _Family(r"gpt-5\.[23]", 400_000, 128_000, True, (1.75, 14, 0.175)),
    _Family(r"gpt-5-pro", 400_000, 272_000, True, (15, 120, 15)),
    _Family(r"gpt-5(?:\.1)?(?:-codex)?-mini", 400_000, 128_000, True, (0.25, 2, 0.025)),
    _Family(r"gpt-5-nano", 400_000, 128_000, True, (0.05, 0.40, 0.005)),
    _Family(r"gpt-5(?:\.1)?(?![\d.])", 400_000, 128_000, True, (1.25, 10, 0.125)),
    _Family(r"gpt-4\.1-mini", 1_047_576, 32_768, True, (0.40, 1.60, 0.10)),
    _Family(r"gpt-4\.1-nano", 1_047_576, 32_768, True, (0.10, 0.40, 0.025)),
    _Family(r"gpt-4\.1", 1_047_576, 32_768, True, (2, 8, 0.50)),
    _Family(r"gpt-4o-mini", 128_000, 16_384, True, (0.15, 0.60, 0.075)),
    _Family(r"gpt-4o", 128_000, 16_384, True, (2.50, 10, 1.25)),
    _Family(r"o4-mini", 200_000, 100_000, True, (1.10, 4.40, 0.275)),
    _Family(r"o3-mini", 200_000, 100_000, False, (1.10, 4.40, 0.55)),
    _Family(r"o3-pro", 200_000, 100_000, True, (20, 80, 20)),
    _Family(r"o3", 200_000, 100_000, True, (2, 8, 0.50)),
    _Family(r"o1(?!-)", 200_000, 100_000, True, (15, 60, 7.50)),
)
_ANTHROPIC = (
    _Family(r"claude-fable-5[-.]1", 1_000_000, 128_000, True, (10, 50, 0.25, 12.50)),
    _Family(r"claude-fable-5", 1_000_000, 128_000, True, (10, 50, 1, 12.50)),
    _Family(r"claude-opus-5[-.]5", 1_000_000, 128_000, True, (4, 20, 0.20, 5)),
    _Family(r"claude-sonnet-5", 1_000_000, 128_000, True, (2, 10, 0.20, 2.50)),
    _Family(r"claude-haiku-5[-.]5", 1_000_000, 128_000, True, (0.10, 0.50, 0.01, 0.125)),
    _Family(r"claude-opus-(?:5|4[-.][678])(?!\d)", 1_000_000, 128_000, True, (5, 25, 0.50, 6.25)),
    _Family(r"claude-sonnet-4[-.]6", 1_000_000, 128_000, True, (3, 15, 0.30, 3.75)),
    _Family(r"claude-opus-4[-.]5", 200_000, 64_000, True, (5, 25, 0.50, 6.25)),
    _Family(r"claude-haiku-4[-.]5", 200_000, 64_000, True, (1, 5, 0.10, 1.25)),
    _Family(r"claude-opus-4", 200_000, 32_000, True, (15, 75, 1.50, 18.75)),
    _Family(r"claude-(?:sonnet-4|3[-.]7-sonnet)", 200_000, 64_000, True, (3, 15, 0.30, 3.75)),
    _Family(r"claude-3[-.]5-sonnet", 200_000, 8_192, True, (3, 15, 0.30, 3.75)),
    _Family(r"claude-3[-.]5-haiku", 200_000, 8_192, True, (0.80, 4, 0.08, 1)),
    _Family(r"claude-", 200_000, 0, True),
)
_GEMINI = (
    # 3.8 Flash costs half of this until the end of 2026
    _Family(r"gemini-3\.[678]-flash(?!-lite)", 1_048_576, 65_536, True, (1.50, 7.50, 0.15)),
    _Family(r"gemini-3\.5-flash-lite", 1_048_576, 65_536, True, (0.30, 2.50, 0.03)),
    _Family(r"gemini-3\.5-flash", 1_048_576, 65_536, True, (1.50, 9, 0.15)),
    _Family(r"gemini-3(?:\.1)?-pro(?!-image)", 1_048_576, 65_536, True, (2, 12, 0.20)),
    _Family(r"gemini-3\.1-flash-lite", 1_048_576, 65_536, True, (0.25, 1.50, 0.025)),
    _Family(r"gemini-3-flash", 1_048_576, 65_536, True, (0.50, 3, 0.05)),
    _Family(r"gemini-2\.5-pro", 1_048_576, 65_536, True, (1.25, 10, 0.125)),
    _Family(r"gemini-2\.5-flash-lite", 1_048_576, 65_536, True, (0.10, 0.40, 0.01)),
    _Family(r"gemini-2\.5-flash(?!-image)", 1_048_576, 65_536, True, (0.30, 2.50, 0.03)),
    _Family(r"gemini-2\.0-flash(?!-lite)", 1_048_576, 8_192, True, (0.10, 0.40, 0.025)),
    _Family(r"gemini-", 1_048_576, 8_192, True),
)
_MISTRAL = (
    _Family(r"mistral-medium-3[-.]5", 262_144, 0, True, (1.50, 7.50, 1.50)),
    _Family(r"mistral-large-2512", 262_144, 0, True, (0.50, 1.50, 0.50)),
    _Family(r"mistral-large-2411", 131_072, 0, False, (2, 6, 2)),
    _Family(r"mistral-medium-25\d\d", 131_072, 0, True, (0.40, 2, 0.40)),
    _Family(r"pixtral", 131_072, 0, True),
    _Family(r"codestral", 262_144, 0, False, (0.30, 0.90, 0.30)),
    _Family(r"magistral-medium", 131_072, 0, False, (2, 5, 2)),
    _Family(r"(?:mi[sx]tral|devstral|ministral|magistral|open-mi[sx]tral)", 131_072),
)
_DEEPSEEK = (
    _Family(r"deepseek-v4", 1_048_576, 393_216),
    _Family(r"deepseek-chat", 131_072, 8_192, False, (0.28, 0.42, 0.028)),
    _Family(r"deepseek-reasoner", 131_072, 65_536, False, (0.28, 0.42, 0.028)),
    _Family(r"deepseek-", 131_072),
)
_XAI = (
    _Family(r"grok-4[-.]7", 500_000, 0, True, (2, 6, 2)),
    _Family(r"grok-4(?:[-.]1)?-fast", 2_000_000, 30_000, True, (0.20, 0.50, 0.05)),
    _Family(r"grok-4(?![-.]\d)", 256_000, 0, True, (3, 15, 0.75)),
    _Family(r"grok-code-fast-1", 256_000, 0, False, (0.20, 1.50, 0.02)),
    _Family(r"grok-3-mini", 131_072, 0, False, (0.30, 0.50, 0.075)),
    _Family(r"grok-3(?!-)", 131_072, 0, False, (3, 15, 0.75)),
    _Family(r"grok-4", 256_000, 0, True),
)
# Open models; what they cost is up to their host.
_OPEN = (
    _Family(r"gpt-oss", 131_072),
    _Family(r"llama-?4", 131_072, 0, True),
    _Family(r"(?:meta-)?llama-?3[-.]2-.*vision", 131_072, 0, True),
    _Family(r"(?:meta-)?llama-?3[-.][123]", 131_072),
    _Family(r"(?:meta-)?llama-?3", 8_192),
    _Family(r"qwen-?3[-.]?(?:coder|next)", 262_144),
    _Family(r"qwen-?(?:2[.-]5-?|3-)vl", 131_072, 0, True),
    _Family(r"qwen-?3", 40_960),
    _Family(r"qwen-?2[.-]5", 32_768),
    _Family(r"gemma-?3(?!n|:1b|-1b)", 131_072, 0, True),
    _Family(r"(?:bak)?llava|moondream|minicpm-v|internvl|granite.*vision", 8_192, 0, True),
    _Family(r"phi-?4", 16_384),
    _Family(r"smollm-?2", 8_192),
)
# By the provider that made them: only it, and who passes its prices on, asks the price in the table.
_MADE: Mapping[str, tuple[_Family, ...]] = {
    "openai": _OPENAI,
    "anthropic": _ANTHROPIC,
    "gemini": _GEMINI,
    "mistral": _MISTRAL,
    "deepseek": _DEEPSEEK,
    "xai": _XAI,
}
_ALSO: Mapping[str, str] = {"openai-responses": "openai", "google": "gemini", "mistralai": "mistral", "x-ai": "xai"}
_PASSES_ON = frozenset({"openrouter"})
_HERE = frozenset({"ollama", "lmstudio", "llamacpp", "llama.cpp", "vllm", "mlx", "local"})
_FREE = Price(input=0, output=0)


@lru_cache(maxsize=256)
def card_for(provider: str, model: str, window: int | None = None) -> ModelCard:
    """Return what is known of a model; a server of one's own asks nothing. `window` is what its owner says it has.

    A server of one's own shows a model as much as it was started with, whatever is known of the model.
    """
    asked = _ALSO.get(provider, provider)
    own_first = sorted([*_MADE.items(), ("", _OPEN)], key=lambda entry: entry[0] != asked)
    name = model.lower().rpartition("/")[2]
    maker, family = next(
        ((maker, family) for maker, table in own_first for family in table if re.match(family.pattern, name)),
        ("", None),
    )
    price = _FREE if asked in _HERE else None
    if family is None:
        return _with_window(ModelCard(provider=provider, model=model, price=price, is_window_known=False), window)
    is_hosted = asked == maker or asked in _PASSES_ON
    if family.price and is_hosted:
        first, output, *more = family.price
        cached, written = [*more, first][:2]
        price = Price(input=first, output=output, cached=cached, written=written)
    card = ModelCard(
        provider=provider, model=model, window=family.window, longest=family.longest, sees=family.sees, price=price,
        is_window_known=is_hosted,
    )  # fmt: skip
    return _with_window(card, window)


def _with_window(card: ModelCard, window: int | None) -> ModelCard:
    if window is None:
        return card
    return replace(card, window=window, longest=min(card.longest, window), is_window_known=True)


def target_for(provider: str, model: str, card: ModelCard, *, api: Api) -> Target:
    """Return how the model is spoken to."""
    return Target(
        api=api, model=model, sees=card.sees, provider=provider, longest=card.longest,
        claude_code=card.knows_claude_code,
    )  # fmt: skip
