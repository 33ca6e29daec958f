"""The words for keys and colours.

Every key and wrong word is read; each would need its own start of a terminal.
"""

from __future__ import annotations

import pytest

from agentrt._cli.screen.keys import DEFAULT_KEYS, described_keys, parsed
from agentrt._cli.screen.style import chosen_looks
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
