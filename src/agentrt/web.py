"""The web server: a page and a WebSocket protocol for the sessions of a runtime."""

from ._limits import Tenant
from ._web.security import Role, Security
from ._web.server import serve
from ._web.site import Site, SiteStatistics

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
