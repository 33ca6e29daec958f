"""Detection of agents that a cancel has broken: one state machine per process, without I/O.

Some agents end a cancelled turn correctly and then answer no prompt any more: they end each one as
cancelled or with no output at all, or they deliver the answer to an earlier prompt. `AfterCancel`
judges the turns after a cancel; a process that it finds broken must be replaced.

An agent may also cancel a turn by itself. That counts as a cancel, so a second such turn in a row
shows that the process is broken, whatever the agent has said or done in it.

A wrong answer is recognized only by its text: it repeats, word for word, an answer that the session
has already shown, or it comes with the text of an earlier prompt. An answer that was never shown
cannot be told from a right one.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from .content import Block, plain_text
from .events import Outcome
from .remembered import collapse_spaces
from .state import SessionState

COMPARED_TURNS: Final = 8
"""The number of prompts' turns that a turn is compared with, newest first."""
REPEATED_CHARS: Final = 20
"""The shortest text whose repetition proves that an answer belongs to an earlier prompt. A shorter
one, such as `Yes.`, may be right twice, or be a common beginning.
"""
ECHO_CHARS: Final = 1_000_000
"""The maximum text of user messages that is kept from one turn."""


class Readiness(enum.Enum):
    """The state of a process, as far as its turns have shown it."""

    if not TYPE_CHECKING:
        __hash__ = object.__hash__  # implemented in C; members are singletons

    SOUND = "sound"
    """None of its turns was cancelled."""
    CANCELLED = "cancelled"
    """Its last turn was cancelled, by agentrt or by the agent itself, or it has since given an
    answer that proves nothing.
    """
    WATCHED = "watched"
    """An earlier turn was cancelled, and it has answered since."""
    BROKEN = "broken"
    """It must be replaced."""


class PromptEnd(enum.Enum):
    """The end of a turn that a prompt began."""

    if not TYPE_CHECKING:
        __hash__ = object.__hash__

    STOPPED = "stopped"
    """agentrt ended the turn: by a cancel or because of a limit."""
    ANSWERED = "answered"
    CANCELLED_UNASKED = "cancelled"
    """The agent cancelled it by itself."""
    NO_OUTPUT = "no_output"
    """The agent completed it without any output, and does not work in the background."""
    EARLIER_ANSWER = "earlier_answer"
    """The answer repeats that of an earlier turn, which had a different prompt."""
    UNCLEAR = "unclear"
    """The answer equals that of an earlier turn, but is short: the next turn decides."""
    EARLIER_PROMPT = "earlier_prompt"
    """The agent names an earlier prompt as the one that it answers."""


TABLE: Final[dict[Readiness, dict[PromptEnd, Readiness]]] = {
    Readiness.SOUND: {
        **dict.fromkeys(PromptEnd, Readiness.SOUND),
        PromptEnd.STOPPED: Readiness.CANCELLED,
        PromptEnd.CANCELLED_UNASKED: Readiness.CANCELLED,
    },
    Readiness.CANCELLED: {
        **dict.fromkeys(PromptEnd, Readiness.BROKEN),
        PromptEnd.STOPPED: Readiness.CANCELLED,
        PromptEnd.ANSWERED: Readiness.WATCHED,
        PromptEnd.UNCLEAR: Readiness.CANCELLED,
    },
    Readiness.WATCHED: {
        **dict.fromkeys(PromptEnd, Readiness.WATCHED),
        PromptEnd.STOPPED: Readiness.CANCELLED,
        PromptEnd.CANCELLED_UNASKED: Readiness.CANCELLED,
        PromptEnd.EARLIER_PROMPT: Readiness.BROKEN,
    },
}
"""The next state by current state and end. A broken process has no next state."""

REASONS: Final = {
    PromptEnd.CANCELLED_UNASKED: "ended a prompt as cancelled that was not cancelled",
    PromptEnd.NO_OUTPUT: "completed a prompt without any output",
    PromptEnd.EARLIER_ANSWER: "repeated the answer to an earlier prompt",
    PromptEnd.EARLIER_PROMPT: "answered an earlier prompt",
}
"""The finding about a broken process, as part of a sentence."""


class AfterCancel:
    """Judges the turns of one process, in order."""

    def __init__(self) -> None:
        """Begin with a process of which no turn was cancelled."""
        self.readiness = Readiness.SOUND
        self.echoes: list[str] = []
        """User messages that the agent has sent in the running turn, or pieces of them."""
        self._echoed_chars = 0
        self.reported_task = False
        """True if the agent has reported on background work since the last turn of a prompt."""

    @property
    def watches(self) -> bool:
        """True if the output of the running turn can show that the process is broken."""
        return self.readiness is not Readiness.SOUND

    def echoed(self, content: Sequence[Block]) -> None:
        """Take a user message of the agent, or a piece of one."""
        if self.watches and self._echoed_chars < ECHO_CHARS:
            self.echoes.append(plain_text(content))
            self._echoed_chars += len(self.echoes[-1])

    def ended(self, end: PromptEnd) -> bool:
        """Take the end of a turn that a prompt began. Returns True if the process is broken."""
        self.readiness = TABLE[self.readiness][end]
        self.echoes, self._echoed_chars, self.reported_task = [], 0, False
        return self.readiness is Readiness.BROKEN


class _TurnText(Struct):
    """The text of a turn, with white space normalized."""

    prompt: str = ""
    answer: str = ""
    complete: bool = True
    """False if the turn was cancelled or failed."""
    calls: bool = False
    """True if the agent called a tool."""
    silent: bool = True
    """True if nothing but white space came from the agent."""


def prompt_end(
    state: SessionState,
    turn: str,
    outcome: Outcome,
    echoes: Sequence[str],
    *,
    reported_task: bool = False,
) -> PromptEnd:
    """Classify the end of a turn that neither side cancelled; the turn is the last one in `state`.

    `outcome` is the agent's, `echoes` are the user messages that it has sent, and `reported_task`
    is True if it has reported on background work since the turn before.
    """
    this, *earlier = _last_turns(state, turn)
    works = reported_task or _works_in_background(state)
    if outcome == "completed" and this.silent and not works and not this.prompt.startswith("/"):
        return PromptEnd.NO_OUTPUT
    others = [each for each in earlier if each.prompt != this.prompt]
    if _names_another(echoes, this.prompt, others):
        return PromptEnd.EARLIER_PROMPT
    if this.calls:
        return PromptEnd.ANSWERED
    return _compared(this.answer, others)


def _works_in_background(state: SessionState) -> bool:
    """Return True if a background task runs, which explains a turn without output."""
    return bool(state.open_tasks())


def _names_another(echoes: Sequence[str], prompt: str, others: Sequence[_TurnText]) -> bool:
    """Return True if the user messages of the agent are an earlier prompt and not `prompt`."""
    named = {collapse_spaces(echo) for echo in (*echoes, "".join(echoes))}
    return prompt not in named and any(each.prompt in named for each in others if each.prompt)


def _compared(answer: str, others: Sequence[_TurnText]) -> PromptEnd:
    """Classify an answer by those of earlier turns with other prompts."""
    if any(_repeats(answer, each) for each in others):
        return PromptEnd.EARLIER_ANSWER
    equal = bool(answer) and any(answer == each.answer for each in others)
    return PromptEnd.UNCLEAR if equal else PromptEnd.ANSWERED


def _repeats(answer: str, earlier: _TurnText) -> bool:
    """Return True if `answer` is that of the earlier turn, or the whole of what that began."""
    if len(earlier.answer) < REPEATED_CHARS or not answer.startswith(earlier.answer):
        return False
    return not earlier.complete or answer == earlier.answer


def _last_turns(state: SessionState, turn: str) -> list[_TurnText]:
    """Return `turn` and the turns before it, newest first."""
    found = {turn: _TurnText()}
    for item in reversed(state.items.values()):
        id = item.turn
        if id is None or item.parent is not None:
            continue
        if id not in found:
            record = state.turns.get(id)
            if record is None or record.origin == "agent":
                continue
            if len(found) > COMPARED_TURNS:
                break
            found[id] = _TurnText(complete=record.outcome == "completed")
        text = found[id]
        if item.type == "user":
            text.prompt = collapse_spaces(f"{plain_text(item.content)} {text.prompt}")
            continue
        text.calls |= item.type == "tool"
        if item.type == "text":
            text.answer = collapse_spaces(f"{state.text(item.id)} {text.answer}")
        text.silent &= item.type == "text" and not text.answer
    return list(found.values())
