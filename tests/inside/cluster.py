"""The parts of a cluster.

Tests let leases end and servers die between two steps; real servers in PostgreSQL cannot be
stopped there.
"""

from __future__ import annotations

from agentrt._cluster.client import ClusterClient
from agentrt._cluster.owners import MARGIN_FRACTION, Action, Ask, End, Join, Leave, Owner, Renew

__all__ = [
    "Action",
    "Ask",
    "ClusterClient",
    "End",
    "Join",
    "Leave",
    "MARGIN_FRACTION",
    "Owner",
    "Renew",
]
