"""What the screen shows of a session, and what can be typed beside prompts."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from contextlib import AbstractContextManager

import psutil
import pytest
from program import COMMAND, FAST_DEMO, PATIENCE, Program, Terminal, odd, on_terminal
from screen import ASLEEP, DOWN, ENTER, READY, SHIFT_TAB, Screen, on_screen, processes_of, talking

from forked import FULL

STEADY = ("--agent", "demo")
LINES = 20_000 if FULL else 5_000
"""Lines of a flood: what takes the time is the emulator that reads them."""


def leave(it: Screen) -> None:
    it.until(READY)
    it.ctrl("d")
    assert it.ended() == 0
    assert it.is_restored()
    assert "Traceback" not in it.everything


# --- what happens


@pytest.mark.slow
def test_markdown_is_shown_as_it_is_meant(program: Program) -> None:
    with talking(program) as it:
        it.enter("/markdown")
        it.until(READY, "is long enough")
        told = it.everything
        leave(it)
    assert re.search("^Some bold, italic, struck and inline text", told, re.MULTILINE)
    assert re.search("^ 1 First$", told, re.MULTILINE)
    assert re.search("^ language +hello$", told, re.MULTILINE)
    assert re.search("^  async def main", told, re.MULTILINE)
    assert '<script>alert("no")</script>' in told  # text, as everything that an agent says
    assert b"\x1b]8;" not in it.raw  # no link that says another thing than where it leads


@pytest.mark.slow
def test_thoughts_are_one_line_each(program: Program) -> None:
    with talking(program, *STEADY) as it:
        it.enter("/think")
        it.until("thinking .* s")
        it.until("✻ thought.*: I was asked for thoughts.", "✻ thought.*: A second thought", READY)
        leave(it)


@pytest.mark.slow
def test_tool_cards_show_kind_title_status_time_and_output(program: Program) -> None:
    with talking(program, *FAST_DEMO, "--permissions", "allow-all", "--no-sandbox") as it:
        it.enter("run seq 40; sleep 1.2; echo end")
        it.until("^. execute · Run seq 40", "^  │ 40$", "working")  # while it runs: its last line
        it.until_told(r"^✓ execute · Run seq 40; sleep 1.2; echo end  \d.* s\n.*ctrl-o shows them$")
        it.until(READY)
        assert "  │ 40\n  │ end\n" in it.everything
        assert "  │ 7\n" not in it.everything
        it.ctrl("o")
        it.until(r"\(END\)$")
        it.type("g")
        it.until("^  │ 7$")
        it.type("q")
        it.until(READY)
        it.enter("/tools")
        it.until("^✗ read · Open a file that is not there  failed$", READY)
        leave(it)


@pytest.mark.slow
def test_a_card_is_finished_when_the_agent_dies(program: Program) -> None:
    with talking(program) as it:
        it.enter("/crash mid")
        it.until("^— the agent's process ended", "paused.*the next message restarts it")
        assert "working" not in it.text
        it.enter("list the files")
        it.until("the agent was started again", "notes.txt", READY)
        leave(it)


@pytest.mark.slow
def test_the_plan_is_seen_while_it_is_worked_on(program: Program) -> None:
    with talking(program, *STEADY) as it:
        it.enter("/plan")
        it.until(r"^plan \d/3$", "^  ▸ ", "^  · ")
        it.until("✓ plan 3/3 done", READY)
        leave(it)


@pytest.mark.slow
def test_background_work_is_shown_and_what_it_says_appears_by_itself(program: Program) -> None:
    with talking(program, *STEADY) as it:
        it.enter("/background 1")
        it.until("My turn ends here")
        it.type("read no")  # while something else is written
        it.until_told("The background work is done.")
        it.until("^❯ read no$")
        it.enter("tes.txt")
        it.until("second line", READY)
        assert "· the agent continues by itself" in it.everything
        leave(it)


@pytest.mark.slow
def test_the_status_line_says_how_much_was_used(program: Program) -> None:
    with talking(program, *STEADY) as it:
        it.enter("/usage")
        it.until(r"working \d+ s · demo · steady · ask · \d+% context · \$0\.\d\d")
        leave(it)


@pytest.mark.slow
def test_many_lines_scroll_through_without_losing_one(program: Program) -> None:
    with talking(program) as it:
        it.enter(f"/flood {LINES}")
        it.until(rf"^line {LINES}$", READY)
        told = it.everything
        it.enter("/export all.md")
        it.until("written: .*all.md")
        leave(it)
    log = (program.folder / "all.md").read_text()
    lines = re.findall(r"^> (line \d+)$", log, re.MULTILINE)
    assert lines == [f"line {n}" for n in range(1, LINES + 1)]
    assert re.findall(r"^line \d+$", told, re.MULTILINE) == lines


@pytest.mark.slow
def test_keys_are_echoed_in_the_middle_of_a_flood(program: Program) -> None:
    with on_screen(program, *FAST_DEMO, kind=Terminal) as it:
        it.expect("ready")
        it.type("/flood 50000" + ENTER)
        it.expect("line 1\r")
        for letter in "ÄÖÜ":
            it.type(letter)
            it.expect(letter)
        assert "line 50000" not in it.shown
        it.expect("line 50000\r")
        it.ctrl("c")
        it.ctrl("c")
        assert it.ended() == 130


# --- what can be typed


@pytest.mark.slow
def test_commands_are_completed_ours_and_the_agent_s(program: Program) -> None:
    with talking(program) as it:
        it.type("/")
        it.until("^  /help +show this help$", "^  … .* more$")
        it.type("m")
        it.until("^  /mode ", "^  /model ", "^  //mode |^  /media ")
        it.type("ed\t")
        it.until("^❯ /media$")
        it.type(ENTER)
        it.until(r"^  \[image: image/png, \d+ kB\]$", READY)
        leave(it)


@pytest.mark.slow
def test_files_are_completed(program: Program) -> None:
    (program.folder / "src").mkdir()
    (program.folder / "src" / "deep.py").touch()
    (program.folder / ".secret").touch()
    with talking(program) as it:
        it.type("look at @")
        it.until("^  notes.txt", "^  src/", "^  src/deep.py")
        assert "secret" not in it.text
        it.type("dee\t")
        it.until("^❯ look at @src/deep.py$")
        it.type(ENTER)
        it.until("^❯ look at @src/deep.py$")  # chosen, and not sent yet
        it.ctrl("c")
        it.until("^❯$")
        leave(it)


@pytest.mark.slow
def test_a_mode_is_chosen_from_a_menu_or_by_shift_tab(program: Program) -> None:
    with talking(program) as it:
        it.enter("/mode")
        it.until("^❯ /mode ask$", r"^  ask +.*\(current\)$", "^  plan ")
        it.type(DOWN)
        it.until("^❯ /mode (?!ask).+$")
        chosen = re.findall(r"❯ /mode (\S+)", it.text)[-1]
        it.type(ENTER)
        it.until(f"^mode: {chosen}$", f"ready · demo · instant · {chosen}")
        it.type(SHIFT_TAB)
        it.until(r"ready · demo · instant · ", gone=f"instant · {chosen}")
        leave(it)


@pytest.mark.slow
def test_a_shell_command_is_run_shown_and_ended(program: Program) -> None:
    with talking(program) as it:
        it.enter("!printf '\\033[2J\\033[31m'; echo one; echo two >&2; printf 'x\\rthree'; exit 3")
        # The command has cleared its own output, and not the terminal.
        it.until("^agentrt", "^! printf", "^one$", "^two$", "^three$", "^exit status 3$")
        assert b"\x1b[31mtwo\x1b[0m" in it.raw
        it.enter("!sleep 600")
        it.until("ctrl-c ends it")
        it.ctrl("c")
        it.until("^exit status -?2$|^exit status 130$", READY)
        leave(it)


@pytest.mark.slow
def test_a_shell_command_s_group_ends_with_the_conversation(program: Program) -> None:
    pids = program.folder / "pid"
    with talking(program) as it:
        it.enter(f"!echo $$ > {pids}; sleep 600 & sleep 601")
        it.until("ctrl-c ends it")
        while not pids.exists() or not pids.read_text():
            it.until("")
        group = int(pids.read_text())
        assert processes_of(group)
        it.process.send_signal(signal.SIGTERM)
        assert it.ended() == 143
        assert it.is_restored()
    deadline = time.monotonic() + PATIENCE
    while processes_of(group):
        assert time.monotonic() < deadline


@pytest.mark.slow
def test_a_shell_command_without_end_is_shown_as_fast_as_it_is_read_and_can_be_ended(
    program: Program,
) -> None:
    with on_screen(program, *FAST_DEMO, kind=Terminal) as it:
        it.expect("ready")
        it.type("!yes and so on" + ENTER)
        it.expect("and so on\r")
        before = psutil.Process(it.process.pid).memory_info().rss
        for _ in range(1000):
            it.expect("and so on\r")
        grown = psutil.Process(it.process.pid).memory_info().rss - before
        it.ctrl("c")
        it.expect("exit status (-2|130)", regex=True)
        it.ctrl("d")
        assert it.ended() == 0
    assert grown < 50_000_000


@pytest.mark.slow
def test_the_draft_can_be_edited_in_an_editor(program: Program) -> None:
    editor = program.folder / "editor"
    editor.write_text('#!/bin/sh\nread answer </dev/tty\nprintf "%s" "$answer" >> "$1"\n')
    editor.chmod(0o700)
    program.env["EDITOR"] = str(editor)
    with talking(program) as it:
        it.type("read ")
        it.until("^❯ read$")
        it.ctrl("g")
        it.until("", gone="ready")
        it.type("notes.txt:2\n")
        it.until("^❯ read notes.txt:2$", READY)
        it.type(ENTER)
        it.until("^  second line$", READY)
        leave(it)


@pytest.mark.slow
def test_an_editor_that_is_open_does_not_keep_it_from_ending(program: Program) -> None:
    program.env["EDITOR"] = "sh -c 'sleep 600'"
    with talking(program) as it:
        it.ctrl("g")
        it.until("", gone="ready")
        it.process.send_signal(signal.SIGTERM)
        assert it.ended() == 143
        assert it.is_restored()


@pytest.mark.slow
def test_the_rest_of_the_commands(program: Program) -> None:
    with talking(program) as it:
        it.enter("/help")
        it.until("^Keys:$", "^  Ctrl-O +show the last shortened text")  # in the pager
        it.type("G")
        it.until("^  /quit ", "^  /crash ", r"\(END\)$")
        it.type("q")
        it.until(READY)
        it.enter("read notes.txt:2")
        it.until("^  second line$", READY)
        it.enter("/cost")
        it.until(r"^context  \d+ of 200,000 tokens")
        it.enter("/tasks")
        it.until("^The agent has no background work.$")
        it.enter("/queue")
        it.until("^No queued prompts.$")
        it.enter("/debug")
        it.until_told(r"^process  \d+, alive; version 0.1.0$")
        it.enter("/export it.md")
        it.until("^written: ")
        it.enter("/export it.md")
        it.until("^agentrt: .*it.md exists")
        it.enter("/permissions deny")
        it.until("^deny: other requests are denied$")
        it.enter("/permissions allow (")
        it.until("^agentrt: ")
        it.enter("/nonsense")
        it.until("unknown command")
        leave(it)
    assert "second line" in (program.folder / "it.md").read_text()


@pytest.mark.slow
def test_an_earlier_conversation_is_gone_on_with(program: Program) -> None:
    with talking(program) as it:
        it.enter("read notes.txt:2")
        it.until("^  second line$", READY)
        leave(it)
    with talking(program) as it:
        it.enter("/sessions")
        it.until("^  1  .*read notes.txt:2.* · demo · ", "/resume N resumes one")
        it.enter("/resume")
        it.until("^❯ /resume 1$", "^  1  .*read notes.txt:2")
        it.type(ENTER)
        it.until("^❯ read notes.txt:2$", "^✓ Read notes.txt$", "^  second line$", ASLEEP)
        it.enter("read notes.txt:1")
        it.until("^  first line$", READY)
        leave(it)


@pytest.mark.slow
def test_another_agent_is_switched_to_and_one_that_does_not_start_costs_nothing(
    program: Program,
) -> None:
    settings = program.home / ".config" / "agentrt" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(
        f"[agents.other]\ncommand = '''{odd('locked')[1]}'''\n"
        f"[agents.third]\ncommand = '''{odd('breaks')[1]}'''\n"
    )
    with talking(program) as it:
        it.enter("read notes.txt:2")
        it.until("^  second line$", READY)
        it.enter("/agent other")
        it.until(
            "agentrt: other requires a login first: Log in first", "❯ read notes.txt:2$", ASLEEP
        )
        it.enter("/agent third")
        it.until("agentrt 0.1.0 · odd|· third", "ready · (odd|third)")
        it.enter("go")
        it.until("the last", READY)
        leave(it)


# --- how much a terminal can do


@pytest.mark.slow
def test_no_color_means_none(program: Program) -> None:
    program.env["NO_COLOR"] = "1"
    with talking(program) as it:
        it.enter("/markdown")
        it.until(READY, "is long enough")
        it.enter("/tools")
        it.until_told("^✗ read")
        it.until("y/a/n/x|ready")
        it.process.send_signal(signal.SIGTERM)
        assert it.ended() == 143
    assert not re.search(rb"\x1b\[[0-9;]*\b(3[0-8]|4[0-8]|9[0-7]|10[0-7])[;m]", it.raw)


@pytest.mark.slow
def test_color_may_be_had_or_not_by_a_flag(program: Program) -> None:
    colour = rb"\x1b\[[0-9;]*3[0-7][;m]"
    program.env["NO_COLOR"] = "1"
    with talking(program, *FAST_DEMO, "--color", "always") as it:
        leave(it)
    assert re.search(colour, it.raw)
    del program.env["NO_COLOR"]
    with talking(program, *FAST_DEMO, "--color", "never") as it:
        leave(it)
    assert not re.search(colour, it.raw)


@pytest.mark.parametrize("how", ["--plain", pytest.param("TERM=dumb", marks=pytest.mark.slow)])
def test_simple_terminals_and_screen_readers_get_lines(program: Program, how: str) -> None:
    flags = [how] if how.startswith("--") else []
    with on_plain(program, *FAST_DEMO, *flags, term="xterm" if flags else "dumb") as it:
        it.until("^>$")
        it.type("read notes.txt:2\n")
        it.until_told("second line")
        it.ctrl("d")
        assert it.ended() == 0
    assert b"\x1b[?" not in it.raw
    if not flags:
        assert b"\x1b" not in it.raw


def on_plain(program: Program, *arguments: str, term: str) -> AbstractContextManager[Screen]:
    """The program on a terminal for which no more is said than its name."""
    env = {k: v for k, v in program.env.items() if k != "AGENTRT_TERMINAL_PLAIN"} | {"TERM": term}
    return on_terminal([*COMMAND, *arguments], Screen, cwd=program.folder, env=env)


LIBRARIES = ("prompt_toolkit", "rich", "pygments", "markdown_it", "trio_websocket", "asyncio")


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [["--version"], ["--help"], [*FAST_DEMO, "-p", "read notes.txt"]]
)
def test_what_is_no_conversation_does_not_import_its_libraries(
    program: Program, arguments: list[str]
) -> None:
    script = (
        "import sys; from agentrt._cli.main import main; main(sys.argv[1:]);"
        f"print([name for name in {LIBRARIES!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=program.folder,
        env=program.env,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        (
            "from agentrt._cli.main import main; main(['--version'])",
            ("trio", "msgspec", *LIBRARIES),
        ),
        ("import agentrt", ("trio", "msgspec", *LIBRARIES)),
        ("import agentrt; agentrt.open_session", LIBRARIES[:-1]),
    ],
)
def test_what_is_imported_is_needed(program: Program, code: str, absent: tuple[str, ...]) -> None:
    script = f"import sys; {code}; print([name for name in {absent!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=program.env,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.slow
def test_without_its_libraries_the_conversation_goes_line_by_line(program: Program) -> None:
    hidden = program.folder.parent / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(
        "import sys, importlib.abc\n"
        "class Hide(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name.partition('.')[0] in ('prompt_toolkit', 'rich'):\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Hide())\n"
    )
    program.env["PYTHONPATH"] = str(hidden)
    with on_plain(program, *FAST_DEMO, term="xterm") as it:
        it.until("^>$", 'pip install "agentrt.repl."')
        it.ctrl("d")
        assert it.ended() == 0


@pytest.mark.slow
def test_without_an_agent_the_first_lines_say_how_to_get_one(program: Program) -> None:
    program.env["PATH"] = "/usr/bin:/bin"
    with talking(program, "--permissions", "ask") as it:
        it.until("no agent is installed; using the built-in demo agent", "install -g @")
        it.enter("hello")
        it.until("I have no model", READY)
        it.ctrl("d")
        assert it.ended() == 0


@pytest.mark.slow
def test_nothing_is_left_of_a_conversation_that_was_killed_from_outside(program: Program) -> None:
    with talking(program) as it:
        agents = psutil.Process(it.process.pid).children(recursive=True)
        it.process.kill()
        it.process.wait()
    assert psutil.wait_procs(agents, timeout=10)[1] == []
