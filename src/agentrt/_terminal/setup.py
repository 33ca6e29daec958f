"""What a session of the command line is made of: which agent, where, bounded and allowed how."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from .._agents import BUILT_IN, Agent, acp, claude, find_agents, resolve_agent
from .._config import Config, ConfigError, PermissionMode
from .._errors import (
    AgentNotFound,
    AgentrtError,
    FolderNotTrusted,
    LocalProtocolError,
    SessionNotFound,
    StoreDamaged,
    StoreError,
    StoreUnavailable,
    TraceError,
)
from .._journal.address import is_server
from .._limits import Limits
from .._model.content import JsonObject
from .._model.fork_point import ForkPoint
from .._permissions.policies import (
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
from .._process.inherited import without_own
from .._runtime.open import open_session, reopen_session
from .._session.session import Session
from .bound import TIMED_OUT, TimedOut
from .kept import Kept, Own
from .text import one_line

_INTERPRETER = re.compile(r"python[\d.]*|pypy[\d.]*|node|bun|deno|ruby|perl|sh|bash|uvx|npx")
DEMO = "demo"
NO_AGENT = (
    "no agent is installed; `agentrt agents` lists agents and how to install them"
    " (`--agent demo` tries agentrt without one)"
)
DAMAGED = 3
"""The exit status for a store that is corrupt."""


class UsageError(AgentrtError):
    """The command line asks for something that makes no sense."""


def exit_code(error: AgentrtError) -> int:
    """The exit status for an error before, or instead of, a turn."""
    refused = UsageError | ConfigError | LocalProtocolError | TraceError | FolderNotTrusted
    if isinstance(error, refused):
        return 2
    if isinstance(error, StoreDamaged):
        return DAMAGED
    if isinstance(error, StoreError):
        return 1 if isinstance(error, StoreUnavailable) else 2
    if isinstance(error, TimedOut):
        return TIMED_OUT
    return 4 if isinstance(error, AgentNotFound | SessionNotFound) else 1


class Setup(Struct, frozen=True, kw_only=True):
    """All that is needed to open a session, and to open another one like it."""

    agent: Agent
    config: Config
    cwd: str = "."
    resume: str | None = None
    """The agent's own id of an earlier session."""
    fork: bool = False
    """That one stays as it is: a copy of it is gone on with."""
    fork_at: ForkPoint | None = None
    """Where that copy ends, if not at its end."""
    kept: Kept | None = None
    """A stored session that is gone on with."""
    moved: bool = False
    """True if that session continues in `cwd` instead of in its own folder."""
    store: str | None = None
    """What `--store` says."""
    model: str | None = None
    mode: str | None = None
    options: JsonObject = {}
    """What only this agent can be given: the `options` of `open_session`."""
    note: str = ""
    """Something to be said about the choice of the agent."""

    def policy(
        self, mode: PermissionMode, *, attended: bool = False, chosen: bool = True
    ) -> Policy:
        """The rules of the settings, and behind them what the mode says. `attended`: somebody is
        there, to be asked about what a rule may deny, and to fill in forms where everything is
        allowed. `chosen`: somebody has chosen the mode; without that, `deny` only answers what the
        agent asks. Raises `UsageError`."""
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
        """What is to be said about rules that cannot hold for this agent, or never apply to it.
        Raises `UsageError` where rules that deny would be worth nothing."""
        said = self.config.permissions
        if not (said.allow or said.deny):
            return []  # to read rules takes a while, also where there are none
        from .._permissions.reach import unreachable_rules

        # Claude Code asks before each call, whatever its mode is.
        unasked = () if self.agent.protocol == "claude" else self.agent.quirks.unasked_modes
        if said.deny and (self.mode in unasked or "*" in unasked):
            how = f"in its mode {self.mode} " if self.mode in unasked else ""
            raise UsageError(
                f"{self.agent.name} asks nobody {how}so that no --deny rule would hold"
            )
        doubts = []
        if said.deny and self.agent.quirks.unasked:
            doubts = [f"{self.agent.name} asks nobody when it {self.agent.quirks.unasked}"]
        return doubts + [
            f"the rule {rule} never applies: {why}"
            for rule, why in unreachable_rules(said.allow, said.deny, self.agent)
        ]

    @property
    def limits(self) -> Limits:
        """The bounds for this agent, with what the settings change."""
        from .._runtime.assembly import limits_for  # costs as much as all the rest

        return self.config.bound(limits_for(self.agent, None))

    @property
    def attended(self) -> Setup:
        """The same where a person sits, who ends a turn that takes too long: without a hard limit
        unless one was set."""
        limits = {"hard": None, **self.config.limits}
        return structs.replace(self, config=structs.replace(self.config, limits=limits))

    def open(
        self,
        policy: Policy,
        *,
        limits: Limits,
        replay: bool,
        on_stderr: Callable[[bytes], None] | None = None,
        own: Own | None = None,
    ) -> AbstractAsyncContextManager[Session]:
        """Open the session, to be kept in `own`. `replay`: have a resumed agent repeat the
        conversation. `on_stderr` sees what the agent writes to its standard error."""
        resume = self.resume
        if self.kept is not None:
            if own is not None:
                return self._reopen(own, self.kept, policy, limits, on_stderr)
            resume = self.kept.entry.agent_session  # all that can be done without a store
            if resume is None:
                raise SessionNotFound(f"{self.agent.name} itself keeps nothing of that session")
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
            env=agents_environment(self.config),
            trusted=self.config.trusted,
            on_stderr=on_stderr,
            journal=own.store if own is not None else None,
        )
        return opening if self.resume is None else _resumed(opening, self.resume)

    @asynccontextmanager
    async def _reopen(
        self,
        own: Own,
        kept: Kept,
        policy: Policy,
        limits: Limits,
        on_stderr: Callable[[bytes], None] | None,
    ) -> AsyncIterator[Session]:
        await own.fetch(kept)
        async with self._opening(
            reopen_session,
            kept.entry.session,
            own.store,
            agent=self.agent,
            cwd=self.cwd if self.moved else None,
            permissions=policy,
            limits=limits,
            env=agents_environment(self.config),
            trusted=self.config.trusted,
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
        """With a trace, if one is to be written."""
        if self.config.trace.file is None:
            return open(*arguments, **settings)
        from .tracing import traced

        return traced(self.config, partial(open, *arguments, **settings))

    def going_on(self, kept: Kept, agent: Agent) -> Setup:
        """With a stored session of this agent, in its folder and by its own settings."""
        return structs.replace(
            self.changed(agent), kept=kept, cwd=kept.entry.cwd, model=None, mode=None, options={}
        )

    def changed(self, agent: Agent) -> Setup:
        """A new conversation, perhaps with another agent: models and modes are each one's own."""
        new = structs.replace(
            self,
            agent=agent,
            resume=None,
            fork=False,
            fork_at=None,
            kept=None,
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
    """A session that is stored nowhere, so that only its agent may know it."""
    async with AsyncExitStack() as stack:
        try:
            session = await stack.enter_async_context(opening)
        except SessionNotFound as error:
            raise SessionNotFound(
                f"no session {one_line(resume)!r} is stored (`agentrt sessions` lists them), and"
                f" its agent does not know it either: {error}"
            ) from error
        yield session


def agents_environment(config: Config, *, server: bool = False) -> dict[str, str]:
    """The environment of the agents that a command starts: the person's own, as if they had started
    the agent by hand, without the variables that agentrt itself needs. A process that has a token
    can answer its own questions, and one that has the password of a store can write there.

    `server`: the command is `agentrt serve`.
    """
    stores = (config.serve.store, config.terminal.store)
    database = any(each is not None and is_server(each) for each in stores)
    return without_own(os.environ, server=server, database=database)


def _deny_questions(request: PermissionRequest) -> Decision:
    """Nobody is there to be asked."""
    return deny_all(request)


def _ask_forms(request: PermissionRequest) -> Decision:
    """Everything is allowed, but what a form wants to know only a person can say. (Claude's have
    no options, those of ACP bring a schema or a page.)"""
    fields = request.raw if isinstance(request.raw, dict) else {}
    form = not request.options or "requestedSchema" in fields or "url" in fields
    return Ask() if form else Allow()


def choose_agent(
    config: Config,
    name: str | None = None,
    command: str | None = None,
    protocol: str | None = None,
    *,
    demo: bool = False,
) -> tuple[Agent, str]:
    """Return the requested agent, or else the first installed one, and a note about the choice.

    With `demo`, the built-in demo agent stands in if no other agent is installed. Only a command
    with a person in front of it may ask for that: a script would take its answer for a model's.
    Raises `AgentNotFound` or `UsageError`.
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
        "no agent is installed; using the built-in demo agent, which has no model"
        " (`agentrt agents` lists agents and how to install them)"
    )


def _of_command(command: str, protocol: str | None) -> Agent:
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


def read_schema(said: str | None) -> JsonObject | None:
    """A JSON schema that was said on the command line: itself, or a file's name. Raises
    `UsageError`."""
    if said is None:
        return None
    text, where = said, "--json-schema"
    if not said.lstrip().startswith("{"):
        where = f"--json-schema {said}"
        try:
            text = Path(said).read_text(encoding="utf-8-sig")
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
