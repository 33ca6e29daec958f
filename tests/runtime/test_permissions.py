"""Policies, rules, and the option that carries a decision out."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from agentrt import open_runtime, open_session
from agentrt.events import JsonObject, PermissionOption
from agentrt.permissions import (
    Allow,
    Ask,
    Decision,
    Deny,
    PermissionRequest,
    Policy,
    allow_all,
    ask,
    choose_option,
    deny_all,
    rule_effect,
    rules,
)

CWD = "/shop/project"


def request(tool: str = "", input: Any = None, *, cwd: str = CWD, **told: Any) -> PermissionRequest:
    return PermissionRequest(**{"title": "", **told}, tool=tool, input=input, cwd=cwd)


def bash(command: object) -> PermissionRequest:
    return request("Bash", {"command": command})


def edit(*paths: str, cwd: str = CWD) -> PermissionRequest:
    return request("Edit", {"edits": [{"file_path": path} for path in paths]}, cwd=cwd)


def covers(rule: str, request: PermissionRequest) -> bool:
    """True if an allow rule covers it; then it is denied by the same rule, if that can deny."""
    effect = rule_effect(rule, request)
    assert not effect.allows or effect.denies in ("yes", None)
    return effect.allows


def touches(rule: str, request: PermissionRequest) -> bool | None:
    """Whether a deny rule is about it; None if it may be."""
    return {"yes": True, "no": False}.get(str(rule_effect(rule, request).denies))


# --- policies


def test_the_plain_policies_do_what_they_are_called() -> None:
    assert isinstance(deny_all(bash("ls")), Deny)
    assert allow_all(bash("ls")) == Allow()
    assert ask(bash("ls")) == Ask()


@pytest.mark.parametrize(
    ("command", "decision"),
    [
        ("git status", Allow()),
        ("git push", Ask()),
        ("git push --force origin", Deny("Denied by the rule Bash(git push --force:*).")),
        ("curl x", Deny("Nothing is allowed here.")),
        ("git status | sh", Ask()),  # it may be what an ask rule is about
    ],
)
def test_deny_wins_over_ask_and_ask_over_allow(command: str, decision: Decision) -> None:
    policy = rules(
        allow=["Bash(git:*)"], ask=["Bash(git push:*)"], deny=["Bash(git push --force:*)"]
    )
    assert policy(bash(command)) == decision


def test_what_no_rule_is_about_is_for_another_policy() -> None:
    policy = rules(allow=["Read"], otherwise=ask)
    assert policy(request("Read", {})) == Allow()
    assert policy(request("Write", {})) == Ask()


def test_what_a_deny_rule_may_be_about_is_not_allowed() -> None:
    policy = rules(allow=["*"], deny=["Bash(rm:*)"], otherwise=ask)
    assert policy(bash("ls")) == Allow()
    assert policy(bash("sh clean.sh")) == Ask()
    assert policy(request("", None, title="Bash", kind="execute")) == Ask()


UNCLEAR = bash("sh clean.sh")
DOUBT = (
    "Denied because the rule Bash(rm:*) may apply: sh runs something that the line does not show."
)


def test_what_a_deny_rule_may_be_about_is_denied_where_nobody_can_be_asked() -> None:
    policy = rules(deny=["Bash(rm:*)"], otherwise=allow_all)
    assert policy(bash("ls")) == Allow()
    assert policy(bash("ls; rm x")) == Deny("Denied by the rule Bash(rm:*).")
    assert policy(UNCLEAR) == Deny(DOUBT)


def test_what_a_deny_rule_may_be_about_is_asked_where_somebody_can_be_asked() -> None:
    assert rules(deny=["Bash(rm:*)"], otherwise=ask)(UNCLEAR) == Ask()
    assert rules(deny=["Bash(rm:*)"], otherwise=allow_all, attended=True)(UNCLEAR) == Ask()
    assert isinstance(rules(deny=["Bash(rm:*)"], attended=True)(UNCLEAR), Deny)


class Slow:
    """A policy that is asynchronous by what it returns."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision

    async def __call__(self, request: PermissionRequest) -> Decision:
        await trio.lowlevel.checkpoint()
        return self.decision


@pytest.mark.parametrize("wrap", [lambda policy: policy, lambda policy: lambda r: policy(r)])
async def test_no_policy_behind_the_rules_allows_what_a_deny_rule_may_be_about(
    wrap: Callable[[Policy], Policy],
) -> None:
    for decision, comes in ((Allow(), Deny(DOUBT)), (Ask(), Ask()), (Deny("no"), Deny("no"))):
        pending = rules(deny=["Bash(rm:*)"], otherwise=wrap(Slow(decision)))(UNCLEAR)
        assert isinstance(pending, Awaitable)
        assert await pending == comes


def test_a_policy_that_waits_may_be_given_up_before_it_began() -> None:
    pending = rules(deny=["Bash(rm:*)"], otherwise=Slow(Allow()))(UNCLEAR)
    assert inspect.iscoroutine(pending)
    pending.close()  # a coroutine behind it that was never awaited would warn


def test_who_allows_a_program_of_the_project_by_its_name_says_yes_to_what_it_does() -> None:
    script = bash("python clean.py")
    assert isinstance(rules(deny=["Bash(rm:*)"], otherwise=allow_all)(script), Deny)
    policy = rules(deny=["Bash(rm:*)"], allow=["Bash(python clean.py)"])
    assert policy(script) == Allow()
    policy = rules(deny=["Bash(rm:*)"], allow=["Bash(python:*)"])
    assert isinstance(policy(bash("python -c 1")), Deny)


@pytest.mark.parametrize("told", [{"kind": "read"}, {"title": "Read"}, {"title": "Bash(ls)"}])
def test_no_rule_rests_on_a_kind_or_a_title(told: JsonObject) -> None:
    policy = rules(allow=["Read", "Bash", "Bash(ls:*)", "Edit(**)"])
    for input in (None, {}, {"path": "a.py"}):
        assert isinstance(policy(request("", input, **told)), Deny)


rule_texts = st.sampled_from(
    [
        *("Read", "Bash", "Bash(ls:*)", "Bash(rm:*)", "Bash(git status)", "Run", "Fetch(a.org)"),
        *("Edit(**)", "Edit(src/**)", "mcp__*", "other", "Allow", "safe*", "Write", "*(/etc/**)"),
    ]
)
names = st.sampled_from(["", "Read", "Bash", "Edit", "mcp__app__x", "execute"])
inputs = st.sampled_from(
    [
        None,
        {},
        {"command": "ls -l"},
        {"command": "rm -rf /"},
        {"command": ["git", "status"]},
        {"file_path": "src/a.py"},
        {"file_path": "/etc/passwd"},
        {"title": "Read", "kind": "read"},
        "ls",
    ]
)
words_of_agents = st.sampled_from(
    ["", "Read", "read", "Bash", "Bash(ls)", "ls", "Edit", "safe", "allow_once", "other", "execute"]
)


@given(
    st.lists(rule_texts, max_size=4),
    st.lists(rule_texts, max_size=3),
    st.lists(rule_texts, max_size=3),
    names,
    inputs,
    st.tuples(words_of_agents, words_of_agents),
    st.tuples(words_of_agents, words_of_agents),
)
def test_nothing_is_allowed_by_its_title_or_its_kind(
    allow: list[str],
    deny: list[str],
    ask: list[str],
    tool: str,
    input: Any,
    said: tuple[str, str],
    lied: tuple[str, str],
) -> None:
    """What an agent calls its own call may have it denied or asked about, never allowed."""
    policy = rules(allow=allow, deny=deny, ask=ask)
    one, other = (
        isinstance(policy(request(tool, input, title=title, kind=kind)), Allow)
        for title, kind in (said, lied)
    )
    plain = isinstance(policy(request(tool, input)), Allow)
    assert one <= plain
    assert other <= plain


@given(st.lists(rule_texts, max_size=6), words_of_agents, words_of_agents)
def test_nothing_is_allowed_that_has_no_name_and_no_input_but_words(
    allow: list[str], title: str, kind: str
) -> None:
    for input in (None, {}, {"title": title, "kind": kind}, title):
        asked = request("", input, title=title, kind=kind)
        assert isinstance(rules(allow=allow)(asked), Deny)


@given(st.lists(rule_texts, max_size=6), words_of_agents, words_of_agents, names)
def test_a_command_is_allowed_by_what_it_is_and_not_by_what_it_is_called(
    allow: list[str], title: str, kind: str, tool: str
) -> None:
    """Only a rule for every call of that tool, or one that the command itself fits."""
    asked = request(tool, {"command": "rm -rf /"}, title=title, kind=kind)
    if isinstance(rules(allow=allow)(asked), Allow):
        name = tool or "Bash"
        fitting = {"Bash": "Bash(rm:*)", "mcp__app__x": "mcp__*"}.get(name)
        assert name in allow or fitting in allow


# --- how rules are written


@pytest.mark.parametrize(
    ("rule", "right"),
    [
        ("", "write NAME"),
        (" ", "write NAME"),
        ("Bash(", "write NAME"),
        ("Bash)", "write NAME"),
        ("Bash()", "write NAME"),
        ("Bash( )", "write NAME"),
        ("(ls)", "write NAME"),
        ("Bash(:*)", "plain words of one command"),
        ("Bash(a;b:*)", "plain words of one command"),
        ("Bash(rm*)", "Bash(rm:*)"),
        ("Bash(* --version)", "a * stands only at the end"),
        ("Bash('unclosed)", "plain words of one command"),
        ("shell:rm *", "Bash(rm:*) may be meant"),
        ("Bash:rm", "Bash(rm:*) may be meant"),
        ("read", "Read"),
        ("bash(ls)", "Bash"),
        ("BASH", "Bash"),
        ("edit", "Edit"),
        ("run ls", "write NAME"),
        ("Fetch(https://example.com/x)", "the target must be a host"),
        ("Edit(src:*)", "a path"),
    ],
)
def test_what_is_no_rule_is_refused_with_the_right_form(rule: str, right: str) -> None:
    for name in ("allow", "deny", "ask"):
        with pytest.raises(ValueError, match="is not a permission rule") as refusal:
            rules(**{name: [rule]})  # type: ignore[arg-type]  # one of the three
        assert right in str(refusal.value)


def test_a_string_is_no_list_of_rules() -> None:
    with pytest.raises(ValueError, match=r"allow=\['Read'\]"):
        rules(allow="Read")
    with pytest.raises(ValueError, match="must be a list of rules"):
        rules(deny=[7])  # type: ignore[list-item]  # what it is about


def test_a_rule_that_denies_is_about_one_command() -> None:
    with pytest.raises(ValueError, match="plain words of one command"):
        rules(deny=["Bash(npm test && npm run lint)"])


@pytest.mark.parametrize("rule", ["Bash(rm *)", "Bash(rm:*)"])
def test_a_star_behind_a_blank_says_the_same_as_behind_a_colon(rule: str) -> None:
    assert touches(rule, bash("rm -r x")) is True
    assert touches(rule, bash("rmdir x")) is False


@pytest.mark.parametrize(
    ("policy", "right"),
    [
        ("allow", "agentrt.allow_all"),
        ("allow_all", "Did you mean agentrt.allow_all?"),
        ("alow-all", "Did you mean agentrt.allow_all?"),
        ("ask", "agentrt.ask"),
        (True, "a function"),
        (7, "a function"),
        (rules, "Did you mean agentrt.rules(…)?"),
        (lambda: Allow(), "with one argument, the request"),
        (lambda request, more: Allow(), "with one argument, the request"),
        (Allow, "with one argument, the request"),
    ],
)
async def test_what_is_no_policy_is_refused_with_the_right_one(policy: Any, right: str) -> None:
    with pytest.raises(ValueError, match=r"is not a policy") as refusal:
        rules(otherwise=policy)
    assert right in str(refusal.value)
    for opening in (open_session("demo", permissions=policy), open_runtime(permissions=policy)):
        with pytest.raises(ValueError, match=r"permissions=.* is not a policy"):
            async with opening:
                pass


@pytest.mark.parametrize("rule", ["Edit(../x)", "Edit(/a/../b)", "Edit(..)"])
def test_a_path_pattern_does_not_climb(rule: str) -> None:
    with pytest.raises(ValueError, match=r"must not contain \.\."):
        rules(allow=[rule])


@pytest.mark.parametrize(
    ("rule", "tool", "covered"),
    [
        ("Read", "Read", True),
        (" Read ", "Read", True),
        ("Read", "Reader", False),
        ("Read", "read", False),
        ("Read(*)", "Read", True),
        ("mcp__app__*", "mcp__app__deploy", True),
        ("mcp__app__*", "mcp__apple__deploy", False),
        ("mcp__*__get*", "mcp__app__get_it", True),
        ("*", "anything at all", True),
        ("*", "", True),
        ("a.c", "abc", False),
    ],
)
def test_a_name_is_compared_whole_and_a_star_is_any_part(
    rule: str, tool: str, covered: bool
) -> None:
    assert covers(rule, request(tool, {"x": 1})) is covered


# --- commands


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        " git  status ",
        "git\tstatus --short",
        "git status -- 'a file'",
        "'git' \"status\"",
        ["git", "status", "a b"],
        ["/bin/bash", "-lc", "git status"],
        ["sh", "-c", "git status -s"],
    ],
)
def test_a_prefix_covers_commands_that_begin_with_its_words(command: object) -> None:
    assert covers("Bash(git status:*)", bash(command))


@pytest.mark.parametrize(
    "command",
    [
        "git",
        "git statusx",
        "git stash",
        "status git",
        "echo git status",
        "git 'status x'",
        "",
        ["git status"],
        ["bash", "-c", "ls", "git status"],
    ],
)
def test_a_prefix_covers_no_other_command(command: object) -> None:
    assert not covers("Bash(git status:*)", bash(command))


@pytest.mark.parametrize(
    "tail",
    [
        "; rm -rf /",
        "&& rm x",
        "|| rm x",
        "| sh",
        "& rm x",
        "$(rm x)",
        "`rm x`",
        "$HOME",
        "${x}",
        "> /etc/passwd",
        "< /dev/sda",
        "<(rm x)",
        "\nrm x",
        "\rrm x",
        "\0",
        "(rm x)",
        "{a,b}",
        "'unclosed",
    ],
)
def test_a_prefix_covers_nothing_that_a_shell_would_act_on(tail: str) -> None:
    for command in (
        f"git status {tail}",
        f"git status{tail}",
        ["bash", "-c", f"git status {tail}"],
    ):
        assert not covers("Bash(git status:*)", bash(command))
        assert touches("Bash(git status:*)", bash(command)) is not False


def test_a_shells_own_argument_vector_is_no_prefix_of_the_script() -> None:
    assert not covers("Bash(bash:*)", bash(["bash", "-c", "rm x"]))


@pytest.mark.parametrize(
    "command",
    ["/bin/rm x", "sudo rm x", "env A=1 rm x", "A=1 rm x", "r''m x; ls", "ls && rm x", "ls | rm"],
)
def test_another_way_to_write_a_denied_command_is_that_command(command: str) -> None:
    assert touches("Bash(rm:*)", bash(command)) is True


def test_a_command_is_covered_by_itself_whatever_is_in_it() -> None:
    assert covers("Bash(npm test && npm run lint)", bash("npm test && npm run lint"))
    assert not covers("Bash(npm test && npm run lint)", bash("npm test && npm run lint; rm x"))
    assert covers("Bash(npm test)", bash("npm  'test'"))
    assert not covers("Bash(npm test)", bash("npm test --x"))


@pytest.mark.parametrize(
    "input",
    [
        {"command": "git status", "cmd": "rm -rf /"},
        {"command": {"git": "status"}},
        {"command": ["git", 7]},
        {"command": []},
        {"command": None},
        "git status",
        ["git", "status"],
        None,
    ],
)
def test_a_command_that_cannot_be_read_is_covered_by_no_command_rule(input: Any) -> None:
    for rule in ("Bash(git status:*)", "Bash(git status)"):
        assert not covers(rule, request("Bash", input))
        assert touches(rule, request("Bash", input)) is not False


def test_an_unnamed_call_with_a_command_counts_as_bash() -> None:
    assert covers("Bash(git status:*)", request("", {"command": "git status"}))
    assert touches("Bash(rm:*)", request("", {"command": ["rm", "x"]})) is True
    assert not covers("Read", request("", {"command": "git status"}))


def test_a_command_under_another_name_may_be_denied_and_not_allowed() -> None:
    asked = request("shell", {"command": "git status"})
    assert touches("Bash(git status:*)", asked) is True
    assert not rule_effect("Bash(git status:*)", asked).allows


RESERVED = {"if", "in", "do", "fi", "for", "else", "elif", "then", "case", "esac", "done", "end"}
words = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=4).filter(
    lambda word: word not in RESERVED
)


@given(st.lists(words, min_size=1, max_size=3), st.text(max_size=20))
def test_whatever_follows_a_prefix_is_covered_only_if_it_is_words(
    prefix: list[str], tail: str
) -> None:
    command = " ".join(prefix)
    covered = covers(f"Bash({command}:*)", bash(command + tail))
    if covered:
        assert not set(tail) & set("<>$`(){}\\\r\0")
        if not set(tail) & set("'\""):
            for each in filter(str.strip, re.split(r"[;&|\n]", command + tail)):
                assert each.split()[: len(prefix)] == prefix
    elif not tail or (tail[0] in " \t" and tail.isprintable()):
        assert set(tail) & set(";&|<>$`(){}\\'\"!#^=")


# --- paths


@pytest.mark.parametrize(
    ("rule", "path", "covered"),
    [
        ("Edit(src/**)", "src/a.py", True),
        ("Edit(src/**)", "src/deep/er/a.py", True),
        ("Edit(src/**)", "/shop/project/src/a.py", True),
        ("Edit(src/**)", "./src/x/../a.py", True),
        ("Edit(src/**)", "src//a.py", True),
        ("Edit(src/**)", "file:///shop/project/src/a%20b.py", True),
        ("Edit(src/**)", "src", True),
        ("Edit(src/**)", "srcs/a.py", False),
        ("Edit(src/**)", "/src/a.py", False),
        ("Edit(src/**)", "src/../a.py", False),
        ("Edit(src/**)", "src/../../project2/src/a.py", False),
        ("Edit(src/**)", "/shop/project2/src/a.py", False),
        ("Edit(src/**)", "/shop/project/../project/src/../../../etc/passwd", False),
        ("Edit(src/**)", "https://example.com/src/a.py", False),
        ("Edit(src/**)", "src/a\0.py", False),
        ("Edit(src/)", "src/a/b", True),
        ("Edit(./src/*.py)", "src/a.py", True),
        ("Edit(src/*.py)", "src/a/b.py", False),
        ("Edit(src/?.py)", "src/ab.py", False),
        ("Edit(**/*.py)", "a.py", True),
        ("Edit(**/*.py)", "x/y/a.py", True),
        ("Edit(**/*.py)", "x/y/a.pyc", False),
        ("Edit(**)", "x", True),
        ("Edit(**)", ".", True),
        ("Edit(**)", "/shop/project", True),
        ("Edit(**)", "..", False),
        ("Edit(**)", "~/x", False),
        ("Edit(/etc/*.conf)", "/etc/a.conf", True),
        ("Edit(/etc/*.conf)", "//etc/a.conf", True),
        ("Edit(/etc/*.conf)", "../../etc/a.conf", True),
        ("Edit(/etc/*.conf)", "etc/a.conf", False),
        ("Edit(~/notes/**)", "~/notes/a", True),
        ("Edit(a.b)", "axb", False),
    ],
)
def test_a_path_is_compared_where_it_leads(rule: str, path: str, covered: bool) -> None:
    assert covers(rule, edit(path)) is covered


def test_all_paths_must_be_covered_and_one_is_enough_to_be_touched() -> None:
    both = edit("src/a.py", "/etc/passwd")
    assert not covers("Edit(src/**)", both)
    assert covers("Edit(**)", edit("src/a.py", "b.py"))
    assert touches("Edit(/etc/**)", both) is True
    assert touches("Edit(/usr/**)", both) is False


@pytest.mark.parametrize(
    "input",
    [
        {"path": "src/a", "destination": "/etc/x"},
        {"filePath": "/etc/x", "content": "src/a"},
        {"absolute_path": "/etc/x"},
        {"target_file": "/etc/x", "path": "src/a"},
        {"files": ["src/a", "/etc/x"]},
        {"files": [{"path": "src/a"}, {"path": "/etc/x"}]},
        {"changes": {"src/a": {}, "/etc/x": {"type": "add"}}},
    ],
)
def test_a_path_is_found_under_whatever_key_the_tool_has_for_it(input: JsonObject) -> None:
    assert not covers("Edit(src/**)", request("Edit", input))
    assert touches("Edit(/etc/**)", request("Edit", input)) is True
    assert "/etc/x" in request("Edit", input).paths


@pytest.mark.parametrize("input", [None, [], "src/a.py", {}, {"pattern": "src/a.py"}, {"path": 7}])
def test_a_call_that_names_no_path_is_covered_by_no_path_rule(input: Any) -> None:
    assert not covers("Edit(src/**)", request("Edit", input))
    assert touches("Edit(src/**)", request("Edit", input)) is None


def test_a_link_out_of_the_folder_is_followed(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (project / "src" / "out").symlink_to("/etc")
    (project / "src" / "in").symlink_to(project / "src")
    for path in ("src/out/passwd", "src/out", "src/out/../passwd"):
        assert not covers("Edit(src/**)", edit(path, cwd=str(project)))
        assert touches("Edit(src/**)", edit(path, cwd=str(project))) is not False
    assert touches("Edit(/etc/**)", edit("src/out/passwd", cwd=str(project))) is True
    assert covers("Edit(src/**)", edit("src/in/a.py", cwd=str(project)))
    assert edit("src/out/passwd", cwd=str(project)).paths == ("/etc/passwd",)


parts = st.sampled_from(["src", "a", "..", ".", "", "etc", "src2"])


@given(st.lists(parts, min_size=1, max_size=8))
def test_no_path_that_leads_elsewhere_is_covered(segments: list[str]) -> None:
    path = "/".join(segments)
    place = [] if path.startswith("/") else ["work", "project"]
    for segment in segments:
        if segment == "..":
            place = place[:-1]
        elif segment not in (".", ""):
            place.append(segment)
    assert covers("Edit(src/**)", edit(path)) is (place[:3] == ["work", "project", "src"])


# --- what is too large to be looked at


@pytest.mark.parametrize(
    ("rule", "input"),
    [
        ("Bash(git status:*)", {"command": "git status " + "x " * 500_000}),
        ("Bash(git status:*)", {"command": ["git", "status", *["x"] * 500_000]}),
        ("Edit(**)", {"files": ["src/a.py"] * 100_000}),
        ("Edit(**)", {"file": "src/" * 100_000}),
        ("Edit(**)", {"file": "a/" * 1000}),
        ("Edit(**)", {"file": "src/a.py", "rest": [[]] * 100_000}),
        ("Edit(**)", {f"file{number}": f"src/{number}.py" for number in range(1000)}),
    ],
)
def test_what_is_too_large_to_look_through_may_be_anything(rule: str, input: Any) -> None:
    """It is neither allowed nor known not to be denied; and it is told at once."""
    asked = request(rule.partition("(")[0], input)
    assert not covers(rule, asked)
    assert touches(rule, asked) is None
    policy = rules(allow=[rule], otherwise=ask)
    assert policy(asked) == Ask()
    assert rules(allow=["*"], deny=[rule], otherwise=ask)(asked) == Ask()


def test_a_name_that_no_tool_has_is_none_that_a_rule_says() -> None:
    asked = request("mcp__" + "x" * 100_000, {})
    assert not covers("mcp__*", asked)
    assert touches("mcp__*", asked) is None


def test_no_pattern_takes_for_ever_on_what_an_agent_makes_up() -> None:
    assert not covers("a*a*a*a*a*a*a*b", request("a" * 4000, {}))
    assert not covers("Edit(**/a*a*a*a*a*b/**/c/**/d)", edit("/".join(["a" * 9] * 300)))


def reference(pattern: str) -> str:
    """The same as a regular expression, which is good enough for short ones."""
    parts = []
    for part in pattern.split("/"):
        if part == "**":
            parts.append("(?:[^/]+/)*")
        elif part:
            plain = re.escape(part).replace(r"\*", "[^/]*").replace(r"\?", "[^/]")
            parts.append(plain + "/")
    return "".join(parts)


glob = st.text("ab*?", min_size=1, max_size=4).filter(lambda part: "**" not in part)


@given(
    st.lists(glob | st.just("**"), min_size=1, max_size=5).filter(lambda parts: parts != ["*"]),
    st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=5),
)
def test_a_pattern_means_what_it_would_mean_as_a_regular_expression(
    pattern: list[str], path: list[str]
) -> None:
    written, given = "/".join(pattern), "/".join(path)
    expected = re.fullmatch(reference(written), f"{given}/") is not None
    assert covers(f"Edit({written})", edit(given)) is expected


@given(st.text("AB*", min_size=1, max_size=6), st.text("AB", max_size=8))
def test_a_name_means_what_it_would_mean_as_a_regular_expression(rule: str, name: str) -> None:
    expected = re.fullmatch(".*".join(rule.split("*")), name) is not None
    assert covers(rule, request(name, {})) is expected


# --- options


ONCE = PermissionOption("1", "Yes", "allow_once")
ALWAYS = PermissionOption("2", "Always", "allow_always")
NO = PermissionOption("3", "No", "reject_once")
NEVER = PermissionOption("4", "Never", "reject_always")
LIAR = PermissionOption("allow_once", "Yes", "reject_once")
ODD = PermissionOption("5", "Perhaps", "allow_sometimes")


@pytest.mark.parametrize(
    ("options", "decision", "chosen"),
    [
        ([ALWAYS, ONCE, NO, NEVER], Allow(), ONCE),
        ([ALWAYS, NO], Allow(), ALWAYS),
        ([ONCE, ALWAYS, NO], Allow(remember=True), ALWAYS),
        ([ONCE, NO], Allow(remember=True), ONCE),
        ([NEVER, NO], Allow(), NO),
        ([NEVER], Allow(), NEVER),
        ([LIAR], Allow(), LIAR),
        ([ODD], Allow(), None),
        ([], Allow(), None),
        ([ONCE, ALWAYS, NO], Allow("2"), ALWAYS),
        ([ONCE, ALWAYS, NO], Allow("3"), NO),
        ([ONCE, NEVER], Allow("9"), NEVER),
        ([LIAR, ONCE, NO], Allow("allow_once"), LIAR),
        ([ONCE, NEVER, NO], Deny(), NO),
        ([ONCE, NEVER], Deny(), NEVER),
        ([ONCE], Deny(), None),
        ([ONCE, NO], Ask(), NO),
    ],
)
def test_the_option_is_chosen_by_its_kind_and_never_allows_by_accident(
    options: list[PermissionOption], decision: Decision, chosen: PermissionOption | None
) -> None:
    assert choose_option(options, decision) is chosen


@given(
    st.lists(st.sampled_from([ONCE, ALWAYS, NO, NEVER, LIAR, ODD]), max_size=5),
    st.sampled_from([Deny(), Ask(), None, True, "allow_once", 1]),
)
def test_only_allow_ever_allows(options: list[PermissionOption], decision: Any) -> None:
    chosen = choose_option(options, decision)
    assert chosen is None or chosen.kind.startswith("reject")


@pytest.mark.parametrize(
    ("created", "rule", "allowed"),
    [
        (("/shop/project/a.txt",), "Write", True),
        (("/shop/project/a.txt",), "Write(*.txt)", True),
        (("/shop/project/a.txt",), "Edit(*.txt)", True),
        (("/shop/project/a.txt",), "Write(*.md)", False),
        ((), "Write", False),
        ((), "Edit", True),
    ],
)
@pytest.mark.parametrize("tool", ["", "fileChange"])
def test_a_file_that_is_written_as_a_whole_is_a_write(
    tool: str, created: tuple[str, ...], rule: str, allowed: bool
) -> None:
    asked = PermissionRequest(
        title="",
        tool=tool,
        kind="edit",
        cwd="/shop/project",
        changes=("/shop/project/a.txt",),
        created=created,
        tools={"fileChange": "Edit"},
    )
    assert (rules(allow=[rule])(asked) == Allow()) is allowed


@pytest.mark.parametrize("kind", [Allow, Deny, Ask])
def test_decisions_that_differ_in_their_rule_are_equal(kind: Any) -> None:
    one, other = kind(rule="a"), kind(rule="b")
    assert one == other
    assert not one != other  # noqa: SIM202 - a Struct compares this by itself
    assert one != Deny("another")


def test_a_write_next_to_an_edit_is_no_write() -> None:
    asked = PermissionRequest(title="", kind="edit", cwd="/", changes=("/a", "/b"), created=("/a",))
    assert isinstance(rules(allow=["Write"])(asked), Deny | Ask)
    assert rules(allow=["Edit"])(asked) == Allow()


@pytest.mark.parametrize("kind", ["delete", "move", "execute", "read", "search", "fetch"])
def test_what_is_no_edit_by_its_kind_is_no_write(kind: str) -> None:
    """An agent may name a file that it deletes as one that it creates."""
    change = {"changes": ("/shop/project/a.txt",), "created": ("/shop/project/a.txt",)}
    asked = PermissionRequest(title="", kind=kind, cwd="/shop/project", **change)
    assert isinstance(rules(allow=["Write"])(asked), Deny | Ask)


@pytest.mark.slow
async def test_write_is_allowed_on_the_demo_agent(tmp_path: Path) -> None:
    policy = rules(allow=["Write(new.txt)"])
    async with open_session("demo", cwd=tmp_path, permissions=policy) as session:
        await session.run("create new.txt with hello")
        await session.run("create other.txt with hello")
    assert os.listdir(tmp_path) == ["new.txt"]
