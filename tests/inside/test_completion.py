"""What is offered behind `@` and `/`.

The completer is asked for every word; on a screen each costs a program.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from agentrt._cli.screen.completion import PromptCompleter


def offered(folder: Path, text: str) -> list[str]:
    found = PromptCompleter(str(folder)).get_completions(Document(text), CompleteEvent())
    return [completion.text for completion in found]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    files = {
        ".gitignore": "*.log\n!keep.log\n/out/\n.secret\n",
        "src/.gitignore": "made.py\n!b.log\n",
        "src/code.py": "",
        "src/made.py": "",
        "src/b.log": "",
        "a.log": "",
        "keep.log": "",
        "out/x.txt": "",
        "src/out/y.txt": "",
        ".env": "",
        ".secret": "",
        ".github/flow.yml": "",
        "two words.txt": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_files_are_offered_but_for_ignored_and_hidden_ones(folder: Path) -> None:
    assert sorted(offered(folder, "see @")) == [
        '@"two words.txt"',
        "@keep.log",
        "@src/",
        "@src/b.log",
        "@src/code.py",
        "@src/out/",
        "@src/out/y.txt",
    ]


def test_a_leading_dot_asks_for_hidden_ones(folder: Path) -> None:
    assert offered(folder, "see @.e")[0] == "@.env"
    assert set(offered(folder, "see @.git")) == {
        *("@.gitignore", "@.github/", "@.github/flow.yml", "@src/.gitignore"),
    }
    assert offered(folder, "@.sec") == []


def test_rules_of_the_folders_above_count(folder: Path) -> None:
    assert sorted(offered(folder / "src", "@")) == ["@b.log", "@code.py", "@out/", "@out/y.txt"]


def test_without_a_repository_only_its_own_rules_count(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("a\n")
    inside = tmp_path / "b"
    inside.mkdir()
    (inside / "a").touch()
    (inside / "c").touch()
    assert offered(inside, "@") == ["@a", "@c"]
    assert offered(tmp_path, "@") == ["@b/", "@b/c"]
