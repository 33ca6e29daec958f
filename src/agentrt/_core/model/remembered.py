"""The agent's memory of a conversation: a comparison of the prompts that it repeats with those in
the log, and the conversation as text, for an agent that does not remember it.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Collection, Sequence
from typing import Final

from .content import Block, Text, plain_text
from .events import Item
from .state import SessionState

OPENING: Final = (
    "You do not remember this conversation, because the process that had it has ended."
    " The history follows. Take no action now: confirm in one short sentence that you"
    " know the history."
)
"""The first sentences of such a prompt."""

OMITTED: Final = "(earlier messages are left out)"
"""Marks the place where earlier text is left out."""


def history_text(state: SessionState, most: int) -> str:
    """Return the last `most` characters of the finished turns as text.

    Empty if no turn has finished.
    """
    parts: list[str] = []
    left = most
    for item in reversed(state.items.values()):
        words = _words(state, item)
        if not words:
            continue
        if len(words) > left:
            parts += [words[len(words) - left :], OMITTED]
            break
        left -= len(words)
        parts.append(words)
    return "\n\n".join([OPENING, *reversed(parts)]) if parts else ""


def _words(state: SessionState, item: Item) -> str:
    """Return the words for an item of an ended turn; empty for one that is left out.

    Prompts, answers, and the titles and status of tool calls are kept, except those of sub-agents.
    A prompt that itself repeats an earlier conversation is left out.
    """
    turn = state.turns.get(item.turn or "")
    if item.parent is not None or turn is None or turn.outcome is None:
        return ""
    text = state.text(item.id) or plain_text(item.content)
    match item.type:
        case "user":
            return "" if OPENING in text else f"The user: {text}"
        case "text":
            return f"You: {text}" if text else ""
        case "tool":
            title = item.tool.title or item.tool.name if item.tool is not None else ""
            return f"(You used a tool: {title}; {item.status}.)"
        case _:
            return ""


COMPARED_PROMPTS: Final = 100
"""The number of prompts that are compared, newest first."""
LONG_CHARS: Final = 20
"""The shortest prompt that is found anywhere in the agent's text, also inside words."""
_BORDER: Final = "\0"
"""Stands between two pieces of text."""
REPEATED_CHARS: Final = 1_000_000
"""The maximum text of repeated prompts that is kept for the comparison, newest first."""


class RepeatedPrompts:
    """The text of the user messages that an agent repeats while it loads its conversation."""

    def __init__(self) -> None:
        self.pieces: deque[str] | tuple[()] = ()  # most agents repeat none
        self._chars = 0

    def add(self, content: Sequence[Block]) -> None:
        """Add a user message, or a piece of one."""
        text = "".join(_texts(content))[:REPEATED_CHARS]
        pieces = self.pieces = self.pieces or deque()
        pieces.append(text)
        self._chars += len(text) + 1
        while self._chars > REPEATED_CHARS and len(pieces) > 1:
            self._chars -= len(pieces.popleft()) + 1


def prompts_to_remember(state: SessionState) -> list[str]:
    """Return the newest prompts that the agent has answered, oldest first.

    Leaves out prompts that an agent may forget for a good reason: those of turns that were
    cancelled or failed, slash commands, prompts without text, and everything before a prompt that
    repeated the conversation to an agent that had lost it.
    """
    found: list[str] = []
    for item in reversed(state.items.values()):
        if item.type != "user" or item.parent is not None:
            continue
        text = max(map(collapse_spaces, _texts(item.content)), key=len, default="")
        turn = state.turns.get(item.turn or "")
        answered = item.replay if turn is None else turn.outcome in ("completed", "limit")
        if answered and text and not text.startswith("/"):
            found.append(text)
        if (answered and collapse_spaces(OPENING) in text) or len(found) == COMPARED_PROMPTS:
            break
    return found[::-1]


def count_remembered(prompts: Sequence[str], repeated: Collection[str]) -> int:
    """Return the number of `prompts` that `repeated` contains, each as often as it occurs.

    An agent may repeat a prompt in several pieces, or with other text around it. Of a short prompt,
    the words must be found as whole words: `ok` is not in `look`.
    """
    wanted = Counter(map(collapse_spaces, prompts))
    same = wanted & Counter(map(collapse_spaces, repeated))
    missing = wanted - same
    if not missing:
        return same.total()
    pieces = [piece for piece in repeated if collapse_spaces(piece) not in same]
    rest = collapse_spaces("".join(pieces))
    bordered = _BORDER.join(piece.replace(_BORDER, "") for piece in pieces if piece)
    parts = collapse_spaces(bordered)
    return same.total() + sum(
        min(n, rest.count(text) if len(text) >= LONG_CHARS else _count_words(text, parts))
        for text, n in missing.items()
    )


def _count_words(text: str, parts: str) -> int:
    """Count a text in pieces of text with borders between them, where it begins and ends words."""
    # Without borders, each separator in the pattern matches in one way: it is linear.
    words = [f"{_BORDER}?".join(map(re.escape, word)) for word in text.replace(_BORDER, "").split()]
    if not words:
        return 0
    before = r"(?<!\w)" if text[:1].isalnum() else ""
    after = r"(?!\w)" if text[-1:].isalnum() else ""
    pattern = f"{before}{f'[ {_BORDER}]{{1,3}}'.join(words)}{after}"
    return sum(1 for _ in re.finditer(pattern, parts))


def _texts(content: Sequence[Block]) -> list[str]:
    """Return the text blocks. An agent may repeat files, links and images in any form."""
    return [block.text for block in content if isinstance(block, Text)]


def collapse_spaces(text: str) -> str:
    """Return the text with each run of white space replaced by one space."""
    return " ".join(text.split())
