"""`agentrt --serve`: an interactive session that browsers and other clients can join."""

from __future__ import annotations

import ipaddress
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from urllib.parse import urlsplit

import trio

from ..._base.nesting import bare_errors
from ..._public import Runtime, Session, open_runtime
from ..._serve.server import serve
from ..._serve.site import Site
from ...errors import AgentrtError
from ..exit_status import UsageError
from ..serve_settings import make_security, pages_config
from ..servers import announced
from ..setup import Setup, agents_environment
from ..stores import OwnStore

QR_MARGIN_MODULES = 2
"""Modules of light around a QR code."""


class Share:
    """A server in this process, which shows its sessions. Create one with `open_share`."""

    def __init__(self, runtime: Runtime, site: Site) -> None:
        self._runtime = runtime
        self._site = site

    @contextmanager
    def showing(self, session: Session) -> Iterator[None]:
        """Show this session to the clients of the server while the block runs."""
        release = self._runtime.adopt(session)
        try:
            yield
        finally:
            release()

    def link(self) -> str:
        """Return a link that one browser can open."""
        return self._site.link()


@asynccontextmanager
async def open_share(setup: Setup, own: OwnStore | None) -> AsyncIterator[Share]:
    """Serve while the block runs, with the settings of `agentrt serve`.

    Raises `AgentrtError`.
    """
    settings, security = setup.config.serve, make_security(setup)
    policy = setup.policy(setup.config.permissions.mode or "ask", attended=True)
    async with (
        bare_errors(),
        open_runtime(
            config=pages_config(setup),
            permissions=policy,
            env=agents_environment(setup.config),
            store=own.store if own is not None else None,
        ) as runtime,
        trio.open_nursery() as nursery,
    ):
        started = partial(
            serve,
            runtime,
            settings.host,
            settings.port,
            agent=setup.agent.name,
            cwd=setup.cwd,
            roots=settings.root,
            security=security,
        )
        try:
            site: Site = await nursery.start(started)
        except ValueError as error:  # not an address to listen on
            raise UsageError(str(error)) from error
        except OSError as error:
            where = f"{settings.host} port {settings.port}"
            raise AgentrtError(f"cannot serve on {where}: {error}") from error
        with announced(site.url, security.token):
            yield Share(runtime, site)
        nursery.cancel_scope.cancel(reason="left")


def reaches_other_machines(link: str) -> bool:
    """True unless the link's host is this machine's own loopback address."""
    host = urlsplit(link).hostname or ""
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host != "localhost" and not host.endswith(".localhost")


def qr_code(link: str) -> list[str]:
    """Return the lines of a QR code for dark terminals; each line has two rows of modules.

    The code is for phones: the list is empty for a link that only this machine can open, or if
    `segno` is not installed.
    """
    if not reaches_other_machines(link):
        return []
    try:
        import segno
    except ModuleNotFoundError:
        return []
    rows = [list(row) for row in segno.make(link, error="l").matrix_iter(border=QR_MARGIN_MODULES)]
    rows += [[0] * len(rows[0])] * (len(rows) % 2)
    marks = {(0, 0): "█", (0, 1): "▀", (1, 0): "▄", (1, 1): " "}
    pairs = zip(rows[::2], rows[1::2], strict=True)
    return ["".join(marks[one, two] for one, two in zip(*pair, strict=True)) for pair in pairs]
