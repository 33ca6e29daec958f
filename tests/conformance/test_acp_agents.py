"""`check_agent` finds each defect of an ACP agent, by the check that is about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from agentrt.testing import Conformance, ConformanceFinding, ConformancePrompts, check_agent
from agentrt.tracing import read_trace

from .agent import CAPABILITIES, PROMPTS, GoodAgent, Refused, Session
from .known import names_of_checks


async def checked(agent: type[GoodAgent], *only: str, **more: Any) -> Conformance:
    return await check_agent(agent.start, prompts=PROMPTS, only=only, timeout=30, **more)


async def finding(agent: type[GoodAgent], check: str, **more: Any) -> ConformanceFinding:
    [found] = (await checked(agent, check, **more)).findings
    return found


async def test_an_agent_without_a_fault_fails_no_check(autojump_clock: MockClock) -> None:
    report = await checked(GoodAgent)
    assert [f for f in report.findings if f.verdict == "failed"] == []
    assert {f.verdict for f in report.findings} == {"passed", "different"}
    assert not report.broken
    assert [f.check for f in report.findings[:-3]] == names_of_checks("acp")
    assert {f.check for f in report.findings[:-3] if f.level == "open"} == OPEN


# --- agents with one defect each


class AnswersNoVersion(GoodAgent):
    def on_initialize(self, params: dict[str, Any]) -> Any:
        return {"protocolVersion": "1", "agentCapabilities": {}}


class AgreesToAnyVersion(GoodAgent):
    def on_initialize(self, params: dict[str, Any]) -> Any:
        return {**super().on_initialize(params), "protocolVersion": params["protocolVersion"]}


class RefusesVersionZero(GoodAgent):
    def on_initialize(self, params: dict[str, Any]) -> Any:
        if params["protocolVersion"] == 0:
            raise Refused(-32602, "version 0")
        return super().on_initialize(params)


class NamesItsVersions(GoodAgent):
    """Refuses version 0 as version 2 of the protocol requires."""

    def on_initialize(self, params: dict[str, Any]) -> Any:
        if params["protocolVersion"] == 0:
            raise Refused(-32022, "no such version", {"requested": 0, "supported": [1, 2]})
        return super().on_initialize(params)


class NamesNoVersions(GoodAgent):
    def on_initialize(self, params: dict[str, Any]) -> Any:
        if params["protocolVersion"] == 0:
            raise Refused(-32022, "no such version")
        return super().on_initialize(params)


class KnowsAnyMethod(GoodAgent):
    def request(self, id: Any, method: str, params: dict[str, Any]) -> None:
        if "unknown" in method:
            self.result(id, {})
        else:
            super().request(id, method, params)


class AnswersNotifications(GoodAgent):
    def notified(self, method: str, params: dict[str, Any]) -> None:
        self.send({"id": None, "error": {"code": -32601, "message": method}})


class NumbersItsAnswers(GoodAgent):
    def send(self, message: dict[str, Any]) -> None:
        if isinstance(message.get("id"), str) and "method" not in message:
            message = {**message, "id": 0}
        super().send(message)


class DiesOfOddLines(GoodAgent):
    def line(self, line: bytes) -> None:
        if len(line) > 1_000_000 or b"4711" in line or not line.startswith(b'{"'):
            self.process.exit(3)
        elif b"\xff" in line or line.endswith(b'"method":'):
            self.process.exit(4)
        else:
            super().line(line)


class GivesOneId(GoodAgent):
    def new_id(self) -> str:
        return "s"


class RunsAnySession(GoodAgent):
    def known(self, params: dict[str, Any]) -> Session:
        return self.sessions.setdefault(params["sessionId"], Session(params["sessionId"], "/"))


class RepeatsNothing(GoodAgent):
    def on_session_load(self, params: dict[str, Any]) -> Any:
        self.known(params)
        return {}


class RepeatsBehindTheAnswer(GoodAgent):
    def on_session_load(self, params: dict[str, Any]) -> Any:
        async def later() -> None:
            await trio.sleep(0.1)
            super(RepeatsBehindTheAnswer, self).on_session_load(params)

        self.nursery.start_soon(later)
        return {}


class RepeatsWhatItResumes(GoodAgent):
    def on_session_resume(self, params: dict[str, Any]) -> Any:
        return self.on_session_load(params)


class ListsWithoutFolders(GoodAgent):
    def on_session_list(self, params: dict[str, Any]) -> Any:
        return {"sessions": [{"sessionId": "s0"}]}


class RunsOnWhenClosed(GoodAgent):
    def on_session_close(self, params: dict[str, Any]) -> Any:
        return {}


class EndsForNoReason(GoodAgent):
    def end(self, id: Any, session: Session, stop: str) -> None:
        super().end(id, session, "finished")


class KeepsCancels(GoodAgent):
    """A cancel without a turn, or a second one, hits the next turn."""

    kept = 0

    def cancel(self, session: Session) -> None:
        if session.turn is None or session.cancelled:
            self.kept += 1
        super().cancel(session)

    async def turn(self, session: Session, text: str) -> None:
        if self.kept:
            self.kept = 0
            session.cancelled = True
        else:
            await super().turn(session, text)


class EndsWhatIsCancelled(GoodAgent):
    def end(self, id: Any, session: Session, stop: str) -> None:
        super().end(id, session, "end_turn")


class FailsWhatIsCancelled(GoodAgent):
    def end(self, id: Any, session: Session, stop: str) -> None:
        if stop == "cancelled":
            self.send({"id": id, "error": {"code": -32603, "message": "AbortError"}})
        else:
            super().end(id, session, stop)


class IgnoresCancels(GoodAgent):
    def cancel(self, session: Session) -> None:
        pass


class LosesEarlyCancels(GoodAgent):
    def cancel(self, session: Session) -> None:
        if session.told:
            super().cancel(session)

    async def long(self, session: Session) -> None:
        await trio.sleep(0.1)
        await super().long(session)


class TalksAfterACancel(GoodAgent):
    def end(self, id: Any, session: Session, stop: str) -> None:
        super().end(id, session, stop)
        if stop == "cancelled":
            self.say(session, "one more word")


class CancelsAll(GoodAgent):
    def cancel(self, session: Session) -> None:
        for each in self.sessions.values():
            super().cancel(each)


class ForgetsTheSecond(GoodAgent):
    def begin(self, id: Any, session: Session, text: str) -> None:
        if session.turn is None:
            super().begin(id, session, text)


class AsksWithoutOptions(GoodAgent):
    def asks(self, session: Session) -> dict[str, Any]:
        return {**super().asks(session), "options": []}


class NeverDoesIt(GoodAgent):
    def touch(self, session: Session) -> None:
        pass


class DoesItAnyway(GoodAgent):
    async def permission(self, session: Session) -> None:
        try:
            await self.ask(session)
        finally:
            self.touch(session)


class TakesTheLastAnswer(GoodAgent):
    def answered(self, message: dict[str, Any]) -> None:
        super().answered(message)
        if "yes" in str(message):
            for session in self.sessions.values():
                self.touch(session)


class StaysWithoutInput(GoodAgent):
    ignores = frozenset({"eof", "terminate"})


class Prints(GoodAgent):
    def on_session_new(self, params: dict[str, Any]) -> Any:
        self.process.send(b"session created\n")
        return super().on_session_new(params)


class ReadsFiles(GoodAgent):
    async def long(self, session: Session) -> None:
        self.send({"id": "f", "method": "fs/read_text_file", "params": {}})
        await super().long(session)


FLAWS: list[tuple[str, type[GoodAgent], str]] = [
    ("initialize", AnswersNoVersion, "it answered version '1'"),
    ("initialize-newer", AgreesToAnyVersion, "it answered 65535 with version 65535"),
    ("initialize-zero", RefusesVersionZero, "was refused: -32602 version 0"),
    ("initialize-zero", NamesNoVersions, "refused without a list of supported versions"),
    ("unknown-method", KnowsAnyMethod, "answered with a result"),
    ("unknown-core-method", KnowsAnyMethod, "answered with a result"),
    ("unknown-notification", AnswersNotifications, "answered with the id"),
    (
        "text-id",
        NumbersItsAnswers,
        "did not arrive within 30 s, but an answer to an unknown request did",
    ),
    ("broken-line", DiesOfOddLines, "the process had exited (exit status 4)"),
    ("bare-value", DiesOfOddLines, "the process had exited (exit status 3)"),
    ("batch", DiesOfOddLines, "the process had exited"),
    ("not-utf-8", DiesOfOddLines, "the process had exited (exit status 4)"),
    ("blank-line", DiesOfOddLines, "the process had exited"),
    ("foreign-answer", DiesOfOddLines, "the process had exited"),
    ("long-line", DiesOfOddLines, "the process had exited"),
    ("new-sessions", GivesOneId, "two sessions have the id s"),
    ("prompt-unknown", RunsAnySession, "ran it"),
    ("cancel-unknown", AnswersNotifications, "answered a notification"),
    ("load", RepeatsNothing, "sent no history before the answer"),
    ("load", RepeatsBehindTheAnswer, "but 1 updates after it"),
    ("load-unknown", RunsAnySession, "answered with a result"),
    ("resume", RepeatsWhatItResumes, "repeated 1 updates"),
    ("resume-unknown", RunsAnySession, "answered with a result"),
    ("list", ListsWithoutFolders, "without an absolute cwd"),
    ("close-in-turn", RunsOnWhenClosed, "the prompt ended with end_turn"),
    ("turn", EndsForNoReason, "the stop reason is 'finished'"),
    ("cancel-idle", KeepsCancels, "the next prompt was cancelled"),
    ("cancel-text", EndsWhatIsCancelled, "the prompt ended with end_turn"),
    ("cancel-text", FailsWhatIsCancelled, "an error (-32603 AbortError)"),
    ("cancel-text", IgnoresCancels, "the turn continued to its end"),
    ("cancel-at-once", LosesEarlyCancels, "the turn continued to its end"),
    ("quiet-after-cancel", TalksAfterACancel, "1 updates arrived after the end"),
    ("after-cancel", KeepsCancels, "the next prompt was cancelled"),
    ("cancel-twice", KeepsCancels, "the next prompt was cancelled"),
    ("two-prompts", ForgetsTheSecond, "did not arrive within 30 s"),
    ("two-sessions", CancelsAll, "the turn of another session was cancelled"),
    ("permission-request", AsksWithoutOptions, "its options are []"),
    ("permission-allowed", NeverDoesIt, "was not created"),
    ("permission-rejected", DoesItAnyway, "the call was rejected, and"),
    ("permission-cancelled", DoesItAnyway, "the call was cancelled, and"),
    ("permission-cancelled", EndsWhatIsCancelled, "the prompt ended with end_turn"),
    ("permission-late", TakesTheLastAnswer, "was created"),
    ("permission-twice", TakesTheLastAnswer, "was created"),
    ("permission-unknown-option", DoesItAnyway, "was created"),
    ("permission-error", DoesItAnyway, "was created"),
    ("eof", StaysWithoutInput, "is still running 10 s after the end of its input"),
    ("eof-at-once", StaysWithoutInput, "is still running"),
    ("eof-in-turn", StaysWithoutInput, "is still running"),
    ("eof-at-question", StaysWithoutInput, "is still running"),
    ("sigterm", StaysWithoutInput, "is still running 10 s after SIGTERM"),
    ("sigterm-in-turn", StaysWithoutInput, "is still running"),
]


@pytest.mark.parametrize(("check", "agent", "words"), FLAWS)
async def test_a_planted_flaw_is_found_by_its_check(
    check: str, agent: type[GoodAgent], words: str, autojump_clock: MockClock
) -> None:
    found = await finding(agent, check)
    assert found.verdict == "failed"
    assert words in found.words


OPEN = {
    *("initialize-text", "initialize-twice", "uninitialized", "close-unknown", "cancel-request"),
    "permission-unanswered",
}
"""Checks of what the specification leaves open: an agent can only answer differently."""
NEVER_FAILED = OPEN | {"missing-params", "list-has-it", "list-cursor", "delete-unknown"}
"""Checks that an agent either passes or answers differently."""


async def test_a_refusal_of_version_0_that_names_the_versions_is_fine(
    autojump_clock: MockClock,
) -> None:
    found = await finding(NamesItsVersions, "initialize-zero")
    assert (found.verdict, found.words) == ("passed", "refused, and supports 1, 2")


def test_every_check_that_can_fail_has_a_planted_flaw() -> None:
    assert {check for check, _, _ in FLAWS} == {*names_of_checks("acp")} - NEVER_FAILED


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agent", "check", "words"),
    [(Prints, "stdout", "session created"), (ReadsFiles, "unoffered", "fs/read_text_file")],
)
async def test_what_no_check_is_about_is_seen_in_all_of_them(
    agent: type[GoodAgent], check: str, words: str, autojump_clock: MockClock
) -> None:
    report = await checked(agent)
    [found] = [each for each in report.findings if each.check == check]
    assert found.verdict == "failed"
    assert words in found.words
    assert report.broken


class SendsAnUpdateOfItsOwn(GoodAgent):
    def say(self, session: Session, text: str) -> None:
        super().say(session, text)
        self.update(session, "dance", steps=3)


async def test_messages_that_the_tables_do_not_know_are_named(autojump_clock: MockClock) -> None:
    report = await checked(SendsAnUpdateOfItsOwn)
    [found] = [each for each in report.findings if each.check == "known-messages"]
    assert (found.verdict, found.words) == ("different", "the agent sent a dance")
    assert not report.broken


# --- what could not be found out


class Minimal(GoodAgent):
    capabilities = {}


class NeverAsks(GoodAgent):
    async def permission(self, session: Session) -> None:
        self.say(session, "no need to ask")


class WantsALogin(GoodAgent):
    def on_session_new(self, params: dict[str, Any]) -> Any:
        raise Refused(-32000, "Authentication required")


class IsBriefInAll(GoodAgent):
    async def long(self, session: Session) -> None:
        self.say(session, "that is all")


class NeverAnswers(GoodAgent):
    def line(self, line: bytes) -> None:
        pass


@pytest.mark.parametrize("check", ["load", "resume", "list", "close-in-turn", "delete-unknown"])
async def test_what_an_agent_does_not_offer_is_not_asked_of_it(
    check: str, autojump_clock: MockClock
) -> None:
    assert (await finding(Minimal, check)).verdict == "unsupported"
    assert "loadSession" in CAPABILITIES


@pytest.mark.parametrize(
    ("agent", "check", "words"),
    [
        (NeverAsks, "permission-rejected", "it did not ask (--permission): end_turn"),
        (WantsALogin, "cancel-text", "-32000 Authentication required"),
        (WantsALogin, "turn", "-32000 Authentication required"),
        (IsBriefInAll, "cancel-text", "ended after 0.0 s (--long)"),
        (NeverAnswers, "unknown-method", "the answer to initialize did not arrive within 30 s"),
    ],
)
async def test_what_could_not_be_provoked_is_no_pass_and_no_failure(
    agent: type[GoodAgent], check: str, words: str, autojump_clock: MockClock
) -> None:
    found = await finding(agent, check)
    assert found.verdict == "inconclusive"
    assert words in found.words


async def test_an_agent_that_never_answers_is_done_with_in_the_time_of_each_check(
    autojump_clock: MockClock,
) -> None:
    began = trio.current_time()
    report = await check_agent(
        NeverAnswers.start, prompts=PROMPTS, timeout=2, only=["initialize", "turn", "eof"]
    )
    assert trio.current_time() - began < 10
    assert [each.verdict for each in report.findings] == ["failed", "inconclusive", "inconclusive"]
    assert report.broken


class SpeaksOnlyOfUnknownMethods(GoodAgent):
    def request(self, id: Any, method: str, params: dict[str, Any]) -> None:
        if method.startswith("_"):
            self.send({"id": id, "error": {"code": -32603, "message": "what?"}})
        else:
            super().request(id, method, params)


async def test_an_error_of_another_code_breaks_only_an_advice(autojump_clock: MockClock) -> None:
    found = await finding(SpeaksOnlyOfUnknownMethods, "unknown-method")
    assert (found.verdict, found.level, found.broken) == ("failed", "should", False)


async def test_each_check_leaves_what_went_over_the_wire(tmp_path: Path) -> None:
    # By the real clock: the other one would not wait for the thread that writes the file.
    for _ in range(2):  # the second run replaces what the first one wrote
        found = await finding(GoodAgent, "initialize-zero", traces=tmp_path)
    assert found.trace == str(tmp_path / "initialize-zero.ndjson")
    sent = [record.text for record in read_trace(found.trace) if record.kind == "sent"]
    [line] = sent
    assert '"protocolVersion":0' in line


def test_prompts_have_defaults_that_any_model_understands() -> None:
    assert "touch agentrt-checked.txt" in ConformancePrompts().permission
