"""What the build puts into the package for the page, and what it does where nothing can be had.

`nox -s wheel` builds real ones.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from .kit import ROOT, needs_packages

pytest.importorskip("hatchling", reason="needs hatchling (the extra `test`)")


@pytest.fixture
def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def root(tmp_path: Path, hook: ModuleType) -> Path:
    """A checkout, as far as the hook reads it."""
    (tmp_path / hook.PAGE).mkdir(parents=True)
    for path in (ROOT / "package.json", ROOT / "package-lock.json", *hook.sources(ROOT)):
        shutil.copy(path, tmp_path / path.relative_to(ROOT))
    return tmp_path


class App:
    """What hatchling gives a hook to speak with."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def display_warning(self, text: str) -> None:
        self.warnings.append(text)


def build(hook: ModuleType, root: Path) -> tuple[list[str], list[str]]:
    """The files that are added, and the warnings."""
    app = App()
    made = hook.PageHook(str(root), {}, None, None, str(root / "dist"), "wheel", app)
    data: dict[str, list[str]] = {"artifacts": []}
    made.initialize("standard", data)
    return data["artifacts"], app.warnings


def put(hook: ModuleType, root: Path) -> None:
    """As if it had been built."""
    hook.write(root / hook.LICENCES, b"theirs")
    hook.write(root / hook.BUILT / "app.js.gz", b"packed")
    hook.write(root / hook.STAMP, f"{hook.stamp(root)}\napp.js.gz\n".encode())


@pytest.fixture
def nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without Node."""
    monkeypatch.setenv("PATH", str(tmp_path))


def test_what_is_there_already_is_taken(hook: ModuleType, root: Path, nothing: None) -> None:
    put(hook, root)
    files, warnings = build(hook, root)
    folder = "/src/agentrt/_serve/page/built"
    names = ("app.js.gz", "LICENSES.txt", "made-from")
    assert files == [f"{folder}/{name}" for name in names]
    assert not warnings


def test_the_page_of_this_checkout_was_built_from_its_sources(hook: ModuleType) -> None:
    if not hook.made(ROOT):
        pytest.skip("there is none (pip install -e ., with Node and a network)")
    assert hook.is_current(ROOT), "it was built from other sources: run `python hatch_build.py`"


def test_a_page_of_which_a_file_is_missing_is_built_again(
    hook: ModuleType, root: Path, nothing: None
) -> None:
    put(hook, root)
    (root / hook.BUILT / "app.js.gz").unlink()
    files, warnings = build(hook, root)
    assert files == []
    assert len(warnings) == 1


@pytest.mark.slow
@needs_packages
def test_the_packages_of_the_checkout_are_used_if_they_are_those_of_the_lock(
    hook: ModuleType, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "node_modules").symlink_to(ROOT / "node_modules")
    commands: list[list[str]] = []
    run = hook.run
    monkeypatch.setattr(
        hook, "run", lambda command, at: (commands.append(command), run(command, at))
    )
    files, warnings = build(hook, root)
    assert not warnings
    assert f"/{hook.BUILT}/app.js.gz" in files
    assert all("ci" not in command for command in commands)
    lock = json.loads((root / "package-lock.json").read_text())
    lock["packages"]["node_modules/preact"]["integrity"] = "sha512-other"
    (root / "package-lock.json").write_text(json.dumps(lock))
    assert not hook.has_packages(root)


def test_without_node_the_package_is_built_and_the_reason_reported(
    hook: ModuleType, root: Path, nothing: None
) -> None:
    files, warnings = build(hook, root)
    assert files == []
    assert warnings == ["the page will show plain text: there is no npm with Node 20 or newer"]


def test_without_node_it_is_asked_for_as_a_package(
    hook: ModuleType, root: Path, nothing: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = hook.PageHook(str(root), {}, None, None, "", "wheel", App())
    assert made.dependencies() == [hook.NODE_WHEEL]
    monkeypatch.setenv(hook.SKIP, "1")
    assert made.dependencies() == []
    monkeypatch.delenv(hook.SKIP)
    put(hook, root)
    assert made.dependencies() == []


@pytest.mark.parametrize("source", ["package-lock.json", "src/agentrt/_serve/page/app.tsx"])
def test_a_page_of_other_sources_is_taken_away(
    hook: ModuleType, root: Path, nothing: None, source: str
) -> None:
    put(hook, root)
    (root / source).write_text("{}")
    files, warnings = build(hook, root)
    assert files == []
    assert len(warnings) == 1
    assert list((root / hook.BUILT).iterdir()) == []


def test_an_npm_that_fails_is_quoted(
    hook: ModuleType, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = root / "npm.sh"
    script.write_text("echo no network >&2; exit 1\n")
    monkeypatch.setattr(hook, "machine_npm", lambda: ["/bin/sh", str(script)])
    files, warnings = build(hook, root)
    assert files == []
    assert warnings == ["the page will show plain text: npm.sh ci failed: no network"]


@pytest.mark.parametrize(
    ("version", "good"), [("v20.1.0", True), ("v18.19.1", False), ("what?", False)]
)
def test_a_node_that_is_too_old_is_none(
    hook: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, good: bool
) -> None:
    for name, text in (("node", f"#!/bin/sh\necho '{version}'\n"), ("npm-cli.js", "")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "npm").symlink_to("npm-cli.js")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (hook.machine_npm() is not None) is good


def test_the_lock_says_what_each_package_is_and_nowhere_where_it_was_got() -> None:
    packages = json.loads((ROOT / "package-lock.json").read_text())["packages"]
    assert len(packages) > 5
    for name, package in packages.items():
        assert "resolved" not in package
        assert not name or package["integrity"].startswith("sha512-")
