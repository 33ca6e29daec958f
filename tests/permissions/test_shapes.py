"""Requests of any shape: a deny rule looks at every string, an allow rule at known keys only."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agentrt
from agentrt.permissions import Allow, Deny, PermissionRequest, rule_effect
from tables import for_each


def asked(tool: str, input: Any, cwd: str = "/shop", **more: Any) -> PermissionRequest:
    return PermissionRequest(title="", tool=tool, input=input, cwd=cwd, **more)


def denies(rule: str, request: PermissionRequest) -> bool:
    policy = agentrt.rules(deny=[rule], otherwise=agentrt.allow_all)
    return isinstance(policy(request), Deny)


@pytest.mark.parametrize("where", ["changes", "locations"])
def test_the_users_named_in_paths_are_looked_up_for_few_paths_only(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look-up may take as long as the system's directory of users takes to answer."""
    looked_up = []
    expanded = os.path.expanduser
    monkeypatch.setattr(
        os.path, "expanduser", lambda path: looked_up.append(path) or expanded(path)
    )
    paths = tuple(f"~user{number}/x" for number in range(20_000))
    request = asked("Edit", {}, kind="edit", **{where: paths})
    policy = agentrt.rules(deny=["Edit(/etc/**)", "Write(*.md)"], otherwise=agentrt.allow_all)
    assert isinstance(policy(request), Deny)  # nothing is known of the paths
    assert len(looked_up) < 1000


@pytest.mark.parametrize(
    ("before", "after"), [("~user", "/x"), ("folder", "/x"), ("x" * 30_000, "")], ids=range(3)
)
@pytest.mark.parametrize("input", [{"file_path": "harmless.txt"}, {}], ids=["shown", "hidden"])
def test_a_file_is_not_hidden_among_too_many_places(before: str, after: str, input: Any) -> None:
    places = (*(f"{before}{number}{after}" for number in range(20_000)), ".vscode/tasks.json")
    for locations in (places, places[-1:]):
        request = asked("Edit", input, kind="edit", locations=locations)
        assert denies("Edit(.vscode/**)", request)
        allowed = agentrt.rules(allow=["Edit(**)"], otherwise=agentrt.deny_all)
        assert isinstance(allowed(request), Deny)


REMOVES: list[Any] = [
    {"Command": "rm x"},
    {"cmdline": "rm x"},
    {"argv": ["rm", "x"]},
    {"args": ["rm", "x"]},
    {"params": {"command": "rm x"}},
    {"request": {"params": {"cmd": ["rm", "x"]}}},
    {"steps": [{"run": "rm x"}, {"run": "ls"}]},
    {"command_line": "sudo rm x"},
    {"shell-command": "sh -c 'rm x'"},
    {"script": "cd /\nrm x"},
    {"input": "rm x"},
    {"q": "rm x"},
    {"list": ["ls", "rm x"]},
    {"bash": "true; rm x"},
    {"code": "rm x"},
    {"command": "ls", "post": "rm x"},
    {"command": "ls", "Command": "rm x"},
    {"CMD": "rm x"},
    {"exec": {"program": "rm", "args": ["x"]}},
]


@for_each("input", REMOVES)
@for_each("tool", ["mcp__ops__run", "Bash", "", "anything"])
def test_a_command_is_denied_under_any_key(tool: str, input: Any) -> None:
    assert denies("Bash(rm:*)", asked(tool, input))


@pytest.mark.parametrize(
    ("tool", "input"),
    [
        ("mcp__issues__create", {"title": "The form is slow", "body": "It takes 3 s.\nWhy?"}),
        ("mcp__ops__run", {"command": "ls -la", "description": "list files"}),
        ("mcp__ops__run", {"argv": ["git", "status"]}),
        ("mcp__db__query", {"sql": "select * from t where a > 1"}),
        ("Write", {"file_path": "clean.sh", "content": "rm x"}),
        ("Edit", {"file_path": "clean.sh", "old_string": "ls", "new_string": "rm x"}),
        ("Read", {"file_path": "rm"}),
        ("WebFetch", {"url": "https://example.com", "prompt": "rm x"}),
    ],
)
def test_an_input_without_such_a_command_is_not_denied(tool: str, input: Any) -> None:
    assert not denies("Bash(rm:*)", asked(tool, input))


@settings(max_examples=100, deadline=None)
@given(
    keys=st.lists(st.text("abcCdmnoqxyz_-", min_size=1, max_size=8), min_size=1, max_size=4),
    in_list=st.booleans(),
)
def test_no_nesting_hides_a_command(keys: list[str], in_list: bool) -> None:
    input: Any = ["rm x"] if in_list else "rm x"
    for key in keys:
        input = {key: input}
    assert denies("Bash(rm:*)", asked("mcp__a__b", input))


@pytest.mark.parametrize(
    "more",
    [
        {"workdir": "/tmp/hostile"},
        {"workdir": "sub"},
        {"cwd": ".."},
        {"working_directory": "/"},
        {"Command": "rm x"},
        {"cmdline": "rm x"},
        {"argv": ["rm"]},
        {"params": {"command": "rm x"}},
        {"env": {"PATH": "."}},
        {"environment": ["PATH=."]},
        {"dangerouslyDisableSandbox": True},
        {"shell": "./sh"},
        {"interpreter": "python"},
        {"stdin": "x"},
        {"user": "root"},
        {"container": "c"},
        {"host": "remote"},
        {"pre": "x"},
        {"sudo": True},
        {"anything": "else"},
    ],
)
def test_a_command_next_to_an_unknown_key_is_not_allowed(more: dict[str, Any]) -> None:
    policy = agentrt.rules(allow=["Bash(git status:*)"])
    assert isinstance(policy(asked("Bash", {"command": "git status", **more})), Deny)


@pytest.mark.parametrize(
    "more",
    [
        {"description": "Show what changed", "timeout": 120000},
        {"run_in_background": False},
        {"workdir": "/shop"},
        {"cwd": "."},
        {"cwd": "/shop/", "yield_time_ms": 1000, "max_output_tokens": 10},
        {"shell": "/bin/bash", "login": True},
        {"stdin": None, "env": {}},
    ],
)
def test_a_command_next_to_known_keys_is_allowed(more: dict[str, Any]) -> None:
    policy = agentrt.rules(allow=["Bash(git status:*)"])
    assert policy(asked("Bash", {"command": "git status", **more})) == Allow()


HOME = os.path.expanduser("~")
ETC: list[Any] = [
    {"file_path": "/etc/passwd"},
    {"file_path": "../etc/passwd"},
    {"file_path": "../../../../etc/passwd"},
    {"file_path": "//etc//passwd"},
    {"file_path": "/./etc/./passwd"},
    {"file_path": "/etc/../etc/passwd"},
    {"file_path": "/tmp/../etc/passwd"},
    {"file_path": "file:///etc/passwd"},
    {"file_path": "file:/etc/passwd"},
    {"file_path": "file://localhost/etc/passwd"},
    {"file_path": "file:///%65tc/passwd"},
    {"file_path": "/%65tc/passwd"},
    {"file_path": "vscode://host/etc/passwd"},
    {"file_path": "\\etc\\passwd"},
    {"file_path": " /etc/passwd "},
    {"file_path": "'/etc/passwd'"},
    {"file_path": "/ETC/passwd"},
    {"file_path": "/Etc/Passwd"},
    {"file_path": "/ｅtc/passwd"},
    {"file_path": "/proc/self/root/etc/passwd"},
    {"file_path": "link/passwd"},
    {"dst": "/etc/passwd"},
    {"to": "/etc/passwd"},
    {"where": {"at": ["/etc/passwd"]}},
    {"Path": "/etc/passwd"},
    {"uri": "file:///etc/passwd"},
    {"name": "passwd", "cwd": "/etc"},
    {"file_path": "passwd", "workdir": "/etc"},
    {"patch": "*** Begin Patch\n*** Update File: /etc/passwd\n@@\n-a\n+b\n*** End Patch"},
    {"diff": "--- a/x\n+++ /etc/passwd\n@@ -1 +1 @@\n-a\n+b\n"},
    {"edits": [{"path": "a.txt"}, {"path": "/etc/passwd"}]},
    "/etc/passwd",
    ["a.txt", "/etc/passwd"],
]


@pytest.fixture
def work(tmp_path: Path) -> str:
    """A folder of the depth of `/shop`, seen from `/`."""
    (tmp_path / "link").symlink_to("/etc")
    return str(tmp_path)


@for_each("input", ETC)
@for_each("tool", ["Edit", "mcp__files__put", "str_replace"])
def test_a_path_is_denied_however_it_is_written(tool: str, input: Any, work: str) -> None:
    rule = "Edit(/etc/**)" if tool != "mcp__files__put" else "mcp__files__*(/etc/**)"
    up = "../" * work.count("/")
    if isinstance(input, dict) and str(input.get("file_path", "")).startswith("../"):
        input = {"file_path": f"{up}etc/passwd"}
    assert denies(rule, asked(tool, input, work))


@pytest.mark.parametrize(
    "path", ["~/notes/a", "$HOME/notes/a", "${HOME}/notes/a", f"{HOME}/notes/a"]
)
def test_a_path_in_the_home_folder_is_denied_however_it_is_written(path: str) -> None:
    assert denies("Edit(~/notes/**)", asked("Edit", {"file_path": path}))
    assert denies(f"Edit({HOME}/notes/**)", asked("Edit", {"dst": path}))


@pytest.mark.parametrize(
    "input",
    [
        {"file_path": "src/etc/passwd"},
        {"file_path": "etc.txt", "content": "see /etc/passwd\nand more"},
        {"file_path": "/etcetera/x"},
        {"file_path": "a.txt", "old_string": "a\nb", "new_string": "/etc\n/etc/passwd"},
    ],
)
def test_another_path_is_not_denied(input: Any) -> None:
    assert not denies("Edit(/etc/**)", asked("Edit", input))


WRITES = [
    "echo x > /etc/x",
    "echo x >> /etc/x",
    "echo x >| /etc/x",
    "echo x 2> /etc/x",
    ": &> /etc/x",
    "> /etc/x",
    "echo x | tee /etc/x",
    "echo x | tee -a /etc/x",
    "cp a /etc/x",
    "cp -t /etc a",
    "cp --target-directory=/etc a",
    "mv a /etc/",
    "install a /etc/x",
    "dd if=a of=/etc/x",
    "ln -s a /etc/x",
    "touch /etc/x",
    "truncate -s0 /etc/x",
    "chmod 777 /etc/x",
    "rm /etc/x",
    "sed -i s/a/b/ /etc/x",
    "sort -o/etc/x a",
    "sort --output=/etc/x a",
    "curl -o /etc/x https://example.com",
    "wget -O/etc/x https://example.com",
    "tar -xf a.tar -C /etc",
    "rsync a /etc/x",
    "git diff --output=/etc/x",
    "cd /etc && echo x > x",
    "cd /; echo x > etc/x",
    "cd / && cd etc && touch x",
    "sh -c 'echo x > /etc/x'",
    "sudo tee /etc/x < a",
    "cat a > /ETC/x",
    "echo x > /tmp/../etc/x",
    "echo x > $FILE",
    "echo x > /etc/$NAME",
    "case x in *) echo x > /etc/x;; esac",
    'python3 -c \'open("/etc/x", "w")\'',
]


@for_each("line", WRITES)
def test_a_command_that_writes_a_denied_path_may_be_denied(line: str) -> None:
    assert rule_effect("Edit(/etc/**)", asked("Bash", {"command": line})).denies == "may"


@pytest.mark.parametrize(
    "line",
    [
        "cat /etc/hosts",
        "grep root /etc/passwd > users.txt",
        "ls -l /etc",
        "echo x > out.txt",
        "npm test 2>&1 | tail -20",
        "cp /shop/a /shop/b",
        "echo /etc/x",
        "diff /etc/a b",
    ],
)
def test_a_command_that_only_reads_there_is_not_denied(line: str) -> None:
    assert not denies("Edit(/etc/**)", asked("Bash", {"command": line}))


def test_a_rule_about_reading_is_about_commands_that_name_the_file() -> None:
    assert denies("Read(/etc/shadow)", asked("Bash", {"command": "cat /etc/shadow"}))
    assert denies("Read(~/.ssh/**)", asked("Bash", {"command": "cp ~/.ssh/id_rsa x"}))
    assert not denies("Read(~/.ssh/**)", asked("Bash", {"command": "cat README.md"}))


EDITORS = ["Edit", "str_replace_editor", "str_replace_based_edit_tool"]
"""Editors whose own verb is in the key `command`."""


@pytest.mark.parametrize("tool", EDITORS)
@pytest.mark.parametrize("kind", ["edit", "other", ""])
@pytest.mark.parametrize("verb", [{"command": "create"}, {"command": "view"}, {"cmd": "x"}])
@pytest.mark.parametrize("path", [{"path": "/etc/passwd"}, {"target": ["/etc/passwd"]}])
def test_an_editor_s_verb_does_not_hide_its_path(
    tool: str, kind: str, verb: dict[str, Any], path: dict[str, Any]
) -> None:
    request = PermissionRequest(title="", tool=tool, kind=kind, input=verb | path, cwd="/shop")
    assert denies("Edit(/etc/**)", request)
    other = PermissionRequest(title="", tool=tool, input=verb | {"path": "/shop/a"}, cwd="/shop")
    assert not denies("Edit(/etc/**)", other)
