"""The environment of a terminal's program: what an agent may put into it.

A person allows a command by what it says, and many variables make the same words do something else:
they name programs to run, files to read settings from, servers to send to. No list of those is
whole, so an agent may set what is on a list of harmless ones, and what its user adds to that (see
`Agent.terminal_env`). The rest is left out, and the command runs: agents set variables out of
habit. In front of a command they can be seen, and are allowed with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Final

from .messages import NameValue

_WORD: Final = re.compile(r"[\w.@:+,-]{0,100}", re.ASCII)
"""No path, above all: a locale or a terminal's type that is one is read from there."""

ALLOWED: Final[tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]] = (
    (
        _WORD,
        (
            *("LANG", "LC_*", "TERM", "COLORTERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION"),
            *("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CI"),
            *("CLAUDECODE", "GEMINI_CLI", "QWEN_CODE", "OPENCODE", "AI_AGENT"),  # "I am an agent"
            *("DEBIAN_FRONTEND", "GIT_TERMINAL_PROMPT", "GIT_OPTIONAL_LOCKS", "CARGO_TERM_COLOR"),
            *("PYTHONUNBUFFERED", "PYTHONUTF8", "PYTHONDONTWRITEBYTECODE", "NODE_NO_WARNINGS"),
            *("NODE_DISABLE_COLORS", "npm_config_color", "npm_config_fund", "npm_config_loglevel"),
            *("PIP_NO_INPUT", "PIP_DISABLE_PIP_VERSION_CHECK"),
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
            *("PAGER", "GIT_PAGER", "MANPAGER", "SYSTEMD_PAGER", "GH_PAGER", "BROWSER", "VISUAL"),
            *("EDITOR", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_ASKPASS", "SSH_ASKPASS"),
        ),
    ),
)
"""The values that are harmless, and the variables that may have one; `*` stands for anything."""

OURS: Final = "AGENTRT_"


def merge_environment(
    base: Mapping[str, str], wanted: Iterable[NameValue] | None, more: Iterable[str] = ()
) -> tuple[dict[str, str], list[str]]:
    """`base` with what the agent may add or change, and the names of what was left out. `more`:
    names of variables, with `*` for any characters, that it may also set, to any value."""
    merged, left_out = dict(base), []
    more = tuple(more)
    for variable in wanted or ():
        name, value = variable.name, variable.value
        if base.get(name) == value:
            continue  # many send on what they were given
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
