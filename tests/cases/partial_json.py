"""pi-partial-json on adapter/arguments.py."""

from collections.abc import Callable
from typing import Any

import orjson

from toolcrib.adapter.arguments import arguments_so_far

Json = dict[str, Any]


def _so_far(args: Json) -> Any:
    """Read what has arrived, as it is shown on the wire: there NaN is null."""
    return orjson.loads(orjson.dumps(arguments_so_far(args["text"])))


ADAPTERS: dict[str, Callable[[Json], Any]] = {"pi.parseStreamingJson": _so_far}
