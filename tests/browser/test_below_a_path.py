"""`agentrt serve --url https://…/agents/` behind nginx and Caddy, as `deploy/` configures them."""

from __future__ import annotations

import http.client
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from browser.kit import PATIENCE, Server, ask, free_port, scripted, serving
from web.proxies import program, proxy

if TYPE_CHECKING:
    from browser.conftest import NewPage

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("name", ["nginx", "caddy"])]

TOKEN = "the-token-of-this-proxied-server"


@dataclass
class Proxied:
    """A server behind a proxy. `authority`: the file with the certificate to trust."""

    server: Server
    url: str
    port: int
    direct_port: int
    authority: Path


@contextmanager
def proxied(name: str, folder: Path) -> Iterator[Proxied]:
    if program(name) is None:
        pytest.skip(f"needs {name} (apt-get install {'nginx-light' if name == 'nginx' else name})")
    port, behind = free_port(), free_port()
    url = f"https://localhost:{port}/agents/"
    arguments = ("--port", str(behind), "--url", url, "--token", TOKEN, "--store", "off")
    files = folder / "proxy"
    files.mkdir()
    with (
        serving(folder, *scripted(), *arguments) as server,
        proxy(name, files, port, behind) as authority,
    ):
        yield Proxied(server, url, port, behind, authority)


def test_the_page_works_below_the_path_of_a_proxy_with_tls(
    name: str, tmp_path: Path, new_page: NewPage
) -> None:
    with proxied(name, tmp_path) as site:
        link = site.server.link()
        assert link.startswith(f"{site.url}?t=")
        page = new_page(link, ignore_https_errors=True)
        page.get_by_label("Message the agent").wait_for()
        assert page.url.startswith(site.url)
        [cookie] = page.context.cookies()
        assert (cookie["path"], cookie["secure"]) == ("/agents/", True)
        ask(page, "say hello from below")
        page.locator("article", has_text="hello from below").nth(1).wait_for()
        page.reload()  # with the cookie and the key alone
        page.locator("article", has_text="hello from below").nth(1).wait_for()


def test_only_requests_below_the_path_reach_the_server(name: str, tmp_path: Path) -> None:
    with proxied(name, tmp_path) as site:
        site.server.link()
        context = ssl.create_default_context(cafile=str(site.authority))

        def answer(target: str) -> tuple[int, str | None]:
            client = http.client.HTTPSConnection(
                "localhost", site.port, context=context, timeout=PATIENCE
            )
            client.request("GET", target)
            found = client.getresponse()
            found.read()
            client.close()
            return found.status, found.headers["Location"]

        assert answer("/agents/healthz") == (200, None)
        assert answer("/agents/")[0] == 401
        status, location = answer("/agents")
        assert status in (301, 302, 308)
        assert (location or "").endswith("/agents/")
        assert answer("/healthz")[0] != 200 or name == "caddy"  # Caddy answers 200, empty


def test_a_terminal_attaches_below_the_path(name: str, tmp_path: Path) -> None:
    with proxied(name, tmp_path) as site:
        site.server.link()
        done = subprocess.run(
            [sys.executable, "-m", "agentrt", "attach", site.url, "--plain"],
            cwd=site.server.folder,
            env={
                "HOME": str(tmp_path / "proxy"),
                "PATH": os.environ["PATH"],
                "SSL_CERT_FILE": str(site.authority),
                "AGENTRT_SERVE_TOKEN": TOKEN,
                "LANG": "C.UTF-8",
            },
            input="say hello from a terminal\n",
            capture_output=True,
            text=True,
            timeout=PATIENCE * 2,
        )
        assert done.returncode == 0, done.stderr
        assert "hello from a terminal" in done.stdout
