"""The settings of a sandbox, and their comparison."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt._core.sandbox.policy import (
    as_sandbox,
    check_narrower,
    narrowed,
    sandbox_from,
)
from agentrt.errors import LocalProtocolError
from agentrt.sandbox import Sandbox, SandboxLimits

TEXTS = st.lists(st.sampled_from(["/a", "/a/b", "/c", "/c/d/e"]), max_size=3, unique=True)
BOUNDS = st.none() | st.integers(1, 5)
SANDBOXES = st.builds(
    Sandbox,
    write=TEXTS,
    read=TEXTS,
    hide=st.lists(st.sampled_from([".env", "secrets"]), max_size=2, unique=True),
    network=st.sampled_from(["none", "model", "all"])
    | st.lists(
        st.sampled_from(["a.example", "*.a.example", "b.example:80", "*"]), max_size=2, unique=True
    ),
    ports=st.lists(st.sampled_from([3001, 3002]), max_size=2, unique=True),
    programs=st.dictionaries(st.sampled_from(["rm", "git"]), st.sampled_from(["deny", "ask"])),
    limits=st.builds(SandboxLimits, processes=BOUNDS, memory_bytes=BOUNDS, tmp_bytes=BOUNDS),
    nested=st.booleans(),
    needs=st.sampled_from(["bwrap", "landlock"]),
)


@given(SANDBOXES, SANDBOXES)
def test_a_narrowed_sandbox_is_within_both(first: Sandbox, second: Sandbox) -> None:
    common = narrowed(first, second)
    assert common is not None
    assert check_narrower(second, common) == common
    assert narrowed(common, common) == common


@given(SANDBOXES)
def test_a_sandbox_is_within_itself_and_within_no_sandbox(sandbox: Sandbox) -> None:
    assert check_narrower(sandbox, sandbox) == sandbox
    assert narrowed(None, sandbox) == sandbox == narrowed(sandbox, None)


@given(SANDBOXES)
def test_a_sandbox_survives_being_stored(sandbox: Sandbox) -> None:
    assert msgspec.json.decode(msgspec.json.encode(sandbox), type=Sandbox) == sandbox


@pytest.mark.parametrize(
    ("wider", "setting"),
    [
        (Sandbox(write=["/srv"]), "write"),
        (Sandbox(network="all"), "network"),
        (Sandbox(network=["a.example"]), "network"),
        (Sandbox(ports=[8080]), "ports"),
        (Sandbox(nested=True), "nested"),
        (Sandbox(), "hide"),
    ],
)
def test_a_wider_sandbox_is_refused_by_the_setting_that_widens(
    wider: Sandbox, setting: str
) -> None:
    outer = Sandbox(hide=[".env"]) if setting == "hide" else Sandbox()
    with pytest.raises(LocalProtocolError, match=setting):
        check_narrower(outer, wider)


def test_no_sandbox_is_wider_than_any() -> None:
    with pytest.raises(LocalProtocolError, match="switched off"):
        check_narrower(Sandbox(), None)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"write": "/srv"}, "must be a list"),
        ({"network": "some"}, "'none', 'model', 'all'"),
        ({"network": ["https://a.example"]}, "not a host"),
        ({"ports": [0]}, "port number"),
        ({"ports": [80]}, "listen on a port from 1024"),
        ({"hide": ["/etc"]}, "inside the session's folders"),
        ({"hide": ["../x"]}, "inside the session's folders"),
        ({"programs": ["/bin/rm"]}, "name of a program"),
        ({"programs": {"git": "maybe"}}, "'deny' or 'ask'"),
        ({"programs": "rm"}, "must be a list"),
        ({"limits": {"processes": 0}}, "SandboxLimits"),
        ({"network": None}, "list"),
    ],
)
def test_a_wrong_setting_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        Sandbox(**fields)


def test_a_preset_has_a_name() -> None:
    assert as_sandbox("offline") == Sandbox(network="none")
    assert as_sandbox(None) is None
    with pytest.raises(ValueError, match="'workspace', 'offline', 'open-network'"):
        as_sandbox("wide")


def test_a_table_of_settings_extends_a_preset() -> None:
    found = sandbox_from({"mode": "offline", "hide": [".env"]})
    assert found == Sandbox(network="none", hide=[".env"])
    found = sandbox_from({"programs": {"git": "ask"}})
    assert found == Sandbox(programs={"git": "ask"})
    assert sandbox_from({"programs": ["rm"]}) == Sandbox(programs={"rm": "deny"})


def test_of_two_rules_for_a_program_the_denial_applies() -> None:
    asks, denies = Sandbox(programs={"rm": "ask", "git": "ask"}), Sandbox(programs=["rm"])
    for first, second in ((asks, denies), (denies, asks)):
        common = narrowed(first, second)
        assert common is not None
        assert common.programs == {"rm": "deny", "git": "ask"}
    with pytest.raises(LocalProtocolError, match="programs"):
        check_narrower(denies, asks)
    assert sandbox_from({"mode": "off"}) is None
    with pytest.raises(ValueError, match="unknown field"):
        sandbox_from({"hosts": []})
