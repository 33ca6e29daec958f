"""Text of agents that is shown: what of it is seen, and what it cannot do.

Texts contain each control character; a terminal between would hide which of them arrived.
"""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt._cli.repl.view import COMPARED_LINES, changes, show_diff
from agentrt._cli.text import escaped, one_line, safe, without_controls
from agentrt.events import Diff
from inside.command_line import plain

FORMATS = ("Cf", "Zl", "Zp")
"""Unicode's categories of characters that format, and that separate lines and paragraphs."""

POWER = {"Cc", "Cs"}
"""Unicode's categories of control characters and lone surrogates."""


@given(st.text())
def test_no_text_keeps_a_control_character_but_newlines_and_tabs(text: str) -> None:
    for shown in (safe(text), without_controls(text)):
        assert not [c for c in shown if unicodedata.category(c) == "Cc" and c not in "\n\t"]


@given(st.text())
def test_a_decision_s_text_has_nothing_that_is_not_seen(text: str) -> None:
    hidden = {"Cc", "Cf", "Zl", "Zp"}
    for shown in (plain(text), one_line(text, 10_000)):
        found = [c for c in shown if unicodedata.category(c) in hidden and c != "\n"]
        # marks that belong to a letter of their script are seen with it
        assert {unicodedata.bidirectional(c) for c in found} <= {"AN", "AL", "L", "NSM", "ON"}


@given(st.text(alphabet=st.characters(min_codepoint=0x20, max_codepoint=0x7E)))
def test_plain_text_is_left_alone(text: str) -> None:
    assert safe(text) == text
    assert without_controls(f"{text}\n\t") == f"{text}\n\t"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2Jgone", "␛[2Jgone"),
        ("\x1b]52;c;aGk=\x07", "␛]52;c;aGk=␇"),
        ("\x9b31m", "�31m"),
        ("\x90q\x9c", "�q�"),
        ("fine\r\nline", "fine\nline"),
        ("Allow\rDeny", "AllowDeny"),
        ("a\x08b\x7f", "a␈b␡"),
        ("\u202egnp.exe", "�gnp.exe"),
        ("👩‍💻 café", "👩‍💻 café"),
    ],
)
def test_escapes_are_seen_and_do_nothing(text: str, shown: str) -> None:
    assert safe(text) == shown


def test_where_somebody_decides_hidden_characters_are_seen() -> None:
    assert plain("rm\u200b -rf\u2028/") == "rm� -rf�/"
    assert one_line("a\nb\t c") == "a b c"


@pytest.mark.slow
def test_of_the_characters_that_format_text_those_with_ink_are_shown() -> None:
    formats = (c for c in map(chr, range(0x110000)) if unicodedata.category(c) in FORMATS)
    shown = [unicodedata.name(c) for c in formats if plain(c) == c]
    assert all(name.startswith(("ARABIC", "SYRIAC", "KAITHI")) for name in shown)


def test_a_long_line_keeps_its_beginning_and_its_end() -> None:
    line = one_line("x" * 500 + " && rm -rf ~", 100)
    assert len(line) <= 100
    assert line.startswith("xxx")
    assert line.endswith("&& rm -rf ~")


@given(st.text())
def test_json_on_a_terminal_says_the_same(text: str) -> None:
    shown = escaped(json.dumps({"text": text}, ensure_ascii=False))
    assert json.loads(shown) == {"text": text}
    assert not [c for c in shown if unicodedata.category(c) == "Cc"]


# --- changes


def test_a_change_is_shown_with_what_stands_around_it() -> None:
    old = "".join(f"{n}\n" for n in range(10))
    diff = Diff(path="/a\x1b/b", old_text=old, new_text=old.replace("5\n", "five\x9b\n"))
    assert show_diff(diff.path, diff.new_text, diff.old_text) == [
        "change of /a␛/b",
        "@@ -1,10 +1,10 @@",
        *(f" {n}" for n in range(5)),
        "-5",
        "+five⟨U+009B⟩",
        *(f" {n}" for n in range(6, 10)),
    ]
    assert show_diff("/new", "x\n", None) == ["new file /new", "@@ -0,0 +1 @@", "+x"]


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        ("a\n", "a\u2028rm -rf /\n", ["-a", "+a⟨U+2028⟩rm -rf /"]),
        ("a\n", "a\r\n", ["-a", "+a␍"]),
        ("a\n", "a", ["-a", "+a  ⟨no newline at the end⟩"]),
        ("a", "a", ["  (nothing changes)", " a"]),
        ("", "", []),
    ],
)
def test_no_difference_is_lost_in_the_ends_of_lines(old: str, new: str, shown: list[str]) -> None:
    assert [line for line in show_diff("/a", new, old)[1:] if line[:2] != "@@"] == shown


def test_a_large_change_is_shown_at_once() -> None:
    lines = [str(n) for n in range(COMPARED_LINES)]
    old, new = "\n".join(lines), "\n".join([*lines[:50], "new", *lines[51:]])
    assert changes(Diff(path="/a", old_text=old, new_text=new)) == ["@@ line 51 @@", "-50", "+new"]
