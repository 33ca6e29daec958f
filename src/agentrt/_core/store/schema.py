"""The schema of a store's file."""

from typing import Final

APPLICATION_ID: Final = 0x61677274
"""The application id, which `file` shows: "agrt"."""

MIGRATIONS: Final[tuple[str, ...]] = (
    """
    CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;
    CREATE TABLE session(
        num INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, epoch TEXT NOT NULL,
        generation INTEGER NOT NULL, owner INTEGER NOT NULL, next INTEGER NOT NULL,
        agent TEXT NOT NULL, cwd TEXT NOT NULL, title TEXT, prompt TEXT NOT NULL DEFAULT '',
        phase TEXT NOT NULL, turns INTEGER NOT NULL DEFAULT 0, tenant TEXT NOT NULL DEFAULT '',
        created REAL NOT NULL, updated REAL NOT NULL,
        about BLOB NOT NULL, head BLOB NOT NULL, head_seq INTEGER NOT NULL DEFAULT 0);
    CREATE INDEX session_by ON session(tenant, updated);
    CREATE TABLE frame(
        id INTEGER PRIMARY KEY, session INTEGER NOT NULL, first INTEGER NOT NULL,
        last INTEGER NOT NULL, owner INTEGER NOT NULL, at REAL NOT NULL, body BLOB NOT NULL);
    CREATE UNIQUE INDEX frame_at ON frame(session, first);
    CREATE TABLE record(
        session INTEGER NOT NULL, number INTEGER NOT NULL, last INTEGER NOT NULL,
        body BLOB NOT NULL, PRIMARY KEY(session, number));
    """,
    """
    CREATE INDEX session_of ON session(tenant, cwd, updated);
    CREATE VIRTUAL TABLE said USING fts5(text, tokenize="unicode61 remove_diacritics 2");
    """,
    """
    CREATE TABLE answer(
        client TEXT NOT NULL, id TEXT NOT NULL, digest BLOB NOT NULL, body BLOB NOT NULL,
        at REAL NOT NULL, PRIMARY KEY(client, id)) WITHOUT ROWID;
    """,
    """
    CREATE TABLE chat(name TEXT PRIMARY KEY, session TEXT NOT NULL) WITHOUT ROWID;
    """,
    # Lists contain the sessions of all tenants.
    """
    DROP INDEX session_by;
    DROP INDEX session_of;
    CREATE INDEX session_latest ON session(updated, id);
    CREATE INDEX session_in ON session(cwd, updated, id);
    """,
)
"""Each entry migrates the schema from the version equal to its index to the next one."""

NEXT: Final = (
    "max(next, coalesce((SELECT last+1 FROM frame WHERE session=num ORDER BY first DESC LIMIT 1),"
    " 0))"
)
"""SQL: the number of a session's next event. The session's row is written only when one of its
columns changes: a frame of text alone touches no page but its own."""
