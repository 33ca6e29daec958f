"""The environment of a terminal's program: what an agent may not put into it.

A person allows a command by what it says. A variable that makes the same words do something else
would make that a lie, so these are refused; in front of the command they can be seen, and are
allowed with it. It is no sandbox: no list of such variables is whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Final

from .messages import NameValue

REFUSED: Final[dict[str, tuple[str, ...]]] = {
    "it is agentrt's own": ("AGENTRT_*",),
    "it decides which program, or which of its parts, a name means": ("*PATH", "PATHEXT"),
    "programs find the settings there that make them run others": (
        *("*HOME", "*_RC", "INPUTRC", "NETRC", "SCREENRC", "WGETRC", "*_CONF", "*CONFIG"),
        *("XDG_CONFIG_*", "XDG_DATA_*"),
    ),
    "programs take it for arguments of their own": ("*OPTS", "*_OPTIONS", "*FLAGS"),
    "programs run what it names": (
        *("*_COMMAND", "*_CMD", "*SHELL", "*PAGER", "*EDITOR", "VISUAL", "BROWSER", "*_ASKPASS"),
        *("*INIT", "*_STARTUP", "CC", "CXX", "CPP", "LD", "AR", "MAKE", "TAR_OPTIONS", "LESS*"),
        *("GIT_*", "SSH_*", "CVS_*", "RSYNC_*", "MAKEFILES", "RUSTC*", "CARGO_*", "GRADLE_*"),
        *("MAVEN_*", "NPM_*", "YARN_*", "PNPM_*", "ANSIBLE_*"),
    ),
    "the loader, a library or an interpreter takes code from it": (
        *("LD_*", "DYLD_*", "GLIBC_TUNABLES", "OPENSSL_*", "*_MODULES", "*_PLUGINS", "*_PRELOAD"),
        *("PYTHON*", "NODE_*", "DENO_*", "BUN_*", "PERL*", "RUBY*", "GEM_*", "BUNDLE_*", "LUA_*"),
        *("PHP*", "DOTNET_*", "CORECLR_*", "TERMINFO*", "TERMCAP"),
    ),
    "shells run it, or read every command by it": (
        *("ENV", "BASH_*", "BASHOPTS", "IFS", "PS4", "ZDOTDIR"),
    ),
    "programs load from, or send to, where it says": (
        *("PIP_*", "UV_*", "*_PROXY", "CURL_*", "SSL_CERT_*", "*_CA_BUNDLE", "HOSTALIASES"),
        *("LOCALDOMAIN", "DOCKER_*", "KUBE*"),
    ),
}
"""Names in upper case, with `*` for any characters, by the reason to refuse them. Families rather
than single names: every list of single names has turned out to lack some."""

HARMLESS: Final = {
    *("NODE_ENV", "NODE_NO_WARNINGS", "NODE_DISABLE_COLORS", "GIT_TERMINAL_PROMPT"),
    *("PYTHONUNBUFFERED", "PYTHONIOENCODING", "PYTHONUTF8", "PYTHONDONTWRITEBYTECODE"),
    *("GIT_OPTIONAL_LOCKS", "NPM_CONFIG_LOGLEVEL", "NPM_CONFIG_COLOR", "NPM_CONFIG_FUND"),
    *("PIP_NO_INPUT", "PIP_DISABLE_PIP_VERSION_CHECK", "CARGO_TERM_COLOR"),
}
"""Of the names above, what agents set so that programs neither ask nor colour."""

SILENCED: Final = ("*PAGER", "*EDITOR", "VISUAL", "BROWSER", "*_ASKPASS")
"""For the same reason agents set these, to one of `SILENT`."""
SILENT: Final = {"", ":", "cat", "false", "true"}


class RefusedVariable(ValueError):
    """The agent may not set it; the message says why."""


def merge_environment(
    base: Mapping[str, str], wanted: Iterable[NameValue] | None
) -> dict[str, str]:
    """`base` with what the agent wants to add or change. Raises `RefusedVariable`."""
    merged = dict(base)
    for variable in wanted or ():
        reason = _objection(variable.name, variable.value)
        if reason is not None:
            raise RefusedVariable(f"the agent may not set {variable.name!r:.100}: {reason}")
        merged[variable.name] = variable.value
    return merged


def _objection(name: str, value: str) -> str | None:
    if not name or "=" in name or "\0" in name + value:
        return "no program can have it"
    upper = name.upper()
    if upper in HARMLESS or (value in SILENT and _is_one_of(upper, SILENCED)):
        return None
    return next((why for why, names in REFUSED.items() if _is_one_of(upper, names)), None)


def _is_one_of(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
