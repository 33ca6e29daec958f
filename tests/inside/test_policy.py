"""The settings of a sandbox, their comparison, and the hints about them.

Sandboxes are compared for generated pairs, also where the machine cannot build one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import trio
from hypothesis import example, given
from hypothesis import strategies as st

import agentrt
from agentrt._core.sandbox.hints import find_refusals
from agentrt._core.sandbox.hosts import HostPattern
from agentrt._core.sandbox.places import PLACES as AGENT_PLACES
from agentrt._core.sandbox.policy import (
    as_sandbox,
    check_narrower,
    narrowed,
    sandbox_from,
)
from agentrt.agents import BUILT_IN
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
        st.sampled_from(
            ["a.example", "*.a.example", "*.a.example:80", "b.example:80", "*", "*:443"]
        ),
        max_size=2,
        unique=True,
    ),
    private_hosts=st.booleans(),
    ports=st.lists(st.sampled_from([3001, 3002]), max_size=2, unique=True),
    programs=st.dictionaries(st.sampled_from(["rm", "git"]), st.sampled_from(["deny", "ask"])),
    limits=st.builds(SandboxLimits, processes=BOUNDS, memory_bytes=BOUNDS, tmp_bytes=BOUNDS),
    nested=st.booleans(),
    needs=st.sampled_from(["bwrap", "landlock"]),
)


@given(SANDBOXES, SANDBOXES)
@example(
    Sandbox(network=["a.example", "*.a.example:80"]), Sandbox(network=["*.a.example", "*:443"])
)
def test_a_narrowed_sandbox_is_within_both(first: Sandbox, second: Sandbox) -> None:
    common = narrowed(first, second)
    assert common is not None
    assert check_narrower(second, common) == common
    assert narrowed(common, common) == common


PLACES = ["/a", "/a/b", "/a/b/c", "/ab", "/c", "/c/d", "/c/d/e", "/x"]


def permits(sandbox: Sandbox, kind: str, place: str) -> bool:
    paths = sandbox.write if kind == "write" else (*sandbox.write, *sandbox.read)
    return any(place == path or place.startswith(path + "/") for path in paths)


def connects(sandbox: Sandbox, host: str, port: int) -> bool:
    if isinstance(sandbox.network, str):
        return sandbox.network == "all"
    return any(HostPattern(each).matches(host, port) for each in sandbox.network)


@given(SANDBOXES, SANDBOXES)
def test_a_narrowed_sandbox_permits_exactly_what_both_permit(
    first: Sandbox, second: Sandbox
) -> None:
    common = narrowed(first, second)
    assert common is not None
    for kind in ("read", "write"):
        for place in PLACES:
            both = permits(first, kind, place) and permits(second, kind, place)
            assert permits(common, kind, place) == both, (kind, place)
    for host in ("a.example", "x.a.example", "b.example"):
        for port in (80, 443):
            both = connects(first, host, port) and connects(second, host, port)
            assert connects(common, host, port) == both, (host, port)


def by_host(sandbox: Sandbox, *, private: bool) -> set[object]:
    permitted: set[object] = {"model"} - {sandbox.network if sandbox.network == "none" else ""}
    hosts = (("a.example", 80), ("x.a.example", 80), ("b.example", 80), ("b.example", 443))
    if isinstance(sandbox.network, str):
        return permitted | (set(hosts) if sandbox.network == "all" and not private else set())
    if private and not sandbox.private_hosts:
        return permitted
    return permitted | {each for each in hosts if connects(sandbox, *each)}


def by_limit(value: int | None) -> set[object]:
    return set(range(7 if value is None else value + 1))


PERMITTED: dict[str, Callable[[Sandbox], set[object]]] = {
    "write": lambda it: {place for place in PLACES if permits(it, "write", place)},
    "read": lambda it: {place for place in PLACES if permits(it, "read", place)},
    "hide": lambda it: {".env", "secrets", "other"} - set(it.hide),
    "network": lambda it: by_host(it, private=False),
    "private_hosts": lambda it: by_host(it, private=True),
    "ports": lambda it: set(it.ports),
    "programs": lambda it: {
        (name, how)
        for name in ("rm", "git", "ls")
        for how in {"deny": [], "ask": ["asked"]}.get(it.program_rules.get(name, ""), ["asked", ""])
    },
    "nested": lambda it: {True} if it.nested else set(),
    "needs": lambda it: {"bwrap"} | {it.needs},
    **{
        f"limits.{name}": lambda it, name=name: by_limit(getattr(it.limits, name))
        for name in SandboxLimits.__struct_fields__
    },
}
"""The accesses that each setting of a sandbox permits."""


def test_each_setting_has_a_rule_for_what_it_permits() -> None:
    nested = {f"limits.{name}" for name in SandboxLimits.__struct_fields__}
    assert set(PERMITTED) == {*Sandbox.__struct_fields__} - {"limits"} | nested


@given(SANDBOXES, SANDBOXES)
def test_each_setting_of_a_narrowed_sandbox_permits_what_both_permit(
    first: Sandbox, second: Sandbox
) -> None:
    common = narrowed(first, second)
    assert common is not None
    for setting, permitted in PERMITTED.items():
        assert permitted(common) == permitted(first) & permitted(second), setting


@pytest.mark.slow
@given(SANDBOXES, SANDBOXES, st.sets(st.sampled_from([*Sandbox.__struct_fields__, "mode"])))
def test_no_settings_of_a_client_permit_more_in_any_setting(
    outer: Sandbox, wanted: Sandbox, named: set[str]
) -> None:
    fields: dict[str, Any] = msgspec.to_builtins(wanted)
    fields["mode"] = wanted.network if wanted.network in ("none", "all") else "model"
    fields["mode"] = {"none": "offline", "all": "open-network", "model": "workspace"}[
        fields["mode"]
    ]
    settings = {name: fields[name] for name in named}

    async def judge() -> Sandbox | None:
        async with agentrt.open_runtime(sandbox=outer) as runtime:
            return runtime.client_sandbox(settings)

    try:
        given = trio.run(judge)
    except LocalProtocolError:
        return
    assert given is not None
    for setting, permitted in PERMITTED.items():
        assert permitted(given) <= permitted(outer), (setting, given)


@given(SANDBOXES)
def test_a_sandbox_is_within_itself_and_within_no_sandbox(sandbox: Sandbox) -> None:
    assert check_narrower(sandbox, sandbox) == sandbox
    assert narrowed(None, sandbox) == sandbox == narrowed(sandbox, None)


def test_each_path_is_looked_up_once_however_long_the_lists_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_up: list[str] = []
    real = os.path.realpath
    monkeypatch.setattr(os.path, "realpath", lambda path: looked_up.append(path) or real(path))
    outer = Sandbox(write=[f"/srv/a{number}" for number in range(20)], read=["/opt/tools"])
    inner = Sandbox(
        write=[f"/srv/a1/b{number}" for number in range(200)],
        read=[f"/opt/tools/c{number}" for number in range(200)],
    )
    assert narrowed(outer, inner) == inner
    assert len(looked_up) == 20 + 1 + 200 + 200


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


# --- hints about refusals

OUTPUTS = [
    ("sh: 1: cannot create /etc/x: Read-only file system", "/etc/x"),
    ("sh: 1: cannot create .git/hooks/x: Read-only file system", "/shop/.git/hooks/x"),
    ("bash: line 1: /etc/x: Read-only file system", "/etc/x"),
    ("touch: cannot touch '/opt/a b': Read-only file system", "/opt/a b"),
    ("mkdir: cannot create directory ‘../x’: Read-only file system", "/x"),
    ("error: could not lock config file .git/config: Read-only file system", "/shop/.git/config"),
    ("fatal: Unable to create '/a/.git/index.lock': Read-only file system", "/a/.git/index.lock"),
    ("OSError: [Errno 30] Read-only file system: '/etc/x'", "/etc/x"),
    ("Error: EROFS: read-only file system, open '/etc/x'", "/etc/x"),
    ("open /etc/x: read-only file system", "/etc/x"),
    ("sandbox: new.invalid:80 is not allowed in this session by its sandbox", "new.invalid:80"),
    ("sandbox: [2001:db8::1]:443 is not allowed in this session", "[2001:db8::1]:443"),
    ("sandbox: rm may not be run in this session", "rm"),
]


@pytest.mark.parametrize(("output", "target"), OUTPUTS)
def test_a_refusal_is_found_in_what_programs_print(output: str, target: str) -> None:
    assert [each.target for each in find_refusals(f"ok\n{output}\n", "/shop")] == [target]


@pytest.mark.parametrize(
    "output", ["", "a file system that is read-only", "Permission denied", "sandbox: it works"]
)
def test_other_output_has_no_hint(output: str) -> None:
    assert find_refusals(output, "/shop") == []


@given(st.lists(st.sampled_from([each for each, _ in OUTPUTS]) | st.text(), max_size=20))
def test_any_output_has_few_hints_of_one_line(lines: list[str]) -> None:
    found = find_refusals("\n".join(lines), "/shop")
    assert len(found) == len(set(found)) <= 3
    assert all("\n" not in each.hint(for_good=False) for each in found)


# --- the places of agents


KEEPS_NOTHING = {"demo": "it stores nothing, and has no model"}
"""Agents without a login, settings or conversations outside the session's folder, each with the
reason."""


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_each_agent_of_the_catalogue_has_its_places_in_a_sandbox(name: str) -> None:
    places = AGENT_PLACES[name]
    kept = (*places.state, *places.copied)
    assert bool(kept) is not (name in KEEPS_NOTHING)


def test_only_agents_of_the_catalogue_have_places() -> None:
    assert AGENT_PLACES.keys() == BUILT_IN.keys()
