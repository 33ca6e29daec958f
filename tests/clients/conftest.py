"""The tests in Node need its packages; the others do not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # `install` and `kit`, as their neighbours say

from install import missing, root


@pytest.fixture
def npm_packages() -> None:
    """Skip a test whose packages are not installed, and say how to get them."""
    if (lacks := missing(root())) is not None:
        pytest.skip(lacks)
