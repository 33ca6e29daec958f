"""A client that knows only the protocol, and loses its connection again and again.

    PYTHONPATH=tests python -m web.rounds --rounds 1000 --seed 7

The agent is a process, the server has a real port. In each round the client connects and says up to
where it knows the session; it prompts, answers questions, stops turns and lets the queue go on, as
it happens; and after some frames, or in the middle of one, the connection is reset. `View` and
`Wire` fail at any gap, double, answer that is not the one, or thing that is open behind its turn's
end. Now and then it is left in peace until everything rests, and must then show what a client shows
that has just come.
"""

from __future__ import annotations

import argparse
import random
import struct
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from socket import SO_LINGER, SOL_SOCKET
from typing import Any

import trio

from agentrt import open_runtime
from agentrt.web import Security, Site, serve
from web.socket_tab import Tab, opened, outcomes, tab, text
from web.sockets import TOKEN, websocket
from web.wire_client import WireClient

PROMPTS = (
    "list the files",
    "create {n}.txt with hello",
    "create {n}.txt with bye",
    "create {n}.txt with more",
    "run date",
    "read 0.txt",
    "/slow 0.3",
    "/flood 300",
    "/error",
    "/refuse",
    "/crash",
)
PEACE = 25
"""Rounds between two looks at whether everything comes to rest."""


class Rounds:
    """One client of one session, over many connections."""

    def __init__(self, site: Site, session: str, seed: int) -> None:
        self.site = site
        self.session = session
        self.dice = random.Random(seed)
        self.client = WireClient(f"restless-{seed}")
        self.did: Counter[str] = Counter()

    async def run(self, rounds: int) -> None:
        for n in range(1, rounds + 1):
            with trio.fail_after(60):
                await self.connect()
            if n % PEACE == 0 or n == rounds:
                with trio.fail_after(120):
                    await self.rest()

    async def connect(self) -> None:
        """One connection, until it is cut off at a random frame or byte."""
        async with websocket(self.site.port) as socket:
            page = Tab(self.client, socket)
            page.wire.hello(self.session)
            for _ in range(self.dice.randrange(8)):
                await page.flush()
                with trio.move_on_after(self.dice.choice((0.001, 0.01, 0.05))):
                    page.wire.take((await socket.text()).encode())
                if self.client.views[self.session].shown:
                    self.act(page)
            if self.dice.random() < 0.5:
                await page.flush()  # carried out, but the answer is lost
            if self.dice.random() < 0.3:
                with trio.move_on_after(0.01):
                    await socket.stream.receive_some(self.dice.randrange(1, 40))
            reset(socket.stream)
        self.did["cut off"] += 1

    def act(self, page: Tab) -> None:
        """What somebody may do who sees what is shown now."""
        view, dice = page.view(self.session), self.dice
        for request, asked in view.shown["permissions"].items():
            if dice.random() < 0.6:
                option = self.once(asked)
                page.wire.send("permission", session=self.session, request=request, option=option)
                self.did["answered"] += 1
        match dice.randrange(9):
            case 0 | 1 if len(view.shown["queue"]) < 3:
                words = dice.choice(PROMPTS).format(n=dice.randrange(3))
                when = dice.choice(("queue", "queue", "queue", "interrupt", "reject"))
                page.wire.send("prompt", session=self.session, content=text(words), when=when)
                self.did["prompted"] += 1
            case 2 if view.busy and dice.random() < 0.4:
                page.wire.send("cancel", session=self.session)
                self.did["stopped"] += 1
            case 3 if view.shown["paused"]:
                page.wire.send("queue", session=self.session, op="resume")
                self.did["resumed"] += 1
            case _:
                pass

    def once(self, asked: dict[str, Any]) -> str:
        """Yes or no, but for this time: an answer for always would be the last one."""
        options = [o["id"] for o in asked["options"] if o["kind"].endswith("once")]
        return str(self.dice.choice(options))

    async def rest(self) -> None:
        """A connection that holds: everything asked is answered, every turn ends."""
        async with tab(self.site, self.client, self.session) as page:
            view = page.view(self.session)
            while view.busy or view.shown["queue"] or self.client.unanswered:
                for request, asked in list(view.shown["permissions"].items()):
                    fields = {"session": self.session, "request": request}
                    await page.ask("permission", **fields, option=self.once(asked))
                    self.did["answered"] += 1
                if view.shown["paused"]:
                    await page.ok("queue", session=self.session, op="resume")
                await moved(page, lambda: view.seq)
            assert view.phase in ("idle", "dead")
            ended = outcomes(page, self.session)
            assert len(ended) == len(view.shown["turns"]), "a turn has no end"
            async with tab(self.site, WireClient(None), self.session) as fresh:
                seen = fresh.view(self.session)
                await fresh.until(lambda: seen.seq >= view.seq)
                await page.until(lambda: view.seq >= seen.seq)
                assert seen.comparable() == view.comparable()
        self.did["turns"] = len(ended)
        self.did["rested"] += 1


async def moved(page: Tab, place: Callable[[], int]) -> None:
    """Until there is something new, or there seems to be nothing."""
    before = place()
    with trio.move_on_after(1):
        await page.until(lambda: place() > before)


def reset(stream: trio.abc.Stream) -> None:
    """Have the connection reset when it is closed, with all that is under way."""
    assert isinstance(stream, trio.SocketStream)
    stream.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))


async def play(rounds: int, seed: int, folder: Path) -> Counter[str]:
    """So many rounds against a server of our own; what was done."""
    async with open_runtime() as runtime, trio.open_nursery() as nursery:
        site = await nursery.start(partial(serve, runtime, security=Security(token=TOKEN)))
        async with tab(site, WireClient("first")) as page:
            session = await opened(page, cwd=str(folder))
        game = Rounds(site, session, seed)
        await game.run(rounds)
        assert site.statistics().broken == 0
        nursery.cancel_scope.cancel()
    return game.did


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        did = trio.run(play, asked.rounds, asked.seed, Path(folder))
    print(", ".join(f"{what} {count}" for what, count in sorted(did.items())))


if __name__ == "__main__":
    main()
