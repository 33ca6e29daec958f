"""What is public is what the reference documents: a new name is a decision, and must be kept."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import agentrt

REFERENCE = (Path(__file__).parents[1] / "docs" / "reference.md").read_text()


def test_every_public_name_is_in_the_reference_and_nothing_else_is() -> None:
    public = {
        name
        for name in dir(agentrt)
        if not name.startswith("_") and not isinstance(getattr(agentrt, name), ModuleType)
    }
    documented = re.findall(r"^\.\. auto\w+:: (\w+)(?:\(\))?$", REFERENCE, re.MULTILINE)
    assert len(documented) == len(set(documented))
    assert public == set(documented)
