"""What a prompt names: files behind `@`."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentrt._cli.session_view import prompt_of, text_of
from agentrt._core.model.content import ResourceLink, Text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("notes.txt", "a b.txt", "src/deep.py", ".hidden"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("read @notes.txt", ["notes.txt"]),
        ("@src/deep.py, and (@notes.txt).", ["src/deep.py"]),
        ("see @src/ and @src/deep.py!", ["src/", "src/deep.py"]),
        ('look at @"a b.txt"', ["a b.txt"]),
        ("@.hidden @.hidden", [".hidden"]),
        ("mail me@notes.txt", []),
        ("@somebody and @types/node", []),
        ("@ and @@notes.txt", []),
        ("/review @notes.txt", []),
        ("@" + "x" * 5000, []),
        ("@a\0b", []),
    ],
)
def test_a_file_that_is_there_is_linked(folder: Path, text: str, names: list[str]) -> None:
    first, *links = prompt_of(text, str(folder))
    assert first == Text(text)
    assert [link.name for link in links if isinstance(link, ResourceLink)] == names
    assert [link.uri for link in links if isinstance(link, ResourceLink)] == [
        (folder / name).as_uri() for name in names
    ]


def test_what_was_typed_can_be_had_back(folder: Path) -> None:
    assert text_of(prompt_of("read @notes.txt", str(folder))) == "read @notes.txt"
