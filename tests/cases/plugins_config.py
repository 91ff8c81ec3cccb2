"""openclaw-plugins-config-message: manifests, enabling, the file's schema, and where the actions of message go."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from toolcrib.app import list_enabled_plugins
from toolcrib.backends.plugins import MANIFEST, read_manifest
from toolcrib.config.load import load
from toolcrib.config.settings import MessageSettings
from toolcrib.define.errors import ConfigError, PluginError
from toolcrib.services.channels.targets import CurrentChat, apply_target, check_context, has_target, needs_target

from .load import Case
from .outcome import Refused, compare

Json = dict[str, Any]


def _manifest(args: Json) -> Json:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / MANIFEST
        text = args.get("raw", args.get("text"))
        if text is None and "manifest" in args:
            text = json.dumps(args["manifest"])
        if text is not None:
            path.write_text(text)
        try:
            manifest = read_manifest(path)
        except PluginError as error:
            return {"ok": False, "error": str(error)}
    return {"ok": True, "manifest": {"id": manifest.id, "configSchema": manifest.config_schema}}


def _same_manifest(case: Case, ours: Any) -> str:
    recorded = case.expected["result"]
    if ours["ok"] != recorded["ok"]:
        return f"recorded: {recorded}"
    if recorded["ok"]:
        wanted = {key: recorded["manifest"][key] for key in ("id", "configSchema")}
        return "" if ours["manifest"] == wanted else f"recorded: {wanted}"
    words = [word for word in ("id", "configSchema", "object", "not found") if word in recorded["error"].split(":")[0]]
    missing = [word for word in words if word not in ours["error"]]
    return f"our error does not mention {missing}" if missing else ""


def _enabled(args: Json) -> Json:
    plugins = args.get("plugins") or {}
    config = load({"plugins": plugins} if plugins else {}, {}, openclaw=True).config
    is_ours = args["id"] == "memory-core" and args.get("origin") == "bundled"  # memory is no plugin here
    is_on = config.memory.enabled if is_ours else args["id"] in list_enabled_plugins(config)
    return {"enabled": is_on}


def _same_enabled(case: Case, ours: Any) -> str:
    recorded = case.expected["result"]["enabled"]
    return "" if ours["enabled"] == recorded else f"recorded: {recorded}"


def _validate(args: Json) -> Json:
    try:
        loaded = load(args["config"], {}, openclaw=True)
    except ConfigError as error:
        return {"ok": False, "path": error.place.path}
    return {"ok": True, "ignored": list(loaded.ignored)} if loaded.ignored else {"ok": True}


def _same_validation(case: Case, ours: Any) -> str:
    recorded = case.expected["result"]
    if ours["ok"] != recorded["ok"]:
        return f"recorded: {recorded}"
    if recorded["ok"]:
        return ""
    paths = [issue["path"] for issue in recorded["issues"]]
    near = any(ours["path"].startswith(path) or path.startswith(ours["path"]) for path in paths)
    return "" if near else f"ours is about {ours['path']}, recorded are {paths}"


def _apply_target(args: Json) -> Json:
    return apply_target(args["action"], args["args"])


def _same_target(case: Case, ours: Any) -> str:
    """Compare what comes out; of a refusal, that it is about the target, which the recorded sentences are all about."""
    if case.expected["ok"] or not isinstance(ours, Refused):
        return compare(case, ours)
    return "" if "target" in ours.message else f"ours is about something else: {ours.message}"


def _check_context(args: Json) -> str:
    """Judge for the owner: nobody else is known there."""
    bound, params = args.get("toolContext") or {}, args["args"]
    chat = (bound.get("currentChannelId") or "").strip()
    current = CurrentChat(bound.get("currentChannelProvider") or args["channel"], chat) if chat else None
    said = ((args.get("config") or {}).get("tools") or {}).get("message") or {}
    names = ("channelId", "to") if args["action"].startswith("thread-") else ("to", "channelId")
    target = next((params[name].strip() for name in names if isinstance(params.get(name), str)), chat)
    check_context(args["action"], args["channel"], target, current, MessageSettings.model_validate(said))
    return "allowed"


ADAPTERS: dict[str, Callable[[Json], Any]] = {
    "loadPluginManifest": _manifest,
    "pluginEnableState": _enabled,
    "validateConfig": _validate,
    "actionHasTarget": lambda args: has_target(args["action"], args["params"]),
    "actionRequiresTarget": lambda args: needs_target(args["action"]),
    "applyTargetToParams": _apply_target,
    "enforceCrossContextPolicy": _check_context,
}

SAME: dict[str, Callable[[Case, Any], str]] = {
    "loadPluginManifest": _same_manifest,
    "pluginEnableState": _same_enabled,
    "validateConfig": _same_validation,
    "applyTargetToParams": _same_target,
}
