"""Start of an agent in a trusted or untrusted folder.

`_core/agents/projects.py` has the rules; this module applies them to a session.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar, get_args

import trio
from msgspec import Struct, structs

from ..agents import Agent
from ..agents.projects import (
    ProjectRules,
    ProjectVerdict,
    TrustMode,
    codex_argument,
    codex_projects,
    is_trusted,
    judge,
    project_rules,
    qwen_settings,
)
from ..errors import AgentStartError, FolderNotTrusted
from ..model.content import JsonObject
from ..model.driver import Opening
from ..model.events import Notice

if TYPE_CHECKING:
    from ..agents.project_scan import ProjectScan
    from ..claude.options import ClaudeOptions
    from ..session.host import SessionHost

Trusted: TypeAlias = Iterable[str | os.PathLike[str]]
"""Folders whose files agents may act on, whatever they contain."""

T = TypeVar("T")

QWEN_SETTINGS: Final = "QWEN_CODE_SYSTEM_SETTINGS_PATH"
QWEN_FOLDERS: Final = "QWEN_CODE_TRUSTED_FOLDERS_PATH"
QWEN_MACHINE: Final = "/etc/qwen-code/settings.json"

MAX_SHOWN_FILES: Final = 6
"""Number of files that a notice names."""

HOW_TO_TRUST: Final = (
    "to trust it, list it under `trusted` in your configuration file, use `agentrt trust add` or"
    ' --trust=yes, or open the session with trust="yes"'
)

_HOW_TO_DECLARE: Final = (
    "If it does not act on that file, list the files that it acts on as `project_files` of the"
    " agent (maybe none: [])"
)


def checked_trusted(given: Trusted) -> tuple[str | os.PathLike[str], ...]:
    """Return the folders. Raises `TypeError`."""
    if isinstance(given, bool):
        raise TypeError(
            'trusted must be a list of folders, not a bool: use trust="yes" or trust="no"'
        )
    if isinstance(given, str | bytes | os.PathLike):
        raise TypeError(f"trusted must be a list of folders: give [{given!r}]")
    if not isinstance(given, Iterable):
        raise TypeError(f"trusted must be a list of folders, not {type(given).__name__}")
    folders = tuple(given)
    for each in folders:
        if not isinstance(each, str | os.PathLike):
            raise TypeError(f"trusted: a folder is a string or a path, not {type(each).__name__}")
    return folders


def checked_trust(given: TrustMode) -> TrustMode:
    """Return the mode. Raises `TypeError` or `ValueError`."""
    if not isinstance(given, str):
        raise TypeError(f"trust must be 'ask', 'yes' or 'no', not {type(given).__name__}")
    if given not in get_args(TrustMode):
        raise ValueError(f"trust must be 'ask', 'yes' or 'no', not {given!r}")
    return given


class ProjectStart(Struct, kw_only=True):
    """The start of a session's agent, depending on the trust in its folders."""

    agent: Agent
    rules: ProjectRules
    folders: tuple[str, ...]
    """The working folder first, followed by the roots."""
    trusted: bool
    """True if the next process may act on the files. The session's `TrustGate` decides it before
    each start.
    """
    listed: bool = False
    """True if the user lists all folders as trusted, whatever they contain."""
    mode: TrustMode = "no"
    origin: str | None = None
    """The folder of which the working folder is a working tree. Decisions are about this folder."""
    opens: bool = True
    """False if the agent is only asked about its sessions and opens none."""

    # --- settings for the agent

    def claude_options(self, options: ClaudeOptions) -> ClaudeOptions:
        """Return the agent's options with restrictions added; options set explicitly are kept."""
        if self.trusted or options.legacy:
            return options
        usual = type(options)()
        changes = {
            name: value
            for name, value in self.rules.claude.items()
            if getattr(options, name) == getattr(usual, name)
        }
        return structs.replace(options, **changes)

    @property
    def meta(self) -> JsonObject:
        """The `_meta` of the requests that open an ACP session."""
        return {} if self.trusted else self.rules.meta

    @property
    def refused_modes(self) -> Mapping[str, str]:
        """Modes that must not be chosen, with the reasons."""
        if self.trusted:
            return {}
        why = (
            f"{self.agent.name} would trust the folder permanently in its own"
            " configuration in the mode {!r}, and the folder is not trusted"
        )
        return {mode: f"{why.format(mode)} ({HOW_TO_TRUST})" for mode in self.rules.refused_modes}

    @property
    def thread_config(self) -> JsonObject:
        """Codex's configuration of a thread."""
        if self.rules.codex_projects != "thread":
            return {}
        return {"projects": codex_projects(self._named, trusted=self.trusted)}

    @property
    def arguments(self) -> tuple[str, ...]:
        """Arguments added to the agent's command."""
        if self.rules.codex_projects != "argument":
            return ()
        return codex_argument(codex_projects(self._named, trusted=self.trusted))

    @property
    def _named(self) -> tuple[str, ...]:
        """The folders, and the one of which the first is a working tree: Codex may look it up."""
        return self.folders if self.origin is None else (*self.folders, self.origin)

    @property
    def env(self) -> Mapping[str, str]:
        """Variables to set."""
        return self.rules.trusted_env if self.trusted else self.rules.env

    @property
    def unset_env(self) -> frozenset[str]:
        """Variables to remove."""
        return frozenset() if self.trusted else frozenset(self.rules.unset_env)

    # --- at the start

    async def scan(self, env: Mapping[str, str]) -> tuple[ProjectScan, ...]:
        """Read the files of the folders that the agent acts on."""
        if not self.rules.files:
            return ()
        from ..agents.project_scan import read_project_files

        home = env.get("HOME", "")
        scans = await _in_thread(
            lambda: [read_project_files(each, self.rules.files, home) for each in self.folders]
        )
        if self.origin is not None:
            scans[0] = structs.replace(scans[0], folder=self.origin)
        return tuple(scans)

    async def files_to_hide(
        self, env: Mapping[str, str], *, hides: bool = False
    ) -> tuple[str, ...]:
        """Examine the folders, and return the files that must be hidden from the agent.

        `hides`: a sandbox can hide files. Raises `FolderNotTrusted` if files would have to be
        hidden and cannot be.
        """
        if self.trusted:
            return ()
        verdict = await self._look(env)
        if hides:
            return tuple(self._hidden(verdict))
        if refusal := self._refusal(verdict):
            other = f"{_HOW_TO_DECLARE}; otherwise" if self.rules.declares else "Otherwise"
            raise FolderNotTrusted(
                f"{self.agent.name} is not started in {self.folders[0]!r}, because the folder is"
                f" not trusted and {refusal}. {other}, {HOW_TO_TRUST}",
                folder=self.folders[0],
            )
        return ()

    @property
    def writes_files(self) -> bool:
        """True if the agent needs `written_files`."""
        return self.rules.qwen_settings and not self.trusted and QWEN_SETTINGS not in self.agent.env

    @asynccontextmanager
    async def written_files(self, env: Mapping[str, str]) -> AsyncIterator[Mapping[str, str]]:
        """Write the files that keep the agent from the project, while its process lives.

        Yields the environment for the start.
        """
        with tempfile.TemporaryDirectory(prefix="agentrt-") as place:
            files = await trio.to_thread.run_sync(self._write_qwen_files, Path(place), env)
            yield {**env, **files}

    def _refusal(self, verdict: ProjectVerdict) -> str:
        """Return the reason why the agent must not be started without a sandbox."""
        if not self.rules.known and self.mode == "ask" and verdict.found:
            # A person was asked, and has not said yes.
            return verdict.refusal or f"it may act on {verdict.found[0].path}"
        return verdict.refusal

    def _hidden(self, verdict: ProjectVerdict) -> list[str]:
        """Return the files that a sandbox hides from an agent that settings do not keep from them.

        Files of ordinary work, such as `.env`, are hidden only if the agent is known to act on
        them.
        """
        if self.rules.known and not verdict.refusal:
            return []
        return [each.path for each in verdict.found if self.rules.known or each.file.protected]

    async def ignores_files(self, env: Mapping[str, str], *, hides: bool) -> bool:
        """Return True if the agent can be started without acting on the files."""
        return hides or not self._refusal(await self._look(env))

    async def _look(self, env: Mapping[str, str]) -> ProjectVerdict:
        """Examine the folders in a thread. Raises `AgentStartError` if no thread can be started."""
        return await _in_thread(lambda: judge(self.rules, self.folders, env, opens=self.opens))

    def _write_qwen_files(self, place: Path, env: Mapping[str, str]) -> dict[str, str]:
        """Write the settings by which Qwen Code does not trust the folders. Blocks.

        Qwen Code reads two files whose places its environment can change: the settings of the
        machine, to which folder trust is added, and the list of trusted folders. Returns these
        variables. Raises `AgentStartError` if the settings of the machine cannot be read.
        """
        machine = Path(env.get(QWEN_SETTINGS) or QWEN_MACHINE)
        try:
            settings = qwen_settings(machine.read_text() if machine.exists() else None)
        except (OSError, ValueError) as error:
            raise AgentStartError(
                f"{machine}: Qwen Code's settings cannot be read: {error}"
            ) from error
        folders = {name for each in self.folders for name in (each, os.path.realpath(each))}
        written = {
            QWEN_SETTINGS: (place / "settings.json", settings),
            QWEN_FOLDERS: (place / "trustedFolders.json", dict.fromkeys(folders, "DO_NOT_TRUST")),
        }
        for path, content in written.values():
            path.write_text(json.dumps(content))
        return {name: str(path) for name, (path, _) in written.items()}

    # --- notices for the user

    async def notices(
        self, env: Mapping[str, str], *, tools: bool, hides: bool = False
    ) -> list[Notice]:
        """Return notices about files that are ignored in an untrusted folder.

        `tools`: the program provides tools to the agent. `hides`: a sandbox can hide files.
        """
        if self.trusted:
            return []
        return self._told(await self._look(env), tools=tools, hides=hides)

    def _told(self, verdict: ProjectVerdict, *, tools: bool, hides: bool) -> list[Notice]:
        """Return the notices about the files and tools that the agent does not get.

        `tools`: the program provides tools or MCP servers. `hides`: a sandbox hides the files.
        """
        if self._refusal(verdict) and not hides:
            return []  # the start reports it
        told: list[Notice] = []
        folder = self.folders[0]
        hidden = self._hidden(verdict) if hides else []
        files = hidden or [each.path for each in verdict.found]
        if files:
            shown = ", ".join(os.path.relpath(path, folder) for path in files[:MAX_SHOWN_FILES])
            more = (
                f" and {len(files) - MAX_SHOWN_FILES} more" if len(files) > MAX_SHOWN_FILES else ""
            )
            if hidden:
                message = f"the sandbox hides {shown}{more} from {self.agent.name}"
            elif self.rules.known:
                message = f"{self.agent.name} ignores {shown}{more}"
            else:
                message = f"{self.agent.name} may act on {shown}{more}"
            message += f": the folder is not trusted ({HOW_TO_TRUST})"
            data = {"folder": folder, "files": files, "ignored": bool(hidden) or self.rules.known}
            told.append(Notice("warning", "folder_not_trusted", message, data))
        if tools and self.rules.tools_lost:
            message = (
                f"{self.agent.name} does not get this program's tools and MCP servers, because it"
                f" starts none in a folder that is not trusted ({HOW_TO_TRUST})"
            )
            told.append(Notice("warning", "tools_not_trusted", message, {"folder": folder}))
        return told


class ClosedGate:
    """Starts an agent that ignores the files of its project, and reports what it ignores.

    This is the gate of folders that are neither trusted nor asked about, as in most sessions.
    `TrustGate` is that of all others.
    """

    def __init__(
        self, project: ProjectStart, env: Mapping[str, str], *, tools: bool, hides: bool
    ) -> None:
        """`env`: the agent's environment. `tools`: the program provides tools to the agent.
        `hides`: there is a sandbox, which can hide files.
        """
        self._project = project
        self._env = env
        self._tools = tools
        self._hides = hides
        self._reported = ""
        """The subject of the last notice."""

    @property
    def watches(self) -> bool:
        """True if the files are checked after each turn."""
        return False

    async def prepare(self, host: SessionHost) -> bool:
        """As `StartGate.prepare`."""
        return True

    async def admit(self, host: SessionHost) -> None:
        """As `StartGate.admit`."""
        for notice in await self._project.notices(self._env, tools=self._tools, hides=self._hides):
            key = f"{notice.code} {notice.message}"
            if key != self._reported:
                self._reported = key
                host.core.add_notice(notice)

    async def after_turn(self, host: SessionHost) -> None:
        """As `StartGate.after_turn`. Not called, because nothing is watched."""


async def _in_thread(work: Callable[[], T]) -> T:
    """Run a blocking function in a thread. Raises `AgentStartError` if no thread can be started."""
    try:
        return await trio.to_thread.run_sync(work)
    except RuntimeError as error:  # no thread can be started
        raise AgentStartError(f"the project cannot be examined: {error}") from error


def project_start(
    agent: Agent,
    opening: Opening,
    trusted: Trusted,
    mode: TrustMode = "no",
) -> ProjectStart:
    """Return the start of an agent in its folders.

    `trusted`: the folders that the user trusts. `mode`: the treatment of all others. A session's
    folders are trusted only together: the agent reads the files of all of them. Trust in a folder
    counts for a working tree of it.
    """
    folders = (opening.cwd, *opening.roots)
    known = tuple(trusted)
    origin = None if opening.worktree is None else opening.worktree.folder
    judged = (opening.cwd if origin is None else origin, *opening.roots)
    listed = all(is_trusted(folder, known) for folder in judged)
    return ProjectStart(
        agent=agent,
        rules=project_rules(agent),
        folders=folders,
        trusted=listed or mode == "yes",
        listed=listed,
        mode=mode,
        origin=None if origin is None else os.path.realpath(origin),
        opens=opening.options.get("session") is not False,
    )
