"""openclaw-param-readers on define/args.py and define/result.py."""

from collections.abc import Callable
from typing import Any

from toolcrib.define.args import Args, is_on
from toolcrib.define.result import Result

Json = dict[str, Any]


def _string(args: Json) -> str | None:
    options = args.get("options", {})
    return Args(args["params"]).string(
        args["key"],
        required=bool(options.get("required")),
        trim=options.get("trim", True),
        allow_empty=options.get("allowEmpty", False),
        label=options.get("label"),
    )


def _number(args: Json) -> float | None:
    options, given = args.get("options", {}), Args(args["params"])
    read = given.integer if options.get("integer") else given.number
    return read(args["key"], required=bool(options.get("required")), label=options.get("label"))


def _strings(args: Json) -> list[str] | None:
    options = args.get("options", {})
    return Args(args["params"]).strings(args["key"], required=bool(options.get("required")), label=options.get("label"))


def _string_or_number(args: Json) -> str | None:
    options = args.get("options", {})
    return Args(args["params"]).string_or_number(
        args["key"], required=bool(options.get("required")), label=options.get("label")
    )


def _reaction(args: Json) -> Json:
    given, options = Args(args["params"]), args.get("options", {})
    remove = given.flag(options.get("removeKey", "remove"))
    emoji = given.string(options.get("emojiKey", "emoji"), required=True, allow_empty=not remove)
    return {"emoji": emoji, "remove": remove, "isEmpty": not emoji}


def _json(args: Json) -> Json:
    form = Result.json(args.get("payload")).to_json()
    return {"content": form["content"], "details": form["details"]}


def _is_on(args: Json) -> bool:
    return is_on(args.get("actions"), args["key"], default=args.get("defaultValue", True))


ADAPTERS: dict[str, Callable[[Json], Any]] = {
    "createActionGate": _is_on,
    "jsonResult": _json,
    "readNumberParam": _number,
    "readReactionParams": _reaction,
    "readStringArrayParam": _strings,
    "readStringOrNumberParam": _string_or_number,
    "readStringParam": _string,
}
