"""A chat bot: a session per thread, approvals by its users, a queue, and a stop.

    python examples/approvals.py < script

The chat service is standard input and output here: each line is `THREAD TEXT`. `yes` and `no`
answer an open permission request of the thread, `stop` cancels its turn, everything else is a
prompt. A bot for a real service keeps `Thread` and replaces `main`.
"""

import os
import sys

import trio

import agentrt

AGENT = os.environ.get("EXAMPLE_AGENT", "demo")


class Thread:
    """One thread of the chat, with a session of its own."""

    def __init__(self, name: str, session: agentrt.Session) -> None:
        self._name = name
        self._session = session

    def receive(self, text: str) -> None:
        """Take a message. Prompts that arrive while a turn runs are queued."""
        requests = self._session.pending_permissions
        if text in ("yes", "no") and requests:
            kind = "allow_once" if text == "yes" else "reject_once"
            self._session.answer(next(iter(requests)), kind)
        elif text == "stop":
            self._session.cancel()
        else:
            self._session.submit(text)

    async def wait_idle(self) -> None:
        """Wait until no turn runs and no prompt is queued."""
        await self._session.wait_idle()

    async def follow(self) -> None:
        """Post the answers and the requests of the agent."""
        texts: list[str] = []
        async for event in self._session.subscribe():
            match event:
                case agentrt.TextDelta(text=text):
                    texts.append(text)
                case agentrt.PermissionOpened(title=title):
                    self._post(f"may I? {title} (yes/no)")
                case agentrt.TurnEnded(outcome=outcome):
                    self._post("".join(texts).strip() or f"({outcome})")
                    texts.clear()

    def _post(self, text: str) -> None:
        print(f"{self._name} < {text.splitlines()[0]}", flush=True)


async def main() -> None:
    threads: dict[str, Thread] = {}
    async with agentrt.open_runtime() as runtime, trio.open_nursery() as nursery:
        while line := await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            name, _, text = line.strip().partition(" ")
            if name not in threads:
                threads[name] = Thread(name, await runtime.create(AGENT, cwd="."))
                nursery.start_soon(threads[name].follow)
            if text == "wait":  # for scripts: until the thread has nothing to do
                await threads[name].wait_idle()
            else:
                threads[name].receive(text)
        for thread in threads.values():
            await thread.wait_idle()
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)
