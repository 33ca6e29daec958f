"""The media type of bytes, by their first bytes or else by the file name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from ..errors import LocalProtocolError

MAX_FILE_BYTES: Final = 16 * 1024 * 1024
"""Bytes of a file in a prompt. Models accept less: most no image above 5 MB."""

_BEGINNINGS: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\xff\xf3", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
)
_RIFF: Final = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}
_BRANDS: Final = {b"M4A ": "audio/mp4", b"avif": "image/avif", b"heic": "image/heic"}


def media_type(data: bytes, name: str = "") -> str | None:
    """Return the MIME type, or None if it cannot be determined."""
    if data[:4] == b"RIFF" and data[8:12] in _RIFF:
        return _RIFF[data[8:12]]
    if data[4:8] == b"ftyp" and data[8:12] in _BRANDS:
        return _BRANDS[data[8:12]]
    for beginning, kind in _BEGINNINGS:
        if data.startswith(beginning):
            return kind
    import mimetypes  # reads the system's tables, and few sessions need it

    return mimetypes.guess_type(name)[0]


def read_media(
    path: str | os.PathLike[str], kind: str, mime_type: str | None, largest: int
) -> tuple[bytes, str]:
    """Return a file's bytes and MIME type, which must be of that `kind` (such as `image`).

    Raises `OSError`, and the same errors as `check_media`.
    """
    data = read_file(path, largest)
    return data, check_media(data, kind, mime_type, os.fspath(path))


def read_file(path: str | os.PathLike[str], largest: int) -> bytes:
    """Return a file's bytes. Raises `OSError`, or `LocalProtocolError` if it is too large."""
    with Path(path).open("rb") as file:
        data = file.read(largest + 1)
    check_size(len(data), largest, os.fspath(path))
    return data


def check_size(size: int, largest: int, name: str) -> None:
    """Raise `LocalProtocolError` if the size is too large for a prompt."""
    if size > largest:
        raise LocalProtocolError(
            f"{name or 'it'} has more than {largest} bytes, which is too much for a prompt: make it"
            " smaller, send a ResourceLink, or give `largest`"
        )


def check_name(mime_type: str | None) -> None:
    """Raise `TypeError` unless the MIME type is a string or None."""
    if not isinstance(mime_type, str | None):
        raise TypeError(f"mime_type: a string such as 'image/png', not {type(mime_type).__name__}")


def check_media(data: bytes, kind: str, mime_type: str | None, name: str = "") -> str:
    """Return the MIME type of bytes.

    Raises `LocalProtocolError` if it is unknown or of another kind, and `TypeError` if `data` is
    not bytes.
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"content is made of bytes, not of {type(data).__name__}")
    check_name(mime_type)
    found = mime_type or media_type(data, name)
    if found is None:
        raise LocalProtocolError(
            f"cannot determine the type of {name or 'these bytes'}: give `mime_type` of the {kind}"
        )
    if not found.startswith(f"{kind}/"):
        raise LocalProtocolError(f"{name or 'this'} has the type {found}, expected {kind}/…")
    return found
