"""pi-partial-json on adapter/arguments.py."""

from collections.abc import Callable
from typing import Any

import orjson

from toolcrib.adapter.arguments import parse_partial_arguments

Json = dict[str, Any]


def _so_far(args: Json) -> Any:
    """Read what has arrived, as it is shown on the wire: there NaN is null."""
    return orjson.loads(orjson.dumps(parse_partial_arguments(args["text"])))


ADAPTERS: dict[str, Callable[[Json], Any]] = {"pi.parseStreamingJson": _so_far}
