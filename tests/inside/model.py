"""The state machines.

Tests give them every input in every state, which no agent can send in time.
"""

from __future__ import annotations

from agentrt._core.model.after_cancel import AfterCancel
from agentrt._core.model.conversation import Conversation
from agentrt._core.model.life import ProcessLifeInput
from agentrt._core.model.prompt_queue import PromptQueue
from agentrt._core.model.turn import TurnMachine, TurnMachineState

__all__ = [
    "AfterCancel",
    "Conversation",
    "ProcessLifeInput",
    "PromptQueue",
    "TurnMachine",
    "TurnMachineState",
]
