"""A small picture and a short tone, as real files to show."""

from __future__ import annotations

import base64
import io
import wave

from .wire import JsonObject

SUNSET = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAADAAAAAbBAMAAADIRxFBAAAAMFBMVEU8KG5ILWtVM2liOWdvPmV8RGOJSmGWUF+iVVyv"
    "W1q8YVjJZlbWbFTjclLweFD/12qkmjrdAAAAdklEQVR42pXJLRmAQBCE4a1ABSpQgQpUwCKRWCpQgQoIClwFKiBBIBaO"
    "ffbHjLjPzbxExVUgDDUIQwPC0IKoA2HorYH58hWAvwKM2pThtunAfw6zJmATw6IJ2KRVE7CJYdMEbDrs+X8ckpXBV4AU"
    "/0QHCMMJegGFRz3RpWTw8AAAAABJRU5ErkJggg=="
)
"""A picture, as PNG."""


def wav() -> bytes:
    """Return a tone: 0.4 s of 444 Hz, 8 bits mono."""
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setparams((1, 1, 8000, 0, "NONE", ""))
        file.writeframes((b"\x60" * 9 + b"\xa0" * 9) * 178)
    return out.getvalue()


def image_block() -> JsonObject:
    """Return the picture as a content block."""
    return {"type": "image", "data": base64.b64encode(SUNSET).decode(), "mimeType": "image/png"}


def audio_block() -> JsonObject:
    """Return the tone as a content block."""
    return {"type": "audio", "data": base64.b64encode(wav()).decode(), "mimeType": "audio/wav"}
