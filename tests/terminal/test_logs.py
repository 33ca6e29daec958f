"""`--log-level` and `--log-format`: what a command prints of what happens."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentrt.config import ConfigError, load_config

ONE_SHOT = ["-p", "hello", "--agent", "demo", "--store", "off"]


def agentrt(tmp_path: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    outside = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("AGENTRT_") or name == "AGENTRT_TEST_RUN"
    }
    return subprocess.run(
        [sys.executable, "-m", "agentrt", *words],
        env={**outside, "HOME": str(tmp_path), **env},
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.slow
def test_a_command_logs_as_it_is_told_and_its_output_stays_what_it_is(tmp_path: Path) -> None:
    quiet = agentrt(tmp_path, *ONE_SHOT)
    lines = agentrt(tmp_path, *ONE_SHOT, "--log-level", "info", "--log-format", "json")
    text = agentrt(tmp_path, *ONE_SHOT, AGENTRT_LOG_LEVEL="info")
    assert quiet.stderr == ""
    assert quiet.stdout == lines.stdout == text.stdout
    records = [json.loads(line) for line in lines.stderr.splitlines()]
    [ended] = [each for each in records if each["message"].startswith("the turn ended")]
    assert (ended["level"], ended["logger"]) == ("info", "agentrt.session")
    assert (ended["agent"], ended["turn"], ended["outcome"]) == ("demo", "t1", "completed")
    assert ended["session"] == records[0]["session"]
    assert ended["seq"] > 0
    assert ended["time"].endswith("Z")
    assert "debug" not in {each["level"] for each in records}
    [line] = [line for line in text.stderr.splitlines() if "the turn ended" in line]
    assert " INFO agentrt.session: the turn ended: completed" in line
    assert " agent=demo turn=t1 " in line


@pytest.mark.slow
def test_every_command_takes_a_level_and_says_which_there_are(tmp_path: Path) -> None:
    for command in (["agents"], ["doctor"], ["sessions", "list"], ["serve"], ["acp"], ["config"]):
        done = agentrt(tmp_path, *command, "--log-level", "loud")
        assert done.returncode == 2
        assert "'debug', 'info', 'warning', 'error'" in done.stderr


def test_the_settings_say_it_for_good(tmp_path: Path) -> None:
    settings = tmp_path / "config.toml"
    settings.write_text('[log]\nlevel = "debug"\nformat = "json"\n')
    env = {"AGENTRT_CONFIG": str(settings)}
    log = load_config(tmp_path, env).log
    assert (log.level, log.format) == ("debug", "json")
    assert load_config(tmp_path, {**env, "AGENTRT_LOG_LEVEL": "error"}).log.level == "error"
    with pytest.raises(ConfigError, match=r"the environment: log\.level"):
        load_config(tmp_path, {"AGENTRT_LOG_LEVEL": "loud"})
