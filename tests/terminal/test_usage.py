"""What can be said on the command line, and what is said about what cannot."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from program import COMMAND, FAST_DEMO, PATIENCE, Program, fake_claude, odd

from agentrt import __version__
from agentrt._cli.arguments import make_parser
from agentrt._cli.setup import choose_agent
from agentrt._cli.subcommands import SESSION_OPTIONS, SUBCOMMANDS
from agentrt.config import Config
from in_process import main


def test_the_version_is_reported_by_either_name_of_the_program(program: Program) -> None:
    assert program.run("--version").stdout == f"agentrt {__version__}\n"
    script = Path(sys.executable).with_name("agentrt")
    told = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert told.stdout == f"agentrt {__version__}\n"


def subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    found: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found |= action.choices
    return found


PARSER = make_parser()
COMMANDS = sorted(subparsers(PARSER))


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_is_there_for_each_command_and_fits(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command.split(), "--help"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("usage: agentrt")
    assert max(map(len, told.splitlines())) <= 100


DEFAULT_VERBS = {
    command: str(verb)
    for command, parser in subparsers(PARSER).items()
    if subparsers(parser) and (verb := parser.get_default("verb")) is not None
}


def parsed(arguments: list[str]) -> dict[str, object]:
    found: dict[str, object] = vars(PARSER.parse_args(arguments))
    return found


def examples(parser: argparse.ArgumentParser) -> list[list[str]]:
    """Return each option of a parser, with a value that it accepts."""
    return [
        [action.option_strings[0], *([] if action.nargs == 0 else ["1"])]
        for action in parser._actions
        if action.option_strings and "--help" not in action.option_strings and not action.choices
    ]


@pytest.mark.parametrize("command", sorted(DEFAULT_VERBS))
def test_the_default_verb_of_a_command_takes_its_options_on_either_side(command: str) -> None:
    verb = DEFAULT_VERBS[command]
    given = examples(subparsers(PARSER)[command])
    assert ["--json"] in given
    for option in given:
        meant = parsed([command, *option]).items()
        for said in ([command, *option, verb], [command, verb, *option]):
            got = parsed(said).items()
            assert [each for each in meant if each not in got] == [], said


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--help"])
    told = capsys.readouterr().out
    usage = told.partition("Run a coding agent")[0]
    for name in COMMANDS:
        assert f"\n  agentrt {name} " in told
        assert re.search(rf"\b{name}\b", usage)


@pytest.mark.slow
def test_the_examples_of_the_help_work(program: Program) -> None:
    (program.folder / "README.md").write_text("# A title\n")
    told = program.run("--help").stdout
    examples = [line.strip() for line in told.splitlines() if "agentrt --agent demo -p" in line]
    assert len(examples) >= 5
    for example in examples:
        words = shlex.split(example)[1:]
        assert words[:3] == ["--agent", "demo", "-p"]
        status = 3 if "--timeout" in words else 0
        program.run(*words, "--model", "instant", status=status)
    assert (program.folder / "a.txt").read_text() == "hello\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--frobnicate"], "unknown option --frobnicate"),
        (["fix the tests"], "unknown command 'fix the tests'; to send a prompt, use -p TEXT"),
        (["doktor"], "unknown command 'doktor'; did you mean doctor?"),
        (["--agnet", "demo"], "unknown option --agnet; did you mean --agent?"),
        (["--agnet=demo", "-p", "x"], "unknown option --agnet; did you mean --agent?"),
        (["serve", "--allowhost", "x"], "unknown option --allowhost; did you mean --allow-host?"),
        (["sessions", "lst"], "invalid choice: 'lst'"),
        (["-p", "x", "--output-format", "xml"], "choose from"),
        (["-p", "x", "--timeout", "soon"], "'soon' is neither a number of seconds nor `none`"),
        (["sessions", "--limit", "9" * 19], "is not a whole number of 1 or more, with at most 18"),
        (["-p", "x", "--timeout", "-1"], "neither a number of seconds"),
        (["-p", "x", "--agent", "demo", "--command", "x"], "exclude each other"),
        (["-p", "x", "--protocol", "acp"], "--protocol is the protocol of --command"),
        (["-p", "x", "--command", "it's"], "cannot be read: No closing quotation"),
        (["-p", "x", "--command", ""], "--command: an agent's command is empty"),
        (
            ["-p", "x", "--cwd", "/no/such/folder"],
            "--cwd: the folder '/no/such/folder' does not exist",
        ),
        (["-p", "x", "--agent", "demo", "--allow", "Bash(("], "'Bash((' is not a permission rule"),
        (
            ["-p", "x", "--agent", "demo", "--deny", "Edit(../x)"],
            "a path must not contain .. or :*",
        ),
    ],
)
def test_wrong_usage_is_2_and_reported_in_a_line(
    arguments: list[str],
    message: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    assert main(arguments) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("agentrt: ")
    assert message in err


def test_every_subcommand_of_the_parser_is_in_the_table() -> None:
    subcommands: set[str] = set()
    for action in make_parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            subcommands |= set(action.choices)
    assert subcommands == {name for name in SUBCOMMANDS if name is not None} | {"record"}
    for subcommand in SUBCOMMANDS.values():
        module = importlib.import_module(f"agentrt._cli.commands.{subcommand.module}")
        assert callable(module.prepare)
        assert subcommand.accepts <= set(SESSION_OPTIONS)


@pytest.mark.parametrize(
    "wrong", [["--agnet", "demo"], ["--timeout", "soon"], ["--cwd", "/no/such/folder"]]
)
@pytest.mark.parametrize("format", ["json", "stream-json"])
def test_wrong_usage_is_json_where_the_answer_would_have_been(
    wrong: list[str],
    format: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert main(["-p", "x", f"--output-format={format}", *wrong]) == 2
    out, err = capfd.readouterr()
    told = json.loads(out)
    assert (told["outcome"], told["turn"], told["error"]["code"]) == ("failed", "", "usage")
    assert err.startswith(f"agentrt: {told['error']['message']}\n")


@pytest.mark.slow
def test_every_command_works_in_a_container_without_a_home_and_without_a_user(
    program: Program,
) -> None:
    if os.geteuid():
        pytest.skip("only root can start a program as another user")
    program.folder.chmod(0o777)
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    for arguments in (
        ["-p", "list the files", "--agent", "demo", "--model", "instant"],
        ["agents"],
        ["sessions", "--all"],
        ["config"],
    ):
        # Importing needs nothing of the user: the folders of this interpreter may be root's alone.
        code = (
            "import os, sys, agentrt._cli.main as cli, agentrt._cli.commands.one_shot\n"
            "os.setgroups([]); os.setgid(54321); os.setuid(54321)\n"
            "sys.exit(cli.main(sys.argv[1:]))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            cwd=program.folder,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert "Traceback" not in done.stderr, (arguments, done.stderr)


@pytest.mark.slow
def test_a_folder_that_is_gone_is_named_as_the_reason(program: Program) -> None:
    gone = program.folder / "gone"
    gone.mkdir()
    script = f'cd {gone} && rmdir {gone} && exec "$@"'
    for arguments, status in (
        ((*FAST_DEMO, "-p", "hello"), 2),
        ((*FAST_DEMO, "-p", "hello", "--cwd", str(program.folder)), 0),
        (("sessions",), 2),
    ):
        gone.mkdir(exist_ok=True)
        done = subprocess.run(
            ["sh", "-c", script, "sh", *COMMAND, *arguments],
            cwd=program.folder,
            env=program.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == status, done.stderr
        if status:
            assert done.stderr.startswith("agentrt: the current folder no longer exists")


@pytest.mark.parametrize("arguments", [(*FAST_DEMO, "-p", "hello"), ("sessions",)])
def test_a_folder_whose_name_is_not_utf8_is_refused_with_the_reason(
    program: Program, arguments: tuple[str, ...]
) -> None:
    program.folder = program.folder / os.fsdecode(b"w\xffx")
    program.folder.mkdir()
    assert "is not valid UTF-8" in program.run(*arguments, status=2).stderr


def test_a_wrong_setting_is_wrong_usage_and_its_file_is_named(program: Program) -> None:
    file = program.home / "settings.toml"
    file.write_text("[limits]\nhrad = 3\n")
    program.env["AGENTRT_CONFIG"] = str(file)
    done = program.demo("hello", status=2)
    assert done.stderr.startswith(f"agentrt: {file}: limits.hrad is not a setting; settings: ")


@pytest.mark.slow
def test_what_is_ignored_of_a_stranger_s_settings_is_reported(program: Program) -> None:
    (program.folder / ".agentrt.toml").write_text('[permissions]\nmode = "allow-all"\n')
    done = program.demo("create new.txt with text")
    assert "agentrt: warning: " in done.stderr
    assert "permissions ignored" in done.stderr
    assert not (program.folder / "new.txt").exists()


@pytest.mark.slow
def test_limits_of_the_command_line_win(program: Program) -> None:
    program.env["AGENTRT_LIMITS_TURN_TIMEOUT_S"] = "0.1"
    program.demo("/slow 0.5", status=3)
    program.demo("/slow 0.5", "--timeout", "none")


@pytest.mark.slow
def test_a_closed_standard_output_is_no_accident(program: Program) -> None:
    for arguments in ("--agent demo -p hello", "agents", "--help"):
        command = f'exec "$@" {arguments} >&- </dev/null'
        done = subprocess.run(
            ["sh", "-c", command, "sh", *COMMAND],
            cwd=program.folder,
            env=program.env,
            stderr=subprocess.PIPE,
            timeout=PATIENCE,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b""), arguments


# --- agents and doctor


def test_agents_lists_what_is_there_and_how_to_get_the_rest(program: Program) -> None:
    program.env["PATH"] = "/nowhere"
    told = program.run("agents").stdout
    assert f"demo   {__version__}    acp       {sys.executable}" in " ".join(told.split("\n"))
    assert "gemini            npm install -g @google/gemini-cli" in told


def test_agents_for_programs_is_json(program: Program) -> None:
    program.env["PATH"] = "/nowhere"
    told = {each["name"]: each for each in json.loads(program.run("agents", "--json").stdout)}
    assert told["demo"]["installed"] is True
    assert told["demo"]["version"] == __version__
    assert told["gemini"]["installed"] is False
    assert told["gemini"]["version"] is None
    assert told["gemini"]["install"].startswith("npm install -g")


@pytest.mark.slow
def test_doctor_says_what_works_and_leaves_the_folder_alone(program: Program) -> None:
    before = sorted(program.folder.iterdir())
    told = program.run("doctor", "--agent", "demo").stdout
    assert sorted(program.folder.iterdir()) == before
    assert told.startswith(f"✓ demo {__version__}: ready after ")
    assert "    can           resume, fork, fork_at, list_sessions" in told
    assert "    mode          ask (also: auto, plan)" in told
    [found] = json.loads(program.run("doctor", "--agent", "demo", "--json").stdout)
    assert found["ok"] is True
    assert found["protocol"] == "acp"
    assert found["models"] == ["steady", "instant"]
    assert 0 < found["seconds"] < PATIENCE


@pytest.mark.slow
def test_doctor_waits_no_longer_than_its_limit(program: Program) -> None:
    mute = ("doctor", "--command", "sh -c 'echo why >&2; sleep 600'", "--timeout", "1")
    done = program.run(*mute, status=3)
    assert done.stdout.startswith("✗ sh: examining it took over 1 s (--timeout): sh was not ready")
    assert "  │ why" in done.stdout
    [found] = json.loads(program.run(*mute, "--json", status=3).stdout)
    assert (found["ok"], found["timed_out"]) == (False, True)


@pytest.mark.slow
def test_doctor_says_what_is_wrong(program: Program) -> None:
    done = program.run("doctor", *odd("locked"), status=1)
    assert "requires a login first: Log in first (" in done.stdout
    assert "  │ no key in the environment\n" in done.stdout
    [found] = json.loads(program.run("doctor", *odd("locked"), "--json", status=1).stdout)
    assert found["ok"] is False
    assert found["error"].endswith("requires a login first: Log in first")
    assert "no key" in found["stderr"]


@pytest.mark.slow
def test_doctor_knows_a_claude_that_is_not_logged_in(program: Program) -> None:
    done = program.run("doctor", *fake_claude("no_login"), status=1)
    assert "Claude Code is not logged in: run `claude` and type /login, or set" in done.stdout
    [found] = json.loads(program.run("doctor", *fake_claude("no_login"), "--json", status=1).stdout)
    assert (found["ok"], found["version"]) == (False, "0.0.fake")


# --- what it costs to be asked little


@pytest.mark.slow
def test_little_is_imported_to_say_little(program: Program) -> None:
    code = (
        "import sys, agentrt._cli.main as cli\n"
        "cli.main({!r})\n"
        "print(*[name for name in {!r} if name in sys.modules], file=sys.stderr)"
    )
    for arguments in (["--version"], ["agents", "--json"]):
        heavy = [
            "agentrt._core.runtime.protocol_setup",
            "agentrt._core.acp.driver",
            "agentrt._core.claude.driver",
        ]
        heavy += ["trio_websocket", "prompt_toolkit", "rich", "asyncio", "pydantic"]
        done = subprocess.run(
            [sys.executable, "-c", code.format(arguments, heavy)],
            env={**program.env, "PATH": "/nowhere"},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
        assert done.stderr.split() == []


# --- agents by their command


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("sh -c 'exit 1'", "sh"),
        ("cat", "cat"),
        (f"{sys.executable} -m agentrt.demo", "agentrt.demo"),
        (f"{sys.executable} /somewhere/my_agent.py --acp", "my_agent"),
        (f"{sys.executable}", "python"),
    ],
)
def test_an_agent_is_named_by_its_program_or_its_script(command: str, name: str) -> None:
    agent, _ = choose_agent(Config(), command=command)
    assert agent.name.rstrip("0123456789.") == name


@pytest.mark.slow
def test_a_stored_session_of_a_command_says_how_to_continue_it(program: Program) -> None:
    command = shlex.join([sys.executable, "-m", "agentrt.demo"])
    program.run("--command", command, "-p", "list the files")
    told = program.run("--continue", "-p", "list the files", status=4).stderr
    assert "the session's agent 'agentrt.demo' is not known here; give its command again" in told
    program.run("--continue", "--command", command, "-p", "list the files")
