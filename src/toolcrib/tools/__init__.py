"""The shelf: every built-in tool, in the order models see them.

A tool without a body yet is declared here with its group and effects, so that policy can judge, explain and lint it;
its row gives way to the tool itself when `tools/<group>/<name>.py` arrives. A tool that does not state its effects
counts as having all of them: a shell can do anything.
"""

from toolcrib import Agent, Tool

from .agents.codebase_investigator import codebase_investigator
from .agents.generalist import generalist
from .automation.cron import cron
from .automation.gateway import gateway
from .channels.discord_history import discord_history
from .channels.discord_members import discord_members
from .channels.slack_history import slack_history
from .channels.slack_members import slack_members
from .channels.telegram_chat import telegram_chat
from .channels.whatsapp_login import whatsapp_login
from .fs.apply_patch import apply_patch
from .fs.edit import edit
from .fs.find import find
from .fs.grep import grep
from .fs.ls import ls
from .fs.read import read
from .fs.write import write
from .media.image import image
from .media.tts import tts
from .memory.memory_get import memory_get
from .memory.memory_search import memory_search
from .messaging.message import message
from .nodes.nodes import nodes
from .runtime.exec import exec
from .runtime.process import process
from .sessions.agents_list import agents_list
from .sessions.result_get import result_get
from .sessions.session_status import session_status
from .sessions.sessions_history import sessions_history
from .sessions.sessions_list import sessions_list
from .sessions.sessions_send import sessions_send
from .sessions.sessions_spawn import sessions_spawn
from .sessions.subagents import subagents
from .ui.browser import browser
from .ui.canvas import canvas
from .web.web_fetch import web_fetch
from .web.web_search import web_search

__all__ = ["AGENTS", "CHANNEL_TOOLS", "SHELF"]

SHELF: tuple[Tool, ...] = (
    read,
    write,
    edit,
    apply_patch,
    grep,
    find,
    ls,
    exec,
    process,
    browser,
    canvas,
    nodes,
    cron,
    message,
    tts,
    gateway,
    agents_list,
    sessions_list,
    sessions_history,
    sessions_send,
    sessions_spawn,
    session_status,
    subagents,
    result_get,
    web_search,
    web_fetch,
    memory_search,
    memory_get,
    image,
)

# Tools that come with a channel, for whoever has it.
CHANNEL_TOOLS: dict[str, tuple[Tool, ...]] = {
    "discord": (discord_history, discord_members),
    "slack": (slack_history, slack_members),
    "telegram": (telegram_chat,),
    "whatsapp": (whatsapp_login,),
}

# Subagents that come with toolcrib; each becomes a tool of its own name.
AGENTS: tuple[Agent, ...] = (codebase_investigator, generalist)
