"""The start of a session with Claude Code: the reply to `initialize`, or the reason for its
absence.

A CLI that cannot start does not reply: it writes a `result` with its reasons, or just exits.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec.structs import replace

from ..model.content import JsonObject
from ..model.driver import Effect, Opening, Started, StartFailed
from ..model.events import ErrorInfo, Notice
from . import messages as wire
from .options import ClaudeOptions

REFUSALS = {
    "cli_version_too_old": "version",
    "org_pin_api_key_conflict": "auth_required",
    "org_verify_failed": "auth_required",
    "org_pin_mismatch": "auth_required",
    "gateway_signin_required": "auth_required",
    "gateway_access_denied": "auth_required",
    "org_config_refused": "auth_required",
}
"""Claude's refusal reasons as codes of `StartFailed`; all other reasons are `rejected`."""


OLDEST = "2.1.165"
"""The oldest Claude Code that agentrt is tested with."""

NOT_LOGGED_IN = (
    "Claude Code is not logged in: run `claude` and type /login, or set ANTHROPIC_API_KEY"
    " or CLAUDE_CODE_OAUTH_TOKEN (`claude setup-token` makes one)"
)

UNKNOWN_SESSION = ("No conversation found", "does not match any session")
"""Claude's messages about a session to be resumed that does not exist, by its id or by its
title."""


class ClaudeHandshake:
    """The handshake of one session. It ends once, with `Started` or `StartFailed`.

    Afterwards it tracks the session's id. `files`: True if Claude's stored files can be read from
    this process, which is needed to list its sessions.
    """

    def __init__(self, *, files: bool = True) -> None:
        """Begin without a reply."""
        self.started: Started | None = None
        self._files = files
        self._failed = False
        self._too_old = False
        """True if that was reported."""

    @property
    def over(self) -> bool:
        """True if the handshake has succeeded or failed."""
        return self._failed or self.started is not None

    def accepted(
        self, reply: JsonObject, opening: Opening, options: ClaudeOptions, out: list[Effect]
    ) -> None:
        """Take a successful reply to `initialize`."""
        resumes = opening.resume is not None and not opening.fork
        session = opening.resume if resumes else options.session_id
        self.started = Started(
            session=session or "",
            agent_version=wire.text(reply.get("claude_code_version")),
            resumed=opening.resume is not None,
            capabilities={
                "resume": resumes and options.persist,
                "fork": options.persist,
                "list_sessions": self._files,
                "delete_session": self._files,
                "fork_at": options.persist,
                "steer": True,
                "image": True,
                "audio": False,
                "embedded_context": True,
                "account": reply.get("account"),
                "agents": reply.get("agents"),
                "output_styles": reply.get("available_output_styles"),
            },
        )
        out.append(self.started)
        if not logged_in(reply.get("account")):
            out.append(Notice("warning", "auth_required", NOT_LOGGED_IN))
        self._judge(self.started.agent_version, out)

    def session_is(self, init: JsonObject, options: ClaudeOptions, out: list[Effect]) -> None:
        """Take the session's id from a turn's `init`. From then on the session can be resumed."""
        known, session = self.started, wire.text(init.get("session_id"))
        if known is None or session is None:
            return
        capabilities = {**known.capabilities, "resume": options.persist}
        version = wire.text(init.get("claude_code_version")) or known.agent_version
        new = replace(known, session=session, agent_version=version, capabilities=capabilities)
        if new != known:
            self.started = new
            out.append(new)
        self._judge(version, out)

    def _judge(self, version: str | None, out: list[Effect]) -> None:
        """Report once that a CLI is too old. 2.1.165 reports its version only when a turn
        begins."""
        if version is not None and is_older(version) and not self._too_old:
            self._too_old = True
            message = f"Claude Code {version} is older than {OLDEST}, the oldest that is supported"
            out.append(Notice("warning", "version", message, {"oldest": OLDEST}))

    def refused(self, m: wire.Result, out: list[Effect]) -> None:
        """Take an unsuccessful result before the reply: Claude reports why it does not start."""
        said = m.errors if isinstance(m.errors, list) else [m.result]
        text = "\n".join(wire.texts(said)) or "the agent refused to start"
        code = REFUSALS.get(str(m.startup_failure_reason), "rejected")
        if any(words in text for words in UNKNOWN_SESSION):
            code = "session_not_found"
        self.fail(code, text, out)

    def fail(self, code: str, message: str, out: list[Effect]) -> None:
        """Report that the start failed, unless the handshake is over."""
        if not self.over:
            self._failed = True
            out.append(StartFailed(ErrorInfo(code, message)))


def is_older(version: str) -> bool:
    """Return True if a version of Claude Code is before `OLDEST`. False if it is not a version."""
    return (_release(version) or _release(OLDEST)) < _release(OLDEST)


def _release(version: str) -> tuple[int, ...]:
    """Return the three numbers of a version, or an empty tuple."""
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    return tuple(map(int, found.groups())) if found is not None else ()


def logged_in(account: Any) -> bool:
    """Return False if the reply reports missing credentials.

    With the API of a cloud, the reply does not mention credentials.
    """
    if not isinstance(account, dict) or "tokenSource" not in account:
        return True
    return any(account.get(name) not in (None, "none") for name in ("tokenSource", "apiKeySource"))
