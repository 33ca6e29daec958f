"""`/permissions`: the permission mode and rules of an interactive session."""

from __future__ import annotations

from typing import Final, get_args

from msgspec import structs

from ..._config import PermissionMode, Permissions
from ..setup import UsageError
from ..text import one_line
from .conversation import Repl

_MODES: Final = {
    "ask": "you are asked about what no rule covers",
    "deny": "what no rule allows is denied",
    "allow-all": "everything is allowed that no rule denies",
}


async def permissions(repl: Repl, argument: str) -> None:
    """Run `/permissions [ask | deny | allow-all | allow RULE | deny RULE | forget RULE]`."""
    now = repl.setup.config.permissions
    word, _, rule = argument.partition(" ")
    rule = rule.strip()
    if rule and word in ("allow", "deny", "forget"):
        _permit(repl, _changed(now, word, rule))
    elif argument in get_args(PermissionMode):
        _permit(repl, structs.replace(now, mode=argument))
    elif argument:
        raise UsageError(
            "/permissions takes ask, deny, allow-all, allow RULE, deny RULE, forget RULE"
        )
    now = repl.setup.config.permissions
    mode = now.mode or "ask"
    repl.say(f"{mode}: {_MODES[mode]}")
    for word, rules in (("allow", now.allow), ("deny", now.deny)):
        for each in rules:
            repl.say(f"  {word.ljust(5)}  {one_line(each)}")


def _changed(now: Permissions, word: str, rule: str) -> Permissions:
    if word == "allow":
        return structs.replace(now, allow=(*now.allow, rule))
    if word == "deny":
        return structs.replace(now, deny=(*now.deny, rule))
    if rule not in (*now.allow, *now.deny):
        raise UsageError(f"there is no rule {rule!r}")
    return structs.replace(
        now,
        allow=tuple(each for each in now.allow if each != rule),
        deny=tuple(each for each in now.deny if each != rule),
    )


def _permit(repl: Repl, permissions: Permissions) -> None:
    config = structs.replace(repl.setup.config, permissions=permissions)
    repl.permit(structs.replace(repl.setup, config=config))
