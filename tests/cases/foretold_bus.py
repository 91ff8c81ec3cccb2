"""What is known of a call by our rules, in the messages of their bus: for differences/*.toml."""

from typing import Any

__all__ = ["told"]

Json = dict[str, Any]


def told(args: Json) -> list[Json]:
    """Return what the strictest word about `t` comes to; what a caller brings along says nothing."""
    chain, server = args["derive"], args["serverName"]
    said = {args["decision"]} | {
        rule["decision"]
        for rule in args["rules"]
        if rule["toolName"] in ("t", "*")
        and ("subagent" not in rule or rule["subagent"].rpartition("/")[2] in chain)
        and rule.get("mcpName", server) in (server, "*" if server else None)
    }
    response: Json = {"type": "tool-confirmation-response", "confirmed": not said & {"deny", "ask_user"}}
    if "deny" in said:
        return [{"type": "tool-policy-rejection"}, response]
    if "ask_user" not in said:
        return [response]
    if args["listener"]:
        return [{"type": "request-forwarded", **({"subagent": "/".join(chain)} if chain else {})}]
    return [{**response, "requiresUserConfirmation": True}]
