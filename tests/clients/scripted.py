"""An agent for random conversations: its prompts say what it does, and all that it does can be
stopped.
"""

from __future__ import annotations

from functools import partial
from random import Random

import trio

from agentrt import Runtime, Session
from agentrt.testing import FakeAcpAgent, FakePrompt
from clients.kit import first_of
from web.tool_calls import Calls, server_of

KINDS = ("say", "say", "work", "hang", "ask", "pick")
"""What prompts begin with. `work` takes a while, `hang` is only ever stopped; `ask` puts a
question, `pick` calls the client's tool."""

PICK = {"name": "pick", "description": "Let the user pick.", "input_schema": {"type": "object"}}


class Actor:
    """The agents of one runtime, which is known when they are first prompted."""

    dice: Random
    runtime: Runtime

    async def __call__(self, agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            await first_of(partial(self._act, agent, prompt), prompt.cancelled.wait)
            if prompt.cancelled.is_set():
                await trio.sleep(self.dice.choice((0, 0, 0.02)))
                prompt.end("cancelled")
            else:
                agent.say(f"Done: {prompt.text}")
                prompt.end()

    async def _act(self, agent: FakeAcpAgent, prompt: FakePrompt) -> None:
        kind, call = prompt.text.split()[0], f"call {prompt.text}"
        agent.say("Well. ")
        if kind in ("work", "hang", "ask"):
            agent.update("tool_call", toolCallId=call, title=kind, status="in_progress")
        if kind == "work":
            await trio.sleep(0.03)
        elif kind == "hang":
            await trio.sleep_forever()
        elif kind == "ask":
            await agent.ask(call, "May I?")
        elif kind == "pick":
            await self._pick(self._session(prompt.text))
        if kind in ("work", "ask"):
            agent.update("tool_call_update", toolCallId=call, status="completed")

    async def _pick(self, session: Session) -> None:
        if server_of(session) is None:
            return  # it was opened by a client without tools
        calls = Calls(session)
        number = calls.call("pick")
        try:
            while number not in calls.answers:  # noqa: ASYNC110 - as a bridge's reader would
                await trio.sleep(0.005)
        finally:
            calls.withdraw(number)

    def _session(self, text: str) -> Session:
        """The session in which that was said last."""
        for info in self.runtime.list():
            session = self.runtime.get(info.session)
            if text in said(session):
                return session
        raise AssertionError(f"nobody said {text!r}")


def said(session: Session) -> list[str]:
    """The prompts that the agent was given."""
    items = session.log.state.items.values()
    return [item.content[0].text for item in items if item.type == "user"]  # type: ignore[union-attr]
