"""A command that runs another one: an `allow` rule covers only the programs that rules name."""

from __future__ import annotations

import pytest

import agentrt
from agentrt.permissions import Allow, PermissionRequest
from tables import for_each

NOT_COVERED = [
    ("find", "find . -exec id ;"),
    ("find", "find . -name x -execdir touch y +"),
    ("find", "find . -ok id ;"),
    ("find", "find . -exec find . -exec id ; ;"),
    ("find", "find . -exec {} ;"),
    ("find", "find $X"),
    ("rg", "rg --pre id x"),
    ("rg", "rg --pre=id x"),
    ("fd", "fd x -x id"),
    ("fd", "fd x --exec-batch id"),
    ("sort", "sort --compress-program=id x"),
    ("sort", "sort --compress-prog id x"),
    ("tar", "tar cf a --to-command=id"),
    ("tar", "tar -cf a --checkpoint-action=exec=id x"),
    ("awk", "awk 'BEGIN{system(\"id\")}'"),
    ("sed", "sed '1e id' x"),
    ("git", "git -c core.pager=id log"),
    ("git", "git -c alias.x=!id x"),
    ("git log", "git log --ext-diff"),
    ("git grep", "git grep -Oid x"),
    ("env", "env id"),
    ("env", "env A=1 ls"),
    ("env", "env -S id"),
    ("sudo", "sudo -u x id"),
    ("timeout", "timeout 3 id"),
    ("nice", "nice -n 5 nice id"),
    ("xargs", "xargs id"),
    ("xargs", "xargs -I{} sh -c {}"),
    ("xargs rg", "xargs rg x"),
    ("timeout 3 env", "timeout 3 env id"),
    ("find . -exec env", "find . -exec env id ;"),
]
COVERED = [
    (["find"], "find . -name x -print"),
    (["find", "wc"], "find . -exec wc -l {} +"),
    (["find . -exec wc"], "find . -exec wc -l {} ;"),
    (["rg"], "rg -n x src"),
    (["rg --pre"], "rg --pre id x"),
    (["sort"], "sort -u x"),
    (["tar"], "tar -tf a"),
    (["awk"], "awk '{print $1}' x"),
    (["sed"], "sed -n 1,5p x"),
    (["git"], "git log --oneline"),
    (["git"], "git -C sub status"),
    (["timeout", "npm test"], "timeout 3 npm test"),
    (["timeout 3 npm test"], "timeout 3 npm test --x"),
    (["env", "nice", "ls"], "env nice -n 5 ls -l"),
    (["xargs", "wc"], "xargs -n 1 wc -l"),
    (["xargs wc"], "xargs wc -l"),
    (["env"], "env"),
    (["python3"], "python3 x.py"),
    (["bash"], "bash x.sh"),
    (["npm"], "npm run build"),
]


def decide(allowed: list[str], line: str) -> object:
    policy = agentrt.rules(allow=[f"Bash({each}:*)" for each in allowed])
    return policy(PermissionRequest(title="", tool="Bash", input={"command": line}, cwd="/project"))


@for_each(("allowed", "line"), NOT_COVERED)
def test_a_rule_for_a_program_does_not_allow_those_that_it_runs(allowed: str, line: str) -> None:
    assert not isinstance(decide([allowed], line), Allow)


@pytest.mark.parametrize(("allowed", "line"), COVERED)
def test_rules_that_name_each_program_allow_the_command(allowed: list[str], line: str) -> None:
    assert decide(allowed, line) == Allow()
