"""Reading a shell line: which commands it would run, as far as that is certain.

It is not known which shell an agent has: sh, dash, bash, ksh or zsh. So this reads what all of them
read alike, and stops (`Script.unclear`) at what one of them would read otherwise, or at what only a
shell that runs it can know. Every command that some shell would run is in `Script.commands`, or the
script is unclear.

Why not a library: bashlex loses what here-documents and `${x:-$(rm y)}` run, without a word, and
its licence is the GPL; tree-sitter-bash reads a line with an error as if there were none, takes the
`r` of a name that goes on in the next line for a whole command, and knows bash alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from .quoting import WordReader
from .script import HOLE, Command, Script, Unclear, Word

LONGEST: Final = 32_768
"""Characters of a line that are read: 20 ms of work."""


def read_script(text: str, depth: int = 0) -> Script:
    """Read a line, or several. `depth`: of the script that it was found in."""
    reader = _Reader(text, Script(), depth)
    if len(text) > LONGEST:
        reader.script.unclear = f"it is longer than {LONGEST} characters"
    elif odd := _ODD.search(text):
        reader.script.unclear = f"it contains the character {odd[0]!r}"
    else:
        try:
            reader.commands("")
        except Unclear as unclear:
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
    """A here-document whose lines come behind the end of the line."""

    end: str
    tabs: bool
    literal: bool


class _Reader(WordReader):
    def __init__(self, text: str, script: Script, depth: int) -> None:
        super().__init__(text, script, depth)
        self.documents: list[_Document] = []

    def inner(self, text: str) -> _Reader:
        return _Reader(text, self.script, self.depth)

    # --- commands

    def commands(self, end: str) -> None:
        """Everything up to `end`, which is `)`, or nothing for the end of the text."""
        self.enter()
        open_groups: list[str] = []
        fed = False
        while True:
            self.blanks()
            now = self.peek()
            following = self.peek(1)
            if not now:
                if end or open_groups or self.documents:
                    raise Unclear("something in it is not closed")
                break
            if now == "\n":
                self._newline(nested=bool(end) or self.depth > 1)
                fed = False
            elif now == "#":
                self._comment()
            elif now == ";":
                if following in (";", "&", "|"):
                    raise Unclear("a case")
                self.at += 1
                fed = False
            elif now == "|":
                self.at += 2 if following in ("|", "&") else 1
                fed = following != "|"
            elif now == "&" and following != ">":
                self.at += 2 if following == "&" else 1
                fed = False
            elif now == ")":
                self.at += 1
                if open_groups and open_groups[-1] == ")":
                    open_groups.pop()
                    self._behind_group()
                elif end == ")" and not open_groups:
                    break
                else:
                    raise Unclear("a bracket that nothing opened")
            elif now == "(":
                if following == "(":
                    raise Unclear("arithmetic")
                self.at += 1
                self.script.sure = False
                open_groups.append(")")
            else:
                self._simple(open_groups, fed)
        self.depth -= 1

    def _simple(self, open_groups: list[str], fed: bool) -> None:
        """A simple command, or a reserved word in front of one."""
        command = Command(fed=fed)
        ended = False  # by `&>`: for dash that is the end, and another command begins
        while True:
            self.blanks()
            now = self.peek()
            if now in ("", "\n", ";", "|", ")") or (now == "&" and self.peek(1) != ">"):
                break
            if now == "(":
                raise Unclear("a function, a list or a pattern in brackets")
            if now == "#":
                self._comment()
                continue
            if redirect := _REDIRECT.match(self.text, self.at):
                self._redirect(redirect[1], command)
                ended = ended or redirect[1].startswith("&")
                continue
            if ended:
                raise Unclear("words behind &>")
            if not command.words:
                if _ELEMENT.match(self.text, self.at):
                    raise Unclear("an element of an array")
                if named := _SET.match(self.text, self.at):
                    self.at = named.end()
                    command.sets.append((named[1], self.word(value=True)))
                    continue
            word = self.word()
            if word.bare and not command.words and not command.sets and not command.redirects:
                if word.text in _UNREAD:
                    raise Unclear(f"`{word.text}`")
                if word.text == "for":
                    self._for(open_groups)
                    return
                if word.text == "[[":
                    self._condition()
                    self._behind_group()
                    return
                if word.text == "!" or word.text in _OPENS or word.text in _INSIDE:
                    self.script.sure = False
                    if word.text in _OPENS:
                        open_groups.append(_OPENS[word.text])
                    elif word.text != "!" and open_groups[-1:] != [_INSIDE[word.text]]:
                        raise Unclear(f"`{word.text}` that belongs to nothing")
                    continue
                if word.text in _CLOSES:
                    if open_groups[-1:] != [word.text]:
                        raise Unclear(f"`{word.text}` that closes nothing")
                    open_groups.pop()
                    self._behind_group()
                    return
            if word.bare and word.text in ("{", "}"):
                raise Unclear("a brace that only some shells take for one")
            command.words.append(word)
        if command.words or command.sets or command.redirects:
            self.script.commands.append(command)

    def _behind_group(self) -> None:
        """Behind a group there may be redirections, and nothing else."""
        self.script.sure = False
        command = Command()
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
                raise Unclear("words behind a group")
            self._redirect(redirect[1], command)
        if command.redirects:
            self.script.commands.append(command)

    def _for(self, open_groups: list[str]) -> None:
        """`for name in words`, up to the `do`."""
        self.script.sure = False
        self.blanks()
        name = self.word()
        if not (name.bare and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name.text)):
            raise Unclear("a loop")
        self.blanks()
        command = Command(sets=[(name.text, Word(HOLE))])
        if self.peek() not in (";", "\n"):
            begin = self.word()
            if not begin.bare or begin.text not in ("in", "do"):
                raise Unclear("a loop")
            if begin.text == "do":
                self.at -= 2
            else:
                while True:
                    self.blanks()
                    if self.peek() in (";", "\n"):
                        break
                    value = self.word()
                    if value.bare and value.text in ("{", "}"):
                        raise Unclear("a brace that only some shells take for one")
                    command.sets.append((name.text, value))
        self.script.commands.append(command)
        if self.peek() == ";":
            self.at += 1
        while True:
            self.blanks()
            if self.peek() == "\n":
                self._newline(nested=True)
            elif self.peek() == "#":
                self._comment()
            else:
                break
        begin = self.word()
        if not begin.bare or begin.text != "do":
            raise Unclear("a loop")
        open_groups.append("done")

    def _condition(self) -> None:
        """`[[ … ]]`. What is compared as a number is computed, and that may run something."""
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
            raise Unclear("a comparison that computes")

    def _redirect(self, operator: str, command: Command) -> None:
        self.at += len(operator)
        self.blanks()
        if operator.lstrip("0123456789") in ("<<", "<<-"):
            self._document(tabs=operator.endswith("-"))
            command.fed = True
            return
        if self.peek() == "!":
            raise Unclear("a redirection that only zsh knows")
        target = self.word()
        command.redirects.append((operator, target))
        if "<" in operator:
            command.fed = True

    def _document(self, *, tabs: bool) -> None:
        found = _DELIMITER.match(self.text, self.at)
        if found is None:
            raise Unclear("a here-document")
        self.script.sure = False
        literal = found[0] != found["name"]
        self.documents.append(_Document(found["name"], tabs, literal))
        self.awaits_lines = True
        self.at = found.end()

    def _newline(self, *, nested: bool) -> None:
        """The end of a line, behind which the here-documents of the line come."""
        self.at += 1
        if self.documents and nested:
            raise Unclear("a here-document in something else")
        documents, self.documents = self.documents, []
        self.awaits_lines = False
        for document in documents:
            body: list[str] = []
            while True:
                if self.at >= len(self.text):
                    raise Unclear("a here-document without its end")
                end = self.text.find("\n", self.at)
                end = len(self.text) if end < 0 else end
                line = self.text[self.at : end]
                self.at = end + 1
                if (line.lstrip("\t") if document.tabs else line) == document.end:
                    break
                body.append(line)
            self.at = min(self.at, len(self.text))
            if not document.literal:
                text = "\n".join(body)
                if "\\\n" in text:
                    raise Unclear("a line that goes on in a here-document")
                self.inner(text).quoted("", [])
            if self.at == len(self.text) and document is not documents[-1]:
                raise Unclear("a here-document without its end")

    def _comment(self) -> None:
        self.script.sure = False  # an interactive zsh knows none
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end
