"""Profiles and the built-in lists of the sandbox and subagent layers: data, as document 001 gives it."""

from collections.abc import Mapping

__all__ = ["PROFILES", "SANDBOX_ALLOW", "SANDBOX_DENY", "SUBAGENT_DENY"]

# None does not limit.
PROFILES: Mapping[str, tuple[str, ...] | None] = {
    "minimal": ("session_status",),
    "coding": ("group:fs", "group:runtime", "group:sessions", "group:memory", "image"),
    "messaging": ("group:messaging", "sessions_list", "sessions_send", "session_status"),
    "full": None,
}

SANDBOX_ALLOW: tuple[str, ...] = (
    "exec", "process", "read", "write", "edit", "apply_patch", "grep", "find", "ls", "image", "sessions_list",
    "sessions_history", "sessions_send", "sessions_spawn", "session_status", "subagents", "result_get",
)  # fmt: skip

SANDBOX_DENY: tuple[str, ...] = (
    "browser", "canvas", "nodes", "cron", "gateway",
    "telegram", "whatsapp", "discord", "googlechat", "slack", "signal", "imessage",
)  # fmt: skip

# What a subagent never gets: steering the main agent, running the system, logging in, and what its prompt hands over.
SUBAGENT_DENY: tuple[str, ...] = (
    "sessions_list", "sessions_history", "sessions_send", "sessions_spawn", "gateway", "agents_list", "whatsapp_login",
    "session_status", "cron", "memory_search", "memory_get",
)  # fmt: skip
