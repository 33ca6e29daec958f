"""PostgreSQL passes the conformance test for stores."""

from __future__ import annotations

from agentrt.lowlevel import StoreServer
from agentrt.storage import backend_of
from agentrt.testing import check_store


def test_a_schema_is_a_store(address: StoreServer) -> None:
    check_store(lambda: backend_of(address))
