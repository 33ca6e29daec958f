"""A program that serves a session like `agentrt serve`, and does what it is told on its standard
input: `python host.py PORT NAME PROGRAM…`.

`revoke` takes the browsers' access back. Its session always has the same id: one of these programs
behind another is the same session in another epoch.
"""

from __future__ import annotations

import secrets
import sys
from functools import partial

_token = secrets.token_urlsafe
_known: list[str] = []
secrets.token_urlsafe = lambda size=None: _known.pop() if _known else _token(size)

import trio  # noqa: E402

import agentrt  # noqa: E402 - behind what it is to find

TOKEN = _token()


async def print_links(site: agentrt.web.Site) -> None:
    while True:
        print(f"open {site.link()}", flush=True)
        await site.link_used()


async def main() -> None:
    security = agentrt.web.Security(token=TOKEN, allow_hosts=[sys.argv[2]])
    async with agentrt.open_runtime() as runtime, trio.open_nursery() as nursery:
        _known.append("the-only-session")
        await runtime.create(agentrt.agents.acp(sys.argv[3:]))
        port = int(sys.argv[1])
        site = await nursery.start(
            partial(agentrt.web.serve, runtime, port=port, security=security)
        )
        nursery.start_soon(print_links, site)
        async for line in trio.lowlevel.FdStream(0):
            assert line == b"revoke\n"
            security.revoke(TOKEN)
        nursery.cancel_scope.cancel()


trio.run(main)
