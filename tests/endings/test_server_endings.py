"""No ending of a server loses an acknowledged prompt; `nox -s endings` does it for long."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from postgres.server import Server

from .judge import Session, judge
from .run import Plan, run

ROUNDS = 150 if os.environ.get("AGENTRT_FULL") else 3
SEED = int(os.environ.get("AGENTRT_SEED", "1"))


def session(*sent: str, turns: list[str], queue: list[str], received: list[str]) -> Session:
    return Session(
        "s",
        sent=list(sent),
        acknowledged=list(sent),
        turns=turns,
        queue=queue,
        received=received,
    )


def test_what_is_there_once_and_in_order_is_well() -> None:
    assert judge(session("a", "b", turns=["a"], queue=["b"], received=["a", "b"])).is_clean


def test_a_prompt_that_was_cut_off_before_its_agent_got_it_is_no_loss() -> None:
    assert judge(session("a", turns=["a"], queue=[], received=[])).is_clean


def test_an_acknowledged_prompt_that_is_not_there_is_lost() -> None:
    assert len(judge(session("a", "b", turns=["a"], queue=[], received=["a"])).lost) == 1


def test_a_prompt_that_waited_and_reaches_no_agent_is_lost() -> None:
    assert len(judge(session("a", turns=[], queue=["a"], received=[])).lost) == 1


def test_a_prompt_that_is_there_twice_or_is_sent_twice_is_found() -> None:
    assert judge(session("a", turns=["a"], queue=["a"], received=["a"])).twice
    assert judge(session("a", turns=["a"], queue=[], received=["a", "a"])).twice


def test_another_order_is_found() -> None:
    assert judge(session("a", "b", turns=[], queue=["b", "a"], received=["b", "a"])).order
    assert judge(session("a", "b", turns=["a"], queue=["b"], received=["b", "a"])).order


def test_a_queue_that_is_not_paused_is_found() -> None:
    found = session("a", turns=[], queue=["a"], received=["a"])
    found.paused = False
    assert judge(found).unasked


@pytest.mark.slow
async def test_a_server_on_a_file_keeps_what_it_has_acknowledged(tmp_path: Path) -> None:
    plan = Plan(store=str(tmp_path / "sessions.db"), rounds=ROUNDS, seed=SEED)
    outcome = await run(plan, tmp_path)
    assert outcome.verdict.is_clean, outcome.verdict
    assert outcome.counts["prompts that waited"] > 0


@pytest.mark.slow
async def test_servers_that_share_a_database_keep_what_they_have_acknowledged(
    postgres: Server, tmp_path: Path
) -> None:
    plan = Plan(store=postgres.url(f"endings_{os.getpid()}"), rounds=ROUNDS, seed=SEED)
    outcome = await run(plan, tmp_path)
    assert outcome.verdict.is_clean, outcome.verdict
    assert outcome.counts["prompts that waited"] > 0
