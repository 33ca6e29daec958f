"""The environment of a terminal's program, and the variables that an agent may set in it.

A person allows a command by its text, and many variables change the effect of the same text: they
name programs to run, files to read settings from, servers to send to. No list of those can be
complete. So an agent may set variables on a list of harmless ones, and those that its user adds
(see `Agent.terminal_env`). All others are ignored, and the command still runs: agents set variables
out of habit. In front of a command they are visible, and are allowed with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Final

from .messages import NameValue

_WORD: Final = re.compile(r"[\w.@:+,-]{0,100}", re.ASCII)
"""Above all, not a path: a locale or terminal type that is a path is read from there."""

ALLOWED: Final[tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]] = (
    (
        _WORD,
        (
            "LANG",
            "LC_*",
            "TERM",
            "COLORTERM",
            "TERM_PROGRAM",
            "TERM_PROGRAM_VERSION",
            "COLUMNS",
            "LINES",
            "NO_COLOR",
            "FORCE_COLOR",
            "CLICOLOR",
            "CLICOLOR_FORCE",
            "CI",
            "CLAUDECODE",
            "GEMINI_CLI",
            "QWEN_CODE",
            "OPENCODE",
            "AI_AGENT",  # "I am an agent"
            "DEBIAN_FRONTEND",
            "GIT_TERMINAL_PROMPT",
            "GIT_OPTIONAL_LOCKS",
            "CARGO_TERM_COLOR",
            "PYTHONUNBUFFERED",
            "PYTHONUTF8",
            "PYTHONDONTWRITEBYTECODE",
            "NODE_NO_WARNINGS",
            "NODE_DISABLE_COLORS",
            "npm_config_color",
            "npm_config_fund",
            "npm_config_loglevel",
            "PIP_NO_INPUT",
            "PIP_DISABLE_PIP_VERSION_CHECK",
        ),
    ),
    (re.compile(r"[A-Za-z]\w*(?:[/+-]\w+){0,4}", re.ASCII), ("TZ",)),
    (
        re.compile(r"(?:/usr/local|/usr|/opt/homebrew)?/bin/(?:ba|da|z|k|fi)?sh"),
        ("SHELL",),
    ),
    (
        re.compile(r"|:|cat|false|true"),  # do not page, do not ask
        (
            "PAGER",
            "GIT_PAGER",
            "MANPAGER",
            "SYSTEMD_PAGER",
            "GH_PAGER",
            "BROWSER",
            "VISUAL",
            "EDITOR",
            "GIT_EDITOR",
            "GIT_SEQUENCE_EDITOR",
            "GIT_ASKPASS",
            "SSH_ASKPASS",
        ),
    ),
)
"""Harmless values, and the variables that may have them; `*` stands for any characters."""

OURS: Final = "AGENTRT_"


def merge_environment(
    base: Mapping[str, str], wanted: Iterable[NameValue] | None, more: Iterable[str] = ()
) -> tuple[dict[str, str], list[str]]:
    """Return `base` with the agent's permitted changes, and the names of the ignored variables.

    `more`: names of variables, with `*` for any characters, that the agent may set to any value.
    """
    merged, left_out = dict(base), []
    more = tuple(more)
    for variable in wanted or ():
        name, value = variable.name, variable.value
        if base.get(name) == value:
            continue  # many agents send back their own environment
        if _possible(name, value) and (_harmless(name, value) or _named(name, more)):
            merged[name] = value
        else:
            left_out.append(name)
    return merged, left_out


def _possible(name: str, value: str) -> bool:
    return bool(name) and "=" not in name and "\0" not in name + value


def _harmless(name: str, value: str) -> bool:
    return any(_named(name, names) and values.fullmatch(value) for values, names in ALLOWED)


def _named(name: str, patterns: Iterable[str]) -> bool:
    return not name.upper().startswith(OURS) and any(fnmatchcase(name, each) for each in patterns)
