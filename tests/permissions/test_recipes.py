"""The recipes of `docs/guides/permissions.md`, against commands that look alike and do more."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import agentrt
from agentrt.permissions import Allow, Deny, PermissionRequest
from tables import for_each

DOCUMENT = (Path(__file__).parents[2] / "docs/guides/permissions.md").read_text()
SECTION = DOCUMENT[DOCUMENT.index("## Recipes") : DOCUMENT.index("## Tested command lines")]
MODES = {"ask": agentrt.ask, "deny": agentrt.deny_all, "allow-all": agentrt.allow_all}
RECIPES: list[dict[str, Any]] = [
    tomllib.loads(text)["permissions"]
    for text in re.findall(r"```toml\n(.*?)```", SECTION, re.DOTALL)
]


def policy_of(recipe: dict[str, Any]) -> agentrt.Policy:
    return agentrt.rules(
        allow=recipe.get("allow", ()),
        deny=recipe.get("deny", ()),
        otherwise=MODES[recipe["mode"]],
        attended=recipe["mode"] == "ask",
    )


def decide(recipe: dict[str, Any], call: str) -> object:
    """The decision about a command, or about `TOOL: path`."""
    tool, colon, path = call.partition(": ")
    if colon and tool in ("Edit", "Write", "Read", "WebFetch"):
        key = "url" if tool == "WebFetch" else "file_path"
        return policy_of(recipe)(asked(tool, {key: path}))
    return policy_of(recipe)(asked("Bash", {"command": call}))


def asked(tool: str, input: Any) -> PermissionRequest:
    return PermissionRequest(title="", tool=tool, input=input, cwd="/shop")


def test_the_document_has_these_recipes() -> None:
    assert [recipe["mode"] for recipe in RECIPES] == ["deny", "ask", "allow-all"]


LOOK = ["Read: src/a.py", "git status", "git diff", "git diff --stat", "ls -la src", "grep -rn x ."]
TOUCH = [
    "git diff --output=/etc/passwd",
    "git diff --output a.txt",
    "git diff --ext-diff",
    "git diff --textconv",
    "git diff --no-index a b --output=c",
    "git diff > a.txt",
    "git diff >> a.txt",
    "git diff | tee a.txt",
    "git diff & touch a",
    "git diff; rm a",
    "git diff $(touch a)",
    "git -c diff.external=./x diff",
    "git -c core.fsmonitor=./x status",
    "git -C /tmp/hostile status",
    "GIT_EXTERNAL_DIFF=./x git diff",
    "GIT_DIR=hostile git status",
    "git status > a.txt",
    "git log --output=a.txt",
    "git stash",
    "git checkout .",
    "ls > a.txt",
    "ls | xargs rm",
    "ls $(touch a)",
    "ls; touch a",
    "grep x a > b",
    "grep x a | sh",
    "PATH=. grep x a",
    "./ls",
    "env ls",
    "sudo ls",
    "ls `touch a`",
    "ls &> a.txt",
    "grep x <(touch a)",
    "Edit: src/a.py",
    "Write: new.txt",
    "WebFetch: https://example.com",
]


@pytest.mark.parametrize("call", LOOK)
def test_looking_is_allowed(call: str) -> None:
    assert decide(RECIPES[0], call) == Allow()


@for_each("call", TOUCH)
def test_touching_is_denied_where_only_looking_is_allowed(call: str) -> None:
    assert isinstance(decide(RECIPES[0], call), Deny)


@pytest.mark.parametrize("key", ["workdir", "cwd", "directory"])
def test_looking_in_a_hostile_folder_is_denied(key: str) -> None:
    request = asked("Bash", {"command": "git status", key: "/tmp/hostile"})
    assert isinstance(policy_of(RECIPES[0])(request), Deny)


WORK = ["Read: a.md", "Edit: src/a.py", "Write: src/new.py", "Edit: tests/a.py", "npm test"]
MORE = [
    "git push",
    "git push origin main",
    "git -C . push",
    "git --no-pager push --force",
    "git pus origin",
    "git send-pack origin main",
    "git -c alias.p=push p",
    "git p",
    "git $WHAT",
    "git subtree push origin x",
    "npm publish",
    "npm publi",
    "npm publ --access public",
    "npm --tag x publish",
    "npm run publish",
    "npm test && npm publish",
    "npm test; git push",
    "npm test -- --x",
    "npm test > .github/workflows/x.yml",
    "yarn publish",
    "pnpm publish",
    "npx np",
    "sh -c 'git push'",
    "make release",
    "python3 -c 'import os'",
    "cp a .github/workflows/x.yml",
    "mv a .github/x",
    "tee .github/workflows/x.yml < a",
    "echo x > .github/workflows/x.yml",
    "dd if=a of=.github/x",
    "ln -s a .github/x",
    "sed -i s/a/b/ .github/workflows/x.yml",
    "git apply x.patch",
    "Edit: .github/workflows/x.yml",
    "Edit: ./src/../.github/workflows/x.yml",
    "Edit: .GITHUB/workflows/x.yml",
    "Write: .github/x",
    "Edit: src/../package.json",
    "Edit: package.json",
    "Edit: /etc/passwd",
    "npm test\nnpm publish",
    "FOO=1 npm test",
]
SURELY_DENIED = ["git push", "git push origin main", "npm publish", "Edit: .github/workflows/x.yml"]


@pytest.mark.parametrize("call", WORK)
def test_work_is_allowed(call: str) -> None:
    assert decide(RECIPES[1], call) == Allow()


@for_each("call", MORE)
def test_more_than_work_is_asked_or_denied(call: str) -> None:
    assert not isinstance(decide(RECIPES[1], call), Allow)


@pytest.mark.parametrize("call", SURELY_DENIED)
def test_publishing_is_denied_without_a_question(call: str) -> None:
    assert isinstance(decide(RECIPES[1], call), Deny)


@for_each(
    "call",
    [
        each
        for each in MORE
        if re.search(r"publi?|pus|send-pack|\.git(hub|HUB)", each, re.IGNORECASE)
    ],
)
def test_what_may_publish_is_not_allowed_by_a_policy_that_allows_all_else(call: str) -> None:
    recipe = {**RECIPES[1], "mode": "allow-all"}
    known = ("yarn", "pnpm")  # other programs, which need rules of their own
    assert call.startswith(known) or not isinstance(decide(recipe, call), Allow)
