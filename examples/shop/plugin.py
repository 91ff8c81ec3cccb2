"""The example plugin: two tools in one file, declared to policy by toolcrib.plugin.json beside it.

toolcrib tools call dice '{"sides": 20, "count": 3}' --config examples/crib.yaml
"""

import random
from collections import Counter
from typing import Annotated

from pydantic import Field

from toolcrib import Plugin, Result, tool


@tool(group="games", effects=set())
def dice(
    sides: Annotated[int, "sides of each die", Field(ge=2, le=1000)],
    count: Annotated[int, "how many dice", Field(ge=1, le=100)] = 1,
    seed: Annotated[int | None, "give the same number to roll the same again"] = None,
) -> Result:
    """Roll dice and tell each roll and the total."""
    chance = random.Random(seed)
    rolls = [chance.randint(1, sides) for _ in range(count)]
    # the model reads the JSON, people the sum
    return Result.json({"rolls": rolls, "total": sum(rolls)}, display=f"{' + '.join(map(str, rolls))} = {sum(rolls)}")


@tool(group="texts", effects=set())
def word_count(
    text: Annotated[str, "the text to count"],
    top: Annotated[int | None, "also list this many of the most frequent words", Field(ge=1, le=100)] = None,
) -> Result:
    """Count the words, lines and characters of a text."""
    words = text.split()
    counted = {"words": len(words), "lines": len(text.splitlines()), "characters": len(text)}
    if top is None:
        return Result.json(counted)
    frequent = Counter(word.strip(".,;:!?\"'()").lower() for word in words).most_common(top)
    return Result.json({**counted, "top": dict(frequent)})


plugin = Plugin(name="shop", tools=(dice, word_count))
