"""Questions of the agent on a screen: what allows something was typed as an answer to it."""

from __future__ import annotations

import json
import re
import signal

import pytest
from program import FAST_DEMO, Program, fake_claude, odd
from screen import BACKSPACE, READY, Screen, paste, talking

pytestmark = pytest.mark.slow

ASKS = r"^y/a/n/x\?"


def leave(it: Screen) -> None:
    it.until(READY)
    it.ctrl("d")
    assert it.ended() == 0
    assert it.is_restored()


def test_the_screen_of_a_question(program: Program) -> None:
    (program.folder / "a.py").write_text("one = 1\ntwo = 2\n")
    with talking(program) as it:
        it.enter("edit a.py replace two = 2 by two = 3")
        text = it.until(ASKS)
        shown = text[text.index("Allow this?") :].replace(str(program.folder), "FOLDER")
        assert re.sub(r". Edit a.py( \d+ s)? · needs your answer", "CARD", shown).startswith(
            "Allow this? │ Edit a.py\n"
            "  │ change of FOLDER/a.py\n"
            "  │ @@ -1,2 +1,2 @@\n"
            "  │  one = 1\n"
            "  │ -two = 2\n"
            "  │ +two = 3\n"
            "  │ path: a.py\n"
            "\n"
            "CARD\n"
            "\n"
            "  y  allow once   │ “Allow”\n"
            "  a  allow always\n"
            "  n  reject\n"
            "  x  reject always\n"
            "  r  reject, with a reason\n"
            "y/a/n/x?\n"
        )
        assert "ctrl-d rejects · ctrl-c stops the agent" in text
        it.enter("y")
        it.until("^  → allow once$", "✓ Edit a.py  .1 −1", READY)
        leave(it)
    assert (program.folder / "a.py").read_text() == "one = 1\ntwo = 3\n"


def test_what_is_being_typed_when_a_question_comes_is_no_answer_and_is_not_lost(
    program: Program,
) -> None:
    with talking(program, "--agent", "demo") as it:
        it.type("create new.txt with text\rabc def ghi jkl y")
        it.until(r"Allow this\?", "^❯ abc def ghi jkl y$")
        assert "a question: please read it" in it.text  # nobody is asked yet
        it.type("\r")  # still a prompt: it waits for its turn
        it.until("^⏎ abc def ghi jkl y$", ASKS)
        it.type("mno y\r")  # no answer, exactly
        it.until("“mno y” is not an answer", "^❯ mno y$", ASKS)
        assert not (program.folder / "new.txt").exists()
        it.enter("n")
        it.until("⊘ edit · Create new.txt  denied")
        it.ctrl("c")
        leave_with_draft(it)
    assert not (program.folder / "new.txt").exists()


def leave_with_draft(it: Screen) -> None:
    it.until(READY)
    it.ctrl("c")
    it.until("^❯$")
    leave(it)


def test_only_an_answer_allows(program: Program) -> None:
    with talking(program) as it:
        it.enter("create new.txt with text")
        it.until(ASKS)
        for text in ("y y", "allow it"):
            it.enter(text)
            it.until(f"“{text}” is not an answer", ASKS)
        for text in ("ok", "9"):
            it.enter(text)
            it.until("^Please answer ", ASKS, gone=f"❯.*{text}$")
        it.type("\r")
        it.until(ASKS)
        assert not (program.folder / "new.txt").exists()
        it.enter("no")
        it.until("denied", READY)
        leave_with_draft(it)


@pytest.mark.parametrize("answer", ["Y", "yes", "YES ", "1"])
def test_a_plain_yes_allows_and_is_not_left_in_the_prompt(program: Program, answer: str) -> None:
    with talking(program) as it:
        it.enter("create new.txt with text")
        it.until(ASKS)
        it.enter(answer)
        it.until("^  → allow once$", "^❯$", READY)
        leave(it)
    assert (program.folder / "new.txt").read_text() == "text\n"


def test_an_answer_that_is_half_typed_when_the_question_is_over_is_gone(program: Program) -> None:
    with talking(program) as it:
        it.enter("create new.txt with text")
        it.until(ASKS)
        it.type("ye")
        it.until(ASKS + " ye$")
        it.process.send_signal(signal.SIGINT)
        it.until("^— cancelled$", "^❯$", READY)
        leave(it)


def test_an_answer_can_be_remembered_by_the_agent(program: Program) -> None:
    with talking(program) as it:
        it.enter("create one.txt with 1")
        it.until(ASKS)
        it.enter("a")
        it.until("I created one.txt", READY)
        it.enter("create two.txt with 2")
        it.until("I created two.txt", READY)
        leave(it)
    assert it.everything.count("Allow this?") == 1


def test_a_rejection_can_have_a_reason(program: Program) -> None:
    with talking(program, *fake_claude("permission")) as it:
        it.enter("go")
        it.until(r"^y/.*\?")
        it.enter("r")
        it.until(r"^reason:")
        it.enter("use the other file")
        it.until("^  → reject once$", "⊘ execute · rm -rf build  denied", READY)
        it.enter("/export told.json")
        it.until("^written: ")
        leave(it)
    told = json.loads((program.folder / "told.json").read_text())
    calls = [item["tool"] for item in told["items"] if item["type"] == "tool"]
    assert "use the other file" in json.dumps(calls)  # as the agent got it


def test_ctrl_d_at_a_question_is_a_no_and_the_conversation_goes_on(program: Program) -> None:
    with talking(program) as it:
        it.enter("create new.txt with text")
        it.until(ASKS)
        it.ctrl("d")
        it.until("^Rejected.$", "You did not allow it", READY)
        leave(it)
    assert not (program.folder / "new.txt").exists()


def test_ctrl_c_at_a_question_stops_the_turn(program: Program) -> None:
    with talking(program) as it:
        it.enter("create new.txt with text")
        it.until(ASKS)
        it.ctrl("c")
        it.until("^— cancelled$", READY, gone=ASKS)
        leave(it)
    assert not (program.folder / "new.txt").exists()


def test_details_can_be_seen_in_full(program: Program) -> None:
    with talking(program, *odd("shows")) as it:
        it.enter("go")
        it.until(r"^Enter/d\?", "  Enter  show more", "  d  show all", "  │ -a")
        it.enter("y")
        it.until("Not yet: read all of it first", r"^Enter/d\?", "^❯?$")
        it.enter("d")
        it.until_told("line 39")
        it.until(r"^y/2/3/n\?")
        it.enter("no")
        it.until("chosen: no", READY)
        leave(it)


def test_a_question_cannot_be_painted_over_or_turned_round(program: Program) -> None:
    with talking(program, *odd("escapes")) as it:
        it.enter("go")
        it.until(r"^y/n\?")
        it.enter("n")
        it.until("chosen: no", READY)
        leave(it)
    assert "wiped" in it.everything
    for evil in ("\u202e", "\u200b", "\x9b31m"):
        assert evil not in it.everything
    assert b"\x1b[2J" not in it.raw
    assert b"\x1b]0;title" not in it.raw
    assert it.emulator.title == ""


def test_a_form_is_filled_field_by_field(program: Program) -> None:
    with talking(program) as it:
        it.enter("/form")
        it.until("^│ Place:")
        it.type("\r")
        it.until("^An answer is required.$", "^│ Place:")
        it.enter("Rome")
        it.until(r"^│ Days \(a number; Enter for 3\):")
        it.enter("99")
        it.until("^At most 14.$")
        it.type("\r")
        it.until("  │ 2  fahrenheit$", r"^│ .*\(a number")
        it.enter("2")
        it.until(r"^│ With rain \(y or n; Enter for y\):")
        it.enter("n")
        it.until(r"^│ Shown \(numbers separated by commas; Enter to skip\):")
        it.enter("1, 3")
        it.until(READY)
        assert '"place": "Rome"' in it.everything
        assert '"days": 3' in it.everything
        leave(it)


@pytest.mark.parametrize("rule", ["/permissions allow-all", "/permissions allow Bash(echo:*)"])
def test_rules_can_be_made_in_the_conversation(program: Program, rule: str) -> None:
    with talking(program, *FAST_DEMO) as it:
        it.enter(rule)
        it.until("allow")
        it.enter("run echo hi there")
        it.until("ended with status 0", READY)
        leave(it)
    assert "Allow this?" not in it.everything


def test_one_key_answers_if_no_other_key_is_near_it(program: Program) -> None:
    with talking(program) as it:
        it.enter("create new.txt with text")
        it.until(ASKS)
        for letter in "yesterday":  # somebody is typing something else
            it.type(letter)
        it.until(ASKS + " yesterday$")
        assert not (program.folder / "new.txt").exists()
        for _ in "esterday":
            it.type(BACKSPACE)
        it.until(ASKS + " y$")  # what is left is not the press of a key
        it.type(BACKSPACE)
        it.type("y")
        it.until("^  → allow once$", "^❯$", READY)
        leave(it)
    assert (program.folder / "new.txt").read_text() == "text\n"


def test_a_pasted_letter_is_no_press_of_a_key(program: Program) -> None:
    with talking(program) as it:
        it.enter("create new.txt with text")
        it.until(ASKS)
        it.type(paste("y"))
        it.until(ASKS + " y$")
        it.enter("")
        it.until("^  → allow once$", READY)
        leave(it)


def test_keys_can_be_made_to_need_enter(program: Program) -> None:
    program.env["AGENTRT_TERMINAL_ANSWER_WITH_KEY"] = "false"
    with talking(program) as it:
        it.enter("create new.txt with text")
        it.until(ASKS)
        it.type("n")
        it.until(ASKS + " n$")
        it.type("\r")
        it.until("denied", READY)
        leave(it)
