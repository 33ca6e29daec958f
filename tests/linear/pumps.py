"""Texts that are hard for a pattern, made from the pattern itself.

Each part of the pattern has samples: strings that it matches. What takes too long repeats a sample
many times, after a beginning that leads there and before an end at which the match fails.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from re import _constants as sre  # type: ignore[attr-defined]
from typing import Any, Final

from .matcher import _predicate

_ALPHABET: Final = [*"a0 \"'\\-_.:/=@[(<`*#\n\t,;{}A!~|+$&?%é→\x1b\x00^>])Zz9x\r"] + [
    chr(code) for code in range(128)
]
ENDS: Final = ("", "\x00", "!", "\n", '"', "a")


def samples(tree: Any, flags: int, most: int = 4) -> list[str]:
    """A few texts that a sequence matches."""
    parts = [_of(op, value, flags) for op, value in tree]
    found = ["".join(each) for each in itertools.islice(itertools.product(*parts), most)]
    # One that takes the last choice everywhere.
    found.append("".join(part[-1] for part in parts if part))
    return list(dict.fromkeys(found))


def _of(op: Any, value: Any, flags: int) -> list[str]:
    if op in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN):
        accepts = _predicate(op, tuple(value) if op is sre.IN else value, flags)
        if op is sre.LITERAL:
            return [chr(value)]
        fitting = [each for each in _ALPHABET if accepts(each)]
        if not fitting and op is sre.IN:
            fitting = [chr(i[0] if k is sre.RANGE else i) for k, i in value if k is not sre.NEGATE]
        return [*fitting[:1], *fitting[5:6], *fitting[12:13]]
    if op is sre.BRANCH:
        return [each for branch in value[1] for each in samples(branch, flags, 1)[:1]][:24] or [""]
    if op is sre.SUBPATTERN:
        return samples(value[3], (flags | value[1]) & ~value[2])
    if op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
        least, _, inner = value
        return [each * max(1, least) for each in samples(inner, flags)]
    if op is sre.ATOMIC_GROUP:
        return samples(value, flags)
    return [""]


def pumps(tree: Any, flags: int) -> Iterator[tuple[str, str]]:
    """Beginnings, and what is repeated after them."""
    seen = set()
    for front, body in _parts(tree, flags, [""]):
        for before, part in itertools.product(front, body):
            for pair in ((before, part), ("", before + part), ("", part)):
                if pair[1] and pair not in seen:
                    seen.add(pair)
                    yield pair
    for whole in samples(tree, flags):
        for text in (whole, whole[:-1], whole[:1], whole + " ", whole[: len(whole) // 2]):
            if text and ("", text) not in seen:
                seen.add(("", text))
                yield "", text


def _parts(tree: Any, flags: int, front: list[str]) -> Iterator[tuple[list[str], list[str]]]:
    """Each repeat, with what leads to it."""
    for op, value in tree:
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            _, most, inner = value
            if most is sre.MAXREPEAT or most > 8:
                yield front, samples(inner, flags)
            yield from _parts(inner, flags, front)
        elif op is sre.BRANCH:
            for branch in value[1]:
                yield from _parts(branch, flags, front)
        elif op is sre.SUBPATTERN:
            yield from _parts(value[3], (flags | value[1]) & ~value[2], front)
        elif op is sre.ATOMIC_GROUP:
            yield from _parts(value, flags, front)
        elif op in (sre.ASSERT, sre.ASSERT_NOT):
            yield from _parts(value[1], flags, front)
        added = _of(op, value, flags)[:3]
        front = [a + b for a in front[:2] for b in added][:3]
