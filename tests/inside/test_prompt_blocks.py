"""Files and images that a prompt names.

The blocks of a prompt are compared as values; agents show only some of them.
"""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path

import pytest

from agentrt._cli.session_view import IMAGE_BYTES, prompt_of, text_of
from agentrt.events import Image, ResourceLink, Text


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


def test_an_image_is_sent_itself_to_an_agent_that_takes_images(folder: Path) -> None:
    data = b"\x89PNG\r\n\x1a\n and so on"
    (folder / "a b.png").write_bytes(data)
    (folder / "fake.png").write_text("no image")
    text = 'look at @"a b.png" and @fake.png and @notes.txt'
    _, image, *links = prompt_of(text, str(folder), images=True)
    assert isinstance(image, Image)
    assert (b64decode(image.data), image.mime_type) == (data, "image/png")
    assert [link.name for link in links if isinstance(link, ResourceLink)] == [
        "fake.png",
        "notes.txt",
    ]
    assert text_of([Text(text), image, *links]) == text
    _, *links = prompt_of(text, str(folder))
    assert all(isinstance(link, ResourceLink) for link in links)


def test_an_image_that_is_too_large_is_a_link(folder: Path) -> None:
    with (folder / "large.png").open("wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        file.truncate(IMAGE_BYTES + 1)
    _, link = prompt_of("@large.png", str(folder), images=True)
    assert isinstance(link, ResourceLink)
