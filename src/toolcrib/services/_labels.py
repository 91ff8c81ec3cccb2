"""What a process is called: an id that can be read aloud, a short name, a duration."""

import re
import secrets
from collections.abc import Callable, Container

__all__ = ["duration", "new_id", "short_name", "shortened"]

_LONGEST = 48
_MOODS = (
    "amber", "brave", "brisk", "calm", "clear", "cool", "crisp", "dawn", "deep", "eager", "early", "fair", "fast",
    "fine", "firm", "fresh", "gentle", "glad", "gold", "good", "grand", "green", "happy", "keen", "kind", "late",
    "light", "lively", "lucky", "mellow", "mild", "misty", "neat", "nimble", "noble", "plain", "proud", "quick",
    "quiet", "rapid", "ready", "rosy", "salty", "sharp", "silver", "smooth", "snug", "solid", "still", "sunny",
    "swift", "tidy", "vivid", "warm", "wide", "wild", "wise", "young",
)  # fmt: skip
_THINGS = (
    "acorn", "apple", "badger", "basin", "beach", "birch", "bison", "brook", "cedar", "cliff", "cloud", "comet",
    "coral", "crane", "creek", "daisy", "delta", "ember", "falcon", "fern", "finch", "fjord", "forest", "fox",
    "garden", "glade", "grove", "harbor", "hazel", "heron", "hill", "island", "kelp", "lagoon", "lake", "lark",
    "lynx", "maple", "meadow", "mesa", "moss", "oasis", "ocean", "orchid", "otter", "owl", "pebble", "pine",
    "prairie", "raven", "reef", "ridge", "river", "robin", "sable", "shell", "shore", "slope", "sparrow", "spruce",
    "stone", "summit", "thicket", "tide", "tiger", "trail", "valley", "violet", "willow", "wren",
)  # fmt: skip
_WORD = re.compile(r"""(?:[^\s"']+|"(?:\\.|[^"\\])*"|'[^']*')+""")


def new_id(taken: Container[str], below: Callable[[int], int] = secrets.randbelow) -> str:
    """Return two words and a number that nobody has: `brisk-otter-417`."""
    digits = 3
    while True:
        rest, mood = divmod(below(len(_MOODS) * len(_THINGS) * 10**digits), len(_MOODS))
        number, thing = divmod(rest, len(_THINGS))
        id = f"{_MOODS[mood]}-{_THINGS[thing]}-{number:0{digits}}"
        if id not in taken:
            return id
        digits = min(digits + 1, 12)


def short_name(command: str) -> str:
    """Return the program and the first argument that is no option: enough to recognise a command by."""
    words = [_unquoted(word) for word in _WORD.findall(command)]
    if len(words) < 2:
        return shortened("".join(words), _LONGEST)
    argument = next((word for word in words[1:] if not word.startswith("-")), words[1])
    return f"{shortened(words[0], _LONGEST)} {shortened(argument, _LONGEST)}"


def shortened(text: str, most: int) -> str:
    """Return a text that is too long without its middle; what is beyond the basic plane counts twice."""
    if sum(map(_width, text)) <= most:
        return text
    half = max(0, (most - 3) // 2)
    end = _within(text[::-1], half)[::-1]
    return f"{_within(text, half)}{'...'[:most]}{end}"


def duration(milliseconds: float) -> str:
    """Return how long something took, as people write it: 999ms, 59s, 1m00s."""
    if milliseconds < 1000:
        return f"{int(milliseconds)}ms"
    minutes, seconds = divmod(int(milliseconds // 1000), 60)
    return f"{minutes}m{seconds:02}s" if minutes else f"{seconds}s"


def _unquoted(word: str) -> str:
    return word[1:-1] if len(word) > 1 and word[0] in "\"'" and word[-1] == word[0] else word


def _within(text: str, most: int) -> str:
    taken = 0
    for at, char in enumerate(text):
        taken += _width(char)
        if taken > most:
            return text[:at]
    return text


def _width(char: str) -> int:
    return 2 if ord(char) > 0xFFFF else 1
