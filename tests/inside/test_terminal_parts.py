"""Keys and colours by their words, notes about sessions, QR codes, and a server's collections.

Every key and wrong word is read; each would need its own start of a terminal. Notes are read back
as they were written, and links of machines that do not exist are judged row by row. What a server
freezes is asked of the garbage collector of the process.
"""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest
import trio
import trio.testing

from agentrt._cli.collections import short_collections, thaw_when_idle
from agentrt._cli.repl.sharing import qr_code, reaches_other_machines
from agentrt._cli.screen.keys import DEFAULT_KEYS, described_keys, parsed
from agentrt._cli.screen.style import chosen_looks
from agentrt._cli.state import remember, remembered
from agentrt.agents import AgentSession
from agentrt.config import ConfigError
from inside.screen import LOOKS, Painter


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("ctrl-o", ("c-o",)),
        ("Alt-Up", ("escape", "up")),
        ("shift-tab", ("s-tab",)),
        ("f2", ("f2",)),
        ("ctrl-x ctrl-e", ("c-x", "c-e")),
        ("alt-enter", ("escape", "enter")),
    ],
)
def test_a_key_is_written_as_people_write_it(name: str, keys: tuple[str, ...]) -> None:
    assert parsed("expand", name) == keys


@pytest.mark.parametrize(
    "name", ["", "hyper-x", "ctrl-", "x", "ctrl-c", "Escape", "enter", "tab x y z q ?? "]
)
def test_a_key_that_is_none_or_has_its_meaning_is_an_error(name: str) -> None:
    with pytest.raises(ConfigError, match=r"^terminal\.keys\.expand: "):
        parsed("expand", name)


def test_the_default_keys_are_keys_and_help_lists_those_in_effect() -> None:
    for action, name in DEFAULT_KEYS.items():
        assert parsed(action, name)
    keys = [key for key, _ in described_keys({"expand": "f2"})]
    assert "F2" in keys
    assert "Ctrl-O" not in keys


def test_colours_are_words() -> None:
    looks = chosen_looks({"you": "bold bright-blue", "added": "plain", "removed": "underline red"})
    assert looks["you"].sgr == "1;94"
    assert looks["added"].sgr == ""
    assert looks["bad"] == LOOKS["bad"]
    assert Painter(colour=True, looks=looks).paint("removed", "x") == "\x1b[4;31mx\x1b[0m"
    assert Painter(colour=False, looks=looks).paint("removed", "x") == "\x1b[4mx\x1b[0m"
    with pytest.raises(ConfigError, match=r"terminal\.colors\.you: 'pink' is not a color"):
        chosen_looks({"you": "bold pink"})


def test_agents_that_keep_no_list_are_resumed_by_our_own_notes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder, other = str(tmp_path / "project"), str(tmp_path / "other")
    for n in range(3):
        session = AgentSession(agent="a", id=f"s{n % 2}", title=f"t{n}", updated=float(n))
        remember(session, folder)
    assert [(s.id, s.title) for s in remembered(folder)] == [("s0", "t2"), ("s1", "t1")]
    assert remembered(other) == []


def test_a_qr_code_is_as_many_half_lines_as_it_has_rows() -> None:
    lines = qr_code("http://agents.example:8000/?t=x")
    assert len({len(line) for line in lines}) == 1
    assert len(lines) == (len(lines[0]) + 1) // 2
    assert {mark for line in lines for mark in line} == {"█", "▀", "▄", " "}
    assert set(lines[0]) == {"█"}, "light all around"


@pytest.mark.parametrize(
    ("link", "reaches"),
    [
        ("http://127.0.0.1:8000/?t=x", False),
        ("http://[::1]:8000/?t=x", False),
        ("http://localhost:8000/?t=x", False),
        ("http://192.168.1.7:8000/?t=x", True),
        ("https://agents.example/?t=x", True),
    ],
)
def test_there_is_a_qr_code_only_of_what_a_phone_can_open(link: str, reaches: bool) -> None:
    assert reaches_other_machines(link) is reaches
    assert bool(qr_code(link)) is reaches


class Node:
    """Refers to itself, so that reference counting never frees it."""

    def __init__(self) -> None:
        self.itself = self


def test_a_full_collection_of_a_server_examines_no_object_twice() -> None:
    thresholds = gc.get_threshold()
    with short_collections():
        node = Node()
        assert any(each is node for each in gc.get_objects())
        gc.collect()
        assert not any(each is node for each in gc.get_objects())
    assert gc.get_threshold() == thresholds


async def test_frozen_garbage_is_freed_when_the_server_is_idle(
    autojump_clock: trio.testing.MockClock,
) -> None:
    idle = False
    with short_collections():
        node = Node()
        gc.collect()
        there = weakref.ref(node)
        del node
        async with trio.open_nursery() as nursery:
            nursery.start_soon(thaw_when_idle, lambda: idle)
            await trio.sleep(3600)
            assert there() is not None
            idle = True
            await trio.sleep(3600)
            assert there() is None
            nursery.cancel_scope.cancel()
