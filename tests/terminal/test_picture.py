"""The terminal's picture in the documentation; `AGENTRT_SHOTS=docs/images` takes it anew."""

from __future__ import annotations

import io
import os
import re
from itertools import groupby
from pathlib import Path

import pyte
import pytest
from program import Program
from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text
from screen import READY, Screen, on_screen

IMAGES = Path(__file__).parents[2] / "docs" / "images"
CODE = 'def greet(name: str) -> str:\n    """Say hello."""\n    return "hi " + name\n'
SVG = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, monospace; \
font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""Rich's own template without the fonts that it loads from a network."""


def colour(name: str) -> Color | None:
    """A colour of the emulator: a name, or six digits."""
    if name == "default":
        return None
    if re.fullmatch(r"[0-9a-f]{6}", name):
        return Color.parse(f"#{name}")
    bright, _, base = name.rpartition("bright")
    known = "yellow" if base == "brown" else base
    return Color.parse(f"bright_{known}" if bright or "bright" in name else known)


def style(char: pyte.screens.Char) -> Style:
    return Style.from_color(colour(char.fg), colour(char.bg)) + Style(
        bold=char.bold, italic=char.italics, underline=char.underscore, reverse=char.reverse
    )


def picture(screen: Screen, folder: str) -> str:
    """The screen as an SVG, with a short name for the folder."""
    emulator = screen.emulator
    rows = len(screen.text.splitlines())
    console = Console(width=emulator.columns, record=True, file=io.StringIO())
    for row in range(rows):
        line = Text()
        cells = [emulator.buffer[row][x] for x in range(emulator.columns)]
        if (at := "".join(cell.data for cell in cells).find(folder)) >= 0:
            cells[at : at + len(folder)] = [cells[at]._replace(data=each) for each in "~/demo"]
        for look, run in groupby(cells, style):
            line.append("".join(cell.data for cell in run), look)
        console.print(line, no_wrap=True, overflow="crop")
    return console.export_svg(
        title="agentrt", theme=DIMMED_MONOKAI, code_format=SVG, unique_id="terminal"
    )


@pytest.mark.slow
def test_a_permission_request_as_the_documentation_shows_it(program: Program) -> None:
    (program.folder / "greet.py").write_text(CODE)
    with on_screen(program, "--agent", "demo", "--model", "instant") as it:
        it.until(READY)
        it.enter("read greet.py")
        it.until(READY, "def greet")
        it.enter("edit greet.py replace hi by hello")
        it.until(r"\+ .*hello", "y/a/n/x")
        made = picture(it, str(program.folder))
        it.ctrl("c")
        it.until(READY)
        it.ctrl("d")
        assert it.ended() == 0
    assert "hello" in made
    assert re.findall(r"https?://[^\s\"]*", made) == ["http://www.w3.org/2000/svg"]
    if folder := os.environ.get("AGENTRT_SHOTS"):
        Path(folder, "terminal.svg").write_text(made)
    assert (IMAGES / "terminal.svg").read_text().startswith("<svg"), "take it anew, as above"
