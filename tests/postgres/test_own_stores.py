"""PostgreSQL passes the conformance test for stores."""

from __future__ import annotations

from agentrt import Limits
from agentrt.testing import check_store
from inside.postgres import PostgresServer


def test_a_schema_is_a_store(address: PostgresServer) -> None:
    check_store(lambda: address.backend(Limits()))
