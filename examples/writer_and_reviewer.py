"""Two agents in one nursery: one writes a file, the other reads it and reports.

    python examples/writer_and_reviewer.py

If one of them fails, the nursery cancels the other one, and no process is left.
"""

import os

import trio

import agentrt

AGENT = os.environ.get("EXAMPLE_AGENT", "demo")


async def writer(
    drafts: trio.MemorySendChannel[str], verdicts: trio.MemoryReceiveChannel[str]
) -> None:
    policy = agentrt.rules(allow=["Write(draft.txt)", "Edit(draft.txt)"])
    async with drafts, agentrt.open_session(AGENT, cwd=".", permissions=policy) as session:
        await session.run("create draft.txt with A first draft.")
        await drafts.send("draft.txt")
        print("the reviewer says:", await verdicts.receive())
        await session.run("edit draft.txt replace first by second")
        await drafts.send("draft.txt")
        print("the reviewer says:", await verdicts.receive())


async def reviewer(
    drafts: trio.MemoryReceiveChannel[str], verdicts: trio.MemorySendChannel[str]
) -> None:
    async with (
        verdicts,
        agentrt.open_session(AGENT, cwd=".", permissions=agentrt.deny_all) as session,
    ):
        async for file in drafts:
            result = await session.run(f"read {file}")
            await verdicts.send("good" if "second" in result.text else "revise it")


async def main() -> None:
    send_draft, receive_draft = trio.open_memory_channel[str](0)
    send_verdict, receive_verdict = trio.open_memory_channel[str](0)
    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(writer, send_draft, receive_verdict)
            nursery.start_soon(reviewer, receive_draft, send_verdict)


if __name__ == "__main__":
    trio.run(main)
