"""The settings of a command-line session: agent, directory, limits and permissions.

A `Setup` is a value: the terminal makes changed copies of it for `/agent`, `/new`, `/fork` and
`/resume`, and opens the next session with one. It has the choices of the command line and the
settings file together, already checked, so opening a session needs neither of them.

Three sources of a session are distinguished when it is opened: a new one; one in the user's stores
(`stored_ref`), which is moved into this process's own store first; and one that only its agent
knows (`resume`).
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct, structs

from .._public import Limits, Session, open_session
from ..agents import BUILT_IN, Agent, acp, claude, find_agents, resolve_agent
from ..config import Config, PermissionMode
from ..errors import AgentNotFound, SessionNotFound
from ..events import ForkPoint, JsonObject
from ..permissions import (
    Allow,
    Ask,
    Decision,
    PermissionRequest,
    Policy,
    allow_all,
    ask,
    deny_all,
    rules,
)
from ..process import without_own
from ..storage import is_server
from ..store import reopen_session
from ..unattended import Budget, WaitForLimits
from .auditing import audit_log
from .exit_status import UsageError
from .stores import OwnStore, StoredRef
from .text import one_line

if TYPE_CHECKING:
    pass

_INTERPRETER = re.compile(r"python[\d.]*|pypy[\d.]*|node|bun|deno|ruby|perl|sh|bash|uvx|npx")
DEMO = "demo"
NO_AGENT = (
    "no agent is installed; `agentrt agents` lists agents and how to install them"
    " (`--agent demo` tries agentrt without one)"
)


class Setup(Struct, frozen=True, kw_only=True):
    """The settings that are needed to open a session, and to open further ones like it."""

    agent: Agent
    config: Config
    cwd: str = "."
    resume: str | None = None
    """The agent's own id of an earlier session."""
    fork: bool = False
    """True if a copy of that session continues and the session itself stays unchanged."""
    fork_at: ForkPoint | None = None
    """The point at which the copy ends, if it is not the end."""
    stored_ref: StoredRef | None = None
    """A stored session to resume."""
    moved: bool = False
    """True if that session continues in `cwd` instead of in its own directory."""
    store: str | None = None
    """The value of `--store`."""
    model: str | None = None
    mode: str | None = None
    options: JsonObject = {}
    """Settings that are specific to this agent: the `options` of `open_session`."""
    budget: Budget | None = None
    """The budget of all sessions of the command."""
    wait: WaitForLimits | None = None
    """Permission to wait for the end of rate limits."""
    note: str = ""
    """A note for the user about the choice of the agent."""

    def policy(
        self, mode: PermissionMode, *, attended: bool = False, chosen: bool = True
    ) -> Policy:
        """Return the policy: the rules of the settings, then the mode.

        `attended`: a person can be asked about calls that a rule may deny, and can fill in forms in
        mode `allow-all`. `chosen`: the mode was chosen explicitly; otherwise `deny` only answers
        the agent's questions. Raises `UsageError` if a rule is invalid.
        """
        if mode == "deny" and not chosen:
            otherwise: Policy = _deny_questions
        elif mode == "allow-all" and attended:
            otherwise = _ask_forms
        else:
            otherwise = {"ask": ask, "deny": deny_all, "allow-all": allow_all}[mode]
        permissions = self.config.permissions
        try:
            return rules(
                allow=permissions.allow,
                deny=permissions.deny,
                otherwise=otherwise,
                attended=attended,
                on_violation=permissions.on_violation,
            )
        except ValueError as error:
            raise UsageError(str(error)) from error

    def doubts(self) -> list[str]:
        """Return warnings about rules that cannot hold for this agent or never apply to it.

        Raises `UsageError` if no deny rule could hold.
        """
        permissions = self.config.permissions
        if not (permissions.allow or permissions.deny):
            return []  # without rules, skip the slow import
        from ..permissions import unreachable_rules

        # Claude Code asks before each call, whatever its mode is.
        unasked = () if self.agent.protocol == "claude" else self.agent.quirks.unasked_modes
        if permissions.deny and (self.mode in unasked or "*" in unasked):
            how = f" in its mode {self.mode}" if self.mode in unasked else ""
            raise UsageError(f"{self.agent.name} never asks{how}, so --deny would have no effect")
        doubts = []
        if permissions.deny and self.agent.quirks.unasked:
            doubts = [f"{self.agent.name} never asks when it {self.agent.quirks.unasked}"]
        return doubts + [
            f"the rule {rule} never applies: {why}"
            for rule, why in unreachable_rules(permissions.allow, permissions.deny, self.agent)
        ]

    @property
    def limits(self) -> Limits:
        """The limits for this agent, with the changes of the settings."""
        from ..hosting import limits_for

        return self.config.bound(limits_for(self.agent, None))

    @property
    def attended(self) -> Setup:
        """This setup for a person, who ends a turn that takes too long.

        It has no hard limit unless one was set, and the person is asked about project files.
        """
        limits = {"turn_timeout_s": None, **self.config.limits}
        trust = self.config.trust or "ask"
        config = structs.replace(self.config, limits=limits, trust=trust)
        return structs.replace(self, config=config)

    @property
    def unasked(self) -> Setup:
        """This setup for a command that asks nothing before its prompt is sent."""
        if self.config.trust != "ask":
            return self
        return structs.replace(self, config=structs.replace(self.config, trust="no"))

    def open(
        self,
        policy: Policy,
        *,
        limits: Limits,
        replay: bool,
        on_stderr: Callable[[bytes], None] | None = None,
        own: OwnStore | None = None,
    ) -> AbstractAsyncContextManager[Session]:
        """Open the session.

        `replay`: have a resumed agent repeat the conversation. `on_stderr` receives the agent's
        standard error. `own` is the store; without one, nothing is stored. The context manager
        raises `AgentrtError` if the session cannot be opened; this method raises `SessionNotFound`
        if a stored session cannot be resumed without its store.
        """
        resume = self.resume
        if self.stored_ref is not None:
            if own is not None:
                return self._reopen(own, self.stored_ref, policy, limits, on_stderr)
            resume = (
                self.stored_ref.entry.agent_session
            )  # the only way to resume it without a store
            if resume is None:
                raise SessionNotFound(
                    f"{self.agent.name} has not stored that session itself, and the store is off"
                )
        opening = self._opening(
            open_session,
            self.agent,
            cwd=self.cwd,
            permissions=policy,
            resume=resume,
            fork=self.fork,
            fork_at=self.fork_at,
            model=self.model,
            mode=self.mode,
            options=self.options if replay else {**self.options, "replay": False},
            limits=limits,
            on_stderr=on_stderr,
            store=own.store if own is not None else None,
            **self._worktree,
        )
        return opening if self.resume is None else _resumed(opening, self.resume)

    @property
    def _worktree(self) -> dict[str, Any]:
        """The options of a separate working tree, for a new conversation."""
        settings = self.config.unattended
        if not settings.worktree or self.resume is not None:
            return {}
        return {
            "worktree": True,
            "worktree_copy": settings.worktree_copy,
            "worktree_setup": settings.worktree_setup,
        }

    @asynccontextmanager
    async def _reopen(
        self,
        own: OwnStore,
        ref: StoredRef,
        policy: Policy,
        limits: Limits,
        on_stderr: Callable[[bytes], None] | None,
    ) -> AsyncIterator[Session]:
        """Fetch a stored session into the own store, reopen it, and apply the chosen model and
        mode.

        The folder is passed only if the user has moved there; otherwise the session continues in
        its own.
        """
        await own.fetch(ref)
        async with self._opening(
            reopen_session,
            ref.entry.session,
            own.store,
            agent=self.agent,
            cwd=self.cwd if self.moved else None,
            permissions=policy,
            limits=limits,
            on_stderr=on_stderr,
        ) as session:
            if self.model is not None:
                await session.set_model(self.model)
            if self.mode is not None:
                await session.set_mode(self.mode)
            yield session

    def _opening(
        self,
        open: Callable[..., AbstractAsyncContextManager[Session]],
        *arguments: object,
        **settings: Any,
    ) -> AbstractAsyncContextManager[Session]:
        """Open the session with the configuration, and with a trace if one is configured."""
        opening = partial(
            open,
            *arguments,
            **settings,
            env=agents_environment(self.config),
            trust=self.config.trust or "no",
            trusted=self.config.trusted,
            sandbox=self.config.sandbox,
            checkpoints=self.config.unattended.checkpoints,
            budget=self.budget,
            wait=self.wait,
            telemetry=audit_log(self.config),
        )
        if self.config.trace.file is None:
            return opening()
        from .tracing import traced

        return traced(self.config, opening)

    def resuming(self, ref: StoredRef, agent: Agent) -> Setup:
        """Return a setup that resumes a stored session of this agent.

        It uses the session's directory, model, mode and options.
        """
        return structs.replace(
            self.changed(agent),
            stored_ref=ref,
            cwd=ref.entry.cwd,
            model=None,
            mode=None,
            options={},
        )

    def changed(self, agent: Agent) -> Setup:
        """Return a setup for a new conversation with `agent`.

        For a different agent it has no model, mode and options, as these belong to an agent.
        """
        new = structs.replace(
            self,
            agent=agent,
            resume=None,
            fork=False,
            fork_at=None,
            stored_ref=None,
            moved=False,
            note="",
        )
        if agent == self.agent:
            return new
        return structs.replace(new, model=None, mode=None, options={})


@asynccontextmanager
async def _resumed(
    opening: AbstractAsyncContextManager[Session], resume: str
) -> AsyncIterator[Session]:
    """Open a session that is not stored, so that only its agent may know it.

    Raises `SessionNotFound` with a message that explains this.
    """
    async with AsyncExitStack() as stack:
        try:
            session = await stack.enter_async_context(opening)
        except SessionNotFound as error:
            raise SessionNotFound(
                f"no session {one_line(resume)!r} is stored (`agentrt sessions` lists them), and"
                f" its agent does not know it either: {error}"
            ) from error
        yield session


def describe_worktree(session: Session) -> str:
    """Return what became of the changes in a session's working tree; empty without one."""
    result = None if session.worktree is None else session.worktree.brought_back
    if result is None:
        return ""
    if result.branch:
        return (
            "the changes no longer apply, so they are saved on the branch"
            f" {one_line(result.branch)} ({one_line(result.reason)})"
        )
    if not result.changes:
        return "no files were changed"
    names = ", ".join(one_line(each.path) for each in result.changes[:5])
    more = f" and {len(result.changes) - 5} more" if len(result.changes) > 5 else ""
    return f"changed files were brought back: {names}{more}"


def agents_environment(config: Config, *, server: bool = False) -> dict[str, str]:
    """Return the environment of the agents that a command starts.

    It is the user's own environment, as if they had started the agent by hand, without the
    variables that agentrt itself needs: a process with a token can answer its own questions, and
    one with the password of a store can write there.

    `server`: the command is `agentrt serve`.
    """
    stores = (config.serve.store, config.terminal.store)
    database = any(each is not None and is_server(each) for each in stores)
    return without_own(os.environ, server=server, database=database)


def _deny_questions(request: PermissionRequest) -> Decision:
    """Reject each question, because no person can be asked."""
    return deny_all(request)


def _ask_forms(request: PermissionRequest) -> Decision:
    """Allow everything except forms, and questions of agentrt, which only a person can answer.

    Forms of Claude have no options; forms of ACP have a schema or a URL.
    """
    fields = request.raw if isinstance(request.raw, dict) else {}
    form = not request.options or "requestedSchema" in fields or "url" in fields
    return Ask() if form or request.subject else Allow()


def choose_agent(
    config: Config,
    name: str | None = None,
    command: str | None = None,
    protocol: str | None = None,
    *,
    acp_version: Literal[1, 2] | None = None,
    demo: bool = False,
) -> tuple[Agent, str]:
    """Return the requested agent, or else the first installed one, and a note about the choice.

    With `demo`, the built-in demo agent stands in if no other agent is installed. Only a command
    with a person in front of it may ask for that: a script would take its answer for a model's.
    `acp_version` replaces the agent's own. Raises `AgentNotFound` or `UsageError`.
    """
    agent, note = _choose_agent(config, name, command, protocol, demo=demo)
    return with_acp_version(agent, acp_version), note


def with_acp_version(agent: Agent, version: Literal[1, 2] | None) -> Agent:
    """Return an agent with the version of ACP to ask for, if one is given. Raises `UsageError`."""
    if version is None:
        return agent
    if agent.protocol != "acp":
        raise UsageError(f"--acp-version does not apply to {agent.name}, which does not speak ACP")
    return structs.replace(agent, acp_version=version)


def _choose_agent(
    config: Config, name: str | None, command: str | None, protocol: str | None, *, demo: bool
) -> tuple[Agent, str]:
    """Return the agent for a command and a note for the user, which may be empty.

    A given command wins over a name, a name over the configuration, and that over the first
    installed agent. `demo`: the built-in agent may be used if there is no other; otherwise
    `AgentNotFound` is raised.
    """
    if command is not None:
        return resolve_agent(_of_command(command, protocol)), ""
    wanted = name or config.agent
    if wanted is not None:
        return resolve_agent(wanted, config), ""
    installed = (each.agent for each in find_agents(config) if each.available)
    agent = next((each for each in installed if each.name != DEMO), None)
    if agent is not None:
        return agent, ""
    if not demo:
        raise AgentNotFound(NO_AGENT)
    return resolve_agent(BUILT_IN[DEMO]), (
        "no agent is installed; using the built-in demo agent, which has no model. To install one:"
        f" {BUILT_IN['claude'].install.partition(',')[0]} (`agentrt agents` lists all)"
    )


def _of_command(command: str, protocol: str | None) -> Agent:
    """Return the agent of `--command`. Raises `UsageError` if it cannot be parsed."""
    try:
        agent = claude(command) if protocol == "claude" else acp(command)
        if protocol == "codex":
            agent = structs.replace(BUILT_IN["codex"], command=agent.command)
    except ValueError as error:
        raise UsageError(f"--command: {error}") from error
    return structs.replace(agent, name=_name_of(agent.command))


def _name_of(command: Sequence[str]) -> str:
    """Name the agent of a command: its program or, for an interpreter, the script that it runs."""
    program = os.path.basename(command[0])
    if not _INTERPRETER.fullmatch(program):
        return program
    for place, word in enumerate(command[1:], 1):
        if word in ("-c", "-e", "--eval"):
            break
        if word == "-m":
            return command[place + 1] if place + 1 < len(command) else program
        if not word.startswith("-"):
            return os.path.splitext(os.path.basename(word))[0] or program
    return program


def read_schema(given: str | None) -> JsonObject | None:
    """Return a JSON schema from the command line: the schema itself, or the name of a file.

    Returns None if `given` is None. Raises `UsageError`.
    """
    if given is None:
        return None
    text, where = given, "--json-schema"
    if not given.lstrip().startswith("{"):
        where = f"--json-schema {given}"
        try:
            text = Path(given).read_text(encoding="utf-8-sig")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UsageError(
                f"{where}: {reason}; give a file with a JSON schema, or the schema itself, which"
                " starts with {"
            ) from error
    try:
        schema: Any = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise UsageError(f"{where}: not valid JSON ({error})") from error
    if not isinstance(schema, dict):
        raise UsageError(f'{where}: a JSON schema must be an object, such as {{"type": …}}')
    return schema
