"""Claude Code's suggestions: further answers to a permission request.

Claude sends a list of permission changes with a request, and accepts any of them in the answer.
Together they do more than a person wants who allows one command permanently: one of them is often
the mode that ends all asking. So each change has its own option, which names its effect and its
scope:

- rules that allow: "always", for the session, and a second option where Claude would store them;
- a mode, if it lifts no more than questions about edits;
- a folder.

Changes that remove rules, replace them, deny, or end all asking have no option.
"""

from __future__ import annotations

import re
from typing import Any, Final

from ..model.content import JsonObject
from ..model.events import PermissionOption
from .messages import objects

ALLOW_ALWAYS: Final = "allow_always"
ACCEPT_EDITS: Final[JsonObject] = {
    "type": "setMode",
    "mode": "acceptEdits",
    "destination": "session",
}
ACCEPT_EDITS_NAME: Final = "accept all edits of files in this session (mode acceptEdits)"
FILES: Final = {
    "localSettings": ("for this project", ".claude/settings.local.json"),
    "projectSettings": ("for all users of this project", ".claude/settings.json"),
    "userSettings": ("for all your projects", "~/.claude/settings.json"),
}
"""The places that Claude Code writes rules to: their scope and their file."""
_MODES: Final = {
    "acceptEdits": ACCEPT_EDITS_NAME,
    "plan": "plan from now on (mode plan)",
    "default": "ask before edits and commands from now on (mode default)",
    "dontAsk": "from now on, deny everything that is not already allowed (mode dontAsk)",
}
"""The modes that may be offered: none of them ends all asking."""
_RULE: Final = frozenset({"toolName", "ruleContent"})
_SCOPES: Final = frozenset({"session", *FILES})
_EDITS: Final = {"Edit": "file_path", "MultiEdit": "file_path", "Write": "file_path"}
_PLAIN_PATH: Final = re.compile(r"/[\w./ @+=,-]+", re.ASCII)


def suggested(request: JsonObject) -> list[tuple[PermissionOption, list[JsonObject]]]:
    """Return the further options of a `can_use_tool` request, each with its updates."""
    updates = list(map(_shown_part, objects(request.get("permission_suggestions"))))
    found: dict[str, tuple[PermissionOption, list[JsonObject]]] = {}  # the first ones of each id
    if not request.get("suppress_always_allow_rule"):
        for option, rules in _always(list(filter(_allows, updates)) or _for_file(request)):
            found.setdefault(option.id, (option, rules))
    for update in updates:
        match update:
            case {"type": "setMode", "mode": str(mode)} if mode in _MODES:
                name = f"Allow, and {_MODES[mode]}"
                option = PermissionOption(f"mode:{mode}", name, ALLOW_ALWAYS, "mode")
            case {"type": "addDirectories", "directories": [*folders]} if folders:
                named = ", ".join(folders)
                name = f"Allow, and let the agent work in {named} in this session"
                option = PermissionOption(f"folder:{named}", name, ALLOW_ALWAYS, "folder")
            case _:
                continue
        found.setdefault(option.id, (option, [{**update, "destination": "session"}]))
    return list(found.values())


def _shown_part(update: JsonObject) -> JsonObject:
    """Return the part of a suggestion that the label of an option can show; only that is sent."""
    destination = update.get("destination")
    places = {"destination": destination} if destination in _SCOPES else {}
    match update:
        case {"type": "addRules", "behavior": "allow", "rules": [*rules]}:
            shown = [
                {key: rule[key] for key in ("toolName", "ruleContent") if rule.get(key)}
                for rule in objects(rules)
                if _rule(rule)
            ]
            return {"type": "addRules", "behavior": "allow", "rules": shown, **places}
        case {"type": "setMode", "mode": str(mode)}:
            return {"type": "setMode", "mode": mode, **places}
        case {"type": "addDirectories", "directories": [*folders]}:
            named = [folder for folder in folders if isinstance(folder, str) and folder]
            return {"type": "addDirectories", "directories": named, **places}
    return {}


def describes_all(request: JsonObject) -> bool:
    """Return True if the options of a request describe each suggestion completely."""
    updates = request.get("permission_suggestions")
    allowed = not request.get("suppress_always_allow_rule")
    return isinstance(updates, list) and all(_described(each, allowed) for each in updates)


def _described(update: Any, allowed: bool) -> bool:
    """Return True if the option of a suggestion shows all of its fields and values."""
    match update:
        case {"type": "addRules", "behavior": "allow", "rules": [*rules], **rest}:
            whole = all(set(rule) <= _RULE and _rule(rule) for rule in objects(rules))
            return allowed and whole and len(objects(rules)) == len(rules) and not _odd(rest)
        case {"type": "setMode", "mode": str(mode), **rest}:
            return mode in _MODES and not _odd(rest)
        case {"type": "addDirectories", "directories": [*folders], **rest}:
            return all(isinstance(folder, str) for folder in folders) and not _odd(rest)
    return False


def _odd(rest: dict[Any, Any]) -> bool:
    """Return True if a suggestion has fields that its option does not show."""
    return bool(rest.keys() - {"destination"}) or rest.get("destination", "session") not in _SCOPES


def _always(updates: list[JsonObject]) -> list[tuple[PermissionOption, list[JsonObject]]]:
    """Return options for rules that allow: for the session, and for each place Claude would write
    to."""
    words = ", ".join(filter(None, map(_in_words, updates)))
    if not words:
        return []
    for_session = [{**update, "destination": "session"} for update in updates]
    name = f"Always allow {words} in this session"
    found = [(PermissionOption(ALLOW_ALWAYS, name, ALLOW_ALWAYS), for_session)]
    for place, (scope, file) in FILES.items():
        kept = [update for update in updates if update.get("destination") == place]
        if words := ", ".join(filter(None, map(_in_words, kept))):
            name = f"Always allow {words} {scope}, in later sessions too (written to {file})"
            option = PermissionOption(f"{ALLOW_ALWAYS}:{place}", name, ALLOW_ALWAYS)
            found.append((option, kept))
    return found


def _allows(update: JsonObject) -> bool:
    """Return True if a suggestion adds rules that allow."""
    return update.get("type") == "addRules" and update.get("behavior") == "allow"


def _for_file(request: JsonObject) -> list[JsonObject]:
    """Return a rule for the one file of an edit, for which Claude only suggests a mode."""
    arguments = request.get("input")
    key = _EDITS.get(str(request.get("tool_name")))
    if key is None or not isinstance(arguments, dict):
        return []
    path = arguments.get(key)
    if not isinstance(path, str) or not _PLAIN_PATH.fullmatch(path) or ".." in path:
        return []
    rule = {"toolName": "Edit", "ruleContent": f"/{path}"}
    return [
        {"type": "addRules", "behavior": "allow", "rules": [rule], "destination": "session"},
    ]


def _in_words(update: JsonObject) -> str:
    """Return the rules of a suggestion in words; empty if they have no label."""
    rules = update.get("rules")
    return ", ".join(filter(None, map(_rule, rules))) if isinstance(rules, list) else ""


def _rule(rule: Any) -> str:
    """Return a rule as people write it: `Bash(npm test)`; empty if it is not a valid one."""
    if not isinstance(rule, dict):
        return ""
    name, content = rule.get("toolName"), rule.get("ruleContent")
    if not isinstance(name, str) or not name or not isinstance(content, str | None):
        return ""
    if content is not None and content.startswith("//"):
        content = content[1:]  # Claude's notation for an absolute path
    return f"{name}({content})" if content else name
