"""The tests in Node need its packages; the others do not."""

from __future__ import annotations

import pytest

from clients.install import missing, root


@pytest.fixture
def npm_packages() -> None:
    """Skip a test whose packages are not installed, and say how to get them."""
    if (lacks := missing(root())) is not None:
        pytest.skip(lacks)
