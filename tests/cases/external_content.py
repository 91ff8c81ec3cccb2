"""openclaw-external-content on adapter/fence (hooks on define/session.py, and by a real POST to a gateway)."""

import asyncio
import re
from collections.abc import Callable
from typing import Any

from toolcrib.adapter.fence import NOTICE, fence, suspicions
from toolcrib.define import session

Json = dict[str, Any]

TOKEN = "5eed5eed0ddba115"

# What the recordings call the sources, and the patterns they found.
_LABELS = {
    "email": "Email",
    "webhook": "Webhook",
    "api": "API",
    "web_search": "Web Search",
    "web_fetch": "Web Fetch",
}
_PATTERNS = {
    "ignore previous instructions": r"ignore\s+(all\s+)?(previous|prior|above)\s+(instructions?|prompts?)",
    "disregard what came before": r"disregard\s+(all\s+)?(previous|prior|above)",
    "forget your instructions": r"forget\s+(everything|all|your)\s+(instructions?|rules?|guidelines?)",
    "you are now a": r"you\s+are\s+now\s+(a|an)\s+",
    "new instructions": r"new\s+instructions?:",
    "system prompt": r"system\s*:?\s*(prompt|override|command)",
    "exec command=": r"\bexec\b.*command\s*=",
    "elevated=true": r"elevated\s*=\s*true",
    "rm -rf": r"rm\s+-rf",
    "delete all": r"delete\s+all\s+(emails?|files?|data)",
    "system tag": r"<\/?system>",
    "turn of another": r"\]\s*\n\s*\[?(system|assistant|user)\]?:",
}


def _wrap(args: Json) -> str:
    options = args.get("options", {})
    about = {name: options[key] for name, key in (("From", "sender"), ("Subject", "subject")) if options.get(key)}
    notice = "" if options.get("includeWarning") is False else NOTICE
    return _told(fence(args["content"], _label(options), TOKEN, notice=notice, about=about))


def _web(args: Json) -> str:
    source = args.get("source", "web_search")
    notice = NOTICE if source == "web_fetch" else ""
    return _told(fence(args["content"], _label({"source": source}), TOKEN, notice=notice))


def _prompt(args: Json) -> str:
    given = {"Task": args.get("jobName"), "Job ID": args.get("jobId"), "Received": args.get("timestamp")}
    job = " | ".join(f"{name}: {value}" for name, value in given.items() if value)
    about = {name: args[key] for name, key in (("From", "sender"), ("Subject", "subject")) if args.get(key)}
    notice = f"{job}\n\n{NOTICE}" if job else NOTICE
    return _told(fence(args["content"], _label(args), TOKEN, notice=notice, about=about))


def _label(options: Json) -> str:
    return _LABELS.get(options.get("source", ""), "External")


def _told(fenced: str) -> str:
    """Return our text in the recorded shape: marks without a token, blank lines where the original has them."""
    before, mark, inside = fenced.partition("<<<")
    told = before.replace(NOTICE, "{WARNING}") + ("\n" if not before or before.endswith("\n\n") else "")
    return f"{told}{mark}{inside}".replace(f' id="{TOKEN}"', "")


def _suspicions(args: Json) -> list[str]:
    return [_PATTERNS[name] for name in suspicions(args["content"])]


def _is_hook(args: Json) -> bool:
    return session.kind_from_key(args["key"]) == "hook"


def _hook_source(args: Json) -> str:
    """Return where a hook's words come from, as its agent is told; what no hook can have for a session is unknown."""
    from tests.attacks.ways import wake  # noqa: PLC0415  a gateway, for a few rows

    found = re.fullmatch(r"hook:([a-z0-9_-]{1,64})(:.*)?", args["key"])
    if found is None:
        return "unknown"
    said = asyncio.run(wake(found[1]))
    return said.partition("Source: ")[2].partition("\n")[0]


ADAPTERS: dict[str, Callable[[Json], Any]] = {
    "buildSafeExternalPrompt": _prompt,
    "detectSuspiciousPatterns": _suspicions,
    "getHookType": _hook_source,
    "isExternalHookSession": _is_hook,
    "wrapExternalContent": _wrap,
    "wrapWebContent": _web,
}
