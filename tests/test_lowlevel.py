"""`agentrt.lowlevel` works without Trio; its guide's programs are run by `test_docs.py`."""

from __future__ import annotations

import subprocess
import sys
from itertools import count

import pytest

from agentrt import effects, lowlevel
from agentrt.events import Notice


@pytest.mark.slow
def test_it_is_imported_without_trio() -> None:
    code = "import sys, agentrt.lowlevel; raise SystemExit('trio' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_it_has_at_most_forty_names_with_docstrings() -> None:
    assert len(lowlevel.__all__) <= 40
    generated = {"CodexClientInfo"}  # its module is made from the schema of Codex
    for name in set(lowlevel.__all__) - generated:
        value = getattr(lowlevel, name)
        assert not isinstance(value, type) or (value.__doc__ or "").strip(), name


def drivers() -> list[lowlevel.Driver]:
    keys = count(1)
    info = lowlevel.Implementation("host", "1")
    return [
        lowlevel.AcpDriver(
            lambda: f"r{next(keys)}",
            capabilities=lowlevel.client_capabilities(),
            client=info,
        ),
        lowlevel.ClaudeDriver(new_key=lambda: f"r{next(keys)}"),
        lowlevel.CodexDriver(
            lambda: f"r{next(keys)}",
            client=lowlevel.CodexClientInfo(name="host", title="host", version="1"),
        ),
    ]


@pytest.mark.parametrize("driver", drivers(), ids=lambda driver: type(driver).__name__)
def test_a_driver_writes_its_handshake_and_reports_defects_as_notices(
    driver: lowlevel.Driver,
) -> None:
    first = driver.start(lowlevel.Opening(cwd="/"))
    assert isinstance(first[0], effects.Write)
    assert first[0].data.endswith(b"\n")
    assert [type(effect) for effect in driver.receive(b"no JSON\n")] == [Notice]
