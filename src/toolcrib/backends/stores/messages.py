"""Messages of channels in SQLite: what came and how far, what is to be sent, who was admitted."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import apsw
import orjson

from toolcrib.define.caller import Caller
from toolcrib.define.channel import (
    Acquaintance,
    ChatPlace,
    DirectPlace,
    HeardMessage,
    KeptMessage,
    KeptPost,
    Post,
    PostState,
)
from toolcrib.define.taint import join_sources
from toolcrib.threads import in_turn

from .sqlite import SqliteFile

_KEPT = 10_000  # messages and posts of a channel that are done with: what comes a second time is known by them
_HEAR = "INSERT INTO heard (channel, chat, id, body) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING number"
_BUTTON = """
    SELECT DISTINCT body ->> 'source' FROM posts WHERE channel = ? AND body ->> 'chat' = ? AND body ->> 'source' != ''
    AND EXISTS (SELECT 1 FROM json_tree(body, '$.buttons') WHERE key = 'data' AND atom = ?)
"""
_OLD = "DELETE FROM {0} WHERE channel = :of AND {1} AND number <= (SELECT max(number) FROM {0}) - :keep"


class SqliteMessages:
    """A MessageStore in a file."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    async def cursor(self, channel: str, /) -> str:
        rows = await self._ask("SELECT cursor FROM channel_cursors WHERE channel = ?", channel)
        return str(rows[0][0]) if rows else ""

    async def forget_cursor(self, channel: str, /) -> None:
        sql = "DELETE FROM channel_cursors WHERE channel = ?"
        await in_turn(self._file.transact, lambda db: db.execute(sql, (channel,)) and None)

    async def hear(self, channel: str, messages: Sequence[HeardMessage], cursor: str, /) -> int:
        def run(db: apsw.Connection) -> int:
            rows = [(channel, each.chat, each.id, _dump(each)) for each in messages]
            new = [row for each in rows for row in db.execute(_HEAR, each)]
            if cursor:
                db.execute("INSERT OR REPLACE INTO channel_cursors VALUES (?, ?)", (channel, cursor))
            if new:
                db.execute(_OLD.format("heard", "answered = 1"), {"of": channel, "keep": _KEPT})
            return len(new)

        return await in_turn(self._file.transact, run)

    async def list_unanswered(
        self, channel: str, /, *, after: int = 0, most: int = 1_000, chat: str = ""
    ) -> tuple[KeptMessage, ...]:
        sql = """SELECT number, body FROM heard
                 WHERE channel = ? AND answered = 0 AND number > ? AND ? IN ('', chat) ORDER BY number LIMIT ?"""
        rows = await self._ask(sql, channel, after, chat, most)
        return tuple(KeptMessage(number, HeardMessage.from_json(orjson.loads(body))) for number, body in rows)

    async def list_heard(self) -> tuple[tuple[str, HeardMessage], ...]:
        rows = await self._ask("SELECT channel, body FROM heard ORDER BY number")
        return tuple((channel, HeardMessage.from_json(orjson.loads(body))) for channel, body in rows)

    async def answer(self, channel: str, number: int, posts: Sequence[Post], /) -> None:
        def run(db: apsw.Connection) -> None:
            db.execute("UPDATE heard SET answered = 1 WHERE number = ?", (number,))
            _add_posts(db, channel, f"heard-{number}", posts)

        await in_turn(self._file.transact, run)

    async def say(self, channel: str, key: str, posts: Sequence[Post], /) -> None:
        await in_turn(self._file.transact, lambda db: _add_posts(db, channel, key, posts))

    async def outgoing(self, channel: str, /) -> tuple[KeptPost, ...]:
        sql = """SELECT number, key, body, state FROM posts
                 WHERE channel = ? AND state IN ('waiting', 'sending') ORDER BY number"""
        rows = await self._ask(sql, channel)
        return tuple(
            KeptPost(number, key, Post.from_json(orjson.loads(body)), state) for number, key, body, state in rows
        )

    async def move_post(self, number: int, to: PostState, /, detail: str = "") -> None:
        sql = "UPDATE posts SET state = ?, told = ? WHERE number = ?"
        await in_turn(self._file.transact, lambda db: db.execute(sql, (to, detail, number)) and None)

    async def find_button(self, channel: str, chat: str, data: str, /) -> str:
        found = await self._ask(_BUTTON, channel, chat, data)
        return join_sources(source for (source,) in found)

    async def find_posts(self, channel: str, key: str, /) -> tuple[tuple[PostState, str], ...]:
        sql = "SELECT state, told FROM posts WHERE channel = ? AND key >= ? AND key < ? ORDER BY number"
        rows = await self._ask(sql, channel, f"{key}/", f"{key}0")  # 0 comes behind the slash
        return tuple((state, detail) for state, detail in rows)

    async def acquaintances(self, channel: str = "", /) -> tuple[Acquaintance, ...]:
        sql = "SELECT channel, sender, chat, name, code, at FROM acquaintances WHERE ? IN ('', channel) ORDER BY at"
        return tuple(Acquaintance(*row) for row in await self._ask(sql, channel))

    async def list_direct(self) -> tuple[DirectPlace, ...]:
        sql = "SELECT channel, id, e164, chat, thread, at FROM direct_places ORDER BY at"
        return tuple(DirectPlace(*row) for row in await self._ask(sql))

    async def keep_direct(self, place: DirectPlace, /) -> None:
        sql = "INSERT OR REPLACE INTO direct_places VALUES (?, ?, ?, ?, ?, ?)"
        await in_turn(self._file.transact, lambda db: db.execute(sql, place) and None)

    async def keep_acquaintance(self, who: Acquaintance, /) -> None:
        sql = "INSERT OR REPLACE INTO acquaintances VALUES (?, ?, ?, ?, ?, ?)"
        await in_turn(self._file.transact, lambda db: db.execute(sql, who) and None)

    async def forget_acquaintance(self, channel: str, sender: str, /) -> bool:
        sql = "DELETE FROM acquaintances WHERE channel = ? AND sender = ? RETURNING 1"
        return bool(await in_turn(self._file.transact, lambda db: db.execute(sql, (channel, sender)).fetchall()))

    async def keep_place(self, session: str, place: ChatPlace, /) -> None:
        row = session, *place[:3], orjson.dumps(asdict(place.caller)).decode()
        sql = "INSERT OR REPLACE INTO places VALUES (?, ?, ?, ?, ?)"
        await in_turn(self._file.transact, lambda db: db.execute(sql, row) and None)

    async def places(self) -> dict[str, ChatPlace]:
        rows = await self._ask("SELECT session, channel, chat, thread, caller FROM places")
        return {
            key: ChatPlace(channel, chat, thread, Caller.from_json(orjson.loads(caller)))
            for key, channel, chat, thread, caller in rows
        }

    async def _ask(self, sql: str, *values: Any) -> list[Any]:
        return await in_turn(self._file.transact, lambda db: db.execute(sql, values).fetchall(), writes=False)


def _add_posts(db: apsw.Connection, channel: str, key: str, posts: Sequence[Post]) -> None:
    sql = "INSERT INTO posts (channel, key, body) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
    db.executemany(sql, [(channel, f"{key}/{index}", _dump(post)) for index, post in enumerate(posts)])
    if posts:
        done = "state IN ('sent', 'failed', 'uncertain')"
        db.execute(_OLD.format("posts", done), {"of": channel, "keep": _KEPT})


def _dump(value: HeardMessage | Post) -> str:
    return orjson.dumps(value.to_json()).decode()
