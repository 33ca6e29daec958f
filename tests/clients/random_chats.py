"""Pages with `useChat`, whose people do as it happens.

    PYTHONPATH=tests python -m clients.random_chats --sequences 100 --seed 7

A sequence is a chat of its own, in one page or in two: messages, Stops, messages directly behind a
Stop, reloads, answers or none, and now and then a Stop of somebody else. Then everything is stopped
that still waits, and one more message is sent. Every page must be ready and have no part that is
still to end, and every message must have reached the agent once, but for those that its own page
took back, and those that were refused in words because another page's turn ran.
"""

from __future__ import annotations

from collections import Counter

import trio

from agentrt import Runtime, Session
from agentrt.web import Site
from clients import random_sequences
from clients.chat import Chat
from clients.kit import TOKEN, Node
from clients.scripted import KINDS, PICK, said


class Sent:
    """A message of a page, and what may have become of it."""

    def __init__(self, text: str, page: Page, alone: bool) -> None:
        self.text = text
        self.page = page
        self.alone = alone
        """No other page could have a turn running."""
        self.taken_back = False


class Page(Chat):
    """One tab. Its `word` outlives a reload."""

    def __init__(self, led: Node, name: str, word: str) -> None:
        super().__init__(led, name)
        self.word = word


class Conversation(random_sequences.Sequence):
    """What happens in one chat."""

    def __init__(self, site: Site, runtime: Runtime, led: Node, seed: int) -> None:
        super().__init__(site, runtime, led, seed)
        self.id = self.name = f"chat-{seed}"
        self.sent: list[Sent] = []
        self._pages: list[Page] = []
        self._names = 0

    async def run(self) -> None:
        await self._open("word-1")
        if self.dice.random() < 0.5:
            await self._open("word-2")
        for _ in range(self.dice.randint(4, 9)):
            page = self.dice.choice(self._pages)
            steps = [self._message, self._stop, self._message_behind_a_stop, self._reload]
            steps += [self._message, self._answer, self._answer, self._wait, self._foreign_stop]
            step = self.dice.choice(steps)
            self.history.append(f"{page.name} {step.__name__}")
            await step(page)
            self.did[step.__name__] += 1
        await self._rest()

    # --- the pages

    async def _open(self, word: str, like: Page | None = None) -> Page:
        self._names += 1
        page = Page(self.led, f"{self.id}-{self._names}", word)
        await self.led.do(
            "open",
            chat=page.name,
            id=self.id,
            url=f"ws://127.0.0.1:{self.site.port}/ai",
            headers={"Authorization": f"Bearer {TOKEN}"},
            body={"agent": "fake", "client": f"{self.id} {word}", "tools": [PICK]},
            resume=True,
            like=like.name if like is not None else None,
        )
        self._pages.append(page)
        # A person does not write before the page has looked whether something runs.
        await self.led.until(lambda: [m for m in self.led.heard("told") if m["told"] == page.name])
        await page.do("validate")
        return page

    def _session(self) -> Session | None:
        """The chat's session, once it is open: titles would do, but nobody gives one."""
        for info in self.runtime.list():
            session = self.runtime.get(info.session)
            mine = {sent.text for sent in self.sent}
            if mine & {*said(session), *waiting(session)}:
                return session
        return None

    # --- what may happen

    async def _message(self, page: Page) -> None:
        if page.now()["status"] in ("ready", "error"):
            await self._send(page)

    async def _send(self, page: Page, kind: str | None = None) -> int:
        text = f"{kind or self.dice.choice(KINDS)} {len(self.sent)} of {self.id}"
        self.sent.append(Sent(text, page, alone=len(self._pages) == 1))
        self.history.append(f"  {text}")
        number = await page.start("send", text=text)
        await self._wait(page)
        return number

    async def _stop(self, page: Page) -> None:
        """The SDK's own, or that of the documentation."""
        self._take_back(page)
        await page.start(self.dice.choice(("stop", "stopAll")))

    async def _message_behind_a_stop(self, page: Page) -> None:
        self._take_back(page)
        await page.start("stop")
        await self._send(page)

    async def _reload(self, page: Page) -> None:
        """With its messages, as pages have them that keep them, or without."""
        self._take_back(page)
        self._pages.remove(page)
        await page.do("close")
        await self._open(page.word, like=page if self.dice.random() < 0.5 else None)

    async def _answer(self, page: Page) -> None:
        for part in page.pending():
            if part["state"] == "approval-requested":
                approved = self.dice.random() < 0.5
                await page.do("answer", id=part["approval"]["id"], approved=approved)
            elif part["state"] == "input-available" and not part["providerExecuted"]:
                call, output = part["toolCallId"], {"picked": 7}
                await page.do("output", tool="pick", toolCallId=call, output=output)

    async def _wait(self, _: Page) -> None:
        await trio.sleep(self.dice.choice((0, 0.01, 0.05, 0.2)))

    async def _foreign_stop(self, _: Page) -> None:
        """At another viewer, as the page at `/` is one."""
        session = self._session()
        if session is not None:
            session.cancel()

    def _take_back(self, page: Page) -> None:
        """What is not on its way yet when a page is stopped, or gone, is taken back."""
        session = self._session()
        begun = said(session) if session is not None else []
        for sent in self.sent:
            sent.taken_back |= sent.page is page and sent.text not in begun

    # --- the end

    async def _rest(self) -> None:
        await self._stop_all()
        while (session := self._session()) is not None and (session.state.turn or session.queue):
            await self._stop_all()  # a page has sent more than one message
        first = self._pages[0]
        await self.led.result(await self._send(first, "say"))
        for page in self._pages:
            await page.do("resume")
            last = f"Well. Done: {self.sent[-1].text}"
            with trio.move_on_after(10):  # React renders when it likes
                await self.led.until(lambda page=page, last=last: page.said()[-1:] == [last])
                await page.until("ready")
            now = page.now()
            self.expect(
                now["status"] == "ready", f"{page.name}: {now['status']} {now.get('error')}"
            )
            self.expect(page.said()[-1:] == [last], f"{page.name} shows {page.said()!r}")
            self.expect(page.pending() == [], f"{page.name} has {page.pending()}")
            ids = [message["id"] for message in page.now()["messages"]]
            self.expect(len(ids) == len(set(ids)), f"{page.name} shows a message twice: {ids}")
            valid = await page.do("validate")
            self.expect(valid is True, f"{page.name} is not valid: {valid}")
        session = self._session()
        assert session is not None
        self.expect(session.state.turn is None, f"the session goes on: {session.state}")
        self.expect(not session.queue, f"there is something in the queue: {session.queue}")
        self._account(Counter(said(session)))
        for page in self._pages:
            await page.do("close")
        await self.runtime.close(session.id)

    async def _stop_all(self) -> None:
        for page in self._pages:
            self._take_back(page)
        stops = [await page.start("stopAll") for page in self._pages]
        for number in stops:
            await self.led.result(number)

    def _account(self, reached: Counter[str]) -> None:
        refused = {error.get("text") for error in self.led.heard("refused")}
        for sent in self.sent:
            self.expect(reached[sent.text] <= 1, f"{sent.text!r} came twice")
            if reached[sent.text]:
                self.did["reached"] += 1
            elif sent.text in refused:
                self.expect(not sent.alone, f"{sent.text!r} was refused")
                self.did["refused"] += 1
            else:
                self.expect(sent.taken_back, f"{sent.text!r} was lost")
                self.did["taken back"] += 1


def waiting(session: Session) -> list[str]:
    return [entry.content[0].text for entry in session.queue]  # type: ignore[union-attr]


async def play(sequences: int, seed: int) -> Counter[str]:
    return await random_sequences.play(Conversation, "ai_page.mjs", sequences, seed)


if __name__ == "__main__":
    random_sequences.main(play, __doc__ or "")
