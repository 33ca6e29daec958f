"""`agentrt-client` as an application gets it: packed, and installed into an empty project."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import trio

from clients.install import root
from clients.kit import TOKEN, served
from page.kit import NODE, PAGE, needs_node
from test_docs import BLOCKS, Block, assert_shows

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "clients/js"
TOOLS = SOURCE / "node_modules"
TESTS = Path(__file__).parent / "js"
HOW = "npm ci --prefix clients/js"

needs_tools = pytest.mark.skipif(
    NODE is None or not (TOOLS / "esbuild").is_dir(), reason=f"needs Node and `{HOW}`"
)


def names(file: str) -> list[str]:
    return re.findall(r'^test\("(.*)", ', (TESTS / file).read_text(), re.MULTILINE)


def run(*command: str, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def tarball(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, as `npm publish` would send it."""
    folder = tmp_path_factory.mktemp("packed")
    copy = folder / "js"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("node_modules", "dist"))
    (copy / "node_modules").symlink_to(TOOLS)
    run("npm", "pack", "--pack-destination", str(folder), cwd=copy)
    (found,) = folder.glob("*.tgz")
    return found


@pytest.fixture(scope="module")
def project(tarball: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with the package, and with the libraries that the tests use next to it."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "package.json").write_text('{"private": true, "type": "module"}')
    quiet = ("--no-audit", "--no-fund", "--offline", "--legacy-peer-deps")
    run("npm", "install", *quiet, str(tarball), cwd=folder)
    for name in ("react", "react-dom", "jsdom", "ws", "typescript", "@types"):
        (folder / "node_modules" / name).symlink_to(TOOLS / name)
    for name in ("ai", "@ai-sdk"):
        if (root() / "node_modules" / name).exists():
            (folder / "node_modules" / name).symlink_to(root() / "node_modules" / name)
    for path in TESTS.iterdir():
        shutil.copy(path, folder)
    return folder


async def passes(project: Path, file: str, name: str) -> None:
    """The test of that name, with a site of the demo agent."""
    assert NODE is not None
    async with served() as (site, _):
        done = await trio.run_process(
            [
                NODE,
                "--test",
                "--test-reporter=spec",
                f"--test-name-pattern=^{re.escape(name)}$",
                file,
            ],
            cwd=project,
            env={**os.environ, "SITE": f"127.0.0.1:{site.port}", "TOKEN": TOKEN},
            capture_stdout=True,
            stderr=subprocess.STDOUT,
            check=False,
        )
    told = done.stdout.decode()
    assert done.returncode == 0, told
    assert "pass 1" in told, told


@needs_node
@needs_tools
def test_the_module_of_the_page_is_built_from_the_sources(tmp_path: Path) -> None:
    run("node", "build.mjs", "--page", str(tmp_path / "client.js"), cwd=SOURCE)
    how = "run `node build.mjs --page ../../src/agentrt/_serve/page/client.js` in clients/js"
    assert (tmp_path / "client.js").read_text() == (PAGE / "client.js").read_text(), how


@needs_tools
def test_the_package_contains_code_types_and_schema(project: Path) -> None:
    package = project / "node_modules/agentrt-client"
    files = {path.relative_to(package).as_posix() for path in package.rglob("*") if path.is_file()}
    assert {"README.md", "LICENSE", "schema/agentrt.v1.json", "dist/wire.d.ts"} <= files
    assert not [name for name in files if name.endswith(".ts") and not name.endswith(".d.ts")]
    manifest = json.loads((package / "package.json").read_text())
    named = re.findall(r': "\./([^"]+)"', json.dumps(manifest["exports"]))
    assert len(named) == 7
    assert set(named) <= files


@needs_tools
def test_the_types_fit_a_program_in_typescript(project: Path) -> None:
    (project / "program.ts").write_text(PROGRAM)
    options = ["--noEmit", "--strict", "--target", "es2022", "--module", "esnext"]
    options += ["--moduleResolution", "bundler", "--lib", "es2022,dom", "--types", ""]
    tsc = str(TOOLS / "typescript/bin/tsc")
    run("node", tsc, *options, "program.ts", cwd=project)
    (project / "wrong.ts").write_text(PROGRAM.replace('op: "new"', 'op: "explode"'))
    done = subprocess.run(["node", tsc, *options, "wrong.ts"], cwd=project, capture_output=True)
    assert done.returncode != 0


PROGRAM = """
import { AgentClient, type Item } from "agentrt-client";
import { useSession } from "agentrt-client/react";

const client = new AgentClient({ url: "ws://127.0.0.1:8765/ws", token: "secret" });
const ack = await client.send({ type: "session", op: "new", agent: "demo" });
if (ack.ok) {
  const id: string = ack.session;
  const items: Item[] = [...useSession(client, id).view?.items.values() ?? []];
  console.log(items);
} else {
  const message: string = ack.error.message;
  console.log(message);
}
"""


@needs_tools
@pytest.mark.usefixtures("npm_packages")
@pytest.mark.parametrize("block", [block for block in BLOCKS if block.kind == "js client"], ids=str)
async def test_a_module_in_the_documentation_works(project: Path, block: Block) -> None:
    assert NODE is not None
    async with served() as (site, _):
        done = await trio.run_process(
            [NODE, "--input-type=module", "--eval", block.text],
            cwd=project,
            env={**os.environ, "SITE": f"127.0.0.1:{site.port}", "TOKEN": TOKEN},
            capture_stdout=True,
            stderr=subprocess.STDOUT,
            check=False,
        )
    assert_shows(BLOCKS[BLOCKS.index(block) + 1].text, done.stdout.decode())
    assert done.returncode == 0


@needs_tools
@pytest.mark.parametrize("name", names("node.test.mjs"))
async def test_in_node(project: Path, name: str) -> None:
    await passes(project, "node.test.mjs", name)


@needs_tools
@pytest.mark.parametrize("name", names("react.test.mjs"))
async def test_with_react(project: Path, name: str) -> None:
    await passes(project, "react.test.mjs", name)


@needs_tools
@pytest.mark.usefixtures("npm_packages")
@pytest.mark.parametrize("name", names("ai.test.mjs"))
async def test_with_the_ai_sdk(project: Path, name: str) -> None:
    await passes(project, "ai.test.mjs", name)
