"""The terminal user interface. Tests draw it without a terminal, to see each cell and its style."""

from __future__ import annotations

from agentrt._cli.repl.view import View
from agentrt._cli.screen.drawing import Drawing
from agentrt._cli.screen.style import LOOKS, Painter, ScrollingText

__all__ = [
    "Drawing",
    "LOOKS",
    "Painter",
    "ScrollingText",
    "View",
]
