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
)
