"""What most tests of the driver begin with."""

from __future__ import annotations

import pytest

from .rig import INIT, Rig, state


@pytest.fixture
def rig() -> Rig:
    """In the middle of a turn."""
    rig = Rig()
    rig.start()
    rig.prompt()
    rig.feed(state("running"), INIT)
    return rig
