"""`agentrt replay`: a recorded session at its original pace, as text or on the page."""

from __future__ import annotations

import argparse
import math
import secrets
import sys
from functools import partial

import trio

from ..._base.nesting import bare_errors
from ..._public import Limits, open_runtime
from ..._serve.security import Security
from ..._serve.server import serve
from ..._serve.site import Site
from ...config import Config
from ...errors import TraceError
from ...permissions import ask
from ...testing.replay import Replay, ReplayMismatch, replay
from ..options import Work
from ..text import plain
from .trace import TraceFilter, replay_trace

PATIENT = Limits(turn_timeout_s=None)
"""A turn may take as long as the original one, at any speed."""


def prepare(options: argparse.Namespace, config: Config) -> Work:
    """Return the work of the subcommand."""
    file, session, speed = options.file, options.session, options.speed
    if options.page:
        return partial(replay_on_page, file, session=session, speed=speed, port=options.port)
    return partial(replay_trace, file, TraceFilter(session=session), speed=speed)


async def replay_on_page(file: str, *, session: str, speed: float, port: int) -> int:
    """Serve a recorded session, read-only, until cancelled; returns the exit status.

    It starts when the first browser has connected. The recorded agent and host repeat their actions
    in memory.
    """
    try:
        read = partial(replay, file, session=session, speed=speed, patience=math.inf)
        recorded = await trio.to_thread.run_sync(read)
    except (TraceError, ReplayMismatch) as error:
        return _failed(str(error), 2)
    try:
        await _serve(recorded, port)
    except ReplayMismatch as error:
        return _failed(str(error), 1)
    except OSError as error:
        return _failed(f"cannot serve on port {port}: {error}", 1)
    return 0


async def _serve(recorded: Replay, port: int) -> None:
    """Replay the recording on the page, from the moment at which the first browser has opened the
    link.

    Viewers get read-only links: the recorded host decides, not they.
    """
    security = Security(viewer_token=secrets.token_urlsafe(32))
    async with (
        bare_errors(),
        open_runtime(permissions=ask) as runtime,
        recorded.open_session(permissions=ask, limits=PATIENT) as session,
        trio.open_nursery() as nursery,
    ):
        runtime.adopt(session)
        site: Site = await nursery.start(partial(serve, runtime, port=port, security=security))
        nursery.start_soon(_print_links, site)
        await site.link_used()
        await recorded.enact(session)
        print("agentrt: replay finished", file=sys.stderr, flush=True)
        await trio.sleep_forever()


async def _print_links(site: Site) -> None:
    """Print a link, and a new one each time a link was used."""
    words = "agentrt: open"
    while True:
        print(f"{words} {site.link('viewer')}", flush=True)
        await site.link_used()
        words = "agentrt: for another browser:"


def _failed(message: str, status: int) -> int:
    print(f"agentrt: {plain(message)}", file=sys.stderr)
    return status
