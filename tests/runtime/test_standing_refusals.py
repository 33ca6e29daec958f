"""A deny holds for the life of a session, or its violation is reported in the same turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

import agentrt
from agentrt import LocalProtocolError, Policy
from agentrt._core.permissions.standing import Standing, as_claude_rules, is_unasked
from agentrt.agents import acp
from agentrt.events import JsonObject
from agentrt.hosting import ChangingPolicy
from agentrt.permissions import PermissionRequest
from agentrt.testing import (
    FakeAcpAgent,
    FakeClaudeAgent,
    FakeCodexAgent,
    MemoryAgent,
    open_fake_session,
)

DENY = ["Bash(rm:*)", "Write", "mcp__marks__*"]
CALLS: list[tuple[str, str, JsonObject]] = [
    ("Bash", "rm -rf build", {"command": "rm -rf build"}),
    ("Bash", "true; rm -rf build", {"command": "true; rm -rf build"}),
    ("Write", "Write /w/f.txt", {"file_path": "/w/f.txt", "content": "x"}),
    ("mcp__marks__leave_mark", "leave_mark", {"where": "here"}),
]
"""Calls that one of the rules is about."""
SUGGESTIONS: list[JsonObject] = [
    {
        "type": "addRules",
        "behavior": "allow",
        "rules": [{"toolName": "Bash", "ruleContent": "mkdir:*"}],
        "destination": "localSettings",
    },
    {"type": "addDirectories", "directories": ["/elsewhere"], "destination": "session"},
    {"type": "setMode", "mode": "acceptEdits", "destination": "session"},
    {"type": "setMode", "mode": "bypassPermissions", "destination": "session"},
    {
        "type": "removeRules",
        "behavior": "deny",
        "rules": [{"toolName": "Bash", "ruleContent": "rm:*"}],
        "destination": "userSettings",
    },
    {
        "type": "addRules",
        "behavior": "deny",
        "rules": [{"toolName": "Bash", "ruleContent": "ls:*"}],
        "destination": "session",
    },
]
MODES = ["default", "acceptEdits", "plan", "dontAsk", "auto", "bypassPermissions"]
POLICIES: dict[str, Callable[[], Policy]] = {
    "deny rules": lambda: agentrt.rules(deny=DENY, otherwise=agentrt.ask),
    "deny rules, all else allowed": lambda: agentrt.rules(deny=DENY, otherwise=agentrt.allow_all),
    "deny_all": lambda: agentrt.deny_all,
    "rules before deny_all": lambda: agentrt.rules(allow=["Bash(mkdir:*)"]),
    "rules that change": lambda: ChangingPolicy(agentrt.rules(deny=DENY, otherwise=agentrt.ask)),
}


async def run(
    script: Callable[[Any], Awaitable[None]],
    policy: Policy | None,
    *,
    fake: type[Any] = FakeAcpAgent,
    choose: Callable[[agentrt.PermissionOpened], str | None] = lambda request: None,
    before: Callable[[agentrt.Session], Awaitable[None]] | None = None,
    session: JsonObject | None = None,
    **more: Any,
) -> list[agentrt.Event]:
    """The events of one turn, in which `script` is what the agent does; `choose` answers."""
    protocol = {FakeAcpAgent: "acp", FakeClaudeAgent: "claude", FakeCodexAgent: "codex"}[fake]
    given = {"new_session": session} if session is not None else {}

    async def serve(process: MemoryAgent) -> None:
        async with fake.serving(process, **given) as agent, trio.open_nursery() as nursery:
            if session is not None:
                nursery.start_soon(_answer_settings, agent)
            async for prompt in agent.prompts:
                await script(agent)
                prompt.end()
            nursery.cancel_scope.cancel()

    events = []
    opening = open_fake_session(
        partial(MemoryAgent, serve), permissions=policy, protocol=protocol, **more
    )
    with trio.fail_after(30):
        async with opening as opened:
            if before is not None:
                await before(opened)
            async with opened.prompt("go", check=False) as turn:
                async for event in turn:
                    events.append(event)
                    if isinstance(event, agentrt.PermissionOpened):
                        option = (
                            choose(event) if event.request in opened.pending_permissions else None
                        )
                        if option is not None:
                            turn.answer(event.request, option)
                        elif event.request in opened.pending_permissions:
                            turn.answer(event.request, "reject_once")
    return events


async def _answer_settings(agent: FakeAcpAgent) -> None:
    async for message in agent.requests:
        agent.result(message["id"], {})


def reported(events: list[agentrt.Event]) -> list[agentrt.Notice]:
    return [e for e in events if isinstance(e, agentrt.Notice) and e.code == "ran_unasked"]


# --- Claude Code: agentrt is asked before each call


CHOSEN = {
    "mode": st.sampled_from(MODES),
    "option": st.integers(0, 7),
    "policy": st.sampled_from(sorted(POLICIES)),
    "call": st.sampled_from(CALLS),
    "persisted": st.booleans(),
}


@settings(max_examples=6, deadline=None)
@given(**CHOSEN)
def test_no_mode_and_no_always_lets_a_denied_call_run(**chosen: Any) -> None:
    check_that_it_holds(**chosen)


@pytest.mark.slow
@settings(max_examples=1000, deadline=None)
@given(**CHOSEN)
def test_no_mode_and_no_always_of_a_thousand_lets_a_denied_call_run(**chosen: Any) -> None:
    check_that_it_holds(**chosen)


def check_that_it_holds(
    mode: str, option: int, policy: str, call: tuple[str, str, JsonObject], persisted: bool
) -> None:
    name, title, arguments = call
    ran: list[bool] = []

    async def script(agent: FakeClaudeAgent) -> None:
        if persisted:  # by an earlier session, into the agent's own settings
            agent.allowed |= {"Bash", "Write", "mcp__marks__leave_mark"}
        await agent.attempt("c1", "mkdir build", suggestions=SUGGESTIONS)
        agent.mode = mode
        ran.append(await agent.attempt("c2", title, name=name, **arguments))

    def choose(request: agentrt.PermissionOpened) -> str:
        return request.options[min(option, len(request.options) - 1)].id

    events = trio.run(partial(run, script, POLICIES[policy](), fake=FakeClaudeAgent, choose=choose))
    assert ran == [False]
    closes = [e for e in events if isinstance(e, agentrt.events.PermissionClosed)]
    assert any(e.by == "policy" and "deny" in e.rule for e in closes)
    assert reported(events) == []


async def test_a_doubtful_call_is_asked_in_a_mode_that_asks_nothing() -> None:
    ran: list[bool] = []

    async def script(agent: FakeClaudeAgent) -> None:
        agent.mode = "bypassPermissions"
        ran.append(await agent.attempt("c1", "sh clean.sh"))
        ran.append(await agent.attempt("c2", "echo done"))

    policy = agentrt.rules(deny=DENY, otherwise=agentrt.ask)
    events = await run(script, policy, fake=FakeClaudeAgent, choose=lambda r: "allow_once")
    asked = [e.title for e in events if isinstance(e, agentrt.PermissionOpened)]
    assert (asked, ran) == (["sh clean.sh"], [True, True])
    assert reported(events) == []


async def test_a_call_that_no_rule_is_about_goes_the_agents_own_way() -> None:
    ran: list[bool] = []

    async def script(agent: FakeClaudeAgent) -> None:
        ran.append(await agent.attempt("c1", "Read it", name="Read", file_path="/w/a"))
        agent.mode = "bypassPermissions"
        ran.append(await agent.attempt("c2", "Read it", name="Read", file_path="/w/a"))

    events = await run(script, agentrt.deny_all, fake=FakeClaudeAgent)
    assert ran == [False, True]
    assert reported(events) == []


async def test_without_a_policy_that_denies_claude_is_not_slowed_down() -> None:
    hooks: list[JsonObject] = []

    async def script(agent: FakeClaudeAgent) -> None:
        hooks.append(agent.hooks)

    for policy in (None, agentrt.ask, agentrt.allow_all, agentrt.rules(allow=["Read"])):
        await run(script, policy, fake=FakeClaudeAgent)
    assert [sorted(each) for each in hooks] == [[], [], [], ["PostToolUse", "PreToolUse"]]


async def test_a_denial_before_the_question_is_in_the_result() -> None:
    async def script(agent: FakeClaudeAgent) -> None:
        agent.mode = "bypassPermissions"
        await agent.attempt("c1", "rm x")

    async def serve(process: MemoryAgent) -> None:
        async with FakeClaudeAgent.serving(process) as agent:
            async for prompt in agent.prompts:
                await script(agent)
                prompt.end()

    policy = agentrt.rules(deny=DENY, otherwise=agentrt.allow_all)
    opening = open_fake_session(partial(MemoryAgent, serve), permissions=policy, protocol="claude")
    async with opening as session:
        result = await session.run("go")
    [denial] = result.denials
    assert (denial.title, denial.by) == ("rm x", "policy")
    assert denial.reason == "Denied by the rule Bash(rm:*)."


async def test_the_input_that_a_tool_has_run_with_is_judged_as_well() -> None:
    async def script(agent: FakeClaudeAgent) -> None:
        [after] = agent.hooks["PostToolUse"]
        [callback] = after["hookCallbackIds"]
        given = {"tool_name": "Bash", "tool_input": {"command": "rm x"}}
        await agent.request("hook_callback", callback_id=callback, tool_use_id="c1", input=given)

    events = await run(
        script, agentrt.rules(deny=DENY, otherwise=agentrt.ask), fake=FakeClaudeAgent
    )
    [notice] = reported(events)
    assert notice.data["rule"] == "deny Bash(rm:*)"


async def test_rules_that_change_hold_from_then_on() -> None:
    policy = ChangingPolicy(agentrt.allow_all)
    ran: list[bool] = []

    async def script(agent: FakeClaudeAgent) -> None:
        ran.append(await agent.attempt("c1", "rm x"))
        policy.policy = agentrt.rules(deny=DENY, otherwise=agentrt.allow_all)
        ran.append(await agent.attempt("c2", "rm x"))

    await run(script, policy, fake=FakeClaudeAgent)
    assert ran == [True, False]


# --- the options of Claude Code


async def offered(**fields: Any) -> list[tuple[str, str, str]]:
    found: list[tuple[str, str, str]] = []

    async def script(agent: FakeClaudeAgent) -> None:
        request = {"tool_name": "Bash", "input": {"command": "mkdir x"}, "tool_use_id": "c1"}
        await agent.request("can_use_tool", **{**request, **fields})

    def choose(request: agentrt.PermissionOpened) -> str:
        found.extend((o.id, o.name, o.effect) for o in request.options)
        return "reject_once"

    await run(script, agentrt.ask, fake=FakeClaudeAgent, choose=choose)
    return found


async def test_each_option_names_its_effect_and_its_scope() -> None:
    assert await offered(permission_suggestions=SUGGESTIONS) == [
        ("allow_once", "Allow", ""),
        ("allow_always", "Always allow Bash(mkdir:*) in this session", ""),
        (
            "allow_always:localSettings",
            "Always allow Bash(mkdir:*) for this project, in later sessions too (written to"
            " .claude/settings.local.json)",
            "",
        ),
        (
            "folder:/elsewhere",
            "Allow, and let the agent work in /elsewhere in this session",
            "folder",
        ),
        (
            "mode:acceptEdits",
            "Allow, and accept all edits of files in this session (mode acceptEdits)",
            "mode",
        ),
        ("reject_once", "Reject", ""),
    ]


ALLOWS_LS = {"toolName": "Bash", "ruleContent": "ls"}
HIDDEN: list[tuple[JsonObject, JsonObject]] = [
    # a suggestion, and the part of it that a label shows
    ({"rules": [ALLOWS_LS, {"toolName": "", "ruleContent": "rm:*"}]}, {}),
    ({"rules": [ALLOWS_LS, "Bash(rm:*)", {"toolName": 5}, None]}, {}),
    ({"rules": [ALLOWS_LS, {"toolName": "Bash", "ruleContent": ["rm"]}]}, {}),
    ({"rules": [{**ALLOWS_LS, "ruleContents": "rm:*", "behavior": "allow"}]}, {}),
    ({"rules": [ALLOWS_LS], "mode": "bypassPermissions", "directories": ["/"]}, {}),
    (
        {"type": "setMode", "mode": "acceptEdits", "rules": [{"toolName": "Bash"}]},
        {"type": "setMode", "mode": "acceptEdits"},
    ),
    (
        {
            "type": "addDirectories",
            "directories": ["/elsewhere", ["/"], None],
            "rules": [ALLOWS_LS],
        },
        {"type": "addDirectories", "directories": ["/elsewhere"]},
    ),
]


@pytest.mark.parametrize(("suggestion", "shown"), HIDDEN)
async def test_an_option_sends_no_more_than_its_label_shows(
    suggestion: JsonObject, shown: JsonObject
) -> None:
    sent: list[Any] = []

    async def script(agent: FakeClaudeAgent) -> None:
        answer = await agent.request(
            "can_use_tool",
            tool_name="Bash",
            input={"command": "ls"},
            tool_use_id="c1",
            permission_suggestions=[{"type": "addRules", "behavior": "allow", **suggestion}],
        )
        sent.extend(answer["response"]["updatedPermissions"])

    def choose(request: agentrt.PermissionOpened) -> str:
        return request.options[1].id

    await run(script, agentrt.ask, fake=FakeClaudeAgent, choose=choose)
    whole = shown or {"type": "addRules", "behavior": "allow", "rules": [ALLOWS_LS]}
    assert sent == [{**whole, "destination": "session"}]


async def test_an_edit_may_be_allowed_for_good_without_a_mode() -> None:
    options = await offered(
        tool_name="Write",
        input={"file_path": "/w/f.txt", "content": ""},
        permission_suggestions=[SUGGESTIONS[2]],
    )
    assert options[1] == ("allow_always", "Always allow Edit(/w/f.txt) in this session", "")


@settings(max_examples=8, deadline=None)
@given(chosen=st.lists(st.sampled_from(SUGGESTIONS), max_size=6), remember=st.booleans())
def test_an_always_never_changes_a_mode_or_a_folder(
    chosen: list[JsonObject], remember: bool
) -> None:
    answers: list[JsonObject] = []

    async def script(agent: FakeClaudeAgent) -> None:
        answer = await agent.request(
            "can_use_tool",
            tool_name="Bash",
            input={"command": "mkdir x"},
            tool_use_id="c1",
            permission_suggestions=chosen,
        )
        answers.append(answer["response"])

    def policy(request: PermissionRequest) -> agentrt.permissions.Decision:
        return agentrt.Allow(remember=remember)

    trio.run(partial(run, script, policy, fake=FakeClaudeAgent))
    [answer] = answers
    for update in answer.get("updatedPermissions", ()):
        assert (update["type"], update["behavior"]) == ("addRules", "allow")
        assert update["destination"] == "session"


# --- agents that are only watched


async def acp_rm(agent: FakeAcpAgent, **fields: Any) -> None:
    fields = {"kind": "execute", "rawInput": {"command": "rm -rf build"}, **fields}
    agent.use("c1", "rm -rf build", **fields)
    agent.used("c1", "done")


async def codex_rm(agent: FakeCodexAgent) -> None:
    agent.use("c1", "rm -rf build")
    agent.used("c1", "done")


async def claude_rm(agent: FakeClaudeAgent) -> None:
    agent.use("c1", "rm -rf build")  # one that asks no hooks, as a setting of it can have it
    agent.used("c1", "done")


WATCHED = [(FakeAcpAgent, acp_rm), (FakeCodexAgent, codex_rm), (FakeClaudeAgent, claude_rm)]


@pytest.mark.parametrize(("fake", "script"), WATCHED)
@pytest.mark.parametrize(
    ("policy", "rule"),
    [
        (agentrt.rules(deny=DENY, otherwise=agentrt.ask), "deny Bash(rm:*)"),
        (agentrt.deny_all, "deny_all"),
        (agentrt.rules(ask=["Bash"], otherwise=agentrt.allow_all), "ask Bash"),
    ],
)
async def test_a_call_that_ran_unasked_is_reported_in_its_turn(
    fake: type[Any], script: Any, policy: Policy, rule: str
) -> None:
    events = await run(script, policy, fake=fake)
    [notice] = reported(events)
    assert (notice.level, notice.data["rule"]) == ("warning", rule)
    assert rule in notice.message
    assert "rm -rf build" in notice.message
    assert isinstance(events[-1], agentrt.TurnEnded)
    assert events[-1].outcome == "completed"


@pytest.mark.parametrize(("fake", "script"), WATCHED)
async def test_a_violation_may_cancel_the_turn(fake: type[Any], script: Any) -> None:
    policy = agentrt.rules(deny=DENY, otherwise=agentrt.ask, on_violation="cancel")

    async def goes_on(agent: Any) -> None:
        await script(agent)
        with trio.move_on_after(10):
            await agent.prompt.cancelled.wait()

    events = await run(goes_on, policy, fake=fake)
    end = events[-1]
    assert isinstance(end, agentrt.TurnEnded)
    assert end.outcome == "cancelled"
    assert end.error is not None
    assert end.error.code == "ran_unasked"


async def test_deny_all_may_cancel_the_turn() -> None:
    events = await run(acp_rm, agentrt.rules(on_violation="cancel"))
    assert isinstance(events[-1], agentrt.TurnEnded)
    assert events[-1].outcome == "cancelled"


@pytest.mark.parametrize(
    "fields",
    [
        {"rawInput": {"command": "sh it.sh"}},
        {"rawInput": None},
        {"kind": "other", "rawInput": None},
        {"kind": "edit", "rawInput": {"path": "/w/f"}},
    ],
)
async def test_a_call_that_may_be_denied_is_reported(fields: JsonObject) -> None:
    events = await run(partial(acp_rm, **fields), agentrt.rules(deny=DENY, otherwise=agentrt.ask))
    assert len(reported(events)) == 1


async def test_a_call_that_had_begun_when_its_turn_ended_is_reported() -> None:
    async def script(agent: FakeAcpAgent) -> None:
        agent.use("c1", "rm x", kind="execute", rawInput={"command": "rm x"})

    events = await run(script, agentrt.rules(deny=DENY, otherwise=agentrt.ask))
    assert len(reported(events)) == 1


async def test_calls_that_only_look_are_not_reported() -> None:
    async def script(agent: FakeAcpAgent) -> None:
        for number, (kind, arguments) in enumerate(
            [
                ("read", {"path": "/w/a"}),
                ("search", {"pattern": "x"}),
                ("think", None),
                ("execute", {"command": "ls -la"}),
                ("execute", {"command": "cat a.txt | head -3"}),
            ]
        ):
            agent.use(f"c{number}", "look", kind=kind, rawInput=arguments)
            agent.used(f"c{number}")

    for policy in (agentrt.deny_all, agentrt.rules(deny=DENY, otherwise=agentrt.ask)):
        assert reported(await run(script, policy)) == []


async def test_a_call_that_was_asked_for_is_not_reported() -> None:
    async def script(agent: FakeAcpAgent) -> None:
        agent.use("c1", "sh it.sh", kind="execute", rawInput={"command": "sh it.sh"})
        await agent.ask("c1", "sh it.sh")
        agent.used("c1")

    policy = agentrt.rules(deny=DENY, otherwise=agentrt.ask)
    assert reported(await run(script, policy, choose=lambda r: "allow_once")) == []


async def test_an_always_is_not_a_question_about_the_next_call() -> None:
    async def script(agent: FakeAcpAgent) -> None:
        agent.use("c1", "touch a", kind="execute", rawInput={"command": "touch a"})
        await agent.ask("c1", "touch a")
        agent.used("c1")
        agent.use("c2", "rm a", kind="execute", rawInput={"command": "rm a"})
        agent.used("c2")

    policy = agentrt.rules(deny=DENY, otherwise=agentrt.ask)
    [notice] = reported(await run(script, policy, choose=lambda r: "allow_always"))
    assert notice.data["call"] == "c2"


# --- modes that ask for nothing

LOOSE = {
    "modes": {
        "currentModeId": "default",
        "availableModes": [
            {"id": "default", "name": "Default"},
            {"id": "yolo", "name": "YOLO"},
            {"id": "acceptEdits", "name": "Accept edits"},
        ],
    },
    "configOptions": [
        {
            "id": "approval",
            "name": "Approval",
            "type": "select",
            "category": "mode",
            "currentValue": "default",
            "options": [
                {"value": "default", "name": "Default"},
                {"value": "yolo", "name": "YOLO"},
                {"value": "acceptEdits", "name": "Accept edits"},
            ],
        }
    ],
}
DENIES = [agentrt.rules(deny=DENY, otherwise=agentrt.ask), agentrt.deny_all]


@pytest.mark.parametrize("policy", DENIES)
@pytest.mark.parametrize("mode", ["yolo", "acceptEdits", "YOLO", "Accept edits"])
async def test_a_mode_that_does_not_ask_is_refused(policy: Policy, mode: str) -> None:
    async def set_it(session: agentrt.Session) -> None:
        with pytest.raises(LocalProtocolError, match="does not ask for permission"):
            await session.set_mode(mode)
        with pytest.raises(LocalProtocolError, match="does not ask for permission"):
            await session.set_option("approval", mode)
        await session.set_mode("default")

    async def nothing(agent: FakeAcpAgent) -> None:
        pass

    await run(nothing, policy, before=set_it, session=LOOSE)


@pytest.mark.parametrize("policy", DENIES)
async def test_a_session_does_not_begin_in_such_a_mode(policy: Policy) -> None:
    for more in ({"mode": "yolo"}, {"options": {"config": {"mode": "yolo"}}}):
        with pytest.raises(LocalProtocolError, match="'yolo'"):
            async with open_fake_session(
                partial(MemoryAgent, FakeAcpAgent.serving), permissions=policy, **more
            ):
                pass


UNTOLD = {
    "modes": {
        "currentModeId": "m1",
        "availableModes": [
            {"id": "m1", "name": "Ask first"},
            {"id": "m2", "name": "Full auto"},
            {"id": "autopilot", "name": "Level 3"},
        ],
    },
    "configOptions": [
        {
            "id": "approvals",
            "name": "Approvals",
            "type": "select",
            "currentValue": "each",
            "options": [
                {"value": "each", "name": "Each"},
                {"value": "never", "name": "Off"},
                {"value": "a3", "name": "Trust all"},
            ],
        },
        {
            "id": "effort",
            "name": "Effort",
            "type": "select",
            "currentValue": "low",
            "options": [{"value": "low", "name": "Low"}, {"value": "auto", "name": "Auto"}],
        },
        {"id": "auto_run", "name": "Run", "type": "boolean", "currentValue": False},
    ],
}
"""The settings of an agent that the catalogue does not know, with names of every kind."""


@pytest.mark.parametrize("policy", DENIES)
async def test_a_setting_that_ends_the_asking_is_known_by_its_label_or_its_id(
    policy: Policy,
) -> None:
    async def set_it(session: agentrt.Session) -> None:
        for mode in ("m2", "Full auto", "autopilot", "Level 3"):
            with pytest.raises(LocalProtocolError, match="does not ask for permission"):
                await session.set_mode(mode)
        for option, value in {
            ("approvals", "never"),
            ("approvals", "a3"),
            ("approvals", "Trust all"),
            ("auto_run", True),
        }:
            with pytest.raises(LocalProtocolError, match="does not ask for permission"):
                await session.set_option(option, value)
        await session.set_option("effort", "auto")
        await session.set_option("auto_run", False)
        await session.set_option("approvals", "each")
        await session.set_mode("m1")

    async def nothing(agent: FakeAcpAgent) -> None:
        pass

    await run(nothing, policy, before=set_it, session=UNTOLD)


async def test_a_mode_whose_label_says_that_it_does_not_ask_is_reported() -> None:
    async def script(agent: FakeAcpAgent) -> None:
        agent.update("current_mode_update", currentModeId="m2")

    events = await run(script, DENIES[0], session={"modes": UNTOLD["modes"]})
    [notice] = [e for e in events if isinstance(e, agentrt.Notice)]
    assert (notice.code, notice.data) == ("mode_does_not_ask", {"mode": "m2"})


UNASKED_NAMES = (
    *("autopilot", "autonomous", "unattended", "unrestricted", "trusted", "trust-all"),
    *("no-prompts", "noask", "no-approval", "approve-all", "allow_all", "accept-all"),
    *("hands-free", "turbo", "automatic", "auto-mode", "never", "dontAsk", "Don't ask"),
    *("without approval", "non-interactive", "unsafe", "God mode", "YOLO", "auto", "Full Access"),
)
ASKING_NAMES = (
    *("default", "plan", "ask", "code", "build", "read-only", "untrusted", "manual", "approve"),
    *("smart_approve", "chat", "architect", "agent", "auto-complete", "author", "always ask"),
    *("normal", "interactive", "suggest", "review", "safe", "trust nothing"),
)


def test_names_of_modes_that_do_not_ask_are_told_from_others() -> None:
    agent = acp(["an-unknown-agent"])
    assert [name for name in UNASKED_NAMES if not is_unasked(name, agent)] == []
    assert [name for name in ASKING_NAMES if is_unasked(name, agent)] == []


def test_a_mode_that_the_catalogue_does_not_list_is_known_by_its_name() -> None:
    for found in agentrt.find_agents():
        for name in ("brandNewYolo", "Full-Auto 2"):
            assert is_unasked(name, found.agent), found.agent.name
        for mode in found.agent.quirks.unasked_modes:
            assert is_unasked(mode.upper(), found.agent), found.agent.name
        mode = found.agent.quirks.mode
        assert (
            mode is None
            or mode in found.agent.quirks.unasked_modes
            or not is_unasked(mode, found.agent)
        )


@pytest.mark.parametrize("policy", DENIES)
async def test_a_session_does_not_begin_with_such_an_option(policy: Policy) -> None:
    for config in ({"approvals": "never"}, {"approval_mode": "yolo"}, {"auto_approve": True}):
        with pytest.raises(LocalProtocolError, match="does not ask for permission"):
            async with open_fake_session(
                partial(MemoryAgent, FakeAcpAgent.serving),
                permissions=policy,
                options={"config": config},
            ):
                pass


async def test_without_a_deny_any_mode_may_be_chosen() -> None:
    async def set_it(session: agentrt.Session) -> None:
        await session.set_mode("yolo")

    async def nothing(agent: FakeAcpAgent) -> None:
        pass

    await run(nothing, agentrt.ask, before=set_it, session=LOOSE)


async def test_an_agent_that_leaves_its_mode_by_itself_is_reported() -> None:
    async def script(agent: FakeAcpAgent) -> None:
        agent.update("current_mode_update", currentModeId="yolo")

    events = await run(script, DENIES[0], session={"modes": LOOSE["modes"]})
    [notice] = [e for e in events if isinstance(e, agentrt.Notice)]
    assert (notice.code, notice.data) == ("mode_does_not_ask", {"mode": "yolo"})


async def test_an_option_that_leads_to_such_a_mode_is_left_out() -> None:
    seen: list[str] = []

    async def script(agent: FakeAcpAgent) -> None:
        options = [
            {"optionId": "acceptEdits", "name": "Yes, accept edits", "kind": "allow_always"},
            {"optionId": "default", "name": "Yes", "kind": "allow_once"},
            {"optionId": "plan", "name": "No", "kind": "reject_once"},
        ]
        about = {"toolCallId": "c1", "title": "Ready to code?", "kind": "switch_mode"}
        await agent.request("session/request_permission", {"toolCall": about, "options": options})

    def choose(request: agentrt.PermissionOpened) -> str:
        seen.extend(option.id for option in request.options)
        return "plan"

    await run(script, DENIES[0], choose=choose, session={"modes": LOOSE["modes"]})
    assert seen == ["default", "plan"]


def test_every_mode_of_the_catalogue_that_does_not_ask_is_known() -> None:
    for found in agentrt.find_agents():
        for mode in found.agent.quirks.unasked_modes:
            assert is_unasked(mode, found.agent)
            standing = Standing(DENIES[0], found.agent)
            told = standing.mode_problem(mode) or standing.agent_problem()
            assert (told is None) == (found.agent.protocol == "claude")


def test_the_mode_in_which_agents_are_started_may_have_any_label() -> None:
    started = [each.agent for each in agentrt.find_agents() if each.agent.quirks.mode is not None]
    assert len(started) > 4
    for agent in started:
        standing = Standing(DENIES[0], agent)
        for label in UNASKED_NAMES:
            assert standing.mode_problem(str(agent.quirks.mode), label) is None, agent.name
            assert standing.option_problem("mode", agent.quirks.mode, "Mode", label) is None
            assert standing.mode_problem("another", label) is not None or standing.binds


# --- what an agent has its client do


@pytest.mark.parametrize("policy", DENIES)
async def test_a_denied_file_or_program_of_the_client_is_refused(policy: Policy) -> None:
    answers: list[JsonObject] = []

    async def script(agent: FakeAcpAgent) -> None:
        for method, params in (
            ("fs/write_text_file", {"path": "/tmp/agentrt-denied.txt", "content": "x"}),
            ("terminal/create", {"command": "rm", "args": ["-rf", "/tmp/agentrt-denied"]}),
            ("terminal/create", {"command": "bash", "args": ["-c", "rm -rf x"]}),
        ):
            answers.append(await agent.request(method, params))

    events = await run(script, policy, cwd="/tmp")
    assert [answer["error"]["code"] for answer in answers] == [-32000] * 3
    denied = [e for e in events if isinstance(e, agentrt.Notice) and e.code == "service_denied"]
    assert len(denied) == 3


# --- who decided


async def closes(
    policy: Policy | None, choose: Callable[[agentrt.PermissionOpened], str | None]
) -> list[agentrt.events.PermissionClosed]:
    async def script(agent: FakeClaudeAgent) -> None:
        await agent.ask("c1", "git status")

    events = await run(script, policy, fake=FakeClaudeAgent, choose=choose)
    return [e for e in events if isinstance(e, agentrt.events.PermissionClosed)]


@pytest.mark.parametrize(
    ("policy", "rule"),
    [
        (agentrt.rules(allow=["Bash(git status:*)"]), "allow Bash(git status:*)"),
        (agentrt.rules(deny=["Bash(git:*)"], otherwise=agentrt.ask), "deny Bash(git:*)"),
        (agentrt.allow_all, "allow_all"),
        (agentrt.deny_all, "deny_all"),
        (lambda request: agentrt.Deny("no"), "<lambda>"),
    ],
)
async def test_a_close_says_by_which_rule(policy: Policy, rule: str) -> None:
    [closed] = await closes(policy, lambda request: None)
    assert (closed.by, closed.rule, closed.via) == ("policy", rule, "")


async def test_a_close_says_that_the_program_answered_what_a_rule_wanted_asked() -> None:
    policy = agentrt.rules(ask=["Bash"], otherwise=agentrt.allow_all)
    [closed] = await closes(policy, lambda request: "allow_once")
    assert (closed.by, closed.via, closed.rule) == ("user", "program", "ask Bash")


def test_a_protected_file_is_refused_although_a_rule_allows_all_edits() -> None:
    standing = Standing(agentrt.rules(allow=["Edit(**)"]))

    def refusal(path: str) -> object:
        given = {"file_path": path}
        return standing.refusal(PermissionRequest(title="", tool="Edit", input=given, cwd="/w"))

    assert refusal("/w/a.py") is None
    assert refusal("/w/.git/hooks/pre-commit") is not None


# --- rules for the agent itself


def test_deny_rules_are_given_to_claude_code_where_they_mean_the_same() -> None:
    rules = ["Bash(rm:*)", "Bash(git push *)", "Bash(npm test)", "Edit(/etc/**)", "Read(~/a/**)"]
    assert as_claude_rules(rules, whole_tools=False) == [
        "Bash(rm:*)",
        "Bash(git push:*)",
        "Bash(npm test)",
        "Edit(//etc/**)",
        "Read(~/a/**)",
    ]
    others = ["Write", "mcp__marks__*", "mcp__a_b__tool", "Fetch(*.com)", "run_shell_command"]
    assert as_claude_rules(others, whole_tools=False) == ["mcp__a_b__tool"]
    assert as_claude_rules(others, whole_tools=True) == ["Write", "mcp__marks", "mcp__a_b__tool"]
