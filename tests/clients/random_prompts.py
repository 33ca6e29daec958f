"""Clients of the ACP SDK whose people do as it happens.

    PYTHONPATH=tests python -m clients.random_prompts --sequences 100 --seed 7

A sequence is a session with one client or two: prompts, cancels, prompts directly behind a cancel,
connections that are lost, answers or none, and now and then a cancel of somebody else. Then
everything is cancelled that still runs, and each client prompts once more. Each `session/prompt` of
a connection that lives has got its one response, each call of a tool has ended, and each prompt has
reached the agent once, but for those that were cancelled while they waited.
"""

from __future__ import annotations

from collections import Counter

import trio

from agentrt import Runtime
from agentrt.web import Site
from clients import random_sequences
from clients.connections import Client, Clients
from clients.kit import Node
from clients.scripted import KINDS, said

ENDS = ("completed", "failed")


class Sent:
    """A prompt: its number among the program's commands, and what may have become of it."""

    def __init__(self, text: str, client: Client, number: int, key: str) -> None:
        self.text = text
        self.client = client
        self.number = number
        self.key = key
        self.cancelled = False
        self.cut_off = False


class Prompts(random_sequences.Sequence):
    """What happens in one session."""

    def __init__(self, site: Site, runtime: Runtime, led: Node, seed: int) -> None:
        super().__init__(site, runtime, led, seed)
        self.sent: list[Sent] = []
        self._session = ""
        self._clients: list[Client] = []
        self._names = 0

    async def run(self) -> None:
        first = await self._open()
        self._session = await first.new(_meta={"agentrt": {"agent": "fake"}})
        if self.dice.random() < 0.7:
            await self._come(await self._open())
        for _ in range(self.dice.randint(4, 10)):
            client = self.dice.choice(self._clients)
            steps = [self._prompt, self._prompt, self._prompt, self._cancel, self._reconnect]
            steps += [self._prompt_behind_a_cancel, self._cancel_one, self._answer, self._answer]
            steps += [self._wait, self._foreign_cancel]
            step = self.dice.choice(steps)
            self.history.append(f"{client.name} {step.__name__}")
            await step(client)
            self.did[step.__name__] += 1
        await self._rest()

    async def _open(self) -> Client:
        self._names += 1
        client = await Clients(self.led, self.site).open(f"{self.name}-{self._names}")
        self._clients.append(client)
        return client

    async def _come(self, client: Client) -> None:
        method = self.dice.choice(("session/load", "session/resume"))
        await client.request(method, sessionId=self._session, cwd="/", mcpServers=[])

    # --- what may happen

    async def _prompt(self, client: Client, kind: str | None = None) -> Sent:
        text = f"{kind or self.dice.choice(KINDS)} {len(self.sent)} of {self.name}"
        self.history.append(f"  {text}")
        params = {"sessionId": self._session, "prompt": [{"type": "text", "text": text}]}
        number = await client.start("session/prompt", params, key=text)
        self.sent.append(Sent(text, client, number, text))
        await self._wait(client)
        return self.sent[-1]

    async def _cancel(self, client: Client) -> None:
        for sent in self.sent:
            sent.cancelled |= sent.client is client
        await client.notify("session/cancel", sessionId=self._session)

    async def _prompt_behind_a_cancel(self, client: Client) -> None:
        await self._cancel(client)
        await self._prompt(client)

    async def _cancel_one(self, client: Client) -> None:
        mine = [sent for sent in self.sent if sent.client is client]
        if mine:
            sent = self.dice.choice(mine)
            sent.cancelled = True
            await self.led.do("abort", key=sent.key)

    async def _reconnect(self, client: Client) -> None:
        """What waits for the old connection goes on, or is in the queue still."""
        for sent in self.sent:
            sent.cut_off |= sent.client is client
        self._clients.remove(client)
        await client.cut()
        await self._come(await self._open())

    async def _answer(self, client: Client) -> None:
        asked = [m for m in self.led.heard("asked") if m["asked"] == client.name]
        for question in asked:
            await client.choose(question, self.dice.choice(("allow_once", "reject_once")))

    async def _wait(self, _: Client) -> None:
        await trio.sleep(self.dice.choice((0, 0, 0.01, 0.05)))

    async def _foreign_cancel(self, _: Client) -> None:
        """By another viewer, as the page at `/` is one."""
        self.runtime.get(self._session).cancel()

    # --- the end

    async def _rest(self) -> None:
        session = self.runtime.get(self._session)
        for client in self._clients:
            await client.request("session/list")  # all that it has sent is there
        while session.state.turn is not None or session.queue:
            await self._cancel(self._clients[0])
            await trio.sleep(0.01)
        for client in self._clients:
            last = await self._prompt(client, "say")
            stop = (await self.led.result(last.number))["stopReason"]
            self.expect(stop == "end_turn", f"{last.text!r} was answered by {stop}")
            self.expect(client.text().endswith(f"Done: {last.text}"), f"{client.name} shows less")
        reached = Counter(said(session))
        for sent in self.sent:
            self.expect(reached[sent.text] <= 1, f"{sent.text!r} came twice")
            if sent.cut_off:
                self.did["cut off"] += 1
                continue
            stop = (await self.led.result(sent.number))["stopReason"]
            self.did[stop] += 1
            lost = not reached[sent.text] and not sent.cancelled
            self.expect(not lost, f"{sent.text!r} was lost")
        for client in self._clients:
            answered = Counter(
                message["message"]["id"]
                for message in self.led.heard("raw")
                if message["raw"] == client.name and "method" not in message["message"]
            )
            self.expect(set(answered.values()) <= {1}, f"{client.name} was answered twice")
            open = [c for c in client.tools().values() if c["status"] not in ENDS]
            self.expect(not open, f"{client.name} shows {open}")
            await client.cut()
        await self.runtime.close(self._session)


async def play(sequences: int, seed: int) -> Counter[str]:
    return await random_sequences.play(Prompts, "acp_client.mjs", sequences, seed)


if __name__ == "__main__":
    random_sequences.main(play, __doc__ or "")
