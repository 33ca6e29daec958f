"""The table of subcommands: the module that runs each one, and the options that apply to it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

SESSION_OPTIONS: Final[Mapping[str, str]] = {
    "prompt": "-p",
    "output_format": "--output-format",
    "attachments": "--attach",
    "last_message": "--last-message",
    "json_schema": "--json-schema",
    "max_turns": "--max-turns",
    "fail_on_denied": "--fail-on-denied",
    "continue_": "--continue",
    "serve": "--serve",
    "system": "--system",
    "append_system": "--append-system",
    "worktree": "--worktree",
}
"""Options of `agentrt` without a subcommand that most subcommands reject, with their flags."""
PROMPT_OPTIONS: Final = frozenset(
    {"prompt", "output_format", "attachments", "last_message", "fail_on_denied"}
)
"""Options for a single prompt, which `attach` also accepts."""


class Subcommand(NamedTuple):
    """A subcommand of `agentrt`."""

    module: str
    """The module of `commands` whose function `prepare(options, config)` returns its work."""
    accepts: frozenset[str] = frozenset()
    """The names in `SESSION_OPTIONS` that it accepts."""
    starts_agents: bool = True
    """False if it starts no agent, so that `--trace` does not apply."""
    opens_sessions: bool = False
    """True if sessions work in the directory of `--cwd`."""
    takes_command: bool = False
    """True if the agent's command is an argument of its own, so that `--protocol` may be alone."""
    log_level: Literal["error"] | None = None
    """The default of `--log-level`."""
    shows_warnings: bool = False
    """True if it reports the warnings about the configuration itself."""
    changes: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """The verbs that change something without a session, which an audit log records; each with the
    names of its arguments in the record.
    """


SUBCOMMANDS: Final[Mapping[str | None, Subcommand]] = {
    None: Subcommand("default", accepts=frozenset(SESSION_OPTIONS), opens_sessions=True),
    "serve": Subcommand("serve", opens_sessions=True, log_level="error"),
    "attach": Subcommand("attach", accepts=PROMPT_OPTIONS, opens_sessions=True),
    "acp": Subcommand("acp", opens_sessions=True),
    "agents": Subcommand("agents", starts_agents=False),
    "doctor": Subcommand("doctor"),
    "sandbox": Subcommand("sandbox", starts_agents=False),
    "sessions": Subcommand(
        "sessions",
        opens_sessions=True,
        changes={"delete": ("session",), "repair": (), "vacuum": ()},
    ),
    "checkpoints": Subcommand(
        "checkpoints", starts_agents=False, changes={"restore": ("cwd", "number")}
    ),
    "audit": Subcommand("audit", starts_agents=False),
    "trust": Subcommand(
        "trust",
        starts_agents=False,
        changes={"add": ("folder", "agents"), "remove": ("folder", "agents")},
    ),
    "nodes": Subcommand("nodes", starts_agents=False, changes={"drain": ("name",)}),
    "rules": Subcommand("rules", starts_agents=False),
    "trace": Subcommand("trace", starts_agents=False),
    "replay": Subcommand("replay", starts_agents=False),
    "conformance": Subcommand("conformance", takes_command=True),
    "new": Subcommand("new", starts_agents=False),
    "config": Subcommand("config", starts_agents=False, shows_warnings=True),
    "completion": Subcommand("completion", starts_agents=False),
}
"""Every subcommand except `record`, which is `agentrt` with a command and a trace; the key None is
`agentrt` without a subcommand.
"""
