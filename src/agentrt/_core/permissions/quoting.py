"""Parsing the words of shell lines, with quotations, expansions and patterns.

A word is read token by token; `_TOKENS` has the method for each character with a meaning. The value
of a word is collected in `_State.parts`; a part that only a running shell knows becomes a `HOLE`.
Three properties of a word are lost on the way and never come back: `plain` means that the text is
known, `sure` that every shell reads it alike, and `bare` that nothing in it was quoted, so that it
can be a reserved word.

Anything that some shell would read in another way raises `UnclearScript`: an unreadable line is
judged as one that may do anything.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from .script import HOLE, MAX_NESTING, ShellScript, ShellWord, UnclearScript

MAX_LINE_CHARS: Final = 32_768
"""Maximum number of characters of a line that are parsed: 20 ms of work."""

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


@dataclass
class _State:
    """A word that is being parsed."""

    begin: int
    value: bool
    parts: list[str] = field(default_factory=list)
    word: ShellWord = field(default_factory=lambda: ShellWord(""))
    vague: bool = False
    """True if anything may follow from this point."""

    def unknown(self) -> None:
        """Add a part that only the shell knows."""
        self.parts.append(HOLE)
        self.word.sure = self.word.bare = False


class WordReader(ABC):
    """Reads the words of one text from start to end, with a function for each kind of token."""

    def __init__(self, text: str, script: ShellScript, depth: int) -> None:
        """Read `text` from its beginning, and add its commands to `script`."""
        self.text = text
        self.script = script
        self.depth = depth
        self.at = 0
        self.awaits_lines = False
        """True if lines of a here-document follow this line."""

    @abstractmethod
    def commands(self, end: str) -> None:
        """Read commands up to `end`, or to the end of the text."""

    @abstractmethod
    def inner(self, text: str) -> WordReader:
        """Return a reader of a text that was found in this one."""

    def word(self, *, value: bool = False) -> ShellWord:
        """Read a word. `value`: the word may be empty."""
        state = _State(begin=self.at, value=value)
        while self.at < len(self.text):
            if run := _RUN.match(self.text, self.at):
                state.parts.append(run[0])
                self.at = run.end()
            elif not self._token(state):
                break
        if self.at == state.begin and not value:
            raise UnclearScript("a word is missing")
        word = state.word
        word.text = "".join(state.parts)
        if state.vague:
            word.text = word.text[: word.text.index(HOLE) + 1]
        return word

    def _token(self, state: _State) -> bool:
        """Read one token of a word that is not plain letters. Returns False if the word ends before
        it."""
        now = self.text[self.at]
        if now in "<>" and self.peek(1) == "(":
            self._process(state)
        elif now == "(":
            raise UnclearScript("a function, a list or a pattern in brackets")
        elif now in _WORD_END:
            return False
        elif token := _TOKENS.get(now):
            token(self, state)
        else:
            self._character(state)
        return True

    def _process(self, state: _State) -> None:
        """Read `<(…)`: the name of a pipe from a command."""
        self.at += 2
        self.commands(")")
        state.unknown()

    def _single_quotes(self, state: _State) -> None:
        """Read `'…'`, in which no character has a meaning."""
        end = self.text.find("'", self.at + 1)
        if end < 0:
            raise UnclearScript("a quotation without its end")
        self._check_lines(self.text[self.at : end])
        state.parts.append(self.text[self.at + 1 : end])
        self.at = end + 1
        state.word.bare = False

    def _double_quotes(self, state: _State) -> None:
        """Read `"…"`, which may contain expansions."""
        self.at += 1
        if not self.quoted('"', state.parts):
            state.word.sure = False
        state.word.bare = False

    def _backslash(self, state: _State) -> None:
        """Read a quoted character; a quoted end of line is nothing at all."""
        following = self.peek(1)
        if not following:
            raise UnclearScript("a backslash at the end")
        state.word.sure = False
        if following != "\n":
            state.parts.append(following)
            state.word.bare = False
        self.at += 2

    def _expansion(self, state: _State) -> None:
        """Read `$…` outside of quotes: an unknown part that may become several words."""
        state.vague = self._dollar(state.parts, quoted=False) or state.vague
        state.word.sure = state.word.bare = False
        state.word.split = True

    def _command(self, state: _State) -> None:
        """Read a command in backticks, which may become several words."""
        self._backticks(state.parts, quoted=False)
        state.word.sure = state.word.bare = False
        state.word.split = True

    def _pattern(self, state: _State) -> None:
        """Read `*` or `?`: any part of a file's name."""
        state.parts.append(HOLE)
        state.word.bare = False
        self.at += 1

    def _bracket(self, state: _State) -> None:
        """Read `[` and `[[`, which alone are names of commands; otherwise a pattern begins."""
        if self.at == state.begin:
            for size in (1, 2):
                if self.text.startswith("[" * size, self.at) and self._ends(self.at + size):
                    state.parts.append("[" * size)
                    self.at += size
                    return
        state.vague, state.word.bare = True, False
        state.parts.append(HOLE)
        self.at += 1

    def _brace(self, state: _State) -> None:
        """Read a brace: a reserved word, a literal like `{}`, or an expansion to several words."""
        if self.at == state.begin and self._ends(self.at + 1):
            state.parts.append("{")
            self.at += 1
        elif literal := _LITERAL_BRACE.match(self.text, self.at):
            if ".." in literal[0]:
                state.vague = True
                state.parts.append(HOLE)
            state.parts.append(literal[0])
            state.word.sure = state.word.sure and literal[0] == "{}"
            state.word.bare = False
            self.at = literal.end()
        else:
            state.vague = True
            state.unknown()
            self.at += 1

    def _equals(self, state: _State) -> None:
        """Read `=`, which zsh expands at the beginning of a word."""
        if self.at == state.begin and not state.value and not self._ends(self.at + 1):
            state.vague, state.word.sure = True, False  # zsh: the path of that program
            state.parts.append(HOLE)
        self._character(state)

    def _unsure(self, state: _State) -> None:
        """Read a character that has a meaning in some shells."""
        state.word.sure = False
        self._character(state)

    def _character(self, state: _State) -> None:
        """Read a character without a meaning."""
        state.parts.append(self.text[self.at])
        self.at += 1

    def quoted(self, end: str, parts: list[str]) -> bool:
        """Read the inside of double quotes, or of a here-document without an `end`. Returns True if
        all of it is literal."""
        literal = True
        begin = self.at
        while (now := self.peek()) != end:
            if not now:
                raise UnclearScript("a quotation without its end")
            if now == "\\":
                self._quoted_backslash(end, parts)
                literal = False
            elif now == "$":
                self._dollar(parts, quoted=True)
                literal = False
            elif now == "`":
                self._backticks(parts, quoted=bool(end))
                literal = False
            else:
                # An interactive shell replaces `!` with an earlier command.
                literal = literal and now != "!"
                parts.append(now)
                self.at += 1
        self._check_lines(self.text[begin : self.at])
        self.at += 1
        return literal

    def _quoted_backslash(self, end: str, parts: list[str]) -> None:
        """Read a backslash in double quotes, where it quotes only a few characters."""
        following = self.peek(1)
        if following in ("$", "`", "\\", "\n") or (following == '"' and end):
            parts.append("" if following == "\n" else following)
            self.at += 2
        else:
            parts.append("\\")
            self.at += 1

    def _dollar(self, parts: list[str], *, quoted: bool) -> bool:
        """Read an expansion. Returns True if it may mean anything, up to the word's end."""
        following = self.peek(1)
        if following == "(":
            self._parentheses()
        elif following == "{":
            self._skip(_PARAMETER, "a parameter that is more than its name")
        elif following == "[":
            raise UnclearScript("arithmetic")
        elif following == "'" and not quoted:
            begin = self.at
            self._skip(_ANSI, "a quotation that shells end at different places")
            self._check_lines(self.text[begin : self.at])
        elif following == '"' and not quoted:
            self.at += 1  # a translated text, or a dollar and a quotation
        elif found := _VARIABLE.match(self.text, self.at + 1):
            self.at = found.end()
        else:
            self.at += 1
            if quoted or not following or following in _WORD_END:
                parts.append("$")
                return False
            parts.append(HOLE)  # zsh has more of these
            return True
        parts.append(HOLE)
        return False

    def _parentheses(self) -> None:
        """Read `$(…)`, or `$((…))` that contains only numbers."""
        if self.peek(2) == "(":
            self._skip(_ARITHMETIC, "arithmetic")
        else:
            self.at += 2
            self.commands(")")

    def _skip(self, pattern: re.Pattern[str], otherwise: str) -> None:
        """Skip the pattern after a dollar. Raises `UnclearScript` if something else follows."""
        found = pattern.match(self.text, self.at + 1)
        if found is None:
            raise UnclearScript(otherwise)
        self.at = found.end()

    def _backticks(self, parts: list[str], *, quoted: bool) -> None:
        """Read the commands in backticks, whose text is unquoted once before it is read again."""
        inside: list[str] = []
        self.at += 1
        while (now := self.peek()) != "`":
            if not now:
                raise UnclearScript("backticks without their end")
            following = self.peek(1)
            if now == "\\" and (following in ("\\", "`", "$") or (quoted and following == '"')):
                inside.append(following)
                self.at += 2
            else:
                inside.append(now)
                self.at += 1
        self.at += 1
        self.enter()
        self.again("".join(inside)).commands("")
        self.depth -= 1
        parts.append(HOLE)

    def again(self, text: str) -> WordReader:
        """Return a reader of a text that was already read as a part of this one.

        Raises `UnclearScript` if too much was read again.
        """
        self.script.chars += len(text)
        if self.script.chars > MAX_LINE_CHARS:
            raise UnclearScript("too much nesting")
        return self.inner(text)

    def peek(self, ahead: int = 0) -> str:
        """Return the character `ahead` places further; empty at the end."""
        at = self.at + ahead
        return self.text[at] if at < len(self.text) else ""

    def _ends(self, at: int) -> bool:
        """Return True if a word ends at this position."""
        return at >= len(self.text) or self.text[at] in _WORD_END

    def blanks(self) -> None:
        """Skip blanks."""
        found = _BLANKS.match(self.text, self.at)
        assert found is not None
        if "\n" in found[0]:
            self.script.sure = False
        self.at = found.end()

    def _check_lines(self, quotation: str) -> None:
        """Raise for a quotation over several lines before the lines of a here-document.

        Shells differ in the order in which they read the two.
        """
        if self.awaits_lines and "\n" in quotation:
            raise UnclearScript("a here-document after a quotation of several lines")

    def enter(self) -> None:
        """Count one more level of nesting. Raises `UnclearScript` if there are too many."""
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise UnclearScript("too much nesting")


_TOKENS: Final[Mapping[str, Callable[[WordReader, _State], None]]] = {
    "'": WordReader._single_quotes,
    '"': WordReader._double_quotes,
    "\\": WordReader._backslash,
    "$": WordReader._expansion,
    "`": WordReader._command,
    "*": WordReader._pattern,
    "?": WordReader._pattern,
    "[": WordReader._bracket,
    "{": WordReader._brace,
    "=": WordReader._equals,
    **dict.fromkeys("!^}#", WordReader._unsure),
}
