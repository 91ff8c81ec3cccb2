"""The tables of the store, as they grew: every entry is one transaction, and none is ever changed again."""

__all__ = ["MIGRATIONS"]

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE questions (
        id TEXT PRIMARY KEY,
        digest TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('pending', 'allowed', 'denied', 'spent', 'withdrawn', 'expired')),
        person TEXT NOT NULL,
        asked_at REAL NOT NULL,
        expires_at REAL NOT NULL,
        answered_by TEXT NOT NULL,
        body TEXT NOT NULL
    ) STRICT;
    CREATE INDEX questions_by_digest ON questions (digest);
    CREATE INDEX questions_by_state ON questions (state, asked_at);
    CREATE TABLE grants (
        id TEXT PRIMARY KEY,
        digest TEXT NOT NULL,
        made_at REAL NOT NULL,
        until REAL NOT NULL,
        body TEXT NOT NULL
    ) STRICT;
    CREATE INDEX grants_by_digest ON grants (digest);
    """,
    """
    CREATE TABLE sessions (
        id INTEGER PRIMARY KEY,
        key TEXT NOT NULL UNIQUE,
        made_at REAL NOT NULL,
        changed_at REAL NOT NULL,
        about TEXT NOT NULL
    ) STRICT;
    CREATE TABLE lines (
        session INTEGER NOT NULL,
        number INTEGER NOT NULL,
        id TEXT NOT NULL,
        at REAL NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (session, number),
        UNIQUE (session, id)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE blobs (
        hash TEXT PRIMARY KEY,
        size INTEGER NOT NULL,
        kept_at REAL NOT NULL,
        data BLOB NOT NULL
    ) STRICT;
    CREATE INDEX blobs_by_age ON blobs (kept_at, size, hash);
    CREATE TABLE pictures (
        hash TEXT NOT NULL,
        session INTEGER NOT NULL,
        PRIMARY KEY (hash, session)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX pictures_by_session ON pictures (session);
    """,
    """
    CREATE TABLE record (
        seq INTEGER PRIMARY KEY,
        at REAL NOT NULL,
        kind TEXT NOT NULL,
        body TEXT NOT NULL,
        hash TEXT NOT NULL
    ) STRICT;
    CREATE TABLE record_head (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        count INTEGER NOT NULL,
        hash TEXT NOT NULL
    ) STRICT;
    INSERT INTO record_head VALUES (1, 0, '0000000000000000000000000000000000000000000000000000000000000000');
    CREATE TABLE record_grounds (
        digest TEXT PRIMARY KEY
    ) STRICT, WITHOUT ROWID;
    """,
    """
    CREATE TABLE mcp_pins (
        server TEXT NOT NULL,
        tool TEXT NOT NULL,
        digest TEXT NOT NULL,
        body TEXT NOT NULL,
        pinned_at REAL NOT NULL,
        PRIMARY KEY (server, tool)
    ) STRICT, WITHOUT ROWID;
    """,
)
