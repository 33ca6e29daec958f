"""nginx and Caddy on loopback, with the configuration files of `deploy/`."""

from __future__ import annotations

import re
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import trustme

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
PROGRAMS: Final = {"nginx": "/usr/sbin/nginx", "caddy": "/usr/bin/caddy"}
PATIENCE_S: Final = 60.0

NGINX: Final = """\
daemon off;
pid {folder}/nginx.pid;
error_log stderr;
events {{}}
http {{
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  include {folder}/site.conf;
}}
"""


def program(name: str) -> str | None:
    """The proxy's program, if it is installed."""
    return shutil.which(name) or shutil.which(PROGRAMS[name])


def replaced(text: str, *pairs: tuple[str, str]) -> str:
    """The text of `deploy/` with the test's own ports and files; each must occur."""
    for old, new in pairs:
        text, count = re.subn(re.escape(old), new, text)
        assert count, f"{old!r} is not in the file"
    return text


def nginx(folder: Path, port: int, server_port: int) -> list[str]:
    conf = replaced(
        (DEPLOY / "nginx.conf").read_text(),
        ("443", f"127.0.0.1:{port}"),
        ("/etc/ssl/example.org.pem", f"{folder}/chain.pem"),
        ("/etc/ssl/example.org.key", f"{folder}/key.pem"),
        ("server_name example.org", "server_name localhost"),
        ("127.0.0.1:8000", f"127.0.0.1:{server_port}"),
    )
    (folder / "site.conf").write_text(conf)
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder))
    return ["-c", str(folder / "nginx.conf"), "-e", "stderr", "-p", str(folder)]


def caddy(folder: Path, port: int, server_port: int) -> list[str]:
    conf = replaced(
        (DEPLOY / "Caddyfile").read_text(),
        (
            "example.org {\n",
            f"https://localhost:{port} {{\n\tbind 127.0.0.1\n"
            f"\ttls {folder}/chain.pem {folder}/key.pem\n",
        ),
        ("127.0.0.1:8000", f"127.0.0.1:{server_port}"),
    )
    (folder / "Caddyfile").write_text("{\n\tadmin off\n\tauto_https disable_redirects\n}\n" + conf)
    return ["run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]


@contextmanager
def proxy(name: str, folder: Path, port: int, server_port: int) -> Iterator[Path]:
    """Run a proxy before the server at `server_port`; yields its authority's certificate."""
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    authority.cert_pem.write_to_path(folder / "authority.pem")
    certificate.private_key_pem.write_to_path(folder / "key.pem")
    for number, blob in enumerate(certificate.cert_chain_pems):
        blob.write_to_path(folder / "chain.pem", append=number > 0)
    arguments = {"nginx": nginx, "caddy": caddy}[name](folder, port, server_port)
    path = program(name)
    assert path is not None
    with (folder / "proxy.log").open("w") as log:
        environment = {"HOME": str(folder), "PATH": "/usr/bin:/bin"}
        process = subprocess.Popen([path, *arguments], stdout=log, stderr=log, env=environment)
    try:
        _wait_for(port, process, folder / "proxy.log", folder / "authority.pem")
        yield folder / "authority.pem"
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path, authority: Path) -> None:
    context = ssl.create_default_context(cafile=str(authority))
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        assert process.poll() is None, log.read_text()
        try:
            with (
                socket.create_connection(("127.0.0.1", port), PATIENCE_S) as plain,
                context.wrap_socket(plain, server_hostname="localhost"),
            ):
                return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(log.read_text())
