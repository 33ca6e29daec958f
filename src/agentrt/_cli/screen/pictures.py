"""Images in the scrollback, in terminals that can show them: by kitty's protocol or by iTerm2's.

The data comes from an agent. It is decoded and encoded again, so no other sequence can be in it; a
terminal decodes only formats that it knows. Sixel is left out, because it would need a decoder in
this process.
"""

from __future__ import annotations

import binascii
import struct
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from ...events import Image

PictureProtocol: TypeAlias = Literal["kitty", "iterm"]

PICTURE_BYTES: Final = 4 * 1024 * 1024
"""Bytes of the largest image that is shown."""
_CHUNK_CHARS: Final = 4096
_CELL_PIXELS: Final = 8, 16
"""The assumed width and height of a character; only the ratio matters for large images."""
_PNG: Final = b"\x89PNG\r\n\x1a\n"


def picture_protocol(env: Mapping[str, str]) -> PictureProtocol | None:
    """Return the protocol of the terminal; None if it has none that is known."""
    term, program = env.get("TERM", ""), env.get("TERM_PROGRAM", "")
    if "TMUX" in env or "STY" in env or term.startswith(("tmux", "screen")):
        return None  # a multiplexer does not pass images through
    if "KITTY_WINDOW_ID" in env or term in ("xterm-kitty", "xterm-ghostty"):
        return "kitty"
    return "iterm" if program in ("iTerm.app", "WezTerm") else None


def picture(image: Image, protocol: PictureProtocol, columns: int, rows: int) -> str | None:
    """Return the text that shows an image in at most so many columns and rows.

    It consists of complete lines. Returns None if the image cannot be shown.
    """
    if image.cut or len(image.data) > PICTURE_BYTES * 4 // 3:
        return None
    try:
        data = b64decode(image.data, validate=True)
    except (binascii.Error, ValueError):
        return None
    size = _size(data)
    if size is None or (protocol == "kitty" and not data.startswith(_PNG)):
        return None
    width, height = _cells(size, columns, rows)
    encoded = b64encode(data).decode()
    if protocol == "kitty":
        shown = _kitty(encoded, width, height)
    else:
        shown = (
            f"\x1b]1337;File=inline=1;size={len(data)};width={width};height={height};"
            f"preserveAspectRatio=1;doNotMoveCursor=1:{encoded}\x07"
        )
    # Make room first, so that the terminal need not scroll while it draws.
    return "\n" * height + f"\x1b[{height}A{shown}\r\x1b[{height}B"


def _kitty(encoded: str, width: int, height: int) -> str:
    """Return the control sequences of the kitty graphics protocol, in pieces of limited size."""
    pieces = [encoded[at : at + _CHUNK_CHARS] for at in range(0, len(encoded), _CHUNK_CHARS)]
    # q=2: the terminal must not answer, because the answer would arrive as keys.
    head = f"a=T,f=100,q=2,C=1,c={width},r={height},"
    shown = []
    for number, piece in enumerate(pieces, 1):
        shown.append(f"\x1b_G{head}m={int(number < len(pieces))};{piece}\x1b\\")
        head = ""
    return "".join(shown)


def _cells(size: tuple[int, int], columns: int, rows: int) -> tuple[int, int]:
    """Return the columns and rows for an image of this size in pixels, in its proportions."""
    width, height = size[0] / _CELL_PIXELS[0], size[1] / _CELL_PIXELS[1]
    scale = min(1.0, columns / width, rows / height)
    return max(1, int(width * scale)), max(1, int(height * scale))


def _size(data: bytes) -> tuple[int, int] | None:
    """Return the width and height of a PNG, GIF or JPEG image in pixels; None for other data."""
    size = None
    if data.startswith(_PNG) and len(data) >= 24:
        size = struct.unpack(">II", data[16:24])
    elif data[:6] in (b"GIF87a", b"GIF89a") and len(data) >= 10:
        size = struct.unpack("<HH", data[6:10])
    elif data.startswith(b"\xff\xd8"):
        size = _jpeg_size(data)
    return (size[0], size[1]) if size is not None and min(size) > 0 else None


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    """Return width and height of a JPEG image, from its frame header; None if it has none."""
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker, length = data[at + 1], int.from_bytes(data[at + 2 : at + 4], "big")
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 2 + max(2, length)
    return None
