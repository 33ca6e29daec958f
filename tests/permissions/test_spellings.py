"""What rules make of shell lines, and what real shells make of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from more_spellings import BENIGN, MORE_REMOVING
from spellings import LIKE_GIT_STATUS, NOT_GIT_STATUS, NOT_REMOVING, REMOVING

from agentrt.permissions import Allow, Deny, PermissionRequest, allow_all, rule_effect, rules
from tables import for_each

SHELLS = [shell for shell in ("bash", "dash", "zsh") if shutil.which(shell)]


DOCUMENT = Path(__file__).parents[2] / "docs/guides/permissions.md"


def test_the_documentation_shows_what_is_tried() -> None:
    told = DOCUMENT.read_text()
    for lines in (REMOVING, LIKE_GIT_STATUS):
        assert "\n".join("    " + line.replace("\n", "⏎") for line in lines) in told


def asked(command: object, cwd: str = "/shop") -> PermissionRequest:
    return PermissionRequest(title="", tool="Bash", input={"command": command}, cwd=cwd)


@for_each("line", REMOVING)
def test_no_way_to_remove_a_file_is_allowed_where_rm_is_denied(line: str) -> None:
    policy = rules(deny=["Bash(rm:*)"], otherwise=allow_all)
    for command in (line, ["bash", "-lc", line], ["/bin/sh", "-c", line]):
        assert isinstance(policy(asked(command)), Deny)
        everything = rules(deny=["Bash(rm:*)"], allow=["*"])
        assert isinstance(everything(asked(command)), Deny)


@pytest.mark.slow
@for_each("line", MORE_REMOVING)
def test_no_further_way_to_run_rm_is_allowed_where_rm_is_denied(line: str) -> None:
    policy = rules(deny=["Bash(rm:*)"], otherwise=allow_all)
    for command in (line, ["bash", "-lc", line]):
        assert isinstance(policy(asked(command)), Deny)


@for_each("line", [each.replace("⏎", "\n") for each in BENIGN.strip().split("\n")])
def test_a_line_that_does_not_run_rm_is_not_denied(line: str) -> None:
    found = rule_effect("Bash(rm:*)", asked(line))
    assert found.denies == "no", found.reason


def run(shell: str, line: str, folder: Path) -> None:
    """Until what the shell does not wait for has ended as well: it has the errors' pipe open."""
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "TERM": "dumb"}
    subprocess.run(
        [shell, "-c", line],
        cwd=folder,
        env=env,
        timeout=30,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize("line", REMOVING)
def test_the_lines_of_the_list_remove_a_file_in_some_shell(line: str, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    for shell in SHELLS:
        victim.touch()
        (tmp_path / "it.txt").write_text("a line\n")
        (tmp_path / "other").unlink(missing_ok=True)
        run(shell, line, tmp_path)
        if not victim.exists():
            return
    pytest.fail("no shell removes the file")


@pytest.mark.parametrize("line", LIKE_GIT_STATUS)
def test_the_lines_of_the_list_do_more_than_git_status_in_some_shell(
    line: str, tmp_path: Path
) -> None:
    run("sh", "git init -q", tmp_path)
    for shell in SHELLS:
        run(shell, line, tmp_path)
    assert (tmp_path / "ran").exists()


@for_each("line", [*LIKE_GIT_STATUS, *NOT_GIT_STATUS])
def test_nothing_but_git_status_is_allowed_where_only_that_is(line: str) -> None:
    policy = rules(allow=["Bash(git status:*)"])
    for command in (line, ["bash", "-lc", line], ["/bin/bash", "-c", line]):
        assert isinstance(policy(asked(command)), Deny)


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "git status --short 2>/dev/null",
        "git status 2>&1",
        "git status && git status -s",
        "git status *.py",
        "bash -c 'git status'",
        ["/bin/bash", "-lc", "git status"],
        ["git", "status"],
    ],
)
def test_git_status_is_allowed(command: object) -> None:
    assert rules(allow=["Bash(git status:*)"])(asked(command)) == Allow()


@pytest.mark.parametrize(
    "input",
    [
        {"command": ["./bash", "-c", "git status"]},
        {"command": ["/tmp/bash", "-c", "git status"]},
        {"command": ["bash", "--rcfile", "evil", "-c", "git status"]},
        {"command": ["env", "PATH=.", "git", "status"]},
        {"command": ["git", "status", "x"], "env": {"PATH": "."}},
        {"command": "git status", "env": {"GIT_DIR": "evil"}},
        {"command": "git status", "cwd": "/elsewhere"},
        {"command": "git status", "shell": "./bash"},
        {"command": "git status", "stdin": "x"},
        {"command": "git", "args": ["status", 7]},
        {"command": "git status", "args": ["; touch ran"]},
        {"command": "git status", "script": "touch ran"},
    ],
)
def test_what_else_an_input_says_of_a_command_counts(input: object) -> None:
    request = PermissionRequest(title="", tool="Bash", input=input, cwd="/shop")
    assert isinstance(rules(allow=["Bash(git status:*)"])(request), Deny)


def test_several_commands_may_be_allowed_by_several_rules() -> None:
    policy = rules(allow=["Bash(git status:*)", "Bash(ls:*)"])
    assert policy(asked("git status && ls -l | ls")) == Allow()
    assert isinstance(policy(asked("git status && ls; pwd")), Deny)


@pytest.mark.parametrize("line", NOT_REMOVING)
def test_what_has_nothing_to_do_with_a_rule_is_not_denied_by_it(line: str) -> None:
    found = rule_effect("Bash(rm:*)", asked(line))
    assert found.denies == "no", found.reason


@pytest.mark.parametrize(
    "line",
    [
        "git push",
        "git -C elsewhere push",
        "git --no-pager push origin",
        "git -c alias.p=push p",
        "env git push",
        "git $WHAT",
        "echo push | xargs git",
        "git p{ush,ull}",
    ],
)
def test_a_rule_of_several_words_finds_them_behind_options(line: str) -> None:
    policy = rules(deny=["Bash(git push:*)"], otherwise=allow_all)
    assert isinstance(policy(asked(line)), Deny)


@for_each(
    "line",
    [
        "rg --pre=./x y",
        "git grep -Orm x",
        "git config core.hooksPath ./hooks; git commit -m x",
        "man -H'rm x' ls",
        "env -Srm",
        "flock x -crm",
        "git rebase -x 'rm x' HEAD~2",
        "npm exec -- rm x",
        "docker exec c rm x",
        "make -f /dev/stdin <<< 'a:;rm x'",
        "declare -x PATH=.; ls",
        "ls &> /dev/null rm x",
        "echo ${x@P}",
        "- rm x",
        "=rm x",
        "f=(rm x); ${f[@]}",
        "read -r c <<< rm; $c x",
        "[[ x -eq 'a[$(rm x)]' ]]",
        "wait -n -p 'a[$(rm x)]'",
        "sed 's/x/rm y/e' f",
        "install -m755 /bin/rm y",
        "cp /bin/r* y",
        "tar -I 'rm x' -cf a b",
        "ssh -o ProxyCommand='rm x' h",
        "zsh -c 'rm x'",
        "fish -c 'rm x'",
        "busybox sh -c 'rm x'",
        "enable -f ./x.so x",
        "hash -p /bin/rm ls; ls x",
        "/lib64/ld-linux-x86-64.so.2 /bin/rm x",
        "$0 -c 'rm x'",
        "sudo -s rm x",
        "command -p rm x",
        "rm<<<x",
        "{ echo a } always { rm x; }",
    ],
)
def test_what_may_run_rm_in_one_shell_or_another_is_not_allowed(line: str) -> None:
    assert isinstance(rules(deny=["Bash(rm:*)"], otherwise=allow_all)(asked(line)), Deny)


@pytest.mark.parametrize(
    "command",
    [
        "'$'\"'rm' victim\"",
        "\"line='rm victim'; eval \"'$line'",
        "\"git -c alias.x='\"'!rm victim'\"' x\"",
        "'rm victim'",
        "'{rm,victim}'",
    ],
)
def test_a_line_that_an_agent_quotes_as_a_whole_is_still_that_line(command: str) -> None:
    """Codex does so with some."""
    assert isinstance(rules(deny=["Bash(rm:*)"], otherwise=allow_all)(asked(command)), Deny)
    assert isinstance(rules(allow=["Bash(git status:*)"])(asked("'git status'")), Deny)


def test_options_in_another_order_may_be_what_is_denied() -> None:
    policy = rules(deny=["Bash(rm -rf:*)"], otherwise=allow_all)
    for line in ("rm -rf x", "rm -fr x", "rm -r -f x", "rm --recursive --force x"):
        assert isinstance(policy(asked(line)), Deny)
    assert policy(asked("git status")) == Allow()


def test_a_program_that_is_a_link_counts_as_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "harmless").symlink_to(shutil.which("rm") or "/bin/rm")
    assert rule_effect("Bash(rm:*)", asked("./harmless x", str(tmp_path))).denies == "yes"


PATHOLOGICAL = {
    "eval": lambda n: "eval " * (n // 5) + "ls",
    "eval of a quotation": lambda n: 'eval "' * (n // 6) + "ls",
    "find -exec env -exec": lambda n: "find . " + "-exec env " * (n // 10) + "x \\;",
    "find -exec find": lambda n: "find . -exec " * (n // 13),
    "env": lambda n: "env " * (n // 4) + "ls",
    "env settings": lambda n: "env " + "A=1 " * (n // 4) + "ls",
    "sudo -u": lambda n: "sudo -u " * (n // 8),
    "xargs": lambda n: "xargs -I{} " * (n // 11) + "ls",
    "git": lambda n: "git " + "*a" * (n // 2) + " push",
    "git -c": lambda n: "git " + "-c a.b=c " * (n // 9) + "x",
    "words": lambda n: "x " * (n // 2),
    "mentions": lambda n: "x " + "rm " * (n // 3),
    "substitutions": lambda n: "$(" * (n // 2),
    "quoted substitutions": lambda n: '"$(' * (n // 3),
    "backticks": lambda n: "`" * n,
    "nested backticks": lambda n: "`" + "\\" * (n - 9) + "`ls",
    "if": lambda n: "if true; then " * (n // 14),
    "braces": lambda n: "{" * n,
    "brackets": lambda n: "[" * n,
    "parameters": lambda n: "${a:-" * (n // 5),
    "documents": lambda n: "<<E " * (n // 4),
    "bodies": lambda n: "cat <<E\n" + "$(ls)" * (n // 5) + "\nE",
    "bash -c": lambda n: "bash -c '" * (n // 9),
    "bash -c in arguments": lambda n: "bash -c 'ls' x; " * (n // 16),
    "escapes": lambda n: "\\" * n,
    "sed": lambda n: "sed -n " + "p;" * (n // 2),
    "awk": lambda n: "awk " + "|" * n,
    "written files": lambda n: "tee " + "a/b/c " * (n // 6),
    "folders": lambda n: "cd a; " * (n // 12) + "touch b " * (n // 16),
    "a deep path": lambda n: "touch " + "a/" * (n // 2),
    "paths in code": lambda n: "python3 -c '" + "/a/b " * (n // 5) + "'",
    "pipes": lambda n: "echo x | " * (n // 9) + "ls",
    "patterns": lambda n: "/" + "*/" * (n // 2) + "r?",
    "pattern of a copy": lambda n: "cp /" + "*b" * (n // 2) + "/r? x",
}


def steps(text: str, count: int) -> int:
    """The calls of functions, Python's and C's, in judging a line by some rules."""
    texts = ("Edit(/etc/**)", "Bash(rm:*)", "Bash(git push:*)", "Read(~/.ssh/**)")
    policy, request = rules(deny=texts[:count]), asked(text)
    calls = 0

    def called(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(called)
    try:
        policy(request)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("kind", PATHOLOGICAL)
def test_the_work_for_a_line_grows_no_faster_than_the_line(kind: str) -> None:
    make = PATHOLOGICAL[kind]
    small, large = steps(make(400), 2), steps(make(1_600), 2)
    assert large <= 5 * small + 2_000


@pytest.mark.slow
@pytest.mark.parametrize("kind", PATHOLOGICAL)
def test_the_longest_line_has_bounded_work_over_all_rules(kind: str) -> None:
    assert steps(PATHOLOGICAL[kind](32_000), 4) < 2_000_000


def test_rules_share_one_budget_for_a_request() -> None:
    request = asked("x " * 4_000)
    one, many = (rules(deny=["Bash(rm:*)"] * n, otherwise=allow_all) for n in (1, 40))
    assert one(request) == Allow()
    assert isinstance(many(request), Deny)
    assert rule_effect("Bash(rm:*)", asked("ls " + "x" * 70_000)).denies == "may"
