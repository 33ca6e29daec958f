"""The package runs from a zip archive."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

import pytest

import agentrt

pytestmark = pytest.mark.slow


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """One in which Python imports agentrt from an archive."""
    archive, package = tmp_path / "agentrt.zip", Path(agentrt.__file__).parent
    with zipfile.ZipFile(archive, "w") as packed:
        for file in package.rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                packed.write(file, file.relative_to(package.parent))
    home = tmp_path / "home"
    home.mkdir()
    return {**os.environ, "PYTHONPATH": str(archive), "HOME": str(home), "PYTHONSAFEPATH": "1"}


def test_the_page_is_served(environment: dict[str, str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "agentrt", "serve", "--store", "off"]
    with subprocess.Popen(
        command, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        link = server.stdout.readline().split()[-1]
        try:
            with pytest.raises(urllib.error.HTTPError, match="401"):
                urllib.request.urlopen(link)  # without a cookie, which it does not keep
        finally:
            server.terminate()


@pytest.mark.linux_only("agents end with a killed host")
def test_a_prompt_is_answered_with_a_guard_program(
    environment: dict[str, str], tmp_path: Path
) -> None:
    program = """
import os, subprocess, sys, trio, agentrt
assert ".zip" in agentrt.__file__
async def main():
    agent = agentrt.agents.acp([sys.executable, "-m", "agentrt.demo"], name="demo")
    async with agentrt.open_session(agent) as session:
        print((await session.run("/think")).outcome)
        threads = os.listdir("/proc/self/task")  # each has the children that it has started
        found = [open(f"/proc/self/task/{each}/children").read().split() for each in threads]
        told = [open(f"/proc/{each}/cmdline").read() for each in sum(found, [])]
        print(any("The guard program" in each for each in told))
trio.run(main)
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.split() == ["completed", "True"], done.stderr
