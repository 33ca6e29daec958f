"""The web server: a page and a WebSocket protocol for the sessions of a runtime.

`serve` is a task of your nursery::

    async with agentrt.open_runtime() as runtime, trio.open_nursery() as nursery:
        site = await nursery.start(agentrt.web.serve, runtime)
        print(site.link())

Any number of browsers and programs can join the same session, control it and leave; the session
does not depend on them. The page is at `/`, the protocol `agentrt.v1` at `/ws`, and ACP and AI SDK
clients connect at `/acp` and `/ai`. To use a server that you have already, see `agentrt.asgi`.

`Security` has the tokens, the accepted host names and origins. A token gives control or read-only
access (`Role`), to all sessions or to those of one `Tenant`. Without a `Security`, a random token
is made, and the server can only listen on addresses of this machine that others cannot reach.
"""

from ._base.tenant import Tenant
from ._serve.security import Role, Security
from ._serve.server import serve
from ._serve.site import Site, SiteStatistics

__all__ = [
    # serving
    "serve",
    "Site",
    "SiteStatistics",
    # access
    "Security",
    "Role",
    "Tenant",
]
