"""Parsing a shell line: the commands that it would run, as far as that is certain.

It is not known which shell an agent has: sh, dash, bash, ksh or zsh. So this parses only what all
of them parse alike, and stops (`ShellScript.unclear`) at anything that one of them would parse
differently, or that only a running shell can know. Every command that some shell would run is in
`ShellScript.commands`, or the script is unclear.

No library does this: bashlex silently loses the commands in here-documents and `${x:-$(rm y)}`, and
its licence is the GPL; tree-sitter-bash parses a line with an error as if there were none, takes
the `r` of a name that continues in the next line for a whole command, and knows only bash.

`ReadingBudget` limits the work for one permission request, independent of its command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from .quoting import MAX_LINE_CHARS, WordReader
from .script import HOLE, ShellCommand, ShellScript, ShellWord, UnclearScript


def read_script(text: str, depth: int = 0) -> ShellScript:
    """Parse one or several lines. `depth`: the number of lines around this one."""
    reader = _Reader(text, ShellScript(), depth)
    if len(text) > MAX_LINE_CHARS:
        reader.script.unclear = f"it is longer than {MAX_LINE_CHARS} characters"
    elif odd := _ODD.search(text):
        reader.script.unclear = f"it contains the character {odd[0]!r}"
    else:
        try:
            reader.commands("")
        except UnclearScript as unclear:
            reader.script.unclear = str(unclear)
    return reader.script


_ODD: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f\x85\xa0\u1680\u2000-\u200f\u2028-\u202f\u205f\u3000]"
)
_SET: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=")
_ELEMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\[")
_REDIRECT: Final = re.compile(r"(&>>|&>|[0-9]*(?:<<<|<<-|<<|<>|<&|>>|>\||>&|<(?!\()|>(?!\()))")
_DELIMITER: Final = re.compile(
    r"(?:\\|(?P<quote>['\"]))?(?P<name>[A-Za-z0-9_.+-]+)(?(quote)(?P=quote))(?=[\s;&|<>)]|$)"
)
_UNREAD: Final = frozenset(
    {
        "case",
        "esac",
        "select",
        "function",
        "coproc",
        "foreach",
        "repeat",
        "end",
        "always",
        "]]",
        "in",
    }
)
_OPENS: Final = {"if": "fi", "while": "done", "until": "done", "{": "}"}
_INSIDE: Final = {"then": "fi", "elif": "fi", "else": "fi", "do": "done"}
_CLOSES: Final = frozenset({"fi", "done", "}"})
_EVALUATES: Final = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v"})


@dataclass(slots=True)
class _Document:
    """A here-document whose lines come after the end of the line."""

    end: str
    tabs: bool
    literal: bool


@dataclass(slots=True)
class _Line:
    """Commands that are being parsed."""

    end: str
    nested: bool
    groups: list[str] = field(default_factory=list)
    """The words that close the open groups."""
    fed: bool = False
    """True if the next command's input is a pipe."""


class _Reader(WordReader):
    """Reads a script command by command, as a POSIX shell does, and adds its commands to the
    script.

    It raises `UnclearScript` for everything that it does not read exactly as a shell would: a rule
    is then not applied, instead of being applied to a misread command.
    """

    def __init__(self, text: str, script: ShellScript, depth: int) -> None:
        """Read a script. `documents` are the here-documents whose lines come after this line."""
        super().__init__(text, script, depth)
        self.documents: list[_Document] = []

    def inner(self, text: str) -> _Reader:
        """Return a reader of a text inside this one, which adds to the same script."""
        return _Reader(text, self.script, self.depth)

    # --- commands

    def commands(self, end: str) -> None:
        """Read everything up to `end`, which is `)`, or empty for the end of the text."""
        self.enter()
        line = _Line(end, nested=bool(end) or self.depth > 1)
        while True:
            self.blanks()
            now = self.peek()
            if not now:
                if end or line.groups or self.documents:
                    raise UnclearScript("something in it is not closed")
                break
            if now == ")" and end and not line.groups:
                self.at += 1
                break
            if now == "&" and self.peek(1) == ">":
                self._simple(line)
            elif separator := _SEPARATORS.get(now):
                separator(self, line)
            else:
                self._simple(line)
        self.depth -= 1

    def _end_of_line(self, line: _Line) -> None:
        """End a line."""
        self._newline(nested=line.nested)
        line.fed = False

    def _hash(self, line: _Line) -> None:
        """Skip a comment."""
        self._comment()

    def _semicolon(self, line: _Line) -> None:
        """End a command. A double semicolon belongs to `case`, which is not read."""
        if self.peek(1) in (";", "&", "|"):
            raise UnclearScript("a case")
        self.at += 1
        line.fed = False

    def _pipe(self, line: _Line) -> None:
        """Read `|`, `|&` or `||`; after the first two, the next command gets input."""
        following = self.peek(1)
        self.at += 2 if following in ("|", "&") else 1
        line.fed = following != "|"

    def _ampersand(self, line: _Line) -> None:
        """Read `&` or `&&`."""
        self.at += 2 if self.peek(1) == "&" else 1
        line.fed = False

    def _open(self, line: _Line) -> None:
        """Begin a subshell."""
        if self.peek(1) == "(":
            raise UnclearScript("arithmetic")
        self.at += 1
        self.script.sure = False
        line.groups.append(")")

    def _close(self, line: _Line) -> None:
        """End a subshell."""
        self.at += 1
        if line.groups[-1:] != [")"]:
            raise UnclearScript("an unmatched closing bracket")
        line.groups.pop()
        self._behind_group()

    def _simple(self, line: _Line) -> None:
        """Read a simple command, or a reserved word before one."""
        command = ShellCommand(fed=line.fed)
        ended = False  # by `&>`: in dash that ends the command, and another one begins
        while not self._at_end():
            if self.peek() == "(":
                raise UnclearScript("a function, a list or a pattern in brackets")
            if self.peek() == "#":
                self._comment()
            elif redirect := _REDIRECT.match(self.text, self.at):
                self._redirect(redirect[1], command)
                ended = ended or redirect[1].startswith("&")
            elif ended:
                raise UnclearScript("words behind &>")
            elif not command.words and self._setting(command):
                continue
            elif self._next_word(command, line):
                return
        if command.words or command.sets or command.redirects:
            self.script.commands.append(command)

    def _at_end(self) -> bool:
        """Skip blanks. Returns True if a simple command ends here."""
        self.blanks()
        now = self.peek()
        return now in ("", "\n", ";", "|", ")") or (now == "&" and self.peek(1) != ">")

    def _setting(self, command: ShellCommand) -> bool:
        """Read `NAME=VALUE` before a command. Returns False if something else is there."""
        if _ELEMENT.match(self.text, self.at):
            raise UnclearScript("an element of an array")
        named = _SET.match(self.text, self.at)
        if named is None:
            return False
        self.at = named.end()
        command.sets.append((named[1], self.word(value=True)))
        return True

    def _next_word(self, command: ShellCommand, line: _Line) -> bool:
        """Read a word of a simple command. Returns True if it was a reserved word and the command
        is over."""
        word = self.word()
        if word.bare:
            if not (command.words or command.sets or command.redirects):
                reserved = self._reserved(word.text, line)
                if reserved is not None:
                    return reserved
            if word.text in ("{", "}"):
                raise UnclearScript("a brace that only some shells take for one")
        command.words.append(word)
        return False

    def _reserved(self, text: str, line: _Line) -> bool | None:
        """Handle a reserved word. Returns True if the command ends with it, False if not; None if
        it is an ordinary word."""
        if text in _UNREAD:
            raise UnclearScript(f"`{text}`")
        if text == "for":
            self._for(line.groups)
            return True
        if text == "[[":
            self._condition()
            self._behind_group()
            return True
        if text in _CLOSES:
            if line.groups[-1:] != [text]:
                raise UnclearScript(f"an unmatched `{text}`")
            line.groups.pop()
            self._behind_group()
            return True
        return self._opens(text, line)

    def _opens(self, text: str, line: _Line) -> bool | None:
        """Handle a word that opens a group or continues one; None if it is an ordinary word."""
        if text in _INSIDE and line.groups[-1:] != [_INSIDE[text]]:
            raise UnclearScript(f"a misplaced `{text}`")
        if text in _OPENS:
            line.groups.append(_OPENS[text])
        elif text != "!" and text not in _INSIDE:
            return None
        self.script.sure = False
        return False

    def _behind_group(self) -> None:
        """Read the redirections after a group; nothing else may follow it."""
        self.script.sure = False
        command = ShellCommand()
        while True:
            self.blanks()
            now = self.peek()
            if (
                now in ("", "\n", ";", "|", ")", "&", "#")
                and self.text[self.at : self.at + 2] != "&>"
            ):
                break
            redirect = _REDIRECT.match(self.text, self.at)
            if redirect is None or redirect[1].startswith("&"):
                raise UnclearScript("words after a group")
            self._redirect(redirect[1], command)
        if command.redirects:
            self.script.commands.append(command)

    def _for(self, open_groups: list[str]) -> None:
        """Read `for name in words`, up to the `do`."""
        self.script.sure = False
        self.blanks()
        name = self.word()
        if not (name.bare and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name.text)):
            raise UnclearScript("a loop")
        self.blanks()
        command = ShellCommand(sets=[(name.text, ShellWord(HOLE))])
        if self.peek() not in (";", "\n"):
            begin = self.word()
            if not begin.bare or begin.text not in ("in", "do"):
                raise UnclearScript("a loop")
            if begin.text == "do":
                self.at -= 2
            else:
                self._values(name.text, command)
        self.script.commands.append(command)
        if self.peek() == ";":
            self.at += 1
        self._empty_lines()
        begin = self.word()
        if not begin.bare or begin.text != "do":
            raise UnclearScript("a loop")
        open_groups.append("done")

    def _values(self, name: str, command: ShellCommand) -> None:
        """Read the words of a loop."""
        while True:
            self.blanks()
            if self.peek() in (";", "\n"):
                return
            value = self.word()
            if value.bare and value.text in ("{", "}"):
                raise UnclearScript("a brace that only some shells take for one")
            command.sets.append((name, value))

    def _empty_lines(self) -> None:
        """Skip empty lines and comments."""
        while True:
            self.blanks()
            if self.peek() == "\n":
                self._newline(nested=True)
            elif self.peek() == "#":
                self._comment()
            else:
                return

    def _condition(self) -> None:
        """Read `[[ … ]]`. Values compared as numbers are computed, and that may run something."""
        computed = holes = False
        while True:
            self.blanks()
            for operator in ("&&", "||", "\n", "<", ">"):
                if self.text.startswith(operator, self.at) and not self.text.startswith(
                    ("<(", ">("), self.at
                ):
                    self.at += len(operator)
                    break
            else:
                word = self.word()
                if word.bare and word.text == "]]":
                    break
                computed = computed or word.text in _EVALUATES
                holes = holes or not word.plain or "[" in word.text
        if computed and holes:
            raise UnclearScript("a comparison that computes")

    def _redirect(self, operator: str, command: ShellCommand) -> None:
        """Read a redirection of a command; `<` of any kind gives it input."""
        self.at += len(operator)
        self.blanks()
        if operator.lstrip("0123456789") in ("<<", "<<-"):
            self._document(tabs=operator.endswith("-"))
            command.fed = True
            return
        if self.peek() == "!":
            raise UnclearScript("a redirection that only zsh knows")
        target = self.word()
        command.redirects.append((operator, target))
        if "<" in operator:
            command.fed = True

    def _document(self, *, tabs: bool) -> None:
        """Read the beginning of a here-document, with the word that will end it."""
        found = _DELIMITER.match(self.text, self.at)
        if found is None:
            raise UnclearScript("a here-document")
        self.script.sure = False
        literal = found[0] != found["name"]
        self.documents.append(_Document(found["name"], tabs, literal))
        self.awaits_lines = True
        self.at = found.end()

    def _newline(self, *, nested: bool) -> None:
        """Read the end of a line, after which the line's here-documents come."""
        self.at += 1
        if self.documents and nested:
            raise UnclearScript("a nested here-document")
        documents, self.documents = self.documents, []
        self.awaits_lines = False
        for document in documents:
            text = self._body(document)
            if not document.literal:
                if "\\\n" in text:
                    raise UnclearScript("a line that continues in a here-document")
                self.again(text).quoted("", [])
            if self.at == len(self.text) and document is not documents[-1]:
                raise UnclearScript("a here-document without its end")

    def _body(self, document: _Document) -> str:
        """Read the lines of a here-document."""
        body: list[str] = []
        while True:
            if self.at >= len(self.text):
                raise UnclearScript("a here-document without its end")
            end = self.text.find("\n", self.at)
            end = len(self.text) if end < 0 else end
            line = self.text[self.at : end]
            self.at = min(end + 1, len(self.text))
            if (line.lstrip("\t") if document.tabs else line) == document.end:
                return "\n".join(body)
            body.append(line)

    def _comment(self) -> None:
        """Skip to the end of the line."""
        self.script.sure = False  # an interactive zsh has no comments
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end


_SEPARATORS: Final[Mapping[str, Callable[[_Reader, _Line], None]]] = {
    "\n": _Reader._end_of_line,
    "#": _Reader._hash,
    ";": _Reader._semicolon,
    "|": _Reader._pipe,
    "&": _Reader._ampersand,
    "(": _Reader._open,
    ")": _Reader._close,
}

MAX_EXAMINED_CHARS: Final = 400_000
"""Characters that all rules together may examine for one request: about 0.2 s of work."""

WORD_COST_CHARS: Final = 8
"""Cost of a word, in addition to its characters."""

COMMAND_COST_CHARS: Final = 32
"""Cost of a command."""

FOLDER_COST_CHARS: Final = 25
"""Cost of each folder of a path, which may be a link."""


class ReadingBudget:
    """Counts the characters examined for one request, over all rules and depths.

    A line that is found inside another one is parsed once, however many rules need it.
    """

    def __init__(self, chars: int = MAX_EXAMINED_CHARS) -> None:
        """Begin with a budget of `chars`."""
        self.left = chars
        self._read: dict[str, ShellScript] = {}

    def spend(self, words: int, chars: int) -> bool:
        """Subtract the cost of some words. Returns False if the budget is used up."""
        self.left -= COMMAND_COST_CHARS + words * WORD_COST_CHARS + chars
        return self.left >= 0

    def read(self, text: str) -> ShellScript:
        """Parse a line that was found inside another one."""
        script = self._read.get(text)
        if script is None:
            if not self.spend(0, len(text)):
                return ShellScript(unclear="there is too much in it")
            script = self._read[text] = read_script(text, 1)
        return script
