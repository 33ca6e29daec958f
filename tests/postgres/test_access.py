"""Who may connect, and by what; and that a password is shown nowhere."""

from __future__ import annotations

import os
import re
import traceback
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.errors import StoreError
from agentrt.lowlevel import StoreServer
from agentrt.storage import address_of, backend_of, reader_of, server_of, writing

from .server import PASSWORD, Server, free_port


def used(address: StoreServer) -> Any:
    """Write a store and read it."""
    with writing(address), closing(reader_of(address)) as reader:
        return reader.report()


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)


@given(user=NAMES, password=NAMES, database=NAMES, schema=NAMES)
def test_an_address_is_shown_without_its_password(
    user: str, password: str, database: str, schema: str
) -> None:
    user, database, schema = (f"{each}." for each in (user, database, schema))
    secret = f"secret{password}"
    parts = [quote(each, safe="") for each in (user, secret, database, schema)]
    url = "postgresql://{}:{}@host:5432/{}?schema={}&sslmode=require".format(*parts)
    address = server_of(url)
    assert "secret" not in f"{address} {address!r} {[address]}"
    assert address.has_password
    assert address.schema == schema
    shown = server_of(str(address))
    assert (shown.schema, shown.has_password) == (schema, False)
    assert str(shown) == str(address)


@pytest.mark.parametrize(
    "rest",
    [
        "me:pa/ss@host/db",
        "me:pa@ss@host/db",
        "me:pa?ss@host/db",
        "me:pa#ss@host/db",
        "me:pa:ss@host:port/db",
        "host:pass/db",
        "[::1/db?pass",
        "host/db?pass",
        "host/db?schema=",
    ],
)
@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_what_is_no_url_is_refused_without_saying_any_of_it(scheme: str, rest: str) -> None:
    with pytest.raises(ValueError, match="this is not a PostgreSQL URL") as error:
        server_of(f"{scheme}://{rest}")
    text = "".join(traceback.format_exception(error.value))
    assert not re.search(r"\bpa\b|\bss\b|\bpass\b", str(error.value))
    assert rest not in text.replace(Path(__file__).read_text(), "")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgres://", "postgresql://"),
        ("postgresql://h1:1,h2:2/db", "postgresql://h1:1,h2:2/db"),
        ("postgresql://[::1]:5432/db", "postgresql://[::1]:5432/db"),
        ("postgresql:///db?host=/run/x&password=p", "postgresql:///db?host=/run/x"),
        ("postgresql://h/db?schema=s&sslmode=require", "postgresql://h/db?schema=s"),
    ],
)
def test_an_address_is_shown_as_it_was_said(url: str, shown: str) -> None:
    assert str(server_of(url)) == shown


def test_what_is_no_url_is_a_file(tmp_path: Path) -> None:
    assert address_of(tmp_path / "x.db") == tmp_path / "x.db"
    assert address_of("x.db") == Path.cwd() / "x.db"


def test_a_user_who_may_make_a_schema_gets_in_by_a_password_of_the_environment(
    postgres: Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    address = server_of(postgres.tcp_url(schema=schema))
    report = used(address)
    assert report.path == str(address)
    assert report.sessions == 0


def test_a_password_file_and_all_of_libpqs_environment_work(
    postgres: Server, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "passwords"
    file.write_text(f"*:*:*:guest:{PASSWORD}\n")
    file.chmod(0o600)
    settings = {"HOST": "127.0.0.1", "PORT": postgres.port, "USER": "guest", "PASSFILE": file}
    for name, value in {**settings, "DATABASE": "postgres"}.items():
        monkeypatch.setenv(f"PG{name}", str(value))
    address = server_of(f"postgresql://?schema={schema}")
    assert str(address) == f"postgresql://?schema={schema}"
    assert used(address).sessions == 0


def test_a_wrong_password_is_refused_and_not_repeated(postgres: Server, schema: str) -> None:
    url = postgres.tcp_url("guest:wrong-secret", schema=schema)
    for opened in (backend_of(address_of(url)).open, lambda: reader_of(address_of(url))):
        with pytest.raises(StoreError, match="password authentication failed") as error:
            opened()
        told = "".join(traceback.format_exception(error.value))
        assert "wrong-secret" not in str(error.value)
        assert "wrong-secret" not in told


def test_a_url_that_libpq_cannot_read_is_refused_and_not_repeated() -> None:
    address = server_of("postgresql://me:secret@host/db?no_such_setting=secret")
    with pytest.raises(StoreError, match="libpq cannot read the URL") as error:
        backend_of(address).open()
    assert "secret" not in str(error.value)
    assert error.value.__suppress_context__


def test_nobody_is_there(tmp_path: Path) -> None:
    address = server_of(f"postgresql:///db?host={quote(str(tmp_path), safe='')}")
    with pytest.raises(StoreError, match="cannot be used: "):
        backend_of(address).open()


@pytest.mark.parametrize(
    "settings",
    [
        "",
        "&password=wrong",
        "&sslmode=verify-full&sslrootcert=/nowhere/root.crt",
        "&sslmode=verify-full&sslrootcert=system",
        "&sslmode=sometimes",
        "&require_auth=md5&password=wrong",
        "&channel_binding=require&sslmode=disable&password=wrong",
        "&service=nobodys",
    ],
)
def test_a_setting_that_never_lets_in_is_not_waited_for(
    postgres: Server, schema: str, settings: str
) -> None:
    address = server_of(postgres.tcp_url(schema=schema) + settings)
    with pytest.raises(StoreError) as error:
        backend_of(address).open()
    assert not address.is_away(error.value)


def test_a_server_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    for url in (f"postgresql://127.0.0.1:{free_port()}/db", f"postgresql:///db?host={tmp_path}"):
        address = server_of(url)
        with pytest.raises(StoreError) as error:
            backend_of(address).open()
        assert address.is_away(error.value)


@pytest.mark.parametrize(
    ("error", "away"),
    [
        (psycopg.errors.AdminShutdown("arrêt demandé par l’administrateur"), True),
        (psycopg.errors.CrashShutdown("x"), True),
        (psycopg.errors.CannotConnectNow("x"), True),
        (psycopg.errors.ReadOnlySqlTransaction("x"), True),
        (psycopg.OperationalError("FATAL:  the database system is shutting down"), True),
        (psycopg.OperationalError("FATAL:  terminating connection due to administrator"), True),
        (psycopg.OperationalError("server closed the connection unexpectedly"), True),
        (psycopg.OperationalError("the connection is closed"), True),
        (psycopg.InterfaceError("the connection is lost"), True),
        (psycopg.OperationalError('FATAL:  role "x" does not exist'), False),
        (psycopg.errors.UndefinedTable("x"), False),
        (psycopg.InterfaceError("cannot adapt that"), False),
    ],
)
def test_a_database_that_is_being_shut_down_is_waited_for(error: Exception, away: bool) -> None:
    wrapped = StoreError("the store cannot be used")
    wrapped.__cause__ = error
    assert server_of("postgresql:///db").is_away(wrapped) is away


def test_where_nothing_is_stored_there_is_no_store_to_read(postgres: Server, schema: str) -> None:
    with pytest.raises(StoreError, match="does not contain a store"):
        reader_of(server_of(postgres.url(schema)))


@pytest.mark.parametrize(
    ("host", "mode", "works"),
    [
        ("127.0.0.1", "disable", False),
        ("127.0.0.1", "require", True),
        ("127.0.0.1", "verify-full", True),
        ("localhost", "verify-full", False),  # its certificate is for the number
    ],
)
def test_a_connection_is_encrypted_as_libpq_is_told(
    postgres: Server,
    schema: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    host: str,
    mode: str,
    works: bool,
) -> None:
    if mode == "verify-full":
        root = tmp_path / "root.crt"
        with postgres.connect() as connection:
            [certificate] = connection.execute("SELECT pg_read_file('server.crt')").fetchone()
        root.write_text(certificate)
        monkeypatch.setenv("PGSSLROOTCERT", str(root))
    url = postgres.tcp_url("tls", schema=schema).replace("127.0.0.1", host)
    address = server_of(f"{url}&sslmode={mode}")
    if works:
        assert used(address).facts.endswith("the connection is encrypted")
    else:
        with pytest.raises(StoreError):
            used(address)


def test_a_program_without_psycopg_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import sys

    for name in list(sys.modules):
        if name.startswith("agentrt._cluster.postgres"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    for opened in (backend_of, reader_of):
        with pytest.raises(StoreError, match=r"pip install 'agentrt\[postgres\]'"):
            opened(server_of("postgresql://"))


def test_the_name_of_a_schema_may_be_anything(postgres: Server) -> None:
    name = f'My "own" 100% {os.getpid()}é'
    address = server_of(f"{postgres.url().rpartition('&')[0]}&schema={quote(name)}")
    assert used(address).sessions == 0
