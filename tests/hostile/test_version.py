"""The hostile agents speak the version of ACP that their test is parametrised with."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from . import conftest
from .kit import bad_session, works


async def test_an_agent_speaks_the_version_of_its_test(request: pytest.FixtureRequest) -> None:
    async with bad_session() as session:
        version = session.capabilities["protocol_version"]
        assert f"acp{version}" in request.node.name
        await works(session)


def test_each_exception_names_a_test() -> None:
    files = list(Path(__file__).parent.glob("test_*.py"))
    named = {file.stem for file in files} | {
        name for file in files for name in re.findall(r"def (test_\w+)", file.read_text())
    }
    assert conftest.ONLY_1.keys() <= named
