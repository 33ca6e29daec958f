"""Content made of files and bytes."""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from agentrt import Image, LocalProtocolError
from agentrt.events import Audio, Resource, ResourceLink, blocks

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 8
WAV = b"RIFF\x24\0\0\0WAVEfmt "


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (WAV, "audio/wav"),
        (b"ID3\x04", "audio/mpeg"),
        (b"OggS\0", "audio/ogg"),
        (b"\0\0\0\x20ftypM4A ", "audio/mp4"),
    ],
)
def test_what_some_bytes_are_is_said_by_how_they_begin(
    tmp_path: Path, data: bytes, kind: str
) -> None:
    for name in ("nameless", "misnamed.txt"):
        (tmp_path / name).write_bytes(data)
        assert Resource.from_path(tmp_path / name).resource["mimeType"] == kind


FILE_NAMES = st.text(min_size=1, max_size=12).filter(
    lambda name: not {"/", "\0"} & set(name) and name not in (".", "..")
)


@given(st.binary(max_size=24), FILE_NAMES)
def test_no_bytes_and_no_name_are_too_odd(data: bytes, name: str) -> None:
    with TemporaryDirectory() as folder:
        (Path(folder) / name).write_bytes(data)
        kind = Resource.from_path(Path(folder) / name).resource.get("mimeType")
    assert kind is None or "/" in kind


def test_an_image_is_made_of_a_file_and_of_bytes(tmp_path: Path) -> None:
    (tmp_path / "misnamed.jpg").write_bytes(PNG)
    image = Image.from_path(tmp_path / "misnamed.jpg")
    assert image == Image.from_bytes(PNG)
    assert (b64decode(image.data), image.mime_type) == (PNG, "image/png")
    (tmp_path / "drawing.svg").write_text("<svg/>")
    assert Image.from_path(str(tmp_path / "drawing.svg")).mime_type == "image/svg+xml"


def test_sound_is_made_of_a_file_and_of_bytes(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(WAV)
    assert Audio.from_path(tmp_path / "a") == Audio.from_bytes(WAV)
    assert Audio.from_bytes(b"raw", mime_type="audio/L16").mime_type == "audio/L16"


def test_a_file_of_another_or_an_unknown_type_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("remember the milk")
    with pytest.raises(
        LocalProtocolError, match=r"notes\.txt has the type text/plain, expected image"
    ):
        Image.from_path(tmp_path / "notes.txt")
    with pytest.raises(LocalProtocolError, match="has the type image/png, expected audio"):
        Audio.from_bytes(PNG)
    with pytest.raises(LocalProtocolError, match="give `mime_type`"):
        Image.from_bytes(b"?")
    with pytest.raises(FileNotFoundError):
        Image.from_path(tmp_path / "gone.png")


def test_what_is_too_large_for_a_prompt_is_refused(tmp_path: Path) -> None:
    (tmp_path / "big.png").write_bytes(PNG)
    for make in (Image.from_path, Resource.from_path):
        with pytest.raises(LocalProtocolError, match=r"big\.png has more than 10 bytes"):
            make(tmp_path / "big.png", largest=10)
        make(tmp_path / "big.png", largest=len(PNG))
    with pytest.raises(LocalProtocolError, match="more than 4 bytes"):
        Audio.from_bytes(WAV, largest=4)


def test_what_is_no_bytes_and_no_text_is_named(tmp_path: Path) -> None:
    wrong: Any
    for wrong in ("text", 5, None):
        with pytest.raises(TypeError, match="content must be bytes, not "):
            Image.from_bytes(wrong)
    for wrong in (
        lambda: Image.from_bytes(b"x", mime_type=5),
        lambda: ResourceLink.from_path(tmp_path, mime_type=5),
    ):
        with pytest.raises(TypeError, match="mime_type: a string such as"):
            wrong()
    with pytest.raises(TypeError, match="text: a string, not int"):
        Resource.from_text("buffer:x", 5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong", [{}, {"uri": 5, "text": "x"}, {"uri": "x:y"}, {"uri": "x:y", "blob": None}]
)
def test_a_resource_is_text_or_bytes_with_a_uri(wrong: Any) -> None:
    with pytest.raises(LocalProtocolError, match="is not a content block"):
        blocks(Resource(wrong))


def test_a_link_says_what_is_there_without_reading_it(tmp_path: Path) -> None:
    (tmp_path / "a b.py").write_text("pass\n")
    link = ResourceLink.from_path(tmp_path / "a b.py")
    assert link.uri == f"file://{tmp_path}/a%20b.py"
    assert (link.name, link.mime_type, link.size) == ("a b.py", "text/x-python", 5)
    (tmp_path / "odd").write_text("")
    assert ResourceLink.from_path(tmp_path / "odd").mime_type is UNSET
    with pytest.raises(FileNotFoundError):
        ResourceLink.from_path(tmp_path / "gone")


def test_a_resource_is_a_file_as_text_or_as_bytes(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("pass\n")
    (tmp_path / "b.bin").write_bytes(b"\xff\x00")
    text = Resource.from_path(tmp_path / "a.py").resource
    assert text == {"uri": f"file://{tmp_path}/a.py", "mimeType": "text/x-python", "text": "pass\n"}
    blob = Resource.from_path(tmp_path / "b.bin").resource
    assert (blob["blob"], "text" in blob) == ("/wA=", False)
    buffer = Resource.from_text("buffer:1", "draft", mime_type="text/markdown").resource
    assert buffer == {"uri": "buffer:1", "text": "draft", "mimeType": "text/markdown"}
