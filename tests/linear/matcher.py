"""A backtracking matcher for Python's regular expressions that counts its steps.

It runs what `re._parser` makes of a pattern as `re` does: alternatives in order, greedy before
lazy, without memory of what has failed. One step is one instruction or one character of a run, so
that two counts can be compared where two times could not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any, Final

Predicate = Callable[[str], bool]
MANY: Final = 400
"""How often a bounded repeat is unrolled at the most."""


class TooManySteps(Exception):
    """The budget was spent."""


class Program:
    """A pattern as instructions."""

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self.tree = _parser.parse(pattern, flags)
        self.flags = self.tree.state.flags
        self.code = self._compiled(self.tree)

    def search(self, text: str, budget: int, *, anchored: bool = False) -> int:
        """The steps for all matches in `text`, one after the other, as `sub` looks for them; of
        the one at the beginning, if `anchored`. Raises `TooManySteps`."""
        run = _Run(text, budget)
        start = 0
        while start <= len(text):
            end = run.match(self.code, start, (None,) * 101)
            if anchored:
                break
            start = start + 1 if end is None else max(end[0], start + 1)
        return budget - run.left

    def end(self, text: str) -> int | None:
        """Where a match ends that begins where the text does."""
        found = _Run(text, 10**6).match(self.code, 0, (None,) * 101)
        return None if found is None else found[0]

    def _compiled(self, tree: Any) -> list[tuple[Any, ...]]:
        code: list[tuple[Any, ...]] = []
        self._sequence(code, tree, self.flags)
        code.append(("match",))
        return code

    def _sequence(self, code: list[tuple[Any, ...]], tree: Any, flags: int) -> None:
        for op, value in tree:
            self._one(code, op, value, flags)

    def _one(self, code: list[tuple[Any, ...]], op: Any, value: Any, flags: int) -> None:
        if (single := _single(op, value, flags)) is not None:
            code.append(("char", single))
        elif op is sre.BRANCH:
            ends = []
            for number, branch in enumerate(value[1]):
                if number < len(value[1]) - 1:
                    split = len(code)
                    code.append(())
                    self._sequence(code, branch, flags)
                    ends.append(len(code))
                    code.append(())
                    code[split] = ("split", split + 1, len(code))
                else:
                    self._sequence(code, branch, flags)
            for end in ends:
                code[end] = ("jump", len(code))
        elif op is sre.SUBPATTERN:
            group, added, removed, inner = value
            if group is not None:
                code.append(("save", 2 * group))
            self._sequence(code, inner, (flags | added) & ~removed)
            if group is not None:
                code.append(("save", 2 * group + 1))
        elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            self._repeat(code, op, *value, flags)
        elif op is sre.ATOMIC_GROUP:
            code.append(("atomic", self._inner(value, flags)))
        elif op in (sre.ASSERT, sre.ASSERT_NOT):
            direction, inner = value
            width = inner.getwidth()[0] if direction < 0 else 0
            code.append(("look", self._inner(inner, flags), width, op is sre.ASSERT))
        elif op is sre.AT:
            code.append(("at", value, flags))
        elif op is sre.GROUPREF:
            code.append(("same", value))
        elif op is sre.GROUPREF_EXISTS:
            group, yes, no = value
            test = len(code)
            code.append(())
            self._sequence(code, yes, flags)
            end = len(code)
            code.append(())
            code[test] = ("if", group, test + 1, len(code))
            if no:
                self._sequence(code, no, flags)
            code[end] = ("jump", len(code))
        elif op is sre.FAILURE:
            code.append(("fail",))
        else:
            raise NotImplementedError(str(op))

    def _inner(self, tree: Any, flags: int) -> list[tuple[Any, ...]]:
        code: list[tuple[Any, ...]] = []
        self._sequence(code, tree, flags)
        code.append(("match",))
        return code

    def _repeat(
        self, code: list[tuple[Any, ...]], op: Any, least: int, most: Any, inner: Any, flags: int
    ) -> None:
        bound = None if most is sre.MAXREPEAT else int(most)
        if len(inner) == 1 and (single := _single(*inner[0], flags)) is not None:
            code.append(("run", single, least, bound, op))
            return
        if op is sre.POSSESSIVE_REPEAT:
            part: list[tuple[Any, ...]] = []
            self._repeat(part, sre.MAX_REPEAT, least, most, inner, flags)
            part.append(("match",))
            code.append(("atomic", part))
            return
        for _ in range(min(least, MANY)):
            self._sequence(code, inner, flags)
        lazy = op is sre.MIN_REPEAT
        if bound is None:
            split = len(code)
            code.append(())
            mark = len(code)
            code.append(("mark", mark))
            self._sequence(code, inner, flags)
            code.append(("moved", mark))
            code.append(("jump", split))
            after = len(code)
            code[split] = ("split", after, mark) if lazy else ("split", mark, after)
            return
        splits = []
        for _ in range(min(bound - least, MANY)):
            splits.append(len(code))
            code.append(())
            self._sequence(code, inner, flags)
        for split in splits:
            there = (len(code), split + 1) if lazy else (split + 1, len(code))
            code[split] = ("split", *there)


class _Run:
    def __init__(self, text: str, budget: int) -> None:
        self.text = text
        self.left = budget

    def _step(self, count: int = 1) -> None:
        self.left -= count
        if self.left < 0:
            raise TooManySteps

    def match(
        self, code: Sequence[tuple[Any, ...]], start: int, groups: tuple[Any, ...]
    ) -> tuple[int, tuple[Any, ...]] | None:
        text = self.text
        marks: dict[int, int] = {}
        waiting: list[tuple[Any, ...]] = [(0, start, groups, marks)]
        while waiting:
            at, pos, groups, marks = waiting.pop()
            if isinstance(at, tuple):  # a run that may be shorter, or longer
                then, first, last, step = at
                self._step()
                pos = first
                if first != last:
                    waiting.append(((then, first + step, last, step), None, groups, marks))
                at = then
            while True:
                self._step()
                op = code[at]
                kind = op[0]
                if kind == "char":
                    if pos >= len(text) or not op[1](text[pos]):
                        break
                    pos += 1
                    at += 1
                elif kind == "run":
                    _, accepts, least, most, how = op
                    end = pos
                    limit = len(text) if most is None else min(len(text), pos + most)
                    while end < limit and accepts(text[end]):
                        end += 1
                    if how is sre.MIN_REPEAT:
                        if end - pos < least:
                            break
                        if pos + least < end:
                            waiting.append(((at + 1, pos + least + 1, end, 1), None, groups, marks))
                        pos += least
                    else:
                        self._step(end - pos)
                        if end - pos < least:
                            break
                        if how is sre.MAX_REPEAT and end > pos + least:
                            waiting.append(
                                ((at + 1, end - 1, pos + least, -1), None, groups, marks)
                            )
                        pos = end
                    at += 1
                elif kind == "split":
                    waiting.append((op[2], pos, groups, marks))
                    at = op[1]
                elif kind == "jump":
                    at = op[1]
                elif kind == "save":
                    groups = (*groups[: op[1]], pos, *groups[op[1] + 1 :])
                    at += 1
                elif kind == "mark":
                    marks = {**marks, op[1]: pos}
                    at += 1
                elif kind == "moved":
                    if marks[op[1]] == pos:
                        break
                    at += 1
                elif kind == "atomic":
                    found = self.match(op[1], pos, groups)
                    if found is None:
                        break
                    pos, groups = found
                    at += 1
                elif kind == "look":
                    _, inner, width, wanted = op
                    found = self.match(inner, pos - width, groups) if pos >= width else None
                    if (found is not None) is not wanted:
                        break
                    if found is not None:
                        groups = found[1]
                    at += 1
                elif kind == "at":
                    if not _is_at(op[1], op[2], text, pos):
                        break
                    at += 1
                elif kind == "same":
                    begin, end = groups[2 * op[1]], groups[2 * op[1] + 1]
                    if begin is None or end is None:
                        break
                    part = text[begin:end]
                    self._step(len(part))
                    if not text.startswith(part, pos):
                        break
                    pos += len(part)
                    at += 1
                elif kind == "if":
                    at = op[2] if groups[2 * op[1] + 1] is not None else op[3]
                elif kind == "match":
                    return pos, groups
                else:
                    break
        return None


_WORD = re.compile(r"\w")


def _is_at(kind: Any, flags: int, text: str, pos: int) -> bool:
    if kind in (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING, sre.AT_BEGINNING_LINE):
        lines = kind is not sre.AT_BEGINNING_STRING and flags & re.MULTILINE
        return pos == 0 or bool(lines and text[pos - 1] == "\n")
    if kind in (sre.AT_END, sre.AT_END_STRING, sre.AT_END_LINE):
        if kind is sre.AT_END_STRING:
            return pos == len(text)
        return text[pos:] in ("", "\n") or bool(flags & re.MULTILINE and text[pos] == "\n")
    before = pos > 0 and _WORD.match(text[pos - 1]) is not None
    after = pos < len(text) and _WORD.match(text[pos]) is not None
    return (before != after) is (kind in (sre.AT_BOUNDARY, sre.AT_UNI_BOUNDARY))


_CHARS: Final = (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN)


def _single(op: Any, value: Any, flags: int) -> Predicate | None:
    """What says whether a character fits, if the node is about one character."""
    if op in _CHARS:
        return _predicate(op, tuple(value) if op is sre.IN else value, flags)
    if op is sre.SUBPATTERN and value[0] is None and len(value[3]) == 1:
        return _single(*value[3][0], (flags | value[1]) & ~value[2])
    return None


@cache
def _predicate(op: Any, value: Any, flags: int) -> Predicate:
    pattern = f"[{_class(op, value)}]" if op is not sre.ANY else "."
    if op is sre.NOT_LITERAL:
        pattern = f"[^{_escaped(value)}]"
    kept = flags & (re.IGNORECASE | re.DOTALL | re.ASCII)
    matches = re.compile(pattern, kept).fullmatch
    return lru_cache(maxsize=None)(lambda character: matches(character) is not None)


def _class(op: Any, value: Any) -> str:
    if op is sre.LITERAL:
        return _escaped(value)
    parts = []
    for kind, inner in value if op is sre.IN else ():
        if kind is sre.NEGATE:
            parts.append("^")
        elif kind is sre.LITERAL:
            parts.append(_escaped(inner))
        elif kind is sre.RANGE:
            parts.append(f"{_escaped(inner[0])}-{_escaped(inner[1])}")
        else:
            parts.append(_CATEGORIES[inner])
    return "".join(parts)


def _escaped(code: int) -> str:
    return f"\\U{code:08x}"


_CATEGORIES: Final = {
    sre.CATEGORY_DIGIT: r"\d",
    sre.CATEGORY_NOT_DIGIT: r"\D",
    sre.CATEGORY_SPACE: r"\s",
    sre.CATEGORY_NOT_SPACE: r"\S",
    sre.CATEGORY_WORD: r"\w",
    sre.CATEGORY_NOT_WORD: r"\W",
}
