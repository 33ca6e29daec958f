"""A PostgreSQL server of the tests' own, as an unprivileged user, in a folder of its own.

The tests of one run share it, also in several processes: whoever needs it first starts a keeper
(`python -m postgres.server FOLDER`), which runs the server while anybody holds a lock, and ends and
removes it afterwards. A lock ends with its process, however that ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

INSTALL = "PostgreSQL's server is not installed: apt-get install postgresql"

PATIENCE = 60.0

PASSWORD = "p@ss/wörd secret"
"""Of the role `guest`, who comes by TCP."""

SETTINGS = {
    "fsync": "off",  # the machine does not go down under a test
    "shared_buffers": "32MB",
    "max_connections": "200",
    "autovacuum": "off",
    "password_encryption": "scram-sha-256",
    "ssl": "on",
}

HBA = """
local all all trust
local replication all trust
hostssl all tls 127.0.0.1/32 trust
host all all 127.0.0.1/32 scram-sha-256
"""


class Programs(NamedTuple):
    folder: Path

    def __call__(self, name: str) -> str:
        return str(self.folder / name)


def programs() -> Programs | None:
    """Where `initdb` and `postgres` are: on the path, or where Debian puts them."""
    found = shutil.which("initdb")
    folders = [Path(os.path.realpath(found)).parent] if found else []
    versions = Path("/usr/lib/postgresql").glob("*/bin")
    folders += sorted(versions, key=lambda path: float(path.parent.name), reverse=True)
    for folder in folders:
        if (folder / "initdb").exists() and (folder / "pg_ctl").exists():
            return Programs(folder)
    return None


class Server:
    """A server that runs: its folder has the socket, too."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port

    def url(self, schema: str = "agentrt", database: str = "postgres") -> str:
        """As its superuser, through the socket."""
        return (
            f"postgresql://postgres@/{database}?host={quote(str(self.folder), safe='')}"
            f"&port={self.port}&schema={schema}"
        )

    def tcp_url(
        self, user: str = "guest", *, port: int | None = None, schema: str = "agentrt"
    ) -> str:
        """Through TCP, without a password."""
        return f"postgresql://{user}@127.0.0.1:{port or self.port}/postgres?schema={schema}"

    @property
    def pid(self) -> int:
        return int((self.folder / "data" / "postmaster.pid").read_text().split()[0])

    def restart(self, mode: str = "immediate") -> None:
        found = programs()
        assert found is not None
        command = [found("pg_ctl"), "restart", "-D", str(self.folder / "data"), "-m", mode, "-w"]
        run(*command, "-l", str(self.folder / "log"))

    def connect(self, **options: Any) -> Any:
        """A plain connection, as its superuser."""
        import psycopg

        return psycopg.connect(
            host=str(self.folder), port=self.port, user="postgres", autocommit=True, **options
        )


def unprivileged() -> dict[str, Any]:
    """Who runs it: PostgreSQL refuses root."""
    if os.geteuid():
        return {}
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    raise RuntimeError("neither a user `postgres` nor `nobody` is known here")


def run(*command: str) -> None:
    # A plain environment: what is marked as a test's process would be looked for after the test.
    done = subprocess.run(
        command,
        **unprivileged(),
        env={"PATH": os.defpath, "LC_ALL": "C.UTF-8", "TZ": "UTC"},
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,  # the server inherits it: a pipe would not be closed
        stderr=subprocess.PIPE if command[0].endswith("initdb") else subprocess.DEVNULL,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {done.stderr}")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@contextlib.contextmanager
def serving(**settings: str) -> Iterator[Server]:
    """A new server, for the block, with settings beyond those of all tests."""
    found = programs()
    assert found is not None, INSTALL
    folder = Path(tempfile.mkdtemp(prefix="agentrt-pg-", dir="/tmp"))  # sockets need short paths
    who = unprivileged()
    try:
        if who:
            os.chown(folder, who["user"], who["group"])
        data = folder / "data"
        run(found("initdb"), "-D", str(data), "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8")
        make_certificate(data, who)
        server = Server(folder, free_port())
        settings = {
            **SETTINGS,
            **settings,
            "port": str(server.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(folder),
        }
        with open(data / "postgresql.conf", "a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
        (data / "pg_hba.conf").write_text(HBA)
        control = (found("pg_ctl"), "-D", str(data), "-w")
        run(*control, "-l", str(folder / "log"), "start")
        try:
            yield server
        finally:
            run(*control, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def make_guest(server: Server) -> None:
    """Who comes by TCP, with a password."""
    with server.connect() as connection:
        password = PASSWORD.replace("'", "''")
        connection.execute(f"CREATE ROLE guest LOGIN PASSWORD '{password}'")
        connection.execute("GRANT CREATE ON DATABASE postgres TO guest")


def make_certificate(data: Path, who: dict[str, Any]) -> None:
    """For 127.0.0.1, by itself."""
    key = data / "server.key"
    command = ["openssl", "req", "-new", "-x509", "-days", "2", "-nodes", "-subj", "/CN=agentrt"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-newkey", "ec", "-pkeyopt"]
    command += ["ec_paramgen_curve:prime256v1", "-out", str(data / "server.crt")]
    subprocess.run([*command, "-keyout", str(key)], check=True, capture_output=True)
    if who:
        for file in (key, data / "server.crt"):
            os.chown(file, who["user"], who["group"])
    key.chmod(0o600)


@contextlib.contextmanager
def shared(folder: Path) -> Iterator[Server]:
    """The server of all who name this folder, which is there while any of them is in the block."""
    folder.mkdir(exist_ok=True)
    with open(folder / "users", "w") as users, open(folder / "begin", "w") as begin:
        fcntl.flock(begin, fcntl.LOCK_EX)  # one at a time looks whether it runs
        fcntl.flock(users, fcntl.LOCK_SH)
        file = folder / "server.json"
        if not file.exists():
            command = [sys.executable, "-m", "postgres.server", str(folder)]
            with open(folder / "keeper.log", "w") as log:
                subprocess.run(
                    command,
                    cwd=Path(__file__).parents[1],
                    env={"PATH": os.environ["PATH"]},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    check=True,
                )
            deadline = time.monotonic() + PATIENCE
            while not file.exists():
                if time.monotonic() > deadline or not is_locked(folder / "keeper"):
                    raise RuntimeError((folder / "keeper.log").read_text() or "no server")
                time.sleep(0.05)
        fcntl.flock(begin, fcntl.LOCK_UN)
        where = json.loads(file.read_text())
        yield Server(Path(where["folder"]), where["port"])


def is_locked(file: Path) -> bool:
    with open(file, "w") as other:
        try:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def keep(folder: Path) -> None:
    """Run it until nobody uses it any more, as nobody's child."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    file = folder / "server.json"
    alive = open(folder / "keeper", "w")  # noqa: SIM115 - while this process lives
    fcntl.flock(alive, fcntl.LOCK_EX)
    if os.fork():
        os._exit(0)
    with serving() as server:
        make_guest(server)
        with server.connect() as connection:
            connection.execute("CREATE ROLE tls LOGIN SUPERUSER")
        ready = folder / "server.json.new"
        ready.write_text(json.dumps({"folder": str(server.folder), "port": server.port}))
        ready.rename(file)
        with open(folder / "users") as users:
            fcntl.flock(users, fcntl.LOCK_EX)
        file.unlink(missing_ok=True)


if __name__ == "__main__":
    keep(Path(sys.argv[1]))
