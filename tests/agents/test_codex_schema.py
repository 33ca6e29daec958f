"""The messages of codex's protocol are those of the program that is installed."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

from codex_schema import TARGET, difference, messages, pinned, statements

pytestmark = pytest.mark.real_agent


def test_the_messages_are_made_of_the_pinned_programs_schema() -> None:
    if not pinned().exists():
        pytest.skip("codex is not installed: python tests/agents/install.py codex")
    assert statements(messages(pinned())) == statements(TARGET.read_text())


def test_the_program_of_this_machine_has_the_same_messages() -> None:
    """Newer than the pinned one, it may not: then this says which, and the pin is to be moved."""
    found = shutil.which("codex")
    if found is None:
        pytest.skip("no codex on this machine's PATH")
    assert difference(Path(found)) == ""


def test_a_program_whose_messages_differ_is_told(tmp_path: Path) -> None:
    if not pinned().exists():
        pytest.skip("codex is not installed: python tests/agents/install.py codex")
    other = tmp_path / "codex"
    other.write_text(
        f"""#!/bin/sh
"{pinned()}" "$@" || exit
for last; do :; done
test -d "$last" && sed -i 's/"aggregatedOutput"/"wholeOutput"/g' "$last"/*.json
exit 0
"""
    )
    other.chmod(0o755)
    assert "no ThreadItem" in difference(other) or "aggregated" in difference(other)
