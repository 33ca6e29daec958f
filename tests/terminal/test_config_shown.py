"""`agentrt config` and `agentrt completion`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from program import PATIENCE, Program

# --- config


def with_settings(program: Program) -> Path:
    file = program.home / ".config" / "agentrt" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(
        """
        agent = "mine"
        [agents.mine]
        command = "mine --acp"
        env = { MINE_KEY = "do not tell" }
        quirks = { cancel_grace_s = 30 }
        [permissions]
        allow = ["Read"]
        [serve]
        token = "do not tell this either, it is long enough"
        [serve.tenants.acme]
        token = "do not tell what is acme's"
        sessions = 3
        """
    )
    return file


def test_config_shows_each_setting_and_where_it_was_made(program: Program) -> None:
    file = with_settings(program)
    (program.folder / ".agentrt.toml").write_text('[permissions]\ndeny = ["Bash"]\n')
    program.env["AGENTRT_LIMITS_TURN_TIMEOUT_S"] = "77"
    told = program.run("config", "--cwd", str(program.folder)).stdout
    lines = {" ".join(line.split()) for line in told.splitlines()}
    assert f'agent = "mine" # {file}' in lines
    assert f'allow = ["Read"] # {file}' in lines
    assert f'deny = ["Bash"] # {(program.folder / ".agentrt.toml").resolve()}' in lines
    assert "turn_timeout_s = 77.0 # the environment" in lines
    assert 'idle_timeout_s = "none" # default' in lines


def test_what_config_shows_is_a_configuration_file(program: Program) -> None:
    with_settings(program)
    told = program.run("config").stdout
    settings = tomllib.loads(told)
    assert settings["agents"]["mine"]["command"] == ["mine", "--acp"]
    assert settings["agents"]["mine"]["quirks"] == {"cancel_grace_s": 30.0}
    again = program.home / "again.toml"
    again.write_text(told)
    program.env["AGENTRT_CONFIG"] = str(again)
    assert tomllib.loads(program.run("config").stdout) == settings


def test_config_shows_no_secrets(program: Program) -> None:
    with_settings(program)
    for arguments in (["config"], ["config", "--json"]):
        told = program.run(*arguments).stdout
        assert "do not tell" not in told
        assert "(set)" in told


def test_config_shows_what_was_ignored(program: Program) -> None:
    (program.folder / ".agentrt.toml").write_text('agent = "demo"\n[permissions]\nmode = "ask"\n')
    told = json.loads(program.run("config", "--json").stdout)
    [warning] = told["warnings"]
    assert "does not list this folder under `trusted`" in warning
    assert told["settings"]["agent"] is None
    assert "agent" not in told["origins"]


def test_a_wrong_setting_is_reported_with_its_place(program: Program) -> None:
    file = with_settings(program)
    file.write_text("[limits]\nhrad = 1\n")
    done = program.run("config", status=2)
    assert f"{file}: limits.hrad is not a setting" in done.stderr


# --- completion


@pytest.mark.parametrize(
    ("line", "wanted", "unwanted"),
    [
        ("agentrt ser", {"serve "}, {"agents "}),
        pytest.param("agentrt --agent de", {"demo "}, {"notes.txt"}, marks=pytest.mark.slow),
        pytest.param(
            "agentrt --permissions ", {"allow-all", "ask", "deny"}, set(), marks=pytest.mark.slow
        ),
        pytest.param("agentrt doctor --js", {"--json "}, set(), marks=pytest.mark.slow),
        pytest.param("agentrt sessions ex", {"export "}, set(), marks=pytest.mark.slow),
        pytest.param("agentrt -p ", set(), {"notes.txt"}, marks=pytest.mark.slow),
    ],
)
def test_bash_completes(program: Program, line: str, wanted: set[str], unwanted: set[str]) -> None:
    """As a person's shell does it: the printed script is run, and asked for the line."""
    bin = Path(sys.executable).parent
    program.env["PATH"] = f"{bin}:{program.env['PATH']}"
    script = (
        'eval "$(agentrt completion bash)"; COMP_LINE=$1; COMP_POINT=${#1}; COMP_TYPE=9;'
        'COMP_WORDS=($1); [[ $1 == *" " ]] && COMP_WORDS+=("");'
        "COMP_CWORD=$((${#COMP_WORDS[@]} - 1));"
        '_python_argcomplete agentrt "" "" 2>/dev/null;'
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", script, "bash", line],
        env=program.env,
        cwd=program.folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    told = set(done.stdout.splitlines())
    assert {each.strip() for each in wanted} <= {each.strip() for each in told}, done
    assert not {each.strip() for each in unwanted} & {each.strip() for each in told}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_is_one(program: Program, shell: str) -> None:
    script = program.run("completion", shell).stdout
    assert "agentrt" in script
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"{shell} is not installed (apt-get install {shell})")
    subprocess.run([path, "-n"], input=script, text=True, timeout=PATIENCE, check=True)


def test_an_unknown_shell_is_wrong_usage(program: Program) -> None:
    assert "choose from" in program.run("completion", "tcsh", status=2).stderr
