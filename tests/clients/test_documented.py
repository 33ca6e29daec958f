"""The modules of the documentation (`js npm`), run as they stand there, with the packages of this
folder and a site of the demo agent.
"""

from __future__ import annotations

import os
import subprocess

import pytest
import trio

from clients.install import root
from clients.kit import TOKEN, served
from test_docs import BLOCKS, Block, assert_shows

pytestmark = pytest.mark.slow

MODULES = [block for block in BLOCKS if block.kind == "js npm"]


@pytest.mark.usefixtures("npm_packages")
@pytest.mark.parametrize("block", MODULES, ids=str)
async def test_a_module_in_the_documentation_works_with_the_real_packages(block: Block) -> None:
    after = BLOCKS[BLOCKS.index(block) + 1]
    assert after.kind == "output"
    async with served() as (site, _):
        done = await trio.run_process(
            ["node", "--input-type=module", "--eval", block.text],
            cwd=root(),
            env={**os.environ, "SITE": f"127.0.0.1:{site.port}", "TOKEN": TOKEN},
            capture_stdout=True,
            stderr=subprocess.STDOUT,
            check=False,
        )
    assert_shows(after.text, done.stdout.decode())
    assert done.returncode == 0
