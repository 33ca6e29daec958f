"""The words of a shell line: quotes, expansions, patterns."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Final

from .script import HOLE, Script, Unclear, Word

DEEPEST: Final = 24
"""Substitutions and groups in each other that are read."""

_RUN: Final = re.compile(r"[A-Za-z0-9_./:,@%+\-\u00a1-\u167f\u2010-\u2027\u3001-\U0010ffff]+")
_BLANKS: Final = re.compile(r"(?:[ \t]|\\\n)*")
_ARITHMETIC: Final = re.compile(r"\(\([0-9+\-*/%<>=!&|^~?: \t]*\)\)")
_PARAMETER: Final = re.compile(
    r"\{(?:[A-Za-z_][A-Za-z0-9_]*(?::?[-=+?][A-Za-z0-9_./:,@%+ -]*|##?[A-Za-z0-9_./:,@%+*?-]*"
    r"|%%?[A-Za-z0-9_./:,@+*?-]*)?|#[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-])\}"
)
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]")
_ANSI: Final = re.compile(r"'(?:[^'\\]|\\[^'])*'")
_LITERAL_BRACE: Final = re.compile(r"\{(?!\s)[^\s;&|<>()'\"`$\\,{}]*\}")
_WORD_END: Final = frozenset(" \t\n;&|<>()")


class WordReader(ABC):
    """Reads the words of one text, from its beginning to its end."""

    def __init__(self, text: str, script: Script, depth: int) -> None:
        self.text = text
        self.script = script
        self.depth = depth
        self.at = 0
        self.awaits_lines = False
        """Whether lines of a here-document come behind this one."""

    @abstractmethod
    def commands(self, end: str) -> None:
        """Read commands up to `end`, or to the end of the text."""

    @abstractmethod
    def inner(self, text: str) -> WordReader:
        """A reader of a text that was found in this one."""

    def word(self, *, value: bool = False) -> Word:
        """A word; `value`: it may be empty."""
        begin, parts, word = self.at, list[str](), Word("")
        vague = False  # from here on anything may stand there
        while self.at < len(self.text):
            if run := _RUN.match(self.text, self.at):
                parts.append(run[0])
                self.at = run.end()
                continue
            now = self.text[self.at]
            if now in "<>" and self.peek(1) == "(":
                self.at += 2
                self.commands(")")
                parts.append(HOLE)
                word.sure = word.bare = False
                continue
            if now == "(":
                raise Unclear("a function, a list or a pattern in brackets")
            if now in _WORD_END:
                break
            first = self.at == begin
            if now == "'":
                end = self.text.find("'", self.at + 1)
                if end < 0:
                    raise Unclear("a quotation without its end")
                self._check_lines(self.text[self.at : end])
                parts.append(self.text[self.at + 1 : end])
                self.at = end + 1
                word.bare = False
            elif now == '"':
                self.at += 1
                if not self.quoted('"', parts):
                    word.sure = False
                word.bare = False
            elif now == "\\":
                following = self.peek(1)
                if not following:
                    raise Unclear("a backslash at the end")
                word.sure = False
                if following != "\n":
                    parts.append(following)
                    word.bare = False
                self.at += 2
            elif now == "$":
                vague = self._dollar(parts, quoted=False) or vague
                word.sure = word.bare = False
                word.split = True
            elif now == "`":
                self._backticks(parts, quoted=False)
                word.sure = word.bare = False
                word.split = True
            elif now in "*?":
                parts.append(HOLE)
                word.bare = False
                self.at += 1
            elif now == "[":
                alone = (first and self._ends(self.at + 1)) or (
                    first and self.text.startswith("[[", self.at) and self._ends(self.at + 2)
                )
                if alone:
                    size = 1 if self._ends(self.at + 1) else 2
                    parts.append("[" * size)
                    self.at += size
                else:  # a pattern
                    vague, word.bare = True, False
                    parts.append(HOLE)
                    self.at += 1
            elif now == "{":
                if first and self._ends(self.at + 1):
                    parts.append("{")
                    self.at += 1
                elif literal := _LITERAL_BRACE.match(self.text, self.at):
                    if ".." in literal[0]:
                        vague = True
                        parts.append(HOLE)
                    parts.append(literal[0])
                    word.sure = word.sure and literal[0] == "{}"
                    word.bare = False
                    self.at = literal.end()
                else:
                    vague, word.sure, word.bare = True, False, False
                    parts.append(HOLE)
                    self.at += 1
            else:
                if now == "=" and first and not value and not self._ends(self.at + 1):
                    vague, word.sure = True, False  # zsh: where that program is
                    parts.append(HOLE)
                elif now in "!^}#":
                    word.sure = False
                parts.append(now)
                self.at += 1
        if self.at == begin and not value:
            raise Unclear("a word is missing")
        word.text = "".join(parts)
        if vague:
            word.text = word.text[: word.text.index(HOLE) + 1]
        return word

    def quoted(self, end: str, parts: list[str]) -> bool:
        """The inside of double quotes, or of a here-document without an `end`; whether it is all
        literal."""
        literal = True
        begin = self.at
        while True:
            now = self.peek()
            if now == end:
                self._check_lines(self.text[begin : self.at])
                self.at += 1
                return literal
            if not now:
                raise Unclear("a quotation without its end")
            if now == "\\":
                following = self.peek(1)
                if following in ("$", "`", "\\", "\n") or (following == '"' and end):
                    parts.append("" if following == "\n" else following)
                    self.at += 2
                else:
                    parts.append("\\")
                    self.at += 1
                literal = False
            elif now == "$":
                self._dollar(parts, quoted=True)
                literal = False
            elif now == "`":
                self._backticks(parts, quoted=bool(end))
                literal = False
            else:
                if now == "!":
                    literal = False  # an interactive shell puts an earlier command there
                parts.append(now)
                self.at += 1

    def _dollar(self, parts: list[str], *, quoted: bool) -> bool:
        """What begins with a dollar. True: anything may be meant, from here to the word's end."""
        following = self.peek(1)
        if following == "(":
            if self.peek(2) == "(":
                found = _ARITHMETIC.match(self.text, self.at + 1)
                if found is None:
                    raise Unclear("arithmetic")
                self.at = found.end()
            else:
                self.at += 2
                self.commands(")")
        elif following == "{":
            found = _PARAMETER.match(self.text, self.at + 1)
            if found is None:
                raise Unclear("a parameter that is more than its name")
            self.at = found.end()
        elif following == "[":
            raise Unclear("arithmetic")
        elif following == "'" and not quoted:
            found = _ANSI.match(self.text, self.at + 1)
            if found is None:
                raise Unclear("a quotation that shells end at different places")
            self._check_lines(found[0])
            self.at = found.end()
        elif following == '"' and not quoted:
            self.at += 1  # translated, or a dollar and a quotation
        elif found := _VARIABLE.match(self.text, self.at + 1):
            self.at = found.end()
        elif quoted or not following or following in _WORD_END:
            parts.append("$")
            self.at += 1
            return False
        else:  # zsh has more of them
            parts.append(HOLE)
            self.at += 1
            return True
        parts.append(HOLE)
        return False

    def _backticks(self, parts: list[str], *, quoted: bool) -> None:
        inside: list[str] = []
        self.at += 1
        while (now := self.peek()) != "`":
            if not now:
                raise Unclear("backticks without their end")
            following = self.peek(1)
            if now == "\\" and (following in ("\\", "`", "$") or (quoted and following == '"')):
                inside.append(following)
                self.at += 2
            else:
                inside.append(now)
                self.at += 1
        self.at += 1
        self.enter()
        self.inner("".join(inside)).commands("")
        self.depth -= 1
        parts.append(HOLE)

    def peek(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return self.text[at] if at < len(self.text) else ""

    def _ends(self, at: int) -> bool:
        return at >= len(self.text) or self.text[at] in _WORD_END

    def blanks(self) -> None:
        found = _BLANKS.match(self.text, self.at)
        assert found is not None
        if "\n" in found[0]:
            self.script.sure = False
        self.at = found.end()

    def _check_lines(self, quotation: str) -> None:
        if self.awaits_lines and "\n" in quotation:
            raise Unclear("a here-document behind a quotation of several lines")

    def enter(self) -> None:
        self.depth += 1
        if self.depth > DEEPEST:
            raise Unclear("too many things in each other")
