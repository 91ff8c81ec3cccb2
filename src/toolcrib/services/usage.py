"""Usage: what turns took, by day, model, tool and whoever they were for, as the logs of sessions say."""

import time
from collections import Counter
from collections.abc import Hashable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import Field

from toolcrib.define.caller import Caller
from toolcrib.define.event import Usage
from toolcrib.define.log import Ended, Said, SessionHead, SessionStore
from toolcrib.define.ports import rpc
from toolcrib.define.session import agent_from_key, chat_from_key, direct_from_key, kind_from_key

from .feature import Feature, TurnCore
from .sessions import Sessions

Days = Annotated[int, Field(ge=1, le=366)]
_Table = dict[Hashable, Counter[str]]


def mount(core: TurnCore) -> Feature:
    """Mount what tells of usage."""
    return Feature(services=(UsageReport(core.stores.sessions, core.find(Sessions)),))


class UsageReport:
    """What the sessions that a caller may see have taken; the owner sees all."""

    def __init__(self, store: SessionStore, sessions: Sessions) -> None:
        self._store, self._sessions = store, sessions

    @rpc("usage.cost", clients="read", why="own")
    async def cost(self, caller: Caller, days: Days = 30) -> dict[str, Any]:
        """Tell the tokens and the cost of the sessions that the caller may see, day by day, as turns recorded them."""
        report = await self.report(caller, days)
        return {name: report[name] for name in ("updatedAt", "days", "daily", "totals")}

    @rpc("usage.report", clients="read", why="own")
    async def report(self, caller: Caller, days: Days = 30) -> dict[str, Any]:
        """Tell what turns took by day, model, tool and speaker, of the sessions that the caller may see.

        Days and speakers are counted by turns, models by replies, tools by calls.
        """
        now, daily, models, speakers = time.time(), _Table(), _Table(), _Table()
        since, tools = now - days * 86_400, _Table()
        for head in await self._sessions.find_heads(caller):
            for line in await self._store.lines(head.key) if head.changed_at >= since else ():
                body = line.body
                if line.at < since:
                    continue
                if isinstance(body, Ended):
                    _count(daily, datetime.fromtimestamp(line.at, UTC).date().isoformat(), body.usage, body.cost)
                    _count(speakers, _speaker_of(head), body.usage, body.cost)
                elif isinstance(body, Said) and body.message.role == "assistant":
                    if body.usage is not None:
                        _count(models, body.message.by, body.usage, body.cost)
                    for call in body.message.calls:
                        tools.setdefault(call.name, Counter())["calls"] += 1
        whole = sum(daily.values(), Counter[str]())
        return {
            "updatedAt": int(now * 1000),
            "days": days,
            "daily": sorted(_rows("date", daily), key=lambda row: str(row["date"])),
            "totals": dict(whole),
            "models": _rows("model", models),
            "tools": _rows("tool", tools),
            "callers": [{**row, "caller": _show_speaker(row["caller"])} for row in _rows("caller", speakers)],
        }


def _count(table: _Table, key: Hashable, used: Usage, cost: float | None) -> None:
    counted = table.setdefault(key, Counter())
    tokens = {"totalTokens": used.input + used.output}
    counted.update({"input": used.input, "output": used.output, "turns": 1, **tokens})
    counted["totalCost"] += cost or 0  # type: ignore[assignment]  # a sum of dollars


def _rows(name: str, table: _Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [{name: key, **counted} for key, counted in table.items()]
    return sorted(rows, key=lambda row: -(row.get("totalTokens") or row.get("calls") or 0))


def _speaker_of(head: SessionHead) -> tuple[str, str | None, str | None, str | None]:
    """Return agent, channel, group and sender of the outermost session that a session worked for, by its key."""
    key = head.parents[0] if head.parents else head.key
    agent, last = agent_from_key(key), key.rpartition(":")[2]
    if chat := chat_from_key(key):
        return agent, chat.channel, chat.id, None
    if (channel := direct_from_key(key)) is not None:
        return agent, channel or None, None, last
    kind = kind_from_key(key)
    return (agent, kind, None, last) if kind in ("cron", "hook", "node") else (agent, None, None, None)


def _show_speaker(speaker: tuple[str, str | None, str | None, str | None]) -> Mapping[str, Any]:
    agent, channel, group, sender = speaker
    row = {"agent": agent, "channel": channel, "group": group, "sender": {"id": sender} if sender else None}
    return row | {"owner": channel is None and sender is None}
