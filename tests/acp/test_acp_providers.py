"""Titles and providers: drafts of both versions that some agents offer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import pytest
import trio
from acp_kit import Peer, opened, opened2

import agentrt
from agentrt import Notice
from agentrt.agents import ProviderSetting
from agentrt.effects import CallReturned, SecretsSent, StartFailed, Write
from agentrt.errors import LocalProtocolError, RequestError
from agentrt.lowlevel import Opening
from agentrt.testing import FakeAcpAgent, MemoryAgent, open_fake_session

KEY = "lantern-orchard-velvet"
SETTING = ProviderSetting(
    id="main",
    api_type="anthropic",
    base_url="http://gateway",
    headers={"X-Key": KEY, "X-Team": "a team"},
    meta={"region": "here"},
)
WIRE = {
    "providerId": "main",
    "apiType": "anthropic",
    "baseUrl": "http://gateway",
    "headers": SETTING.headers,
    "_meta": {"region": "here"},
}
BOTH = pytest.mark.parametrize("open", [opened, opened2], ids=["1", "2"])
CAPABILITIES = {"providers": {}, "session": {"title": {}}, "sessionCapabilities": {"title": {}}}
"""In the shapes of both versions."""


@BOTH
def test_the_neutral_calls_have_the_shapes_of_the_draft(open: Callable[..., Peer]) -> None:
    peer = open(capabilities=CAPABILITIES)
    sent = [
        ("set_title", {"title": "Mine"}, "session/set_title", {"sessionId": "s1", "title": "Mine"}),
        ("list_providers", {}, "providers/list", {}),
        ("set_provider", {"setting": SETTING}, "providers/set", WIRE),
        (
            "set_provider",
            {"setting": ProviderSetting(id="main")},
            "providers/disable",
            {"providerId": "main"},
        ),
    ]
    for method, given, name, params in sent:
        peer.do(peer.driver.call("c1", method, given))
        line = peer.last(name)
        assert line["params"] == params
        peer.answer(line["id"], {"any": "thing"})
        assert peer.of(CallReturned)[-1] == CallReturned("c1", {"any": "thing"})


@BOTH
def test_what_the_agent_does_not_offer_is_not_sent(open: Callable[..., Peer]) -> None:
    peer = open(capabilities={"session": {}})
    for method in ("set_title", "list_providers", "set_provider"):
        peer.do(peer.driver.call("c1", method, {"title": "x", "setting": SETTING}))
        error = peer.of(CallReturned)[-1].error
        assert error is not None
        assert error.code == "unsupported"
    assert peer.methods() == []


@pytest.mark.parametrize("method", ["providers/set", "providers/disable", "set_provider"])
def test_a_provider_is_set_only_by_its_setting(method: str) -> None:
    peer = opened(capabilities=CAPABILITIES)
    with pytest.raises(LocalProtocolError, match="set_provider"):
        peer.driver.call("c1", method, {"providerId": "main", "headers": {"X-Key": KEY}})


@BOTH
def test_secrets_are_named_before_they_are_sent(open: Callable[..., Peer]) -> None:
    peer = open(capabilities=CAPABILITIES)
    effects = peer.driver.call("c1", "set_provider", {"setting": SETTING})
    assert [type(each) for each in effects] == [SecretsSent, Write]
    assert effects[0] == SecretsSent((KEY, "a team"))


@BOTH
def test_an_error_that_repeats_the_headers_is_shown_without_them(
    open: Callable[..., Peer],
) -> None:
    peer = open(capabilities=CAPABILITIES)
    peer.do(peer.driver.call("c1", "set_provider", {"setting": SETTING}))
    peer.fail(peer.last("providers/set")["id"], -32602, f"bad {KEY}", {"got": [WIRE], KEY: 1})
    assert KEY not in repr(peer.only(CallReturned))
    error = peer.only(CallReturned).error
    assert error is not None
    assert error.code == "invalid_params"
    assert error.message.startswith("bad [redacted]")


def greeted(setting: ProviderSetting, capabilities: dict[str, Any]) -> Peer:
    peer = Peer()
    peer.start(Opening(cwd="/project", providers=(setting, ProviderSetting(id="other"))))
    peer.answer(1, {"protocolVersion": 1, "agentCapabilities": capabilities})
    return peer


def test_providers_are_set_before_the_session_is_opened() -> None:
    peer = greeted(SETTING, CAPABILITIES)
    assert peer.methods() == ["initialize", "providers/set"]
    peer.answer(2, {})
    assert peer.methods() == ["providers/disable"]
    peer.answer(3, {})
    assert peer.methods() == ["session/new"]


def test_a_provider_that_cannot_be_set_fails_the_start() -> None:
    peer = greeted(SETTING, {})
    assert peer.only(StartFailed).error.code == "unsupported"
    peer = greeted(SETTING, CAPABILITIES)
    peer.fail(2, -32602, f"no {KEY}")
    error = peer.only(StartFailed).error
    assert (error.code, error.message) == ("rejected", "no [redacted]")


def test_a_setting_is_shown_without_the_values_of_its_headers() -> None:
    assert KEY not in repr(SETTING)
    assert KEY not in repr(Opening(cwd="/", providers=(SETTING,)))
    bearer = ProviderSetting(id="x", headers={"Authorization": f"Bearer {KEY}"})
    assert bearer.secrets == (f"Bearer {KEY}", KEY)


# --- in a session


class Gateway:
    """An agent with providers and titles. It repeats the headers wherever it can."""

    def __init__(self, version: Literal[1, 2] = 1) -> None:
        self.version = version
        self.got: list[tuple[str, Any]] = []
        self.refuses_titles = False

    async def __call__(self, process: MemoryAgent) -> None:
        side = FakeAcpAgent.serving(process, capabilities=CAPABILITIES, version=self.version)
        async with side as agent, trio.open_nursery() as nursery:
            nursery.start_soon(self._requests, agent)
            async for prompt in agent.prompts:
                if prompt.text == "die":
                    process.exit(3)
                    break
                agent.say("done")
                prompt.end()
            nursery.cancel_scope.cancel()

    async def _requests(self, agent: FakeAcpAgent) -> None:
        async for message in agent.requests:
            method, params = message["method"], message.get("params")
            self.got.append((method, params))
            if method == "providers/list":
                current = {"apiType": "anthropic", "baseUrl": "http://own"}
                known = [
                    {"providerId": "main", "supported": ["anthropic"], "current": current},
                    {"providerId": "off", "supported": [], "required": True, "current": None},
                ]
                agent.result(message["id"], {"providers": known})
            elif method == "session/set_title" and self.refuses_titles:
                agent.error(message["id"], -32602, "not this one")
            elif method == "providers/set" and params["baseUrl"] == "http://wrong":
                values = list(params["headers"].values())
                agent.update("notice", title=f"bad {values}", severity="warning")
                agent.error(message["id"], -32602, f"wrong: {params['headers']}")
            else:
                agent.result(message["id"], {"title": "t", "echo": params})

    def methods(self) -> list[str]:
        return [method for method, _ in self.got]


VERSIONS = pytest.mark.parametrize("version", [1, 2])


@VERSIONS
async def test_providers_are_listed_and_set_again_for_a_new_process(
    version: Literal[1, 2],
) -> None:
    gateway = Gateway(version)
    async with open_fake_session(partial(MemoryAgent, gateway), acp_version=version) as session:
        main, off = await session.list_providers()
        assert (main.id, main.api_types, main.base_url) == ("main", ("anthropic",), "http://own")
        assert (off.required, off.api_type, off.base_url) == (True, None, None)
        await session.set_provider(SETTING)
        assert gateway.got[-1] == ("providers/set", WIRE)
        with pytest.raises(RequestError) as refused:
            await session.set_provider(
                ProviderSetting(
                    id="main", api_type="x", base_url="http://wrong", headers={"X-Key": KEY}
                )
            )
        assert KEY not in str(refused.value)
        gateway.got.clear()
        with pytest.raises(agentrt.TurnFailed, match="exit status 3"):
            await session.run("die")
        assert (await session.run("hello")).text == "done"
        assert gateway.got == [("providers/set", WIRE)]
        assert KEY not in repr(session.snapshot())


async def test_a_provider_is_noted_while_no_agent_runs() -> None:
    gateway = Gateway()
    async with open_fake_session(partial(MemoryAgent, gateway)) as session:
        with pytest.raises(agentrt.TurnFailed, match="exit status 3"):
            await session.run("die")
        await session.set_provider(SETTING)
        assert gateway.got == []
        await session.run("hello")
        assert gateway.methods() == ["providers/set"]


@VERSIONS
async def test_a_title_reaches_the_agent_now_and_after_a_restart(
    version: Literal[1, 2],
) -> None:
    gateway = Gateway(version)
    async with open_fake_session(partial(MemoryAgent, gateway), acp_version=version) as session:
        session.rename("Mine")
        await session.run("hello")
        titled = ("session/set_title", {"sessionId": "s1", "title": "Mine"})
        assert gateway.got == [titled]
        with pytest.raises(agentrt.TurnFailed, match="exit status 3"):
            await session.run("die")
        session.rename("Ours")
        assert gateway.got == [titled]
        await session.run("hello")
        assert gateway.got[1][1]["title"] == "Ours"
        assert len(gateway.got) == 2
        assert session.title == "Ours"


async def test_a_refused_title_is_a_notice_and_stays_in_agentrt() -> None:
    gateway = Gateway()
    gateway.refuses_titles = True
    async with open_fake_session(partial(MemoryAgent, gateway)) as session:
        events = session.subscribe()
        session.rename("Mine")
        await session.run("hello")
        assert session.title == "Mine"
        with trio.fail_after(5):
            async for event in events:
                if isinstance(event, Notice):
                    assert event.code == "title_refused"
                    assert event.message.endswith("not this one")
                    return


async def test_no_trace_and_no_log_record_has_the_headers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG")
    gateway = Gateway()
    async with open_fake_session(partial(MemoryAgent, gateway)) as session:
        with session.wire() as wire:
            await session.set_provider(SETTING)
            seen = [await anext(wire), await anext(wire)]
        with session.wire() as later:
            await session.list_providers()
            with pytest.raises(RequestError):
                await session.set_provider(
                    ProviderSetting(
                        id="a", api_type="b", base_url="http://wrong", headers=SETTING.headers
                    )
                )
            seen += [await anext(later) for _ in range(5)]
    assert [each.sent for each in seen] == [True, False, True, False, True, False, False]
    assert "bad [" in caplog.text
    assert KEY not in caplog.text
    assert KEY not in repr(seen)
    assert seen[0].body["params"]["providerId"] == "main"
