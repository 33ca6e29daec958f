"""The scrolling text above the prompt: buffered here, written with the next frame."""

from __future__ import annotations

from collections.abc import Callable

from ..text import word_rows, wrapped
from .style import Painter


class ScrollingText:
    """Complete lines in blocks separated by empty lines. `width` returns the terminal's current
    width.
    """

    def __init__(self, paint: Painter, width: Callable[[], int]) -> None:
        self.paint = paint
        self.width = width
        self._parts: list[str] = []
        self._size = 0
        self._kind = ""

    @property
    def size(self) -> int:
        """The number of characters that wait for the next frame."""
        return self._size

    def write(self, text: str, kind: str = "line", *, apart: bool = False) -> None:
        """Add complete lines.

        An empty line precedes text of a different kind, or text with `apart`.
        """
        if not text:
            return
        if self._kind and (apart or kind != self._kind):
            text = "\n" + text
        self._kind = kind
        self._parts.append(text)
        self._size += len(text)

    def say(self, text: str, kind: str) -> None:
        """Add agentrt's own text, wrapped at spaces."""
        self.write(wrapped(text, self.width()) + "\n", kind)

    def line(self, *fragments: tuple[str, str], kind: str = "line") -> None:
        """Add a line of agentrt's own text, in these looks."""
        text = "".join(part for _, part in fragments)
        indent, rows = word_rows(text, self.width())
        painted = []
        for start, end in rows:
            row, place = (" " * indent if start else ""), 0
            for look, part in fragments:
                row += self.paint.paint(look, part[max(0, start - place) : max(0, end - place)])
                place += len(part)
            painted.append(row + "\n")
        self.write("".join(painted), kind)

    def take(self) -> str:
        """Return and remove the buffered text, for the next frame."""
        text = "".join(self._parts)
        self._parts.clear()
        self._size = 0
        return text
