"""The directive `code-table`: one of the tables of codes, made from the code's own.

`notices`, `errors` and `causes` are the argument.
"""

from __future__ import annotations

import re
from typing import get_args

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

from agentrt._core.model import causes, codes


def _causes() -> dict[str, str]:
    """The causes, with the text of the list in the source."""
    source = causes.__spec__.loader.get_source(causes.__name__)  # type: ignore[union-attr]
    found = dict(re.findall(r"^- `(\w+)`: (.*?)[;.]$", source, re.MULTILINE))
    assert set(found) == set(get_args(causes.Cause))
    return {code: f"{meaning[0].upper()}{meaning[1:]}." for code, meaning in found.items()}


TABLES = {"notices": lambda: codes.NOTICES, "errors": lambda: codes.ERRORS, "causes": _causes}


class CodeTable(Directive):
    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        table = nodes.table()
        group = nodes.tgroup(cols=2)
        table += group
        for width in (1, 3):
            group += nodes.colspec(colwidth=width)
        head, body = nodes.thead(), nodes.tbody()
        head += self.row(nodes.Text("code"), nodes.Text("meaning"))
        for code, meaning in TABLES[self.arguments[0]]().items():
            cells, _ = self.state.inline_text(meaning, self.lineno)
            body += self.row(nodes.literal(text=code), *cells)
        group += [head, body]
        return [table]

    def row(self, first: nodes.Node, *rest: nodes.Node) -> nodes.row:
        row = nodes.row()
        row += nodes.entry("", nodes.paragraph("", "", first))
        row += nodes.entry("", nodes.paragraph("", "", *rest))
        return row


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("code-table", CodeTable)
    return {"parallel_read_safe": True}
