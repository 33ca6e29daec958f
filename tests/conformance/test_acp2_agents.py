"""`check_agent` finds each defect of an agent that speaks version 2 of ACP, by the check that is
about it."""

from __future__ import annotations

from typing import Any

import pytest
from trio.testing import MockClock

from agentrt.testing import Conformance, ConformanceFinding, check_agent

from . import test_acp_agents as version_1
from .agent import PROMPTS, GoodAgent, Refused, Session
from .agent2 import GoodAgent2
from .known import names_of_checks


async def checked(agent: type[GoodAgent], *only: str) -> Conformance:
    return await check_agent(agent.start, prompts=PROMPTS, only=only, timeout=30, acp_version=2)


async def finding(agent: type[GoodAgent], check: str) -> ConformanceFinding:
    [found] = (await checked(agent, check)).findings
    return found


async def test_an_agent_without_a_fault_fails_no_check_of_version_2(
    autojump_clock: MockClock,
) -> None:
    report = await checked(GoodAgent2)
    assert [f for f in report.findings if f.verdict == "failed"] == []
    assert {f.verdict for f in report.findings} == {"passed", "different"}
    assert (report.acp_version, report.name) == (2, "good")
    assert [f.check for f in report.findings[:-3]] == names_of_checks("acp", 2)
    assert {f.check for f in report.findings[:-3] if f.level == "open"} == version_1.OPEN


# --- agents with one defect each


class NamesVersion2AsText(GoodAgent2):
    def on_initialize(self, params: dict[str, Any]) -> Any:
        return {**super().on_initialize(params), "protocolVersion": "2"}


class AnswersVersionZero(GoodAgent2):
    def on_initialize(self, params: dict[str, Any]) -> Any:
        return super().on_initialize({"protocolVersion": 2})


class NamesOnlyVersion1(GoodAgent2):
    def on_initialize(self, params: dict[str, Any]) -> Any:
        if params["protocolVersion"] == 0:
            raise Refused(-32022, "no such version", {"requested": 0, "supported": [1]})
        return super().on_initialize(params)


class NamesNoMessage(GoodAgent2):
    def result(self, id: Any, result: Any) -> None:
        super().result(id, {} if "messageId" in result else result)


class ShowsNoUserMessage(GoodAgent2):
    def update(self, session: Session, kind: str, **fields: Any) -> None:
        if kind != "user_message":
            super().update(session, kind, **fields)


class NeverRuns(GoodAgent2):
    def state(self, session: Session, state: str, **more: Any) -> None:
        if state == "idle":
            super().state(session, state, **more)


class NeverRests(GoodAgent2):
    def state(self, session: Session, state: str, **more: Any) -> None:
        super().state(session, "running" if state == "idle" else state, **more)


class EndsWithoutAReason(GoodAgent2):
    def state(self, session: Session, state: str, **more: Any) -> None:
        super().state(session, state)


class FailsCancelledTurns(GoodAgent2):
    def end(self, id: Any, session: Session, stop: str) -> None:
        error = {"code": -32603, "message": "AbortError"}
        more = {"error": error} if stop == "cancelled" else {}
        self.state(session, "idle", stopReason="error" if more else stop, **more)


class KeepsWaitingPrompts(GoodAgent2):
    """A cancel does not refuse the prompts that wait: they run when the turn has ended."""

    def cancel(self, session: Session) -> None:
        waits, self.waits = self.waits, []
        super().cancel(session)
        self.waits = waits


class RepeatsNothingOfIt(GoodAgent2):
    def replay(self, session: Session) -> None:
        pass


class ResumesWithoutAState(GoodAgent2):
    def on_session_resume(self, params: dict[str, Any]) -> Any:
        self.known(params)
        return {}


class ReplaysFromAnywhere(GoodAgent2):
    def on_session_resume(self, params: dict[str, Any]) -> Any:
        return super().on_session_resume({**params, "replayFrom": {"type": "start"}})


class AnswersAClosedSessionFirst(GoodAgent2):
    def request(self, id: Any, method: str, params: dict[str, Any]) -> None:
        if method == "session/close":
            self.result(id, {})
            self.cancel(self.known(params))
        else:
            super().request(id, method, params)


class TakesAnyOption(GoodAgent2):
    def on_session_set_config_option(self, params: dict[str, Any]) -> Any:
        return {"configOptions": self.options}


class AsksWithoutATitle(GoodAgent2):
    def asks(self, session: Session) -> dict[str, Any]:
        asked = super().asks(session)
        del asked["title"]
        return asked


class AsksAboutNoKind(GoodAgent2):
    def asks(self, session: Session) -> dict[str, Any]:
        return {**super().asks(session), "subject": {"command": "touch"}}


FLAWS: list[tuple[str, type[GoodAgent], str]] = [
    ("initialize", NamesVersion2AsText, "it answered version '2'"),
    ("initialize-zero", AnswersVersionZero, "answered with a result"),
    ("initialize-zero", NamesOnlyVersion1, "refused without a list of supported versions"),
    ("insertion", NamesNoMessage, "session/prompt gave no messageId"),
    ("turn", NamesNoMessage, "session/prompt gave no messageId"),
    ("insertion", ShowsNoUserMessage, "no user message has the id u1"),
    ("turn-states", NeverRuns, "sent agent_message_chunk while its state was idle"),
    ("turn", NeverRests, "the end of session/prompt did not arrive within 30 s"),
    ("turn", EndsWithoutAReason, "the end of session/prompt did not arrive within 30 s"),
    ("cancel-text", FailsCancelledTurns, "an error (-32603 AbortError)"),
    ("permission-cancelled", FailsCancelledTurns, "error (-32603 AbortError)"),
    ("held-prompt", KeepsWaitingPrompts, "a prompt ended with end_turn"),
    ("resume-replay", RepeatsNothingOfIt, "sent no history before the answer"),
    ("resume-state", ResumesWithoutAState, "sent no state before the answer"),
    ("resume", ReplaysFromAnywhere, "repeated 1 updates"),
    ("resume-cursor", ReplaysFromAnywhere, "answered with a result"),
    ("close-order", AnswersAClosedSessionFirst, "the turn ended after the answer"),
    ("option-unknown", TakesAnyOption, "answered with a result"),
    ("permission-request", AsksWithoutATitle, "its title is None"),
    ("permission-request", AsksAboutNoKind, "its subject has no type"),
]
ONLY_1 = {
    version_1.AnswersNoVersion,
    version_1.RefusesVersionZero,
    version_1.NamesNoVersions,
    version_1.RepeatsNothing,
    version_1.RepeatsBehindTheAnswer,
    version_1.FailsWhatIsCancelled,
    version_1.EndsForNoReason,
}
"""Defects that version 2 does not have in this form. A stop reason may be any text there."""
NEVER_FAILED = version_1.NEVER_FAILED | {"null-id", "empty-prompt"}


def in_version_2(agent: type[GoodAgent]) -> type[GoodAgent]:
    return type(f"{agent.__name__}2", (agent, GoodAgent2), {})


COMMON = [
    (check, in_version_2(agent), words)
    for check, agent, words in version_1.FLAWS
    if agent not in ONLY_1 and check in names_of_checks("acp", 2)
]
"""The defects that agents of both versions may have."""


@pytest.mark.parametrize(("check", "agent", "words"), [*FLAWS, *COMMON])
async def test_a_planted_flaw_of_version_2_is_found_by_its_check(
    check: str, agent: type[GoodAgent], words: str, autojump_clock: MockClock
) -> None:
    found = await finding(agent, check)
    assert found.verdict == "failed"
    assert words in found.words


def test_every_check_of_version_2_that_can_fail_has_a_planted_flaw() -> None:
    can_fail = {*names_of_checks("acp", 2)} - NEVER_FAILED
    assert {check for check, _, _ in [*FLAWS, *COMMON]} == can_fail


async def test_an_agent_of_version_1_is_not_checked_against_version_2(
    autojump_clock: MockClock,
) -> None:
    findings = (await checked(GoodAgent, "initialize", "turn", "resume-state")).findings
    assert [(each.check, each.verdict) for each in findings] == [
        ("initialize", "failed"),
        ("turn", "unsupported"),
        ("resume-state", "unsupported"),
    ]
    assert findings[0].words == "it answered version 1"


async def test_the_checks_of_version_2_refer_to_its_specification(
    autojump_clock: MockClock,
) -> None:
    checks = (await checked(GoodAgent2)).findings[: len(names_of_checks("acp", 2))]
    names = {each.check for each in checks}
    assert len(names) == len(checks)
    assert not [each for each in checks if "/v1/" in each.where]
    assert names > {*names_of_checks("acp")} - {"load", "load-unknown"}


class SendsAnUpdateOfItsOwn(GoodAgent2):
    def say(self, session: Session, text: str) -> None:
        super().say(session, text)
        self.update(session, "dance", steps=3)


@pytest.mark.slow
async def test_messages_that_the_tables_of_version_2_do_not_know_are_named(
    autojump_clock: MockClock,
) -> None:
    report = await checked(SendsAnUpdateOfItsOwn)
    [found] = [each for each in report.findings if each.check == "known-messages"]
    assert (found.verdict, found.words) == ("different", "the agent sent a dance")
    assert not report.broken
