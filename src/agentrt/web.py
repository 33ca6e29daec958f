"""The web server: a page and a WebSocket protocol for the sessions of a runtime."""

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
