"""What really happened on the agent's side: the truth that the log is held against."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Prompt:
    """A prompt that an agent has received."""

    token: str
    process: int
    id: Any
    """What the agent knows it by: a JSON-RPC id, or a uuid."""
    cancels: int = 0
    ended: frozenset[str] = frozenset()
    """The outcomes that the agent's word for its end may mean; empty while it works."""
    end_read: bool = False
    """The host has read that word."""
    rest_read: bool = False
    """Claude: the host has read that it rests, which it said before that word."""
    fate_read: str | None = None
    """Claude: the host has read its fate, which is all that it learns when that word is lost."""
    said: int = 0


@dataclass
class Ask:
    """A request of an agent."""

    tag: str
    process: int
    id: Any
    kind: str
    """`permission`, `elicitation`, `fs`, `hook` or `tool`."""
    token: str | None
    """The prompt that it was asked in; None: outside of one."""
    background: bool = False
    read: bool = False
    """The host has read it."""
    withdrawn: bool = False
    """The agent took it back."""
    taken_back: bool = False
    """It was taken back in a protocol where it is answered nevertheless."""
    answers: list[Any] = field(default_factory=list)

    @property
    def owed(self) -> bool:
        """Whether the host must answer, now or later."""
        return self.read and not self.withdrawn and not self.answers


@dataclass
class Book:
    """The truth of one run."""

    prompts: dict[str, Prompt] = field(default_factory=dict)
    asks: dict[str, Ask] = field(default_factory=dict)
    allowed: set[str] = field(default_factory=set)
    """The tags of what somebody has allowed."""
    decided: set[str] = field(default_factory=set)
    """The tags of what an agent was allowed, or was told the decision about."""
    steered: set[str] = field(default_factory=set)
    """The tokens that were sent into a running turn."""
    own_words: dict[tuple[str, str], str] = field(default_factory=dict)
    """The tokens of agentrt's own prompts, which have none in them, by their turn and text."""
    submitted: list[str] = field(default_factory=list)
    """The tokens of prompts that were taken and that no task waits for."""
    taken_back: set[str] = field(default_factory=set)
    """Those of them that somebody has removed, or whose agent could not be started."""
    tokens: int = 0

    def token(self) -> str:
        """A word that no other prompt contains."""
        self.tokens += 1
        return f"p{self.tokens}"

    def token_of_own_words(self, turn: str, text: str) -> str:
        known = self.own_words.get((turn, text))
        if known is None:
            known = self.own_words[turn, text] = self.token()
        return known
