"""The agent's Markdown, block by block: a finished block is rendered once and never again.

A block ends at an empty line, at the next list item, or with its fence. Long blocks are split, so
that no output waits for the end of ten thousand lines. Line breaks stay as the agent wrote them.
HTML, entities and images are shown as text, and wide lines are wrapped, so no text is lost: a block
that cannot be rendered completely is shown as it was written. Task lists, footnotes and `<details>`
are drawn; a footnote stays where it is written.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, Final

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.token import Token
from rich.cells import chop_cells
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement, TableElement
from rich.padding import Padding
from rich.style import Style
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from ..text import safe

PIECE_LINES: Final = 60
"""Lines after which a block continues in the next piece."""
MIN_COLUMNS: Final = 20
"""The minimum width in columns for rendering; a narrower terminal wraps the lines itself."""
TAB_COLUMNS: Final = 4

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})[^`]*$")
_ITEM: Final = re.compile(r"( {0,3})([-*+]|\d{1,9}[.)])( |$)")
_TABLE: Final = re.compile(r" {0,3}\|")
_MARKUP: Final = re.compile(
    r"[*_`~\\\[\]<>|#\t]|^ *([-+=]+|\d+[.)]) |^ {4}|^ {0,3}[-=]{2,}$|  $", re.MULTILINE
)
"""Matches lines that may be more than plain text."""


class Blocks:
    """Cuts a text that arrives in pieces into blocks.

    Each block comes with a boolean: true if an empty line precedes it.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._rest: list[str] = []
        self._fence = ""
        self._opening = ""
        self._list = False
        self._gap = False
        self._apart = False

    def unfinished(self, lines: int, chars: int) -> str:
        """Return the end of the block that is not finished yet, as Markdown of its own.

        `lines` limits its lines and `chars` the characters of each; long lines lose whole words at
        their start.
        """
        whole = [*self._lines, "".join(self._rest)]
        last = [_last_words(line, chars) for line in whole[-lines:]]
        if self._fence and len(whole) > lines:
            last.insert(0, self._opening)
        return "\n".join(last)

    def feed(self, text: str) -> list[tuple[str, bool]]:
        """Add text; returns the blocks that it finishes."""
        out: list[tuple[str, bool]] = []
        *lines, rest = text.split("\n")
        if lines:
            lines[0] = "".join(self._rest) + lines[0]
            self._rest = []
        for line in lines:
            self._line(line, out)
        if rest:
            self._rest.append(rest)
        return out

    def end(self) -> list[tuple[str, bool]]:
        """End the text; returns the remaining blocks."""
        out: list[tuple[str, bool]] = []
        if self._rest:
            self._line("".join(self._rest), out)
            self._rest = []
        self._flush(out)
        self._fence = ""
        return out

    def _line(self, line: str, out: list[tuple[str, bool]]) -> None:
        """Add a line to the block that it belongs to, and put blocks that it ends into `out`.

        A blank line ends a paragraph, but a list only if the next line is no part of it. Long
        blocks are passed on in pieces, so that nothing waits for their end.
        """
        if self._fence:
            self._code_line(line, out)
            return
        if not line.strip():
            if self._list:
                self._gap = True  # the list may continue after this
            else:
                self._flush(out)
                self._apart = True
            return
        item = _ITEM.match(line)
        if self._gap:
            self._line_after_gap(line, out, is_item=item is not None)
        fence = _FENCE.match(line)
        if fence is not None and not (self._list and line.startswith("  ")):
            self._flush(out)
            self._fence, self._opening = fence[1], line.strip()
        elif item is not None and len(item[1]) < 2:
            self._flush(out)
            self._list = True
        self._lines.append(line)
        if len(self._lines) >= PIECE_LINES and not _TABLE.match(line):
            self._flush(out)

    def _code_line(self, line: str, out: list[tuple[str, bool]]) -> None:
        """Add a line of a code block, or end the block."""
        self._lines.append(line)
        text = line.strip()
        if text == self._fence or (text.startswith(self._fence) and not text.strip(self._fence[0])):
            self._fence = ""
            self._flush(out)
        elif len(self._lines) >= PIECE_LINES:
            self._lines.append(self._fence)
            self._flush(out)
            self._lines.append(self._opening)
            self._apart = False

    def _line_after_gap(self, line: str, out: list[tuple[str, bool]], *, is_item: bool) -> None:
        """Continue a list after an empty line, or end it."""
        self._gap = False
        if not is_item and not line.startswith(" "):
            self._flush(out)
        self._apart = self._apart or not self._lines
        if self._lines and not is_item:
            self._lines.append("")
        elif self._lines:
            self._flush(out)
            self._apart = True

    def _flush(self, out: list[tuple[str, bool]]) -> None:
        """Put the collected lines into `out` as one block. A pending empty line is kept for the
        next one.
        """
        if self._lines:
            out.append(("\n".join(self._lines), self._apart))
        elif self._apart:
            return
        self._lines = []
        self._list = self._gap = self._apart = False


def _last_words(line: str, chars: int) -> str:
    """Return the end of a line, beginning with a whole word if one begins nearby."""
    if len(line) <= chars:
        return line
    start = len(line) - chars
    blank = line.find(" ", start, start + 40)
    return line[blank + 1 if blank >= 0 else start :]


BLOCK_CHARS: Final = 10_000
"""Characters of a block that are read as Markdown. Rich needs up to a quarter of a second for this
many, and more than proportionally longer for longer blocks.
"""


class Renderer:
    """Renders blocks as text for the terminal."""

    def __init__(self, *, colour: bool) -> None:
        self._file = io.StringIO()
        self._console = Console(
            file=self._file,
            force_terminal=True,
            color_system="standard" if colour else None,
            no_color=not colour,
            legacy_windows=False,
            highlight=False,
            emoji=False,
            theme=_THEME,
            _environ={},
        )

    def __call__(self, block: str, width: int) -> str:
        """Return a block as complete lines. One that is too long for prose is shown as it was
        written.
        """
        block = safe(block)
        if len(block) > BLOCK_CHARS:
            return f"{block}\n"
        if not _MARKUP.search(block) and all(len(line) < width for line in block.split("\n")):
            return block + "\n"
        self._console.width = max(MIN_COLUMNS, width)
        markdown = _Markdown(block)
        text = self._printed(markdown)
        if markdown.signs - Counter(_LOOK.sub("", text)):
            text = self._printed(Text(block, overflow="fold"))
        lines = [_BLANK_END.sub(r"\1", line) for line in text.split("\n")]
        while lines and not _LOOK.sub("", lines[0]):
            del lines[0]
        while lines and not _LOOK.sub("", lines[-1]):
            del lines[-1]
        return "".join(f"{line}\n" for line in lines)

    def _printed(self, block: Markdown | Text) -> str:
        """Return the output of Rich for a block."""
        self._console.print(block, soft_wrap=False)
        text = self._file.getvalue()
        self._file.seek(0)
        self._file.truncate()
        return text


_LOOK: Final = re.compile(r"\x1b\[[0-9;]*m")
_BLANK_END: Final = re.compile(r"(?<! ) +((?:\x1b\[[0-9;]*+m)*+)$")

_PARSER: Final = (
    MarkdownIt("commonmark", {"html": False})
    .enable(["strikethrough", "table"])
    .disable(["autolink", "entity", "image", "reference", "html_block", "html_inline"])
)

_FOLD: Final = re.compile(
    r"(?=<details|<summary)(?:<details(?: +open)? *>)? *"
    r"(?:<summary>(?P<summary>.*?)</summary>)?(?P<text>.*)",
    re.IGNORECASE,
)
"""A line that begins a folded part, names it, or both."""
_FOLD_END: Final = "</details>"


def _fold(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read a line of `<details>`: its summary becomes a heading, its contents stay."""
    if state.is_code_block(start):
        return False
    line = state.src[state.bMarks[start] + state.tShift[start] : state.eMarks[start]].strip()
    found = _FOLD.fullmatch(line)
    summary, text = (found["summary"], found["text"]) if found else (None, line)
    if text.lower().endswith(_FOLD_END):
        text = text[: -len(_FOLD_END)]
    if (found is None and text) or (summary is None and "<" in text):
        return False
    if silent:
        return True
    if summary and summary.strip():
        _push(state, "heading", "h3", f"▾ {summary.strip()}")
    if text.strip():
        _push(state, "paragraph", "p", text.strip())
    state.line = start + 1
    return True


def _push(state: StateBlock, name: str, tag: str, text: str) -> None:
    """Add a block of one line, whose text is read as Markdown."""
    state.push(f"{name}_open", tag, 1)
    inline = state.push("inline", "", 0)
    inline.content, inline.children = text, []
    state.push(f"{name}_close", tag, -1)


_PARSER.block.ruler.before("table", "fold", _fold, {"alt": ["paragraph", "blockquote", "list"]})

_TASK: Final = re.compile(r"\[([ xX])\](?= \S)")
_NOTE: Final = re.compile(r"\[\^([^\]\s]{1,40})\]:(?= )")
_NOTE_MARK: Final = re.compile(r"(?<=[\w.,;:!?\"'»”’)])\[\^(\d{1,3})\](?!:)")
"""Only numbers: other labels in running text may be a set of characters in a regular expression."""


def _draw_marks(tokens: Sequence[Token]) -> None:
    """Draw the boxes of a task list and the marks of footnotes."""
    for index, token in enumerate(tokens):
        if token.type != "inline" or not token.children:
            continue
        first = token.children[0]
        if index > 1 and tokens[index - 2].type == "list_item_open" and first.type == "text":
            box = _TASK.match(token.content)
            if box is not None and first.content.startswith(box[0]):
                mark = "☐" if box[1] == " " else "☑"
                first.content = mark + first.content[box.end() :]
                token.content = mark + token.content[box.end() :]
        starts_line = True
        for child in token.children:
            if child.type == "text":
                text = child.content
                note = _NOTE.match(text) if starts_line else None
                if note is not None:
                    text = f"[{note[1]}]{text[note.end() :]}"
                child.content = _NOTE_MARK.sub(r"[\1]", text)
            starts_line = child.type in ("softbreak", "hardbreak")


class _Heading(Heading):
    """A heading on the left, without a frame."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the heading's text; Rich would centre it and frame the largest ones."""
        self.text.justify = "left"
        yield self.text


class _Code(CodeBlock):
    """Code in the terminal's own colours, indented.

    Long lines are broken at the width, not between words, because every space of code counts.
    """

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the code in rows that fit, indented by two columns."""
        code = str(self.text).removesuffix("\n")
        if console.no_color or console.color_system is None:
            text = Text(code)
        else:
            text = Syntax(code, self.lexer_name, theme="ansi_dark").highlight(code)
            text.rstrip()
        text.expand_tabs(TAB_COLUMNS)
        width = max(2, options.max_width - 2)
        rows = [
            row
            for line in text.split("\n", allow_blank=True)
            for row in line.divide(_cuts(line.plain, width))
        ]
        yield Padding(Text("\n", no_wrap=True).join(rows), (0, 0, 0, 2), expand=False)


def _cuts(line: str, width: int) -> Iterator[int]:
    """Yield the positions at which a line is broken to fit into `width` columns."""
    at = 0
    for row in chop_cells(line, width)[:-1]:
        at += len(row)
        yield at


class _Table(TableElement):
    """A table whose cells wrap text that does not fit."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table with cells that fold; Rich would shorten long words with an ellipsis."""
        for table in super().__rich_console__(console, options):
            if isinstance(table, Table):
                for column in table.columns:
                    column.overflow = "fold"
            yield table


class _Markdown(Markdown):
    """A block with the elements above, which keeps line breaks and knows the text that must be
    visible.
    """

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Heading,
        "fence": _Code,
        "code_block": _Code,
        "table_open": _Table,
    }

    def __init__(self, markup: str) -> None:
        super().__init__("", hyperlinks=False)
        self.parsed = _PARSER.parse(markup)
        _draw_marks(self.parsed)
        self.signs = _signs(self.parsed, markup)
        """The characters that are not markup, which must be visible in the result."""
        for token in self.parsed:
            for child in token.children or ():
                if child.type == "softbreak":
                    child.type = "hardbreak"


def _signs(tokens: Iterable[Token], markup: str) -> Counter[str]:
    """Count the characters of a block that are not markup.

    `Renderer` compares them with its result: if some are missing there, the block is shown as it
    was written.
    """
    lines = markup.split("\n")
    signs: Counter[str] = Counter()
    in_table = False
    for token in tokens:
        if token.type in ("fence", "code_block"):
            signs.update(c for c in token.content if not c.isspace())
        elif token.type == "table_open" and token.map is not None:
            in_table = True  # surplus cells of a row are in no token
            signs.update(_words("".join(lines[slice(*token.map)])))
        elif token.type == "table_close":
            in_table = False
        elif token.type == "inline" and not in_table:
            signs.update(_words(token.content))
    return signs


def _words(text: str) -> Iterator[str]:
    """Yield letters, digits and characters outside ASCII: none of them is markup."""
    return (c for c in text if c.isalnum() or (ord(c) > 0x7F and not c.isspace()))


_THEME: Final = Theme(
    {
        "markdown.code": Style(color="cyan"),
        "markdown.h1": Style(bold=True, underline=True),
        "markdown.h2": Style(bold=True, underline=True),
        "markdown.h3": Style(bold=True),
        "markdown.h4": Style(bold=True, italic=True),
        "markdown.link": Style(underline=True),
        "markdown.link_url": Style(color="blue"),
        "markdown.block_quote": Style(italic=True),
        "markdown.item.bullet": Style(bold=True),
        "markdown.item.number": Style(bold=True),
    }
)
