"""A small picture and a short tone, made here: real files to show, and none to ship."""

from __future__ import annotations

import base64
import math
import struct
import zlib

from .wire import JsonObject

WIDTH, HEIGHT = 96, 54
RATE, SECONDS, PITCH = 8000, 0.4, 440.0


def png() -> bytes:
    """A sunset: two colours that blend from top to bottom, and a sun."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    def pixel(x: int, y: int) -> bytes:
        if math.hypot(x - WIDTH / 2, y - HEIGHT * 0.62) < HEIGHT * 0.22:
            return b"\xff\xd7\x6a"
        down = y / HEIGHT
        return bytes((int(60 + 180 * down), int(40 + 80 * down), int(110 - 30 * down)))

    rows = (b"\0" + b"".join(pixel(x, y) for x in range(WIDTH)) for y in range(HEIGHT))
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0)
    image = zlib.compress(b"".join(rows), 9)
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", image), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def wav() -> bytes:
    """A tone that fades out, 8 bits mono."""
    count = int(RATE * SECONDS)
    samples = bytes(
        int(128 + 90 * (1 - n / count) * math.sin(2 * math.pi * PITCH * n / RATE))
        for n in range(count)
    )
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, RATE, RATE, 1, 8)
    body = b"WAVE" + form + struct.pack("<4sI", b"data", count) + samples
    return struct.pack("<4sI", b"RIFF", len(body)) + body


def image_block() -> JsonObject:
    return {"type": "image", "data": base64.b64encode(png()).decode(), "mimeType": "image/png"}


def audio_block() -> JsonObject:
    return {"type": "audio", "data": base64.b64encode(wav()).decode(), "mimeType": "audio/wav"}
