"""The options of a session: declarations and checks, so that mistakes are reported early.

The checks run before anything is started. They raise `TypeError` or `ValueError` for an argument
that is wrong in itself, and `LocalProtocolError` for one that does not fit the agent, and for any
problem with a folder.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypedDict

from ..._base.paths import NO_CURRENT_FOLDER, not_utf8
from ..errors import LocalProtocolError
from ..limits import Limits
from ..model.content import JsonObject
from ..model.driver import ForkPoint
from ..model.providers import ProviderSetting
from ..permissions.policies import Policy
from ..session.budget import Budget
from ..session.rate_limits import WaitForLimits
from ..session.settings import check_providers

if TYPE_CHECKING:
    from ..agents import Agent
    from ..agents.projects import TrustMode
    from ..sandbox.policy import SandboxLike
    from ..store.service import StoreService
    from ..store.store import Store
    from ..telemetry.observation import Telemetries
    from ..tools.extensions import Extension, Hook
    from ..tools.tools import Provided, Tools
    from ..trace.trace import Trace
    from .client_services import Files, Terminals
    from .project_start import Trusted


class ReopenOptions(TypedDict, total=False):
    """The options of a session that a store does not save, as `reopen_session` takes them.

    `SessionOptions` has all of them, too.
    """

    cwd: str | os.PathLike[str]
    """The agent's working folder. Default: the current folder, or the stored one.

    Through agentrt the agent can reach only this folder and `roots`. Give it to `reopen_session` if
    the session's folder has moved; the new one is stored.
    """
    roots: Sequence[str | os.PathLike[str]]
    """Further folders that the agent can reach. Default: none, or the stored ones."""
    tools: Tools
    """Functions of this program that the agent may call (see `tool`), and servers of the package
    `mcp` (`MCPServer` or `Server`) with their resources and prompts. A single one is also accepted.
    """
    permissions: Policy | None
    """The policy that answers permission requests.

    Without it, the reader of a turn may answer each request as it arrives; an unanswered request is
    rejected.
    """
    hooks: Iterable[Hook]
    """Functions that Claude Code calls at certain moments (see `hook`)."""
    extensions: Iterable[Extension]
    """Functions that serve the agent's own requests (see `extension`)."""
    mcp_servers: Sequence[JsonObject]
    """Further MCP servers, in the format of ACP."""
    providers: Sequence[ProviderSetting]
    """The services that the agent's model providers stand for (see `Session.set_provider`).

    The session does not start if the agent cannot set them. Default: none.
    """
    env: Mapping[str, str] | None
    """The complete environment of the agent.

    Default: the environment of this process without variables that look like secrets, except model
    keys. Pass `os.environ` for all of it.
    """
    trust: TrustMode
    """The decision about the files of the project in `cwd` and `roots`. Default: `"no"`.

    `"no"`: the agent gets only instructions from the folder: no hooks, MCP servers, permissions or
    addresses. An agent that cannot be kept from them is not started. `"yes"`: it acts on the files
    as they are when the session is opened. `"ask"`: files that the user has not decided about
    become a permission request named `Trust`, which shows them; the session is open before it is
    answered, and its agent starts afterwards.
    """
    trusted: Trusted
    """Folders whose files the agent may act on, whatever `trust` is. Default: none."""
    sandbox: SandboxLike
    """A `Sandbox` around the agent and everything that it starts, or the name of a preset:
    `"workspace"`, `"offline"` or `"open-network"`. Default: none, or the stored one.

    The agent is not started if the sandbox cannot be built (`SandboxUnavailable`). A stored sandbox
    can be narrowed, but not widened or removed.
    """
    files: bool | Files
    """True (the default) lets an ACP agent read and write files through this process, within `cwd`
    and `roots`. Your own object serves these requests instead.
    """
    terminals: bool | Terminals
    """True (the default) lets an ACP agent run programs through this process, within `cwd` and
    `roots`. Your own object serves these requests instead.
    """
    checkpoints: bool
    """True saves the files of the folder before and after each turn (see `Session.checkpoints`).

    Default: False. Needs git, and the folder on this machine.
    """
    budget: Budget | Sequence[Budget] | None
    """A budget, or several, for all turns of the session, whoever starts them.

    See `agentrt.budget`. Default: None.
    """
    wait: WaitForLimits | None
    """Permission to wait for the end of a rate limit and to send the prompt again.

    Default: None; a turn that reaches a rate limit fails.
    """
    limits: Limits | None
    """The limits of the session. Default: those of the agent."""
    on_stderr: Callable[[bytes], None] | None
    """Called with the agent's output on stderr."""
    telemetry: Telemetries | None
    """`OpenTelemetry` for spans, `Metrics`, or a list of both."""
    trace: Trace | str | os.PathLike[str] | None
    """A file for all wire messages, without secrets, or an open trace (see `open_trace`)."""


class SessionOptions(ReopenOptions, total=False):
    """The options of `open_session`, `query`, `connect`, `Runtime.create` and the fake sessions.

    Use it for your own functions that pass them on (`**options: Unpack[SessionOptions]`).
    """

    resume: str | None
    """The agent's own id of an earlier session to continue."""
    fork: bool
    """True opens a copy of the session in `resume`, which does not change."""
    fork_at: ForkPoint | None
    """The point at which the copy ends (see `Session.fork_point`). Default: its end."""
    model: str | None
    """The agent's model, by its own id."""
    mode: str | None
    """The agent's mode, by its own id."""
    options: Mapping[str, Any] | None
    """Further settings of the agent, by its own names (for Codex, see `CodexOptions`)."""
    worktree: bool
    """True runs the session in a separate working tree of the repository around `cwd`.

    It starts with the files as they are. When the block of the session is left normally, its
    changes are applied to the original folder as one patch, all or nothing; if they do not fit any
    more, a branch `agentrt/…` has them (see `Session.worktree`). If the block is left by an
    exception, the working tree is kept; a stored session continues in it when it is reopened.
    Default: False.
    """
    worktree_copy: Sequence[str]
    """Ignored files and folders to copy into the working tree, such as `[".env"]`."""
    worktree_setup: Sequence[str]
    """A command that prepares the working tree, such as `["npm", "ci"]`.

    It runs in the session's sandbox, if there is one, before the agent starts.
    """
    store: Store | None
    """The store that saves the session (see `open_store`).

    Events are then shown only after they are stored. `reopen_session` continues the session.
    """
    tenant: str
    """Name of the tenant that owns the session on a shared server (see `Tenant`)."""


def check(name: str, value: object, kind: Any, right: str) -> None:
    """Raise `TypeError` unless `value` is a `kind`. `right` describes the expected value."""
    if not isinstance(value, kind):
        raise TypeError(f"`{name}` must be {right}, not {type(value).__name__}")


def check_limits(limits: Limits | None) -> None:
    """Raise `TypeError` unless this is a `Limits` or None."""
    if not isinstance(limits, Limits | None):
        raise TypeError(f"`limits` must be agentrt.Limits(…), not {type(limits).__name__}")


def checked_checkpoints(agent: Agent, given: bool) -> bool:
    """Check `checkpoints`. Raises `TypeError`, or `LocalProtocolError` for a remote agent."""
    check("checkpoints", given, bool, "True or False")
    if given and agent.connect is not None:
        raise LocalProtocolError(
            f"{agent.name} does not run on this machine, so its files cannot be saved; leave out"
            " checkpoints=True"
        )
    return given


def checked_functions(
    options: ReopenOptions,
) -> tuple[tuple[Provided, ...], tuple[Hook, ...], tuple[Extension, ...]]:
    """Return the tools, the hooks and the extensions. Raises `TypeError` or `ValueError`.

    The import is made only here, because most sessions have none of them.
    """
    given = options.get("tools", ()), options.get("hooks", ()), options.get("extensions", ())
    if given == ((), (), ()):
        return (), (), ()
    from ..tools.extensions import checked_extensions, checked_hooks, checked_tools_and_servers

    tools, hooks, extensions = given
    return (
        checked_tools_and_servers(tools),
        checked_hooks(hooks),
        checked_extensions(extensions),
    )


def checked_budgets(given: Budget | Sequence[Budget] | None) -> tuple[Budget, ...]:
    """Return the budgets. Raises `TypeError`."""
    if given is None or isinstance(given, Budget):
        return () if given is None else (given,)
    right = "the result of agentrt.budget(…), or a list of such"
    check("budget", given, Sequence, right)
    for each in given:
        check("budget", each, Budget, right)
    return tuple(given)


def checked_wait(wait: WaitForLimits | None) -> WaitForLimits | None:
    """Check `wait`. Raises `TypeError`."""
    check("wait", wait, WaitForLimits | None, "agentrt.unattended.WaitForLimits(…)")
    return wait


def check_trace(trace: Trace | str | os.PathLike[str] | None) -> None:
    """Raise `TypeError` unless this is a file name, a `Trace` or None."""
    if not isinstance(trace, str | os.PathLike | None):
        from ..trace.trace import Trace

        check("trace", trace, Trace, "a file name, or a Trace from agentrt.tracing.open_trace")


def check_store(
    name: str, store: object, right: str = "a Store from agentrt.store.open_store"
) -> StoreService | None:
    """Return the service of a `Store`; None for None.

    `right` describes the expected value. Raises `TypeError`.
    """
    if store is None:
        return None
    from ..store.service import StoreService

    check(name, store, StoreService, right)
    assert isinstance(store, StoreService)
    return store


_DEADLINE = "; use trio.move_on_after around a turn, or limits=agentrt.Limits(turn_timeout_s=…)"

HINTS: Final = {
    "journal": "; use store=…, the result of agentrt.store.open_store",
    "timeout": _DEADLINE,
    "deadline": _DEADLINE,
    "system_prompt": '; use options={"system_prompt": …} (Claude Code)',
    "max_turns": '; use options={"max_turns": …} (Claude Code)',
}
"""Explanations of names that programs of other libraries use, and of earlier names."""


def check_names(function: str, given: Iterable[str], options: type) -> None:
    """Raise `TypeError` unless all names of the given arguments are fields of `options`."""
    known = options.__annotations__ if options is ReopenOptions else all_options()
    for name in given:
        if name not in known:
            from difflib import get_close_matches

            close = get_close_matches(name, known, n=1)
            meant = f"; did you mean {close[0]!r}?" if close else HINTS.get(name, "")
            raise TypeError(f"{function} has no option {name!r}{meant}")


def all_options() -> tuple[str, ...]:
    """Return the names of the options of a session."""
    return (*SessionOptions.__annotations__, *ReopenOptions.__annotations__)


def check_opening(options: SessionOptions) -> None:
    """Raise `TypeError` for an option of the wrong type that describes the session itself."""
    for name in ("resume", "model", "mode"):
        check(name, options.get(name), str | None, "a string")
    check("fork", options.get("fork", False), bool, "True or False")
    check(
        "fork_at", options.get("fork_at"), ForkPoint | None, "a ForkPoint from Session.fork_point"
    )
    check("options", options.get("options"), Mapping | None, 'a dict such as {"max_turns": 5}')
    check("tenant", options.get("tenant", ""), str, "a string")
    check("worktree", options.get("worktree", False), bool, "True or False")
    for name in ("worktree_copy", "worktree_setup"):
        given = options.get(name, ())
        check(name, given, list | tuple, "a list of strings")
        if given and not options.get("worktree"):
            raise TypeError(f"`{name}` applies only with worktree=True")


def check_on_stderr(function: Callable[[bytes], None] | None) -> None:
    """Raise `TypeError` unless this is callable or None."""
    if function is not None and not callable(function):
        raise TypeError(
            f"`on_stderr` must be a function that takes bytes, not {type(function).__name__}"
        )


def checked_servers(given: Sequence[JsonObject]) -> tuple[JsonObject, ...]:
    """Return the additional MCP servers. The protocol checks each of them."""
    if isinstance(given, Mapping):
        raise TypeError("`mcp_servers` must be a list: [{'name': …, 'command': …}]")
    check("mcp_servers", given, Sequence, "a list of dicts")
    return tuple(given)


def checked_providers(
    agent: Agent, given: Sequence[ProviderSetting]
) -> tuple[ProviderSetting, ...]:
    """Return the settings of providers. Raises `TypeError` or `LocalProtocolError`."""
    if given and agent.protocol != "acp":
        raise LocalProtocolError(
            f"the providers of {agent.name} cannot be set; use its own options or environment"
        )
    return check_providers(given)


def check_env(env: Mapping[str, str] | None) -> None:
    """Raise `TypeError` or `ValueError` for an invalid environment.

    The message never shows a value, which may be a secret.
    """
    check("env", env, Mapping | None, "a mapping of names to values, such as os.environ")
    for name, value in (env or {}).items():
        if not (isinstance(name, str) and isinstance(value, str)):
            raise TypeError(f"the name and value of a variable in `env` must be strings: {name!r}")
        if not name or "=" in name or "\0" in name + value:
            raise ValueError(f"`env` has an invalid variable: {name!r}")


def folder(given: str | os.PathLike[str], what: str = "cwd", *, elsewhere: bool = False) -> str:
    """Return the absolute path of an existing folder.

    With `elsewhere` the agent runs on another machine: the path must be absolute, and is not looked
    up here. Raises `LocalProtocolError`, also for a path that is not UTF-8: every protocol sends
    it as text.
    """
    if not isinstance(given, str | os.PathLike):
        raise LocalProtocolError(f"{what}: must be a string or a path, not {type(given).__name__}")
    try:
        full = os.path.abspath(given)
    except FileNotFoundError:
        raise LocalProtocolError(f"{what}: {NO_CURRENT_FOLDER}") from None
    if not_utf8(full):
        raise LocalProtocolError(f"{what}: {not_utf8(full)}")
    if elsewhere and not os.path.isabs(given) and os.fspath(given) != ".":
        raise LocalProtocolError(
            f"{what}: must be an absolute path on the agent's machine, not {os.fspath(given)!r}"
        )
    if not elsewhere and not os.path.isdir(full):
        reason = "it is a file" if os.path.exists(full) else "create it first"
        raise LocalProtocolError(f"{what}: there is no folder {full!r}: {reason}")
    return full


def folders(given: Sequence[str | os.PathLike[str]], *, elsewhere: bool = False) -> tuple[str, ...]:
    """Return the absolute paths of `roots`. Raises as `folder`."""
    if isinstance(given, str | bytes | os.PathLike):
        raise LocalProtocolError(f"`roots` must be a list: [{given!r}]")
    if not isinstance(given, Iterable):
        raise LocalProtocolError(f"`roots` must be a list of folders, not {type(given).__name__}")
    return tuple(folder(each, "roots", elsewhere=elsewhere) for each in given)
