"""The schema of a store in PostgreSQL, and its migrations."""

from __future__ import annotations

from typing import Final

from msgspec import Struct


class Migration(Struct, frozen=True):
    """Migrates the schema to the version equal to its position in the list. `least`: the oldest
    version whose programs can still use the schema. Migrations that only add objects leave `least`
    unchanged: programs of both versions then run side by side, and a later migration removes the
    objects that only the older one needed."""

    sql: str
    least: int


MIGRATIONS: Final[tuple[Migration, ...]] = (
    Migration(
        """
        CREATE TABLE meta(key text PRIMARY KEY, value text NOT NULL);
        CREATE TABLE session(
            num bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            id text COLLATE "C" NOT NULL UNIQUE, epoch text NOT NULL, generation integer NOT NULL,
            owner bigint NOT NULL, next bigint NOT NULL, agent text NOT NULL, cwd text NOT NULL,
            title text, prompt text NOT NULL DEFAULT '', phase text NOT NULL,
            turns bigint NOT NULL DEFAULT 0, tenant text NOT NULL DEFAULT '',
            created timestamptz NOT NULL, updated timestamptz NOT NULL,
            about bytea NOT NULL, head bytea NOT NULL DEFAULT '',
            head_seq bigint NOT NULL DEFAULT 0) WITH (fillfactor=50);
        CREATE INDEX session_by ON session(tenant, updated, id);
        CREATE INDEX session_of ON session(tenant, cwd, updated, id);
        CREATE TABLE frame(
            session bigint NOT NULL, first bigint NOT NULL, last bigint NOT NULL,
            owner bigint NOT NULL, at timestamptz NOT NULL DEFAULT now(), body bytea NOT NULL)
            PARTITION BY RANGE (at);
        CREATE INDEX frame_at ON frame(session, first);
        CREATE TABLE frame_left PARTITION OF frame FOR VALUES FROM (MINVALUE) TO ('2000-01-01');
        CREATE TABLE record(
            session bigint NOT NULL, number bigint NOT NULL, last bigint NOT NULL,
            body bytea NOT NULL, said text NOT NULL, words tsvector NOT NULL,
            PRIMARY KEY(session, number));
        CREATE INDEX record_words ON record USING gin(words);
        CREATE TABLE answer(
            client text NOT NULL, id text NOT NULL, digest bytea NOT NULL, body bytea NOT NULL,
            at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY(client, id));
        CREATE TABLE chat(name text PRIMARY KEY, session text NOT NULL);
        """,
        least=1,
    ),
    # Several processes write: each has a lease, and each session has the lease of its owner. A
    # program of version 1 uses the store alone while it writes, and owns its sessions without one.
    Migration(
        """
        CREATE TABLE node(
            num bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL,
            host text NOT NULL, pid bigint NOT NULL, role text NOT NULL, home text NOT NULL,
            version text NOT NULL, since timestamptz NOT NULL DEFAULT now(),
            until timestamptz NOT NULL, draining boolean NOT NULL DEFAULT false,
            load bytea NOT NULL DEFAULT '{}') WITH (fillfactor=50);
        ALTER TABLE session ADD COLUMN node bigint, ADD COLUMN home text NOT NULL DEFAULT '';
        CREATE INDEX session_on ON session(node) WHERE node IS NOT NULL;
        """,
        least=1,
    ),
    # Watches of sessions from other processes, and commands from there.
    Migration(
        """
        CREATE TABLE watch(
            session bigint NOT NULL, node bigint NOT NULL, PRIMARY KEY(session, node));
        CREATE TABLE command(
            num bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            client text NOT NULL, id text NOT NULL, session text NOT NULL,
            asker bigint NOT NULL, node bigint NOT NULL, taken boolean NOT NULL DEFAULT false,
            digest bytea NOT NULL, body bytea NOT NULL, answer bytea,
            at timestamptz NOT NULL DEFAULT now(), UNIQUE(client, id)) WITH (fillfactor=50);
        CREATE INDEX command_open ON command(node) WHERE answer IS NULL;
        """,
        least=1,
    ),
    # Lists contain the sessions of all tenants. Older programs neither create nor list tenants'
    # sessions.
    Migration(
        """
        DROP INDEX session_by;
        DROP INDEX session_of;
        CREATE INDEX session_latest ON session(updated, id);
        CREATE INDEX session_in ON session(cwd, updated, id);
        """,
        least=1,
    ),
)

KEPT_PARTITION: Final = "frame_left"
"""The partition for the few frames that no head replaces when the partition of their hour is
dropped."""


def partition(hour: int) -> str:
    """Return the name of the partition for an hour since the Unix epoch."""
    return f"frame_{hour}"


def hour_of(name: str) -> int | None:
    """Return the hour of a partition, by its name; None for other tables."""
    number = name.removeprefix("frame_")
    return int(number) if number.isdecimal() else None
