"""What is in the schema of a store."""

from __future__ import annotations

from typing import Final

from msgspec import Struct


class Migration(Struct, frozen=True):
    """Takes the schema to the version of its place in the list. `least`: the oldest version whose
    programs can still use it. What only adds leaves that where it was: then programs of both
    versions run side by side, and a later one takes away what the older needed."""

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
    # Several processes write: each has a lease, and each session the lease of who owns it. A
    # program of version 1 has the store to itself while it writes, and owns its sessions by none.
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
    # Who looks at a session from another process, and what is said to it from there.
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
    # Lists are of all tenants. Older programs make none of any, and show none of theirs.
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

KEPT: Final = "frame_left"
"""The partition of frames that no head stands for when their hour's is dropped: they are few."""


def partition(hour: int) -> str:
    """The name of the partition for an hour since the Unix epoch."""
    return f"frame_{hour}"


def hour_of(name: str) -> int | None:
    """Which hour a partition is for, by its name."""
    number = name.removeprefix("frame_")
    return int(number) if number.isdecimal() else None
