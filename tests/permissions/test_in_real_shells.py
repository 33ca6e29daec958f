"""Lines made by chance, read by the rules and run by real shells.

Whatever a shell makes of a line: if it runs `rm`, a rule about `rm` must at least perhaps be about
it; and if `git status` is allowed, nothing but that may run. In these shells `rm`, `git` and the
others are programs that only write down how they were called.
"""

from __future__ import annotations

import os
import random
import re
import shlex
import shutil
import signal
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
from spellings import LIKE_GIT_STATUS, NOT_GIT_STATUS, NOT_REMOVING, REMOVING

from agentrt.permissions import PermissionRequest, rule_effect

pytestmark = pytest.mark.slow

LINES = 20_000 if "AGENTRT_FULL" in os.environ else 200
AT_A_TIME = 200
SHELLS = {
    "bash": ["bash", "--norc", "--noprofile"],
    "dash": ["dash"],
    "zsh": ["zsh", "-f"],
    "bash as sh": ["bash", "--posix"],
}
RECORDED = ("rm", "git", "ls", "x", "a", "victim", "touch", "r", "m")
REAL = ("env", "bash", "sh", "dash", "zsh", "xargs", "nohup", "cat", "nice", "timeout")

SAFE = [
    line
    for line in (*REMOVING, *LIKE_GIT_STATUS, *NOT_GIT_STATUS, *NOT_REMOVING)
    # Here nothing but the recording programs is to be found.
    if not re.search(r"/|while|python3|perl|awk|sed|tar|setsid|-i|\bPATH\b|find|stdbuf", line)
]
PIECES = [
    *shlex.split(
        r"""
    'rm' 'rm victim' 'git status' 'git' 'ls' ' ' ' ' ';' '; ' '&&' '||' '|' '&' '(' ')' '{ '
    '; }' '}' "'" '"' '\' '$' '`' '$(' '<(' '<<E' '<' '> f' '=' '#' ' #' '! ' 'if ' '; then '
    '; fi' '; do ' '; done' 'for a in x ' 'case x in x) ' ' ;; esac' '[[ ' ' ]]' '((' '))'
    '${x:-' '${x}' 'eval ' 'env ' 'X=1 ' 'X=rm;' '$X ' '{rm,x}' 'r' 'm' '*' '?' 'r[m]' '~'
    'function f ' 'f() { ' '; }; f' 'time ' 'coproc ' 'bash -c ' '<<<' '|&' '&>f ' 'always'
    'command ' 'exec ' 'noglob ' '- ' 'xargs ' "$'" '$"' 'a=(' '[0]=' '=rm' '&!' '&|' '>!f '
    'repeat 2 ' 'foreach a (x) ' '; end' 'else ' '$((' '2>&1' '$[' '${!x}' 'alias ls=rm;'
    'set -- rm x;' '"$@"' 'trap '
    """
    ),
    *("\n", "\t", "\\\n", "<<E\n", "\nE\n", "\\'"),
]
FRAMES = (
    *("$(%s)", "`%s`", "(%s)", "{ %s; }", "if true; then %s; fi", "for a in 1; do %s; done"),
    *("bash -c '%s'", "eval '%s'", 'echo "$(%s)"', "cat <(%s)", "! %s", "time %s", "env A=1 %s"),
    *(
        "cat <<E\n%s\nE",
        "cat <<'E'\n%s\nE",
        "[ a = b ] || %s",
        "[[ a == a ]] && %s",
        "# %s",
        "x=$(%s)",
    ),
)


def make_line(chance: random.Random) -> str:
    line = chance.choice(SAFE)
    if chance.random() < 0.3:
        line += chance.choice(("; ", " && ", "\n", " | ", " & ")) + chance.choice(SAFE)
    if chance.random() < 0.25:
        line = chance.choice(FRAMES) % line
    parts = re.findall(r"[A-Za-z0-9_.-]+|\s|[^\s]", line)
    for _ in range(chance.choice((0, 1, 1, 2, 3))):
        at = chance.randrange(len(parts))
        what = chance.random()
        if what < 0.45:
            parts.insert(at, chance.choice(PIECES))
        elif what < 0.7 and len(parts) > 1:
            del parts[at]
        else:
            other = chance.randrange(len(parts))
            parts[at], parts[other] = parts[other], parts[at]
    line = "".join(parts)
    # A pattern or a path could reach real programs, and a loop need not end.
    return "true" if re.search(r"/|while|until", line) else line


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in RECORDED:
        program = folder / name
        program.write_text(f'#!/bin/sh\necho "$LINE {name} $*" >>"$RECORD"\n')
        program.chmod(0o755)
    for name in REAL:
        if found := shutil.which(name):
            (folder / name).symlink_to(found)
    return folder


def run(command: list[str], lines: list[str], programs: Path, folder: Path) -> dict[int, list[str]]:
    """What each line ran, by its number."""
    work, record, script = folder / "work", folder / "record", folder / "script"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    record.write_text("")
    script.write_text(
        "ulimit -t 10\n"
        + "".join(
            f"LINE={number}; export LINE; ( eval {shlex.quote(line)} ) </dev/null >/dev/null 2>&1\n"
            for number, line in enumerate(lines)
        )
    )
    environment = {"PATH": str(programs), "RECORD": str(record), "HOME": str(work)}
    shell = shutil.which(command[0])
    assert shell is not None
    with subprocess.Popen(
        [shell, *command[1:], str(script)],
        cwd=work,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            pass  # what was recorded so far counts
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    ran: dict[int, list[str]] = defaultdict(list)
    for row in record.read_text(errors="replace").splitlines():
        number, _, what = row.partition(" ")
        if number.isdigit():
            ran[int(number)].append(what.strip())
    return ran


@pytest.mark.parametrize("name", SHELLS)
def test_no_shell_runs_what_the_rules_have_not_seen(
    name: str, programs: Path, tmp_path: Path
) -> None:
    program = SHELLS[name][0]
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed: apt install {program}")
    chance = random.Random(20)
    missed: list[str] = []
    removals = 0
    for _ in range(LINES // AT_A_TIME):
        lines = [make_line(chance) for _ in range(AT_A_TIME)]
        ran = run(SHELLS[name], lines, programs, tmp_path)
        for number, line in enumerate(lines):
            request = PermissionRequest(
                title="", tool="Bash", input={"command": line}, cwd=str(tmp_path / "work")
            )
            removed = any(what.startswith("rm") for what in ran[number])
            removals += removed
            if removed and rule_effect("Bash(rm:*)", request).denies == "no":
                missed.append(f"not denied: {line!r}")
            other = any(not what.startswith("git status") for what in ran[number])
            if other and rule_effect("Bash(git status:*)", request).allows:
                missed.append(f"allowed: {line!r}")
    assert not missed, "\n".join(missed)
    assert removals > LINES // 20
