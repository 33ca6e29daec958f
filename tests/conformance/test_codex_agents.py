"""`check_agent` finds each defect of a `codex app-server`, by the check that is about it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from agentrt.testing import Conformance, ConformanceFinding, MemoryAgent, check_agent

from .agent import PROMPTS, Refused
from .codex_agent import GoodCodex, Turn
from .known import names_of_checks


async def checked(agent: type[GoodCodex], *only: str) -> Conformance:
    return await check_agent(agent.start, protocol="codex", prompts=PROMPTS, only=only, timeout=30)


async def finding(agent: type[GoodCodex], check: str) -> ConformanceFinding:
    [found] = (await checked(agent, check)).findings
    return found


async def test_an_agent_without_a_fault_fails_no_check(autojump_clock: MockClock) -> None:
    report = await checked(GoodCodex)
    assert [f for f in report.findings if f.verdict == "failed"] == []
    assert [f.check for f in report.findings if f.verdict == "different"] == [
        "batch",
        "two-prompts",
    ]
    assert {f.verdict for f in report.findings} == {"passed", "different"}
    assert (report.name, report.version) == ("codex", "1.2.3")
    assert [f.check for f in report.findings[:-2]] == names_of_checks("codex")


async def test_no_check_speaks_of_the_specification_of_another_protocol(
    autojump_clock: MockClock,
) -> None:
    findings = (await checked(GoodCodex)).findings
    assert not [each for each in findings if "agentclientprotocol" in each.where]
    assert len({each.check for each in findings}) == len(findings)


# --- agents with one defect each


class SaysNotWhoItIs(GoodCodex):
    def on_initialize(self, id: Any, params: dict[str, Any]) -> None:
        super().on_initialize(0, params)
        self.result(id, {})


class ForgetsTheHandshake(GoodCodex):
    def on_initialize(self, id: Any, params: dict[str, Any]) -> None:
        self.result(id, {"userAgent": "agentrt/1 (memory)"})

    def request(self, id: Any, method: str, params: dict[str, Any]) -> None:
        self.ready = True
        super().request(id, method, params)


class KnowsAnyMethod(GoodCodex):
    def request(self, id: Any, method: str, params: dict[str, Any]) -> None:
        if "unknown" in method:
            self.result(id, {})
        else:
            super().request(id, method, params)


class NumbersItsAnswers(GoodCodex):
    def send(self, message: dict[str, Any]) -> None:
        if isinstance(message.get("id"), str) and "method" not in message:
            message = {**message, "id": 0}
        super().send(message)


class DiesOfOddLines(GoodCodex):
    def line(self, line: bytes) -> None:
        try:
            whole = isinstance(json.loads(line), dict) and len(line) < 1_000_000
        except ValueError:
            whole = False
        if whole:
            super().line(line)
        else:
            self.process.exit(3)


class GivesOneId(GoodCodex):
    def new_id(self) -> str:
        return "t"


class RunsAnyThread(GoodCodex):
    def known(self, params: dict[str, Any]) -> str:
        thread: str = params.get("threadId", "none")
        self.threads.setdefault(thread, "/")
        params.setdefault("input", [{"text": ""}])
        return thread


class ResumesAnother(GoodCodex):
    def on_thread_resume(self, id: Any, params: dict[str, Any]) -> None:
        self.on_thread_start(id, params)


class ListsNothing(GoodCodex):
    def on_thread_list(self, id: Any, params: dict[str, Any]) -> None:
        self.result(id, {"data": []})


class NeverEnds(GoodCodex):
    def end(self, turn: Turn, status: str) -> None:
        """Says nothing."""


class SteersAnything(GoodCodex):
    def on_turn_steer(self, id: Any, params: dict[str, Any]) -> None:
        self.result(id, {"turnId": params["expectedTurnId"]})


class HearsNoInterrupt(GoodCodex):
    def on_turn_interrupt(self, id: Any, params: dict[str, Any]) -> None:
        self.result(id, {})


class CallsItCompleted(GoodCodex):
    def end(self, turn: Turn, status: str) -> None:
        super().end(turn, "completed")


class InterruptsAnyThread(GoodCodex):
    def on_turn_interrupt(self, id: Any, params: dict[str, Any]) -> None:
        for turn in self.running.values():
            turn.scope.cancel()
        self.result(id, {})


class InterruptsTheNextOne(GoodCodex):
    def __init__(self) -> None:
        super().__init__()
        self.late = False

    def on_turn_interrupt(self, id: Any, params: dict[str, Any]) -> None:
        self.late = params["threadId"] not in self.running
        super().on_turn_interrupt(id, params)

    async def work(self, turn: Turn) -> None:
        if self.late:
            turn.scope.cancel()
        await super().work(turn)


class SpeaksBehindTheEnd(GoodCodex):
    def end(self, turn: Turn, status: str) -> None:
        super().end(turn, status)
        if status == "interrupted":
            self.say(turn, "late")


class FailsAfterwards(GoodCodex):
    interrupted = False

    def end(self, turn: Turn, status: str) -> None:
        super().end(turn, "failed" if self.interrupted else status)
        self.interrupted = status == "interrupted"


class DoesNothing(GoodCodex):
    async def permission(self, turn: Turn) -> None:
        await super().permission(turn)
        (Path(self.threads[turn.thread]) / "agentrt-checked.txt").unlink(missing_ok=True)


class DoesItAnyway(GoodCodex):
    async def permission(self, turn: Turn) -> None:
        try:
            await super().permission(turn)
        finally:
            (Path(self.threads[turn.thread]) / "agentrt-checked.txt").touch()


class TakesTheLastAnswer(GoodCodex):
    def answered(self, message: dict[str, Any]) -> None:
        if message.get("result", {}).get("decision") == "accept":
            for folder in self.threads.values():
                (Path(folder) / "agentrt-checked.txt").touch()
        super().answered(message)


class StaysAround(GoodCodex):
    ignores = frozenset({"eof", "terminate"})

    async def run(self, process: MemoryAgent) -> None:
        await super().run(process)
        await trio.sleep_forever()


@pytest.mark.parametrize(
    ("agent", "checks"),
    [
        (SaysNotWhoItIs, ["initialize"]),
        (ForgetsTheHandshake, ["initialize-twice", "uninitialized"]),
        (KnowsAnyMethod, ["unknown-method"]),
        (NumbersItsAnswers, ["text-id"]),
        (
            DiesOfOddLines,
            ["broken-line", "bare-value", "not-utf-8", "blank-line", "long-line"],
        ),
        (GivesOneId, ["new-sessions"]),
        (RunsAnyThread, ["missing-params", "prompt-unknown", "resume-unknown"]),
        (ResumesAnother, ["resume"]),
        (ListsNothing, ["list"]),
        (NeverEnds, ["turn"]),
        (SteersAnything, ["steer-another"]),
        (HearsNoInterrupt, ["cancel-text", "cancel-at-once"]),
        (CallsItCompleted, ["cancel-text"]),
        (InterruptsAnyThread, ["two-sessions"]),
        (InterruptsTheNextOne, ["cancel-idle"]),
        (SpeaksBehindTheEnd, ["quiet-after-cancel"]),
        (FailsAfterwards, ["after-cancel", "cancel-twice"]),
        (DoesNothing, ["permission-allowed"]),
        (
            DoesItAnyway,
            [
                "permission-rejected",
                "permission-cancelled",
                "permission-unanswered",
                "permission-unknown-option",
                "permission-error",
            ],
        ),
        (TakesTheLastAnswer, ["permission-twice", "permission-late"]),
        (StaysAround, ["eof", "eof-at-once", "eof-in-turn", "sigterm", "sigterm-in-turn"]),
    ],
)
async def test_a_defect_is_found_by_the_checks_about_it(
    agent: type[GoodCodex], checks: list[str], autojump_clock: MockClock
) -> None:
    for check in checks:
        assert ((found := await finding(agent, check)).verdict, check) == ("failed", check), found


async def test_an_agent_that_does_not_ask_is_not_judged_for_what_it_would_have_done(
    autojump_clock: MockClock,
) -> None:
    class NeverAsks(GoodCodex):
        async def permission(self, turn: Turn) -> None:
            self.say(turn, "no need")

    found = await finding(NeverAsks, "permission-rejected")
    assert found.verdict == "inconclusive"
    assert "it did not ask" in found.words


async def test_an_interrupt_that_has_to_be_said_again_is_the_agents_own_way(
    autojump_clock: MockClock,
) -> None:
    class TakesItsTime(GoodCodex):
        """As codex does: it takes a prompt before the turn runs."""

        def tell(self, method: str, thread: str, **params: Any) -> None:
            if method == "turn/started":
                self.nursery.start_soon(self.later, thread, params)
            else:
                super().tell(method, thread, **params)

        async def later(self, thread: str, params: dict[str, Any]) -> None:
            await trio.sleep(0.05)
            super().tell("turn/started", thread, **params)

        def on_turn_interrupt(self, id: Any, params: dict[str, Any]) -> None:
            if trio.current_time() < self.began + 0.05:
                raise Refused(-32600, "no active turn to interrupt")
            super().on_turn_interrupt(id, params)

        async def work(self, turn: Turn) -> None:
            self.began = trio.current_time()
            await super().work(turn)

        began = 1e9

    found = await finding(TakesItsTime, "cancel-at-once")
    assert found.verdict == "different"
    assert "no active turn" in found.words
    assert "repeated while it runs: interrupted" in found.words
