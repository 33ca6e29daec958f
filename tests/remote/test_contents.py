"""A client that follows a session gets previews, and completes them where they must be complete."""

from __future__ import annotations

import pytest

from agentrt.events import Text

from .cutting import stage
from .test_line import Reader

pytestmark = pytest.mark.slow

LONG = "".join(f"{n} é😀\n" for n in range(4_000))


async def test_a_whole_session_has_its_large_contents() -> None:
    async with stage() as it:
        session = await it.runtime.create("echo", cwd="/")
        await session.run([Text(LONG), Text("short")])
        line = await it.line()
        async with line.followed(session.id) as held:
            known = held.snapshot().items[0].content[0]
            assert isinstance(known, Text)
            assert len(known.text) < 10_000
            assert (await held.full_snapshot()).items == session.snapshot().items


async def test_a_long_prompt_that_waits_is_known_by_its_preview() -> None:
    async with stage() as it:
        session = await it.runtime.create("echo", cwd="/")
        line = await it.line()
        async with line.followed(session.id) as held:
            reader = Reader(held)
            it.nursery.start_soon(reader.run)
            first = held.submit("ask me")
            await reader.until(lambda: held.pending_permissions)
            second = held.submit(LONG)
            await reader.until(lambda: second.seq is not None and len(held.queue) == 1)
            [entry] = held.queue
            assert entry.content == [Text(LONG)]
            [request] = held.pending_permissions
            held.answer(request, "allow_once")
            await reader.until(lambda: len(reader.ended) == 2)
            assert [first.id, second.id] == reader.ended
            assert second.failure is None
