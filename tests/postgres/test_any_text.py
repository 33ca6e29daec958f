"""No text that a client, a program or an agent gives breaks a store: it is stored, or refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from agentrt.errors import LocalProtocolError
from agentrt.store import open_store
from agentrt.testing import open_fake_runtime
from runtime.fakes import Incarnations, echo

TEXTS = ["a\0b", "\0", "\x1b[2J", "\u202e", "\ufffe", "\U0010ffff", "'; --", "%s {} \\", "x" * 9999]
HALVES = ["\ud800", "\udcff", "a \udfff b"]
"""Surrogates, for which UTF-8 has no form."""


async def test_titles_and_prompts_are_stored_or_refused_in_a_database(url: str) -> None:
    await store_texts(url)


async def test_titles_and_prompts_are_stored_or_refused_in_a_file(tmp_path: Path) -> None:
    await store_texts(tmp_path / "store.db")


async def store_texts(place: str | Path) -> None:
    agents = {"fake": Incarnations(*[echo] * (len(TEXTS) + 1)).start}
    with trio.fail_after(120):
        async with (
            open_store(place) as store,
            open_fake_runtime(agents, store=store) as runtime,
        ):
            for text in TEXTS:
                session = await runtime.create("fake", title=text)
                assert (await session.run(text)).outcome == "completed"
                session.rename(f"again {text}")
                await runtime.close(session.id)
            session = await runtime.create("fake")
            for half in HALVES:
                with pytest.raises(LocalProtocolError, match="title contains half a character"):
                    await runtime.create("fake", title=half)
                with pytest.raises(LocalProtocolError, match="title contains half a character"):
                    session.rename(half)
                with pytest.raises(LocalProtocolError, match="prompt contains half a character"):
                    session.submit(half)
            await runtime.close(session.id)
            entries = [entry for entry in await store.sessions() if entry.turns]
            assert len(entries) == len(TEXTS)
            assert all(entry.title and entry.title.startswith("again ") for entry in entries)
