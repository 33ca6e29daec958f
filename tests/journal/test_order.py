"""A prompt, and what is allowed, reaches the agent when it is stored; a stop waits for nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import wait_all_tasks_blocked

import agentrt
from agentrt import Limits, PermissionRequest, Policy
from agentrt.errors import StoreUnavailable
from agentrt.store import open_store
from agentrt.testing import open_fake_runtime

from .disks import Disk, disk_of
from .stepped import Puppet, SteppedStore, kept, stepped


def leave_open(request: PermissionRequest) -> agentrt.permissions.Ask:
    return agentrt.permissions.Ask()


def allow(request: PermissionRequest) -> agentrt.Allow:
    return agentrt.Allow()


@pytest.fixture(params=["acp", "claude"])
def puppet(request: pytest.FixtureRequest) -> Puppet:
    return Puppet(request.param)


@pytest.fixture
async def store(path: Path) -> Any:
    with stepped(path) as store:
        yield store


async def asked(session: agentrt.Session, puppet: Puppet) -> str:
    """Prompt, and have the agent ask; returns the question."""
    session.submit("hello")
    await wait_all_tasks_blocked()
    puppet.ask()
    await wait_all_tasks_blocked()
    [request] = session.pending_permissions
    return request


# --- prompts


async def test_a_prompt_reaches_the_agent_when_it_is_stored(
    store: SteppedStore, puppet: Puppet
) -> None:
    async with kept(store, puppet) as session:
        store.stalled = True
        turn = session.submit("hello")
        await wait_all_tasks_blocked()
        assert puppet.prompts == []
        store.go_on()
        await wait_all_tasks_blocked()
        assert puppet.prompts == ["hello"]
        puppet.end()
        await wait_all_tasks_blocked()
        assert turn.result.outcome == "completed"


async def test_a_prompt_that_is_cancelled_before_it_is_stored_is_never_sent(
    store: SteppedStore, puppet: Puppet
) -> None:
    async with kept(store, puppet) as session:
        store.stalled = True
        turn = session.submit("hello")
        session.cancel()
        assert turn.result.outcome == "cancelled"
        assert turn.result.by == "user"
        store.go_on()
        await wait_all_tasks_blocked()
        assert puppet.prompts == []
        assert puppet.cancels == 0
        session.submit("again")
        await wait_all_tasks_blocked()
        puppet.end()
        await wait_all_tasks_blocked()
        assert puppet.prompts == ["again"]
    outcomes = [each.outcome for each in (await store.snapshot("id1")).turns]
    assert outcomes == ["cancelled", "completed"]


async def test_a_prompt_whose_block_is_left_before_it_is_stored_is_never_sent(
    store: SteppedStore, puppet: Puppet, autojump_clock: trio.abc.Clock
) -> None:
    async with kept(store, puppet) as session:
        store.stalled = True
        with trio.move_on_after(1):
            await session.run("hello")
        store.go_on()
        await wait_all_tasks_blocked()
        assert puppet.prompts == []


async def test_the_wait_for_the_store_is_no_silence_of_the_agent(
    store: SteppedStore, puppet: Puppet, autojump_clock: trio.abc.Clock
) -> None:
    limits = Limits(idle_timeout_s=3, cancel_grace_s=1)
    async with kept(store, puppet, limits=limits) as session:
        store.stalled = True
        turn = session.submit("hello")
        await trio.sleep(10)
        assert not turn.ended
        store.go_on()
        await trio.sleep(2)
        assert not turn.ended
        await trio.sleep(10)
        assert turn.result.outcome == "timed_out"


async def test_the_wait_for_the_store_is_no_hang_of_the_agent(
    store: SteppedStore, puppet: Puppet, autojump_clock: trio.abc.Clock
) -> None:
    limits = Limits(busy_silence_timeout_s=3, cancel_grace_s=1)
    async with open_fake_runtime({"puppet": puppet.start}, store=store, limits=limits) as runtime:
        session = await runtime.create("puppet", cwd="/")
        store.stalled = True
        turn = session.submit("hello")
        await trio.sleep(10)
        assert not turn.ended
        store.go_on()
        await trio.sleep(10)
        assert turn.result.outcome == "timed_out"


async def test_an_agent_that_is_not_read_because_too_much_waits_is_not_silent(
    path: Path, autojump_clock: trio.abc.Clock
) -> None:
    limits, puppet = (
        Limits(idle_timeout_s=3, cancel_grace_s=1, store_session_bytes=5000),
        Puppet("acp"),
    )
    with stepped(path, limits) as store:
        async with kept(store, puppet, limits=limits) as session:
            turn = session.submit("hello")
            await wait_all_tasks_blocked()
            store.stalled = True
            for _ in range(20):
                puppet.say("word " * 1000)
                await trio.sleep(0.5)
            assert not turn.ended
            store.go_on()
            await trio.sleep(2)
            assert not turn.ended
            await trio.sleep(10)
            assert turn.result.outcome == "timed_out"
            assert len(turn.result.text) == 100_000


async def test_an_agent_that_is_not_read_because_of_another_session_is_read_when_that_is_stored(
    path: Path,
) -> None:
    limits, first, second = Limits(store_backlog_bytes=5000), Puppet("acp"), Puppet("acp")
    with stepped(path, limits) as store:
        async with (
            kept(store, first, limits=limits) as one,
            kept(store, second, limits=limits, first=11) as two,
        ):
            one.submit("hello")
            await wait_all_tasks_blocked()
            store.stalled = True
            first.say("word " * 2000)
            await wait_all_tasks_blocked()
            second.say("and")
            await wait_all_tasks_blocked()
            second.say("I")
            await wait_all_tasks_blocked()
            assert not two.snapshot().items
            store.go_on()
            await wait_all_tasks_blocked()
            assert [item.text for item in two.snapshot().items] == ["andI"]
            first.end()
            await wait_all_tasks_blocked()
            await two.aclose()


async def test_the_hard_limit_ends_a_turn_whose_prompt_is_not_stored(
    store: SteppedStore, puppet: Puppet, autojump_clock: trio.abc.Clock
) -> None:
    async with kept(store, puppet, limits=Limits(turn_timeout_s=3)) as session:
        store.stalled = True
        turn = session.submit("hello")
        await trio.sleep(4)
        assert turn.result.outcome == "timed_out"
        store.go_on()
        await wait_all_tasks_blocked()
        assert puppet.prompts == []


async def test_a_prompt_that_is_not_stored_dies_with_its_process(
    store: SteppedStore, puppet: Puppet
) -> None:
    async with kept(store, puppet) as session:
        store.stalled = True
        turn = session.submit("hello")
        puppet.exit()
        await wait_all_tasks_blocked()
        assert turn.result.outcome == "agent_died"
        session.submit("again")
        store.go_on()
        await wait_all_tasks_blocked()
        assert puppet.starts == 2
        assert puppet.prompts == ["again"]
        puppet.end()


async def test_a_prompt_into_a_running_turn_reaches_the_agent_when_it_is_stored(
    store: SteppedStore, autojump_clock: trio.abc.Clock
) -> None:
    puppet = Puppet("claude")
    async with kept(store, puppet) as session:
        session.submit("hello")
        await wait_all_tasks_blocked()
        store.stalled = True
        session.steer("faster")
        await wait_all_tasks_blocked()
        assert puppet.prompts == ["hello"]
        store.go_on()
        await wait_all_tasks_blocked()
        assert puppet.prompts == ["hello", "faster"]
        store.stalled = True
        session.steer("slower")
        session.cancel()
        store.go_on()
        await wait_all_tasks_blocked()
        assert puppet.prompts == ["hello", "faster"]
        puppet.end(cancelled=True)


async def test_a_store_without_a_gate_shows_at_once_and_holds_back_the_same(
    store: SteppedStore, puppet: Puppet
) -> None:
    store.show_only_stored = False
    async with kept(store, puppet, permissions=leave_open) as session:
        request = await asked(session, puppet)
        store.stalled = True
        session.answer(request, "allow_once")
        shown = session.log.seq
        session.rename("another title")
        assert session.log.seq == shown + 1
        await wait_all_tasks_blocked()
        assert puppet.answers == []
        store.go_on()
        await wait_all_tasks_blocked()
        assert puppet.answers == ["allow"]
        puppet.end()
        await wait_all_tasks_blocked()
        snapshot = session.log.snapshot()
    assert (await store.snapshot("id1")).turns == snapshot.turns


# --- questions


async def test_an_allow_reaches_the_agent_when_it_is_stored(
    store: SteppedStore, puppet: Puppet
) -> None:
    async with kept(store, puppet, permissions=leave_open) as session:
        request = await asked(session, puppet)
        store.stalled = True
        session.answer(request, "allow_once")
        await wait_all_tasks_blocked()
        assert puppet.answers == []
        assert session.pending_permissions == {}
        store.go_on()
        await wait_all_tasks_blocked()
        assert puppet.answers == ["allow"]
        puppet.end()


async def test_a_policys_allow_waits_as_a_persons_does(store: SteppedStore, puppet: Puppet) -> None:
    async with kept(store, puppet, permissions=allow) as session:
        session.submit("hello")
        await wait_all_tasks_blocked()
        store.stalled = True
        puppet.ask()
        await wait_all_tasks_blocked()
        assert puppet.answers == []
        store.go_on()
        await wait_all_tasks_blocked()
        assert puppet.answers == ["allow"]
        puppet.end()


async def hesitant(request: PermissionRequest) -> agentrt.Deny:
    await trio.sleep_forever()
    raise AssertionError


async def test_a_policy_that_is_not_waited_for_any_more_rejects_no_allow_that_waits(
    store: SteppedStore, puppet: Puppet
) -> None:
    async with kept(store, puppet, permissions=hesitant) as session:
        request = await asked(session, puppet)
        store.stalled = True
        session.answer(request, "allow_once")
        await wait_all_tasks_blocked()
        assert puppet.answers == []
        store.go_on()
        await wait_all_tasks_blocked()
        assert puppet.answers == ["allow"]
        puppet.end()


async def denying(request: PermissionRequest) -> agentrt.Deny:
    await trio.lowlevel.checkpoint()
    return agentrt.Deny()


@pytest.mark.parametrize("policy", [agentrt.deny_all, denying])
async def test_a_policys_denial_waits_for_nothing(
    store: SteppedStore, puppet: Puppet, policy: Policy
) -> None:
    """Not even if the question comes while the store is stalled already."""
    async with kept(store, puppet, permissions=policy) as session:
        session.submit("hello")
        await wait_all_tasks_blocked()
        store.stalled = True
        puppet.ask()
        await wait_all_tasks_blocked()
        assert puppet.answers == ["deny"]
        puppet.end()
        store.go_on()


@pytest.mark.parametrize("how", ["reject", "dismiss"])
async def test_a_rejection_waits_for_nothing(store: SteppedStore, puppet: Puppet, how: str) -> None:
    async with kept(store, puppet, permissions=leave_open) as session:
        request = await asked(session, puppet)
        store.stalled = True
        if how == "reject":
            session.answer(request, "reject_once")
        else:
            session.dismiss(request)
        await wait_all_tasks_blocked()
        assert puppet.answers == ["deny"]
        puppet.end()
        store.go_on()


async def test_a_cancel_reaches_the_agent_and_an_allow_before_it_does_not(
    store: SteppedStore, puppet: Puppet
) -> None:
    async with kept(store, puppet, permissions=leave_open) as session:
        request = await asked(session, puppet)
        store.stalled = True
        session.answer(request, "allow_once")
        session.cancel()
        await wait_all_tasks_blocked()
        assert puppet.cancels == 1
        assert puppet.answers == ["deny"]
        puppet.end(cancelled=True)
        store.go_on()
        await wait_all_tasks_blocked()
        assert puppet.answers == ["deny"]


async def test_an_allow_is_not_sent_behind_the_end_of_its_turn(
    store: SteppedStore, puppet: Puppet
) -> None:
    async with kept(store, puppet, permissions=leave_open) as session:
        request = await asked(session, puppet)
        store.stalled = True
        session.answer(request, "allow_once")
        puppet.end()
        await wait_all_tasks_blocked()
        store.go_on()
        await wait_all_tasks_blocked()
        assert puppet.answers == ["deny"]


async def test_a_filled_form_reaches_the_agent_when_it_is_stored(
    store: SteppedStore, puppet: Puppet
) -> None:
    async with kept(store, puppet, permissions=leave_open) as session:
        session.submit("hello")
        await wait_all_tasks_blocked()
        puppet.ask_form()
        await wait_all_tasks_blocked()
        [request] = session.pending_permissions
        store.stalled = True
        session.submit_form(request, {"name": "Ada"})
        await wait_all_tasks_blocked()
        assert puppet.forms == []
        store.go_on()
        await wait_all_tasks_blocked()
        assert puppet.forms == ["accept"]
        puppet.end()


# --- hooks

ALLOW = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}
OTHER_INPUT = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": {}}}
REQUEST = "PermissionRequest"
LET = {"hookSpecificOutput": {"hookEventName": REQUEST, "decision": {"behavior": "allow"}}}
GO_ON = {"decision": "block", "reason": "the tests have not run"}


def hook(event: str, answer: dict[str, Any] | None) -> agentrt.tools.Hook:
    @agentrt.hook(event)
    async def always(input: dict[str, Any]) -> dict[str, Any] | None:
        return answer

    return always


async def unstored_hook(
    session: agentrt.Session, store: SteppedStore, puppet: Puppet
) -> agentrt.Turn:
    """Prompt, and have the agent ask the hook about something that is not stored yet."""
    turn = session.submit("hello")
    await wait_all_tasks_blocked()
    store.stalled = True
    session.rename("another title")
    puppet.ask_hook()
    await wait_all_tasks_blocked()
    return turn


@pytest.mark.parametrize(
    ("event", "answer"),
    [("PreToolUse", ALLOW), ("PreToolUse", OTHER_INPUT), (REQUEST, LET), ("Stop", GO_ON)],
)
async def test_what_a_hook_allows_reaches_the_agent_when_all_before_it_is_stored(
    store: SteppedStore, event: str, answer: dict[str, Any]
) -> None:
    puppet = Puppet("claude")
    async with kept(store, puppet, hooks=(hook(event, answer),)) as session:
        await unstored_hook(session, store, puppet)
        assert puppet.hook_answers == []
        store.go_on()
        await wait_all_tasks_blocked()
        assert puppet.hook_answers == [answer]
        puppet.end()


@pytest.mark.parametrize(
    ("event", "answer"),
    [
        ("PreToolUse", None),
        ("PreToolUse", {"decision": "block", "reason": "not here"}),
        ("PreToolUse", {"hookSpecificOutput": {"permissionDecision": "deny"}}),
        ("PreToolUse", {"hookSpecificOutput": {"permissionDecision": "ask"}}),
        (REQUEST, {"hookSpecificOutput": {"decision": {"behavior": "deny"}}}),
        ("Stop", {"continue": False}),
    ],
)
async def test_a_hook_that_allows_nothing_waits_for_nothing(
    store: SteppedStore, event: str, answer: dict[str, Any] | None
) -> None:
    puppet = Puppet("claude")
    async with kept(store, puppet, hooks=(hook(event, answer),)) as session:
        await unstored_hook(session, store, puppet)
        assert puppet.hook_answers == [answer or {}]
        puppet.end()
        store.go_on()


async def test_what_a_hook_allows_is_not_sent_behind_a_cancel(store: SteppedStore) -> None:
    puppet = Puppet("claude")
    async with kept(store, puppet, hooks=(hook("PreToolUse", ALLOW),)) as session:
        await unstored_hook(session, store, puppet)
        session.cancel()
        await wait_all_tasks_blocked()
        assert puppet.hook_answers == [None]
        puppet.end(cancelled=True)
        store.go_on()
        await wait_all_tasks_blocked()
        assert puppet.hook_answers == [None]


async def test_what_a_hook_allows_is_not_sent_if_the_store_fails_for_too_long(
    store: SteppedStore, autojump_clock: trio.abc.Clock
) -> None:
    puppet = Puppet("claude")
    async with (
        kept(store, puppet, hooks=(hook("PreToolUse", ALLOW),)) as session,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(store._watch)
        await unstored_hook(session, store, puppet)
        fail(store)
        await trio.sleep(Limits().store_failure_timeout_s + 1)
        assert puppet.hook_answers == [None]
        puppet.end(cancelled=True)
        store.well()
        store.go_on()
        nursery.cancel_scope.cancel()


# --- a store that fails


def fail(store: SteppedStore) -> None:
    store.stalled = True
    store.failing(OSError("no space"), final=False)


async def test_while_the_store_fails_nothing_is_allowed(
    store: SteppedStore, puppet: Puppet
) -> None:
    async with kept(store, puppet, permissions=leave_open) as session:
        request = await asked(session, puppet)
        fail(store)
        with pytest.raises(StoreUnavailable):
            session.answer(request, "allow_once")
        session.answer(request, "reject_once")
        await wait_all_tasks_blocked()
        assert puppet.answers == ["deny"]
        puppet.end()
        store.well()
        store.go_on()


async def test_prompts_that_wait_are_begun_when_the_store_works_again(
    store: SteppedStore, puppet: Puppet, autojump_clock: trio.abc.Clock
) -> None:
    raised = []

    async def wait(session: agentrt.Session) -> None:
        try:
            await session.run("third")
        except StoreUnavailable as error:
            raised.append(error)

    async with kept(store, puppet) as session, trio.open_nursery() as nursery:
        nursery.start_soon(store._watch)
        turn = session.submit("first")
        await wait_all_tasks_blocked()
        session.submit("second")
        nursery.start_soon(wait, session)
        await wait_all_tasks_blocked()
        fail(store)
        await trio.sleep(Limits().store_failure_timeout_s + 1)
        puppet.end(cancelled=True)
        await trio.sleep(10)
        assert turn.result.outcome == "failed"
        assert len(raised) == 1  # who waited is not kept waiting
        assert puppet.prompts == ["first"]
        store.well()
        store.go_on()
        await wait_all_tasks_blocked()
        assert puppet.prompts == ["first", "second"]
        puppet.end()
        nursery.cancel_scope.cancel()


# --- the real thing


@pytest.fixture
def disk(path: Path) -> Iterator[Disk]:
    yield from disk_of(path)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - a thread brings it about
        await trio.sleep(0.01)


async def test_a_disk_that_hangs_keeps_an_allow_back_and_no_cancel(
    disk: Disk, puppet: Puppet
) -> None:
    async with open_store(disk.backend) as store:
        async with kept(store, puppet, permissions=leave_open) as session:
            turn = session.submit("hello")
            await until(lambda: puppet.prompts != [])
            puppet.ask()
            await until(lambda: bool(session.pending_permissions))
            disk.hang()
            session.answer(next(iter(session.pending_permissions)), "allow_once")
            session.cancel()
            await until(lambda: puppet.cancels > 0)
            puppet.end(cancelled=True)
            await until(lambda: turn.ended)
            assert puppet.answers == ["deny"]
            disk.answer()
        assert [each.outcome for each in (await store.snapshot("id1")).turns] == ["cancelled"]
