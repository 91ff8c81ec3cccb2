"""openclaw-session-keys on define/session.py."""

from collections.abc import Callable
from typing import Any

from toolcrib.define import session
from toolcrib.define.session import DmScope, Peer

Json = dict[str, Any]


def _parse(args: Json) -> Json | None:
    key = session.parse_key(_text(args.get("key")))
    return {"agentId": key.agent, "rest": key.rest} if key else None


def _announce(args: Json) -> Json | None:
    target = session.target_from_key(_text(args.get("key")))
    if target is None:
        return None
    thread = {"threadId": target.thread} if target.thread else {}
    return {"channel": target.channel, "to": target.to, **thread}


def _kind(args: Json) -> str:
    kind = session.kind_from_key(_text(args.get("key")), (args["alias"], args["mainKey"]))
    return "group" if kind == "other" and args.get("gatewayKind") == "group" else kind


def _channel(args: Json) -> str:
    return session.channel_from_key(
        _text(args.get("key")), args["kind"], (args.get("channel"), args.get("lastChannel"))
    )


def _main_alias(args: Json) -> Json:
    settings = args.get("config", {}).get("session", {})
    main, scope = _text(settings.get("mainKey")), settings.get("scope") or "per-sender"
    return {"mainKey": session.to_main(main), "alias": session.to_main_alias(main, scope), "scope": scope}


def _store(args: Json) -> str:
    return session.to_store_key(args["agentId"], _text(args.get("requestKey")), main=_text(args.get("mainKey")))


def _peer(args: Json) -> str:
    peer = Peer(
        channel=_text(args.get("channel")),
        id=_text(args.get("peerId")),
        kind=args.get("peerKind") or "dm",
        account=_text(args.get("accountId")),
    )
    scope: DmScope = args.get("dmScope") or "main"
    main = _text(args.get("mainKey"))
    return session.to_peer_key(args["agentId"], peer, scope=scope, links=args.get("identityLinks"), main=main)


def _thread(args: Json) -> Json:
    base, thread = args["baseSessionKey"], _text(args.get("threadId"))
    in_thread = session.to_thread_key(base, thread)
    key = in_thread if args.get("useSuffix") is not False else base
    parent = args.get("parentSessionKey") if in_thread != base else None
    return {"sessionKey": key, **({"parentSessionKey": parent} if parent else {})}


def _may_message(args: Json) -> bool:
    settings = args["config"].get("tools", {}).get("agentToAgent", {})
    # an OpenClaw file is read with its own meaning of an empty list: no limit
    allow = settings.get("allow") or None
    return session.may_message(args["requester"], args["target"], enabled=settings.get("enabled") is True, allow=allow)


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _on_key(function: Callable[[str], Any]) -> Callable[[Json], Any]:
    return lambda args: function(_text(args.get("key")))


def _on_value(function: Callable[[str], Any]) -> Callable[[Json], Any]:
    return lambda args: function(_text(args.get("value")))


ADAPTERS: dict[str, Callable[[Json], Any]] = {
    "agentToAgentAllowed": _may_message,
    "buildAgentPeerSessionKey": _peer,
    "classifySessionKind": _kind,
    "deriveChannel": _channel,
    "isAcpSessionKey": _on_key(session.is_acp),
    "isSubagentSessionKey": _on_key(session.is_subagent),
    "looksLikeSessionId": _on_value(session.is_session_id),
    "looksLikeSessionKey": _on_value(session.is_key),
    "normalizeAccountId": _on_value(session.to_account),
    "normalizeAgentId": _on_value(session.to_agent),
    "normalizeMessageChannel": _on_value(session.to_channel),
    "parseAgentSessionKey": _parse,
    "resolveAgentIdFromSessionKey": _on_key(session.agent_from_key),
    "resolveAnnounceTargetFromKey": _announce,
    "resolveMainSessionAlias": _main_alias,
    "resolveThreadParentSessionKey": _on_key(session.parent_from_key),
    "resolveThreadSessionKeys": _thread,
    "shouldResolveSessionIdInput": _on_value(session.may_be_session_id),
    "toAgentRequestSessionKey": _on_key(session.to_request_key),
    "toAgentStoreSessionKey": _store,
}
