"""The directive `turn-table`: the diagram and the table of a turn's states, from the code's own."""

from __future__ import annotations

from collections import defaultdict
from html import escape

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

from agentrt._core.model.turn import TABLE, TurnMachineState

WIDTH, HEIGHT, STEP, TOP = 112, 36, 190, 110
"""Of a state's box, from one box to the next, and above the boxes: pixels."""


def edges() -> dict[tuple[TurnMachineState, TurnMachineState], list[str]]:
    """The inputs that lead from one state to another."""
    found: dict[tuple[TurnMachineState, TurnMachineState], list[str]] = defaultdict(list)
    for state, row in TABLE.items():
        for event, after in row.items():
            found[state, after].append(event.value)
    return dict(found)


def diagram() -> str:
    """An SVG with the states in a row: forward arcs above them, backward ones below."""
    place = {state: 20 + index * STEP for index, state in enumerate(TABLE)}
    parts = []
    for (start, end), inputs in edges().items():
        leave, enter = place[start] + WIDTH / 2, place[end] + WIDTH / 2
        steps = round((enter - leave) / STEP)
        if steps == 0:
            loop = TOP - 42
            path = (
                f"M{leave - 14},{TOP} C{leave - 30},{loop} {leave + 30},{loop} {leave + 14},{TOP}"
            )
            x, y = leave, TOP - 38
        else:
            side, bend = (TOP, -34 * steps) if steps > 0 else (TOP + HEIGHT, -34 * steps)
            leave, enter = leave + 24 * (steps > 0), enter - 24 * (steps > 0)
            path = f"M{leave},{side} C{leave},{side + bend} {enter},{side + bend} {enter},{side}"
            x, y = (leave + enter) / 2, side + bend * 0.75 + (14 if steps < 0 else -5)
        label = escape(", ".join(inputs))
        parts.append(f'<path d="{path}" fill="none" stroke="currentColor" marker-end="url(#tip)"/>')
        parts.append(f'<text x="{x}" y="{y}" text-anchor="middle">{label}</text>')
    for state, x in place.items():
        parts.append(
            f'<rect x="{x}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" rx="8" fill="none"'
            f' stroke="currentColor" stroke-width="{2 if TABLE[state] else 4}"/>'
            f'<text x="{x + WIDTH / 2}" y="{TOP + 23}" text-anchor="middle">{state.value}</text>'
        )
    width, height = 40 + STEP * (len(place) - 1) + WIDTH, TOP + HEIGHT + 70
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="The states of a turn"'
        ' style="max-width: 100%; font-size: 13px" fill="currentColor">'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7"'
        ' markerHeight="7" orient="auto"><path d="M0,0 L8,4 L0,8 z"/></marker></defs>'
        + "".join(parts)
        + "</svg>"
    )


class TurnTable(Directive):
    def run(self) -> list[nodes.Node]:
        table = nodes.table()
        group = nodes.tgroup(cols=3)
        table += group
        for _ in range(3):
            group += nodes.colspec(colwidth=1)
        head, body = nodes.thead(), nodes.tbody()
        head += self.row("state", "input", "next state")
        for (start, end), inputs in edges().items():
            body += self.row(start.value, ", ".join(inputs), end.value)
        group += [head, body]
        return [nodes.raw("", diagram(), format="html"), table]

    def row(self, *cells: str) -> nodes.row:
        row = nodes.row()
        for cell in cells:
            row += nodes.entry("", nodes.paragraph(text=cell))
        return row


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("turn-table", TurnTable)
    return {"parallel_read_safe": True}
