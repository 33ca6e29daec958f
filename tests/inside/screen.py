"""The terminal user interface. Tests draw it without a terminal, to see each cell and its style."""

from __future__ import annotations

from agentrt._cli.repl.asking import BAR, READING_TIME_S, Asker
from agentrt._cli.repl.view import View
from agentrt._cli.screen.drawing import Drawing
from agentrt._cli.screen.markdown import Blocks, Renderer
from agentrt._cli.screen.style import LOOKS, Painter, ScrollingText

__all__ = [
    "Asker",
    "BAR",
    "Blocks",
    "Drawing",
    "LOOKS",
    "Painter",
    "READING_TIME_S",
    "Renderer",
    "ScrollingText",
    "View",
]
