"""What README.md and `docs/` show is run here, so that it cannot become untrue.

The word behind a code fence says what happens to its content:

`python`      a whole program; it must end without an error or a warning
`python postgres`  the same, where the environment says which PostgreSQL is meant
`python claude`  the same, with Claude Code and `claude-agent-sdk`; `tests/agents` runs it
`output`      what the program before it prints; a line `...` stands for any lines
`console`     commands (`$ `), each with what it prints under it
`js`          a module that imports `agentrt-client`; it is run where there is Node
`js client`   the same, with a server and other npm packages; `tests/clients` runs it
`jsx`         the source of `examples/web-client`, which `tests/browser` runs
`js npm`      a module with npm packages; `tests/clients` runs it, where they are installed
`toml`        a configuration file that agentrt accepts
`sh start`    the README's two commands, which `.ci/run` runs from a fresh clone
`sh test`

Programs and commands run in a small project folder of their own, on the built-in demo agent.
"""

from __future__ import annotations

import ast
import doctest
import os
import re
import runpy
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentrt.config import load_config
from postgres.server import Server

TESTS = Path(__file__).parent
ROOT = TESTS.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^(`{3,})([^\n`]*)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
SECONDS = 60
NODE = shutil.which("node")


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks() -> list[Block]:
    found = []
    for page in PAGES:
        text = page.read_text()
        name = str(page.relative_to(ROOT))
        for fence in FENCE.finditer(text):
            line = text.count("\n", 0, fence.start()) + 1
            found.append(Block(name, line, fence[2].strip(), fence[3]))
    return found


BLOCKS = blocks()


def of(kind: str) -> list[Block]:
    return [block for block in BLOCKS if block.kind == kind]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small project to work on."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "README.md").write_text("# Greeter\n\nSays hello.\n")
    (folder / "greet.py").write_text('def greet(name):\n    return f"hello, {name}"\n')
    return folder


def run(command: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    scripts = Path(sys.executable).parent
    home = folder.parent / "home"
    home.mkdir(exist_ok=True)
    return subprocess.run(
        command,
        cwd=folder,
        env={
            "HOME": str(home),
            "PATH": f"{scripts}:/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "PYTHONWARNINGS": "error",
            **{name: value for name, value in os.environ.items() if name == "AGENTRT_TEST_RUN"},
            **environment,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


def assert_shows(wanted: str, shown: str) -> None:
    """Compare as doctest does with ELLIPSIS: `...` is any text, and white space is as printed."""
    same = doctest.OutputChecker().check_output(wanted, shown, doctest.ELLIPSIS)
    assert same, f"printed:\n{shown}\nthe page says:\n{wanted}"


@pytest.mark.slow
@pytest.mark.parametrize("block", of("python"), ids=str)
def test_a_program_in_the_documentation_works(block: Block, project: Path) -> None:
    works(block, project)


@pytest.mark.slow
@pytest.mark.parametrize("block", of("python postgres"), ids=str)
def test_a_program_in_the_documentation_works_on_a_server(
    block: Block, project: Path, postgres: Server
) -> None:
    works(block, project, PGHOST=str(postgres.folder), PGPORT=str(postgres.port), PGUSER="postgres")


def works(block: Block, project: Path, **environment: str) -> None:
    program = project.parent / "program.py"
    program.write_text(block.text)
    done = run([sys.executable, str(program)], project, **environment)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    after = BLOCKS[BLOCKS.index(block) + 1 :]
    if after and after[0].kind == "output":
        assert_shows(after[0].text, done.stdout)


@pytest.mark.skipif(NODE is None, reason="needs Node 20 or newer (apt install nodejs)")
@pytest.mark.parametrize("block", of("js"), ids=str)
def test_a_module_in_the_documentation_works(block: Block, project: Path) -> None:
    assert NODE is not None
    package = project / "node_modules/agentrt-client"
    package.mkdir(parents=True)
    (package / "package.json").write_text('{"type": "module", "exports": "./client.js"}')
    shutil.copy(ROOT / "src/agentrt/_serve/page/client.js", package)
    (project / "module.mjs").write_text(block.text)
    done = run([NODE, "module.mjs"], project)
    assert done.returncode == 0, done.stderr
    assert_shows(BLOCKS[BLOCKS.index(block) + 1].text, done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("block", of("console"), ids=str)
def test_a_command_in_the_documentation_prints_what_is_shown(block: Block, project: Path) -> None:
    assert block.text.startswith("$ ")
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, wanted = part.partition("\n")
        done = run(["bash", "-c", command], project)
        assert_shows(wanted, done.stdout + done.stderr)


@pytest.mark.parametrize("block", of("toml"), ids=str)
def test_a_configuration_in_the_documentation_is_accepted(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(block.text)
    config = load_config(tmp_path, {"AGENTRT_CONFIG": str(file), "HOME": str(tmp_path)})
    assert config.files == (str(file),)


def test_the_two_commands_of_the_readme_are_what_continuous_integration_runs() -> None:
    assert [(block.page, block.kind) for block in BLOCKS if block.kind.startswith("sh")] == [
        ("README.md", "sh start"),
        ("README.md", "sh test"),
    ]
    script = (ROOT / ".ci" / "run").read_text()
    assert "readme start" in script
    assert "readme test" in script


@pytest.mark.parametrize("block", of("jsx"), ids=str)
def test_the_page_in_the_documentation_is_the_example(block: Block) -> None:
    assert block.text == (ROOT / "examples/web-client/app.jsx").read_text()


def test_every_code_block_is_of_a_kind_that_is_checked() -> None:
    checked = {"python", "python postgres", "python claude", "output", "console"}
    checked |= {"js", "js npm", "js client", "jsx", "toml", "sh start", "sh test"}
    directives = re.compile(r"\{[\w:-]+\}.*")  # MyST's, for Sphinx
    assert not [
        str(block)
        for block in BLOCKS
        if block.kind not in checked and not directives.fullmatch(block.kind)
    ]


# --- the page on the house


PACKAGE = ROOT / "src" / "agentrt"
INSIDE = (ROOT / "docs/project/inside.md").read_text()


def names_in(tree: ast.AST) -> set[str]:
    """The functions and classes of a file, and `Class.member` for what a class defines."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found.add(node.name)
            for inner in ast.walk(node):
                match inner:
                    case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                        found.add(f"{node.name}.{name}")
                    case (
                        ast.Name(id=name, ctx=ast.Store())
                        | ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store())
                    ):
                        found.add(f"{node.name}.{name}")
    return found


@pytest.mark.slow
def test_every_name_on_the_page_about_the_inside_exists() -> None:
    known = set[str]().union(*(names_in(ast.parse(p.read_text())) for p in PACKAGE.rglob("*.py")))
    members = {f"{one}.{other}" for one, other in re.findall(r"\b([A-Z]\w*)\.(\w+)", INSIDE)}
    classes = set(re.findall(r"`([A-Z][a-z]\w*)`", INSIDE))
    functions = set(re.findall(r"\b(\w+)\(\)", INSIDE))
    assert len(members) > 60
    assert (members | classes | functions) - known == set()


def test_every_file_and_every_room_is_on_the_page_about_the_inside() -> None:
    sources = (*PACKAGE.rglob("*.py"), *TESTS.rglob("*.py"), ROOT / "clients/js/generate.py")
    files = [path.relative_to(ROOT).as_posix() for path in sources]
    named = set(re.findall(r"\b\w+(?:/\w+)*\.py\b", INSIDE))
    assert {name for name in named if not any(f"/{f}".endswith(f"/{name}") for f in files)} == set()
    packages = {
        path.parent.relative_to(PACKAGE).as_posix()
        for pattern in ("*", "_core/*", "_lab/*", "_serve/remote")
        for path in PACKAGE.glob(f"{pattern}/__init__.py")
    }
    described = packages - {"_core", "_lab"}
    assert described == set(re.findall(r"\*\*`([\w/]+)`\*\*", INSIDE))
    leaves = {name.rpartition("/")[2] for name in packages - {"_lab"}}
    assert leaves == set(re.findall(r"\b(\w+)/(?= )", INSIDE))


def test_the_links_of_the_description_on_a_package_index_are_those_of_the_readme() -> None:
    names = runpy.run_path(str(ROOT / "packaging" / "metadata.py"))
    text = (ROOT / "README.md").read_text()
    source = "https://forge.example/team/agentrt"
    made = names["absolute_links"](text, source, "v0.1.0")
    assert not [
        link for link in re.findall(r"\]\(([^)]*)", made) if not link.startswith(("http", "#"))
    ]
    for kind, path in re.findall(rf"{source}/(blob|raw)/v0\.1\.0/([^)#\s]+)", made):
        assert (ROOT / path).exists(), path
        assert (kind == "raw") == path.endswith((".png", ".svg"))
    assert made.replace(f"{source}/blob/v0.1.0/", "").replace(f"{source}/raw/v0.1.0/", "") == text
