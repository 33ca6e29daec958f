"""Effects of a driver, compared."""

from __future__ import annotations

from collections.abc import Iterable

from agentrt.effects import TextReceived
from agentrt.lowlevel import Effect


def joined(effects: Iterable[Effect]) -> list[Effect]:
    """Neighbouring pieces of one text as one: how many there are depends on the cuts."""
    told: list[Effect] = []
    for effect in effects:
        last = told[-1] if told else None
        if (
            isinstance(effect, TextReceived)
            and isinstance(last, TextReceived)
            and (effect.thought, effect.message, effect.parent, effect.replay)
            == (last.thought, last.message, last.parent, last.replay)
        ):
            told[-1] = TextReceived(
                last.text + effect.text, last.thought, last.message, last.parent, last.replay
            )
        else:
            told.append(effect)
    return told
